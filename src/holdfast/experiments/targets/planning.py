"""Which runs a table or figure needs: the authors' settings on the data sets that are there, or small ones to try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.experiments.config import RunConfig, parse_run
from holdfast.experiments.grids import PlannedRun
from holdfast.experiments.targets.files import find_missing, further_files
from holdfast.experiments.targets.sources import SOURCES, authors
from holdfast.experiments.targets.values import Missing, Options, Plan


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
