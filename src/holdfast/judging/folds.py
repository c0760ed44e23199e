"""Folds: which rows a classifier is asked about that it was not fitted on. This is the only place that deals them.

Rows are dealt by what they contain, not by their place in the table or by a seed, so that neither the order of the rows
nor the seed changes an answer that is made out of fold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows
from holdfast.rows import TrainingRows, row_keys


def deal_folds(training: TrainingRows, n_folds: int) -> NDArray[np.intp] | None:
    """Return the fold of each row: as given to `fit`, else dealt evenly over each environment and label.

    None where fewer than two folds are asked for.
    """
    if n_folds < 2:
        return None
    if training.folds is not None:
        return training.folds
    keys = row_keys(training.X)
    folds = np.empty(training.n_rows, dtype=np.intp)
    for environment in training.environments:
        rows = environment.rows
        order = np.lexsort((keys[rows], training.y[rows]))
        folds[rows[order]] = np.arange(len(rows)) % n_folds
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
