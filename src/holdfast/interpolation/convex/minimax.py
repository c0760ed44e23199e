"""Minimize the worst-case risk of a linear model by sequential quadratic programming, certified by duality.

    minimize over w    max over groups g of R_g(w)  +  ½λ‖w‖²

Each iteration replaces every R_g by its tangent plus one common curvature, that of the current mixture Σ_g q_g R_g. The
best step and the next mixture are the two sides of a small quadratic program. Passes over X: one for the gradients, one
for the curvature, one for the outputs along the step; the trials of the line search need none.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm  # solve_triangular calls dtrtrs, which wakes all threads for the smallest system

from holdfast.exceptions import FeaturesError
from holdfast.interpolation.convex.problem import LinearProblem, scale_rows
from holdfast.rows.kinds import as_dense, is_sparse

Array = NDArray[np.float64]

RIDGE = 1e-13  # in a program scaled to one: makes the optimum unique where groups are copies of one another


def maximize_on_simplex(linear: Array, factor: Array, *, start: Array | None = None, precision: float = 1e-11) -> Array:
    """Return the point q of the simplex that maximizes linear·q − ½‖factor q‖².

    An active-set method: it solves for the mixture on the current support, and adds the vertex of the largest slope or
    drops the first one that would turn negative. Few groups are ever worst at once, so it is done after a handful of
    tiny systems, however many groups there are. `factor`, (rank, n_groups), is a square root of the quadratic term. The
    best vertex is the start by default, and where `start` mixes more groups than an optimum has to. `precision` is the
    slope above the mixture's that a vertex may keep, relative to the size of the program's numbers.

    Examples
    --------
    >>> maximize_on_simplex(np.array([0.0, 0.0]), np.array([[1.0, -3.0]])).round(6)
    array([0.75, 0.25])
    """
    rank, n_groups = factor.shape
    squares = (factor**2).sum(axis=0)
    scale = float(linear.max() - linear.min() + squares.max())
    if start is not None and np.count_nonzero(start) <= rank + 1:
        q = np.asarray(start / start.sum())
    else:
        q = np.zeros(n_groups)
        q[np.argmax(linear - 0.5 * squares)] = 1.0
    if scale == 0.0:
        return q  # every point is as good
    linear, factor = linear / scale, factor / np.sqrt(scale)
    support: list[int] = np.flatnonzero(q).tolist()
    added = -1
    for _ in range(10 * n_groups + 10):
        own = factor[:, support]
        target, level = _mixture_on_support(linear[support], own)
        if target.min() >= 0.0:
            q[support] = target
            slope = linear - factor.T @ (own @ target)
            slope[support] = -np.inf
            added = int(np.argmax(slope))
            if slope[added] <= level + precision:
                break
            support.append(added)
            continue
        current = q[support]
        falling = np.flatnonzero(target < 0.0)
        steps = current[falling] / (current - target)[falling]
        out = int(falling[np.argmin(steps)])
        if support[out] == added and steps.min() == 0.0:
            break  # added and dropped again: the slope that called for it is rounding
        q[support] = np.maximum(current + steps.min() * (target - current), 0.0)
        q[support[out]] = 0.0
        del support[out]
    return np.asarray(q / q.sum())


def _mixture_on_support(linear: Array, factor: Array) -> tuple[Array, float]:
    """Return the maximizer on the plane Σ q = 1, entries of any sign, and the slope that all its vertices share."""
    n = len(linear)
    if n == 1:
        return np.ones(1), float(linear[0] - (factor**2).sum())
    system, right = np.ones((n + 1, n + 1)), np.ones(n + 1)
    system[:n, :n] = factor.T @ factor
    system.flat[:: n + 2] += RIDGE
    system[n, n] = 0.0
    right[:n] = linear
    try:
        solution = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:  # copies that the ridge did not tell apart
        solution = np.linalg.lstsq(system, right)[0]
    return np.asarray(solution[:n], dtype=np.float64), float(solution[n])


MAX_MATRIX = 1_000  # coefficients up to which the curvature is formed as a matrix
JITTER = 1e-13  # of the unit diagonal that the matrix is scaled to
MAX_CG_ITERATIONS = 300
MEMORY, MOST_REMEMBERED = 10, 300  # steps from which the curvature is guessed, and steps that are made with it
NEAR = 300.0  # times the tolerance: the mixture's gap by its gradient alone, from which on the curvature is computed
UNITS = 1e4  # curvature along a coefficient, in medians, from which on columns have units of their own
BETWEEN = 0.1  # relative residual of what groups differ by, which only moves the mixture


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


class Factorized:
    """A matrix scaled to a unit diagonal, so that the columns' units do not matter, and its Cholesky factor.

    It has as much jitter as it needs.
    """

    def __init__(self, matrix: Array) -> None:
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

    def solve(self, right: Array, *, precision: float = 0.0) -> tuple[Array, Array]:
        """Return M⁻¹ right and the triangular factor's half of it."""
        factor = dtrsm(1.0, self.lower, right * self.scale[:, None], lower=1)
        solution = dtrsm(1.0, self.lower, factor, lower=1, trans_a=1)
        return solution * self.scale[:, None], factor


