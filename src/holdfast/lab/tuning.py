"""Choosing hyper-parameters: the grid point with the best validation, separately for each validation setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.lab.experiments import PlannedRun, parse_run
from holdfast.saving.json_files import canonical_json

Record = Mapping[str, Any]
_COMMON = ("dataset", "dataset_options", "estimator", "method", "seed", "selection", "validations")
_DATA = ("dataset", "dataset_options", "selection")  # points that differ in these are not compared


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


def tune(runs: Sequence[PlannedRun], read: Callable[[str], Record | None]) -> list[Best]:
    """Return the best point for each data set, method and validation setting; test scores are read, never compared.

    Points with fewer finished seeds than others are left out.
    """
    points: dict[tuple[str, bytes, str], dict[bytes, list[Record]]] = {}
    for run in runs:
        record = read(run.config.identity)
        if record is None:
            continue
        settings = {key: value for key, value in run.config.as_dict().items() if key != "seed"}
        data = canonical_json({key: settings.get(key) for key in _DATA})
        for setting in record.get("settings", {}):
            place = points.setdefault((run.name, data, setting), {})
            place.setdefault(canonical_json(settings), []).append(record)
    several = len({data for _, data, _ in points}) > 1
    return [_best(name, setting, list(found.values()), several) for (name, _, setting), found in points.items()]


def best_point(points: Sequence[list[Record]], setting: str) -> list[Record]:
    """Return the runs of the grid point with the best mean selection value, among those with the most seeds."""
    n_seeds = max(map(len, points))
    return max((records for records in points if len(records) == n_seeds), key=lambda runs: _value(runs, setting))


def _value(records: list[Record], setting: str) -> float:
    mean = float(np.mean([record["settings"][setting]["value"] for record in records]))
    return -math.inf if math.isnan(mean) else mean


def _best(name: str, setting: str, points: list[list[Record]], several: bool) -> Best:
    """Return the chosen point; with `several` data sets or rules it says which one it is of."""
    chosen = best_point(points, setting)
    points = [records for records in points if len(records) == len(chosen)]
    tests = [float(record["settings"][setting]["test"]["accuracy"]) for record in chosen]
    point = _shown([records[0]["config"] for records in points], chosen[0]["config"], several)
    spread = float(np.std(tests, ddof=1)) if len(tests) > 1 else math.nan
    worst = float(np.mean([record["settings"][setting]["test"].get("worst", math.nan) for record in chosen]))
    rule = str(chosen[0]["settings"][setting]["selection"])
    test = float(np.mean(tests))
    return Best(name, setting, point, _value(chosen, setting), test, spread, worst, rule, len(tests), len(points))


def _shown(configs: list[Record], chosen: Record, several: bool) -> dict[str, Any]:
    """Return the settings that are not the defaults, and those that vary over the grid, the default too."""
    shown = {key: item for key, item in chosen.items() if key not in _COMMON or (several and key in _DATA)}
    keys = dict.fromkeys(key for config in configs for key in config)
    varied = [key for key in keys if any(config.get(key) != chosen.get(key) for config in configs)]
    full = parse_run(chosen).model_dump(mode="json")
    return shown | {key: full[key] for key in varied}
