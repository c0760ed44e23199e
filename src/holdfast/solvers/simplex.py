"""A small quadratic program on the simplex: the best mixture of linearized group risks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Array = NDArray[np.float64]
Solve = Callable[[Array], Array]

MAX_ITERATIONS = 60
STEP_TO_BOUNDARY = 0.995


def maximize_on_simplex(linear: Array, factor: Array, *, precision: float = 1e-10) -> Array:
    """Return the point q of the simplex that maximizes linear·q − ½‖factor q‖², to `precision` in value.

    A primal–dual interior-point method with Mehrotra's corrector: identical groups make the program degenerate, which
    stops active-set methods and does not matter here.

    Parameters
    ----------
    linear : array of shape (n_groups,)
        Slope for each vertex.
    factor : array of shape (rank, n_groups)
        Square root of the quadratic term; cheap when rank is far below n_groups, and the other way round.
    precision : float
        Largest accepted duality gap, relative to the spread of the program's coefficients.

    Examples
    --------
    >>> maximize_on_simplex(np.array([0.0, 0.0]), np.array([[1.0, -3.0]])).round(6)
    array([0.75, 0.25])
    """
    n_groups = len(linear)
    if n_groups == 1:
        return np.ones(1)
    scale = float(np.ptp(linear)) + float((factor**2).sum(axis=0).max())
    if scale == 0.0:
        return np.full(n_groups, 1.0 / n_groups)
    linear, factor = (linear - linear.max()) / scale, factor / np.sqrt(scale)

    q = np.full(n_groups, 1.0 / n_groups)
    slope = linear - factor.T @ (factor @ q)
    slack = np.maximum(slope.max() - slope, 0.0) + 1.0  # s = t − slope > 0, with t the value that no vertex exceeds
    t = float((slope + slack).mean())
    for _ in range(MAX_ITERATIONS):
        slope = linear - factor.T @ (factor @ q)
        stationarity = t - slope - slack
        complementarity = float(q @ slack) / n_groups
        if complementarity * n_groups <= precision and np.abs(stationarity).max() <= precision:
            break
        solve = _system(factor, slack / q)
        ones = solve(np.ones(n_groups))
        # Predictor: how far would pure Newton go? Corrector: aim at the central path from there.
        dq, ds, _ = _newton_step(solve, ones, q, slack, stationarity, q * slack)
        reach = min(1.0, _longest_step(q, dq), _longest_step(slack, ds))
        mean = float((q + reach * dq) @ (slack + reach * ds)) / n_groups
        target = complementarity * min(mean / complementarity, 1.0) ** 3
        dq, ds, dt = _newton_step(solve, ones, q, slack, stationarity, q * slack + dq * ds - target)
        step = min(1.0, STEP_TO_BOUNDARY * min(_longest_step(q, dq), _longest_step(slack, ds)))
        q, slack, t = q + step * dq, slack + step * ds, t + step * dt
    q = np.where(q > 1e-3 * precision, q, 0.0)
    return np.asarray(q / q.sum())


def _system(factor: Array, diagonal: Array) -> Solve:
    """Return the solver of (factorᵀ factor + diagonal) x = b, through whichever side is smaller."""
    rank, n_groups = factor.shape
    if n_groups <= rank:
        matrix = factor.T @ factor
        matrix[np.diag_indices(n_groups)] += diagonal
        whole = cho_factor(matrix, lower=True, check_finite=False)
        return lambda b: cho_solve(whole, b, check_finite=False)
    scaled = factor / diagonal  # (rank, n_groups)
    matrix = scaled @ factor.T
    matrix[np.diag_indices(rank)] += 1.0
    small = cho_factor(matrix, lower=True, check_finite=False)
    return lambda b: b / diagonal - scaled.T @ cho_solve(small, scaled @ b, check_finite=False)


def _newton_step(
    solve: Solve, ones: Array, q: Array, slack: Array, stationarity: Array, products: Array
) -> tuple[Array, Array, float]:
    """Return the change of (q, slack, t) that sends the linearized residuals to zero."""
    x = solve(-stationarity - products / q)
    dt = float((x.sum() + q.sum() - 1.0) / ones.sum())
    dq = x - dt * ones
    return dq, -(products + slack * dq) / q, dt


def _longest_step(values: Array, change: Array) -> float:
    """Return the longest step that keeps positive values non-negative."""
    falling = change < 0
    return float((-values[falling] / change[falling]).min(initial=np.inf)) if falling.any() else np.inf
