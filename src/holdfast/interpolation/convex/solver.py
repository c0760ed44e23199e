"""The exact solver for linear models: min over w of max_g R_g(w) + penalty, with a certified gap.

| estimator | loss of a row | penalty added to the worst mean loss |
|---|---|---|
| `LogisticRegression` | log loss | ‖w‖² / (2·C·n_rows); none for `C=inf` |
| `Ridge` | squared error | alpha·‖w‖² / n_rows |
| `LinearRegression` | squared error | none |

With one group of all rows these are scikit-learn's own problems, divided by the number of rows. The intercept is never
penalized. Two classes share one weight vector, more have one each, as in scikit-learn. `solve_convex` takes such an
estimator or a pipeline that ends in one, `minimize_worst_case_log_loss` and `minimize_worst_case_squared_loss` take
plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from holdfast.environments import Group
from holdfast.exceptions import (
    FeaturesError,
    InputTypeError,
    LabelsError,
    ParameterError,
    SmallGroupWarning,
    SolverWarning,
    warn,
)
from holdfast.fitting.estimators import last_step
from holdfast.fitting.kinds import Estimator
from holdfast.fitting.logistic import is_ridge
from holdfast.interpolation import Solution
from holdfast.interpolation.convex.losses import BinaryLogLoss, LinearLoss, SoftmaxLogLoss, SquaredLoss
from holdfast.interpolation.convex.minimax import Minimum, minimize_worst_case
from holdfast.interpolation.convex.problem import Design, LinearProblem, group_matrix
from holdfast.rows.mapped import MappedRows, TransformedRows, fit_transformers, is_mapped
from holdfast.rows.training import TrainingRows


def supports_convex(estimator: Estimator) -> bool:
    """Return whether `solve_convex` solves this estimator's problem exactly.

    True for LogisticRegression with an L2 penalty or none, Ridge with one alpha, LinearRegression, and pipelines that
    end in one of them. False where the estimator states another problem: L1 and elastic-net penalties, `class_weight`,
    `positive=True`, and the liblinear solver, which penalizes the intercept.
    """
    last: Any = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if type(last) is LogisticRegression:
        return is_ridge(last) and last.class_weight is None and bool(last.solver != "liblinear")
    if type(last) is Ridge:
        return bool(np.ndim(last.alpha) == 0 and not last.positive)
    return type(last) is LinearRegression and not last.positive


def solve_convex(
    estimator: Estimator,
    training: TrainingRows,
    groups: Sequence[Group],
    *,
    n_classes: int | None,
    settings: LinearSettings | None = None,
) -> Solution:
    """Fit a linear model, or a pipeline that ends in one, to the least worst-case risk over groups.

    The estimator's own solver, `tol` and `max_iter` are not used. Its transformers are fitted once on all rows; a
    memory map is then read and transformed block by block. Transformers and the penalty see the sample weights: a row
    of weight 2 counts like two rows. The weights of groups, which may overlap, include them too. `n_classes` is None
    for a regressor; of the settings, the intercept and the total weight are set here.

    The solution has a fitted copy of the estimator and `gap`, an upper bound on how much penalized worst-case risk is
    left; without a penalty it is for coefficients in a box, 1000 times as large as those found. A gap that stays above
    the tolerance is a `SolverWarning`.
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


Array = NDArray[np.float64]

# A large problem is started from the solution of a smaller one, on so many rows, unless few of them fit in memory.
SAMPLED_ROWS = 50_000
MIN_SAMPLED_ROWS = 2_000
MAX_SAMPLED_NUMBERS = 4_000_000
ROUNDING = 1e-12  # of a risk that is computed twice in different orders


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearSettings:
    """How a linear model is fitted; the defaults suit scikit-learn's estimators."""

    fit_intercept: bool = True
    total_weight: float | None = None  # of all rows, which divides the penalty; None: the number of rows
    tolerance: float = 1e-4  # certified gap to reach: nats, or shares of the targets' variance
    max_iterations: int = 100  # quadratic programs, most of which cost three passes over X


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """Coefficients of the least worst-case risk, and how far from it they can be."""

    coef: Array  # (1, n_features) for two classes and regression, else (n_classes, n_features)
    intercept: Array  # (1,) or (n_classes,)
    group_risks: Array  # (n_groups,) of these coefficients on the rows as given; 0 for a group without weight
    gap: float  # objective − optimum is at most this
    group_weights: Array  # (n_groups,) the mixture of groups that proves it
    history: list[dict[str, Any]]


