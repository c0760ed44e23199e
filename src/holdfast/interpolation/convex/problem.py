"""The linear min-max problem: rows in blocks, a loss, and the weight of each row in each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from holdfast.environments import Group, Rows
from holdfast.interpolation.convex.losses import LinearLoss
from holdfast.rows.kinds import as_dense, is_sparse

Array = NDArray[np.float64]
Block = Any  # (n_block_rows, n_features) float64, dense or CSR

BLOCK_NUMBERS = 131_072  # float64 numbers in a block: 1 MiB stays in the second-level cache between two uses
SHIFT_AT = 30.0  # a column whose mean exceeds so many standard deviations is shifted before it is squared
N_SAMPLED_ROWS = 2_000


class Design:
    """The matrix [X − shift, 1] of a linear model, read in blocks of rows on every pass.

    X is an array, a memory map, rows of one, a sparse matrix or TransformedRows. Without `fit_intercept` there is no
    column of ones and nothing is shifted. `width`, the number of outputs, bounds the size of a block.

    Coefficients are those of the original columns, so a penalty on them needs no translation; only the intercept moves,
    by shift·coefficients. Columns are shifted when their mean would swamp their spread, and a sample of the rows is
    enough to say so: any shift gives the same problem.
    """

    def __init__(self, X: Any, *, fit_intercept: bool = True, width: int = 1) -> None:
        self.X = sparse.csr_matrix(X, dtype=np.float64) if is_sparse(X) else X
        self.fit_intercept = fit_intercept
        self.n_rows = int(X.shape[0])
        sample = self._float_block(slice(0, self.n_rows, max(1, self.n_rows // N_SAMPLED_ROWS)))
        self.n_features = int(sample.shape[1])
        self.n_columns = self.n_features + fit_intercept
        self.shift: Array | None = None
        if is_sparse(sample):
            self.spread = np.sqrt(np.asarray(sample.power(2).mean(axis=0)).ravel())
            self.row_size = max(sample.nnz / sample.shape[0], 1.0)
            self.block_rows = self.n_rows if is_sparse(X) else N_SAMPLED_ROWS
        else:
            with np.errstate(all="ignore"):  # values that are not finite are reported where they enter a risk
                mean, self.spread = sample.mean(axis=0), sample.std(axis=0)
            if fit_intercept and (np.abs(mean) > SHIFT_AT * self.spread).any():
                self.shift = mean
            self.row_size = float(self.n_features)
            self.block_rows = max(64, BLOCK_NUMBERS // max(self.n_features, width**2))
        self.spread = np.where(self.spread > 0, self.spread, 1.0)

    def _float_block(self, rows: slice) -> Block:
        """Return rows as float64, not yet shifted."""
        block = self.X if is_sparse(self.X) and rows == slice(0, self.n_rows) else self.X[rows]
        if is_sparse(block):
            return sparse.csr_matrix(block, dtype=np.float64)
        return np.asarray(block, dtype=np.float64)

    def blocks(self) -> Iterator[tuple[slice, Block]]:
        """Yield (rows, shifted block) over all rows in order."""
        return self._blocks(self.shift)

    def _blocks(self, shift: Array | None) -> Iterator[tuple[slice, Block]]:
        for start in range(0, self.n_rows, self.block_rows):
            rows = slice(start, min(start + self.block_rows, self.n_rows))
            block = self._float_block(rows)
            yield rows, block if shift is None else block - shift

    def sample(self, rows: Rows) -> Design:
        """Return the design of some rows, held in memory, in the same coordinates."""
        part = object.__new__(Design)
        part.__dict__.update(self.__dict__)
        part.X, part.n_rows = self.X[rows], len(rows)
        if is_sparse(part.X):
            part.block_rows = part.n_rows
        return part

    def forward(self, coefficients: Array) -> Array:
        """Return [X − shift, 1] @ coefficients, of shape (n_rows, n_outputs)."""
        outputs = np.empty((self.n_rows, coefficients.shape[1]))
        for rows, block in self.blocks():
            outputs[rows] = block @ coefficients[: self.n_features]
            if self.fit_intercept:
                outputs[rows] += coefficients[self.n_features]
        return outputs

    def transposed(self, outputs: Array) -> Array:
        """Return [X − shift, 1]ᵀ @ outputs, of shape (n_columns, n_outputs)."""
        total = np.zeros((self.n_columns, outputs.shape[1]))
        for rows, block in self.blocks():
            total[: self.n_features] += block.T @ outputs[rows]
        if self.fit_intercept:
            total[self.n_features] = outputs.sum(axis=0)
        return total

    def to_original(self, coefficients: Array) -> tuple[Array, Array]:
        """Return (coef, intercept) for unshifted rows, of shapes (n_outputs, n_features) and (n_outputs,)."""
        coef = coefficients[: self.n_features]
        intercept = coefficients[self.n_features] if self.fit_intercept else np.zeros(coef.shape[1])
        return coef.T.copy(), intercept - (0.0 if self.shift is None else self.shift @ coef)

    def predict(self, coef: Array, intercept: Array) -> Array:
        """Return X @ coefᵀ + intercept of the rows as given, of shape (n_rows, n_outputs)."""
        outputs = np.empty((self.n_rows, len(coef)))
        for rows, block in self._blocks(None):
            outputs[rows] = block @ coef.T + intercept
        return outputs


def scale_rows(block: Block, weights: Array) -> Block:
    """Return the block with every row multiplied by its weight, of the block's own kind."""
    if is_sparse(block):
        return sparse.csr_matrix(
            (block.data * np.repeat(weights, np.diff(block.indptr)), block.indices, block.indptr), shape=block.shape
        )
    return block * weights[:, None]


FEW_GROUPS = 16  # whose gradients for several classes are computed as one product
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
        return self.means(self.loss.values(z, self.y))

    def means(self, losses: Array) -> Array:
        """Return the mean over every group of one value for each row, of shape (n_groups,)."""
        return np.asarray(self._transposed @ losses)

    def gradients(self, z: Array, groups: NDArray[np.intp]) -> Array:
        """Return the gradients of some groups' risks, of shape (n, n_columns, n_outputs)."""
        design, residuals = self.design, self.loss.gradients(z, self.y)
        parts = self._parts if len(groups) == self.group_rows.shape[1] else self._split(self.group_rows[:, groups])
        result = np.zeros((len(groups), *self.shape))
        if self.shape[1] > 1 and len(groups) <= FEW_GROUPS:  # one product instead of one for each class
            for (rows, block), part in zip(design.blocks(), parts, strict=True):
                weighted = as_dense(part).T[:, :, None] * residuals[rows, None]  # (n_block_rows, n_groups, n_outputs)
                together = np.asarray(block.T @ weighted.reshape(len(weighted), -1))
                result[:, : design.n_features] += together.reshape(-1, *weighted.shape[1:]).transpose(1, 0, 2)
                if design.fit_intercept:
                    result[:, design.n_features] += weighted.sum(axis=0)
            return result
        for (rows, block), part in zip(design.blocks(), parts, strict=True):
            for k in range(self.shape[1]):
                result[:, : design.n_features, k] += as_dense(part @ scale_rows(block, residuals[rows, k]))
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
        parts = [group.part(slice(None, None, -(-len(group) // share))) for group in groups]
        if any(part.weights is not None and not part.weights.sum() > 0 for part in parts):
            return None
        rows = np.unique(np.concatenate([part.rows for part in parts]))
        if 4 * len(rows) > self.design.n_rows:  # more groups than rows asked for
            return None
        moved = [replace(part, rows=np.searchsorted(rows, part.rows)) for part in parts]
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
