"""Columns among the rows of one label and environment: which go together, and which the others predict.

The label explains why most columns go together, so they are compared where it is the same. There a column that only
depends on the label, as a spurious code does, has nothing to do with the others; the parts of one mechanism still have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast.audit.columns import Block
from holdfast.rows import is_sparse

Array = NDArray[np.float64]
STAND_IN = 0.5  # correlation from which on a column can stand in for another
MOST_OTHERS = 150  # columns that may predict another one: those that vary most
SURELY = 3.0  # standard errors that are taken off what others explain
TAILS = 0.005  # share of the smallest and of the largest values that is pulled in


class Cells:
    """The rows of each label and environment."""

    def __init__(self, y: NDArray[np.intp], codes: NDArray[np.intp]) -> None:
        cell = y * (int(codes.max()) + 1) + codes
        self.rows = sp.csr_array((np.ones(len(y)), cell, np.arange(len(y) + 1)))
        self.sizes = np.maximum(np.bincount(cell), 1)[:, None]

    def __len__(self) -> int:
        return len(np.unique(self.rows.indices))

    def centered(self, columns: Array) -> Array:
        """Return dense columns without the means of the cells."""
        return np.asarray(columns - self.rows @ ((self.rows.T @ columns) / self.sizes))

    def squares(self, columns: Block) -> Array:
        """Return for each column the sum of its squares about the means of the cells."""
        sums: Any = self.rows.T @ columns
        sums = sums.toarray() if is_sparse(sums) else sums
        squares = (
            columns.multiply(columns).sum(axis=0) if is_sparse(columns) else np.einsum("nj,nj->j", columns, columns)
        )
        return np.asarray(np.maximum(np.asarray(squares).ravel() - (sums**2 / self.sizes).sum(axis=0), 1e-12))


def go_together(values: Block, columns: NDArray[np.intp], those: Sequence[int], cells: Cells) -> NDArray[np.bool_]:
    """Return which columns go together with any of those, so closely that they can stand in for them."""
    some = values[:, list(those)]
    some = some.toarray() if is_sparse(some) else some
    together = np.abs(np.asarray(values.T @ cells.centered(some)))
    together /= np.sqrt(np.outer(cells.squares(values), cells.squares(some)))
    return np.asarray(together[columns].max(axis=1) >= STAND_IN)


def explained_by_others(
    values: Block, families: Sequence[Sequence[int]], unused: Sequence[int], cells: Cells
) -> list[float]:
    """Return for each family of columns the share of its variance that others explain at least, within cells.

    A family is one column, or all values of one category. The others are neither in it, nor unused, nor can they stand
    in for it, nor are they values of the same category: codes of 0 and 1 that are never 1 together. What they explain
    is adjusted for their number, less three standard errors: of a column that only depends on the label, nothing.

    Examples
    --------
    A column that another one predicts with a correlation of 0.45, and one that only depends on the label:

    >>> rng = np.random.default_rng(0)
    >>> y, codes = rng.integers(2, size=4000), np.repeat([0, 1], 2000)
    >>> cause = rng.normal(size=4000)
    >>> columns = np.column_stack([cause, 0.5 * cause + rng.normal(size=4000), y + rng.normal(size=4000)])
    >>> [round(share, 1) for share in explained_by_others(columns, [[1], [2]], [], Cells(y, codes))]
    [0.2, 0.0]
    """
    asked = sorted({column for family in families for column in family})
    columns = np.arange(values.shape[1])
    if len(columns) > MOST_OTHERS:
        most = np.argsort(-cells.squares(values), kind="stable")[:MOST_OTHERS]
        columns = np.union1d(most, asked)
    block = values[:, columns]
    dense = block.toarray() if is_sparse(block) else np.array(block, dtype=np.float64)
    is_code = ((dense == 0) | (dense == 1)).all(axis=0)
    apart = (dense.T @ dense == 0) & np.outer(is_code, is_code)
    low, high = tail_limits(dense)
    dense = cells.centered(np.clip(dense, low, high, out=dense))
    deviation = np.sqrt(np.einsum("nj,nj->j", dense, dense) / len(dense))
    varies = deviation > 1e-9 * np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-300)
    dense /= np.where(varies, deviation, np.inf)
    together = dense.T @ dense / len(dense)
    found = []
    for family in families:
        mine = np.flatnonzero(np.isin(columns, family) & varies)
        others = varies & ~np.isin(columns, [*family, *unused])
        others &= (np.abs(together[mine]).max(axis=0, initial=0.0) < STAND_IN) & ~apart[mine].any(axis=0)
        found.append(_explained(together, mine, np.flatnonzero(others), len(dense) - len(cells)))
    return found


def _explained(together: Array, mine: NDArray[np.intp], others: NDArray[np.intp], n_rows: int) -> float:
    """Return the share of the variance of some columns that others surely explain, from their correlations."""
    left = n_rows - len(others)
    if not len(mine) or not len(others) or left < 1:
        return 0.0
    system = together[np.ix_(others, others)] + 1e-6 * np.eye(len(others))
    slopes = np.linalg.solve(system, together[np.ix_(others, mine)])
    share = float((together[np.ix_(others, mine)] * slopes).sum()) / len(mine)
    adjusted = 1 - (1 - min(share, 1.0)) * n_rows / left
    return max(0.0, adjusted - SURELY * math.sqrt(2 * len(others)) / left)


def tail_limits(columns: Array) -> tuple[Array, Array]:
    """Return to where the tails of columns are pulled in."""
    rows = np.ascontiguousarray(columns.T)
    some = np.sort(rows[:, ::8], axis=1)  # says about where the tails begin, so that only these need to be sorted
    far = min(int(3 * TAILS * some.shape[1]) + 2, some.shape[1] - 1)
    low = np.array([_low_quantile(values, near) for values, near in zip(rows, some[:, far], strict=True)])
    high = np.array([-_low_quantile(-values, near) for values, near in zip(rows, -some[:, -1 - far], strict=True)])
    flat = low >= high
    low[flat], high[flat] = columns[:, flat].min(axis=0), columns[:, flat].max(axis=0)
    return low, high


def _low_quantile(values: Array, near: float) -> float:
    """Return the quantile at TAILS, which is looked for below `near` first."""
    place, share = divmod(TAILS * (len(values) - 1), 1.0)
    tail, after = values[values <= near], min(int(place) + 1, len(values) - 1)
    if len(tail) <= after:
        tail = values.copy()
    tail.partition((int(place), after))
    return float(tail[int(place)] + share * (tail[after] - tail[int(place)]))
