"""Choosing hyper-parameters: the grid point with the best validation, separately for each validation setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.experiments.grids import PlannedRun
from holdfast.storage import canonical_json

_COMMON = ("dataset", "dataset_options", "estimator", "method", "seed", "selection", "validations")


@dataclass(frozen=True)
class Best:
    """What a method's grid came to, as one validation setting sees it."""

    name: str
    setting: str  # "train" or "test"
    point: dict[str, Any]  # the chosen settings
    value: float  # mean over seeds of the selection's value, by which it was chosen
    test: float  # mean test accuracy
    spread: float  # standard deviation over seeds, NaN for one
    worst: float  # mean over seeds and attributes of the worst group's test accuracy, NaN without attributes
    selection: str  # rule of the epoch
    n_seeds: int
    n_points: int  # points that were compared


def tune(runs: Sequence[PlannedRun], read: Callable[[str], dict[str, Any] | None]) -> list[Best]:
    """Return the best point for each method and validation setting; test scores are read, never compared."""
    points: dict[tuple[str, str], dict[bytes, list[dict[str, Any]]]] = {}
    for run in runs:
        record = read(run.config.identity)
        if record is None:
            continue
        settings = {key: value for key, value in run.config.as_dict().items() if key != "seed"}
        for setting in record.get("settings", {}):
            place = points.setdefault((run.name, setting), {})
            place.setdefault(canonical_json(settings), []).append(record)
    return [_best(name, setting, list(found.values())) for (name, setting), found in points.items()]


def _best(name: str, setting: str, points: list[list[dict[str, Any]]]) -> Best:
    def value(records: list[dict[str, Any]]) -> float:
        return float(np.mean([record["settings"][setting]["value"] for record in records]))

    chosen = max(points, key=value)
    tests = [float(record["settings"][setting]["test"]["accuracy"]) for record in chosen]
    point = {key: item for key, item in chosen[0]["config"].items() if key not in _COMMON}
    spread = float(np.std(tests, ddof=1)) if len(tests) > 1 else math.nan
    worst = float(np.mean([record["settings"][setting]["test"].get("worst", math.nan) for record in chosen]))
    rule = str(chosen[0]["settings"][setting]["selection"])
    test = float(np.mean(tests))
    return Best(name, setting, point, value(chosen), test, spread, worst, rule, len(tests), len(points))