class MatrixCurvature(Factorized):
    """The matrix itself."""

    def __init__(self, problem: LinearProblem, z: Array, weights: Array) -> None:
        design, loss, penalties = problem.design, problem.loss, problem.penalties
        n_features, (n_columns, n_outputs) = design.n_features, problem.shape
        matrix = np.zeros((n_columns, n_outputs, n_columns, n_outputs))
        for rows, block in design.blocks():
            curvatures = weights[rows, None, None] * loss.curvatures(z[rows])
            for k in range(n_outputs):
                for m in range(k + 1):
                    scaled = scale_rows(block, curvatures[:, k, m])
                    matrix[:n_features, k, :n_features, m] += as_dense(block.T @ scaled)
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
                "X contains NaN or infinite values, or values whose squares are infinite. "
                "Fill or drop missing values, for example with sklearn.impute.SimpleImputer, and rescale huge columns."
            )
        super().__init__(square)


class ProductCurvature:
    """Products with the matrix, two passes over X for each, and conjugate gradients for all systems side by side."""

    def __init__(self, problem: LinearProblem, z: Array, weights: Array, kind: Any = np.float64) -> None:
        self.problem, self.z, self.weights, self.kind = problem, z, weights, kind
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
        flat = flat.astype(self.kind, copy=False)
        total = np.zeros((n_vectors * n_outputs, n_columns))
        for rows, block in design.blocks():
            block = block.astype(self.kind, copy=False)
            along = block @ flat[: design.n_features]
            if design.fit_intercept:
                along += flat[design.n_features]
            bent = self.problem.loss.bend(self.z[rows], along.reshape(-1, n_vectors, n_outputs))
            bent = (
                (self.weights[rows, None, None] * bent).reshape(-1, n_vectors * n_outputs).astype(self.kind, copy=False)
            )
            total[:, : design.n_features] += bent.T @ block
            if design.fit_intercept:
                total[:, design.n_features] += bent.sum(axis=0)
        result = total.reshape(n_vectors, n_outputs, n_columns).transpose(2, 1, 0).reshape(vectors.shape)
        return result + self.problem.penalties.reshape(-1, 1) * vectors

    def solve(self, right: Array, *, precision: float) -> tuple[Array, Array]:
        """Return an approximate M⁻¹ right and a factor of rightᵀ M⁻¹ right."""
        return _with_factor(self.problem, right, self.iterate(right, np.full(right.shape[1], precision)))

    def iterate(self, right: Array, precisions: Array, remembered: RememberedCurvature | None = None) -> Array:
        """Return an approximate M⁻¹ right, by conjugate gradients from zero, each system to its relative residual."""

        def nearly(vectors: Array) -> Array:
            return vectors / self.diagonal[:, None] if remembered is None else remembered.nearly(vectors)

        solution = np.zeros_like(right)
        residual = right.copy()
        direction = preconditioned = nearly(residual)
        energy = (residual * preconditioned).sum(axis=0)
        goal = precisions**2 * energy
        for _ in range(MAX_CG_ITERATIONS):
            if (energy <= goal).all():
                break
            open_ = np.flatnonzero(energy > goal)
            product = np.zeros_like(direction)
            product[:, open_] = self.product(direction[:, open_])
            curvature = (direction * product).sum(axis=0)
            length = np.divide(energy, curvature, out=np.zeros_like(energy), where=(curvature > 0) & (energy > goal))
            solution += length * direction
            residual -= length * product
            preconditioned = nearly(residual)
            before, energy = energy, np.where(energy > goal, (residual * preconditioned).sum(axis=0), energy)
            direction = (
                preconditioned + np.divide(energy, before, out=np.zeros_like(energy), where=before > 0) * direction
            )
        return solution


