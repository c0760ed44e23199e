"""V-REx: the environments' mean risk plus the variance of their risks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.objectives.base import Outcome, PenalizedObjective
from holdfast.risks import risk_variance


@dataclass(frozen=True)
class VREx(PenalizedObjective):
    """(1/n)·Σ_e R_e + w·Var_e(R_e).

    Parameters
    ----------
    weight : float, default=1.0
        Penalty weight w after the warm-up; before it the weight is 1. The whole is divided by w where w is above 1.
    warm_up : int, default=0
        Number of steps of the warm-up.
    """

    name: ClassVar[str] = "vrex"

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the penalized mean risk."""
        return self.penalized(outcome.risks.mean(), risk_variance(outcome.risks), step)
