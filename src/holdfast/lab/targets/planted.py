"""Planted unstable features: Table 1 (accuracy), Table 2 (correlations in the halves) and the running times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast.lab import paper
from holdfast.lab.experiments import PlannedRun
from holdfast.lab.targets.results import (
    JUDGES,
    VALIDATIONS,
    Ours,
    Reader,
    Report,
    records_of,
    selection_note,
    summarize,
    summarize_setting,
    what_differs,
)
from holdfast.lab.targets.sources import SOURCES, Options, Plan, Record, make_run, plan_methods
from holdfast.reports.values import Table

# Beyond the paper: a loss that resists label noise, the mixture at chance instead of the maximum, averaged weights, a
# falling learning rate, and images moved by up to two pixels.
ROBUST = {
    "loss": "gce",
    "weight_averaging": 0.998,
    "schedule": "cosine",
    "max_epochs": 20,
    "weight_decay": 1e-3,
    "estimator_options": {"shift": 2},
    "method_options": {"objective": "chance"},
}
ROBUST_NAME = "PI, robust"


def plan_table1(options: Options) -> Plan:
    """Return six methods on every data set, and on MNIST PI once more with a recipe that resists label noise."""
    plan = plan_methods(paper.TABLE1, options)
    extra = []
    if not any(missing.dataset == "mnist" for missing in plan.missing):
        recipe = {**ROBUST, "max_epochs": 2, "estimator_options": {}} if options.quick else ROBUST
        for seed in range(options.n_seeds):
            config = make_run("mnist", "pi", options, seed=seed, **recipe)
            extra.append(PlannedRun(f"mnist {ROBUST_NAME}", config))
    return Plan((*plan.runs, *extra), plan.missing)


def report_table1(plan: Plan, read: Reader) -> Report:
    """Return test accuracies next to the paper's, for both validation settings, and the gains of the text."""
    rows, cells = [], {}
    for key, published in paper.TABLE1.items():
        for method, title in [*paper.METHODS.items(), ("pi robust", ROBUST_NAME)]:
            records = records_of(plan.runs, read, f"{key} {title}")
            for column, (setting, words) in enumerate(VALIDATIONS.items()):
                ours = summarize_setting(records, setting, "test", "accuracy")
                printed = published[method][column] if method in published else None
                if records:
                    cells[key, method, setting] = ours
                    rows.append(
                        (paper.DATASETS[key], title, words, printed, ours.cell(), ours.minus(printed), ours.n_seeds)
                    )
    columns = ("data set", "method", "validation", "paper", "ours", "difference", "seeds")
    note = f"{selection_note(records_of(plan.runs, read))} {what_differs(plan, read)}"
    table = Table("Test accuracy, percent", columns, tuple(rows), note.strip(), digits=2, n_keys=3)
    return Report((table, _gains(cells)))


def _gains(cells: dict[tuple[str, str, str], Ours]) -> Table:
    """Return PI's gains over the baselines, and its distance from the oracle, over the data sets that were run."""
    rows: list[tuple[Any, ...]] = []
    baselines = ("erm", "group_dro", "irm", "rgm")
    gaps, over_irm = [], []
    for setting, claim in paper.GAINS.items():
        gains = []
        for key in {key for key, _, name in cells if name == setting}:
            best = [cells[key, method, setting].mean for method in baselines if (key, method, setting) in cells]
            ours = cells.get((key, "pi", setting))
            if ours is not None and len(best) == len(baselines):
                gains.append(ours.mean - max(best))
            if ours is not None and setting == "train" and (key, "irm", setting) in cells:
                over_irm.append(ours.mean - cells[key, "irm", setting].mean)
            oracle = cells.get((key, "oracle", setting))
            if ours is not None and oracle is not None:
                gaps.append(oracle.mean - ours.mean)
        rows.append(_claim_row(claim, gains))
    rows += [_claim_row(paper.GAIN_OVER_IRM, over_irm), _claim_row(paper.GAP_TO_ORACLE, gaps)]
    columns = ("claim", "paper", "ours", "cells")
    note = "Means: the paper's over four data sets, ours over the cells that were run."
    return Table("Claims of the text", columns, tuple(rows), note, digits=2)


