"""Calibrated class probabilities of rows that a classifier was not fitted on.

Soft halves weight a row by the judge's probability of its label, so the probability has to mean what it says: a forest
or a boosted ensemble asked about its own rows answers with near certainty, and a linear SVM gives scores. Classifiers
are therefore fitted on folds, asked about the rest, and their log-probabilities z (or scores) are mapped to
softmax(t·z + b) with the temperature 1/t, and for scores also the offsets b, of least log loss out of fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.parallel import Parallel, delayed

from holdfast.environments import Rows, Weights, take_rows
from holdfast.exceptions import ParameterError
from holdfast.learners import code_probabilities, fit_rows, has_probabilities, sample_weight_name, seeded_clone
from holdfast.seeding import Seeding

# A forest answers 0 and 1; beyond one in a thousand its counts of trees say nothing.
PROBABILITY_FLOOR = 1e-3


@dataclass(frozen=True)
class Calibration:
    """The map z -> softmax(scale·z + offsets)."""

    scale: float
    offsets: NDArray[np.float64]  # (n_classes,) sum zero

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of (n_rows, n_classes) scores."""
        return np.asarray(np.exp(log_softmax(self.scale * scores + self.offsets, axis=1)))


class CalibratedClassifier(ClassifierMixin, BaseEstimator):
    """Fitted classifiers over codes whose mean score is mapped to calibrated probabilities.

    Parameters
    ----------
    estimators : list of fitted classifiers
        One for each fold.
    scale : float
        One over the temperature.
    offsets : array of shape (n_classes,)
        Added to the scaled scores.
    """

    def __init__(self, estimators: list[Any], scale: float, offsets: NDArray[np.float64]) -> None:
        self.estimators = estimators
        self.scale = scale
        self.offsets = offsets

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(len(self.offsets))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> CalibratedClassifier:
        return self  # its parts are fitted; a clone of them would not be

    def fit(self, X: Any, y: Any) -> CalibratedClassifier:
        """Return self: the parts are fitted already."""
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return calibrated probabilities, (n_rows, n_classes)."""
        n_classes = len(self.offsets)
        scores = np.mean([class_scores(part, X, n_classes) for part in self.estimators], axis=0)
        return Calibration(self.scale, self.offsets).probabilities(scores)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable codes."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


def fit_calibrated(
    estimator: Any,
    X: Any,
    y_codes: NDArray[np.intp],
    rows: Rows,
    *,
    n_classes: int,
    folds: int | Rows = 3,
    sample_weight: Weights | None = None,
    seeding: Seeding | None = None,
    n_jobs: int | None = None,
) -> tuple[CalibratedClassifier, NDArray[np.float64]]:
    """Fit a classifier on folds of the rows, and calibrate it on the answers out of fold.

    Parameters
    ----------
    estimator : classifier
        With probabilities, with decision scores, or with plain predictions.
    X : array, sparse matrix, frame or list of texts
        All rows.
    y_codes : array of shape (n_rows_of_X,)
        Codes 0..n_classes-1.
    rows : array of int
        The rows to fit on, usually one environment.
    n_classes : int
        Number of codes.
    folds : int or array of shape (n_rows_of_X,)
        Number of folds, stratified by label, or the fold of each row.
    sample_weight : array of shape (n_rows_of_X,), optional
        Weights of the rows, in the fits (where the estimator takes them) and in the calibration.
    seeding : Seeding, optional
        Streams for folds and unset random states.
    n_jobs : int, optional
        Folds fitted at the same time.

    Returns
    -------
    classifier : CalibratedClassifier
        For rows that it has not seen, such as another environment's.
    probabilities : array of shape (len(rows), n_classes)
        For the rows themselves, each by the classifier that was not fitted on it.
    """
    seeding = Seeding(0) if seeding is None else seeding
    fold_of_row = _row_folds(folds, y_codes, rows, seeding)
    held_out = [np.flatnonzero(fold_of_row == fold) for fold in np.unique(fold_of_row)]
    weights = None if sample_weight is None else sample_weight[rows]
    fit_weights = weights if sample_weight_name(estimator) is not None else None
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_without)(seeded_clone(estimator, seeding, "calibration", k), X, y_codes, rows, out, fit_weights)
        for k, out in enumerate(held_out)
    )
    scores = np.empty((len(rows), n_classes))
    for part, out in zip(parts, held_out, strict=True):
        scores[out] = class_scores(part, take_rows(X, rows[out]), n_classes)
    calibration = calibrate(scores, y_codes[rows], weights, offsets=not all(has_probabilities(part) for part in parts))
    classifier = CalibratedClassifier(list(parts), calibration.scale, calibration.offsets)
    return classifier, calibration.probabilities(scores)


def out_of_fold_probabilities(
    estimator: Any,
    X: Any,
    y_codes: NDArray[np.intp],
    rows: Rows,
    n_classes: int,
    folds: int | Rows = 3,
    sample_weight: Weights | None = None,
    seeding: Seeding | None = None,
) -> NDArray[np.float64]:
    """Return calibrated probabilities of the rows, each by a classifier fitted without it (see `fit_calibrated`)."""
    settings = {"folds": folds, "sample_weight": sample_weight, "seeding": seeding}
    return fit_calibrated(estimator, X, y_codes, rows, n_classes=n_classes, **settings)[1]  # type: ignore[arg-type]


def class_scores(estimator: Any, X: Any, n_classes: int) -> NDArray[np.float64]:
    """Return (n_rows, n_classes) log-probabilities, else decision scores, else log votes, of a fitted classifier."""
    if has_probabilities(estimator) or not hasattr(estimator, "decision_function"):
        return np.asarray(np.log(np.maximum(code_probabilities(estimator, X, n_classes), PROBABILITY_FLOOR)))
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
    truth = np.eye(n_classes)[y_codes]

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scale, shift = np.exp(parameters[0]), parameters[1:] if offsets else np.zeros(n_classes)
        logs = log_softmax(scale * scores + shift, axis=1)
        slope = share[:, None] * (np.exp(logs) - truth)  # (n_rows, n_classes)
        value = -float((share[:, None] * truth * logs).sum()) + faint * float((parameters**2).sum()) / 2
        gradient = np.concatenate([[scale * (slope * scores).sum()], slope.sum(axis=0) if offsets else []])
        return value, gradient + faint * parameters

    faint = 1.0 / n_rows  # decides only what the rows leave open, as when every answer is the same
    start = np.zeros(1 + n_classes if offsets else 1)
    bounds = [(np.log(0.02), np.log(50.0)), *[(-10.0, 10.0)] * (len(start) - 1)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    shift = found[1:] - found[1:].mean() if offsets else np.zeros(n_classes)
    return Calibration(float(np.exp(found[0])), shift)


def _fit_without(estimator: Any, X: Any, y: NDArray[np.intp], rows: Rows, out: Rows, weights: Weights | None) -> Any:
    """Fit on the rows except those at the positions `out`."""
    inside = np.ones(len(rows), dtype=bool)
    inside[out] = False
    return fit_rows(estimator, X, y, rows[inside], None if weights is None else weights[inside])


def _row_folds(folds: int | Rows, y_codes: NDArray[np.intp], rows: Rows, seeding: Seeding) -> Rows:
    """Return the fold of each of the rows: as given, or dealt out in turn within each label."""
    if not isinstance(folds, int | np.integer):
        fold_of_row = np.asarray(folds)[rows]
        if len(np.unique(fold_of_row)) < 2:
            raise ParameterError(
                "All rows to calibrate on are in one fold, but their probabilities are asked of a classifier that was "
                "not fitted on them. Spread the rows of every environment over at least two folds."
            )
        return np.asarray(fold_of_row)
    if folds < 2 or len(rows) < 2:
        raise ParameterError(
            f"Out-of-fold probabilities need at least 2 folds and 2 rows. Got folds={folds!r} and {len(rows)} rows."
        )
    shuffle = seeding.generator("calibration folds").permutation(len(rows))
    order = shuffle[np.argsort(y_codes[rows][shuffle], kind="stable")]
    result = np.empty(len(rows), dtype=np.intp)
    result[order] = np.arange(len(rows)) % folds
    return result
