"""Rows that stay on disk: reading a memory map block by block, so that features are never all in memory at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from holdfast.environments import Rows, take_rows

BLOCK_NUMBERS = 1 << 21  # numbers that are read at once: 16 MiB of float64


class MappedRows:
    """Some rows of a memory map as a whole of their own, read only where they are asked for."""

    def __init__(self, array: NDArray[Any], rows: Rows) -> None:
        self._array, self._rows = array, rows
        self.shape: tuple[int, ...] = (len(rows), *array.shape[1:])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Rows | slice) -> NDArray[Any]:
        taken: NDArray[Any] = self._array[self._rows[rows]]
        return taken

    dense = __getitem__  # networks take rows that have it a batch at a time


class TransformedRows:
    """Rows of a memory map that are transformed as they are read, for networks behind fitted transformers."""

    def __init__(self, X: Any, transform: Callable[[Any], Any]) -> None:
        self._X, self._transform = X, transform
        self.shape: tuple[int, ...] = (X.shape[0], *transform(X[:1]).shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def dense(self, rows: Rows | slice) -> NDArray[Any]:
        """Return rows, transformed, as an array."""
        taken = self._transform(self._X[rows])
        return np.asarray(taken.toarray() if hasattr(taken, "toarray") else taken)

    __getitem__ = dense


def is_mapped(X: Any) -> bool:
    """Return whether rows lie in a memory map, also where numpy or scikit-learn made a plain view of it.

    Examples
    --------
    >>> is_mapped(np.zeros((2, 2)))
    False
    """
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, MappedRows)


def blocks_of(X: Any) -> Iterator[slice]:
    """Yield slices that together cover the rows of X, each of at most `BLOCK_NUMBERS` numbers."""
    n_rows = max(1, BLOCK_NUMBERS // max(1, math.prod(X.shape[1:])))
    for start in range(0, X.shape[0], n_rows):
        yield slice(start, min(start + n_rows, X.shape[0]))


def fit_on_disk(transformers: Pipeline, X: Any, y: NDArray[Any]) -> None:
    """Fit transformers on rows that stay on disk: one alone learns by blocks where it can, else they see all rows."""
    only = transformers.steps[0][1]
    if len(transformers.steps) == 1 and hasattr(only, "partial_fit"):
        for block in blocks_of(X):
            only.partial_fit(X[block], y[block])
    else:
        transformers.fit(X[:], y)


def answers(answer: Callable[[Any], Any], X: Any, rows: Rows) -> NDArray[Any]:
    """Return what a function says about rows of X; a memory map is read and answered block by block."""
    if not is_mapped(X):
        return np.asarray(answer(take_rows(X, rows)))
    own = MappedRows(X, rows)
    return np.concatenate([np.asarray(answer(own[block])) for block in blocks_of(own)])
