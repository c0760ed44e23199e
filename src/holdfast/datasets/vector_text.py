"""Word vectors as text: a word and its numbers a line, as FastText and GloVe write them, plain or gzip."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.compressed import open_plain
from holdfast.exceptions import DatasetError

_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_HEAD = 1 << 16  # bytes in which a binary file shows a zero


def read_vector_text(
    path: Path, words: Collection[str] | None = None, dimension: int | None = None
) -> tuple[list[str], NDArray[np.float32]]:
    """Read a text file of vectors.

    Parameters
    ----------
    path : Path
        A word and its numbers a line, separated by blanks. FastText's first line is the count and the dimension.
    words : collection of str, optional
        Keep these alone.
    dimension : int, optional
        What the vectors must have.

    Returns
    -------
    words : list of str
        In the file's order.
    vectors : array of shape (n_words, dimension)
    """
    wanted = None if words is None else set(words)
    kept: list[str] = []
    rows: list[NDArray[np.float32]] = []
    n_declared: int | None = None
    n_vectors = 0
    for number, raw in _lines(path):
        fields = raw.rstrip().split(b" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            n_declared = int(fields[0])
            dimension = _agreed_dimension(path, int(fields[1]), dimension)
            continue
        if len(fields) == 1:
            raise _unseparated(raw, path, number)
        if n_vectors == 0 and n_declared is None:
            dimension = _agreed_dimension(path, _apparent_dimension(fields, dimension), dimension)
        if dimension is None or not 0 < dimension < len(fields):
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
    if dimension is None or (n_vectors == 0 and n_declared is None):
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
        "The file may be cut off or no file of vectors; get it again."
    )


def _apparent_dimension(fields: list[bytes], asked: int | None) -> int:
    """Return the dimension that the first vector's line has, where words may hold blanks and some fields be wrong."""
    n_fields = len(fields) - 1
    if asked is None or n_fields <= asked:
        return n_fields
    n_numbers = next((i for i, field in enumerate(reversed(fields[1:])) if not _NUMBER.fullmatch(field)), n_fields)
    return max(n_numbers, asked)


def _agreed_dimension(path: Path, found: int, asked: int | None) -> int:
    """Return the dimension of the first line, unless another was asked for."""
    if asked is not None and asked != found:
        raise DatasetError(
            f"{path}, line 1: vectors of dimension {found}, but {asked} was asked for. "
            "Pass another file, or leave 'dimension' out."
        )
    return found


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
