"""Choose hyper-parameters by the best validation score, separately for each validation setting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.extras import require
from holdfast.lab.execution import SweepResult
from holdfast.lab.experiments import Experiment, PlannedRun, PointSearch, parse_run
from holdfast.lab.store import RunStore
from holdfast.metrics import Interval
from holdfast.reports.comparisons import seeds_interval
from holdfast.saving.json_files import canonical_json

Record = Mapping[str, Any]
_COMMON = ("dataset", "dataset_options", "estimator", "method", "seed", "selection", "validations")
_DATA = ("dataset", "dataset_options", "selection")  # points that differ in these are not compared


@dataclass(frozen=True)
class Best:
    """What a method's grid came to, as one validation setting sees it."""

    name: str
    data: str  # data set, options and selection
    setting: str  # "train" or "test"
    point: dict[str, Any]  # the chosen settings
    value: float  # mean over seeds of the selection's value, by which it was chosen
    test: float  # mean test accuracy
    spread: float  # standard deviation over seeds, NaN for one
    worst: float  # mean over seeds and attributes of the worst group's test accuracy, NaN without attributes
    selection: str  # rule of the epoch
    n_seeds: int
    n_points: int  # points that were compared

    @property
    def score(self) -> float:
        """The worst group's test accuracy, that of all rows without attributes."""
        return self.test if math.isnan(self.worst) else self.worst


def tune(runs: Sequence[PlannedRun], read: Callable[[str], Record | None]) -> list[Best]:
    """Return the best point for each data set, method and validation setting; test scores are read, never compared.

    Points with fewer finished seeds than others are left out.
    """
    found = ((run, read(run.config.identity)) for run in runs)
    points = points_of(((run.name, _data(run)), record) for run, record in found if record is not None)
    several = len({data for (_, data), _ in points}) > 1
    return [_best(name, data, setting, records, several) for ((name, data), setting), records in points.items()]


def points_of(named: Iterable[tuple[Any, Record]]) -> dict[tuple[Any, str], list[list[Record]]]:
    """Return the records of each point of the grids, those of its seeds together, by name and validation setting."""
    points: dict[tuple[Any, str], dict[bytes, list[Record]]] = {}
    for name, record in named:
        point = canonical_json({key: value for key, value in record["config"].items() if key != "seed"})
        for setting in record.get("settings", {}):
            points.setdefault((name, setting), {}).setdefault(point, []).append(record)
    return {key: list(found.values()) for key, found in points.items()}


def _data(run: PlannedRun) -> str:
    settings = run.config.as_dict()
    return canonical_json({key: settings.get(key) for key in _DATA}).decode()


def average_over_data(found: Sequence[Best]) -> list[dict[str, Any]]:
    """Return each method's means over several data sets, and its gain on the first method; nothing for one data set.

    The gain is that of the worst group, or of all test rows where there are no attributes; its 95 % interval is
    Student's, over data sets.
    """
    if len({best.data for best in found}) < 2:
        return []
    methods: dict[tuple[str, str], dict[str, Best]] = {}
    for best in found:
        methods.setdefault((best.name, best.setting), {})[best.data] = best
    rows = []
    for (name, setting), own in methods.items():
        first = methods.get((found[0].name, setting), {})
        gains = [own[data].score - first[data].score for data in own if data in first]
        gain = seeds_interval(gains) if gains else Interval(math.nan, math.nan, math.nan)
        rows.append(
            {
                "method": name,
                "validation": setting,
                "test accuracy": float(np.mean([best.test for best in own.values()])),
                "worst group": float(np.mean([best.worst for best in own.values()])),
                f"gain on {found[0].name}": gain.value,
                "low": gain.low,
                "high": gain.high,
                "better in": f"{sum(value > 0 for value in gains)} of {len(gains)}",
            }
        )
    return rows


def search_points(
    experiment: Experiment, store: RunStore, run: Callable[[Sequence[PlannedRun]], SweepResult]
) -> tuple[tuple[PlannedRun, ...], SweepResult]:
    """Let Optuna's studies choose points of the methods' grids, one study for each method; return the runs they chose.

    A point is run with all seeds by `run`, and its value is the mean selection value. The study is kept in a journal
    file, so that a sweep that is started again goes on; records stay in the store, and a point is never run twice.
    The sampler "halving" needs no study: all points are run for a few epochs with the first seed, the best third for
    more, and so on; the last third has all epochs and seeds.
    """
    search = experiment.search
    assert search is not None
    if search.sampler == "halving":
        return _halve_points(experiment, search, store, run)
    optuna = require("optuna", extra="tracking", what="Searches by a study")
    require("optuna.storages.journal", extra="tracking", what="Searches by a study")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    backend = optuna.storages.journal.JournalFileBackend(str(store.folder / search.journal))
    storage = optuna.storages.JournalStorage(backend)
    asked: list[PlannedRun] = []
    results: list[SweepResult] = []
    for name, points in _points_by_method(experiment).items():
        axes = _axes([_settings(runs[0]) for runs in points])
        study = optuna.create_study(
            storage=storage,
            study_name=f"{experiment.name}: {name}",
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=0),
            load_if_exists=True,
        )
        by_values = {tuple(_text(_settings(runs[0]).get(key)) for key in axes): runs for runs in points}
        completed = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
        known = {tuple(trial.params[key] for key in axes) for trial in completed if set(trial.params) == set(axes)}
        chosen = known & by_values.keys()
        distributions = {key: optuna.distributions.CategoricalDistribution(values) for key, values in axes.items()}
        while len(chosen) < min(search.trials, len(points)):
            trial = study.ask(distributions)
            values = tuple(trial.params[key] for key in axes)
            if values in chosen or values not in by_values:  # the study repeats itself, or the grid has holes
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                fresh = next(point for point in by_values if point not in chosen)
                study.enqueue_trial(dict(zip(axes, fresh, strict=True)))
                continue
            chosen.add(values)
            results.append(run(by_values[values]))
            value = _mean_value(by_values[values], store, search.validation)
            failed = None if math.isfinite(value) else optuna.trial.TrialState.FAIL
            study.tell(trial, value if failed is None else None, state=failed)
        asked.extend(planned for values in by_values if values in chosen for planned in by_values[values])
    found = run(asked)  # all are there: it counts them, and names those that failed
    return tuple(asked), replace(found, n_new=sum(result.n_new for result in (found, *results)))


