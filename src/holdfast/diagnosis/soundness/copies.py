"""Duplicate rows, told apart from people who are alike by chance.

Where columns have few values, many pairs of rows agree by coincidence: in all columns, in all but one, and far more in
all but two. Copies agree in the other columns as soon as they agree in some.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows
from holdfast.seeding import Seeding

MOST_GROUPS = 10  # columns of a wide table are taken together in so many groups
MOST_PAIRED = 20_000  # rows whose pairs are counted
MOST_TWINS = 5  # pairs for each row that agree in half of the columns: more are due to few values


def row_numbers(columns: NDArray[Any]) -> Rows:
    """Return a number for each row that equal rows share."""
    return _numbers(_mixed(columns).sum(axis=1))


def nearly_copied(columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows equal another one in all columns but one at most."""
    mixed = _mixed(columns)
    total, found = mixed.sum(axis=1), np.zeros(len(columns), bool)
    for place in range(columns.shape[1]):
        groups = _numbers(total - mixed[:, place])
        found |= np.bincount(groups)[groups] > 1
    return found


def are_copies(columns: NDArray[Any]) -> bool:
    """Return whether rows that agree in half of the columns agree in the others too, which coincidences do not."""
    n_pairs = _n_pairs(_mixed(columns).sum(axis=1))
    generator = Seeding(0).generator("copied rows")
    for _ in range(8):
        order = generator.permutation(columns.shape[1])
        in_half = _n_pairs(_mixed(columns[:, order[: (len(order) + 1) // 2]]).sum(axis=1))
        if in_half <= min(2 * n_pairs, MOST_TWINS * len(columns)):
            return True
    return False


def are_near_copies(columns: NDArray[Any]) -> bool:
    """Return whether more pairs of rows differ in one column than in two, which coincidences do not.

    Of many rows a sample is looked at; of a wide table, groups of columns.
    """
    generator = Seeding(0).generator("pairs of rows")
    if len(columns) > MOST_PAIRED:
        columns = columns[generator.choice(len(columns), MOST_PAIRED, replace=False)]
    n_groups = min(columns.shape[1], MOST_GROUPS)
    group = generator.permutation(columns.shape[1]) % n_groups
    mixed = _mixed(columns)
    cells = np.column_stack([mixed[:, group == number].sum(axis=1) for number in range(n_groups)])
    total = cells.sum(axis=1)
    equal = _n_pairs(total)
    but_one = [_n_pairs(total - cells[:, a]) - equal for a in range(n_groups)]
    n_two = sum(
        _n_pairs(total - cells[:, a] - cells[:, b]) - but_one[a] - but_one[b] - equal
        for a in range(n_groups)
        for b in range(a)
    )
    return sum(but_one) > n_two


def _mixed(columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Return numbers of cells whose sums over columns are equal for equal rows only, but for one chance in 2^60."""
    weights = Seeding(1).generator("row numbers").integers(1, 2**62, size=columns.shape[1], dtype=np.uint64)
    cells = columns.astype(np.uint64)
    return np.asarray((cells ^ (cells >> np.uint64(29))) * (2 * weights + 1), dtype=np.uint64)


def _numbers(values: NDArray[np.uint64]) -> Rows:
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.intp)


def _n_pairs(values: NDArray[np.uint64]) -> float:
    """Return how many pairs of values are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())
