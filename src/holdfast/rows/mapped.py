"""Read rows of memory maps in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from holdfast.environments import Rows, Weights, take_rows
from holdfast.fitting.estimators import fit_error, weighted_steps
from holdfast.rows.kinds import as_dense

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
    """Rows of a memory map that fitted transformers transform as they are read."""

    def __init__(self, X: Any, transform: Callable[[Any], Any]) -> None:
        self._X, self._transform = X, transform
        self.shape: tuple[int, ...] = (X.shape[0], *transform(X[:1]).shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows | slice) -> Any:
        return self._transform(self._X[rows])

    def dense(self, rows: Rows | slice) -> NDArray[Any]:
        """Return rows, transformed, as an array."""
        return as_dense(self[rows])


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


def fit_transformers(
    estimator: Any, X: Any, y: NDArray[Any], weights: Weights | None = None
) -> tuple[Any, Callable[[Any], Any]]:
    """Fit all steps of a pipeline but the last; return what the last step sees of X, and how to transform other rows.

    Steps that take weights get them. Rows of a memory map stay on disk: a single transformer learns them in blocks
    where it can, and they are transformed as they are read. An estimator that is not a pipeline sees X itself.
    """
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return X, lambda other: other
    head = estimator[:-1]
    keywords = {} if weights is None else dict.fromkeys(weighted_steps(head), weights)
    with sklearn.config_context(enable_metadata_routing=False):  # a keyword goes straight to the step it names
        if not is_mapped(X):
            try:
                rows = head.fit_transform(X, y, **keywords)
            except (ValueError, TypeError) as problem:
                raise fit_error(estimator, X, problem) from problem
        elif len(head.steps) == 1 and hasattr(head.steps[0][1], "partial_fit"):
            for block in blocks_of(X):
                own = {} if not keywords or weights is None else {"sample_weight": weights[block]}
                head.steps[0][1].partial_fit(X[block], y[block], **own)
            rows = TransformedRows(X, head.transform)
        else:
            head.fit(X[:], y, **keywords)
            rows = TransformedRows(X, head.transform)
    estimator.steps[:-1] = head.steps  # a pipeline with a cache fits copies
    return rows, head.transform


def parts_of(X: Any, rows: Rows) -> Iterator[tuple[Rows, Any]]:
    """Yield row numbers and these rows of X: all of them at once, or block by block where X is a memory map."""
    if not is_mapped(X):
        yield rows, take_rows(X, rows)
        return
    own = MappedRows(X, rows)
    for block in blocks_of(own):
        yield rows[block], own[block]
