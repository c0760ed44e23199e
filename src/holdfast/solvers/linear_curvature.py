"""Curvature of a mixture of group risks: a factorized matrix when it is small, conjugate gradients when not."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm  # solve_triangular calls dtrtrs, which wakes all threads for the smallest system

from holdfast.exceptions import FeaturesError
from holdfast.solvers.linear_design import dense, is_sparse, scale_rows
from holdfast.solvers.linear_problem import LinearProblem

Array = NDArray[np.float64]

MAX_MATRIX = 1_000  # coefficients up to which the curvature is formed as a matrix
JITTER = 1e-13  # of the unit diagonal that the matrix is scaled to
MAX_CG_ITERATIONS = 300


class Curvature(Protocol):
    """The matrix M = Σ ωᵢ xᵢ xᵢᵀ ⊗ ℓ''(zᵢ) + diag(penalties)."""

    def solve(self, right: Array, *, precision: float) -> tuple[Array, Array]:
        """Return M⁻¹ right and a factor with factorᵀ factor = rightᵀ M⁻¹ right, for a column of `right` each system.

        `precision` is the relative residual to stop at where the systems are not solved exactly.
        """


def curvature_at(problem: LinearProblem, z: Array, weights: Array) -> Curvature:
    """Return the curvature of Σ ωᵢ ℓ(zᵢ) plus the penalty."""
    kind = MatrixCurvature if problem.penalties.size <= MAX_MATRIX else ProductCurvature
    return kind(problem, z, weights)


class MatrixCurvature:
    """The matrix itself, scaled to a unit diagonal (so that the columns' units do not matter) and factorized."""

    def __init__(self, problem: LinearProblem, z: Array, weights: Array) -> None:
        design, loss, penalties = problem.design, problem.loss, problem.penalties
        n_features, (n_columns, n_outputs) = design.n_features, problem.shape
        matrix = np.zeros((n_columns, n_outputs, n_columns, n_outputs))
        for rows, block in design.blocks():
            curvatures = weights[rows, None, None] * loss.curvatures(z[rows])
            for k in range(n_outputs):
                for m in range(k + 1):
                    scaled = scale_rows(block, curvatures[:, k, m])
                    matrix[:n_features, k, :n_features, m] += dense(block.T @ scaled)
                    if design.fit_intercept:
                        matrix[:n_features, k, n_features, m] += block.T @ curvatures[:, k, m]
            if design.fit_intercept:
                matrix[n_features, :, n_features, :] += curvatures.sum(axis=0)
        for k in range(n_outputs):
            matrix[n_features:, k, :n_features, k] = matrix[:n_features, k, n_features:, k].T
            for m in range(k):
                matrix[n_features:, k, :n_features, m] = matrix[:n_features, k, n_features:, m].T
                matrix[:, m, :, k] = matrix[:, k, :, m].T
        if n_outputs > 1:
            # Adding one vector to all classes' coefficients changes no probability. Start and gradients have no part
            # along it, so curvature there changes no step: it only makes the matrix invertible.
            matrix += (
                np.einsum("jkjk->j", matrix)[:, None, None, None] * np.eye(n_columns)[:, None, :, None] / n_outputs**2
            )
        square = matrix.reshape(penalties.size, penalties.size)
        square[np.diag_indices(penalties.size)] += penalties.ravel()
        if not np.isfinite(square).all():
            raise FeaturesError(
                "X holds NaN or infinite values, or values whose squares are. "
                "Fill or drop missing values, for example with sklearn.impute.SimpleImputer, and rescale huge columns."
            )
        self._factorize(square)

    def _factorize(self, matrix: Array) -> None:
        """Scale to a unit diagonal and take the Cholesky factor, with as much jitter as it needs."""
        diagonal = matrix.diagonal()
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = matrix * self.scale[:, None] * self.scale
        jitter = JITTER
        while True:
            scaled[np.diag_indices(len(scaled))] += jitter
            try:
                self.lower = np.linalg.cholesky(scaled)
                return
            except np.linalg.LinAlgError:
                jitter *= 10.0

    def solve(self, right: Array, *, precision: float) -> tuple[Array, Array]:
        """Return M⁻¹ right and the triangular factor's half of it."""
        factor = dtrsm(1.0, self.lower, right * self.scale[:, None], lower=1)
        solution = dtrsm(1.0, self.lower, factor, lower=1, trans_a=1)
        return solution * self.scale[:, None], factor


class ProductCurvature:
    """Products with the matrix, two passes over X for each, and conjugate gradients for all systems side by side."""

    def __init__(self, problem: LinearProblem, z: Array, weights: Array) -> None:
        self.problem, self.z, self.weights = problem, z, weights
        design, penalties = problem.design, problem.penalties
        diagonal = np.zeros_like(penalties)
        for rows, block in design.blocks():
            own = problem.loss.own_curvatures(z[rows]) * weights[rows, None]
            squares = block.power(2) if is_sparse(block) else block**2
            diagonal[: design.n_features] += squares.T @ own
            if design.fit_intercept:
                diagonal[design.n_features] += own.sum(axis=0)
        diagonal = (diagonal + penalties).ravel()
        self.diagonal = np.where(diagonal > 0, diagonal, 1.0)

    def product(self, vectors: Array) -> Array:
        """Return M @ vectors, of shape (n_coefficients, n_vectors)."""
        design, (n_columns, n_outputs) = self.problem.design, self.problem.shape
        n_vectors = vectors.shape[1]
        flat = vectors.reshape(n_columns, n_outputs, n_vectors).transpose(0, 2, 1).reshape(n_columns, -1)
        total = np.zeros((n_vectors * n_outputs, n_columns))
        for rows, block in design.blocks():
            along = block @ flat[: design.n_features]
            if design.fit_intercept:
                along += flat[design.n_features]
            bent = self.problem.loss.bend(self.z[rows], along.reshape(-1, n_vectors, n_outputs))
            bent = (self.weights[rows, None, None] * bent).reshape(-1, n_vectors * n_outputs)
            total[:, : design.n_features] += bent.T @ block
            if design.fit_intercept:
                total[:, design.n_features] += bent.sum(axis=0)
        result = total.reshape(n_vectors, n_outputs, n_columns).transpose(2, 1, 0).reshape(vectors.shape)
        return result + self.problem.penalties.reshape(-1, 1) * vectors

    def solve(self, right: Array, *, precision: float) -> tuple[Array, Array]:
        """Return an approximate M⁻¹ right and a factor of rightᵀ M⁻¹ right."""
        solution = np.zeros_like(right)
        residual = right.copy()
        direction = preconditioned = residual / self.diagonal[:, None]
        energy = (residual * preconditioned).sum(axis=0)
        goal = precision**2 * energy
        for _ in range(MAX_CG_ITERATIONS):
            if (energy <= goal).all():
                break
            product = self.product(direction)
            curvature = (direction * product).sum(axis=0)
            length = np.divide(energy, curvature, out=np.zeros_like(energy), where=(curvature > 0) & (energy > goal))
            solution += length * direction
            residual -= length * product
            preconditioned = residual / self.diagonal[:, None]
            before, energy = energy, (residual * preconditioned).sum(axis=0)
            direction = (
                preconditioned + np.divide(energy, before, out=np.zeros_like(energy), where=before > 0) * direction
            )
        solution = self.problem.gauge(solution.reshape(*self.problem.shape, -1)).reshape(right.shape)
        gram = right.T @ solution
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        return solution, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
