"""Stage 1 of an audit: what each environment's classifier says about rows it was not fitted on, calibrated.

A judge's own rows are its control, so they are predicted out of fold, and the other environments by the same fold
classifiers: at home and away it is then equally well informed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from holdfast.audit.columns import is_sparse
from holdfast.environments import Environment, take_rows
from holdfast.exceptions import ParameterError
from holdfast.judging.judges import EnvironmentClassifier, fit_environment_classifiers
from holdfast.learners import code_probabilities
from holdfast.seeding import Seeding

Floats = NDArray[np.float64]
NEWTON_COLUMNS = 300  # above that, Newton steps cost more than gradients
FLOOR = 1e-6  # of a probability, so that its logarithm exists


@dataclass(frozen=True, eq=False)
class Judges:
    """Class probabilities of every judge for every row; NaN where it has none."""

    probabilities: Floats  # (n_judges, n_rows, n_classes), a judge's own rows out of fold
    fold_probabilities: tuple[Floats | None, ...]  # of each judge: (n_folds, n_rows, n_classes), NaN on its own rows


def default_judge(X: Any) -> Any:
    """Return the judge used when none is given: a regularized logistic regression on scaled columns.

    Columns of a table also enter squared, so that a relation with a bend in it is not taken for one that changes.
    """
    if is_sparse(X):
        return Pipeline([("scale", MaxAbsScaler()), ("logistic", LogisticRegression(max_iter=1000))])
    return BentLogistic()


class BentLogistic(ClassifierMixin, BaseEstimator):
    """`LogisticRegression` on scaled columns and their squares; two classes and few columns are solved by Newton steps.

    An audit fits it dozens of times on small data, where checks and line searches would take most of the time.
    """

    def fit(self, X: Floats, y: NDArray[Any]) -> BentLogistic:
        """Fit coefficients of shape (1 or n_classes, 2·n_columns) and intercepts."""
        self.center_, spread = X.mean(axis=0), X.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        self.classes_, codes = np.unique(y, return_inverse=True)
        bent = self._bend(X)
        if len(self.classes_) == 2 and bent.shape[1] <= NEWTON_COLUMNS:
            solution = _newton(np.column_stack([bent, np.ones(len(bent))]), codes.astype(np.float64))
            self.coef_, self.intercept_ = solution[None, :-1], solution[-1:]
        else:
            fitted = LogisticRegression(max_iter=1000).fit(bent, codes)
            self.coef_, self.intercept_ = fitted.coef_, fitted.intercept_
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """Return probabilities of shape (n_rows, n_classes)."""
        scores = self._bend(X) @ self.coef_.T + self.intercept_
        if len(self.classes_) == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: Floats) -> NDArray[Any]:
        """Return the most probable label of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _bend(self, X: Floats) -> Floats:
        """Return scaled columns and their squares."""
        return with_squares((X - self.center_) / self.scale_)


