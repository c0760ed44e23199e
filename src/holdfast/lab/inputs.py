"""Load the rows of a run: data set, computed features and numbered words."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets import Dataset, Split, load_dataset
from holdfast.datasets.beer import TOKENS
from holdfast.datasets.celeba import ImageFiles
from holdfast.datasets.folders import data_folder, note_file, noting_files
from holdfast.datasets.synthetic import MAKERS, make_files
from holdfast.exceptions import ConfigError, DatasetError
from holdfast.lab.experiments import RunConfig
from holdfast.rows.kinds import is_frame
from holdfast.saving.files import locked, new_folder, write_bytes

_HASHED = 1 << 27  # bytes from the start and from the end: files of word vectors have gigabytes


def fingerprints(files: Iterable[Path], folder: Path | None) -> dict[str, str]:
    """Return a hash of each file, by its path inside the data folder."""
    base = (data_folder() if folder is None else folder).resolve()
    found = {}
    for file in dict.fromkeys(path.resolve() for path in files):
        name = file.relative_to(base).as_posix() if file.is_relative_to(base) else str(file)
        found[name] = fingerprint(file)
    return found


def find_changed(record: Mapping[str, Any], folder: Path | None) -> str | None:
    """Return the first file of a finished run that has changed since, or None; files that are gone do not count."""
    base = data_folder() if folder is None else folder
    for name, known in record.get("data", {}).get("files", {}).items():
        path = base / name
        if path.is_file() and fingerprint(path) != known:
            return str(name)
    return None


def fingerprint(path: Path) -> str:
    """Return what changes when a file, or the list of files in a folder, does."""
    facts = path.stat()
    if path.is_dir():
        return f"{path.resolve()} {facts.st_mtime_ns}"
    return _hash(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash(path: Path, size: int, _changed: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_HASHED))
        if size > _HASHED:
            file.seek(max(size - _HASHED, _HASHED))
            digest.update(file.read())
    return digest.hexdigest()[:20]


_SYNTHETIC_OPTIONS: Mapping[str, Mapping[str, Any]] = {  # these digits are not MNIST's, the reviews have no aspect
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
    """Load a run's data set from `folder`; synthetic files and computed features are kept in `cache`."""
    with noting_files() as files:
        prepared = _prepare(config, folder, cache)
    facts = {} if config.synthetic else {"files": fingerprints(files, folder)}
    return dataclasses.replace(prepared, facts={**prepared.facts, **facts})


def _prepare(config: RunConfig, folder: Path | None, cache: Path) -> Prepared:
    options = dict(config.dataset_options)
    if config.synthetic and config.dataset in MAKERS:
        folder = _synthetic_files(config.dataset, cache)
        options |= _SYNTHETIC_OPTIONS.get(config.dataset, {})
    dataset = load_dataset(config.dataset, folder=folder, seed=config.seed, **options)
    base = data_folder() if folder is None else folder
    if config.backbone is not None:
        if not isinstance(dataset.train.X, ImageFiles):
            raise ConfigError(
                f"backbone = {config.backbone!r} makes features of image files. Data set {config.dataset!r} has none. "
                "Leave backbone and weights out."
            )
        return Prepared(_with_features(dataset, config, base, cache))
    if isinstance(dataset.train.X, list):
        return _with_words(dataset, config, base)
    if is_frame(dataset.train.X):
        return Prepared(_with_numbers(dataset))
    start = {} if config.weights is None else {"weights": note_file(base / config.weights)}
    return Prepared(dataset, None, start)


def map_rows(dataset: Dataset, change: Callable[[Any], Any]) -> Dataset:
    """Return the data set with the rows of every split changed."""

    def changed(split: Split) -> Split:
        return dataclasses.replace(split, X=change(split.X))

    validation = {name: changed(split) for name, split in dataset.validation.items()}
    return dataclasses.replace(dataset, train=changed(dataset.train), validation=validation, test=changed(dataset.test))


def _synthetic_files(name: str, cache: Path) -> Path:
    """Return the folder of small synthetic files, written by the first process that asks."""
    folder = cache / "synthetic" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(cache / "synthetic" / f"{name}.lock"):
        if not folder.exists():
            with new_folder(folder) as unfinished:
                make_files(name, unfinished)
    return folder


def _with_words(dataset: Dataset, config: RunConfig, folder: Path) -> Prepared:
    """Number the words of all splits, and look up their fixed vectors."""
    from holdfast.datasets.vectors import load_vectors
    from holdfast.neural.batches import Vocabulary

    texts = [text for split in dataset.splits for text in split.X]
    vocabulary = Vocabulary.build(texts, min_count=config.min_count)
    facts: dict[str, Any] = {"n_words": len(vocabulary.tokens)}
    if config.vectors is None:
        return Prepared(dataset, vocabulary, {}, facts)
    vectors = load_vectors(folder / config.vectors, words=vocabulary.tokens).add_random(TOKENS, seed=config.seed)
    facts |= {"vector_dimension": vectors.dimension, "coverage": vectors.coverage(dataset.train.X)}
    return Prepared(dataset, vocabulary, {"vectors": vectors}, facts)


def _with_numbers(dataset: Dataset) -> Dataset:
    """Turn the columns of a table into numbers, as learned on the training rows."""
    from holdfast.tables.preprocessing import make_preprocessor
    from holdfast.tables.schema import TableSchema

    schema = TableSchema.infer(dataset.train.X)
    preprocessor = make_preprocessor(schema, dense=True).fit(schema.features(dataset.train.X))
    return map_rows(dataset, lambda X: np.asarray(preprocessor.transform(schema.features(X)), dtype=np.float32))


def _with_features(dataset: Dataset, config: RunConfig, folder: Path, cache: Path) -> Dataset:
    """Replace images by the features of a frozen network, scaled to unit variance; computed once and kept."""
    from holdfast.neural.networks import Network, build_network
    from holdfast.neural.networks.pretrained import extract_features

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
    computed = map_rows(dataset, lambda X: values[np.searchsorted(names, X.names)])
    mean, scale = computed.train.X.mean(0), computed.train.X.std(0) + 1e-6
    return map_rows(computed, lambda X: ((X - mean) / scale).astype(np.float32))


def _kept_features(
    folder: Path, what: str, names: NDArray[np.str_], compute: Callable[[], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return features of the named images as a memory map, computed by the first process that asks."""
    key = hashlib.sha256("\n".join([what, *names]).encode()).hexdigest()[:20]
    path = folder / f"{key}.npy"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")):
        if not path.exists():
            file = io.BytesIO()
            np.save(file, compute(), allow_pickle=False)
            write_bytes(path, file.getvalue())
    kept: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return kept
