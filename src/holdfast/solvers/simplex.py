"""A small quadratic program on the simplex: the best mixture of linearized group risks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RIDGE = 1e-13  # in a program scaled to one: makes the optimum unique where groups are copies of one another


def maximize_on_simplex(linear: Array, factor: Array, *, start: Array | None = None, precision: float = 1e-11) -> Array:
    """Return the point q of the simplex that maximizes linear·q − ½‖factor q‖².

    An active-set method: it solves for the mixture on the current support, and adds the vertex of the largest slope or
    drops the first one that would turn negative. Few groups are ever worst at once, so it is done after a handful of
    tiny systems, however many groups there are.

    Parameters
    ----------
    linear : array of shape (n_groups,)
        Slope for each vertex.
    factor : array of shape (rank, n_groups)
        Square root of the quadratic term.
    start : array of shape (n_groups,) or None
        A point of the simplex to start from; the best vertex by default, and where it mixes more groups than an optimum
        has to.
    precision : float
        Slope above the mixture's that a vertex may keep, relative to the size of the program's numbers.

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
