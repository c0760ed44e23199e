"""Newton's method for penalized log losses, in memory or with sums over blocks of rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
MOST_STEPS = 30
ENOUGH = 1e-7  # log-likelihood that the next step would gain
JITTER = 1e-9  # of the mean curvature: classes' coefficients may grow together without any loss


def expit(log_odds: Array) -> Array:
    """Return probabilities, to within rounding: half the time of `scipy.special.expit`."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * log_odds))


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sum of log losses over some rows, with its derivatives; those of blocks of rows can be added."""

    value: float
    gradient: Array  # (n_coefficients,)
    curvature: Array | None  # (n_coefficients, n_coefficients)

    def __add__(self, other: LossSums) -> LossSums:
        bent = None if self.curvature is None or other.curvature is None else self.curvature + other.curvature
        return LossSums(self.value + other.value, self.gradient + other.gradient, bent)


def add_up(
    design: Array, target: NDArray[Any], coefficients: Array, weights: Array | None = None, *, bent: bool = True
) -> LossSums:
    """Add up the log losses of linear outputs `design @ coefficients.T`.

    Parameters
    ----------
    design : array of shape (n_rows, n_columns)
    target : array of shape (n_rows,)
        With one output 0, 1 or a probability; with more the codes of the classes.
    coefficients : array of shape (n_outputs, n_columns)
    weights : array of shape (n_rows,), optional
        How many rows each row stands for.
    bent : bool
        Whether the curvature is asked for.
    """
    losses, slopes, chances = row_losses(design @ coefficients.T, target)
    value = float(losses.sum() if weights is None else weights @ losses)
    if weights is not None:
        slopes = slopes * weights[:, None]
    return LossSums(value, (slopes.T @ design).ravel(), curvature(design, chances, weights) if bent else None)


def row_losses(outputs: Array, target: NDArray[Any]) -> tuple[Array, Array, Array]:
    """Return each row's log loss, its derivative, and probabilities; the last two have shape (n_rows, n_outputs)."""
    if outputs.shape[1] == 1:
        z = outputs[:, 0]
        losses = np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z))) - target * z  # logaddexp takes four times as long
        chances = expit(outputs)
        return losses, chances - target[:, None], chances
    logs = special.log_softmax(outputs, axis=1)
    chances = np.exp(logs)
    return -logs[np.arange(len(target)), target], chances - np.eye(outputs.shape[1])[target], chances


def curvature(design: Array, chances: Array, weights: Array | None = None) -> Array:
    """Return the sum of the rows' second derivatives, (n_outputs · n_columns) in both directions."""
    n_outputs, n_columns = chances.shape[1], design.shape[1]
    if n_outputs == 1:
        variances = chances[:, 0] * (1 - chances[:, 0])
        bent = design * np.sqrt(variances if weights is None else variances * weights)[:, None]
        return np.asarray(bent.T @ bent)
    found = np.empty((n_outputs, n_columns, n_outputs, n_columns))
    for k, other in itertools.combinations_with_replacement(range(n_outputs), 2):
        share = chances[:, k] * ((k == other) - chances[:, other])
        share = share if weights is None else weights * share
        found[k, :, other] = found[other, :, k] = design.T @ (design * share[:, None])
    return found.reshape(n_outputs * n_columns, -1)


class Newton:
    """Newton's steps for a sum of log losses plus ½·Σ precision·w², whoever adds up the rows.

    Parameters
    ----------
    start : array of shape (n_outputs, n_columns)
        The first `coefficients`.
    precision : array of shape (n_outputs, n_columns)
        Of the normal prior of each coefficient: the inverse of its variance.
    enough : float
        Stop where the next step would gain less.
    """

    def __init__(self, start: Array, precision: Array, enough: float = ENOUGH) -> None:
        self.coefficients, self.precision, self.enough = np.array(start, dtype=float), precision, enough
        self.gain = np.inf  # of the last step
        self._before: tuple[float, Array] | None = None  # value and coefficients before the last step
        self._inverse: Array

    def step(self, sums: LossSums) -> bool:
        """Move `coefficients`, at which `sums` were added up; return whether nothing is left to gain.

        Sums without a curvature take that of the step before. A step that led upwards is halved.
        """
        w = self.coefficients
        value = sums.value + 0.5 * float((self.precision * w**2).sum())
        if self._before is not None and not value <= self._before[0] * (1 + 1e-12) + self.enough:
            self.coefficients = (w + self._before[1]) / 2
            return False
        gradient = sums.gradient + (self.precision * w).ravel()
        if sums.curvature is not None:
            diagonal = self.precision.ravel() + JITTER * np.trace(sums.curvature) / len(sums.curvature)
            self._inverse = np.asarray(np.linalg.inv(sums.curvature + np.diag(diagonal)))
        step = self._inverse @ gradient
        last, self.gain = self.gain, 0.5 * float(gradient @ step)
        self._before = value, w
        if self.gain <= max(self.enough, 1e-13 * abs(value)):
            return True
        self.coefficients = w - step.reshape(w.shape)
        # Newton's steps gain the square of what the one before gained: the last one is not looked at.
        return self.gain * (self.gain / min(last, 1.0)) ** (1 if sums.curvature is None else 2) < self.enough


def minimize_log_loss(
    design: Array,
    target: NDArray[Any],
    precision: Array,
    *,
    start: Array,
    weights: Array | None = None,
    enough: float = ENOUGH,
) -> tuple[Array, bool]:
    """Return the coefficients of least penalized log loss of two classes, and whether they were reached."""
    newton = Newton(start[None], precision[None], enough)
    for _ in range(MOST_STEPS):
        bent = newton.gain > 1e-3 * len(design)  # else the curvature is that of the step before
        if newton.step(add_up(design, target, newton.coefficients, weights, bent=bent)):
            return newton.coefficients[0], True
    return newton.coefficients[0], False


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
    """Fit P(y = 1) = σ(design @ w), with w ~ N(0, 1 / precision), and integrate over w (Laplace).

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
    first = np.zeros(design.shape[1]) if start is None else start
    w, _ = minimize_log_loss(design, target, precision, start=first, weights=weights, enough=1e-3 * ENOUGH)
    sums = add_up(design, target, w[None], weights)
    assert sums.curvature is not None
    information = sums.curvature + np.diag(precision)
    determinant = float(np.linalg.slogdet(information)[1])
    penalty = 0.5 * float(precision @ w**2)
    evidence = 0.5 * float(np.log(precision).sum()) - 0.5 * determinant - sums.value - penalty
    return LogisticFit(w, information, -sums.value, evidence)