def _newton(design: Floats, y: Floats) -> Floats:
    """Return the minimum of the summed log loss + ½·‖w‖², the last column (the intercept) unpenalized."""
    penalty = np.append(np.ones(design.shape[1] - 1), 1e-9)
    w = np.zeros(design.shape[1])
    for _ in range(100):
        p = expit(design @ w)
        gradient = design.T @ (p - y) + penalty * w
        hessian = (design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        w = w - step / max(1.0, float(np.abs(design @ step).max()) / 4.0)  # log-odds move by four at most
        if np.abs(gradient).max() < 1e-6 * len(y):
            break
    return w


def with_squares(scaled: Floats) -> Floats:
    """Return scaled columns, cut at four standard deviations, and their squares."""
    cut = np.clip(scaled, -4.0, 4.0)
    return np.hstack([cut, cut**2])


def fit_judges(
    judge: Any,
    X: Any,
    y: NDArray[np.intp],
    environments: Sequence[Environment],
    *,
    classes: NDArray[Any],
    n_folds: int,
    seeding: Seeding,
    n_jobs: int | None = None,
) -> Judges:
    """Fit `judge` on folds of each environment and return calibrated probabilities.

    Parameters
    ----------
    judge : scikit-learn classifier
        With `predict_proba`; it is cloned.
    X, y : rows and class codes of shape (n_rows,)
    environments : sequence of Environment
    classes : array of shape (n_classes,)
        The labels behind the codes, for messages.
    n_folds : int
        At least 2.
    """
    if n_folds < 2:
        raise ParameterError(f"The 'n_folds' parameter of an audit must be at least 2. Got {n_folds!r} instead.")
    if is_sparse(X):
        X = sp.csr_array(X)
    classifiers = fit_environment_classifiers(
        judge, X, y, environments, classes=classes, n_folds=n_folds, seeding=seeding, n_jobs=n_jobs
    )
    answers = [_answers(classifier, X, y, len(classes)) for classifier in classifiers]
    return Judges(np.stack([overall for overall, _ in answers]), tuple(folds for _, folds in answers))


def given_judges(probabilities: Any, n_judges: int, n_rows: int, n_classes: int) -> Judges:
    """Return probabilities that the caller has already made, checked."""
    given = np.asarray(probabilities, dtype=np.float64)
    if given.shape != (n_judges, n_rows, n_classes):
        raise ParameterError(
            f"The 'probabilities' parameter must have shape (n_environments, n_rows, n_classes) = "
            f"{(n_judges, n_rows, n_classes)}. Got {given.shape} instead."
        )
    return Judges(given, (None,) * n_judges)


def _answers(classifier: EnvironmentClassifier, X: Any, y: NDArray[np.intp], n_classes: int) -> tuple[Floats, Floats]:
    """Return one judge's calibrated probabilities: overall, and those of each fold classifier elsewhere."""
    n_rows, home = len(y), classifier.environment.rows
    overall = np.full((n_rows, n_classes), np.nan)
    folds = np.full((len(classifier.fold_rows), n_rows, n_classes), np.nan)
    if not len(folds):
        return overall, folds
    away = np.setdiff1d(np.arange(n_rows), home, assume_unique=True)
    strangers = take_rows(X, away)
    for fold, (estimator, rows) in enumerate(zip(classifier.fold_estimators, classifier.fold_rows, strict=True)):
        overall[rows] = code_probabilities(estimator, take_rows(X, rows), n_classes)
        if len(away):
            folds[fold, away] = code_probabilities(estimator, strangers, n_classes)
    slope, intercepts = fit_calibration(overall[home], y[home])
    overall[home] = calibrated(overall[home], slope, intercepts)
    folds[:, away] = calibrated(folds[:, away], slope, intercepts)
    # A score x·(1[y] − p) is linear in p: the mean over the folds is the mean of the folds' scores.
    overall[away] = folds[:, away].mean(axis=0)
    return overall, folds


def fit_calibration(probabilities: Floats, y: NDArray[np.intp]) -> tuple[float, Floats]:
    """Return slope s and intercepts b for which softmax(s·log p + b) fits the labels best.

    Two classes: Platt's scaling of the log-odds. A regularized judge is not sure enough of itself; this undoes it.
    """
    logs = np.log(np.clip(probabilities, FLOOR, None))  # (n_rows, n_classes)
    targets = np.eye(logs.shape[1])[y]

    def loss(parameters: Floats) -> tuple[float, Floats]:
        slope, intercepts = parameters[0], parameters[1:]
        scores = log_softmax(slope * logs + intercepts, axis=1)
        excess = (np.exp(scores) - targets) / len(y)
        pull = parameters - start  # a little, so that separable rows have an answer
        value = -(targets * scores).sum() / len(y) + 1e-4 * (pull @ pull)
        return float(value), np.concatenate([[(excess * logs).sum()], excess.sum(axis=0)]) + 2e-4 * pull

    start = np.concatenate([[1.0], np.zeros(logs.shape[1])])
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.05, 10.0)] + [(-10.0, 10.0)] * logs.shape[1])
    return float(best.x[0]), np.asarray(best.x[1:])


def calibrated(probabilities: Floats, slope: float, intercepts: Floats) -> Floats:
    """Return softmax(s·log p + b) along the last axis."""
    scores: Floats = softmax(slope * np.log(np.clip(probabilities, FLOOR, None)) + intercepts, axis=-1)
    return scores
