"""Report pages about runs: means over seeds for a sweep, a reproduction or the demo."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.exceptions import InputError
from holdfast.lab.targets.reports import show_correlations
from holdfast.lab.tuning import best_point, points_of
from holdfast.machine import versions
from holdfast.metrics import Interval
from holdfast.reports.chapters import Evidence, estimator_page
from holdfast.reports.comparisons import seeds_interval
from holdfast.reports.values import (
    Answer,
    Block,
    Cell,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Highlight,
    Line,
    Page,
    Picture,
    Pictures,
    Section,
    Sentences,
    Table,
)

if TYPE_CHECKING:
    from holdfast.auditing import Audit, Reliance
    from holdfast.datasets.values import Dataset
    from holdfast.estimators.pi import PIClassifier

MOST_DATASETS = 12
Record = Mapping[str, Any]


def runs_page(records: Sequence[Record], *, title: str = "", tables: Sequence[Table] = ()) -> Page:
    """Return the report of many runs: correlations in the halves, training curves, methods over seeds, and every run.

    Of several settings of a method, the one with the best mean validation score is shown. Test scores choose nothing.
    `tables` are shown too, for example the paper's numbers next to ours.
    """
    if not records:
        raise InputError("there are no records of finished runs. Run a sweep or a reproduction first.")
    by_data: dict[str, list[Record]] = {}
    for record in records:
        by_data.setdefault(data_name(record), []).append(record)
    shown = dict(list(by_data.items())[:MOST_DATASETS])
    chosen = {name: best_points(found) for name, found in shown.items()}
    comparisons = [dots for name, points in chosen.items() for dots in _comparisons(name, points)]
    sections = [
        Section("Results", "", tuple(tables)),
        Section(
            "Halves",
            "Correlation of attributes and label, in environments and in the halves that judges cut them into.",
            tuple(picture for name, found in shown.items() for picture in _halves(name, found)),
        ),
        Section(
            "Training",
            "The chosen settings of each method, smallest seed; a line ends where its selection stopped.",
            tuple(curves for name, points in chosen.items() for curves in _curves(name, points)),
        ),
        Section(
            "Comparison",
            "Means over seeds with 95% intervals. Settings were chosen by validation rows, never by test rows.",
            tuple(comparisons),
        ),
        _runs_section(records),
    ]
    highlights = (Highlight(f"{len(records):,}", "runs"), Highlight(str(len(by_data)), "data sets"))
    subtitle = "Every run that is finished, compared over its seeds."
    shown_sections = tuple(section for section in sections if section.blocks)
    return Page(title or "Runs", subtitle, shown_sections, (*highlights, *_best_highlights(comparisons)))


def data_name(record: Record) -> str:
    """Return the data set of a run with its options.

    Examples
    --------
    >>> data_name({"config": {"dataset": "beer", "dataset_options": {"aspect": "look"}}})
    'beer (aspect=look)'
    """
    config = record["config"]
    options = ", ".join(f"{key}={value}" for key, value in config.get("dataset_options", {}).items())
    return f"{config['dataset']} ({options})" if options else str(config["dataset"])


def best_points(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Return the runs of the best settings for each (validation setting, method), in the order of their seeds."""
    points = points_of((str(record["config"]["method"]), record) for record in records)
    best = {(setting, method): best_point(found, setting) for (method, setting), found in points.items()}
    return {key: sorted(runs, key=lambda record: record["config"].get("seed", 0)) for key, runs in best.items()}


def _comparisons(name: str, points: Mapping[tuple[str, str], Sequence[Record]]) -> list[Dots]:
    """Return one figure for each validation setting: test accuracy, environments and attributes by method."""
    found = []
    for setting in dict.fromkeys(setting for setting, _ in points):
        places: dict[str, list[Dot]] = {}
        for (_, method), runs in ((key, runs) for key, runs in points.items() if key[0] == setting):
            tests = [record["settings"][setting]["test"] for record in runs]
            for place, values in _test_scores(tests).items():
                interval = seeds_interval(values)
                places.setdefault(place, []).append(Dot(place, method, interval.value, interval.low, interval.high))
        n_seeds = max(len(runs) for key, runs in points.items() if key[0] == setting)
        like = "the training environments" if setting == "train" else "the test"
        title = f"{name}, validation like {like}"
        note = f"Up to {n_seeds} seed{'s' * (n_seeds > 1)} for each method; a single seed has no interval."
        found.append(
            Dots(
                title, "accuracy", tuple(dot for dots in places.values() for dot in dots), note, percent=True, best=True
            )
        )
    return found


