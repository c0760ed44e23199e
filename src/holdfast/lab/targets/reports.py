"""Plans and reports of the paper's targets: planted features, natural environments, running times and figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from holdfast.lab import paper
from holdfast.lab.experiments import HALVES, PlannedRun, parse_run
from holdfast.lab.targets.results import (
    JUDGES,
    VALIDATIONS,
    Ours,
    Reader,
    Report,
    note_on,
    records_of,
    smaller_training,
    summarize,
    summarize_setting,
    what_differs,
)
from holdfast.lab.targets.rivals import SEEDS, plan_rivals, report_rivals
from holdfast.lab.targets.sources import (
    ROBUST_NAME,
    ROBUST_TEXT,
    SMALLER,
    SOURCES,
    Missing,
    Options,
    Plan,
    Record,
    find_missing,
    has_like_test,
    is_smaller,
    make_like_test,
    make_run,
    plan_halves,
    plan_methods,
)
from holdfast.lab.targets.words import plan_words, report_words
from holdfast.reports.values import Curves, HeatMap, Line, Table

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
LIKE_TEST_NAME = "as test"  # behind a method's name: its run with settings of its own for such validation rows


def plan_table1(options: Options) -> Plan:
    """Return six methods on every data set, and PI once more with a recipe that resists label noise.

    A method that has settings of its own for validation rows like the test has a run for each column.
    """
    plan = plan_methods(paper.TABLE1, options)
    absent = {missing.dataset for missing in plan.missing}
    columns = [
        PlannedRun(f"{key} {paper.METHODS[method]}, {LIKE_TEST_NAME}", make_like_test(key, method, options, seed=seed))
        for key, methods in paper.LIKE_TEST.items()
        if key not in absent
        for seed in range(options.n_seeds)
        for method in methods
    ]
    recipe = {**ROBUST, "max_epochs": 2, "estimator_options": {}} if options.quick else ROBUST
    extra = [
        PlannedRun(f"{key} {ROBUST_NAME}", make_run(key, "pi", options, seed=seed, **settings))
        for key in paper.TABLE1
        if key not in absent
        for settings in [recipe if key == "mnist" else ROBUST_TEXT]
        for seed in range(options.n_seeds)
    ]
    return Plan((*plan.runs, *extra, *columns), plan.missing)


def report_table1(plan: Plan, read: Reader) -> Report:
    """Return test accuracies next to the paper's, for both validation settings, and the gains of the text."""
    rows, cells = [], {}
    for key, published in paper.TABLE1.items():
        for method, title in [*paper.METHODS.items(), ("pi robust", ROBUST_NAME)]:
            for column, (setting, words) in enumerate(VALIDATIONS.items()):
                tuned = setting == "test" and has_like_test(key, method)
                name = f"{key} {title}, {LIKE_TEST_NAME}" if tuned else f"{key} {title}"
                ours = summarize_setting(records_of(plan.runs, read, name), setting, "test", "accuracy")
                printed = published[method][column] if method in published else None
                if ours.n_seeds:
                    cells[key, method, setting] = ours
                    settings = "ours" if tuned or method not in published else "authors'"
                    rows.append(
                        (
                            *(paper.DATASETS[key], title, words, settings),
                            *(printed, ours.cell(), ours.minus(printed), ours.n_seeds),
                        )
                    )
    columns = ("data set", "method", "validation", "settings", "paper", "ours", "difference", "seeds")
    table = Table("Test accuracy, percent", columns, tuple(rows), note_on(plan, read), digits=2, n_keys=4)
    return Report((table, _gains(cells)))


