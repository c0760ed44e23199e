"""Minimize the worst-case risk of a linear model over rows beyond the memory, in passes over all rows.

The steps are those of `minimax`. There is no line search and no certificate: both would need further passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.interpolation.convex.minimax import Factorized, TangentProgram

Array = NDArray[np.float64]
ENOUGH = 1e-7  # worst-case risk that another pass would gain


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over the rows of each group; those of blocks of rows can be added."""

    counts: Array  # (n_groups,) rows
    losses: Array  # (n_groups,)
    gradients: Array  # (n_groups, n_coefficients)
    curvature: Array  # (n_coefficients, n_coefficients), of all groups, each with its share

    def __add__(self, other: GroupSums) -> GroupSums:
        return GroupSums(
            self.counts + other.counts,
            self.losses + other.losses,
            self.gradients + other.gradients,
            self.curvature + other.curvature,
        )


@dataclass(frozen=True, eq=False)
class PassesMinimum:
    """The best coefficients of all passes."""

    weights: Array  # (n_outputs, n_columns)
    risks: Array  # (n_groups,)
    mixture: Array  # (n_groups,)
    sizes: Array  # (n_groups,) rows
    history: list[dict[str, Any]]  # an entry for each pass
    is_done: bool


def minimize_in_passes(
    sums: Callable[[Array, Array], GroupSums],
    *,
    start: Array,
    mixture: Array,
    sizes: Array,
    penalty: float,
    most: int,
) -> PassesMinimum:
    """Minimize max_g R_g(w) + ½·penalty·‖w‖², without certificate; the last column of w, the intercept, is free.

    A pass has the risk and gradient of every group, and the curvature of the mixture that the program before has found.

    Parameters
    ----------
    sums : function of coefficients (n_outputs, n_columns) and shares (n_groups,)
        One pass over all rows.
    start : array of shape (n_outputs, n_columns)
    mixture, sizes : arrays of shape (n_groups,)
        Of a sample of the rows.
    penalty : float
    most : int
        Passes.
    """
    weights, history = start, []
    penalties = np.full_like(weights, penalty)
    penalties[:, -1] = 0.0
    best: tuple[float, Array, Array, Array] | None = None  # objective, coefficients, risks, mixture
    is_done = False
    for number in range(1, most + 1):
        found = sums(weights, mixture / sizes)
        curvature, sizes = found.curvature / float(mixture @ (found.counts / sizes)), np.maximum(found.counts, 1.0)
        risks, gradients = found.losses / sizes, found.gradients / sizes[:, None]
        pull = (penalties * weights).ravel()
        ridge = 0.5 * float(pull @ weights.ravel())
        objective = float(risks.max()) + ridge
        history.append({"iteration": number, "worst_case_risk": float(risks.max()), "gap": float("nan")})
        if best is not None and objective >= best[0]:  # the groups curve differently: a shorter step, and all of them
            is_done = objective - best[0] <= ENOUGH
            if is_done:
                break
            weights, mixture = (weights + best[1]) / 2, 0.9 * mixture + 0.1 / len(mixture)
            continue
        best = objective, weights, risks, mixture
        solved = Factorized(curvature + np.diag(penalties.ravel())).solve((gradients + pull).T)
        program = TangentProgram(*solved, ridge)
        is_done = objective - program.value(mixture, risks) <= ENOUGH
        if is_done:
            break
        mixture = program.best_mixture(risks, mixture)
        weights = weights + program.step(mixture).reshape(weights.shape)
    assert best is not None, "there is at least one pass"
    _, weights, risks, mixture = best
    return PassesMinimum(weights, risks, mixture, sizes, history, is_done)
