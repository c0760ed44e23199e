"""Invariant risk minimization: the classifier on top should be optimal in every environment at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.estimators.environment_objective import EnvironmentObjectiveClassifier
from holdfast.seeding import RandomState

if TYPE_CHECKING:
    from holdfast.objectives import Objective


class IRMClassifier(EnvironmentObjectiveClassifier):
    """Mean risk of the environments plus the squared gradient on a dummy scale of the logits (Arjovsky et al., 2019).

    Parameters
    ----------
    estimator : NeuralClassifier, a Pipeline that ends in one, or None
        None: columns scaled to unit variance, then a small network.
    penalty_weight : float
        Weight of the penalty after the warm-up; above 1 the whole loss is divided by it.
    warm_up : int
        Steps with a penalty weight of 1 before that.
    variant : "squared" or "unbiased"
        The squared gradient of one batch, or the product of the gradients of its two halves, whose mean is the squared
        gradient of the whole environment.
    selection : str or None
        The rule that selects the epoch.
    random_state : int or None
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        penalty_weight: float = 1.0,
        warm_up: int = 100,
        variant: Literal["squared", "unbiased"] = "squared",
        selection: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.penalty_weight = penalty_weight
        self.warm_up = warm_up
        self.variant = variant
        self.selection = selection
        self.random_state = random_state

    def _objective(self) -> Objective:
        from holdfast.objectives import IRM

        return IRM(weight=self.penalty_weight, warm_up=self.warm_up, variant=self.variant)
