"""Group-balanced ERM: an ordinary fit in which every group has the same weight."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from holdfast.environments import PerRow
from holdfast.estimators.base import MethodClassifier
from holdfast.estimators.group_dro import known_groups, large_groups
from holdfast.fitting.kinds import Estimator
from holdfast.interpolation.worst_case import minimize_mixture_risk
from holdfast.seeding import RandomState, Seeding


@dataclass(eq=False, repr=False)
class BalancedClassifier(MethodClassifier):
    """Fit one estimator with every group given the same weight.

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
    selection : str or None
        For networks: the rule that selects the epoch.
    min_group_size : int
        Smaller groups are dropped, with a warning.
    random_state : int or None

    Attributes
    ----------
    estimator_, groups_, classes_, environments_, history_

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = BalancedClassifier()
    >>> _ = model.fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> float(model.score(toy.test.X, toy.test.y))
    0.5
    """

    __metadata_request__fit = {"group_labels": True}  # scikit-learn reads this

    estimator: Estimator | None = None
    _: KW_ONLY
    selection: str | None = None
    min_group_size: int = 1
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: PerRow = None,
        *,
        environments: PerRow = None,
        group_labels: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
    ) -> Self:
        """Fit on the groups, environment × label or as given by `group_labels`."""
        training = self._read_training(X, y, environments, sample_weight=sample_weight, group_labels=group_labels)
        training, held_out = self._take_validation(training, validation)
        estimator = self._coded_estimator(training)
        self._check_network(estimator, held_out)
        groups = known_groups(training, self.classes_)
        self.groups_ = large_groups([g.weighted(training.sample_weight) for g in groups], self.min_group_size)
        fitted = minimize_mixture_risk(
            estimator,
            training,
            self.groups_,
            np.full(len(self.groups_), 1.0 / len(self.groups_)),
            Seeding(self.random_state),
            validation=held_out,
            selection=self.selection,
        )
        return self._keep_fitted(fitted, held_out)
