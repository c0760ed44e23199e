"""Natural environments: Tables 3 and 4 (every attribute's worst and average accuracy) and the correlation pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdfast.experiments import paper
from holdfast.experiments.targets.planning import (
    Options,
    Plan,
    Reader,
    Record,
    Table,
    plan_halves,
    plan_methods,
)
from holdfast.experiments.targets.summaries import difference, records_of, selection_note, setting_values, summarize

Published = Mapping[str, Mapping[str, tuple[float, float]]]
_ENVIRONMENT = {"ask2me": "breast cancer", "celeba": "Male"}
_N_SHOWN = 5  # attributes of the short table: those where ERM is worst


def plan_table3(options: Options) -> Plan:
    """Return five methods on ASK2ME."""
    return plan_methods(["ask2me"], options, paper.METHODS)


def plan_table4(options: Options) -> Plan:
    """Return five methods on CelebA."""
    return plan_methods(["celeba"], options, paper.METHODS)


def report_table3(options: Options, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return worst and average accuracy for every attribute of ASK2ME."""
    return _report("ask2me", paper.TABLE3, plan, read)


def report_table4(options: Options, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return worst and average accuracy for every attribute of CelebA."""
    return _report("celeba", paper.TABLE4, plan, read)


def _report(key: str, published: Published, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return the table of the paper (the worst attributes and the mean) and the full one."""
    found = {m: records_of(plan.runs, read, f"{key} {paper.METHODS[m]}") for m in paper.NATURAL_METHODS}
    if not any(found.values()):
        return {"tables": []}
    rows, full = [], []
    for method, records in found.items():
        if not records:
            continue
        for score, column in (("worst", 0), ("average", 1)):
            ours = summarize(setting_values(records, "train", "test", score))
            printed = published["Average"][method][column]
            title = paper.METHODS[method]
            rows.append((title, score, printed, ours.cell(), difference(ours, printed), ours.n_seeds))
        full += _attribute_rows(method, records, published)
    order = sorted({row[0] for row in full}, key=lambda name: _erm_worst(full, name))
    short = {*order[:_N_SHOWN], _ENVIRONMENT[key]}
    columns = ("attribute", "method", "paper: worst", "worst", "95 %", "lowest rows", "paper: average", "average")
    note = (
        "Worst: the least accurate of the label × attribute cells; '95 %' is its bootstrap interval over test rows "
        "(the mean of the seeds' bounds), 'lowest rows' the fewest rows that it has in any seed: few rows make it a "
        "rough number."
    )
    return {
        "tables": [
            Table(
                "Mean over attributes, percent",
                ("method", "score", "paper", "ours", "difference", "seeds"),
                tuple(rows),
                selection_note(record for records in found.values() for record in records),
                digits=2,
            ),
            Table(
                "The attributes where ERM is worst",
                columns,
                tuple(row for row in full if row[0] in short),
                note,
                digits=1,
            ),
            Table("Every attribute", columns, tuple(full), note, digits=1),
        ]
    }


def _attribute_rows(method: str, records: list[Record], published: Published) -> list[tuple[Any, ...]]:
    """Return a method's row for each attribute."""
    rows = []
    for name in records[0]["settings"]["train"]["test"]["attributes"]:
        paths = ("test", "attributes", name)
        worst = summarize(setting_values(records, "train", *paths, "worst"))
        average = summarize(setting_values(records, "train", *paths, "average"))
        printed = published.get(name, {}).get(method)
        bounds = [summarize(setting_values(records, "train", *paths, end)).mean for end in ("worst_low", "worst_high")]
        smallest = min(r["settings"]["train"]["test"]["attributes"][name]["worst_rows"] for r in records)
        rows.append(
            (
                name,
                paper.METHODS[method],
                None if printed is None else printed[0],
                worst.cell(),
                f"{bounds[0]:.0f}–{bounds[1]:.0f}",
                smallest,
                None if printed is None else printed[1],
                average.cell(),
            )
        )
    return rows


def _erm_worst(rows: list[tuple[Any, ...]], attribute: str) -> float:
    found = [row[3][0] for row in rows if row[0] == attribute and row[1] == "ERM" and row[3] is not None]
    return float(found[0]) if found else math.inf


def plan_correlations(options: Options) -> Plan:
    """Return stages 1 and 2 on both natural data sets."""
    return plan_halves(paper.OPPOSITE, options)


def report_correlations(options: Options, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return attribute × {environments, halves}, and for how many attributes the halves have opposite signs."""
    tables, claims = [], []
    for key, (n_opposite, n_attributes) in paper.OPPOSITE.items():
        records = records_of(plan.runs, read, key)
        if not records:
            continue
        record = records[0]
        environments, halves = record["data"]["environments"], record["halves"]
        columns = [e["environment"] for e in environments]
        columns += [f"{h['judged']} by {h['judge']}: {h['half']}" for h in halves]
        names = [name for name in environments[0]["correlations"] if name != _ENVIRONMENT[key]]
        rows = [(name, *(entry["correlations"][name] for entry in (*environments, *halves))) for name in names]
        sizes = ", ".join(
            f"{column}: {e['n_rows']:,} rows" for column, e in zip(columns, (*environments, *halves), strict=True)
        )
        tables.append(Table(f"{key}: correlation with the label, seed 0", ("attribute", *columns), tuple(rows), sizes))
        for first, second in zip(halves[::2], halves[1::2], strict=True):
            pairs = [(first["correlations"][name], second["correlations"][name]) for name in names]
            known = [a * b < 0 for a, b in pairs if not math.isnan(a * b)]
            label = f"{first['judged']} judged by {first['judge']}"
            claims.append((key, label, f"{n_opposite} of {n_attributes}", f"{sum(known)} of {len(known)}"))
    if claims:
        columns_of_claims = ("data set", "halves", "paper", "ours")
        tables.append(Table("Attributes with opposite signs in the halves", columns_of_claims, tuple(claims)))
    return {"tables": tables}
