"""Calibrate class probabilities from scores of rows that the classifier was not fitted on.

Soft halves weight a row by the judge's probability of its label, so the probabilities must be calibrated. Forests and
boosted ensembles are overconfident about their own rows, and a linear SVM has scores only. So classifiers are fitted
without each fold and asked about it. Their log-probabilities (or scores) z are mapped to softmax(t·z + b). The
temperature 1/t, and for scores the offsets b, minimize the log loss out of fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import minimize

from holdfast.environments import Weights
from holdfast.fitting.estimators import PROBABILITY_FLOOR, code_probabilities, has_probabilities
from holdfast.fitting.logistic import LogisticModel
from holdfast.fitting.newton import expit

LEAST, MOST = 0.02, 50.0  # scales


@dataclass(frozen=True)
class Calibration:
    """The map z -> softmax(scale·z + offsets)."""

    scale: float
    offsets: NDArray[np.float64]  # (n_classes,) sum zero

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of (n_rows, n_classes) scores."""
        return np.asarray(np.exp(self.log_probabilities(scores)))

    def log_probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities of (n_rows, n_classes) scores."""
        return log_softmax(self.scale * scores + self.offsets)


def log_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities that (n_rows, n_classes) scores stand for."""
    if scores.shape[1] == 2:  # short rows are slow to add up
        lead = scores[:, 1] - scores[:, 0]
        other = np.maximum(lead, 0) + np.log1p(np.exp(-np.abs(lead)))  # logaddexp takes four times as long
        return np.stack([-other, lead - other], axis=1)
    return np.asarray(special.log_softmax(scores, axis=1))


def class_scores(estimator: Any, X: Any, n_classes: int) -> NDArray[np.float64]:
    """Return (n_rows, n_classes) log-probabilities, else decision scores, else log votes, of a fitted classifier."""
    if isinstance(estimator, LogisticModel):
        lead = estimator.decision_function(X)
        return log_softmax(np.stack([np.zeros(len(lead)), lead], axis=1))
    has_scores = hasattr(estimator, "decision_function")
    if has_probabilities(estimator) or not has_scores:
        floor = 1e-12 if has_scores else PROBABILITY_FLOOR
        return np.asarray(np.log(np.maximum(code_probabilities(estimator, X, n_classes), floor)))
    decision = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if decision.ndim == 1:
        decision = np.stack([-decision / 2, decision / 2], axis=1)
    if decision.shape[1] == n_classes:
        return decision
    scores = np.full((len(decision), n_classes), decision.min() if decision.size else 0.0)
    scores[:, np.asarray(estimator.classes_, dtype=np.intp)] = decision
    return scores


def calibrate(
    scores: NDArray[np.float64], y_codes: NDArray[np.intp], weights: Weights | None = None, *, offsets: bool = False
) -> Calibration:
    """Return the map of least (weighted) mean log loss, with a faint pull towards scale 1 and offsets 0.

    Examples
    --------
    Twice too confident log-odds are halved:

    >>> z = np.log([[0.8, 0.2]] * 1000) * 2
    >>> y = np.array([0] * 800 + [1] * 200)
    >>> round(calibrate(z, y).scale, 2)
    0.5
    """
    n_rows, n_classes = scores.shape
    share = np.full(n_rows, 1.0 / n_rows) if weights is None else weights / weights.sum()
    faint = 1.0 / n_rows  # decides only what the rows leave open, as when every answer is the same
    if not offsets:
        return Calibration(_best_scale(scores, y_codes, share, faint), np.zeros(n_classes))
    truth = np.eye(n_classes)[y_codes]

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scale = np.exp(parameters[0])
        logs = log_softmax(scale * scores + parameters[1:])
        slope = share[:, None] * (np.exp(logs) - truth)  # (n_rows, n_classes)
        value = -float((share[:, None] * truth * logs).sum()) + faint * float((parameters**2).sum()) / 2
        return value, np.concatenate([[scale * (slope * scores).sum()], slope.sum(axis=0)]) + faint * parameters

    bounds = [(np.log(LEAST), np.log(MOST)), *[(-10.0, 10.0)] * n_classes]
    found = minimize(loss, np.zeros(1 + n_classes), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(np.exp(found[0])), found[1:] - found[1:].mean())


def _best_scale(
    scores: NDArray[np.float64], y_codes: NDArray[np.intp], share: NDArray[np.float64], faint: float
) -> float:
    """Return the scale of least loss: Newton's steps for its logarithm, halfway between bounds where they lead out."""
    low, high, log_scale = np.log(LEAST), np.log(MOST), 0.0
    own = float(share @ scores[np.arange(len(scores)), y_codes])
    lead, first = scores[:, -1] - scores[:, 0], float(share @ scores[:, 0])
    for _ in range(60):
        scale = np.exp(log_scale)
        if scores.shape[1] == 2:
            chances = expit(scale * lead)
            means = chances * lead
            mean, variance = first + float(share @ means), float(share @ (means * (lead - means)))
        else:
            chances = np.exp(log_softmax(scale * scores))
            means = np.einsum("nk,nk->n", chances, scores)
            mean = float(share @ means)
            variance = float(share @ (np.einsum("nk,nk,nk->n", chances, scores, scores) - means**2))
        slope = scale * (mean - own) + faint * log_scale
        bend = slope + scale**2 * variance + faint
        low, high = (log_scale, high) if slope < 0 else (low, log_scale)
        step = log_scale - slope / bend if bend > 0 else low
        if not low < step < high:
            step = (low + high) / 2
        if abs(step - log_scale) < 1e-7:
            break
        log_scale = step
    return float(np.exp(log_scale))