def _claim_row(claim: paper.Claim, gains: list[float]) -> tuple[Any, ...]:
    """Return a claim next to the mean of ours."""
    return claim.text, claim.value, float(np.mean(gains)) if gains else math.nan, len(gains)


def report_table2(plan: Plan, read: Reader) -> Report:
    """Return the correlations in E1, E2 and the two halves of E2 judged by E1."""
    rows, lines = [], []
    for key, published in paper.TABLE2.items():
        records = records_of(plan.runs, read, key)
        if not records:
            continue
        line: dict[str, Any] = {"dataset": key}
        for name, printed in published.items():
            ours = summarize([_correlation(record, name) for record in records])
            line[name] = ours.mean
            rows.append((paper.DATASETS[key], name, printed, ours.cell(), ours.minus(printed), ours.n_seeds))
        line |= {"paper": dict(published), "n_seeds": len(records), "selection": "other_environments"}
        line["mistaken_rows"] = float(np.mean([_half(record, "mistaken")["n_rows"] for record in records]))
        lines.append(line)
    columns = ("data set", "rows", "paper", "ours", "difference", "seeds")
    note = f"{JUDGES} {what_differs(plan, read)}"
    table = Table("Correlation of unstable feature and label", columns, tuple(rows), note.strip(), digits=4, n_keys=2)
    return Report((table,), tuple(lines))


def _half(record: Record, half: str) -> dict[str, Any]:
    """Return a half of E2 judged by E1."""
    found = [h for h in record["halves"] if h["half"] == half and h["judge"] == "E1" and h["judged"] == "E2"]
    return dict(found[0])


def _correlation(record: Record, name: str) -> float:
    """Return the planted attribute's correlation in an environment or in a half."""
    if name in ("correct", "mistaken"):
        entry = _half(record, name)
    else:
        entry = next(e for e in record["data"]["environments"] if e["environment"] == name)
    return float(next(iter(entry["correlations"].values())))


def report_time(plan: Plan, read: Reader) -> Report:
    """Return running time, epochs, and training, validation and test accuracy."""
    rows = []
    for key, published in paper.TIMES.items():
        for method, printed in published.items():
            records = records_of(plan.runs, read, f"{key} {paper.METHODS[method]}")
            if not records:
                continue
            test = "worst" if SOURCES[key].natural else "accuracy"
            scores = [
                summarize_setting(records, "train", *path)
                for path in (
                    ("training_score",),
                    ("value",) if test == "worst" else ("validation", "accuracy"),
                    ("test", test),
                )
            ]
            minutes = summarize([_seconds(record) / 60 for record in records])
            epochs = summarize([float(record["settings"]["train"]["epochs"] or 0) for record in records])
            measured = [
                cell for ours, number in zip(scores, printed[1:], strict=True) for cell in (number, ours.cell())
            ]
            rows.append((key, paper.METHODS[method], printed[0] / 60, minutes.cell(), epochs.mean, *measured))
    names = ("data set", "method", "paper: min", "min", "epochs")
    columns = (*names, "paper: train", "train", "paper: val.", "val.", "paper: test", "test")
    note = (
        "The paper's times are those of a graphics card. Natural data: validation and test are worst-group accuracies."
    )
    note = f"{selection_note(records_of(plan.runs, read))} {note} {what_differs(plan, read)}".strip()
    return Report((Table("Running time", columns, tuple(rows), note, digits=2, n_keys=2),))


def _seconds(record: Record) -> float:
    """Return the time of all stages, the last one until the setting's own stop."""
    stages = {name: stage["seconds"] for name, stage in record["stages"].items() if name.startswith("stage 1")}
    return float(sum(stages.values()) + record["settings"]["train"].get("seconds", 0.0))
