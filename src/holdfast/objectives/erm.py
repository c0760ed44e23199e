"""Average risks: ERM balanced over environments, pooled ERM, and the mean over groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from holdfast.environments import Group, Weights
from holdfast.objectives.base import Objective, ObjectiveRun, Outcome, Problem, StepReport


@dataclass(frozen=True)
class ERM(Objective):
    """(1/n)·Σ_e R_e, the mean of the environments' risks: every environment counts the same, whatever its size."""

    name: ClassVar[str] = "erm"

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the mean risk."""
        return outcome.risks.mean()


@dataclass(frozen=True)
class Balanced(ERM):
    """(1/G)·Σ_g R_g, the mean over the groups that a min–max would compare: the resampling without the max."""

    name: ClassVar[str] = "balanced"


@dataclass(frozen=True)
class PooledERM(Objective):
    """Σ_e (n_e/n)·R_e, the risk of all rows together: every row counts the same."""

    name: ClassVar[str] = "pooled"

    def start(self, problem: Problem) -> ObjectiveRun:
        """Begin a training run."""
        return _PooledRun(self, problem)


class _PooledRun(ObjectiveRun):
    """Draws from the groups in proportion to their rows: as many rows in all as ERM draws."""

    def __init__(self, objective: PooledERM, problem: Problem) -> None:
        super().__init__(objective, problem)
        sizes = np.array([_mass(group) for group in problem.groups])
        self._shares: Weights = sizes / sizes.sum()

    def backward(self, step: int) -> StepReport:
        """Differentiate the mean loss of rows drawn from the pool."""
        groups = self.problem.groups
        n_rows = sum(min(self.problem.batches.batch_size, len(group)) for group in groups)
        batch = self.problem.batches.draw_mixture(self._shares, n_rows)
        outcome = self.problem.assess(batch)
        total = outcome.losses.mean()
        total.backward()
        return self.report(total, batch.groups, outcome.risks, self.problem.scores(outcome))

    def mixture(self) -> Weights:
        """Return the groups' shares of the rows."""
        return self._shares


def _mass(group: Group) -> float:
    """Return the group's number of rows, or the sum of their weights."""
    return float(len(group)) if group.weights is None else float(group.weights.sum())
