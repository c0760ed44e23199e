"""Experiment files: one TOML in, the runs of its grid out."""

from __future__ import annotations

import inspect
import itertools
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.datasets import DATASETS
from holdfast.estimators.methods import METHODS
from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import ConfigError, suggest
from holdfast.lab.config import HALVES, RunConfig, parse_run, refuse_unknown
from holdfast.seeding import Seeding


def check_names(config: RunConfig, where: str) -> None:
    """Refuse a name that no run could use; `where` is what errors name, for example the experiment file."""
    refuse_unknown(config.dataset_options, DATASETS[config.dataset].options(), f"{where}: dataset_options")
    if config.method != HALVES:
        known = [name for name in inspect.signature(METHODS[config.method]).parameters if name != "estimator"]
        refuse_unknown(config.method_options, known, f"{where}: method_options of {config.method}")
    if not config.is_network:
        options = list(ESTIMATORS[config.estimator].make().get_params())
    else:
        from holdfast.neural.networks import NETWORKS  # with torch, which only networks need

        _refuse("estimator", config.estimator, dict.fromkeys([*ESTIMATORS, *NETWORKS]), where)
        factory = inspect.signature(NETWORKS[config.estimator]).parameters
        options = [name for name in factory if name not in ("input_shape", "n_classes", "dropout")]
    refuse_unknown(config.estimator_options, options, f"{where}: estimator_options of {config.estimator}")
    if config.backbone is not None:
        from holdfast.neural.networks import NETWORKS

        _refuse("backbone", config.backbone, NETWORKS, where)


def _refuse(what: str, name: str, known: Iterable[str], where: str) -> None:
    if name not in (names := list(known)):
        raise ConfigError(f"{where} has {what} = {name!r}. {suggest(name, names)}")


BUDGETS = ("paper", "equal")
_KEYS = ("name", "budget", "seeds", "run", "methods")
_NOT_A_GRID = ("validations", "dataset_options", "estimator_options", "method_options")  # lists there are values


@dataclass(frozen=True)
class PlannedRun:
    """A run and what the experiment calls its method."""

    name: str  # for example "PI, averaged weights"; not part of the run's identity
    config: RunConfig
    served_by: RunConfig | None = None  # a longer run whose record holds all that this one's would


@dataclass(frozen=True)
class Experiment:
    """The runs of an experiment file."""

    name: str
    budget: str
    runs: tuple[PlannedRun, ...]


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment file.

    Parameters
    ----------
    path : path
        A TOML file with `name`, `seeds`, a table `[run]` that all runs share, and a table `[[methods]]` for each
        method. A list in place of a number, a word or a seed is a grid. `budget = "paper"` runs every point of every
        grid, as the paper does, which gives IRM and RGM a search 21 times larger; `budget = "equal"` gives each method
        as many points as the smallest grid has, drawn at random.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError(f"The experiment file {path} does not exist. Check the path.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise ConfigError(f"{path} cannot be read as TOML: {problem}.") from problem
    return parse_experiment(content, where=str(path))


def parse_experiment(content: Mapping[str, Any], *, where: str = "The experiment") -> Experiment:
    """Check an experiment's content and expand its grids."""
    refuse_unknown(content, _KEYS, where)
    shared, methods, seeds = content.get("run", {}), content.get("methods", []), content.get("seeds", [0])
    budget = content.get("budget", "paper")
    if budget not in BUDGETS:
        raise ConfigError(f"{where} has budget = {budget!r}. Use one of {list(BUDGETS)}.")
    if not isinstance(methods, list) or not methods or not all(isinstance(method, dict) for method in methods):
        raise ConfigError(f'{where} has no method. Add at least one table [[methods]] with method = "pi", for example.')
    whole = isinstance(seeds, list) and all(isinstance(s, int) and not isinstance(s, bool) and s >= 0 for s in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(
            f"{where} has seeds = {seeds!r}. Give a list of different integers from 0 on, such as [0, 1, 2]."
        )
    if not isinstance(shared, dict):
        raise ConfigError(f"{where} has a [run] that is not a table.")
    refuse_unknown(shared, [key for key in RunConfig.model_fields if key not in ("method", "seed")], f"{where}: [run]")
    grids = [_points({**shared, **method}, f"{where}: [[methods]] {i}") for i, method in enumerate(methods, start=1)]
    repeated = [name for name, count in Counter(name for name, _ in grids).items() if count > 1]
    if repeated:
        raise ConfigError(
            f"{where} has several [[methods]] called {repeated[0]!r}, whose results would be taken for one grid. "
            'Give each a name: name = "PI, boosting".'
        )
    if budget == "equal":
        grids = _equal(grids)
    runs = [
        PlannedRun(name, config.changed(seed=seed)) for name, points in grids for config in points for seed in seeds
    ]
    unique = {run.config.identity: run for run in reversed(runs)}  # the first of equal runs stays
    return Experiment(str(content.get("name", "experiment")), budget, tuple(reversed(unique.values())))


def expand(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of the values that are lists.

    Examples
    --------
    >>> expand({"method": "erm", "dropout": [0.1, 0.3]})
    [{'method': 'erm', 'dropout': 0.1}, {'method': 'erm', 'dropout': 0.3}]
    """
    axes = [
        [(key, item) for item in value] if isinstance(value, list) and key not in _NOT_A_GRID else [(key, value)]
        for key, value in values.items()
    ]
    return [dict(point) for point in itertools.product(*axes)]


def _points(values: Mapping[str, Any], where: str) -> tuple[str, list[RunConfig]]:
    """Return a method's name and the points of its grid, without seeds."""
    empty = [key for key, value in values.items() if value == [] and key not in _NOT_A_GRID]
    if empty:
        raise ConfigError(f"{where} has {empty[0]} = [], a grid without points. Give it values, or leave it out.")
    name = values.get("name", values.get("method", ""))
    settings = {key: value for key, value in values.items() if key != "name"}
    if "seed" in settings:
        raise ConfigError(f"{where} has a seed of its own. Seeds are for all methods: seeds = [0, 1, 2] at the top.")
    points = [parse_run(point, where) for point in expand(settings)]
    for point in points:
        check_names(point, where)
    return str(name), points


def _equal(grids: Sequence[tuple[str, list[RunConfig]]]) -> list[tuple[str, list[RunConfig]]]:
    """Give each method as many points as the smallest grid has, drawn without replacement."""
    size = min(len(points) for _, points in grids)
    result = []
    for number, (name, points) in enumerate(grids):
        drawn = Seeding(0).generator("budget", number, name).permutation(len(points))[:size]
        result.append((name, [points[i] for i in sorted(drawn)]))
    return result
