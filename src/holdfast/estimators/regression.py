"""Predict then Interpolate for regression: rows are cut by the squared error of each judge."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from holdfast.environments import Partition
from holdfast.estimators.base import MethodRegressor
from holdfast.estimators.pi import PredictThenInterpolate
from holdfast.exceptions import ParameterError
from holdfast.judging.judgements import Judgements
from holdfast.partition import error_matrix, partition_by_error, partition_by_likelihood
from holdfast.rows.training import TrainingRows


@dataclass(eq=False, repr=False)
class PIRegressor(PredictThenInterpolate, MethodRegressor):
    """Predict then Interpolate for regression: minimize the worst-group risk over halves of the environments.

    A row of a judged environment is correct if the judge's squared error is within a threshold. This works for an
    unstable predictor that is *wrong in some rows*, such as a copy of the target with errors. It helps little if the
    *slope* of a predictor changes between environments, because large errors then occur on both sides, and the halves
    do not have opposite correlations.

    Parameters
    ----------
    estimator : scikit-learn regressor or None
        None: columns scaled to unit variance, then a ridge regression.
    error_threshold : float or str
        The largest squared error of a correct row; or a share such as "75%": the rows of each judged environment with
        the smallest errors are correct.
    halves : "hard" or "soft"
        Hard: divided by the threshold. Soft: each row is in both halves, with the weights exp(-error²/2s²) and one
        minus it, where s² is the judge's out-of-fold squared error.
    solver, reweight_rounds, objective, selection, judge_selection, min_group_size, n_folds, n_jobs, random_state
        As for `PIClassifier`.

    Attributes
    ----------
    errors_ : array of shape (n_environments, n_environments)
        Mean squared error of each judge (row) in each environment (column); the diagonal is out of fold.
    environments_, environment_classifiers_, partitions_, groups_, group_risks_, worst_case_risk_, gap_, history_
        As for `PIClassifier`; risks are mean squared errors.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(200, 2)), np.repeat(["Boston", "Chicago"], 100)
    >>> y = 2 * X[:, 0] + np.where(site == "Boston", 1, -0.5) * X[:, 1]  # the second column turns
    >>> model = PIRegressor(random_state=0).fit(X, y, environments=site)
    >>> model.predict([[1.0, 0.0]]).round(2).tolist()
    [2.29]
    """

    _judge_scores = "errors_"

    _: KW_ONLY
    error_threshold: float | str = "75%"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._read_threshold()

    def _partition(self, judgements: Judgements, training: TrainingRows) -> tuple[Partition, ...]:
        """Cut every judged environment by the size of its judges' errors, and keep the mean errors."""
        rows = judgements.predictions, training.y, training.environments
        self.errors_ = error_matrix(*rows, training.sample_weight)
        if self.halves == "soft":
            return partition_by_likelihood(*rows, sample_weight=training.sample_weight)
        threshold, quantile = self._read_threshold()
        return partition_by_error(*rows, threshold=threshold, quantile=quantile, sample_weight=training.sample_weight)

    def _read_threshold(self) -> tuple[float | None, float]:
        """Return the threshold, or None and the share of rows that are correct."""
        given = self.error_threshold
        if isinstance(given, str):
            try:
                share = float(given.removesuffix("%")) / 100.0
            except ValueError:
                share = np.nan
            if given.endswith("%") and 0.0 < share < 1.0:
                return None, share
        elif isinstance(given, int | float | np.number) and np.isfinite(given) and given > 0:
            return float(given), np.nan
        raise ParameterError(
            "The 'error_threshold' parameter of PIRegressor must be a positive number (the largest squared error of a "
            f"correct row) or a share such as '75%'. Got {given!r} instead."
        )
