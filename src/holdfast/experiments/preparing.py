"""From a run's settings to rows that its estimator takes: loaded, features computed once, words numbered."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets import Dataset, Split, load_dataset
from holdfast.datasets.beer_files import TOKENS
from holdfast.datasets.folders import data_folder, note_file, noting_files
from holdfast.datasets.image_files import ImageFiles
from holdfast.datasets.made import MAKERS, make_files
from holdfast.exceptions import ConfigError, DatasetError
from holdfast.experiments.config import RunConfig
from holdfast.experiments.inputs import fingerprint, fingerprints
from holdfast.storage import FileLock, new_folder, write_bytes

_MADE_OPTIONS: Mapping[str, Mapping[str, Any]] = {  # made digits are not MNIST's, made reviews are about nothing
    "colored_mnist": {"verify": False},
    "beer": {"aspect": "look"},
}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set whose rows an estimator takes as they are, and what a network has to know about them."""

    dataset: Dataset
    vocabulary: Any = None  # texts: words over all splits
    network_options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the record


def prepare(config: RunConfig, folder: Path | None, cache: Path) -> Prepared:
    """Load a run's data set.

    Parameters
    ----------
    config : RunConfig
    folder : Path or None
        Where files are; None: $HOLDFAST_DATA, or the user's cache folder.
    cache : Path
        Where made files and computed features are kept.
    """
    with noting_files() as files:
        prepared = _prepare(config, folder, cache)
    facts = {} if config.made else {"files": fingerprints(files, folder)}
    return dataclasses.replace(prepared, facts={**prepared.facts, **facts})


def _prepare(config: RunConfig, folder: Path | None, cache: Path) -> Prepared:
    options = dict(config.dataset_options)
    if config.made and config.dataset in MAKERS:
        folder = _made(config.dataset, cache)
        options |= _MADE_OPTIONS.get(config.dataset, {})
    dataset = load_dataset(config.dataset, folder=folder, seed=config.seed, **options)
    base = data_folder() if folder is None else folder
    if config.backbone is not None:
        if not hasattr(dataset.train.X, "names"):
            raise ConfigError(
                f"backbone = {config.backbone!r} makes features of image files. Data set {config.dataset!r} has none. "
                "Leave backbone and weights out."
            )
        return Prepared(_with_features(dataset, config, base, cache))
    if isinstance(dataset.train.X, list):
        return _with_words(dataset, config, base)
    if hasattr(dataset.train.X, "columns"):
        return Prepared(_with_numbers(dataset))
    return Prepared(dataset)


def map_rows(dataset: Dataset, change: Callable[[Any, str], Any]) -> Dataset:
    """Return the data set with every split's rows changed by `change(X, split name)`."""

    def changed(split: Split, name: str) -> Split:
        return dataclasses.replace(split, X=change(split.X, name))

    validation = {name: changed(split, f"validation {name}") for name, split in dataset.validation.items()}
    return dataclasses.replace(
        dataset,
        train=changed(dataset.train, "train"),
        validation=validation,
        test=changed(dataset.test, "test"),
    )


def _made(name: str, cache: Path) -> Path:
    """Return the folder of small made files, made by the first process that asks."""
    folder = cache / "made" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "made" / f"{name}.lock"):
        if not folder.exists():
            with new_folder(folder) as unfinished:
                make_files(name, unfinished)
    return folder


def _with_words(dataset: Dataset, config: RunConfig, folder: Path) -> Prepared:
    """Number the words of all splits, and look up their fixed vectors."""
    from holdfast.batches import Vocabulary
    from holdfast.datasets.vectors import GLOVE_PACKAGE, load_vectors

    texts = [text for split in dataset.splits for text in split.X]
    vocabulary = Vocabulary.build(texts, min_count=config.min_count)
    facts: dict[str, Any] = {"n_words": len(vocabulary.tokens)}
    if config.vectors is None:
        return Prepared(dataset, vocabulary, {}, facts)
    is_package = config.vectors.replace("-", "_") == GLOVE_PACKAGE  # installed, not in the data folder
    source = config.vectors if is_package else folder / config.vectors
    vectors = load_vectors(source, words=vocabulary.tokens).add_random(TOKENS, seed=config.seed)
    facts |= {"vector_dimension": vectors.dimension, "coverage": vectors.coverage(dataset.train.X)}
    return Prepared(dataset, vocabulary, {"vectors": vectors}, facts)


def _with_numbers(dataset: Dataset) -> Dataset:
    """Turn the columns of a table into numbers, as learned on the training rows."""
    from holdfast.datasets.preprocess import make_preprocessor
    from holdfast.datasets.schema import TableSchema

    schema = TableSchema.infer(dataset.train.X)
    preprocessor = make_preprocessor(schema, dense=True).fit(schema.features(dataset.train.X))
    return map_rows(dataset, lambda X, _: np.asarray(preprocessor.transform(schema.features(X)), dtype=np.float32))


def _with_features(dataset: Dataset, config: RunConfig, folder: Path, cache: Path) -> Dataset:
    """Replace images by the features of a frozen network, scaled to unit variance; computed once and kept."""
    from holdfast.networks import Network, build_network
    from holdfast.networks.pretrained import extract_features

    weights = note_file(folder / str(config.weights))
    network = build_network(
        str(config.backbone), input_shape=tuple(dataset.train.X.shape[1:]), n_classes=2, weights=weights
    )
    if not isinstance(network, Network):
        raise DatasetError(f"The backbone {config.backbone!r} shows no features. Use mobilenet_v2 or resnet50.")

    # Of all splits together: seeds deal the same images to other splits.
    images = dataset.train.X
    names = np.unique(np.concatenate([split.X.names for split in dataset.splits]))
    values = _kept_features(
        cache / "features",
        f"{config.backbone} {images.size} {fingerprint(images.location)} {fingerprint(weights)}",
        names,
        lambda: extract_features(network, ImageFiles(images.location, names.tolist(), images.size)),
    )
    computed = map_rows(dataset, lambda X, _: values[np.searchsorted(names, X.names)])
    mean, scale = computed.train.X.mean(0), computed.train.X.std(0) + 1e-6
    return map_rows(computed, lambda X, _: ((X - mean) / scale).astype(np.float32))


def _kept_features(
    folder: Path, what: str, names: NDArray[np.str_], compute: Callable[[], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return features of the named images as a memory map, computed by the first process that asks."""
    key = hashlib.sha256("\n".join([what, *names]).encode()).hexdigest()[:20]
    path = folder / f"{key}.npy"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            file = io.BytesIO()
            np.save(file, compute(), allow_pickle=False)
            write_bytes(path, file.getvalue())
    kept: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return kept
