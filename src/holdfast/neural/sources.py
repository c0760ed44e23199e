"""Rows of arrays, memory maps, sparse matrices and texts as tensors, without copying the whole.

Memory maps stay on disk, sparse rows become dense a batch at a time, texts stay token numbers. Numbers become float32;
8-bit images (uint8 rows with two or more axes) are also divided by 255.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.environments import Rows, is_lazy
from holdfast.exceptions import FeaturesError, InputTypeError, ParameterError

PADDING, UNKNOWN, N_RESERVED = 0, 1, 2


def tokenize(text: str | Sequence[str], *, lowercase: bool = False) -> list[str]:
    """Return the whitespace tokens of a text; a list of tokens passes as it is.

    Examples
    --------
    >>> tokenize("A dark  beer", lowercase=True)
    ['a', 'dark', 'beer']
    """
    if isinstance(text, str):
        return (text.lower() if lowercase else text).split()
    if isinstance(text, list | tuple | np.ndarray) and all(isinstance(token, str) for token in text):
        return [token.lower() for token in text] if lowercase else list(text)
    raise InputTypeError(f"A text must be a str or a list of str tokens. Got {type(text).__name__} instead.")


@dataclass(frozen=True)
class Vocabulary:
    """Numbers for tokens: 0 is padding, 1 is any unknown word, then come the tokens in their order."""

    tokens: tuple[str, ...]
    lowercase: bool = False
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {token: number for number, token in enumerate(self.tokens, start=N_RESERVED)}
        if len(numbers) < len(self.tokens):
            raise ParameterError("A vocabulary must not contain a token twice.")
        object.__setattr__(self, "_numbers", numbers)

    def __len__(self) -> int:
        return len(self.tokens) + N_RESERVED

    @classmethod
    def build(cls, texts: Iterable[str | Sequence[str]], *, min_count: int = 1, lowercase: bool = False) -> Vocabulary:
        """Collect the tokens that occur at least `min_count` times, in alphabetical order.

        Examples
        --------
        >>> Vocabulary.build(["a b b", "b c"], min_count=2).tokens
        ('b',)
        """
        counts = Counter(token for text in texts for token in tokenize(text, lowercase=lowercase))
        return cls(tuple(sorted(token for token, count in counts.items() if count >= min_count)), lowercase)

    def encode(self, text: str | Sequence[str]) -> NDArray[np.int32]:
        """Return the token numbers of a text."""
        numbers = self._numbers
        tokens = tokenize(text, lowercase=self.lowercase)
        return np.fromiter((numbers.get(token, UNKNOWN) for token in tokens), dtype=np.int32, count=len(tokens))

    def vectors(self, known: dict[str, NDArray[np.floating]] | None) -> Tensor | None:
        """Return the (n_tokens, dimension) matrix of word vectors, zero for padding and words without one."""
        if known is None:
            return None
        if not known:
            raise ParameterError("The word vectors are empty. Pass a mapping from words to vectors.")
        dimension = len(next(iter(known.values())))
        matrix = np.zeros((len(self), dimension), dtype=np.float32)
        for token, number in self._numbers.items():
            if token in known:
                matrix[number] = known[token]
        return torch.from_numpy(matrix)


def pad(rows: Sequence[NDArray[np.int32]]) -> Tensor:
    """Return the token numbers as one (n_rows, longest) int64 tensor; shorter texts end with zeros."""
    if len(rows) == 0:
        raise FeaturesError("X has 0 texts, but at least one is needed.")
    longest = max(1, max(len(row) for row in rows))
    padded = np.full((len(rows), longest), PADDING, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)


class RowSource(Protocol):
    """Rows by number, as tensors."""

    row_shape: tuple[int, ...]  # of one row; for texts (n_tokens,)

    def __len__(self) -> int: ...

    def take(self, rows: Rows | slice) -> Tensor:
        """Return the rows as one tensor, (n_rows, ...)."""
        ...


class ArrayRows:
    """Rows of an array or memory map."""

    def __init__(self, array: NDArray[Any]) -> None:
        if array.dtype.kind not in "fiub":
            raise FeaturesError(f"X must contain numbers. Got an array of dtype {array.dtype}.")
        # A plain view: indexing a memory map through it reads only those rows and returns ordinary arrays.
        self._array = np.asarray(array)
        self.row_shape = tuple(array.shape[1:])
        self._scale = 1 / 255 if array.dtype == np.uint8 and array.ndim > 2 else None

    def __len__(self) -> int:
        return len(self._array)

    def take(self, rows: Rows | slice) -> Tensor:
        """Return the rows as float32, (n_rows, ...)."""
        # A slice is a view, perhaps of read-only memory: it is copied, as fancy indexing does anyway.
        taken = self._array[rows].astype(np.float32, order="C", copy=isinstance(rows, slice))
        tensor = _channels_last(torch.from_numpy(taken))
        return tensor if self._scale is None else tensor.mul_(self._scale)


class LazyRows:
    """Rows of an object that decodes them a batch at a time, such as colored or compressed images."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.row_shape: tuple[int, ...] = tuple(rows.shape[1:])

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows | slice) -> Tensor:
        """Return the rows as float32, (n_rows, ...)."""
        return _channels_last(torch.from_numpy(np.asarray(self._rows.dense(rows), dtype=np.float32)))


def _channels_last(tensor: Tensor) -> Tensor:
    """Lay out images with the channels last: convolutions on a CPU are about 1.5 times faster (docs/decisions/0003)."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


class SparseRows:
    """Rows of a sparse matrix, converted to dense a batch at a time."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = sp.csr_array(matrix)
        self.row_shape: tuple[int, ...] = (int(matrix.shape[1]),)

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    def take(self, rows: Rows | slice) -> Tensor:
        """Return the rows as dense float32, (n_rows, n_features)."""
        return torch.from_numpy(self._matrix[rows].toarray().astype(np.float32, copy=False))


class TokenRows:
    """Texts as token numbers, padded to the longest of a batch."""

    def __init__(self, texts: Sequence[Any], vocabulary: Vocabulary) -> None:
        self._rows = [vocabulary.encode(text) for text in texts]
        self.row_shape: tuple[int, ...] = (len(vocabulary),)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: Rows | slice) -> Tensor:
        """Return the rows as int64 token numbers, (n_rows, longest)."""
        if isinstance(rows, slice):
            return pad(self._rows[rows])
        return pad([self._rows[row] for row in rows])


def make_source(X: Any, vocabulary: Vocabulary | None = None) -> RowSource:
    """Return the rows of X as a source; texts (str, or lists of str tokens) need a vocabulary."""
    if vocabulary is not None:
        return TokenRows(X, vocabulary)
    if sp.issparse(X):
        return SparseRows(X)
    if is_lazy(X):
        return LazyRows(X)
    if isinstance(X, Tensor):
        return ArrayRows(X.detach().cpu().numpy())
    if isinstance(X, np.ndarray) or hasattr(X, "__array__"):
        return ArrayRows(np.asanyarray(X))
    raise InputTypeError(
        "X must be an array, a memory map, a sparse matrix, a frame or a list of texts. "
        f"Got {type(X).__name__} instead."
    )
