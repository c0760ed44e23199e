"""Folds: which rows a classifier is asked about that it was not fitted on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows
from holdfast.rows import TrainingRows, deal_evenly


def deal_folds(training: TrainingRows, n_folds: int) -> NDArray[np.intp] | None:
    """Return the fold of each row: as given to `fit`, else dealt evenly over each environment and label.

    None where fewer than two folds are asked for.
    """
    if n_folds < 2:
        return None
    if training.folds is not None:
        return training.folds
    return deal_evenly(training.X, training.y, training.environment_codes, n_folds)


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
