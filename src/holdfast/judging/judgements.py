"""Stage 1: the predictions of every judge for the rows that it was not fitted on.

The halves of stage 2, the comparison of methods and the report are made from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, Weights
from holdfast.fitting.calibration import calibrate, class_scores
from holdfast.fitting.estimators import has_probabilities
from holdfast.fitting.kinds import Estimator
from holdfast.judging.judges import Judge, JudgeSettings, deal_folds, fit_judges
from holdfast.rows.mapped import parts_of
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judgements:
    """The answers of one judge for each environment about every row.

    A judge's own rows are answered out of fold. What a judge cannot say is -1 (codes) or NaN (numbers): without folds
    it says nothing about its own rows.
    """

    judges: tuple[Judge, ...]
    predictions: NDArray[Any]  # (n_judges, n_rows) class codes, or numbers for regression
    scores: Array | None = None  # (n_judges, n_rows, n_classes) calibrated log-probabilities; None for hard halves
    folds: NDArray[np.intp] | None = None  # (n_rows,) the fold in which each row was held out

    @property
    def environments(self) -> tuple[Environment, ...]:
        """The environments, in the order of the judges."""
        return tuple(judge.environment for judge in self.judges)

    @property
    def probabilities(self) -> Array:
        """Calibrated class probabilities, (n_judges, n_rows, n_classes)."""
        assert self.scores is not None, "these judgements were made for hard halves"
        return np.asarray(np.exp(self.scores))


def judge_environments(
    estimator: Estimator,
    training: TrainingRows,
    settings: JudgeSettings,
    seeding: Seeding,
    *,
    classes: NDArray[Any] | None,
    probabilities: bool = False,
) -> Judgements:
    """Fit one judge for each environment, and ask each about every row that it was not fitted on.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted; it is cloned.
    training : TrainingRows
    settings : JudgeSettings
    seeding : Seeding
    classes : array of shape (n_classes,), or None
        The labels behind the codes; None for regression.
    probabilities : bool
        Whether calibrated probabilities are asked for, and not predictions alone.
    """
    folds = deal_folds(training, settings.n_folds)
    judges = fit_judges(estimator, training, settings, seeding, classes=classes, folds=folds)
    n_classes = 0 if classes is None else len(classes)
    scores = ask_for_scores(judges, training, n_classes) if probabilities else None
    predictions = ask_for_predictions(judges, training) if scores is None else _most_probable(scores)
    return Judgements(judges, predictions, scores, folds)


def accuracy_matrix(
    predictions: NDArray[np.intp],
    y: NDArray[np.intp],
    environments: Sequence[Environment],
    sample_weight: Weights | None,
) -> NDArray[np.float64]:
    """Return alpha, the accuracy of each judge (row) in each judged environment (column), its own out of fold."""
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    matrix = np.full((len(environments), len(environments)), np.nan)
    for column, judged in enumerate(environments):
        rows = judged.rows
        right = predictions[:, rows] == y[rows]  # (n_judges, n_rows)
        known = (predictions[:, rows] >= 0) * weights[rows]
        total = known.sum(axis=1)
        np.divide((right * known).sum(axis=1), total, out=matrix[:, column], where=total > 0)
    return matrix


def ask_for_predictions(judges: tuple[Judge, ...], training: TrainingRows) -> NDArray[Any]:
    """Return what each judge predicts for each row, shape (n_judges, n_rows), of the type of the targets."""
    y = training.y
    predictions = np.full((len(judges), len(y)), -1 if y.dtype.kind == "i" else np.nan, dtype=y.dtype)
    for number, judge in enumerate(judges):
        for model, rows in judge.unseen_rows(len(y)):
            for own, part in parts_of(training.X, rows):
                predictions[number, own] = np.asarray(model.predict(part)).ravel()  # CatBoost gives a column
    return predictions


def _most_probable(scores: Array) -> NDArray[np.intp]:
    """Return the most probable code of each row for each judge, -1 where it says nothing."""
    most = scores[..., 1] > scores[..., 0] if scores.shape[-1] == 2 else scores.argmax(axis=-1)
    return np.where(np.isnan(scores[..., 0]), -1, most)


def ask_for_scores(judges: tuple[Judge, ...], training: TrainingRows, n_classes: int) -> Array:
    """Return each judge's calibrated log-probabilities of each row, (n_judges, n_rows, n_classes).

    The answers about a judge's own rows, out of fold, calibrate what it says about the others: a classifier that
    memorizes its rows is near certain of everything, and one without probabilities only has scores. Without folds a
    judge's own rows are NaN, and what it says about the others is not calibrated.
    """
    scores = np.full((len(judges), training.n_rows, n_classes), np.nan)
    for number, judge in enumerate(judges):
        for model, rows in judge.unseen_rows(training.n_rows):
            for own, part in parts_of(training.X, rows):
                scores[number, own] = class_scores(model, part, n_classes)
    return np.stack([_calibrated(judge, answer, training) for judge, answer in zip(judges, scores, strict=True)])


def _calibrated(judge: Judge, scores: Array, training: TrainingRows) -> Array:
    """Return the answers of a judge, (n_rows, n_classes), calibrated on those about its own rows."""
    own = judge.environment.rows
    known = own[~np.isnan(scores[own, 0])]
    if not len(known):
        return scores
    offsets = not all(has_probabilities(model) for model, _ in judge.unseen_rows(training.n_rows))
    weights = None if training.sample_weight is None else training.sample_weight[known]
    return calibrate(scores[known], training.y[known], weights, offsets=offsets).log_probabilities(scores)
