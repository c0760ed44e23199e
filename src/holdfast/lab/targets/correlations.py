"""The correlation pictures: every attribute with the label, in the environments and in the halves of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from holdfast.lab import paper
from holdfast.lab.targets.natural import ENVIRONMENT
from holdfast.lab.targets.notes import JUDGES, what_differs
from holdfast.lab.targets.planning import plan_halves, records_of, summarize
from holdfast.lab.targets.values import Options, Plan, Reader, Record, Report
from holdfast.reports.values import HeatMap, Table


def plan_correlations(options: Options) -> Plan:
    """Return stages 1 and 2 on both natural data sets."""
    return plan_halves(paper.OPPOSITE, options)


def report_correlations(options: Options, plan: Plan, read: Reader) -> Report:
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
