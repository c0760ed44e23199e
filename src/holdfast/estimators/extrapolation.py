"""Predict, then extrapolate: from environments where a correlation is stronger to one where it is gone.

With z_e(x, c) = log P_e(c|x) − log P_e(c), the evidence that environment e's judge sees, whatever two environments
share cancels in z_j − z_i, and what is left is the unstable part. So L_a = mean_e z_e + a·sum_e v_e z_e, with v the
direction in which the environments differ most, loses the unstable part at one a, and there its risk is the same in
every environment. That a is found by risks out of fold; stage 1 is all the work.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from holdfast.calibration import Calibration, calibrate, class_scores
from holdfast.environments import Environment, Weights, listed
from holdfast.estimators.base import StableClassifier, warn_single_environment
from holdfast.estimators.erm import fit_erm
from holdfast.estimators.reading import TrainingRows
from holdfast.exceptions import IdenticalEnvironmentsWarning, ParameterError, PrevalenceWarning
from holdfast.fitting import last_step
from holdfast.seeding import RandomState, Seeding
from holdfast.stages.partition import accuracy_matrix
from holdfast.stages.predict import cross_predict, cross_probabilities, fit_environment_classifiers

Array = NDArray[np.float64]
SPREAD_WEIGHT = 150.0  # of the variance of the environments' risks beside their mean
LARGEST_STEP = 8.0  # in units of the direction's own spread: beyond, judges' noise is all that grows
SIGNIFICANT = 2.0  # standard errors between the environments' risks below which nothing is extrapolated
UNLIKE_PREVALENCE = 0.1


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """A direction over environments, and how far to go."""

    direction: Array  # (n_environments,) sum zero, in units of the direction's spread
    coefficient: float  # a
    mean_risk: float  # class-balanced, out of fold
    spread: float  # standard deviation of the environments' risks there
    evidence: float  # standard errors between the environments' risks without extrapolation


class ExtrapolatedClassifier(ClassifierMixin, BaseEstimator):
    """The environments' classifiers, joined at one point of the line through them.

    Parameters
    ----------
    estimators : list of fitted classifiers over codes
        One for each environment.
    scales, offsets : arrays of shape (n_environments,), (n_environments, n_classes)
        Their calibrations.
    log_shares : array of shape (n_environments, n_classes)
        Log class shares of the environments, taken out of the evidence.
    weights : array of shape (n_environments,)
        What each environment's evidence counts: 1/n + a·v_e.
    scale : float
        One over the temperature of the sum.
    log_prior : array of shape (n_classes,)
        Log class shares put back in.
    """

    def __init__(
        self,
        estimators: list[Any],
        scales: Array,
        offsets: Array,
        log_shares: Array,
        weights: Array,
        scale: float,
        log_prior: Array,
    ) -> None:
        self.estimators = estimators
        self.scales = scales
        self.offsets = offsets
        self.log_shares = log_shares
        self.weights = weights
        self.scale = scale
        self.log_prior = log_prior

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(len(self.log_prior))

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
        parts = zip(self.estimators, self.scales, self.offsets, self.log_shares, self.weights, strict=True)
        for estimator, scale, offsets, log_shares, weight in parts:
            scores = class_scores(estimator, X, len(self.log_prior))
            evidence = log_softmax(scale * scores + offsets, axis=1) - log_shares
            total = total + weight * (evidence - evidence.mean(axis=1, keepdims=True))
        return np.asarray(np.exp(log_softmax(self.scale * total + self.log_prior, axis=1)))

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
        Direction, coefficient, risk, spread and evidence; None where plain ERM was fitted.
    estimator_ : fitted classifier over class codes
    """

    __metadata_request__fit = {"environments": True}  # scikit-learn reads this

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
        log_shares = np.log(class_shares(training, len(self.classes_)))  # (n_environments, n_classes)
        warn_of_prevalence(np.exp(log_shares), training.environments, self.classes_)
        evidence = centered(np.log(probabilities) - log_shares[:, None, :])  # (n_environments, n_rows, n_classes)
        found = find_extrapolation(evidence, training.y, training.environments, training.sample_weight)
        if found.evidence < SIGNIFICANT:
            warnings.warn(
                f"the environments' risks differ by {found.evidence:.1f} standard errors: there is no evidence that "
                "anything changes between them, and plain ERM is fitted. More rows, or environments that differ more, "
                "would help.",
                IdenticalEnvironmentsWarning,
                stacklevel=4,
            )
            return
        n_environments = len(training.environments)
        weights = np.full(n_environments, 1.0 / n_environments) + found.coefficient * found.direction
        joined = np.einsum("e,enk->nk", weights, evidence)
        balanced = balanced_weights(training.y, training.environments, training.sample_weight, len(self.classes_))
        self.extrapolation_ = found
        self.estimator_ = ExtrapolatedClassifier(
            [judge.estimator for judge in judges],
            np.array([calibration.scale for calibration in calibrations]),
            np.stack([calibration.offsets for calibration in calibrations]),
            log_shares,
            weights,
            calibrate(joined, training.y, balanced).scale,
            np.log(np.exp(log_shares).mean(axis=0)),
        )