def minimize_worst_case_log_loss(
    X: Any,
    y_codes: ArrayLike,
    groups: Sequence[Group],
    *,
    n_classes: int,
    C: float = 1.0,
    settings: LinearSettings | None = None,
) -> LinearSolution:
    """Minimize max_g (mean log loss of group g) + ‖w‖² / (2·C·n_rows); one group of all rows is logistic regression.

    Examples
    --------
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> groups = [Group("left", np.array([0, 1])), Group("right", np.array([2, 3]))]
    >>> found = minimize_worst_case_log_loss(X, [0, 1, 0, 1], groups, n_classes=2)
    >>> found.group_risks.round(4), found.gap < 1e-4
    (array([0.6931, 0.6931]), True)
    """
    if not C > 0:
        raise ParameterError(f"The 'C' parameter must be a positive number. Got {C!r} instead.")
    y = np.asarray(y_codes)
    if y.ndim != 1 or y.dtype.kind not in "iub" or (len(y) and not 0 <= y.min() <= y.max() < n_classes):
        raise LabelsError(
            f"y_codes must be one integer code from 0 to {n_classes - 1} for each row. Got {y!r}. "
            "Encode labels first, for example with numpy.unique(y, return_inverse=True)."
        )
    settings = settings or LinearSettings()
    loss: LinearLoss = BinaryLogLoss() if n_classes == 2 else SoftmaxLogLoss(n_classes)
    design = _design(X, y, settings, width=loss.n_outputs)
    return _solve(_Task(design, loss, y, groups, 1.0 / (C * _total_weight(design, settings))), settings)


def minimize_worst_case_squared_loss(
    X: Any, y: ArrayLike, groups: Sequence[Group], *, alpha: float = 1.0, settings: LinearSettings | None = None
) -> LinearSolution:
    """Minimize max_g (mean squared error of group g) + alpha·‖w‖² / n_rows; one group of all rows is ridge regression.

    Squared errors have the unit of the targets squared. Risks and gap are returned in that unit.
    """
    targets = np.asarray(y, dtype=np.float64)
    if targets.ndim != 1 or not np.isfinite(targets).all():
        raise LabelsError(
            f"Targets must be one finite number for each row. Got shape {targets.shape}"
            f"{'' if np.isfinite(targets).all() else ' with NaN or infinite values'}; drop or fill those rows."
        )
    if not alpha >= 0:
        raise ParameterError(f"The 'alpha' parameter must be zero or positive. Got {alpha!r} instead.")
    settings = settings or LinearSettings()
    design = _design(X, targets, settings, width=1)
    center = float(targets.mean()) if settings.fit_intercept else 0.0
    unit = float(np.sqrt(np.mean((targets - center) ** 2))) or 1.0
    penalty = 2.0 * alpha / _total_weight(design, settings)
    return _solve(_Task(design, SquaredLoss(), targets, groups, penalty, unit, center), settings)


@dataclass(frozen=True, eq=False)
class _Task:
    """What is minimized, in the user's units; it is solved for targets (y − center) / unit."""

    design: Design
    loss: LinearLoss
    y: NDArray[Any]  # (n_rows,) codes or targets
    groups: Sequence[Group]
    penalty: float
    unit: float = 1.0
    center: float = 0.0

    @property
    def scaled_y(self) -> NDArray[Any]:
        """The codes, or the targets in the solver's units."""
        return (self.y - self.center) / self.unit if self.y.dtype.kind == "f" else self.y


def _design(X: Any, y: NDArray[Any], settings: LinearSettings, *, width: int) -> Design:
    """Return X as a design whose rows match y; arrays and memory maps are neither copied nor read yet."""
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf" and X.size > 0
    if not is_array and not isinstance(X, MappedRows | TransformedRows):
        try:
            X = check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        except ValueError as problem:
            raise FeaturesError(f"X must be numbers in rows and columns. {problem}") from problem
    if X.shape[0] != len(y):
        raise FeaturesError(f"X has {X.shape[0]} rows for {len(y)} labels. Pass one label for each row.")
    return Design(X, fit_intercept=settings.fit_intercept, width=width)


def _total_weight(design: Design, settings: LinearSettings) -> float:
    """Return what the penalty is divided by."""
    return float(design.n_rows) if settings.total_weight is None else settings.total_weight


