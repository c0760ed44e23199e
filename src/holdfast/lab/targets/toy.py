"""The toy figure's three panels: the judge, its halves, and what interpolating them gives."""

from __future__ import annotations

from typing import Any

from holdfast.lab.config import parse_run
from holdfast.lab.grids import PlannedRun
from holdfast.lab.targets.planning import difference, records_of, summarize
from holdfast.lab.targets.values import Options, Plan, Reader, Report
from holdfast.reports.values import Table

_METHODS = {"halves": "halves", "erm": "ERM", "group_dro": "DRO", "pi": "PI", "oracle": "oracle"}
_EXACT = 0.8  # y equals x1 with this probability: what a classifier of x1 alone has in every environment


def plan_toy(options: Options) -> Plan:
    """Return each method on the exact toy distribution, with logistic regression."""
    runs = [
        PlannedRun(name, parse_run({"dataset": "toy", "method": method, "estimator": "logistic"}))
        for method, name in _METHODS.items()
    ]
    return Plan(tuple(runs))


def report_toy(options: Options, plan: Plan, read: Reader) -> Report:
    """Return the correlations of panels (b) and (c), and every method's accuracy where x2 flips."""
    tables = []
    halves = records_of(plan.runs, read, "halves")
    if halves:
        pair = [h for h in halves[0]["halves"] if h["judged"] == "E2"]
        values = {h["half"]: h["correlations"]["x2"] for h in pair}
        mixed = sum(values.values()) / 2  # both halves have uniform labels and x2: correlations average
        rows: list[tuple[Any, ...]] = [
            ("(a, b) E2 judged by E1: correct", 1.0, values["correct"], values["correct"] - 1),
            ("(a, b) E2 judged by E1: mistaken", -1.0, values["mistaken"], values["mistaken"] + 1),
            ("(c) halves in equal parts", 0.0, mixed, mixed),
        ]
        tables.append(Table("Correlation of x2 and y", ("panel", "paper", "ours", "difference"), tuple(rows)))
    rows, environments = [], ()
    for name in _METHODS.values():
        records = records_of(plan.runs, read, name)
        if name == "halves" or not records:
            continue
        test = records[0]["settings"]["train"]["test"]["environments"]
        environments = tuple(test)
        ours = summarize([min(test.values())])
        printed = _EXACT if name in ("PI", "oracle") else None
        rows.append((name, *test.values(), printed, difference(ours, printed)))
    if rows:
        columns = ("method", *environments, "paper: every one", "difference in the worst")
        note = "Exact counts, so there are no seeds; one fit, nothing is selected. x2 follows y, means nothing, flips."
        tables.append(Table("Accuracy by the environment's eta", columns, tuple(rows), note))
    return Report(tuple(tables))
