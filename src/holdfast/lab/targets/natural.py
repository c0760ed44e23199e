"""Natural environments: Tables 3 and 4, every attribute's worst and average accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdfast.lab import paper
from holdfast.lab.targets.notes import selection_note, what_differs
from holdfast.lab.targets.planning import Ours, difference, plan_methods, records_of, setting_values, summarize
from holdfast.lab.targets.values import Options, Plan, Reader, Record, Report
from holdfast.reports.values import Table

Published = Mapping[str, Mapping[str, tuple[float, float]]]
ENVIRONMENT = {"ask2me": "breast cancer", "celeba": "Male"}  # the attribute that the environments are
_N_SHOWN = 5  # attributes of the short table: those where ERM is worst


def plan_table3(options: Options) -> Plan:
    """Return five methods on ASK2ME."""
    return plan_methods(["ask2me"], options, paper.METHODS)


def plan_table4(options: Options) -> Plan:
    """Return five methods on CelebA."""
    return plan_methods(["celeba"], options, paper.METHODS)


def report_table3(options: Options, plan: Plan, read: Reader) -> Report:
    """Return worst and average accuracy for every attribute of ASK2ME."""
    return _report("ask2me", paper.TABLE3, plan, read)


def report_table4(options: Options, plan: Plan, read: Reader) -> Report:
    """Return worst and average accuracy for every attribute of CelebA."""
    return _report("celeba", paper.TABLE4, plan, read)


def _report(key: str, published: Published, plan: Plan, read: Reader) -> Report:
    """Return the table of the paper (the worst attributes and the mean) and the full one."""
    found = {m: records_of(plan.runs, read, f"{key} {paper.METHODS[m]}") for m in paper.NATURAL_METHODS}
    if not any(found.values()):
        return Report()
    rows, full, worst = [], [], {}
    for method, records in found.items():
        if not records:
            continue
        for score, column in (("worst", 0), ("average", 1)):
            ours = summarize(setting_values(records, "train", "test", score))
            printed = published["Average"][method][column]
            title = paper.METHODS[method]
            rows.append((title, score, printed, ours.cell(), difference(ours, printed), ours.n_seeds))
            if score == "worst":
                worst[method] = ours
        full += _attribute_rows(method, records, published)
    order = sorted({row[0] for row in full}, key=lambda name: _erm_worst(full, name))
    short = {*order[:_N_SHOWN], ENVIRONMENT[key]}
    columns = ("attribute", "method", "paper: worst", "worst", "95 %", "lowest rows", "paper: average", "average")
    note = (
        "Worst: the least accurate of the label × attribute cells; '95 %' is its bootstrap interval over test rows "
        "(the mean of the seeds' bounds), 'lowest rows' the fewest rows that it has in any seed: few rows make it a "
        "rough number."
    )
    chosen = selection_note(record for records in found.values() for record in records)
    return Report(
        (
            Table(
                "Mean over attributes, percent",
                ("method", "score", "paper", "ours", "difference", "seeds"),
                tuple(rows),
                f"{chosen} {what_differs(plan, read)}".strip(),
                digits=2,
                n_keys=2,
            ),
            _claims(key, worst, published),
            Table(
                "The attributes where ERM is worst",
                columns,
                tuple(row for row in full if row[0] in short),
                note,
                digits=1,
                n_keys=2,
            ),
            Table("Every attribute", columns, tuple(full), note, digits=1, n_keys=2),
        )
    )


def _claims(key: str, worst: Mapping[str, Ours], published: Published) -> Table:
    """Return PI's gains of the text beside ours."""
    claim, over_irm = paper.GAINS_OVER_DRO[key], paper.NATURAL_GAIN_OVER_IRM
    printed = published["Average"]["pi"][0] - published["Average"]["irm"][0]
    rows = [
        (claim.text, claim.value, _gain(worst, "group_dro")),
        ("PI over IRM, mean worst accuracy", printed, _gain(worst, "irm")),
    ]
    note = f"In the text: {over_irm.text}, {over_irm.value}; the part of this data set follows from the paper's table."
    return Table("Claims of the text", ("claim", "paper", "ours"), tuple(rows), note, digits=2)


def _gain(worst: Mapping[str, Ours], baseline: str) -> float:
    """Return PI's mean worst accuracy minus a baseline's; NaN where one of them was not run."""
    return worst["pi"].mean - worst[baseline].mean if {"pi", baseline} <= set(worst) else math.nan


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
    found = [row[3].value for row in rows if row[0] == attribute and row[1] == "ERM" and row[3] is not None]
    return float(found[0]) if found else math.inf
