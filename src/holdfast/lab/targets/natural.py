"""Natural environments: Tables 3 and 4 by attribute, and the attributes' correlations in the halves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.lab import paper
from holdfast.lab.targets.results import (
    JUDGES,
    Ours,
    Reader,
    Report,
    records_of,
    selection_note,
    summarize,
    summarize_setting,
    what_differs,
)
from holdfast.lab.targets.sources import Plan, Record
from holdfast.reports.values import HeatMap, Table

ENVIRONMENT = {"ask2me": "breast cancer", "celeba": "Male"}  # the attribute that the environments are
_N_SHOWN = 5  # attributes of the short table: those where ERM is worst


def report_natural(key: str, plan: Plan, read: Reader) -> Report:
    """Return worst and average accuracy: means, claims, the attributes where ERM is worst, and every attribute."""
    published = paper.NATURAL[key]
    found = {m: records_of(plan.runs, read, f"{key} {paper.METHODS[m]}") for m in paper.NATURAL_METHODS}
    if not any(found.values()):
        return Report()
    rows, full, worst = [], [], {}
    for method, records in found.items():
        if not records:
            continue
        for score, column in (("worst", 0), ("average", 1)):
            ours = summarize_setting(records, "train", "test", score)
            printed = published["Average"][method][column]
            title = paper.METHODS[method]
            rows.append((title, score, printed, ours.cell(), ours.minus(printed), ours.n_seeds))
            if score == "worst":
                worst[method] = ours
        full += _attribute_rows(key, method, records)
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
            _claims(key, worst),
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


def _claims(key: str, worst: Mapping[str, Ours]) -> Table:
    """Return PI's gains of the text next to ours."""
    claim, over_irm = paper.GAINS_OVER_DRO[key], paper.NATURAL_GAIN_OVER_IRM
    printed = paper.NATURAL[key]["Average"]["pi"][0] - paper.NATURAL[key]["Average"]["irm"][0]
    rows = [
        (claim.text, claim.value, _gain(worst, "group_dro")),
        ("PI over IRM, mean worst accuracy", printed, _gain(worst, "irm")),
    ]
    note = f"In the text: {over_irm.text}, {over_irm.value}; the part of this data set follows from the paper's table."
    return Table("Claims of the text", ("claim", "paper", "ours"), tuple(rows), note, digits=2)


def _gain(worst: Mapping[str, Ours], baseline: str) -> float:
    """Return PI's mean worst accuracy minus a baseline's; NaN where one of them was not run."""
    return worst["pi"].mean - worst[baseline].mean if {"pi", baseline} <= set(worst) else math.nan


def _attribute_rows(key: str, method: str, records: list[Record]) -> list[tuple[Any, ...]]:
    """Return a method's row for each attribute."""
    rows = []
    for name in records[0]["settings"]["train"]["test"]["attributes"]:
        paths = ("test", "attributes", name)
        worst, average, low, high = (
            summarize_setting(records, "train", *paths, score)
            for score in ("worst", "average", "worst_low", "worst_high")
        )
        printed = paper.NATURAL[key].get(name, {}).get(method)
        smallest = min(r["settings"]["train"]["test"]["attributes"][name]["worst_rows"] for r in records)
        rows.append(
            (
                name,
                paper.METHODS[method],
                None if printed is None else printed[0],
                worst.cell(),
                f"{low.mean:.0f}–{high.mean:.0f}",
                smallest,
                None if printed is None else printed[1],
                average.cell(),
            )
        )
    return rows


def _erm_worst(rows: list[tuple[Any, ...]], attribute: str) -> float:
    found = [row[3].value for row in rows if row[0] == attribute and row[1] == "ERM" and row[3] is not None]
    return float(found[0]) if found else math.inf


def report_correlations(plan: Plan, read: Reader) -> Report:
    """Return attribute × {environments, halves}, and for how many attributes the halves have opposite signs."""
    tables, claims, maps = [], [], []
    for key in paper.OPPOSITE:
        records = records_of(plan.runs, read, key)
        if records:
            table, picture = _correlations(key, records)
            tables.append(table)
            maps.append(picture)
            claims += _opposite(key, records)
    if not tables:
        return Report()
    note = (
        "'ours' is the mean over seeds. Attributes that are constant in a half of a seed are not counted there. "
        f"{JUDGES} {what_differs(plan, read)}"
    )
    columns = ("data set", "judged", "by", "paper", "ours", "each seed")
    title = "Attributes with opposite signs in the halves"
    tables.append(Table(title, columns, tuple(claims), note.strip(), digits=1, n_keys=3))
    return Report(tuple(tables), figures=tuple(maps))


def _correlations(key: str, records: Sequence[Record]) -> tuple[Table, HeatMap]:
    """Return the means over seeds as a table with spreads, and as a picture."""
    found = [_entries(record) for record in records]
    names = [name for name in next(iter(found[0].values()))["correlations"] if name != ENVIRONMENT[key]]
    ours = {
        place: [summarize([entries[place]["correlations"][name] for entries in found]) for name in names]
        for place in found[0]
    }
    rows = [(name, *(ours[place][i].cell() for place in ours)) for i, name in enumerate(names)]
    sizes = {place: _sizes([entries[place]["n_rows"] for entries in found]) for place in ours}
    over = "one seed" if len(records) == 1 else f"mean of {len(records)} seeds"
    title = f"{key}: correlation with the label, {over}"
    few = "" if len(records) == 1 else "Where an attribute is constant in a seed, the mean is that of the others. "
    note = f"{few}Rows: {'; '.join(f'{place}: {size}' for place, size in sizes.items())}."
    order = sorted(ours, key=lambda place: (_judged(place), place != _judged(place)))
    picture = HeatMap(
        title,
        tuple(f"{place} ({sizes[place]})" for place in order),
        tuple(names),
        tuple(tuple(value.mean for value in ours[place]) for place in order),
        "correlation",
        "rows",
        "attributes",
        note,
        tuple(i for i in range(1, len(order)) if _judged(order[i]) != _judged(order[i - 1])),
    )
    return Table(title, ("attribute", *ours), tuple(rows), note), picture


def _entries(record: Record) -> dict[str, dict[str, Any]]:
    """Return the environments and halves of a record by what they are called."""
    environments = {str(entry["environment"]): entry for entry in record["data"]["environments"]}
    return environments | {f"{h['judged']} by {h['judge']}: {h['half']}": h for h in record["halves"]}


def _judged(place: str) -> str:
    """Return the environment that a place is, or is a half of."""
    return place.partition(" by ")[0]


def _sizes(counts: Sequence[int]) -> str:
    """Return the count, or the range over seeds."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _opposite(key: str, records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Return for each pair of halves how many attributes have opposite signs in them, seed by seed."""
    counts: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for record in records:
        for first, second in zip(record["halves"][::2], record["halves"][1::2], strict=True):
            products = [
                value * second["correlations"][name]
                for name, value in first["correlations"].items()
                if name != ENVIRONMENT[key]
            ]
            known = [product < 0 for product in products if not math.isnan(product)]
            counts.setdefault((first["judged"], first["judge"]), []).append((sum(known), len(known)))
    n_opposite, n_attributes = paper.OPPOSITE[key]
    return [
        (
            key,
            judged,
            judge,
            f"{n_opposite} of {n_attributes}",
            summarize([float(count) for count, _ in found]).cell(),
            ", ".join(f"{count} of {n}" for count, n in found),
        )
        for (judged, judge), found in counts.items()
    ]
