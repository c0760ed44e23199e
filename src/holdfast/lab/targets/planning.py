"""Which runs a table or figure needs: the authors' settings on the data sets that are there, or small ones to try."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.lab.config import RunConfig, parse_run
from holdfast.lab.grids import PlannedRun
from holdfast.lab.targets.sources import SOURCES, authors, find_missing, further_files
from holdfast.lab.targets.values import Missing, Options, Plan, Reader, Record
from holdfast.reports.values import Spread


def make_run(key: str, method: str, options: Options, *, seed: int = 0, **settings: Any) -> RunConfig:
    """Return a run of a paper's data set with the authors' hyper-parameters; "halves" takes PI's."""
    source = SOURCES[key]
    published = authors()[key]["pi" if method == "halves" else method]
    files = source.quick if options.quick else further_files(key, options)
    values: dict[str, Any] = {**source.run, **published, **files}
    if method == "halves":
        values.pop("validations", None)
        values.pop("explain", None)
        if not source.natural and not options.quick:  # no test rows are scored
            values.pop("dataset_options", None)
    elif not options.quick:
        values["dataset_options"] = dict(source.options)
    if source.dataset == "beer":
        values["dataset_options"] = {"aspect": key.removeprefix("beer_")}
    extra = settings.pop("dataset_options", {})
    if extra:
        values["dataset_options"] = {**values.get("dataset_options", {}), **extra}
    return parse_run({**values, "dataset": source.dataset, "method": method, "seed": seed, **settings}, key)


def plan_methods(keys: Iterable[str], options: Options, methods: Mapping[str, str] | None = None) -> Plan:
    """Return the authors' runs of all methods on the data sets that are there, seed by seed: a cut is balanced."""
    there, missing = _there(keys, options)
    names = methods or {}
    runs = [
        PlannedRun(f"{key} {names.get(method, method)}", make_run(key, method, options, seed=seed))
        for key in there
        for seed in range(options.n_seeds)
        for method in authors()[key]
    ]
    return Plan(tuple(runs), missing)


def plan_halves(keys: Iterable[str], options: Options) -> Plan:
    """Return stages 1 and 2 on the data sets that are there; a finished run of PI has the same judges and halves."""
    there, missing = _there(keys, options)
    runs = [
        PlannedRun(
            key,
            make_run(key, "halves", options, seed=seed),
            served_by=make_run(key, "pi", options, seed=seed),
        )
        for key in there
        for seed in range(options.n_seeds)
    ]
    return Plan(tuple(runs), missing)


def _there(keys: Iterable[str], options: Options) -> tuple[list[str], tuple[Missing, ...]]:
    """Return the data sets that can be loaded, and what the others lack."""
    absent = {key: find_missing(key, options) for key in keys}
    return [key for key, lack in absent.items() if lack is None], tuple(lack for lack in absent.values() if lack)


VALIDATIONS = {"test": "as test", "train": "as training"}  # a setting of a run -> how tables call its rows


@dataclass(frozen=True)
class Ours:
    """Our number: the mean over seeds with its standard deviation."""

    mean: float
    spread: float  # NaN for one seed
    n_seeds: int

    def cell(self) -> Spread | None:
        """Return mean and spread for a table; None where nothing was measured."""
        return None if self.n_seeds == 0 else Spread(self.mean, self.spread)


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
