"""Classifiers that see different columns, mixed: how much of an effect is used is a weight, for any estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from holdfast.interpolation.removal import Removal
from holdfast.judging.calibration import Calibration, class_scores

Array = NDArray[np.float64]


class MixedClassifier(ClassifierMixin, BaseEstimator):
    """Fitted classifiers over class codes whose log-odds are added with weights.

    The first sees all columns; each of the others does without some. A weight of one on the first is that classifier.

    Parameters
    ----------
    estimators : list of fitted classifiers
    removals : list of Removal
        What each of them does not see.
    weights : sequence of float
        They sum to one.
    calibration : Calibration
        From the mixed scores to probabilities.
    """

    def __init__(
        self, estimators: list[Any], removals: list[Removal], weights: Sequence[float], calibration: Calibration
    ) -> None:
        self.estimators = estimators
        self.removals = removals
        self.weights = weights
        self.calibration = calibration

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(len(self.calibration.offsets))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> MixedClassifier:
        """Return self: the parts are fitted already."""
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return calibrated probabilities, (n_rows, n_classes)."""
        n_classes = len(self.calibration.offsets)
        parts = [
            class_scores(estimator, removal.apply(X), n_classes)
            for estimator, removal in zip(self.estimators, self.removals, strict=True)
        ]
        return self.calibration.probabilities(mix_scores(parts, self.weights))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable codes."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


def mix_scores(parts: Sequence[Array] | Array, weights: Sequence[float]) -> Array:
    """Return the weighted sum of (n_rows, n_classes) scores, each centered over the classes.

    Examples
    --------
    >>> mix_scores([np.array([[0.0, 2.0]]), np.array([[0.0, 0.0]])], [0.5, 0.5]).tolist()
    [[-0.5, 0.5]]
    """
    mixed = np.zeros_like(parts[0])
    for part, weight in zip(parts, weights, strict=True):
        mixed += weight * (part - part.mean(axis=1, keepdims=True))
    return mixed