def _gains(cells: dict[tuple[str, str, str], Ours]) -> Table:
    """Return PI's gains over the baselines, and its distance from the oracle, over the data sets that were run."""

    def differences(settings: Sequence[str], rivals: Sequence[str], sign: int = 1) -> list[tuple[str, float]]:
        """Return PI minus the best of the rivals for each data set and setting where all of them were run."""
        found = []
        for key, setting in itertools.product(paper.TABLE1, settings):
            known = [cells.get((key, method, setting)) for method in ("pi", *rivals)]
            if all(known):
                ours, *others = (cell.mean for cell in known if cell is not None)
                where = f"{paper.DATASETS[key]}, {VALIDATIONS[setting]}" if len(settings) > 1 else paper.DATASETS[key]
                found.append((where, sign * (ours - max(others))))
        return found

    baselines = ("erm", "group_dro", "irm", "rgm")
    rows = [_claim_row(claim, differences([setting], baselines)) for setting, claim in paper.GAINS.items()]
    rows.append(_claim_row(paper.GAIN_OVER_IRM, differences(["train"], ["irm"])))
    rows.append(_claim_row(paper.GAP_TO_ORACLE, differences(list(VALIDATIONS), ["oracle"], sign=-1)))
    columns = ("claim", "paper", "ours", "each")
    note = (
        "'paper' is the mean over four data sets, 'ours' that of the data sets on which all methods of the claim have "
        "been run, which 'each' lists. Baselines have the settings of the table above. None of them comes from a "
        "search at equal budgets: with one, PI's lead may be smaller."
    )
    return Table("Claims of the text", columns, tuple(rows), note, digits=2)


def _claim_row(claim: paper.Claim, found: Sequence[tuple[str, float]]) -> tuple[Any, ...]:
    """Return a claim next to the mean of ours, and ours on each data set."""
    each = "; ".join(f"{where}: {gain:.1f}" for where, gain in found) or "not run"
    return claim.text, claim.value, float(np.mean([gain for _, gain in found])) if found else None, each


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
    names = ("data set", "method", "paper: min", "core min", "epochs")
    columns = (*names, "paper: train", "train", "paper: val.", "val.", "paper: test", "test")
    note = (
        "The paper's times are those of a graphics card, ours are minutes of one processor core. 'train' is what the "
        "selection rule sees: batch accuracy with dropout on, of DRO, PI and the oracle that of the worst group. "
        "Natural data: validation and test are worst-group accuracies."
    )
    return Report((Table("Running time", columns, tuple(rows), note_on(plan, read, note), digits=2, n_keys=2),))


