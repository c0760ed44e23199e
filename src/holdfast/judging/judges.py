"""Stage 1: fit one judge for each environment, and fits without each fold of its rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, Group, Rows, listed, take_rows
from holdfast.exceptions import EmptyColumnWarning, SingleClassEnvironmentWarning, UnseenLabelWarning, warn
from holdfast.fitting.estimators import empty_columns, fit_rows, is_network, sample_weight_name, seeded_clone
from holdfast.fitting.folds import deal_evenly, fold_parts, rows_without
from holdfast.fitting.kinds import Estimator, Predictor
from holdfast.fitting.logistic import fit_part, logistic_start
from holdfast.parallel import run_each
from holdfast.rows.mapped import MappedRows, is_mapped
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """How judges are fitted."""

    n_folds: int = 0  # with at least 2, a judge's own rows are answered by fits that have not seen them
    selection: str | None = None  # for networks: the rule that selects a judge's epoch
    n_jobs: int | None = None  # fits that run at the same time
    start: Any = None  # the fit of all rows, where `fit_folds` may begin


@dataclass(frozen=True, eq=False)
class Judge:
    """A classifier fitted on one environment alone, and the fits that answer about its own rows."""

    environment: Environment
    estimator: Predictor  # fitted on all rows of the environment
    fold_estimators: tuple[Any, ...] = ()  # each fitted on the rows outside its fold
    fold_rows: tuple[Rows, ...] = ()  # the rows that each of them answers about

    def unseen_rows(self, n_rows: int) -> list[tuple[Any, Rows]]:
        """Return which fitted model may speak about which rows."""
        others = (self.estimator, rows_without(self.environment.rows, n_rows))
        pairs = [others, *zip(self.fold_estimators, self.fold_rows, strict=True)]
        return [(model, rows) for model, rows in pairs if len(rows)]


def deal_folds(training: TrainingRows, n_folds: int) -> NDArray[np.intp] | None:
    """Return the fold of each row: as given to `fit`, else dealt evenly over each environment and label.

    None where fewer than two folds are asked for.
    """
    if n_folds < 2:
        return None
    if training.folds is not None:
        return training.folds
    return deal_evenly(training.content_order, training.environment_codes, n_folds)


def fit_judges(
    estimator: Estimator,
    training: TrainingRows,
    settings: JudgeSettings,
    seeding: Seeding,
    *,
    classes: NDArray[Any] | None,
    folds: NDArray[np.intp] | None = None,
) -> tuple[Judge, ...]:
    """Fit one copy of `estimator` on each environment.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Unfitted; it is cloned.
    training : TrainingRows
    settings : JudgeSettings
    seeding : Seeding
        Every fit draws from a stream named after its environment, so that adding an environment changes no other's.
    classes : array of shape (n_classes,), or None
        The labels behind the codes, for messages; None for regression.
    folds : array of shape (n_rows,), optional
        Fold of each row: each environment is also fitted without each fold of its own rows.
    """
    environments = training.environments
    if classes is not None:
        _warn_of_missing_labels(training.y, environments, classes)
    warn_of_empty_columns(training, "the classifier of such an environment cannot use the column")
    fold_rows = [fold_parts(environment.rows, folds) for environment in environments]
    tasks: list[tuple[Any, ...]] = []
    for environment, held_out in zip(environments, fold_rows, strict=True):
        tasks.append((estimator, (environment.name,), environment.rows, settings, seeding))
        for number, rows in enumerate(held_out):
            rest = np.setdiff1d(environment.rows, rows, assume_unique=True)
            tasks.append((estimator, (environment.name, "fold", number), rest, settings, seeding))
    fitted = iter(run_each(_fit_judge, training, tasks, settings.n_jobs))
    log.info("stage 1: %d fits for %d environments", len(tasks), len(environments))
    return tuple(
        Judge(environment, next(fitted), tuple(next(fitted) for _ in held_out), held_out)
        for environment, held_out in zip(environments, fold_rows, strict=True)
    )


def fit_folds(
    estimator: Estimator,
    tables: Sequence[TrainingRows],
    folds: NDArray[np.intp],
    settings: JudgeSettings,
    seeding: Seeding,
) -> tuple[list[tuple[Any, ...]], tuple[Rows, ...]]:
    """Fit one copy of `estimator` on all rows outside each fold; return the fits and the rows of each fold.

    The tables have the same rows, with other columns: there is a tuple of fits for each of them.
    """
    parts = fold_parts(np.arange(len(folds)), folds)
    rest = [rows_without(part, len(folds)) for part in parts]
    tasks = [
        (table, estimator, number, rows, settings, seeding)
        for table in range(len(tables))
        for number, rows in enumerate(rest)
    ]
    models = run_each(_fit_pooled, tuple(tables), tasks, settings.n_jobs)
    return [tuple(models[table * len(parts) : (table + 1) * len(parts)]) for table in range(len(tables))], parts


def _fit_pooled(
    tables: tuple[TrainingRows, ...],
    table: int,
    estimator: Estimator,
    number: int,
    rows: Rows,
    settings: JudgeSettings,
    seeding: Seeding,
) -> Any:
    """Fit on some rows of all environments."""
    training = tables[table]
    start = None if training.sample_weight is not None else logistic_start(settings.start, training.X)
    quick = None if start is None else fit_part(start, estimator, training.X, training.y, rows)
    if quick is not None:  # the fit of a logistic regression, from that of all rows
        return quick
    estimator = seeded_clone(estimator, seeding, "pooled", number)
    weights = training.sample_weight if sample_weight_name(estimator) is not None else None
    return fit_rows(estimator, training.X, training.y, rows, None if weights is None else weights[rows])


def _fit_judge(
    training: TrainingRows,
    estimator: Estimator,
    names: tuple[object, ...],
    own_rows: Rows,
    settings: JudgeSettings,
    seeding: Seeding,
) -> Any:
    """Fit on some rows of one environment; a network is told the others, by which its epoch can be selected."""
    estimator = seeded_clone(estimator, seeding, "stage 1", *names)
    own = Group(" ".join(map(str, names)), own_rows).weighted(training.sample_weight)
    X, y = training.X, training.y
    labels = y[own.rows]
    if is_mapped(X) and own.weights is None and _has_all_codes(labels):
        from holdfast.interpolation.convex.solver import solve_convex, supports_convex

        if supports_convex(estimator):  # one group of all rows is the estimator's own problem
            n_classes = int(labels.max()) + 1 if labels.dtype.kind == "i" else None
            everything = [Group(own.name, np.arange(len(own)))]
            rows = TrainingRows(MappedRows(X, own.rows), labels, ())
            return solve_convex(estimator, rows, everything, n_classes=n_classes).estimator
    if not is_network(estimator) or (labels == labels[0]).all():
        return fit_rows(estimator, X, y, own.rows, own.weights)
    from holdfast.interpolation.gradient import NetworkFit, fit_network

    fit = NetworkFit(objective="erm", selection=settings.selection, stage=f"stage 1: {own.name}")
    return fit_network(estimator, training, [own], seeding, fit)


def warn_of_empty_columns(training: TrainingRows, consequence: str) -> None:
    """Say which columns have no value in which environments, and what follows."""
    found: dict[str, list[str]] = {}
    for environment in () if is_mapped(training.X) else training.environments:
        for column in empty_columns(take_rows(training.X, environment.rows), training.names):
            found.setdefault(column, []).append(environment.name)
    if found:
        said = listed([f"{column} in {listed(names, most=3)}" for column, names in found.items()], most=5)
        warn(
            f"No value of {said}: {consequence}. Leave the column out if it is missing in most environments.",
            EmptyColumnWarning,
        )


def _has_all_codes(labels: NDArray[Any]) -> bool:
    """Return whether codes are 0 to some largest one, at least two, without a gap; numbers are no codes."""
    return labels.dtype.kind != "i" or (labels.max() > 0 and bool(np.bincount(labels).all()))


def _warn_of_missing_labels(y: NDArray[np.intp], environments: Sequence[Environment], classes: NDArray[Any]) -> None:
    """Say which environments cannot teach their judge every label."""
    single, partial = [], []
    for environment in environments:
        seen = np.unique(y[environment.rows])
        if len(seen) == 1:
            single.append(f"{environment.name} (only {classes[seen[0]]})")
        elif len(seen) < len(classes):
            unseen = ", ".join(str(classes[code]) for code in np.setdiff1d(np.arange(len(classes)), seen))
            partial.append(f"{environment.name} (never {unseen})")
    if single:
        warn(
            f"There is only one class in {listed(single)}. The classifier of such an environment is constant, and its "
            "halves are the classes. Merge the environment with another one if that is not what you want.",
            SingleClassEnvironmentWarning,
        )
    if partial:
        warn(
            f"Some classes are missing in {listed(partial)}. The classifier of the environment never predicts them.",
            UnseenLabelWarning,
        )
