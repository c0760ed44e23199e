"""Fit logistic regressions on parts of a table faster, starting from the fit of all rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from holdfast.environments import Rows
from holdfast.fitting.estimators import last_step
from holdfast.fitting.kinds import Estimator
from holdfast.fitting.newton import MOST_STEPS, expit, minimize_log_loss

MOST_COLUMNS = 100  # of a logistic regression that is fitted by Newton's steps
FEW_ROWS = 500


class LogisticModel:
    """A fitted logistic regression of two classes."""

    classes_ = np.arange(2)

    def __init__(self, coef: NDArray[np.float64], intercept: float) -> None:
        self.coef = coef
        self.intercept = intercept

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the log-odds of the second class."""
        return np.asarray(X @ self.coef + self.intercept)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of both classes."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable codes."""
        return (self.decision_function(X) > 0).astype(np.intp)


def logistic_start(fitted: Any, X: Any) -> LogisticModel | None:
    """Return a fitted logistic regression, alone or after a StandardScaler, over the columns of X; None for all else.

    `fit_part` fits the same to other rows of X from there.
    """
    steps = [step for _, step in fitted.steps] if isinstance(fitted, Pipeline) else [fitted]
    names = [type(step).__name__ for step in steps]
    if names not in (["LogisticRegression"], ["StandardScaler", "LogisticRegression"]):
        return None
    last, is_table = steps[-1], type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2
    usual = (
        last.solver in ("lbfgs", "newton-cg", "newton-cholesky") and last.fit_intercept and last.class_weight is None
    )
    penalized = is_ridge(last) and getattr(last, "penalty", "l2") is not None and np.isfinite(last.C)
    if not (is_table and usual and penalized and last.max_iter >= MOST_STEPS):
        return None
    if last.classes_.tolist() != [0, 1] or last.coef_.shape[1] > MOST_COLUMNS:
        return None
    scaler = steps[0] if len(steps) > 1 else None
    if scaler is None:
        return LogisticModel(last.coef_[0], float(last.intercept_[0]))
    if not (scaler.with_mean and scaler.with_std):
        return None
    coef = last.coef_[0] / scaler.scale_
    return LogisticModel(coef, float(last.intercept_[0] - coef @ scaler.mean_))


def is_ridge(model: Any) -> bool:
    """Return whether a LogisticRegression has an L2 penalty or none; how it says so differs between versions."""
    penalty = getattr(model, "penalty", "deprecated")
    return bool(penalty in ("l2", None) or (penalty == "deprecated" and not model.l1_ratio))


def fit_part(
    start: LogisticModel,
    estimator: Estimator,
    X: NDArray[np.float64],
    y: NDArray[Any],
    rows: Rows,
    *,
    is_near: bool = False,
) -> LogisticModel | None:
    """Fit what `estimator` would to some rows, from the coefficients of others; None where Newton's steps fail.

    The minimum of the estimator's own loss is found to more digits than its solver asks for. `is_near` says that the
    start leaves little to gain.
    """
    target, n_columns = y[rows], X.shape[1]
    if target.min() == target.max():
        return None
    features = np.take(X, rows, axis=0)
    found, mean, scale = np.append(start.coef, start.intercept), np.zeros(n_columns), np.ones(n_columns)
    if isinstance(estimator, Pipeline):  # as StandardScaler does, which takes columns of rounding errors for constant
        mean = np.full(len(rows), 1 / len(rows)) @ features
        features -= mean
        variance = np.einsum("nj,nj->j", features, features) / len(rows)
        bound = len(rows) * np.finfo(np.float64).eps
        constant = variance <= bound * variance + (bound * mean) ** 2
        scale = np.where(constant, 1.0, np.sqrt(variance))
        share = target.mean()
        intercept = start.intercept + start.coef @ mean
        if constant.any() and not is_near:
            intercept = np.log(share / (1 - share))
        found = np.append(np.where(constant, 0.0, start.coef * scale), intercept)
    design = np.ones((len(rows), n_columns + 1))
    np.divide(features, scale, out=design[:, :-1])
    penalties = np.append(np.full(n_columns, 1 / last_step(estimator).C), 0.0)
    try:
        if len(rows) > 4 * FEW_ROWS and not is_near:  # most of the way is made with a fourth of the rows
            found, _ = minimize_log_loss(design[::4], target[::4], penalties / 4, start=found, enough=len(found))
        found, is_done = minimize_log_loss(design, target, penalties, start=found)
    except np.linalg.LinAlgError:
        return None
    if not is_done:
        return None
    coef = found[:-1] / scale
    return LogisticModel(coef, float(found[-1] - coef @ mean))


def refit_logistic(fitted: Any, parts: Sequence[Any], estimator: Estimator, X: Any, y: NDArray[Any]) -> Any | None:
    """Return what `estimator` would learn from all rows of X; None where it is not a logistic regression.

    `fitted` has learned from the same rows, but for columns that are constant now; `parts` are fits of parts of the
    rows of X, by `fit_part`: their mean is where it begins.
    """
    if not parts or not all(isinstance(part, LogisticModel) for part in parts):
        return None
    start = LogisticModel(
        np.mean([part.coef for part in parts], axis=0), float(np.mean([part.intercept for part in parts]))
    )
    found = fit_part(start, estimator, X, y, np.arange(len(y)), is_near=True)
    if found is None:
        return None
    result = copy.deepcopy(fitted)
    if isinstance(result, Pipeline):
        scaler, constant = result.steps[0][1], (X[0] == X).all(axis=0)
        scaler.mean_[constant], scaler.var_[constant], scaler.scale_[constant] = X[0, constant], 0.0, 1.0
    return with_coefficients(result, found)


def with_coefficients(fitted: Any, model: LogisticModel) -> Any:
    """Return a copy of what `logistic_start` reads that predicts as the model does."""
    result, coef, intercept = copy.deepcopy(fitted), model.coef, model.intercept
    if isinstance(result, Pipeline):
        scaler = result.steps[0][1]
        coef, intercept = coef * scaler.scale_, intercept + float(coef @ scaler.mean_)
    last = last_step(result)
    last.coef_, last.intercept_ = coef[None, :], np.array([intercept])
    return result
