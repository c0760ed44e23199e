"""The hard max: only the worst group's risk is differentiated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from holdfast.environments import Weights
from holdfast.exceptions import ParameterError
from holdfast.networks import has_batch_statistics
from holdfast.objectives.base import Objective, ObjectiveRun, Problem, StepReport


@dataclass(frozen=True)
class WorstGroup(Objective):
    """max_g (R_g + C/√n_g): every group's batch risk is computed each step, the gradient is the largest one's.

    A step's cost grows with the number of groups, since the maximum needs every risk; `OnlineGroups` does not.

    Parameters
    ----------
    adjustment : float, default=0.0
        C of Sagawa et al. (2020): small groups, whose training risk flatters, compete with a handicap.
    """

    name: ClassVar[str] = "max"
    training_score: ClassVar[Literal["worst", "mean"]] = "worst"
    adjustment: float = 0.0

    def __post_init__(self) -> None:
        if self.adjustment < 0:
            raise ParameterError(f"The 'adjustment' must not be negative. Got {self.adjustment!r} instead.")

    def start(self, problem: Problem) -> ObjectiveRun:
        """Begin a training run."""
        return _WorstGroupRun(self, problem)


class _WorstGroupRun(ObjectiveRun):
    """One graph for each group, of which only the worst so far is kept: memory does not grow with the groups."""

    def __init__(self, objective: WorstGroup, problem: Problem) -> None:
        super().__init__(objective, problem)
        sizes = np.array([group.effective_size() for group in problem.groups])
        self._handicaps: list[float] = (objective.adjustment / np.sqrt(sizes)).tolist()
        # Batch normalization needs the statistics of all groups together, hence one graph through all of them.
        self._together = has_batch_statistics(problem.network)

    def backward(self, step: int) -> StepReport:
        """Differentiate the worst group's risk."""
        return self._backward_together() if self._together else self._backward_alone()

    def _backward_alone(self) -> StepReport:
        """Run the groups one by one, keep the worst one's graph, go back through that alone."""
        worst, highest, worst_risk = 0, -np.inf, torch.zeros(())
        risks, scores = [], []
        for group, handicap in enumerate(self._handicaps):
            outcome = self.problem.assess(self.problem.batches.draw([group]))
            risk = outcome.risks[0]
            value = risk.item() + handicap
            # "not <=" rather than ">": a NaN becomes the worst, and the loop refuses it by name.
            if not value <= highest:
                worst, highest, worst_risk = group, value, risk
            risks.append(risk.detach())
            scores.append(self.problem.scores(outcome))
        worst_risk.backward()
        return self.report(worst_risk, range(len(risks)), torch.stack(risks), torch.cat(scores), worst)

    def _backward_together(self) -> StepReport:
        """Run all groups in one batch and go back from the worst risk."""
        groups = range(len(self._handicaps))
        outcome = self.problem.assess(self.problem.batches.draw(groups))
        handicaps = torch.as_tensor(self._handicaps, dtype=outcome.risks.dtype, device=outcome.risks.device)
        worst = int((outcome.risks + handicaps).argmax())
        outcome.risks[worst].backward()
        return self.report(outcome.risks[worst], groups, outcome.risks, self.problem.scores(outcome), worst)

    def mixture(self) -> Weights:
        """Return how often each group was the worst."""
        total = self._n_worst.sum()
        return self._n_worst / total if total else super().mixture()
