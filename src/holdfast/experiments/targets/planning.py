"""Which runs a table or figure needs: data sets that are there, the authors' settings, and small ones to try."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.datasets import data_instructions, load_dataset
from holdfast.datasets.folders import data_folder
from holdfast.datasets.vectors import GLOVE_PACKAGE, holds_vectors
from holdfast.exceptions import ConfigError, DatasetError
from holdfast.experiments.config import RunConfig, parse_run
from holdfast.experiments.grids import PlannedRun

Record = dict[str, Any]
Reader = Callable[[RunConfig], Record | None]


@dataclass(frozen=True)
class Options:
    """What a target was asked for."""

    folder: Path | None = None  # of the data sets
    quick: bool = False  # small made data and short trainings: shows that it works, not what comes out
    n_seeds: int = 3
    recorded: tuple[Record, ...] | None = None  # tell again what these records hold, without any data


@dataclass(frozen=True)
class Missing:
    """A data set that is not there, and what it needs."""

    dataset: str
    reason: str
    needs: str


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
    is_map: bool = False  # a number in percent for each pair of row and column, to be drawn as a heat map


@dataclass(frozen=True)
class Source:
    """A data set of the paper: how it is loaded, and what its networks are."""

    dataset: str
    options: Mapping[str, Any]
    run: Mapping[str, Any]  # settings of all its runs
    quick: Mapping[str, Any]  # those of a quick run on made data
    natural: bool = False


# FastText's as in the paper first, then GloVe's text files, kept subsets, and the package.
_VECTOR_FILES = (
    *("*.vec", "*/*.vec", "glove*.txt", "*/glove*.txt", "*.npz", "glove/*.npz", "vectors/*.npz"),
    f"{GLOVE_PACKAGE}*.whl",
)
_SHORT = {"max_epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "patience": 2, "made": True}
_TEXT = {"estimator": "text_cnn"}
_EXPLAINED = {**_TEXT, "explain": 0}  # the first test review tells the words that each classifier relies on
_NATURAL = {"selection": "worst_group_validation", "validations": ["train"]}
_QUICK_TEXT = {**_SHORT, "learning_rate": 0.01, "estimator_options": {"n_filters": 4}, "vectors": "vectors.npz"}
_QUICK_IMAGES = {**_SHORT, "estimator": "mlp", "estimator_options": {"hidden": [16]}}

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "mnist": Source("colored_mnist", {"test_colorings": 10}, {"estimator": "cnn"}, _QUICK_IMAGES),
        **{
            f"beer_{aspect}": Source("beer", {"aspect": aspect}, _EXPLAINED, _QUICK_TEXT)
            for aspect in ("look", "aroma", "palate")
        },
        "ask2me": Source(
            "ask2me",
            {},
            {**_TEXT, **_NATURAL},
            {**_SHORT, "estimator_options": {"n_filters": 4, "dimension": 8}},
            natural=True,
        ),
        "celeba": Source("celeba", {}, _NATURAL, _QUICK_IMAGES, natural=True),
    }
)


@functools.cache
def authors() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the authors' hyper-parameters: data set -> method -> settings."""
    text = resources.files("holdfast.experiments").joinpath("authors.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def _finished(run: PlannedRun, has: Callable[[str], bool]) -> PlannedRun:
    """Return the run, or the finished one that serves it."""
    other = run.served_by
    if other is None or has(run.config.identity) or not has(other.identity):
        return run
    return PlannedRun(run.name, other)


def make_run(key: str, method: str, options: Options, *, seed: int = 0, **settings: Any) -> RunConfig:
    """Return a run of a paper's data set with the authors' hyper-parameters; "halves" takes PI's."""
    source = SOURCES[key]
    published = authors()[key]["pi" if method == "halves" else method]
    values: dict[str, Any] = {**source.run, **published, **(source.quick if options.quick else _files(key, options))}
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


def find_missing(key: str, options: Options) -> Missing | None:
    """Return what a data set lacks, None when it can be loaded."""
    if options.quick:
        return None
    source = SOURCES[key]
    if options.recorded is not None:
        found = _recorded(key, options)
        return None if found else Missing(key, "no run of it is recorded", data_instructions(source.dataset, "DIR"))
    try:
        aspect = {"aspect": source.options["aspect"]} if "aspect" in source.options else {}
        load_dataset(source.dataset, folder=options.folder, **aspect)
        _files(key, options)
    except (DatasetError, ConfigError) as problem:
        return Missing(key, str(problem), data_instructions(source.dataset, options.folder))
    return None


def _files(key: str, options: Options) -> dict[str, Any]:
    """Return the settings that name further files: word vectors, pretrained weights."""
    source = SOURCES[key]
    if source.run.get("estimator") == "text_cnn":
        if options.recorded is not None:
            return {"vectors": _recorded(key, options)[0]["vectors"]}
        return {"vectors": _find(options, _VECTOR_FILES, "vectors", holds_vectors)}
    if source.dataset == "celeba":
        known = _recorded(key, options)[0]["weights"] if options.recorded is not None else None
        weights = known or _find(options, ("mobilenet_v2*.pth", "weights/mobilenet_v2*.pth"), "weights of MobileNetV2")
        # The paper trains ResNet-50 as a whole; frozen features fit a machine without a graphics card.
        return {"backbone": "mobilenet_v2", "weights": weights, "estimator": "linear", "learning_rate": 1e-3}
    return {}


def _find(
    options: Options, patterns: Iterable[str], what: str, fits: Callable[[Path], bool] = lambda path: True
) -> str:
    """Return the first file of the data folder that has one of the names and fits, as a relative path."""
    base = data_folder() if options.folder is None else options.folder
    for pattern in patterns:
        found = sorted(path for path in base.glob(pattern) if path.is_file() and fits(path))
        if found:
            return found[0].relative_to(base).as_posix()
    needs = data_instructions("vectors", base) if what == "vectors" else f"Put mobilenet_v2-*.pth into {base}/weights."
    raise DatasetError(f"There are no {what} in {base}. {needs}")


def _recorded(key: str, options: Options) -> list[dict[str, Any]]:
    """Return the settings of the recorded runs on a data set."""
    source = SOURCES[key]
    configs = [record["config"] for record in options.recorded or ()]
    aspect = source.options.get("aspect")
    return [
        config
        for config in configs
        if config["dataset"] == source.dataset and config.get("dataset_options", {}).get("aspect") == aspect
    ]
