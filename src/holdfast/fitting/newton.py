"""Penalized logistic regression by Newton's method, with its evidence (Laplace)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

Array = NDArray[np.float64]
MOST_STEPS = 30
TOLERANCE = 1e-5  # of the log-likelihood


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Maximum of a penalized log-likelihood."""

    coefficients: Array  # (n_columns,)
    information: Array  # (n_columns, n_columns) negative second derivative there
    log_likelihood: float
    log_evidence: float  # log of the likelihood integrated over the coefficients' normal prior


def fit_logistic(
    design: Array, target: Array, precision: Array, *, weights: Array | None = None, start: Array | None = None
) -> LogisticFit:
    """Fit P(y = 1) = σ(design @ w), with w ~ N(0, 1 / precision).

    Parameters
    ----------
    design : array of shape (n_rows, n_columns)
    target : array of shape (n_rows,)
        0 or 1, or a probability.
    precision : array of shape (n_columns,)
        Positive.
    weights : array of shape (n_rows,), optional
        How many rows each row stands for.
    start : array of shape (n_columns,), optional

    Examples
    --------
    >>> fit = fit_logistic(np.ones((4, 1)), np.array([1.0, 1.0, 1.0, 0.0]), np.array([1e-9]))
    >>> round(float(special.expit(fit.coefficients[0])), 3)
    0.75
    """
    counts = np.ones(len(design)) if weights is None else weights
    w = np.zeros(design.shape[1]) if start is None else np.array(start, dtype=float)
    value, scores = _objective(design, target, precision, counts, w)
    for _ in range(MOST_STEPS):
        chances = special.expit(scores)
        information = _information(design, precision, counts * chances * (1 - chances))
        slope = design.T @ (counts * (target - chances)) - precision * w
        step = linalg.solve(information, slope, assume_a="pos", check_finite=False)
        length, before = 1.0, value
        while True:
            value, scores = _objective(design, target, precision, counts, w + length * step)
            if value >= before - 1e-9 or length < 1e-3:
                break
            length /= 2
        w = w + length * step
        if value - before < TOLERANCE:
            break
    chances = special.expit(scores)
    information = _information(design, precision, counts * chances * (1 - chances))
    penalty = 0.5 * float(precision @ w**2)
    determinant = float(np.linalg.slogdet(information)[1])
    evidence = value + 0.5 * float(np.log(precision).sum()) - 0.5 * determinant
    return LogisticFit(w, information, value + penalty, evidence)


def _objective(design: Array, target: Array, precision: Array, counts: Array, w: Array) -> tuple[float, Array]:
    """Return the penalized log-likelihood, and the log-odds."""
    scores = design @ w
    return float(counts @ (target * scores - np.logaddexp(0, scores))) - 0.5 * float(precision @ w**2), scores


def _information(design: Array, precision: Array, curvature: Array) -> Array:
    """Return the negative second derivative."""
    information = (design * curvature[:, None]).T @ design
    information[np.diag_indices_from(information)] += precision
    return np.asarray(information)
