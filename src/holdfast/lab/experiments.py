"""The settings of one run, and the grid of runs of an experiment file."""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.datasets import DATASETS
from holdfast.datasets.files import first_error, read_toml
from holdfast.estimators.methods import METHODS
from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import ConfigError, suggest
from holdfast.saving.json_files import canonical_json
from holdfast.seeding import Seeding

FORMAT = 1  # raise it when the same settings come to mean another run
HALVES = "halves"  # stages 1 and 2 without stage 3, next to the methods by name


class RunConfig(BaseModel):
    """Data set × method × hyper-parameters × seed.

    `method` is a name in `holdfast.estimators.methods.METHODS`, or "halves": stages 1 and 2 without stage 3.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    dataset: Annotated[str, AfterValidator(lambda name: _check_name("dataset", name, DATASETS))]
    method: Annotated[str, AfterValidator(lambda name: _check_name("method", name, (HALVES, *METHODS)))]
    seed: int = Field(0, ge=0)  # of the data set and of the training
    dataset_options: Mapping[str, Any] = Field(default_factory=dict)
    synthetic: bool = False  # small synthetic files instead of the real ones
    estimator: str = "mlp"  # a name in `holdfast.estimators.named.ESTIMATORS`, or a network by name
    estimator_options: Mapping[str, Any] = Field(default_factory=dict)
    method_options: Mapping[str, Any] = Field(default_factory=dict)
    known_attribute: str | None = None  # its values × labels refine PI's halves, or are group DRO's groups
    vectors: str | None = None  # texts: file of word vectors, in the data folder
    min_count: int = Field(5, ge=1)  # texts: words that occur less often, over all splits, are unknown
    backbone: str | None = None  # images: network whose frozen features are the rows
    weights: str | None = None  # in the data folder: of the backbone, or those that the network starts from
    learning_rate: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.0, ge=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    penalty_weight: float | None = Field(None, ge=0)  # irm, vrex, rgm
    warm_up: int | None = Field(None, ge=0)  # irm, vrex, rgm: steps at a penalty weight of 1
    loss: str = "cross_entropy"
    weight_averaging: float | None = Field(None, gt=0, lt=1)
    schedule: Literal["constant", "cosine"] = "constant"
    batch_size: int = Field(50, ge=1)  # rows of each group
    steps_per_epoch: int = Field(100, ge=1)
    max_epochs: int = Field(1000, ge=1)
    patience: int = Field(20, ge=1)
    selection: Literal["validation_accuracy", "worst_group_validation", "min_train_validation", "last"] = (
        "min_train_validation"
    )
    validations: tuple[str, ...] = ("train", "test")  # settings that are scored; data sets without one leave it out
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    explain: int | None = Field(None, ge=0)  # texts: test row whose words are taken out one by one
    explain_rows: int = Field(1, ge=1)  # texts: the same for so many test rows from there on

    @field_validator("validations")
    @classmethod
    def _some_validation(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not set(value) <= {"train", "test"}:
            raise ValueError(f"validations must name 'train', 'test' or both. Got {list(value)}")
        return value

    @model_validator(mode="after")
    def _features_of_known_weights(self) -> RunConfig:
        if self.backbone is not None and self.weights is None:
            raise ValueError("features of an untrained network mean nothing. Give the backbone's weights too")
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, as plain values."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def is_network(self) -> bool:
        """Whether the estimator is a network, which is trained epoch by epoch."""
        return self.estimator not in ESTIMATORS or ESTIMATORS[self.estimator].is_network

    @property
    def identity(self) -> str:
        """The run's name: a hash of its settings, which are the same run however they are written.

        The editions of data set and method enter it: runs on other rows, or of an older form of the method, are not
        used again.
        """
        found = {"edition": DATASETS[self.dataset].edition}
        if self.method != HALVES:
            found["method_edition"] = METHODS[self.method].edition
        editions = {kind: edition for kind, edition in found.items() if edition > 1}
        return hashlib.sha256(canonical_json({"format": FORMAT, **editions, **self.as_dict()})).hexdigest()[:20]

    def changed(self, **settings: Any) -> RunConfig:
        """Return the run with other settings, checked."""
        return parse_run({**self.as_dict(), **settings})


def parse_run(values: Mapping[str, Any], where: str = "The run") -> RunConfig:
    """Check the settings of a run; `where` is what errors name.

    Examples
    --------
    >>> parse_run({"dataset": "toy", "method": "erm", "learnin_rate": 0.1})
    Traceback (most recent call last):
        ...
    holdfast.exceptions.ConfigError: The run has an unknown key 'learnin_rate'. Did you mean 'learning_rate'?
    """
    try:
        return RunConfig(**values)
    except ValidationError as problem:
        raise ConfigError(f"{where} {first_error(problem, RunConfig.model_fields)}") from problem
    except TypeError as problem:
        raise ConfigError(f"{where} cannot be used: {problem}.") from problem


def refuse_unknown(values: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse the first key that is not known."""
    known = list(known)
    for key in values:
        if key not in known:
            raise ConfigError(f"{where} has an unknown key {key!r}. {suggest(key, known)}")