def _with_factor(problem: LinearProblem, right: Array, solution: Array) -> tuple[Array, Array]:
    """Return approximate solutions that change no probability in vain, and a factor of rightᵀ M⁻¹ right."""
    solution = problem.gauge(solution.reshape(*problem.shape, -1)).reshape(right.shape)
    gram = right.T @ solution
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    return solution, np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


class RememberedCurvature:
    """The curvature that the last steps met (limited-memory BFGS): a system costs no pass over X.

    Far from the optimum that is enough. Near it, systems are solved by conjugate gradients, which begin from it.
    """

    def __init__(self, problem: LinearProblem, tolerance: float) -> None:
        self.problem, self.tolerance = problem, tolerance
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=MEMORY)  # step, change of the gradient, 1 / both
        self.last: tuple[Array, dict[int, Array]] | None = None
        self.is_near, self.n_seen = False, 0
        n_rows = problem.design.n_rows
        even = np.full(n_rows, 1.0 / n_rows)
        diagonal = ProductCurvature(problem, np.zeros((n_rows, problem.shape[1])), even).diagonal
        # Where columns have units of their own, these come first; else the steps tell more than the diagonal.
        self.diagonal = diagonal if diagonal.max() > UNITS * np.median(diagonal) else np.ones_like(diagonal)

    def see(self, point: Point, q: Array, groups: NDArray[np.intp], gradients: Array) -> None:
        """Learn from the groups' gradients at a point how that of the mixture changed since the last one."""
        now = dict(zip(groups.tolist(), gradients, strict=True))
        if self.last is not None:
            step = (point.coefficients - self.last[0]).ravel()
            change = self.problem.penalties.ravel() * step
            for group in np.flatnonzero(q).tolist():
                change = change + q[group] * (now[group] - self.last[1].get(group, now[group]))
            along = float(step @ change)
            if along > 1e-12 * float(change @ change):
                self.pairs.append((step, change, 1.0 / along))
        self.last = point.coefficients, now

    def nearly(self, right: Array) -> Array:
        """Return an approximate M⁻¹ right."""
        solution, shares = right.copy(), []
        for step, change, inverse in reversed(self.pairs):
            shares.append(inverse * (step @ solution))
            solution -= change[:, None] * shares[-1]
        solution /= self.diagonal[:, None]
        if self.pairs:
            _, change, inverse = self.pairs[-1]
            solution /= inverse * float(change @ (change / self.diagonal))
        for (step, change, inverse), share in zip(self.pairs, reversed(shares), strict=True):
            solution += step[:, None] * (share - inverse * (change @ solution))
        return solution

    def solve(self, point: Point, weights: Array, right: Array, q: Array) -> tuple[Array, Array]:
        """Return an approximate M⁻¹ right, for a group each column, and a factor; `q` is the groups' mixture."""
        slope = right @ q
        gap = float(slope @ slope) / (2.0 * self.problem.penalty)
        self.n_seen += 1
        self.is_near = self.is_near or gap <= NEAR * self.tolerance or self.n_seen > MOST_REMEMBERED
        if not self.is_near:
            return _with_factor(self.problem, right, self.nearly(right))
        # What the mixture's step leaves is the gap; what groups differ by only has to move the mixture.
        largest = int(np.argmax(q))
        others = np.delete(np.arange(len(q)), largest)
        apart = right[:, others] - slope[:, None]
        precisions = np.full(len(q), BETWEEN)
        precisions[0] = min(0.1, np.sqrt(0.1 * self.tolerance / max(gap, 1e-300)))
        products = ProductCurvature(self.problem, point.z, weights, np.float32)  # enough digits for such precisions
        found = products.iterate(np.column_stack([slope, apart]), precisions, self)
        solution = np.repeat(found[:, :1], len(q), axis=1)
        solution[:, others] += found[:, 1:]
        solution[:, largest] -= found[:, 1:] @ q[others] / q[largest]
        return _with_factor(self.problem, right, solution)


