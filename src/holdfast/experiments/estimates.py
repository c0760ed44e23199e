"""How long runs will take: as long as finished ones like them, or a rough guess."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.experiments.config import RunConfig
from holdfast.experiments.grids import PlannedRun

# Seconds of one core for a thousand rows forward and backward, measured roughly; groups and evaluations multiply them.
_ROUGH = {"cnn": 0.9, "text_cnn": 0.6, "resnet50": 60.0, "mobilenet_v2": 15.0}
_SMALL = 0.02
_TYPICAL_EPOCHS = 50
_GROUPS = {"halves": 2, "pi": 6, "group_dro": 4, "oracle": 4}


@dataclass(frozen=True)
class Estimate:
    """Seconds that runs will take on one core."""

    each: tuple[float, ...]
    n_guessed: int  # runs like which none is finished

    @property
    def seconds(self) -> float:
        """All of them, one after the other."""
        return sum(self.each)


def estimate(runs: Sequence[PlannedRun], records: Iterable[dict[str, Any]]) -> Estimate:
    """Return how long the runs will take."""
    known = _seconds_by_kind(records)
    like = [known.get(_kind(run.config.as_dict())) for run in runs]
    each = [rough_seconds(run.config) if value is None else value for run, value in zip(runs, like, strict=True)]
    return Estimate(tuple(each), sum(value is None for value in like))


def _seconds_by_kind(records: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], float]:
    """Return the mean duration of the finished runs of each kind."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        found.setdefault(_kind(record["config"]), []).append(float(record["seconds"]))
    return {kind: float(np.mean(seconds)) for kind, seconds in found.items()}


def rough_seconds(config: RunConfig) -> float:
    """Return a guess from the number of rows that pass through the network."""
    if config.estimator in ("logistic", "boosting", "forest"):
        return 5.0
    epochs = min(config.max_epochs, _TYPICAL_EPOCHS)
    rows = epochs * config.steps_per_epoch * config.batch_size * _GROUPS.get(config.method, 2)
    return 5.0 + rows / 1000 * _ROUGH.get(config.estimator, _SMALL)


def _kind(config: dict[str, Any]) -> tuple[Any, ...]:
    """Return what runs that take about as long have in common."""
    keys = ("dataset", "method", "estimator", "made", "max_epochs", "steps_per_epoch", "batch_size", "backbone")
    return tuple(config.get(key) for key in keys)
