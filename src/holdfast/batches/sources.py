"""Where rows come from: any container of rows in, tensors out, without a copy of the whole.

Memory maps stay on disk, sparse rows become dense a batch at a time, texts stay token numbers. Numbers become float32;
8-bit images (uint8 rows with two or more axes) are also divided by 255.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.batches.text import Vocabulary, pad
from holdfast.environments import Rows, is_lazy
from holdfast.exceptions import FeaturesError, InputTypeError


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
            raise FeaturesError(f"X must hold numbers. Got an array of dtype {array.dtype}.")
        # A plain view: indexing a memory map through it reads the rows asked for and returns ordinary arrays.
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
    """Rows that their holder makes dense a batch at a time, such as colored or undecoded images."""

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
    """Rows of a sparse matrix, made dense a batch at a time."""

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
    """Return the rows of X as a source.

    Parameters
    ----------
    X : array, memory map, sparse matrix, tensor, frame, rows with `dense(rows)`, or sequence of texts
        Texts are str or lists of str tokens.
    vocabulary : Vocabulary, optional
        Needed for texts.
    """
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