def _solve(task: _Task, settings: LinearSettings) -> LinearSolution:
    """Minimize, from the solution of a sample of the rows, and warn when the gap stays open."""
    design, groups = task.design, task.groups
    kept = _weighty_groups(groups, design.n_rows)
    chosen = [groups[g] for g in kept]
    problem = LinearProblem(design, task.loss, task.scaled_y, group_matrix(chosen, design.n_rows), task.penalty)
    limits: dict[str, Any] = {"tolerance": settings.tolerance, "max_iterations": settings.max_iterations}
    start, mixture = _sampled_start(problem, chosen, limits)
    found = minimize_worst_case(problem, start=start, mixture=mixture, **limits)
    coef, intercept = design.to_original(found.point.coefficients)
    coef, intercept = coef * task.unit, intercept * task.unit + task.center
    # What is claimed is what the returned coefficients do to the rows as given: where a column's mean is 1e12 times
    # its spread, rounding makes that worse than what the solver saw in its shifted columns.
    risks = problem.means(task.loss.values(design.predict(coef, intercept), task.y))
    objective = float(risks.max()) + 0.5 * task.penalty * float((coef**2).sum())
    gap = max(objective - found.lower_bound * task.unit**2, 0.0)
    _warn_of_gap(gap / task.unit**2, found, settings.tolerance)
    history = [_rescaled(entry, task.unit**2) for entry in found.history]
    if history:
        history[-1] |= {"worst_case_risk": float(risks.max()), "gap": gap}
        history[-1] |= {"group_risks": risks.tolist()} if "group_risks" in history[-1] else {}
    all_risks, mixture = np.zeros(len(groups)), np.zeros(len(groups))
    all_risks[kept], mixture[kept] = risks, found.mixture
    history = [_for_all_groups(entry, kept, len(groups)) for entry in history]
    return LinearSolution(coef, intercept, all_risks, gap, mixture, history)


def _warn_of_gap(gap: float, found: Minimum, tolerance: float) -> None:
    """Warn where the gap of the returned coefficients is open, and say what closes it."""
    if gap <= max(tolerance, found.gap) + ROUNDING and found.gap <= tolerance:
        return
    if found.gap <= tolerance:
        advice = (
            f"The solver reached {found.gap:.2g}, but rounding spoils the coefficients: some column's mean is very "
            "large compared with its spread. Center the columns, for example with sklearn's StandardScaler."
        )
    else:
        advice = "Raise max_iterations or the tolerance, or penalize more."
    warn(
        f"The convex solver stopped after {len(found.history)} iterations with a certified gap of {gap:.2g}, "
        f"above the tolerance of {tolerance:.2g}. {advice}",
        SolverWarning,
    )


def _rescaled(entry: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return an entry of the history in the units of the targets."""
    scaled = {name: value * factor for name, value in entry.items() if name in ("worst_case_risk", "gap")}
    risks = {"group_risks": [risk * factor for risk in entry["group_risks"]]} if "group_risks" in entry else {}
    return {**entry, **scaled, **risks}


def _for_all_groups(entry: dict[str, Any], kept: list[int], n_groups: int) -> dict[str, Any]:
    """Return an entry of the history whose risks are those of all groups, 0 for one without weight."""
    if "group_risks" not in entry or len(kept) == n_groups:
        return entry
    risks = dict(zip(kept, entry["group_risks"], strict=True))
    return {**entry, "group_risks": [risks.get(group, 0.0) for group in range(n_groups)]}


def _weighty_groups(groups: Sequence[Group], n_rows: int) -> list[int]:
    """Return the numbers of the groups that have a risk; refuse rows and weights that cannot be."""
    kept: list[int] = []
    dropped: list[int] = []
    for g, group in enumerate(groups):
        if len(group) and not 0 <= group.rows.min() <= group.rows.max() < n_rows:
            raise ParameterError(f"Group {group.name!r} has row numbers outside 0 to {n_rows - 1}, the rows of X.")
        if group.weights is not None and not (np.isfinite(group.weights) & (group.weights >= 0)).all():
            raise ParameterError(f"Group {group.name!r} has weights that are negative, NaN or infinite.")
        has_weight = len(group) > 0 if group.weights is None else bool(group.weights.sum() > 0)
        (kept if has_weight else dropped).append(g)
    if not kept:
        raise ParameterError(f"None of the {len(groups)} groups has a row with positive weight. Pass at least one.")
    if dropped:
        names = ", ".join(repr(groups[g].name) for g in dropped[:5])
        warn(
            f"{len(dropped)} of {len(groups)} groups have no row with positive weight and no risk: {names}. "
            "They are left out of the worst case.",
            SmallGroupWarning,
        )
    return kept


def _sampled_start(
    problem: LinearProblem, groups: Sequence[Group], limits: dict[str, Any]
) -> tuple[Array | None, Array | None]:
    """Return coefficients and mixture of the solution on a sample of the rows; None where that would not help."""
    n_sampled = min(SAMPLED_ROWS, int(MAX_SAMPLED_NUMBERS / problem.design.row_size))
    sample = problem.sample(groups, n_sampled) if n_sampled >= MIN_SAMPLED_ROWS else None
    if sample is None:
        return None, None
    found = minimize_worst_case(sample, **limits)
    return found.point.coefficients, found.mixture
