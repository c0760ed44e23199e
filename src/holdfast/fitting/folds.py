"""Folds, and environments left out: which rows a fit sees, and which it is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from holdfast.environments import Rows, split_environments
from holdfast.exceptions import EnvironmentsError


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


class LeaveOneEnvironmentOut(BaseCrossValidator):
    """Each environment in turn is the test set, all others are the training set.

    Parameters
    ----------
    environments : labels of shape (n_rows,), optional
        For use without metadata routing; otherwise pass them to `split` or route them.

    Examples
    --------
    >>> sites = ["a", "b", "a", "c"]
    >>> for train, test in LeaveOneEnvironmentOut(sites).split(sites):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2 3] [1]
    [0 1 2] [3]
    """

    __metadata_request__split = {"environments": True}  # scikit-learn reads this

    def __init__(self, environments: Any = None) -> None:
        self.environments = environments

    def split(
        self, X: Any, y: Any = None, groups: Any = None, *, environments: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the row numbers of the training and the test set of each split."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        for environment in self._split_environments(n_rows, environments, groups):
            yield rows_without(environment.rows, n_rows), environment.rows

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, *, environments: Any = None) -> int:
        """Return the number of environments."""
        labels = _first_given(environments, self.environments, groups)
        return len(self._split_environments(len(labels), environments, groups))

    def _split_environments(self, n_rows: int, environments: Any, groups: Any) -> Any:
        split = split_environments(_first_given(environments, self.environments, groups), n_rows)
        if len(split) < 2:
            raise EnvironmentsError("leaving one environment out needs at least two environments. Got one label only.")
        return split


def _first_given(*candidates: Any) -> Any:
    for candidate in candidates:
        if candidate is not None:
            return candidate
    raise EnvironmentsError(
        "LeaveOneEnvironmentOut needs the environment of each row. "
        "Pass it, for example LeaveOneEnvironmentOut(environments=frame['site'])."
    )