def _test_scores(tests: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return each place's scores over the seeds."""
    places = {"all test rows": [float(test["accuracy"]) for test in tests]}
    environments = tests[0].get("environments", {})
    if len(environments) > 1:
        places |= {
            f"environment {name}": [float(test["environments"][name]) for test in tests] for name in environments
        }
    for name in tests[0].get("attributes", {}):
        for key in ("worst", "average"):
            places[f"attribute {name}: {key}"] = [float(test["attributes"][name][key]) for test in tests]
    return places


def _halves(name: str, records: Sequence[Record]) -> list[HeatMap]:
    """Return the correlations of the first run that has halves."""
    record = next(
        (record for record in records if any(half["correlations"] for half in record.get("halves", ()))), None
    )
    if record is None:
        return []
    _, picture = show_correlations(name, [dict(record)])
    note = f"Hard halves, seed {record['config'].get('seed', 0)}."
    return [replace(picture, title=f"{name}: correlation with the label", note=note)]


def _curves(name: str, points: Mapping[tuple[str, str], Sequence[Record]]) -> list[Curves]:
    """Return validation accuracy and the worst group's risk over the epochs, a line for each method."""
    setting = next(iter(points), ("", ""))[0]
    histories = {
        method: runs[0]["settings"][setting].get("history") or []
        for (place, method), runs in points.items()
        if place == setting
    }
    found = []
    for key, text in (("worst_group_risk", "risk of the worst group"), ("validation_score", "validation accuracy")):
        lines = tuple(
            Line(
                method,
                tuple(float(entry["epoch"]) for entry in history if key in entry),
                tuple(float(entry[key]) for entry in history if key in entry),
            )
            for method, history in histories.items()
            if any(key in entry for entry in history)
        )
        if lines:
            found.append(Curves(f"{name}: {text}", "epoch", text, lines, "pi" if "pi" in histories else ""))
    return found


def _runs_section(records: Sequence[Record]) -> Section:
    """List every run: its settings, how it was selected, what it cost."""
    rows: list[tuple[Cell, ...]] = []
    for record in records:
        config = record["config"]
        hidden = ("dataset", "dataset_options", "method", "seed")
        settings = ", ".join(f"{key}={value}" for key, value in config.items() if key not in hidden)
        start = (data_name(record), str(config["method"]), int(config.get("seed", 0)))
        for name, found in (record.get("settings") or {"": {}}).items():
            selected = (found.get("selection"), found.get("epoch"), found.get("value"))
            accuracy = found.get("test", {}).get("accuracy")
            rows.append((*start, name, *selected, accuracy, float(record.get("seconds", math.nan)), settings))
    columns = ("data", "method", "seed", "validation", "selection", "epoch", "selection value", "test accuracy")
    blocks: list[Block] = [
        Table("Runs", (*columns, "seconds", "settings"), tuple(rows)),
        Table("Versions", ("what", "version"), tuple(versions().items()), "Of the machine that wrote this page."),
    ]
    warnings = tuple(dict.fromkeys(str(text) for record in records for text in record.get("warnings", ())))
    if warnings:
        blocks.insert(0, Sentences(warnings[:30], "warning"))
    return Section("How this was made", "Every run, with its selection rule and seed.", tuple(blocks))


def _best_highlights(comparisons: Sequence[Dots]) -> tuple[Highlight, ...]:
    """Return the accuracies of the first comparison's first place."""
    if not comparisons or not comparisons[0].dots:
        return ()
    first = comparisons[0]
    dots = [dot for dot in first.dots if dot.place == first.places[0]]
    return tuple(Highlight(f"{dot.value:.1%}", f"{dot.series}, {first.title}") for dot in dots[:5])


def audit_demo() -> tuple[Audit, Reliance]:
    """Return the audit of seed 0's training rows, and what ERM and PI rely on in its test rows.

    Pixels and color are two features.
    """
    from threadpoolctl import threadpool_limits

    from holdfast.auditing import AuditSettings, audit_data, relied_on
    from holdfast.datasets import load_dataset
    from holdfast.lab.demo import DATA, fit_method

    data = load_dataset("colored_digits", seed=0, **DATA)
    names = column_names(data)
    groups = {"pixels": [name for name in names if name.startswith("pixel")]}
    groups["color"] = [name for name in names if name not in groups["pixels"]]
    train, test = data.train, data.test
    with threadpool_limits(limits=1):
        found = audit_data(train.X, train.y, train.environments, AuditSettings(groups=groups), names=names)
    fitted = {"ERM": fit_method("erm", data, 0), "PI": fit_method("pi", data, 0)}
    numbered = {name: [f"x{names.index(member)}" for member in members] for name, members in groups.items()}
    return found, relied_on(fitted, test.X, test.y, groups=numbered)


def column_names(data: Dataset) -> list[str]:
    """Return the names of the digits' columns: pixels, then colors."""
    n_pixels = data.train.X.shape[1] - len(data.classes)
    return [f"pixel {n // 8},{n % 8}" for n in range(n_pixels)] + [f"color {name}" for name in data.classes]


def demo_page(
    result: dict[str, Any],
    classifier: PIClassifier,
    *,
    audit: Audit | None = None,
    reliance: Reliance | None = None,
) -> Page:
    """Return the report of the demo: accuracies over all seeds, digits from both halves, and the stages of seed 0.

    `result` and `classifier` are what `run_demo` returned, `audit` and `reliance` what `audit_demo` did.
    """
    from holdfast.datasets import load_dataset
    from holdfast.lab.demo import DATA, METHODS

    data = load_dataset("colored_digits", seed=0, **DATA)
    titles = {name: title.partition(":")[0] for name, title in METHODS.items()}
    places = {"where the color misleads": "test_accuracies", "rows like the training ones": "validation_accuracies"}
    found = {
        (place, title): _inside(seeds_interval(result["methods"][name][key]))
        for place, key in places.items()
        for name, title in titles.items()
    }
    n_seeds = len(result["seeds"])
    dots = [Dot(place, title, score.value, score.low, score.high) for (place, title), score in found.items()]
    note = (
        f"{f'Means of {n_seeds} seeds with 95% intervals' if n_seeds > 1 else 'One seed'}. The color is the label's in "
        f"{DATA['etas'][0]:.0%} and {DATA['etas'][1]:.0%} of the training rows, and in {DATA['test_eta']:.0%} where it "
        "misleads."
    )
    new, like = dict.fromkeys(place for place, _ in found)
    few = tuple((place, found[place, titles["erm"]], found[place, titles["pi"]]) for place in (like, new))
    erm, pi = (found[new, titles[name]].value for name in ("erm", "pi"))
    answer = Answer(
        f"Where the color stops telling the digit, the ordinary classifier (ERM) is right in {erm:.0%} of the rows and "
        f"PI in {pi:.0%}: ERM learned the color, PI the digits.",
        "bad",
        "An ordinary classifier trusts the color and fails where it misleads",
        Table("Accuracy of ERM and PI", ("accuracy", titles["erm"], titles["pi"]), few, note),
    )
    content = estimator_page(
        classifier,
        Evidence(
            training=data.train,
            comparison=Dots("Accuracy of four methods", "accuracy", tuple(dots), note, percent=True, best=True),
            audit=audit,
            reliance=reliance,
            attributes=data.attribute_names,
            feature_names=column_names(data),
            settings=result["data"] | {"estimator of every method": result["estimator"]},
            seeds=result["seeds"],
        ),
        title="Colored digits: what happens when the color misleads",
        answer=answer,
    )
    return replace(content, sections=(digits_section(data, classifier), *content.sections))


def _inside(score: Interval) -> Interval:
    """Return an interval of accuracies that ends at 0 and 1."""
    return Interval(score.value, max(score.low, 0.0), min(score.high, 1.0))  # NaN stays


def digits_section(data: Dataset, classifier: PIClassifier) -> Section:
    """Show a few digits of both halves of one environment, in their colors."""
    train, partition = data.train, classifier.partitions_[0]
    colors, labels = np.asarray(train.attributes["color"]), np.unique(train.y)
    halves = []
    for half, rows in (("Right", partition.correct), ("Wrong", partition.mistaken)):
        # Two digits of each label, in the order of the labels: the first rows of a half may all be alike.
        some = [row for label in labels for row in rows[train.y[rows] == label][:2]]
        pictures = tuple(
            Picture(tuple(map(tuple, train.X[row][:64].reshape(8, 8).tolist())), int(colors[row]), str(train.y[row]))
            for row in some
        )
        share = float(np.mean(colors[rows] == train.y[rows])) if len(rows) else math.nan
        halves.append((f"{half}: the color fits the label in {share:.0%}", pictures))
    title = f"Digits of {partition.judged}, cut by the classifier of {partition.judge}"
    note = "Below each digit its label. Every label has a color of its own, which most training rows have."
    intro = (
        "PI fits a classifier on each environment and lets it judge the other one. The rows that it gets wrong are "
        "those in which the color misleads. PI learns what holds in both halves: the shape."
    )
    return Section("The idea in pictures", intro, (Pictures(title, tuple(halves), note),))
