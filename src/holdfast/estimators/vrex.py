"""V-REx: risks that vary little between environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.estimators.environment_objective import EnvironmentObjectiveClassifier
from holdfast.seeding import RandomState

if TYPE_CHECKING:
    from holdfast.objectives import Objective


class VRExClassifier(EnvironmentObjectiveClassifier):
    """Mean risk of the environments plus the variance of their risks (Krueger et al., 2021).

    Parameters
    ----------
    estimator : NeuralClassifier, a Pipeline that ends in one, or None
        None: columns scaled to unit variance, then a small network.
    penalty_weight : float
        Weight of the variance after the warm-up; above 1 the whole loss is divided by it.
    warm_up : int
        Steps with a penalty weight of 1 before that.
    selection : str or None
        The rule that selects the epoch.
    random_state : int or None
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        penalty_weight: float = 100.0,
        warm_up: int = 100,
        selection: str | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.penalty_weight = penalty_weight
        self.warm_up = warm_up
        self.selection = selection
        self.random_state = random_state

    def _objective(self) -> Objective:
        from holdfast.objectives import VREx

        return VREx(weight=self.penalty_weight, warm_up=self.warm_up)
