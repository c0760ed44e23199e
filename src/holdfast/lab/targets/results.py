"""Summarize the records of a target: means over seeds, and notes on differences from the paper."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from holdfast.lab import paper
from holdfast.lab.experiments import PlannedRun, RunConfig
from holdfast.lab.targets.sources import BACKBONES, SMALLER, SOURCES, Plan, Record, is_of
from holdfast.reports.values import Figure, Spread, Table

Reader: TypeAlias = Callable[[RunConfig], Record | None]
VALIDATIONS = {"test": "as test", "train": "as training"}  # a setting of a run -> what tables call its rows
QUICK = "Quick: synthetic data and a few steps; the numbers mean nothing."
JUDGES = "Judges are selected by other_environments."
# A number, but not one that is part of a name: E1, Male=0, mobilenet_v2.
_NUMBER = re.compile(r"(?<![\w.=])\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True)
class Report:
    """What a target shows of its records."""

    tables: tuple[Table, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()  # machine-readable, for the targets that have them
    figures: tuple[Figure, ...] = ()
    kept: tuple[Record, ...] | None = None  # the records to publish, where they hold more than may be


@dataclass(frozen=True)
class Ours:
    """Our number: the mean over seeds with its standard deviation."""

    mean: float
    spread: float  # NaN for one seed
    n_seeds: int

    def cell(self) -> Spread | None:
        """Return mean and spread for a table; None where nothing was measured."""
        return None if self.n_seeds == 0 else Spread(self.mean, self.spread)

    def minus(self, printed: float | None) -> float | None:
        """Return ours minus the paper's."""
        return None if printed is None or self.n_seeds == 0 else self.mean - printed


def summarize(values: Sequence[float]) -> Ours:
    """Return mean and spread over seeds.

    Examples
    --------
    >>> summarize([70.0, 72.0])
    Ours(mean=71.0, spread=1.4142135623730951, n_seeds=2)
    """
    found = [value for value in values if not math.isnan(value)]
    if not found:
        return Ours(math.nan, math.nan, 0)
    spread = float(np.std(found, ddof=1)) if len(found) > 1 else math.nan
    return Ours(float(np.mean(found)), spread, len(found))


def records_of(runs: Sequence[PlannedRun], read: Reader, name: str | None = None) -> list[Record]:
    """Return the finished records of the runs of one name, or of all, in the order of their seeds."""
    found = [read(run.config) for run in runs if name in (None, run.name)]
    return [record for record in found if record is not None]


def summarize_setting(records: Sequence[Record], setting: str, *path: str) -> Ours:
    """Return mean and spread, in percent, of one number of what a validation setting selected."""
    values = []
    for record in records:
        node: Any = record["settings"].get(setting)
        for key in path:
            node = None if node is None else node.get(key)
        if node is not None:
            values.append(100 * float(node))
    return summarize(values)


def note_on(plan: Plan, read: Reader, *own: str) -> str:
    """Return a table's note: by which rules epochs were selected, its own words, and what differs from the paper."""
    rules = {setting["selection"] for record in records_of(plan.runs, read) for setting in record["settings"].values()}
    selection = f"Selection: {', '.join(sorted(rules))}." if rules else ""
    return " ".join(filter(None, (selection, *own, what_differs(plan, read))))


def smaller_training(config: RunConfig) -> str:
    """Return how a smaller training of texts differs from the authors', nothing for theirs."""
    if config.max_epochs != SMALLER["max_epochs"]:
        return ""
    return (
        f"Trained with {config.estimator_options['n_filters']} filters of each width, a learning rate of "
        f"{config.learning_rate:g} and at most {config.max_epochs} evaluations."
    )


def what_differs(plan: Plan, read: Reader) -> str:
    """Return how the data and networks of the finished runs differ from the paper's; synthetic data have no notes.

    Where there are several data sets, each is named before its own notes.
    """
    by_data: dict[str, list[list[str]]] = {}
    for config, record in _finished(plan, read):
        if not config.synthetic:
            by_data.setdefault(_title(config), []).append([*record["data"]["notes"], *_networks(config, record)])
    texts = []
    for title, notes in by_data.items():
        text = " ".join(f"{note.rstrip('.')}." for note in merge_notes(notes))
        texts.append(f"{title}: {text}" if text and len(by_data) > 1 else text)
    return " ".join(filter(None, texts))


def merge_notes(records: Iterable[Sequence[str]]) -> list[str]:
    """Return the notes of several records once each; those that differ only in a number become one with the range.

    Examples
    --------
    >>> merge_notes([["2,944 words occur"], ["2,951 words occur"], ["2,946 words occur"]])
    ['2,944–2,951 words occur']
    """
    variants: dict[tuple[str, int], list[str]] = {}
    for notes in records:
        seen: Counter[str] = Counter()
        for note in notes:
            pattern = _NUMBER.sub("#", note)
            variants.setdefault((pattern, seen[pattern]), []).append(note)
            seen[pattern] += 1
    return [_ranged(found) for found in variants.values()]


def warn_quick(tables: Iterable[Table], plan: Plan, read: Reader) -> tuple[Table, ...]:
    """Return the tables, each with a warning where a run used synthetic data."""
    tables = tuple(tables)
    if not any(config.synthetic for config, _ in _finished(plan, read)):
        return tables
    return tuple(replace(table, note=f"{QUICK} {table.note}".strip()) for table in tables)


def _finished(plan: Plan, read: Reader) -> Iterator[tuple[RunConfig, Record]]:
    """Yield the finished runs and their records."""
    for run in plan.runs:
        record = read(run.config)
        if record is not None:
            yield run.config, record


def _title(config: RunConfig) -> str:
    """Return what the paper calls a run's data set."""
    keys = [key for key in SOURCES if is_of(key, config.as_dict())]
    return paper.DATASETS[keys[0]] if keys else config.dataset


def _networks(config: RunConfig, record: Record) -> Iterator[str]:
    """Yield how the network reads words and images, where that differs from the paper."""
    if config.vectors is not None:
        facts = record["data"]
        known = (
            f", {facts['vector_dimension']}-d, with a vector for {100 * facts['coverage']:.1f} % of the training tokens"
            if "vector_dimension" in facts
            else ""
        )
        yield f"Word vectors: {config.vectors}{known}; the paper has 300-d FastText"
    if config.backbone is not None:
        yield (
            f"Features of a frozen {BACKBONES.get(config.backbone, config.backbone)} ({config.weights}) and a "
            f"{config.estimator} layer at a learning rate of {config.learning_rate:g}; the paper trains ResNet-50 "
            "as a whole"
        )
    elif config.estimator in BACKBONES and config.estimator != "resnet50":
        yield f"{BACKBONES[config.estimator]} ({config.weights}) trained as a whole; the paper has ResNet-50"


def _ranged(variants: Sequence[str]) -> str:
    """Return notes that differ only in their numbers as one, with ranges."""
    numbers = zip(*(_NUMBER.findall(note) for note in variants), strict=True)
    ranges = iter([_range(found) for found in numbers])
    return _NUMBER.sub(lambda _: next(ranges), variants[0])


def _range(numbers: Sequence[str]) -> str:
    """Return the lowest and the highest of written numbers, or the only one."""
    ordered = sorted(set(numbers), key=lambda number: float(number.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"