ARMIJO = 1e-3  # share of the predicted decrease that a step must deliver
SHORTEST_STEP = 1e-6
LOOSEST = 0.2  # relative residual of systems that are not solved exactly
OTHERS = 0.1  # share of the other groups in the curvature after a step that had to be cut
MAX_STALLED = 5  # iterations without a lower objective or a higher bound
WORKING_GROUPS = 128  # of the largest risks; the others are only evaluated
WORKING_GROUPS_WIDE = 32  # when every one of them costs a system of conjugate gradients
MAX_LISTED = 64  # groups whose risks the history has; of more it has the worst one's
BOX = 1e3  # without a penalty the certificate covers coefficients up to so many times those found

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Point:
    """Coefficients with what follows from them."""

    coefficients: Array  # (n_columns, n_outputs)
    z: Array  # (n_rows, n_outputs)
    risks: Array  # (n_groups,)
    objective: float  # worst-case risk plus penalty


@dataclass(eq=False)
class Minimum:
    """The best point so far, and the best bound on what any point can reach."""

    point: Point
    mixture: Array  # (n_groups,) the mixture that gave the bound
    lower_bound: float
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """An upper bound on objective − optimum."""
        return max(self.point.objective - self.lower_bound, 0.0)


def minimize_worst_case(
    problem: LinearProblem,
    *,
    tolerance: float,
    max_iterations: int,
    start: Array | None = None,
    mixture: Array | None = None,
) -> Minimum:
    """Minimize until the certified gap is at most `tolerance`, `max_iterations` are done or nothing moves any more.

    The first coefficients are zeros by default, and where zeros are better than `start`; the first mixture is uniform.
    """
    n_groups, n_rows = problem.group_rows.shape[1], problem.design.n_rows
    point = _evaluate(problem, np.zeros(problem.shape), np.zeros((n_rows, problem.shape[1])))
    if start is not None:
        started = problem.gauge(start)
        point = min(point, _evaluate(problem, started, problem.design.forward(started)), key=lambda p: p.objective)
    q = np.full(n_groups, 1.0 / n_groups) if mixture is None else mixture
    best = Minimum(point, q, lower_bound=0.0)  # no loss is below 0
    n_stalled, precision = 0, LOOSEST
    remembered = None
    if problem.penalties.size > MAX_MATRIX and problem.penalty > 0:
        remembered = RememberedCurvature(problem, tolerance)
        max_iterations += MOST_REMEMBERED
    for iteration in range(1, max_iterations + 1):
        before = (best.point.objective, best.lower_bound)
        model = TangentModel(problem, point, q, precision=precision, remembered=remembered)
        estimated_gap = point.objective - model.estimated_bound
        if estimated_gap <= 0.9 * tolerance and (remembered is None or remembered.is_near):
            bound = certified_bound(problem, point, model)
            if bound > best.lower_bound:
                best.lower_bound, best.mixture = bound, q
        # The step is taken even when the bound suffices: it costs one pass and leaves less than the gap says.
        q, point = _next_point(problem, point, model, tolerance)
        if point.objective < best.point.objective:
            best.point = point
        entry: dict[str, Any] = {
            "iteration": iteration,
            "worst_case_risk": float(best.point.risks.max()),
            "gap": best.gap,
        }
        if n_groups <= MAX_LISTED:
            entry["group_risks"] = best.point.risks.tolist()
        best.history.append(entry)
        log.debug("iteration %d: objective %.6g, gap %.2g", iteration, best.point.objective, best.gap)
        is_stalled = (best.point.objective, best.lower_bound) == before
        n_stalled = n_stalled + 1 if is_stalled else 0
        if n_stalled and remembered is not None:  # compute what was guessed, and then all of it precisely
            remembered, n_stalled = None if remembered.is_near else remembered, 0
            if remembered is not None:
                remembered.is_near = True
        if best.gap <= tolerance or n_stalled == MAX_STALLED:
            break
        # Systems are solved the better, the closer the optimum is; better still where that was no help.
        precision = min(precision, LOOSEST * np.sqrt(max(estimated_gap, 0.0)))
        if is_stalled or estimated_gap <= 0.9 * tolerance:
            precision *= 0.1
    return best


