"""From the records of a target to means, spreads and differences from the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.experiments.grids import PlannedRun
from holdfast.experiments.targets.values import Reader, Record

VALIDATIONS = {"test": "as test", "train": "as training"}  # a setting of a run -> how tables call its rows


@dataclass(frozen=True)
class Ours:
    """Our number: the mean over seeds with its standard deviation."""

    mean: float
    spread: float  # NaN for one seed
    n_seeds: int

    def cell(self) -> tuple[float, float] | None:
        """Return (mean, spread) for a table; None where nothing was measured."""
        return None if self.n_seeds == 0 else (self.mean, self.spread)


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


def setting_values(records: Sequence[Record], setting: str, *path: str) -> list[float]:
    """Return one number for each record: what one validation setting selected, in percent."""
    values = []
    for record in records:
        node: Any = record["settings"].get(setting)
        for key in path:
            node = None if node is None else node.get(key)
        if node is not None:
            values.append(100 * float(node))
    return values


def difference(ours: Ours, paper: float | None) -> float | None:
    """Return ours minus the paper's."""
    return None if paper is None or ours.n_seeds == 0 else ours.mean - paper
