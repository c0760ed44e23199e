"""Figures of the paper: the toy example, pairs of environments, word importance, IRM's penalty weight."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from holdfast.lab import paper
from holdfast.lab.experiments import HALVES, PlannedRun, parse_run
from holdfast.lab.targets.results import (
    VALIDATIONS,
    Reader,
    Report,
    records_of,
    selection_note,
    summarize,
    summarize_setting,
    what_differs,
)
from holdfast.lab.targets.sources import Missing, Options, Plan, Record, find_missing, make_run
from holdfast.reports.values import Curves, HeatMap, Line, Table

AGREEMENTS = tuple(round(0.80 + 0.01 * i, 2) for i in range(10))
WORDS_SHOWN = 15
PENALTY_WEIGHTS = (1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4)
# A quarter of the filters, a larger step, few epochs: as the authors train, the 45 pairs would take about half a day.
SMALLER = {"estimator_options": {"n_filters": 100}, "learning_rate": 1e-3, "max_epochs": 12, "explain": None}
TOY_METHODS = {HALVES: HALVES, "erm": "ERM", "group_dro": "DRO", "pi": "PI", "oracle": "oracle"}
TOY_ACCURACY = 0.8  # y equals x1 with this probability: what a classifier of x1 alone has in every environment


def plan_toy(options: Options) -> Plan:
    """Return each method on the exact toy distribution, with logistic regression."""
    runs = [
        PlannedRun(name, parse_run({"dataset": "toy", "method": method, "estimator": "logistic"}))
        for method, name in TOY_METHODS.items()
    ]
    return Plan(tuple(runs))


def report_toy(plan: Plan, read: Reader) -> Report:
    """Return the correlations of panels (b) and (c), and every method's accuracy where x2 flips."""
    tables = []
    halves = records_of(plan.runs, read, HALVES)
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
    for name in TOY_METHODS.values():
        records = records_of(plan.runs, read, name)
        if name == HALVES or not records:
            continue
        test = records[0]["settings"]["train"]["test"]["environments"]
        environments = tuple(test)
        ours = summarize([min(test.values())])
        printed = TOY_ACCURACY if name in ("PI", "oracle") else None
        rows.append((name, *test.values(), printed, ours.minus(printed)))
    if rows:
        columns = ("method", *environments, "paper: every one", "difference in the worst")
        note = "Exact counts, so there are no seeds; one fit, nothing is selected. x2 follows y, means nothing, flips."
        tables.append(Table("Accuracy by the environment's eta", columns, tuple(rows), note))
    return Report(tuple(tables))


def plan_ablation(options: Options) -> Plan:
    """Return PI on all pairs of agreements: on beer aroma, as the paper, or on look where aroma is not there."""
    key, missing = _beer(options, ("beer_aroma", "beer_look"))
    if key is None:
        return Plan((), missing)
    values = AGREEMENTS[:3] if options.quick else AGREEMENTS
    settings = {"explain": None} if options.quick else SMALLER
    runs = [
        PlannedRun(
            f"{high:.2f} {low:.2f}",
            make_run(key, "pi", options, seed=seed, dataset_options={"etas": [high, low]}, **settings),
        )
        for seed in range(options.n_seeds)
        for low, high in itertools.combinations(values, 2)
    ]
    return Plan(tuple(runs), missing)


def report_ablation(plan: Plan, read: Reader) -> Report:
    """Return the test accuracy for each pair, as a triangle."""
    names = list(dict.fromkeys(run.name for run in plan.runs))
    if not names:
        return Report()
    pairs = {
        tuple(name.split()): summarize_setting(records_of(plan.runs, read, name), "train", "test", "accuracy")
        for name in names
    }
    highs = sorted({high for high, _ in pairs}, reverse=True)
    lows = sorted({low for _, low in pairs})
    rows = [(high, *(pairs[high, low].cell() if (high, low) in pairs else None for low in lows)) for high in highs]
    config = plan.runs[0].config
    note = (
        f"{selection_note(records_of(plan.runs, read))} Beer {config.dataset_options['aspect']}; the paper's figure "
        "is of aroma. Validation rows are like the training environments. Trained with "
        f"{config.estimator_options['n_filters']} filters of each width, a learning rate of {config.learning_rate:g} "
        f"and at most {config.max_epochs} evaluations. {what_differs(plan, read)}"
    ).strip()
    title = "PI's test accuracy by the agreement in E1 (rows) and E2 (columns)"
    shares = [
        tuple(pairs[high, low].mean / 100 if (high, low) in pairs else math.nan for low in lows) for high in highs
    ]
    picture = HeatMap(title, tuple(highs), tuple(lows), tuple(shares), "share", "E1", "E2", note=note)
    return Report((Table(title, ("E1", *lows), tuple(rows), note),), figures=(picture,))


def plan_words(options: Options) -> Plan:
    """Return Table 1's runs on beer look, which take the words of one review out."""
    key, missing = _beer(options, ("beer_look",))
    if key is None:
        return Plan((), missing)
    runs = [PlannedRun(paper.METHODS[method], make_run(key, method, options, seed=0)) for method in paper.AUTHORS[key]]
    return Plan(tuple(runs), missing)


