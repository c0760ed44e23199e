"""Deal rows to folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows


def deal_evenly(order: Rows, codes: NDArray[np.intp], n_folds: int) -> NDArray[np.intp]:
    """Return a fold for each row, evenly over each environment and label; `order` is `TrainingRows.content_order`.

    Rows are dealt by what they contain, not by their place in the table or by a seed, so that neither the order of the
    rows nor the seed changes an answer that is made out of fold.
    """
    sizes = np.unique(codes, return_counts=True)[1]
    folds = np.empty(len(codes), dtype=np.intp)
    folds[order] = np.concatenate([np.arange(size) for size in sizes]) % n_folds
    return folds


def fold_parts(rows: Rows, folds: NDArray[np.intp] | None) -> tuple[Rows, ...]:
    """Return the rows of each fold, or nothing where fewer than two folds have any of the rows.

    Examples
    --------
    >>> [part.tolist() for part in fold_parts(np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1, 0, 1]))]
    [[0, 1], [2, 3]]
    """
    if folds is None:
        return ()
    parts = tuple(rows[folds[rows] == fold] for fold in np.unique(folds[rows]))
    return parts if len(parts) > 1 else ()


def rows_without(left_out: Rows, n_rows: int) -> Rows:
    """Return all row numbers but some.

    Examples
    --------
    >>> rows_without(np.array([1, 2]), 4)
    array([0, 3])
    """
    is_kept = np.ones(n_rows, dtype=bool)
    is_kept[left_out] = False
    return np.flatnonzero(is_kept)