def _check_name(what: str, value: str, known: Iterable[str], where: str | None = None) -> str:
    """Return a name that is known; `where` is what the error names, None inside of pydantic, which says where it is."""
    if value in (names := list(known)):
        return value
    if where is None:
        raise ValueError(f"there is no {what} {value!r}. {suggest(value, names)}")
    raise ConfigError(f"{where} has {what} = {value!r}. {suggest(value, names)}")


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

        _check_name("estimator", config.estimator, dict.fromkeys([*ESTIMATORS, *NETWORKS]), where)
        factory = inspect.signature(NETWORKS[config.estimator]).parameters
        options = [name for name in factory if name not in ("input_shape", "n_classes", "dropout")]
    refuse_unknown(config.estimator_options, options, f"{where}: estimator_options of {config.estimator}")
    starts_from_weights = config.is_network and "weights" in options
    if config.weights is not None and config.backbone is None and not starts_from_weights:
        raise ConfigError(
            f"{where} has weights = {config.weights!r}, but {config.estimator!r} starts from none. Use the estimator "
            'mobilenet_v2 or resnet50, or give the backbone whose features are the rows: backbone = "mobilenet_v2".'
        )
    if config.backbone is not None:
        from holdfast.neural.networks import NETWORKS

        _check_name("backbone", config.backbone, NETWORKS, where)


BUDGETS = ("paper", "equal")
_KEYS = ("name", "budget", "seeds", "resources", "search", "run", "methods")
_NOT_A_GRID = ("validations",)  # a list there is one value


class Resources(BaseModel):
    """What a run needs of a machine on a Ray cluster; not part of its identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: float = Field(1, gt=0)  # it computes with as many threads
    gpus: float = Field(0, ge=0)


@dataclass(frozen=True)
class PlannedRun:
    """A run and what the experiment calls its method."""

    name: str  # for example "PI, averaged weights"; not part of the run's identity
    config: RunConfig
    served_by: RunConfig | None = None  # a longer run whose record holds all that this one's would
    resources: Resources = Resources()


class PointSearch(BaseModel):
    """How points of the grids are chosen where not all of them are run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sampler: Literal["optuna", "halving"]
    trials: int = Field(20, ge=1)  # optuna: points of each method
    journal: str = "optuna.journal"  # optuna: the study's file, in the folder of the records
    epochs: tuple[int, ...] = (5, 15)  # halving: of each round before the last, which has all that a run has
    validation: Literal["train", "test"] = "train"  # the validation setting whose selection value is maximized