def report_words(plan: Plan, read: Reader) -> Report:
    """Return for each word how much less sure each method is without it."""
    found = {run.name: read(run.config) for run in plan.runs}
    explained = {name: r["settings"]["train"]["words"] for name, r in found.items() if r is not None}
    if not explained:
        return Report()
    first = next(iter(explained.values()))
    drops = [entry["drops"] for entry in explained.values()]
    order = sorted(range(len(first["words"])), key=lambda i: -max(abs(drop[i]) for drop in drops))[:WORDS_SHOWN]
    rows: list[tuple[Any, ...]] = [("prediction", *(entry["prediction"] for entry in explained.values()))]
    rows += [(first["words"][i], *(f"{drop[i]:+.3f}" for drop in drops)) for i in order]
    note = (
        f"The label is {first['label']}. Numbers: probability of the prediction minus that without the word. Of "
        f"{len(first['words'])} words, those that matter most to any method. Validation rows are like the training "
        f"environments. {selection_note(records_of(plan.runs, read))} {what_differs(plan, read)}"
    ).strip()
    return Report((Table(f"Words of test review {first['row']}", ("word", *explained), tuple(rows), note),))


def plan_irm(options: Options) -> Plan:
    """Return IRM on MNIST for every penalty weight."""
    absent = find_missing("mnist", options)
    if absent is not None:
        return Plan((), (absent,))
    weights = PENALTY_WEIGHTS[::3] if options.quick else PENALTY_WEIGHTS
    short = {"warm_up": 2} if options.quick else {}
    runs = [
        PlannedRun(f"{weight:g}", make_run("mnist", "irm", options, seed=seed, penalty_weight=weight, **short))
        for weight in weights
        for seed in range(options.n_seeds)
    ]
    return Plan(tuple(runs))


def report_irm(plan: Plan, read: Reader) -> Report:
    """Return accuracy, risk and penalty by the penalty's weight, for each kind of validation rows."""
    tables = [_irm_table(plan, read, setting, words) for setting, words in VALIDATIONS.items()] if plan.runs else []
    if not any(table.rows for table in tables):
        return Report()
    return Report(tuple(tables), figures=_irm_charts(plan, read))


def _by_weight(plan: Plan, read: Reader) -> dict[str, list[Record]]:
    """Return the records of each penalty weight that has some."""
    found = {name: records_of(plan.runs, read, name) for name in dict.fromkeys(run.name for run in plan.runs)}
    return {name: records for name, records in found.items() if records}


def _part(records: list[Record], setting: str, part: str) -> float:
    """Return the mean risk or penalty at the selected epochs."""
    return summarize([record["settings"][setting]["penalty"][part] for record in records]).mean


def _irm_table(plan: Plan, read: Reader, setting: str, words: str) -> Table:
    """Return IRM's scores by its penalty's weight where one kind of validation rows selects."""
    rows = []
    for name, records in _by_weight(plan, read).items():
        paths = (("training_score",), ("validation", "accuracy"), ("test", "accuracy"))
        scores = [summarize_setting(records, setting, *path).cell() for path in paths]
        parts = [_part(records, setting, part) for part in ("risk", "penalty")]
        epoch = f"{np.mean([r['settings'][setting]['epoch'] for r in records]):.3g}"
        rows.append((name, epoch, *scores, *parts, len(records)))
    columns = ("penalty weight", "epoch", "training", "validation", "test", "risk", "penalty", "seeds")
    config = plan.runs[0].config
    note = (
        f"{selection_note(records_of(plan.runs, read))} The first {config.warm_up} steps "
        f"({(config.warm_up or 0) / config.steps_per_epoch:g} epochs) have a weight of 1. The paper prints a picture "
        f"without numbers. {what_differs(plan, read)}"
    ).strip()
    return Table(f"IRM by its penalty weight, percent; validation {words}", columns, tuple(rows), note)


def _irm_charts(plan: Plan, read: Reader) -> tuple[Curves, Curves]:
    """Return accuracy and penalty as curves over the weight's powers of ten."""
    accuracies, penalties = [], []
    by_weight = {math.log10(float(name)): records for name, records in _by_weight(plan, read).items()}
    for setting, words in VALIDATIONS.items():
        for rows, path in (("training", ("training_score",)), ("test", ("test", "accuracy"))):
            means = [summarize_setting(records, setting, *path).mean / 100 for records in by_weight.values()]
            accuracies.append(Line(f"{rows} rows, validation {words}", tuple(by_weight), tuple(means)))
        parts = [_part(records, setting, "penalty") for records in by_weight.values()]
        penalties.append(Line(f"validation {words}", tuple(by_weight), tuple(parts)))
    weight, note = "penalty weight, as a power of ten", "At the selected epochs, means over seeds."
    return (
        Curves("IRM's accuracy as its penalty weight grows", weight, "accuracy", tuple(accuracies), note=note),
        Curves("IRM's penalty as its weight grows", weight, "penalty", tuple(penalties), log=True, note=note),
    )


def _beer(options: Options, keys: tuple[str, ...]) -> tuple[str | None, tuple[Missing, ...]]:
    """Return the first of the aspects that is there, and those before it that are not."""
    missing: list[Missing] = []
    for key in keys:
        absent = find_missing(key, options)
        if absent is None:
            return key, tuple(missing)
        missing.append(absent)
    return None, tuple(missing)