def find_extrapolation(
    evidence: Array, y: NDArray[np.intp], environments: Sequence[Environment], sample_weight: Weights | None = None
) -> Extrapolation:
    """Return how far to go along the environments' main difference for the same risk in all of them.

    `evidence` has shape (n_environments, n_rows, n_classes): centered log-probabilities without the class shares, of
    rows that the environment's judge was not fitted on. Risks are class-balanced, so that prevalence plays no part.
    """
    n_environments, _, n_classes = evidence.shape
    weights = balanced_weights(y, environments, sample_weight, n_classes)
    mean = evidence.mean(axis=0)
    deviations = evidence - mean
    moments = np.einsum("enk,fnk,n->ef", deviations, deviations, weights) / weights.sum()
    direction = np.linalg.eigh(moments)[1][:, -1]
    direction = direction - direction.mean()
    difference = np.einsum("e,enk->nk", direction, evidence)
    size = float(np.sqrt((weights[:, None] * difference**2).sum() / weights.sum()))
    if size < 1e-9:
        return Extrapolation(np.zeros(n_environments), 0.0, float("nan"), 0.0, 0.0)
    direction, difference = direction / size, difference / size
    risks, errors = _risks(mean, y, environments, weights)
    contrast = direction - direction.mean()
    evidence_at_zero = abs(contrast @ risks) / max(float(np.sqrt((contrast**2 * errors**2).sum())), 1e-12)
    tried = []
    for coefficient in np.linspace(-LARGEST_STEP, LARGEST_STEP, 65):
        risks, _ = _risks(mean + coefficient * difference, y, environments, weights)
        value = float(risks.mean() + SPREAD_WEIGHT * risks.var())
        tried.append((value, float(coefficient), float(risks.mean()), float(risks.std())))
    _, best, mean_risk, spread = min(tried)
    return Extrapolation(direction, best, mean_risk, spread, float(evidence_at_zero))


def _risks(
    scores: Array, y: NDArray[np.intp], environments: Sequence[Environment], weights: Weights
) -> tuple[Array, Array]:
    """Return each environment's class-balanced risk at the best common temperature, and its standard error."""
    calibration: Calibration = calibrate(scores, y, weights)
    losses = -log_softmax(calibration.scale * scores, axis=1)[np.arange(len(y)), y]
    risks, errors = [], []
    for environment in environments:
        share = weights[environment.rows] / weights[environment.rows].sum()
        risk = float(share @ losses[environment.rows])
        risks.append(risk)
        errors.append(float(np.sqrt((share**2) @ (losses[environment.rows] - risk) ** 2)))
    return np.array(risks), np.array(errors)


def centered(evidence: Array) -> Array:
    """Take the mean over classes out: only differences between classes are evidence."""
    return np.asarray(evidence - evidence.mean(axis=-1, keepdims=True))


def class_shares(training: TrainingRows, n_classes: int) -> Array:
    """Return the class shares of each environment, (n_environments, n_classes), none of them zero."""
    weights = np.ones(training.n_rows) if training.sample_weight is None else training.sample_weight
    counts = np.stack(
        [np.bincount(training.y[e.rows], weights[e.rows], minlength=n_classes) + 0.5 for e in training.environments]
    )
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def balanced_weights(
    y: NDArray[np.intp], environments: Sequence[Environment], sample_weight: Weights | None, n_classes: int
) -> Weights:
    """Return row weights under which every environment and every class in it counts the same."""
    weights = np.ones(len(y)) if sample_weight is None else sample_weight.astype(np.float64)
    result = np.zeros(len(y))
    for environment in environments:
        totals = np.bincount(y[environment.rows], weights[environment.rows], minlength=n_classes)
        result[environment.rows] = weights[environment.rows] / np.maximum(totals, 1e-12)[y[environment.rows]]
    return np.asarray(result * len(y) / result.sum())


def warn_of_prevalence(shares: Array, environments: Sequence[Environment], classes: NDArray[Any]) -> None:
    """Say where label frequencies differ much between environments."""
    unlike = [
        f"{classes[code]} ({shares[:, code].min():.0%} to {shares[:, code].max():.0%})"
        for code in range(len(classes))
        if np.ptp(shares[:, code]) > UNLIKE_PREVALENCE
    ]
    if unlike:
        warnings.warn(
            f"label frequencies differ between environments: {listed(unlike)}. Shares are taken out of the evidence "
            "and risks are balanced over classes; at a new environment probabilities assume the mean of the shares.",
            PrevalenceWarning,
            stacklevel=5,
        )
