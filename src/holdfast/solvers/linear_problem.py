"""Group risks of a linear model: rows of X in blocks, a loss, and a matrix of each row's weight in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from holdfast.environments import Group, Rows
from holdfast.solvers.linear_design import Design, dense, scale_rows
from holdfast.solvers.linear_losses import LinearLoss

Array = NDArray[np.float64]

SMALL_MATRIX = 1 << 16  # numbers up to which a plain product is faster than the set-up of a sparse one


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Minimize max_g R_g(w) + ½λ‖w‖², where R_g is the weighted mean loss of group g's rows."""

    design: Design
    loss: LinearLoss
    y: NDArray[Any]  # (n_rows,) codes or targets
    group_rows: Any  # (n_rows, n_groups), CSR or small: each column is a probability distribution over the rows
    penalty: float  # λ

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of columns (with the intercept) and of outputs: the shape of the coefficients."""
        return self.design.n_columns, self.loss.n_outputs

    @cached_property
    def penalties(self) -> Array:
        """λ for each coefficient, 0 for intercepts."""
        result = np.full(self.shape, self.penalty)
        result[self.design.n_features :] = 0.0
        return result

    @cached_property
    def _transposed(self) -> Any:
        """The transpose of `group_rows`, which takes scipy as long to set up as a small product."""
        return self.group_rows.T

    def gauge(self, coefficients: Array) -> Array:
        """Return coefficients of the same probabilities that sum to zero over the classes, where there are several."""
        return coefficients - coefficients.mean(axis=1, keepdims=True) if self.shape[1] > 1 else coefficients

    def risks(self, z: Array) -> Array:
        """Return the risk of every group, of shape (n_groups,)."""
        return np.asarray(self._transposed @ self.loss.values(z, self.y))

    def gradients(self, z: Array, groups: NDArray[np.intp]) -> Array:
        """Return the gradients of some groups' risks, of shape (n, n_columns, n_outputs)."""
        design, residuals = self.design, self.loss.gradients(z, self.y)
        parts = self._parts if len(groups) == self.group_rows.shape[1] else self._split(self.group_rows[:, groups])
        result = np.zeros((len(groups), *self.shape))
        for (rows, block), part in zip(design.blocks(), parts, strict=True):
            for k in range(self.shape[1]):
                result[:, : design.n_features, k] += dense(part @ scale_rows(block, residuals[rows, k]))
            if design.fit_intercept:
                result[:, design.n_features] += part @ residuals[rows]
        return result

    @cached_property
    def _parts(self) -> list[Any]:
        """For each block of rows the transpose of its part of `group_rows`."""
        return self._split(self.group_rows)

    def _split(self, weights: Any) -> list[Any]:
        """Cut a matrix into blocks of rows and transpose them, without a copy: rows in CSR are columns in CSC."""
        if isinstance(weights, np.ndarray):
            size = self.design.block_rows
            return [weights[start : start + size].T for start in range(0, self.design.n_rows, size)]
        parts = []
        for start in range(0, self.design.n_rows, self.design.block_rows):
            bounds = weights.indptr[start : start + self.design.block_rows + 1]
            entries, shape = slice(bounds[0], bounds[-1]), (weights.shape[1], len(bounds) - 1)
            parts.append(
                sparse.csc_matrix((weights.data[entries], weights.indices[entries], bounds - bounds[0]), shape=shape)
            )
        return parts

    def sample(self, groups: Sequence[Group], n_rows: int) -> LinearProblem | None:
        """Return the problem on about `n_rows` rows, evenly spaced in each group; None when that saves little."""
        if 4 * n_rows > self.design.n_rows:
            return None
        share = max(n_rows // len(groups), 1)
        parts = []
        for group in groups:
            step = -(-len(group) // share)
            parts.append(
                Group(group.name, group.rows[::step], None if group.weights is None else group.weights[::step])
            )
        if any(part.weights is not None and not part.weights.sum() > 0 for part in parts):
            return None
        rows = np.unique(np.concatenate([part.rows for part in parts]))
        if 4 * len(rows) > self.design.n_rows:  # more groups than rows asked for
            return None
        moved = [Group(part.name, np.searchsorted(rows, part.rows), part.weights) for part in parts]
        return LinearProblem(
            self.design.sample(rows), self.loss, self.y[rows], group_matrix(moved, len(rows)), self.penalty
        )


def group_matrix(groups: Sequence[Group], n_rows: int) -> Any:
    """Return the matrix (n_rows, n_groups) whose columns are the groups' distributions, CSR where it is large."""
    if n_rows * len(groups) <= SMALL_MATRIX:
        return np.column_stack([np.bincount(g.rows, weights=g.probabilities(), minlength=n_rows) for g in groups])
    rows: Rows = np.concatenate([group.rows for group in groups])
    columns = np.repeat(np.arange(len(groups), dtype=np.int32), [len(group) for group in groups])
    values = np.concatenate([group.probabilities() for group in groups])
    matrix = sparse.csr_matrix((values, (rows, columns)), shape=(n_rows, len(groups)))
    matrix.eliminate_zeros()
    return matrix
