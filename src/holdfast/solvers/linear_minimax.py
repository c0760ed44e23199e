"""The worst-case risk of a linear model, minimized by sequential quadratic programming and certified by duality.

    minimize over w    max over groups g of R_g(w)  +  ½λ‖w‖²

Each iteration replaces every R_g by its tangent plus one common curvature, that of the current mixture Σ_g q_g R_g. The
best step and the next mixture are the two sides of a small quadratic program. Passes over X: one for the gradients, one
for the curvature, one for the outputs along the step; the trials of the line search need none.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.solvers.linear_curvature import MAX_MATRIX, curvature_at
from holdfast.solvers.linear_problem import LinearProblem
from holdfast.solvers.simplex import maximize_on_simplex

Array = NDArray[np.float64]

ARMIJO = 1e-3  # share of the predicted decrease that a step must deliver
SHORTEST_STEP = 1e-6
LOOSEST = 0.2  # relative residual of systems that are not solved exactly
OTHERS = 0.1  # share of the other groups in the curvature after a step that had to be cut
MAX_STALLED = 5  # iterations without a lower objective or a higher bound
WORKING_GROUPS = 128  # of the largest risks; the others are only evaluated
WORKING_GROUPS_WIDE = 32  # when every one of them costs a system of conjugate gradients
MOST_TOLD = 64  # groups whose risks the history has; of more it has the worst one's
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

    Parameters
    ----------
    problem : LinearProblem
        Group risks and penalty.
    tolerance : float
        Largest accepted gap, in units of the loss.
    max_iterations : int
        Number of quadratic programs.
    start : array of shape (n_columns, n_outputs) or None
        First coefficients; zeros by default, and where zeros are better.
    mixture : array of shape (n_groups,) or None
        First mixture of groups; uniform by default.
    """
    n_groups, n_rows = problem.group_rows.shape[1], problem.design.n_rows
    point = _evaluate(problem, np.zeros(problem.shape), np.zeros((n_rows, problem.shape[1])))
    if start is not None:
        started = problem.gauge(start)
        point = min(point, _evaluate(problem, started, problem.design.forward(started)), key=lambda p: p.objective)
    q = np.full(n_groups, 1.0 / n_groups) if mixture is None else mixture
    best = Minimum(point, q, lower_bound=0.0)  # no loss is below 0
    n_stalled, precision = 0, LOOSEST
    for iteration in range(1, max_iterations + 1):
        before = (best.point.objective, best.lower_bound)
        model = TangentModel(problem, point, q, precision=precision)
        estimated_gap = point.objective - model.estimated_bound
        if estimated_gap <= 0.9 * tolerance:
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
        if n_groups <= MOST_TOLD:
            entry["group_risks"] = best.point.risks.tolist()
        best.history.append(entry)
        log.debug("iteration %d: objective %.6g, gap %.2g", iteration, best.point.objective, best.gap)
        is_stalled = (best.point.objective, best.lower_bound) == before
        n_stalled = n_stalled + 1 if is_stalled else 0
        if best.gap <= tolerance or n_stalled == MAX_STALLED:
            break
        # Systems are solved the better, the closer the optimum is; better still where that was no help.
        precision = min(precision, LOOSEST * np.sqrt(max(estimated_gap, 0.0)))
        if is_stalled or estimated_gap <= 0.9 * tolerance:
            precision *= 0.1
    return best


class TangentModel:
    """Tangents of the working groups' risks at a point, with the curvature of the mixture q."""

    def __init__(self, problem: LinearProblem, point: Point, q: Array, *, precision: float) -> None:
        self.q = q
        limit = WORKING_GROUPS if problem.penalties.size <= MAX_MATRIX else WORKING_GROUPS_WIDE
        self.groups = _working_groups(point.risks, q, limit)
        self.row_weights = np.asarray(problem.group_rows @ q)  # (n_rows,)
        self.gradients = problem.gradients(point.z, self.groups).reshape(len(self.groups), -1)
        pull = (problem.penalties * point.coefficients).ravel()
        self.penalty = 0.5 * float(pull @ point.coefficients.ravel())
        curvature = curvature_at(problem, point.z, self.row_weights)
        # A mixture sums to one, so the penalty's gradient can be part of every group's.
        self.solutions, self.factor = curvature.solve((self.gradients + pull).T, precision=precision)
        weights = q[self.groups]
        self.newton_step = -(self.solutions @ weights).reshape(problem.shape)
        # What Newton's step would leave of the mixture's penalized risk: a guess at the bound, not yet one.
        self.estimated_bound = float(q @ point.risks) + self.penalty - 0.5 * float(((self.factor @ weights) ** 2).sum())

    def best_step(self, constants: Array) -> tuple[Array, Array, float]:
        """Return mixture, step d and value of min over d: max_g (constants_g + gradient_g·d) + curvature + penalty."""
        weights = maximize_on_simplex(constants, self.factor, start=self.q[self.groups])
        step = -(self.solutions @ weights).reshape(self.newton_step.shape)
        value = float(constants @ weights) + self.penalty - 0.5 * float(((self.factor @ weights) ** 2).sum())
        q = np.zeros_like(self.q)
        q[self.groups] = weights
        return q, step, value


def certified_bound(problem: LinearProblem, point: Point, model: TangentModel) -> float:
    """Return a lower bound on the optimum: the dual value of the mixture at the dual point that Newton's step suggests.

    The bound holds for whatever step and mixture it is given; good ones only make it tight. Without a penalty it holds
    for coefficients inside a box, `BOX` times as large as those found (plus one over the column's spread).
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
    # Still not: the next curvature shall know directions that only groups outside the mixture see.
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
