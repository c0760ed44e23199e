"""Figures of the paper beyond its tables: pairs of environments, word importance, IRM's penalty weight."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from holdfast.experiments import paper
from holdfast.experiments.grids import PlannedRun
from holdfast.experiments.targets.planning import (
    Missing,
    Options,
    Plan,
    Reader,
    Table,
    authors,
    find_missing,
    make_run,
)
from holdfast.experiments.targets.summaries import VALIDATIONS, records_of, selection_note, setting_values, summarize

AGREEMENTS = tuple(round(0.80 + 0.01 * i, 2) for i in range(10))
WORDS_SHOWN = 15
PENALTY_WEIGHTS = (1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4)
# A quarter of the filters, a larger step, few epochs: as the authors train, the 45 pairs would take about half a day.
SMALLER = {"estimator_options": {"n_filters": 100}, "learning_rate": 1e-3, "max_epochs": 12, "explain": None}


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


def report_ablation(options: Options, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return the test accuracy for each pair, as a triangle."""
    names = list(dict.fromkeys(run.name for run in plan.runs))
    if not names:
        return {"tables": []}
    pairs = {
        tuple(name.split()): summarize(setting_values(records_of(plan.runs, read, name), "train", "test", "accuracy"))
        for name in names
    }
    highs = sorted({high for high, _ in pairs}, reverse=True)
    lows = sorted({low for _, low in pairs})
    rows = [(high, *(pairs[high, low].cell() if (high, low) in pairs else None for low in lows)) for high in highs]
    config = plan.runs[0].config
    note = (
        f"Beer {config.dataset_options['aspect']}; the paper's figure is of aroma. Validation rows are like the "
        f"training environments. Trained with {config.estimator_options['n_filters']} filters of each width, a "
        f"learning rate of {config.learning_rate:g} and at most {config.max_epochs} evaluations."
    )
    title = "PI's test accuracy by the agreement in E1 (rows) and E2 (columns)"
    return {"tables": [Table(title, ("E1", *lows), tuple(rows), note, is_map=True)]}


def plan_words(options: Options) -> Plan:
    """Return Table 1's runs on beer look, which take the words of one review out."""
    key, missing = _beer(options, ("beer_look",))
    if key is None:
        return Plan((), missing)
    runs = [PlannedRun(paper.METHODS[method], make_run(key, method, options, seed=0)) for method in authors()[key]]
    return Plan(tuple(runs), missing)


def report_words(options: Options, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return for each word how much less sure each method is without it."""
    found = {run.name: read(run.config) for run in plan.runs}
    explained = {name: r["settings"]["train"]["words"] for name, r in found.items() if r is not None}
    if not explained:
        return {"tables": []}
    first = next(iter(explained.values()))
    drops = [entry["drops"] for entry in explained.values()]
    order = sorted(range(len(first["words"])), key=lambda i: -max(abs(drop[i]) for drop in drops))[:WORDS_SHOWN]
    rows: list[tuple[Any, ...]] = [("prediction", *(entry["prediction"] for entry in explained.values()))]
    rows += [(first["words"][i], *(f"{drop[i]:+.3f}" for drop in drops)) for i in order]
    note = (
        f"The label is {first['label']}. Numbers: probability of the prediction minus that without the word. Of "
        f"{len(first['words'])} words, those that matter most to any method."
    )
    return {"tables": [Table(f"Words of test review {first['row']}", ("word", *explained), tuple(rows), note)]}


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


def report_irm(options: Options, plan: Plan, read: Reader) -> dict[str, Any]:
    """Return accuracy, risk and penalty by the penalty's weight, for each kind of validation rows."""
    if not plan.runs:
        return {"tables": []}
    return {"tables": [_irm_table(plan, read, setting, words) for setting, words in VALIDATIONS.items()]}


def _irm_table(plan: Plan, read: Reader, setting: str, words: str) -> Table:
    """Return IRM's scores by its penalty's weight where one kind of validation rows selects."""
    rows = []
    for name in dict.fromkeys(run.name for run in plan.runs):
        records = records_of(plan.runs, read, name)
        if not records:
            continue
        paths = (("training_score",), ("validation", "accuracy"), ("test", "accuracy"))
        scores = [summarize(setting_values(records, setting, *path)).cell() for path in paths]
        parts = [
            summarize([r["settings"][setting]["penalty"][part] for r in records]).mean for part in ("risk", "penalty")
        ]
        epoch = f"{np.mean([r['settings'][setting]['epoch'] for r in records]):.3g}"
        rows.append((name, epoch, *scores, *parts, len(records)))
    columns = ("penalty weight", "epoch", "training", "validation", "test", "risk", "penalty", "seeds")
    config = plan.runs[0].config
    note = (
        f"{selection_note(records_of(plan.runs, read))} The first {config.warm_up} steps "
        f"({(config.warm_up or 0) / config.steps_per_epoch:g} epochs) have a weight of 1. The paper prints a picture "
        "without numbers."
    )
    return Table(f"IRM by its penalty weight, percent; validation {words}", columns, tuple(rows), note)


def _beer(options: Options, keys: tuple[str, ...]) -> tuple[str | None, tuple[Missing, ...]]:
    """Return the first of the aspects that is there, and those before it that are not."""
    missing: list[Missing] = []
    for key in keys:
        absent = find_missing(key, options)
        if absent is None:
            return key, tuple(missing)
        missing.append(absent)
    return None, tuple(missing)
