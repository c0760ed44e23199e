"""What targets ask for and give back: options, plans, and reports of tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.lab.experiments import PlannedRun, RunConfig
from holdfast.reports.values import Figure, Table

Record: TypeAlias = dict[str, Any]
Reader: TypeAlias = Callable[[RunConfig], Record | None]


@dataclass(frozen=True)
class Options:
    """What a target was asked for."""

    folder: Path | None = None  # of the data sets
    quick: bool = False  # small synthetic data and short trainings, to see that it works
    n_seeds: int = 3
    recorded: tuple[Record, ...] | None = None  # show what these records hold, without any data


@dataclass(frozen=True)
class Missing:
    """A data set that cannot be used, and what it needs."""

    dataset: str
    reason: str
    needs: str
    is_damaged: bool = False  # its files are there but cannot be read: a failure, not a gap


@dataclass(frozen=True)
class Plan:
    """The runs of a target, and the data sets that it has to do without."""

    runs: tuple[PlannedRun, ...]
    missing: tuple[Missing, ...] = ()

    def served(self, has: Callable[[str], bool]) -> Plan:
        """Return the plan with finished runs in place of those they serve; `has` says which identities are finished."""

        def finished(run: PlannedRun) -> PlannedRun:
            other = run.served_by
            if other is None or has(run.config.identity) or not has(other.identity):
                return run
            return PlannedRun(run.name, other)

        return replace(self, runs=tuple(map(finished, self.runs)))


@dataclass(frozen=True)
class Report:
    """What a target shows of its records."""

    tables: tuple[Table, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()  # machine-readable, for the targets that have them
    figures: tuple[Figure, ...] = ()