@dataclass(frozen=True, eq=False)
class TangentProgram:
    """The quadratic program of a step: tangents of the groups' risks at w, one curvature for all, and the penalty.

    minimize over d    max over groups g of  R_g + (gradient_g + λw)·d + ½ dᵀMd  +  ½λ‖w‖²

    A mixture sums to one, so the penalty's gradient can be part of every group's.
    """

    solutions: Array  # (n_coefficients, n_groups): M⁻¹ (gradient_g + λw)
    factor: Array  # factorᵀ factor = all products (gradient_g + λw)ᵀ M⁻¹ (gradient_h + λw)
    penalty: float  # ½λ‖w‖² at the point

    def value(self, weights: Array, risks: Array) -> float:
        """Return what a mixture of the groups reaches: a bound on the optimum, as far as the curvature is right."""
        return float(risks @ weights) + self.penalty - 0.5 * float(((self.factor @ weights) ** 2).sum())

    def step(self, weights: Array) -> Array:
        """Return the mixture's Newton step, flat."""
        return np.asarray(-(self.solutions @ weights))

    def best_mixture(self, risks: Array, start: Array) -> Array:
        """Return the mixture whose step is the best one."""
        return maximize_on_simplex(risks, self.factor, start=start)


class TangentModel:
    """The program of the working groups at a point, with the curvature of the mixture q."""

    def __init__(
        self,
        problem: LinearProblem,
        point: Point,
        q: Array,
        *,
        precision: float,
        remembered: RememberedCurvature | None = None,
    ) -> None:
        self.q = q
        limit = WORKING_GROUPS if problem.penalties.size <= MAX_MATRIX else WORKING_GROUPS_WIDE
        self.groups = _working_groups(point.risks, q, limit)
        self.row_weights = np.asarray(problem.group_rows @ q)  # (n_rows,)
        self.gradients = problem.gradients(point.z, self.groups).reshape(len(self.groups), -1)
        pull = (problem.penalties * point.coefficients).ravel()
        weights = q[self.groups]
        right = (self.gradients + pull).T
        if remembered is None:
            solved = curvature_at(problem, point.z, self.row_weights).solve(right, precision=precision)
        else:
            remembered.see(point, q, self.groups, self.gradients)
            solved = remembered.solve(point, self.row_weights, right, weights)
        self.program = TangentProgram(*solved, 0.5 * float(pull @ point.coefficients.ravel()))
        self.shape = problem.shape
        self.newton_step = self.program.step(weights).reshape(self.shape)
        # What Newton's step would leave of the mixture's penalized risk: a guess at the bound, not yet one.
        self.estimated_bound = self.program.value(weights, point.risks[self.groups])

    def best_step(self, constants: Array) -> tuple[Array, Array, float]:
        """Return mixture, step d and value of min over d: max_g (constants_g + gradient_g·d) + curvature + penalty."""
        weights = self.program.best_mixture(constants, self.q[self.groups])
        q = np.zeros_like(self.q)
        q[self.groups] = weights
        return q, self.program.step(weights).reshape(self.shape), self.program.value(weights, constants)


