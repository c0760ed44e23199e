"""Empirical risk minimization: the ordinary fit on all rows, and the baseline of every comparison."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from holdfast.environments import PerRow
from holdfast.estimators.base import MethodClassifier, check_choice, fit_erm
from holdfast.fitting.kinds import Estimator
from holdfast.seeding import RandomState, Seeding


@dataclass(eq=False, repr=False)
class ERMClassifier(MethodClassifier):
    """Fit one estimator on the rows of all environments together.

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
        None: columns scaled to unit variance, then a logistic regression.
    weighting : "pooled" or "environments"
        Every row counts the same, or every environment does (the paper's code averages the environments' losses).
    selection : str or None
        For networks: the rule that selects the epoch.
    random_state : int or None
        Seed of the estimator if its own `random_state` is None.

    Attributes
    ----------
    estimator_ : fitted estimator over class codes
    classes_ : labels
    environments_ : environment labels
    history_ : list of dict, one for each epoch of a network

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = ERMClassifier()
    >>> _ = model.fit(toy.train.X, toy.train.y)
    >>> float(model.score(toy.test.X, toy.test.y))
    0.5
    """

    estimator: Estimator | None = None
    _: KW_ONLY
    weighting: Literal["pooled", "environments"] = "pooled"
    selection: str | None = None
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: PerRow = None,
        *,
        environments: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
    ) -> Self:
        """Fit on all rows.

        Parameters
        ----------
        X, y, sample_weight, validation
            As for `PIClassifier.fit`.
        environments : labels of shape (n_rows,), optional
            Only `weighting="environments"` uses them.
        """
        check_choice(self, "weighting", ("pooled", "environments"))
        training = self._read_training(X, y, environments, sample_weight=sample_weight)
        training, held_out = self._take_validation(training, validation)
        estimator = self._coded_estimator(training)
        self._check_network(estimator, held_out)
        fitted = fit_erm(
            estimator,
            training,
            Seeding(self.random_state),
            weighting=self.weighting,
            validation=held_out,
            selection=self.selection,
        )
        return self._keep_fitted(fitted, held_out)
