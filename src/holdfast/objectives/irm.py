"""IRM: the environments' mean risk plus a penalty that vanishes where one classifier suits every environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.objectives.base import Outcome, PenalizedObjective
from holdfast.risks import irm_penalty


@dataclass(frozen=True)
class IRM(PenalizedObjective):
    """(1/n)·Σ_e (R_e + w·D_e²), D_e being the derivative of R_e along a dummy scale of the logits.

    Parameters
    ----------
    weight : float, default=1.0
        Penalty weight w after the warm-up; before it the weight is 1. The whole is divided by w where w is above 1.
    warm_up : int, default=0
        Number of steps of the warm-up ("anneal" in the literature).
    variant : {"squared", "unbiased"}, default="squared"
        See `holdfast.risks.irm_penalty`.
    """

    name: ClassVar[str] = "irm"
    variant: Literal["squared", "unbiased"] = "squared"

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the penalized mean risk."""
        environments = zip(
            outcome.parts(outcome.logits), outcome.parts(outcome.batch.targets), outcome.weights(), strict=True
        )
        penalties = [
            irm_penalty(logits, targets, loss=outcome.loss, weights=weights, variant=self.variant)
            for logits, targets, weights in environments
        ]
        return self.penalized(outcome.risks.mean(), torch.stack(penalties).mean(), step)
