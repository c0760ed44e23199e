"""What targets ask for and give back: options, plans, tables and figures, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from holdfast.lab.config import RunConfig
from holdfast.lab.grids import PlannedRun

Record: TypeAlias = dict[str, Any]
Reader: TypeAlias = Callable[[RunConfig], Record | None]


@dataclass(frozen=True)
class Options:
    """What a target was asked for."""

    folder: Path | None = None  # of the data sets
    quick: bool = False  # small made data and short trainings: shows that it works, not what comes out
    n_seeds: int = 3
    recorded: tuple[Record, ...] | None = None  # tell again what these records hold, without any data


@dataclass(frozen=True)
class Missing:
    """A data set that cannot be used, and what it needs."""

    dataset: str
    reason: str
    needs: str
    is_damaged: bool = False  # its files are there but cannot be read: a failure, not a gap


@dataclass(frozen=True)
class Plan:
    """The runs of a target, and what it has to do without."""

    runs: tuple[PlannedRun, ...]
    missing: tuple[Missing, ...] = ()

    def served(self, has: Callable[[str], bool]) -> Plan:
        """Return the plan with finished runs in place of those they serve; `has` tells whether an identity is."""
        return replace(self, runs=tuple(_finished(run, has) for run in self.runs))


@dataclass(frozen=True)
class Table:
    """A table of a result: cells are text, numbers, or (mean, spread) pairs."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    digits: int = 3  # behind the point
    n_keys: int = 1  # columns at the left that name a row


@dataclass(frozen=True)
class Map:
    """A number for each pair of row and column, to be drawn as a heat map."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # (n_rows, n_columns); NaN: unknown
    scale: Literal["share", "correlation"]
    row_title: str
    column_title: str = ""
    note: str = ""
    breaks: tuple[int, ...] = ()  # rows above which there is a gap


@dataclass(frozen=True)
class Chart:
    """Curves over one axis."""

    title: str
    x_title: str
    y_title: str
    lines: Mapping[str, tuple[tuple[float, float], ...]]  # name -> points
    log: bool = False  # logarithmic y axis
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What a target shows of its records."""

    tables: tuple[Table, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()  # machine-readable, for the targets that have them
    figures: tuple[Map | Chart, ...] = ()


def _finished(run: PlannedRun, has: Callable[[str], bool]) -> PlannedRun:
    """Return the run, or the finished one that serves it."""
    other = run.served_by
    if other is None or has(run.config.identity) or not has(other.identity):
        return run
    return PlannedRun(run.name, other)
