"""Predict, then extrapolate: from environments where a correlation is stronger to one where it is gone.

With z_e(x, c) = log P_e(c|x) of environment e's judge, whatever two environments share cancels in z_j − z_i, and what
is left is the unstable part. So L_a = mean_e z_e + a·sum_e v_e z_e, with sum_e v_e = 0, loses the unstable part at one
a, and there its risk is the same in every environment. Contrast and a are found by risks out of fold
(`holdfast.interpolation.invariant`); stage 1 is all the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from holdfast.estimators.base import StableClassifier, warn_single_environment
from holdfast.estimators.erm import fit_erm
from holdfast.estimators.pi import warn_of_prevalence
from holdfast.exceptions import ParameterError
from holdfast.interpolation.invariant import find_step, warn_of_verdict
from holdfast.judging.calibration import class_scores
from holdfast.judging.judgements import Evidence, environment_codes
from holdfast.judging.judges import cross_predict, cross_probabilities, fit_environment_classifiers
from holdfast.learners import last_step
from holdfast.partition import accuracy_matrix
from holdfast.rows import TrainingRows
from holdfast.seeding import RandomState, Seeding

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """A contrast of environments, and how far to go along it."""

    contrast: Array  # (n_environments,) v, sum zero, length one
    coefficient: float  # a, in standard deviations of the contrast's scores
    weights: Array  # (n_environments,) what each judge counts for in L_a
    risks: Array  # (n_environments,) there: class-balanced, out of fold
    mean_judge_risks: Array  # (n_environments,) at a = 0
    difference: float  # standard errors between the environments' risks at a = 0
    gain: float  # likelihood ratio of knowing the environment
    skill: float  # share of the mean judge's skill that is left


class ExtrapolatedClassifier(ClassifierMixin, BaseEstimator):
    """The environments' classifiers, joined at one point of the line through them.

    Parameters
    ----------
    estimators : list of fitted classifiers over codes
        One for each environment.
    scales, offsets : arrays of shape (n_environments,), (n_environments, n_classes)
        Their calibrations.
    weights : array of shape (n_environments,)
        What each judge's log-probabilities count for.
    scale, shift : float, array of shape (n_classes,)
        The calibration of the sum.
    """

    def __init__(
        self, estimators: list[Any], scales: Array, offsets: Array, weights: Array, scale: float, shift: Array
    ) -> None:
        self.estimators = estimators
        self.scales = scales
        self.offsets = offsets
        self.weights = weights
        self.scale = scale
        self.shift = shift

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(len(self.shift))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> ExtrapolatedClassifier:
        return self  # its parts are fitted; a clone of them would not be

    def fit(self, X: Any, y: Any) -> ExtrapolatedClassifier:
        """Return self: the parts are fitted already."""
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities, (n_rows, n_classes)."""
        total: Any = 0.0
        for estimator, scale, offsets, weight in zip(
            self.estimators, self.scales, self.offsets, self.weights, strict=True
        ):
            judged = log_softmax(scale * class_scores(estimator, X, len(self.shift)) + offsets, axis=1)
            total = total + weight * (judged - judged.mean(axis=1, keepdims=True))
        return np.asarray(np.exp(log_softmax(self.scale * total + self.shift, axis=1)))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable codes."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


