"""The exact solver for linear estimators: min over w of max_g R_g(w) + penalty, with a certified gap.

| estimator | loss of a row | penalty added to the worst mean loss |
|---|---|---|
| `LogisticRegression` | log loss | ‖w‖² / (2·C·n_rows); none for `C=inf` |
| `Ridge` | squared error | alpha·‖w‖² / n_rows |
| `LinearRegression` | squared error | none |

With one group of all rows these are scikit-learn's own problems, divided by the number of rows. The intercept is never
penalized. Two classes share one weight vector, more have one each, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from holdfast.environments import Group
from holdfast.exceptions import InputTypeError, LabelsError
from holdfast.interpolation import Solution
from holdfast.interpolation.convex.linear import (
    LinearSettings,
    LinearSolution,
    minimize_worst_case_log_loss,
    minimize_worst_case_squared_loss,
)
from holdfast.learners import last_step
from holdfast.rows import TrainingRows, TransformedRows, fit_transformers, is_mapped


def supports_convex(estimator: Any) -> bool:
    """Return whether `solve_convex` solves this estimator's problem exactly.

    True for LogisticRegression with an L2 penalty or none, Ridge with one alpha, LinearRegression, and pipelines that
    end in one of them. False where the estimator states another problem: L1 and elastic-net penalties, `class_weight`,
    `positive=True`, and the liblinear solver, which penalizes the intercept.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if type(last) is LogisticRegression:
        penalty = getattr(last, "penalty", "deprecated")
        smooth = penalty in ("l2", None) or (penalty == "deprecated" and not last.l1_ratio)
        return bool(smooth and last.class_weight is None and last.solver != "liblinear")
    if type(last) is Ridge:
        return bool(np.ndim(last.alpha) == 0 and not last.positive)
    return type(last) is LinearRegression and not last.positive


def solve_convex(
    estimator: Any,
    training: TrainingRows,
    groups: Sequence[Group],
    *,
    n_classes: int | None,
    settings: LinearSettings | None = None,
) -> Solution:
    """Fit a linear model, or a pipeline that ends in one, to the least worst-case risk over groups.

    Parameters
    ----------
    estimator : LogisticRegression, Ridge, LinearRegression or Pipeline
        See `supports_convex`. Its own solver, `tol` and `max_iter` are not used.
    training : TrainingRows
        Rows with codes 0..n_classes-1, or targets for a regressor. Transformers are fitted once on all rows; a memory
        map is then read and transformed block by block. Transformers and the penalty see the sample weights: a row of
        weight 2 counts like two rows.
    groups : sequence of Group
        Groups, which may overlap; their weights include the sample weights.
    n_classes : int or None
        Number of classes; None for a regressor.
    settings : LinearSettings, optional
        Tolerance and iterations. The intercept and the total weight are set here.

    Returns
    -------
    Solution
        With a fitted copy of the estimator and `gap`, an upper bound on how much penalized worst-case risk is left.
        Without a penalty the bound is for coefficients in a box, 1000 times as large as those found.

    Warns
    -----
    SolverWarning
        If the gap stays above the tolerance.
    """
    if not supports_convex(estimator):
        raise InputTypeError(
            f"The convex solver needs LogisticRegression with an L2 penalty or none, Ridge, LinearRegression, or a "
            f"pipeline that ends in one. Got {estimator!r} instead. Use solver='reweight', which takes any estimator."
        )
    fitted = clone(estimator)
    rows, _ = fit_transformers(fitted, training.X, training.y, training.sample_weight)
    last = last_step(fitted)
    is_classifier = isinstance(last, LogisticRegression)
    if is_classifier and (n_classes is None or n_classes < 2):
        raise LabelsError(f"A classifier needs at least two classes. Got n_classes={n_classes!r}; check the labels.")
    settings = replace(
        settings or LinearSettings(), fit_intercept=last.fit_intercept, total_weight=float(training.weights.sum())
    )
    if is_classifier:
        C = np.inf if getattr(last, "penalty", "deprecated") is None else last.C
        linear = minimize_worst_case_log_loss(
            rows, training.y, groups, n_classes=int(n_classes or 0), C=C, settings=settings
        )
    else:
        alpha = getattr(last, "alpha", 0.0)
        linear = minimize_worst_case_squared_loss(rows, training.y, groups, alpha=alpha, settings=settings)
    is_plain = not isinstance(rows, TransformedRows) and not is_mapped(rows)
    _write_back(last, rows if is_plain else rows[:1], linear, n_classes)
    return Solution(
        estimator=fitted,
        group_risks=linear.group_risks,
        gap=linear.gap,
        group_weights=linear.group_weights,
        solver="convex",
        history=linear.history,
    )


def _write_back(last: Any, rows: Any, linear: LinearSolution, n_classes: int | None) -> None:
    """Give the last step the attributes that its own `fit` would have set; `rows` may be any rows that it would see."""
    validate_data(last, rows, skip_check_array=True)  # n_features_in_ and feature_names_in_
    if isinstance(last, LogisticRegression):
        last.classes_ = np.arange(n_classes or 0)
        last.coef_, last.intercept_ = linear.coef, linear.intercept
        last.n_iter_ = np.array([len(linear.history)], dtype=np.int32)
    else:
        last.coef_ = linear.coef[0]
        last.intercept_ = float(linear.intercept[0]) if last.fit_intercept else 0.0
        last.n_iter_ = None