def certified_bound(problem: LinearProblem, point: Point, model: TangentModel) -> float:
    """Return a lower bound on the optimum: the dual value of the mixture at the dual point that Newton's step suggests.

    The bound holds for any step and mixture; good ones make it tight. Without a penalty it holds for coefficients
    inside a box, `BOX` times as large as those found (plus one over the column's spread).
    """
    design, weights = problem.design, model.row_weights
    change = design.forward(model.newton_step)
    u, value = problem.loss.dual_point(point.z, change, problem.y, weights, centered=design.fit_intercept)
    moments = design.transposed(weights[:, None] * u)[: design.n_features]  # the intercept's is zero
    if problem.penalty > 0:
        return value - float((moments**2).sum()) / (2.0 * problem.penalty)
    box = BOX * (np.abs(point.coefficients[: design.n_features]) + 1.0 / design.spread[:, None])
    return value - float((box * np.abs(moments)).sum())


@np.errstate(over="ignore", invalid="ignore")  # a step along which the mixture does not curve can be of any length
def _next_point(problem: LinearProblem, point: Point, model: TangentModel, tolerance: float) -> tuple[Array, Point]:
    """Return the next mixture, and a point of lower objective if the line search finds one."""
    q, step, value = model.best_step(point.risks[model.groups])
    predicted = point.objective - value
    change = problem.design.forward(step)
    whole = _evaluate(problem, point.coefficients + step, point.z + change)
    if whole.objective <= point.objective - ARMIJO * predicted:
        return q, whole
    # Groups curve differently, and the mixture's curvature misjudged some: aim again, with the risks just seen.
    if np.isfinite(whole.objective):
        seen = whole.risks[model.groups] - model.gradients @ step.ravel()
        _, second, _ = model.best_step(seen)
        corrected = _evaluate(problem, point.coefficients + second, point.z + problem.design.forward(second))
        if corrected.objective <= point.objective - ARMIJO * predicted:
            return q, corrected
    # Still not: let the next curvature include directions that only groups outside of the mixture see.
    if predicted > 0.1 * tolerance:  # where nothing is left to gain, the mixture is kept for its bound
        others = np.zeros_like(q)
        others[model.groups] = 1.0 / len(model.groups)
        q = (1.0 - OTHERS) * q + OTHERS * others
    length = 0.5
    while length > SHORTEST_STEP:
        part = _evaluate(problem, point.coefficients + length * step, point.z + length * change)
        if part.objective <= point.objective - ARMIJO * length * predicted:
            return q, part
        length *= 0.5
    return q, point


def _evaluate(problem: LinearProblem, coefficients: Array, z: Array) -> Point:
    """Return the point with its risks and objective."""
    risks = problem.risks(z)
    return Point(coefficients, z, risks, float(risks.max()) + 0.5 * float((problem.penalties * coefficients**2).sum()))


def _working_groups(risks: Array, q: Array, limit: int) -> NDArray[np.intp]:
    """Return the groups that may be the worst after a step: those of the largest risks and those of the mixture."""
    if len(risks) <= limit:
        return np.arange(len(risks))
    return np.union1d(np.argsort(risks, kind="stable")[-limit:], np.flatnonzero(q > 1e-9))