class ExtrapolationClassifier(StableClassifier):
    """Extrapolate from the environments' own classifiers to where the unstable correlation is gone.

    Costs stage 1 only: one fit for each environment, and folds of it. Where the environments do not differ beyond
    noise, nothing is extrapolated: plain ERM, with a warning.

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
        None: columns scaled to unit variance, then a logistic regression. Without `predict_proba` its scores are
        calibrated.
    min_group_size : int
        Environments with fewer rows are merged, with a warning.
    n_folds : int
        Folds by which a judge's own rows are predicted, at least 2.
    n_jobs : int or None
        Fits that run at the same time.
    random_state : int or None

    Attributes
    ----------
    environments_, environment_classifiers_, accuracies_, classes_
        As for `PIClassifier`.
    extrapolation_ : Extrapolation or None
        Contrast, coefficient, risks and the evidence for it; None where plain ERM was fitted.
    estimator_ : fitted classifier over class codes
    """

    __metadata_request__fit = {"environments": True}  # scikit-learn reads this
    _judges = True

    def __init__(
        self,
        estimator: Any = None,
        *,
        min_group_size: int = 20,
        n_folds: int = 3,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.min_group_size = min_group_size
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        environments: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        folds: Any = None,
    ) -> ExtrapolationClassifier:
        """Fit the environments' classifiers and find how far to extrapolate.

        Parameters
        ----------
        X, y : rows and labels
        environments : labels of shape (n_rows,)
            None, or one label only: plain ERM, with a warning.
        sample_weight : array of shape (n_rows,), optional
        validation : (X, y) or (X, y, group_labels), optional
            Scored (`validation_score_`), never used.
        folds : labels of shape (n_rows,), optional
            Fold of each row, so that rows of one patient stay together.
        """
        if self.n_folds < 2:
            raise ParameterError(
                f"The 'n_folds' parameter of ExtrapolationClassifier must be at least 2. Got {self.n_folds!r} instead."
            )
        training = self._read_training(X, y, environments, sample_weight=sample_weight, folds=folds)
        held_out, seeding = self._read_validation(validation), Seeding(self.random_state)
        estimator = self._base_estimator(training.X)
        self.extrapolation_: Extrapolation | None = None
        if warn_single_environment(len(training.environments), type(self).__name__):
            self.environment_classifiers_: dict[Any, Any] = {}
            self.accuracies_ = np.full((1, 1), np.nan)
        else:
            training.check_folds()
            self._extrapolate(estimator, training, seeding)
        if self.extrapolation_ is None:
            self.estimator_ = fit_erm(estimator, training, seeding)
        self.history_ = getattr(last_step(self.estimator_), "history_", [])
        self._score_validation(held_out)
        return self

    def _extrapolate(self, estimator: Any, training: TrainingRows, seeding: Seeding) -> None:
        """Fit judges; join them where their out-of-fold risk is the same everywhere, if they differ at all."""
        judges = fit_environment_classifiers(
            estimator,
            training.X,
            training.y,
            training.environments,
            classes=self.classes_,
            seeding=seeding,
            sample_weight=training.sample_weight,
            n_folds=self.n_folds,
            folds=training.folds,
            n_jobs=self.n_jobs,
        )
        self.environment_classifiers_ = {judge.environment.label: judge.estimator for judge in judges}
        predictions = cross_predict(judges, training.X, training.y)
        self.accuracies_ = accuracy_matrix(predictions, training.y, training.environments, training.sample_weight)
        probabilities, calibrations = cross_probabilities(
            judges, training.X, training.y, len(self.classes_), sample_weight=training.sample_weight
        )
        warn_of_prevalence(training, self.classes_)
        judged = np.log(probabilities)  # (n_environments, n_rows, n_classes)
        step = find_step(
            Evidence(judged.mean(axis=0), judged, joint=False, are_probabilities=True),
            training.y,
            environment_codes(training.environments, training.n_rows),
            sample_weight=training.sample_weight,
            seeding=seeding,
        )
        if step.verdict != "moved":
            warn_of_verdict(step, training.environments)
            return
        weights = step.pooled_weight / len(judged) + step.judge_weights
        self.extrapolation_ = Extrapolation(
            step.contrast,
            step.size,
            weights,
            step.risks,
            step.pooled_risks,
            step.difference,
            step.gain,
            step.skill,
        )
        self.estimator_ = ExtrapolatedClassifier(
            [judge.estimator for judge in judges],
            np.array([calibration.scale for calibration in calibrations]),
            np.stack([calibration.offsets for calibration in calibrations]),
            weights,
            step.calibration.scale,
            step.calibration.offsets,
        )