def _seconds(record: Record) -> float:
    """Return the processor time of all stages, the last one until the setting's own stop.

    Stages are timed by the clock. The run's share of the processor is what other work on the machine left it.
    """
    judges = [stage["seconds"] for name, stage in record["stages"].items() if name.startswith("stage 1")]
    share = record["cpu_seconds"] / record["seconds"]
    return float(share * (sum(judges) + record["settings"]["train"].get("seconds", 0.0)))


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
    small = " (small version: a linear layer on frozen features)" if plan.runs[0].config.backbone else ""
    return Report(
        (
            Table(
                f"Mean over attributes, percent{small}",
                ("method", "score", "paper", "ours", "difference", "seeds"),
                tuple(rows),
                note_on(plan, read),
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
            table, picture = show_correlations(key, records)
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


def show_correlations(key: str, records: Sequence[Record]) -> tuple[Table, HeatMap]:
    """Return the means over the seeds of one data set as a table with spreads, and as a picture."""
    found = [_entries(record) for record in records]
    names = [name for name in next(iter(found[0].values()))["correlations"] if name != ENVIRONMENT.get(key)]
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


AGREEMENTS = tuple(round(0.80 + 0.01 * i, 2) for i in range(10))
PENALTY_WEIGHTS = (1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4)
SHORT_IRM = {"max_epochs": 15}  # the warm-up is 10
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
    """Return the correlations of panels (b) and (c), every method's accuracy where x2 flips, and the three panels."""
    tables, figures = [], []
    halves = records_of(plan.runs, read, HALVES)
    if halves:
        pair = [h for h in halves[0]["halves"] if h["judged"] == "E2"]
        values = {h["half"]: h["correlations"]["x2"] for h in pair}
        mixed = sum(values.values()) / 2  # both halves have uniform labels and x2: correlations average
        first = next(e["correlations"]["x2"] for e in halves[0]["data"]["environments"] if e["environment"] == "E1")
        figures.append(_toy_panels(first, values["correct"], values["mistaken"], mixed))
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
    return Report(tuple(tables), figures=tuple(figures))


def _toy_panels(first: float, correct: float, mistaken: float, mixed: float) -> HeatMap:
    """Return the figure's panels, one below the other: the share of rows with each x2 and y.

    Both are uniform everywhere, so that the correlation r says it all: (1 + r)/4 where they agree, (1 - r)/4 elsewhere.
    """
    panels = {
        "(a) E1": first,
        "(b) E2, f1 is right": correct,
        "(b) E2, f1 is wrong": mistaken,
        "(c) both in equal parts": mixed,
    }
    rows = tuple(f"{name}: x2 = {x2}" for name in panels for x2 in (0, 1))
    shares = tuple(tuple((1 + r if x2 == y else 1 - r) / 4 for y in (0, 1)) for r in panels.values() for x2 in (0, 1))
    note = (
        "f1, fitted on E1, learns x2. Where it is right in E2, x2 is the label; where it is wrong, the opposite; in "
        "equal parts of both x2 says nothing about the label."
    )
    return HeatMap(
        "The toy example: share of rows", rows, ("y = 0", "y = 1"), shares, "range", "rows", "label", note, (2, 4, 6)
    )


def plan_ablation(options: Options) -> Plan:
    """Return PI on all pairs of agreements: on beer aroma, as the paper, or on look where aroma is not there.

    With the authors' settings, or with a smaller training where one is asked for or recorded.
    """
    key, missing = _beer(options, ("beer_aroma", "beer_look"))
    if key is None:
        return Plan((), missing)
    values = AGREEMENTS[:3] if options.quick else AGREEMENTS
    corners = (values[:2], (values[0], values[-1]), values[-2:])  # these run first: the whole figure takes days
    settings = {**(SMALLER if is_smaller(options) else {}), "explain": None}
    runs = [
        PlannedRun(
            f"{high:.2f} {low:.2f}",
            make_run(key, "pi", options, seed=seed, dataset_options={"etas": [high, low]}, **settings),
        )
        for seed in range(options.n_seeds)
        for low, high in sorted(itertools.combinations(values, 2), key=lambda pair: pair not in corners)
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
    smaller = smaller_training(config)
    told = f"Beer {config.dataset_options['aspect']}; the paper's figure is of aroma."
    rows_like = "Validation rows are like the training environments."
    note = note_on(plan, read, told, rows_like, _trend(pairs), smaller)
    title = (
        f"PI's test accuracy by the agreement in E1 (rows) and E2 (columns){', smaller training' if smaller else ''}"
    )
    shares = [
        tuple(pairs[high, low].mean / 100 if (high, low) in pairs else math.nan for low in lows) for high in highs
    ]
    picture = HeatMap(title, tuple(highs), tuple(lows), tuple(shares), "range", "E1", "E2", note=note)
    return Report((Table(title, ("E1", *lows), tuple(rows), note),), figures=(picture,))


def _trend(pairs: Mapping[tuple[str, ...], Ours]) -> str:
    """Return whether accuracy rises with the environments' difference and falls with their mean, as in the paper."""
    known = {tuple(map(float, key)): ours.mean for key, ours in pairs.items() if ours.n_seeds}
    if len(known) < 3:
        return ""
    difference, mean = (
        float(spearmanr([round(value, 3) for value in values], list(known.values())).statistic)
        for values in ([high - low for high, low in known], [(high + low) / 2 for high, low in known])
    )
    return (
        f"Rank correlation of accuracy and the agreements over {len(known)} pairs: {difference:.2f} with their "
        f"difference, {mean:.2f} with their mean; the paper's accuracy rises with the one and falls with the other."
    )


def plan_irm(options: Options) -> Plan:
    """Return IRM on MNIST for every penalty weight."""
    absent = find_missing("mnist", options)
    if absent is not None:
        return Plan((), (absent,))
    weights = PENALTY_WEIGHTS[::3] if options.quick else PENALTY_WEIGHTS
    short = {"warm_up": 2} if options.quick else SHORT_IRM if is_smaller(options, SHORT_IRM) else {}
    runs = [
        PlannedRun(
            f"{weight:g}",
            make_run("mnist", "irm", options, seed=seed, penalty_weight=weight, validations=["train", "test"], **short),
        )
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
    is_short = config.max_epochs == SHORT_IRM["max_epochs"]
    warm_up = config.warm_up or 0
    told = f"The first {warm_up} steps ({warm_up / config.steps_per_epoch:g} epochs) have a weight of 1."
    epochs = f"Trained for {config.max_epochs} epochs." if is_short else ""
    note = note_on(plan, read, told, epochs, "The paper prints a picture without numbers.")
    title = f"IRM by its penalty weight, percent; validation {words}{', smaller training' if is_short else ''}"
    return Table(title, columns, tuple(rows), note)


def _irm_charts(plan: Plan, read: Reader) -> tuple[Curves, Curves, Curves]:
    """Return accuracy, cross-entropy and penalty as curves over the weight's powers of ten."""
    accuracies: list[Line] = []
    risks: list[Line] = []
    penalties: list[Line] = []
    by_weight = {math.log10(float(name)): records for name, records in _by_weight(plan, read).items()}
    for setting, words in VALIDATIONS.items():
        for rows, path in (("training", ("training_score",)), ("test", ("test", "accuracy"))):
            means = [summarize_setting(records, setting, *path).mean / 100 for records in by_weight.values()]
            accuracies.append(Line(f"{rows} rows, validation {words}", tuple(by_weight), tuple(means)))
        for part, lines in (("risk", risks), ("penalty", penalties)):
            values = [_part(records, setting, part) for records in by_weight.values()]
            lines.append(Line(f"validation {words}", tuple(by_weight), tuple(values)))
    weight, note = "penalty weight, as a power of ten", "At the selected epochs, means over seeds."
    return (
        Curves("IRM's accuracy as its penalty weight grows", weight, "accuracy", tuple(accuracies), note=note),
        Curves("IRM's cross-entropy as its penalty weight grows", weight, "cross-entropy", tuple(risks), note=note),
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


@dataclass(frozen=True)
class Target:
    """A table or figure of the paper, or of others."""

    title: str
    plan: Callable[[Options], Plan]
    report: Callable[[Plan, Reader], Report]
    seeds: int = 3  # where the caller does not say how many


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "toy": Target("Figure 1: the toy example", plan_toy, report_toy),
        "table1": Target("Table 1: planted unstable features", plan_table1, report_table1),
        "table2": Target("Table 2: correlations in the halves", partial(plan_halves, paper.TABLE2), report_table2),
        "table3": Target(
            "Table 3 and its full version: ASK2ME", partial(plan_methods, ["ask2me"]), partial(report_natural, "ask2me")
        ),
        "table4": Target(
            "Table 4 and its full version: CelebA", partial(plan_methods, ["celeba"]), partial(report_natural, "celeba")
        ),
        "ablation": Target("Figure 2: pairs of training environments", plan_ablation, report_ablation),
        "correlations": Target(
            "Figures 3 and 4: attributes in the halves", partial(plan_halves, paper.OPPOSITE), report_correlations
        ),
        "words": Target("Word importance on beer look", plan_words, report_words),
        "irm": Target("IRM as its penalty weight grows", plan_irm, report_irm),
        "time": Target("Running times", partial(plan_methods, paper.TIMES), report_time),
        "rivals": Target("Benchmarks of other methods", plan_rivals, report_rivals, SEEDS),
    }
)
