"""Stage 1, predict: one classifier for each environment, and what each says about every row it was not fitted on."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from holdfast.environments import Environment, Group, Rows, Weights, listed
from holdfast.exceptions import SingleClassEnvironmentWarning, UnseenLabelWarning
from holdfast.judging.calibration import Calibration, calibrate, class_scores
from holdfast.learners import fit_rows, last_step, seeded_clone
from holdfast.rows import MappedRows, answers, is_mapped
from holdfast.seeding import Seeding

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class EnvironmentClassifier:
    """A classifier fitted on one environment alone, and the folds that judge its own rows."""

    environment: Environment
    estimator: Any  # fitted on all rows of the environment
    fold_estimators: tuple[Any, ...] = ()  # each fitted on the rows outside its fold
    fold_rows: tuple[Rows, ...] = ()  # rows of each fold


def fit_environment_classifiers(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    environments: Sequence[Environment],
    *,
    classes: NDArray[Any] | None,
    seeding: Seeding,
    sample_weight: Weights | None = None,
    n_folds: int = 0,
    folds: NDArray[np.intp] | None = None,
    selection: str | None = None,
    n_jobs: int | None = None,
) -> tuple[EnvironmentClassifier, ...]:
    """Fit one copy of `estimator` on each environment.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Unfitted; it is cloned.
    X, y : rows and class codes, or targets, of shape (n_rows,)
    environments : sequence of Environment
    classes : array of shape (n_classes,), or None
        The labels behind the codes, for messages; None for targets.
    seeding : Seeding
        Every fit draws from a stream named after its environment, so that adding an environment changes no other's.
    sample_weight : array of shape (n_rows,), optional
    n_folds : int
        With at least 2, each environment is also fitted that many times without a fold of its own rows, so that its
        own rows can be predicted out of fold.
    folds : array of shape (n_rows,), optional
        Fold number of each row (rows of one patient stay together); overrides how rows are dealt to the folds.
    selection : str, optional
        For networks: the rule that selects a judge's epoch.
    n_jobs : int, optional
        Fits that run at the same time.
    """
    if classes is not None:
        _warn_of_missing_labels(y, environments, classes)
    tasks: list[tuple[Rows, tuple[object, ...]]] = []
    fold_rows: list[tuple[Rows, ...]] = []
    for environment in environments:
        tasks.append((environment.rows, (environment.name,)))
        held_out = deal_folds(environment.rows, y, n_folds, folds, seeding.generator("folds", environment.name))
        fold_rows.append(held_out)
        tasks.extend(
            (np.setdiff1d(environment.rows, rows, assume_unique=True), (environment.name, "fold", number))
            for number, rows in enumerate(held_out)
        )
    fitted = iter(
        Parallel(n_jobs=n_jobs)(
            delayed(_fit_judge)(
                seeded_clone(estimator, seeding, "stage 1", *names),
                X,
                y,
                Group(" ".join(map(str, names)), rows).weighted(sample_weight),
                environments,
                selection,
                seeding,
            )
            for rows, names in tasks
        )
    )
    log.info("stage 1: %d fits for %d environments", len(tasks), len(environments))
    return tuple(
        EnvironmentClassifier(environment, next(fitted), tuple(next(fitted) for _ in held_out), held_out)
        for environment, held_out in zip(environments, fold_rows, strict=True)
    )


def _fit_judge(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    own: Group,
    environments: Sequence[Environment],
    selection: str | None,
    seeding: Seeding,
) -> Any:
    """Fit on some rows of one environment; a network is told the others, by which its epoch can be selected."""
    labels = y[own.rows]
    if is_mapped(X) and own.weights is None and _has_all_codes(labels):
        from holdfast.interpolation.convex.solver import solve_convex, supports_convex

        if supports_convex(estimator):  # one group of all rows is the estimator's own problem
            n_classes = int(labels.max()) + 1 if labels.dtype.kind == "i" else None
            everything = [Group(own.name, np.arange(len(own)))]
            return solve_convex(estimator, MappedRows(X, own.rows), labels, everything, n_classes=n_classes).estimator
    if not hasattr(last_step(estimator), "fit_groups") or (labels == labels[0]).all():
        return fit_rows(estimator, X, y, own.rows, own.weights)
    from holdfast.interpolation.gradient import solve_gradient

    options: dict[str, Any] = {"objective": "erm", "environments": environments, "selection": selection}
    return solve_gradient(estimator, X, y, [own], seeding=seeding, stage=f"stage 1: {own.name}", **options).estimator


def _has_all_codes(labels: NDArray[Any]) -> bool:
    """Return whether codes are 0 to some largest one, at least two, without a gap; numbers are no codes."""
    return labels.dtype.kind != "i" or (labels.max() > 0 and bool(np.bincount(labels).all()))


def deal_folds(
    rows: Rows, y: NDArray[Any], n_folds: int, folds: NDArray[np.intp] | None, generator: np.random.Generator
) -> tuple[Rows, ...]:
    """Return disjoint folds of `rows`: as given, or dealt at random with the labels (or targets) spread evenly."""
    if n_folds < 2 or len(rows) < 2:
        return ()
    if folds is None:
        shuffled = generator.permutation(rows)
        by_label = shuffled[np.argsort(y[shuffled], kind="stable")]
        number = np.arange(len(rows)) % min(n_folds, len(rows))
        parts = [np.sort(by_label[number == fold]) for fold in range(number.max() + 1)]
    else:
        parts = [rows[folds[rows] == fold] for fold in np.unique(folds[rows])]
    return tuple(parts) if len(parts) > 1 else ()


def cross_predict(classifiers: Sequence[EnvironmentClassifier], X: Any, y: NDArray[Any]) -> NDArray[Any]:
    """Return what each judge predicts for each row, shape (n_judges, n_rows), of the type of the targets `y`.

    A judge's own rows are predicted out of fold, or -1 (codes) and NaN (numbers) where it has no folds.
    """
    n_rows, unknown = len(y), -1 if y.dtype.kind == "i" else np.nan
    predictions = np.full((len(classifiers), n_rows), unknown, dtype=y.dtype)
    for judge, classifier in enumerate(classifiers):
        for estimator, rows in _unseen_rows(classifier, n_rows):
            predictions[judge, rows] = answers(estimator.predict, X, rows)
    return predictions


def cross_probabilities(
    classifiers: Sequence[EnvironmentClassifier],
    X: Any,
    y: NDArray[np.intp],
    n_classes: int,
    *,
    sample_weight: Weights | None = None,
) -> tuple[NDArray[np.float64], tuple[Calibration, ...]]:
    """Return each judge's calibrated class probabilities for each row, (n_judges, n_rows, n_classes), and the maps.

    A judge's own rows are predicted out of fold, and these answers calibrate what it says about the others: a
    classifier that memorizes is near certain of everything otherwise, and one without probabilities only has scores.
    Without folds its own rows are NaN, and what it says is not calibrated.
    """
    n_rows = len(y)
    probabilities = np.full((len(classifiers), n_rows, n_classes), np.nan)
    calibrations = []
    for judge, classifier in enumerate(classifiers):
        scores = np.full((n_rows, n_classes), np.nan)
        for estimator, rows in _unseen_rows(classifier, n_rows):
            scores[rows] = answers(partial(class_scores, estimator, n_classes=n_classes), X, rows)
        own = classifier.environment.rows[~np.isnan(scores[classifier.environment.rows, 0])]
        calibration = Calibration(1.0, np.zeros(n_classes))
        if len(own):
            offsets = not hasattr(classifier.estimator, "predict_proba")
            weights = None if sample_weight is None else sample_weight[own]
            calibration = calibrate(scores[own], y[own], weights, offsets=offsets)
        known = ~np.isnan(scores[:, 0])
        probabilities[judge, known] = calibration.probabilities(scores[known])
        calibrations.append(calibration)
    return probabilities, tuple(calibrations)


def _unseen_rows(classifier: EnvironmentClassifier, n_rows: int) -> list[tuple[Any, Rows]]:
    """Return which fitted estimator of a judge may speak about which rows."""
    others = np.ones(n_rows, dtype=bool)
    others[classifier.environment.rows] = False
    pairs = [(classifier.estimator, np.flatnonzero(others))]
    pairs.extend(zip(classifier.fold_estimators, classifier.fold_rows, strict=True))
    return [(estimator, rows) for estimator, rows in pairs if len(rows)]


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
        warnings.warn(
            f"{listed(single)}: one class only, so the classifier of such an environment is that constant and its "
            "halves are the label groups. Merge the environment with another one if that is not what you want.",
            SingleClassEnvironmentWarning,
            stacklevel=4,
        )
    if partial:
        warnings.warn(
            f"{listed(partial)}: some labels are unseen there, so the judge is always mistaken about them.",
            UnseenLabelWarning,
            stacklevel=4,
        )
