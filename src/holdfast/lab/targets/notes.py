"""What the numbers of a target rest on, in words: data that differ from the paper's, word vectors, frozen features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from holdfast.lab import paper
from holdfast.lab.config import RunConfig
from holdfast.lab.targets.sources import BACKBONES, SOURCES, is_of
from holdfast.lab.targets.values import Plan, Reader, Record
from holdfast.reports.values import Table

QUICK = "Quick: synthetic data and a few steps; the numbers mean nothing."
JUDGES = "Judges are selected by other_environments."
# A number, but not one that is part of a name: E1, Male=0, mobilenet_v2.
_NUMBER = re.compile(r"(?<![\w.=])\d+(?:,\d{3})*(?:\.\d+)?")


def selection_note(records: Iterable[Record]) -> str:
    """Say by which rule the records' epochs were selected."""
    rules = {setting["selection"] for record in records for setting in record["settings"].values()}
    return f"Selection: {', '.join(sorted(rules))}." if rules else ""


def what_differs(plan: Plan, read: Reader) -> str:
    """Say how the data and networks of the finished runs differ from the paper's; synthetic data have no notes.

    Where there are several data sets, each is named before its own.
    """
    by_data: dict[str, list[list[str]]] = {}
    for config, record in _finished(plan, read):
        if not config.synthetic:
            by_data.setdefault(_title(config), []).append([*record["data"]["notes"], *_networks(config, record)])
    told = []
    for title, notes in by_data.items():
        text = " ".join(f"{note.rstrip('.')}." for note in merge_notes(notes))
        told.append(f"{title}: {text}" if text and len(by_data) > 1 else text)
    return " ".join(text for text in told if text)


def merge_notes(records: Iterable[Sequence[str]]) -> list[str]:
    """Return the notes of several records once each; what varies in a number only becomes one note with the range.

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
    """Give the finished runs and their records."""
    for run in plan.runs:
        record = read(run.config)
        if record is not None:
            yield run.config, record


def _title(config: RunConfig) -> str:
    """Return what the paper calls a run's data set."""
    keys = [key for key in SOURCES if is_of(key, config.as_dict())]
    return paper.DATASETS[keys[0]] if keys else config.dataset


def _networks(config: RunConfig, record: Record) -> Iterator[str]:
    """Say what words and images are to the network, where it is not what the paper has."""
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


def _ranged(variants: Sequence[str]) -> str:
    """Return notes that vary in their numbers only as one, with ranges."""
    numbers = zip(*(_NUMBER.findall(note) for note in variants), strict=True)
    ranges = iter([_range(found) for found in numbers])
    return _NUMBER.sub(lambda _: next(ranges), variants[0])


def _range(numbers: Sequence[str]) -> str:
    """Return the lowest and the highest of written numbers, or the only one."""
    ordered = sorted(set(numbers), key=lambda number: float(number.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"