@dataclass(frozen=True)
class Experiment:
    """The runs of an experiment file."""

    name: str
    budget: str
    runs: tuple[PlannedRun, ...]
    search: PointSearch | None = None


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment file.

    Parameters
    ----------
    path : path
        A TOML file with `name`, `seeds`, a table `[run]` that all runs share, and a table `[[methods]]` for each
        method. A list in place of a number, a word, a seed or a table of options is a grid. `budget = "paper"` runs
        every point of every grid, as the paper does, which gives IRM and RGM a search 21 times larger; `budget =
        "equal"` gives each method as many points as the smallest grid has, drawn at random, evenly over the settings
        that all methods vary. `resources = {cpus = 2, gpus = 1}`, at the top or of a method, is what a run needs of a
        machine on a Ray cluster.
    """
    missing = f"The experiment file {path} does not exist. Check the path."
    return parse_experiment(read_toml(Path(path), missing, ConfigError), where=str(path))


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
    places = [f"{where}: [[methods]] {i}" for i in range(1, len(methods) + 1)]
    grids = [_points({**shared, **method}, place) for method, place in zip(methods, places, strict=True)]
    repeated = [name for name, count in Counter(name for name, _ in grids).items() if count > 1]
    if repeated:
        raise ConfigError(
            f"{where} has several [[methods]] called {repeated[0]!r}, whose results would be taken for one grid. "
            'Give each a name: name = "PI, boosting".'
        )
    if budget == "equal":
        grids = _equal(grids)
    usual = content.get("resources", {})
    needs = [_resources(method.get("resources", usual), place) for method, place in zip(methods, places, strict=True)]
    runs = [
        PlannedRun(name, config.changed(seed=seed), resources=need)
        for (name, points), need in zip(grids, needs, strict=True)
        for config in points
        for seed in seeds
    ]
    unique = {run.config.identity: run for run in reversed(runs)}  # the first of equal runs stays
    search = None
    if "search" in content:
        try:
            search = PointSearch.model_validate(content["search"])
        except ValidationError as problem:
            raise ConfigError(f"{where}: [search] {first_error(problem, PointSearch.model_fields)}") from problem
        if search.sampler == "halving":
            _refuse_short_rounds(search, [run.config for run in unique.values()], f"{where}: [search]")
    return Experiment(str(content.get("name", "experiment")), budget, tuple(reversed(unique.values())), search)


def _refuse_short_rounds(search: PointSearch, runs: Iterable[RunConfig], where: str) -> None:
    """Refuse a first round that ends within a warm-up: it would compare points before their penalty acts."""
    shortest = min(search.epochs, default=0)
    for run in runs:
        steps, warm_up = shortest * run.steps_per_epoch, run.warm_up or 0
        if search.epochs and steps <= warm_up:
            raise ConfigError(
                f"{where} has epochs = {list(search.epochs)}: {shortest} epochs are {steps:,} steps, but points of "
                f"{run.method} have a warm_up of {warm_up:,}, and would be compared before their penalty acts. Use at "
                f"least {warm_up // run.steps_per_epoch + 1} epochs."
            )


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


def _resources(values: Any, where: str) -> Resources:
    """Check what a method's runs need of a machine."""
    try:
        return Resources(**values)
    except ValidationError as problem:
        raise ConfigError(f"{where}: resources {first_error(problem, Resources.model_fields)}") from problem
    except TypeError:
        raise ConfigError(f"{where} has resources = {values!r}. Write resources = {{cpus = 2, gpus = 1}}.") from None


def _points(values: Mapping[str, Any], where: str) -> tuple[str, list[RunConfig]]:
    """Return a method's name and the points of its grid, without seeds."""
    empty = [key for key, value in values.items() if value == [] and key not in _NOT_A_GRID]
    if empty:
        raise ConfigError(f"{where} has {empty[0]} = [], a grid without points. Give it values, or leave it out.")
    name = values.get("name", values.get("method", ""))
    settings = {key: value for key, value in values.items() if key not in ("name", "resources")}
    if "seed" in settings:
        raise ConfigError(f"{where} has a seed of its own. Seeds are for all methods: seeds = [0, 1, 2] at the top.")
    points = [parse_run(point, where) for point in expand(settings)]
    for point in points:
        check_names(point, where)
    return str(name), points


def _equal(grids: Sequence[tuple[str, list[RunConfig]]]) -> list[tuple[str, list[RunConfig]]]:
    """Give each method as many points as the smallest grid has, drawn evenly over the settings that all methods vary.

    A method's further settings are drawn evenly too: no combination twice before all have been drawn.
    """
    size = min(len(points) for _, points in grids)
    tables = [[point.model_dump(mode="json") for point in points] for _, points in grids]
    varied = [
        [key for key in RunConfig.model_fields if any(row[key] != rows[0][key] for row in rows)] for rows in tables
    ]
    shared = [key for key in RunConfig.model_fields if all(key in keys for keys in varied)]
    result = []
    for number, ((name, points), rows, keys) in enumerate(zip(grids, tables, varied, strict=True)):
        common = [canonical_json([row[key] for key in shared]) for row in rows]
        further = [canonical_json([row[key] for key in keys if key not in shared]) for row in rows]
        cells: dict[bytes, list[int]] = {}
        for place in Seeding(0).generator("budget", number, name).permutation(len(points)).tolist():
            cells.setdefault(common[place], []).append(place)
        drawn: list[int] = []
        while len(drawn) < size:
            for cell in [cell for cell in cells.values() if cell][: size - len(drawn)]:
                times = Counter(further[place] for place in drawn)
                drawn.append(min(cell, key=lambda place: times[further[place]]))
                cell.remove(drawn[-1])
        result.append((name, [points[place] for place in sorted(drawn)]))
    return result
