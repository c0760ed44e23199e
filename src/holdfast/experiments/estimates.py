"""How long runs will take: as long as finished ones like them, or a rough guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    seconds: float
    n_known: int  # runs of which a like one is finished
    n_guessed: int


def estimate(runs: Sequence[PlannedRun], records: Iterable[dict[str, Any]]) -> Estimate:
    """Return how long the runs will take, one after the other."""
    known = _seconds_by_kind(records)
    n_known = sum(_kind(run.config.as_dict()) in known for run in runs)
    return Estimate(sum(_expected(run, known) for run in runs), n_known, len(runs) - n_known)


def expected_seconds(runs: Sequence[PlannedRun], records: Iterable[dict[str, Any]]) -> list[float]:
    """Return how long each run will take."""
    known = _seconds_by_kind(records)
    return [_expected(run, known) for run in runs]


def _seconds_by_kind(records: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], float]:
    """Return the mean duration of the finished runs of each kind."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        found.setdefault(_kind(record["config"]), []).append(float(record["seconds"]))
    return {kind: float(np.mean(seconds)) for kind, seconds in found.items()}


def _expected(run: PlannedRun, known: Mapping[tuple[Any, ...], float]) -> float:
    like = known.get(_kind(run.config.as_dict()))
    return rough_seconds(run.config) if like is None else like


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