def _halve_points(
    experiment: Experiment, search: PointSearch, store: RunStore, run: Callable[[Sequence[PlannedRun]], SweepResult]
) -> tuple[tuple[PlannedRun, ...], SweepResult]:
    """Run every method's points in rounds, each with more epochs and the best third of the points before."""
    kept: list[PlannedRun] = []
    n_new = 0
    for points in _points_by_method(experiment).values():
        for epochs in search.epochs:
            short = [replace(runs[0], config=runs[0].config.changed(max_epochs=epochs)) for runs in points]
            n_new += run(short).n_new
            values = [_mean_value([planned], store, search.validation) for planned in short]
            best = np.argsort(values, kind="stable")[::-1][: max(len(points) // 3, 1)]
            points = [points[i] for i in sorted(best)]
        last = list(itertools.chain(*points))
        n_new += run(last).n_new  # a method is finished before the next begins
        kept.extend(last)
    found = run(kept)  # all are there: it counts them, and names those that failed
    return tuple(kept), replace(found, n_new=found.n_new + n_new)


def _points_by_method(experiment: Experiment) -> dict[str, list[list[PlannedRun]]]:
    """Return the points of each method's grid, each as its runs by seed."""
    points: dict[str, dict[bytes, list[PlannedRun]]] = {}
    for planned in experiment.runs:
        points.setdefault(planned.name, {}).setdefault(canonical_json(_settings(planned)), []).append(planned)
    return {name: list(found.values()) for name, found in points.items()}


def _settings(planned: PlannedRun) -> dict[str, Any]:
    return {key: value for key, value in planned.config.as_dict().items() if key != "seed"}


def _text(value: Any) -> str:
    """Return a setting as a text that a study can choose."""
    return canonical_json(value).decode()


def _axes(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the settings that vary, with their values."""
    keys = dict.fromkeys(key for point in settings for key in point)
    values = {key: list(dict.fromkeys(_text(point.get(key)) for point in settings)) for key in keys}
    return {key: found for key, found in values.items() if len(found) > 1}


def _mean_value(runs: Sequence[PlannedRun], store: RunStore, setting: str) -> float:
    """Return the mean selection value of a point over its seeds; minus infinity where a run failed."""
    records = [store.read(planned.config.identity) for planned in runs]
    if any(record is None or setting not in record.get("settings", {}) for record in records):
        return -math.inf
    return _value([record for record in records if record is not None], setting)


def best_point(points: Sequence[list[Record]], setting: str) -> list[Record]:
    """Return the runs of the grid point with the best mean selection value, among those with the most seeds."""
    n_seeds = max(map(len, points))
    return max((records for records in points if len(records) == n_seeds), key=lambda runs: _value(runs, setting))


def _value(records: list[Record], setting: str) -> float:
    mean = float(np.mean([record["settings"][setting]["value"] for record in records]))
    return -math.inf if math.isnan(mean) else mean


def _best(name: str, data: str, setting: str, points: list[list[Record]], several: bool) -> Best:
    """Return the chosen point; with `several` data sets or rules it says which one it is of."""
    chosen = best_point(points, setting)
    points = [records for records in points if len(records) == len(chosen)]
    tests = [float(record["settings"][setting]["test"]["accuracy"]) for record in chosen]
    point = _shown([records[0]["config"] for records in points], chosen[0]["config"], several)
    spread = float(np.std(tests, ddof=1)) if len(tests) > 1 else math.nan
    worst = float(np.mean([record["settings"][setting]["test"].get("worst", math.nan) for record in chosen]))
    rule = str(chosen[0]["settings"][setting]["selection"])
    test = float(np.mean(tests))
    value = _value(chosen, setting)
    return Best(name, data, setting, point, value, test, spread, worst, rule, len(tests), len(points))


def _shown(configs: list[Record], chosen: Record, several: bool) -> dict[str, Any]:
    """Return the settings that are not the defaults, and those that vary over the grid, the default too."""
    shown = {key: item for key, item in chosen.items() if key not in _COMMON or (several and key in _DATA)}
    keys = dict.fromkeys(key for config in configs for key in config)
    varied = [key for key in keys if any(config.get(key) != chosen.get(key) for config in configs)]
    full = parse_run(chosen).model_dump(mode="json")
    return shown | {key: full[key] for key in varied}
