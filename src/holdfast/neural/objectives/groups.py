"""Objectives over the worst group: the hard maximum, and weights that follow the risks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.environments import Weights
from holdfast.exceptions import DivergedError, ParameterError
from holdfast.neural.distributed import all_sum
from holdfast.neural.networks import has_batch_statistics
from holdfast.neural.objectives.base import Objective, ObjectiveRun, Problem, StepReport


@dataclass(frozen=True)
class WorstGroup(Objective):
    """max_g (R_g + C/√n_g): every group's batch risk is computed each step, the gradient is the largest one's.

    A step's cost grows with the number of groups, since the maximum needs every risk; `OnlineGroups` does not. C is the
    adjustment of Sagawa et al. (2020): the training risk of small groups is too optimistic.
    """

    name: ClassVar[str] = "max"
    adds_up: ClassVar[bool] = True
    training_score: ClassVar[Literal["worst", "mean"]] = "worst"
    adjustment: float = 0.0  # C

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
        # Batch normalization needs the statistics of all groups together, so there is one graph through all of them.
        self._together = has_batch_statistics(problem.network)

    def backward(self, step: int) -> StepReport:
        """Differentiate the worst group's risk."""
        return self._backward_together() if self._together else self._backward_alone()

    def _backward_alone(self) -> StepReport:
        """Run the groups one by one, keep the graph of the worst, and differentiate that one."""
        worst, highest, worst_risk = 0, -np.inf, torch.zeros(())
        risks, scores = [], []
        for group, handicap in enumerate(self._handicaps):
            outcome = self.problem.assess(self.problem.batches.draw([group]))
            risk = outcome.risks[0]
            value = risk.item() + handicap
            # "not <=" rather than ">": a NaN becomes the worst, and the loop reports it.
            if not value <= highest:
                worst, highest, worst_risk = group, value, risk
            risks.append(risk.detach())
            scores.append(self.problem.scores(outcome))
        worst_risk.backward()
        return self.report(worst_risk, range(len(risks)), torch.stack(risks), torch.cat(scores), worst)

    def _backward_together(self) -> StepReport:
        """Run all groups in one batch and differentiate the worst risk."""
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


class OnlineGroupWeights:
    """Weights q on the simplex that move towards the groups with high risk: q_g ∝ q_g·exp(η·(R_g + C/√n_g)).

    Usable alone in any training loop: ``loss = weights(group_risks)`` updates q and returns Σ_g q_g·R_g.

    Parameters
    ----------
    group_sizes : sequence of float
        Number of training rows of each group, for the adjustment.
    step_size : float, default=0.01
        η, how fast weights follow the risks.
    adjustment : float, default=0.0
        C: the risk of each group counts as if it were C/√n_g higher, because that of small groups is too optimistic.

    Examples
    --------
    >>> weights = OnlineGroupWeights([10, 10], step_size=1.0)
    >>> loss = weights(torch.tensor([0.0, 1.0]))
    >>> weights.weights.round(4).tolist()  # 1/(1+e) and e/(1+e)
    [0.2689, 0.7311]
    """

    def __init__(self, group_sizes: Sequence[float], *, step_size: float = 0.01, adjustment: float = 0.0) -> None:
        sizes = np.asarray(group_sizes, dtype=np.float64)
        if sizes.ndim != 1 or len(sizes) == 0 or not (sizes > 0).all():
            raise ParameterError("The 'group_sizes' must be one positive number for each group.")
        if step_size <= 0 or adjustment < 0:
            raise ParameterError(
                f"The 'step_size' must be positive and the 'adjustment' not negative. "
                f"Got {step_size!r} and {adjustment!r} instead."
            )
        self.step_size = step_size
        self.handicaps = adjustment / np.sqrt(sizes)
        self._logs = np.zeros(len(sizes))

    @property
    def weights(self) -> Weights:
        """The current weights, (n_groups,) on the simplex."""
        exponentials = np.exp(self._logs - self._logs.max())
        return exponentials / exponentials.sum()  # type: ignore[no-any-return]

    def update(self, risks: NDArray[np.float64], groups: Sequence[int] | None = None) -> None:
        """Move the weights by the risks of all groups, or of those listed in `groups`."""
        if not np.isfinite(risks).all():
            raise DivergedError(f"A group risk is not finite: {risks.tolist()}. Lower the learning rate.")
        if groups is None:
            self._logs += self.step_size * (risks + self.handicaps)
        else:
            index = np.asarray(groups, dtype=np.intp)
            np.add.at(self._logs, index, self.step_size * (risks + self.handicaps[index]))
        self._logs -= self._logs.max()

    def __call__(self, group_risks: Tensor, groups: Sequence[int] | None = None) -> Tensor:
        """Update the weights by the risks and return Σ_g q_g·R_g, to be differentiated.

        Parameters
        ----------
        group_risks : Tensor of shape (n_groups,) or (len(groups),)
        groups : sequence of int, optional
            Which groups the risks belong to, where a batch does not have all of them.
        """
        self.update(group_risks.detach().double().cpu().numpy(), groups)
        weights = self.weights if groups is None else self.weights[np.asarray(groups, dtype=np.intp)]
        return torch.dot(torch.as_tensor(weights, dtype=group_risks.dtype, device=group_risks.device), group_risks)

    def state_dict(self) -> dict[str, Any]:
        """Return the weights' logarithms, as plain values."""
        return {"logs": self._logs.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self._logs = np.asarray(state["logs"], dtype=np.float64)


@dataclass(frozen=True)
class OnlineGroups(Objective):
    """Σ_g q_g·R_g with weights q that follow the risks; averaged over the steps it approaches the min–max value.

    Up to `groups_per_step` groups, every step draws a batch of each. With more, it draws as many rows in all from the
    mixture of the groups, so that a step costs the same for 4 groups and for 2,000 (see `_MixtureRun`).
    """

    name: ClassVar[str] = "online"
    adds_up: ClassVar[bool] = True
    training_score: ClassVar[Literal["worst", "mean"]] = "worst"
    step_size: float = 0.01  # how fast weights follow the risks
    adjustment: float = 0.0  # C of C/√n_g
    groups_per_step: int = 4  # a step touches at most this many times `batch_size` rows
    exploration: float = 0.1  # share of a mixture's rows that is spread evenly over all groups

    def __post_init__(self) -> None:
        if self.groups_per_step < 1 or not 0 < self.exploration < 1:
            raise ParameterError(
                "The 'groups_per_step' must be at least 1 and the 'exploration' between 0 and 1. "
                f"Got {self.groups_per_step!r} and {self.exploration!r} instead."
            )

    def start(self, problem: Problem) -> ObjectiveRun:
        """Begin a training run."""
        few = len(problem.groups) <= self.groups_per_step
        return _EveryGroupRun(self, problem) if few else _MixtureRun(self, problem)


class _EveryGroupRun(ObjectiveRun):
    """Every group in every step: the published algorithm."""

    def __init__(self, objective: OnlineGroups, problem: Problem) -> None:
        super().__init__(objective, problem)
        self._online = OnlineGroupWeights(
            [group.effective_size() for group in problem.groups],
            step_size=objective.step_size,
            adjustment=objective.adjustment,
        )
        self._sum = np.zeros(len(problem.groups))

    def backward(self, step: int) -> StepReport:
        """Move the weights by the risks, then differentiate the mixture."""
        batch = self.problem.batches.draw(range(len(self.problem.groups)))
        outcome = self.problem.assess(batch)
        finite = bool(torch.isfinite(outcome.risks).all())
        total = self._online(outcome.risks) if finite else outcome.risks.sum()  # the loop reports it
        total.backward()
        self._sum += self._online.weights
        return self.report(total, batch.groups, outcome.risks, self.problem.scores(outcome))

    def mixture(self) -> Weights:
        """Return the average weights of the steps so far."""
        total = self._sum.sum()
        return self._sum / total if total else self._online.weights

    def state_dict(self) -> dict[str, Any]:
        """Return the weights and their sum."""
        return {**super().state_dict(), "online": self._online.state_dict(), "sum": self._sum.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        super().load_state_dict(state)
        self._online.load_state_dict(state["online"])
        self._sum = np.asarray(state["sum"], dtype=np.float64)


class _MixtureRun(_EveryGroupRun):
    """A bounded number of rows from the mixture p = (1 − γ)·q + γ/G, for any number of groups.

    The gradient is that of (1/n)·Σ_rows (q_g/p_g)·loss, an unbiased estimate of Σ_g q_g·R_g. To move the weights,
    each group's risk is estimated as r_g + (n_g/E n_g)·(batch mean − r_g): r_g is the value remembered from earlier
    steps, and the correction, nonzero only for groups that were drawn, makes the estimate unbiased however old r_g is.
    """

    def __init__(self, objective: OnlineGroups, problem: Problem) -> None:
        super().__init__(objective, problem)
        self._exploration = objective.exploration
        self._n_rows = objective.groups_per_step * problem.batches.batch_size
        self._risks = np.full(len(problem.groups), np.nan)  # remembered; NaN before a group's first row
        self._scores = np.zeros(len(problem.groups))

    def backward(self, step: int) -> StepReport:
        """Draw rows from the mixture, differentiate, and move the weights."""
        weights = self._online.weights
        probabilities = (1 - self._exploration) * weights + self._exploration / len(weights)
        batch = self.problem.batches.draw_mixture(probabilities, self._n_rows)
        outcome = self.problem.assess(batch)
        groups, sizes = np.asarray(batch.groups, dtype=np.intp), np.asarray(batch.sizes, dtype=np.intp)
        ratios = (weights[groups] / probabilities[groups] / self._n_rows).astype(np.float32).repeat(sizes)  # (n_rows,)
        total = torch.dot(torch.from_numpy(ratios).to(outcome.losses.device), outcome.losses)
        if batch.totals is not None:
            total = all_sum(total)
        total.backward()
        scores = self.problem.score(outcome.logits.detach(), batch.targets)
        if batch.totals is None:
            counts = sizes
            seen = torch.stack([outcome.losses.detach(), scores]).double().cpu().numpy()  # (2, n_rows), one transfer
            starts = counts.cumsum() - counts  # a group's rows are adjacent
            risks, right = np.add.reduceat(seen, starts, axis=1) / counts  # (n_drawn_groups,) each
        else:
            counts = batch.totals.cpu().numpy()
            means = torch.stack([batch.means(outcome.losses.detach()), batch.means(scores)])
            risks, right = means.double().cpu().numpy()
        if np.isfinite(risks).all():  # else the loop reports the step
            self._move_weights(groups, risks, counts / (self._n_rows * probabilities[groups]))
            self._remember(groups, risks, right, counts)
        return self._report(total.item(), groups, risks)

    def _move_weights(self, groups: NDArray[np.intp], risks: Weights, ratios: Weights) -> None:
        """Move the weights by unbiased estimates of all risks: the remembered ones, corrected where rows were drawn."""
        unknown = float(risks.mean())  # for groups that no row was drawn of yet
        estimates = np.nan_to_num(self._risks, nan=unknown)
        estimates[groups] += ratios * (risks - estimates[groups])
        self._online.update(estimates)
        self._sum += self._online.weights

    def _remember(self, groups: NDArray[np.intp], risks: Weights, scores: Weights, counts: NDArray[np.intp]) -> None:
        """Move what is remembered of the drawn groups towards this step's means."""
        # A batch's worth of rows moves the memory half of the way; a first row is all there is.
        pace = np.where(np.isnan(self._risks[groups]), 1.0, counts / (counts + self.problem.batches.batch_size))
        self._risks[groups] = (1 - pace) * np.nan_to_num(self._risks[groups]) + pace * risks
        self._scores[groups] = (1 - pace) * self._scores[groups] + pace * scores

    def _report(self, total: float, groups: NDArray[np.intp], risks: Weights) -> StepReport:
        """Report this step's groups, and the worst by the remembered risks."""
        worst = int(np.nanargmax(self._risks)) if np.isfinite(risks).all() else int(groups[np.argmax(risks)])
        self._n_worst[worst] += 1
        scores = tuple(self._scores[groups].tolist())
        score = float(self._scores[worst])
        return StepReport(total, tuple(groups.tolist()), tuple(risks.tolist()), scores, worst, score)

    def state_dict(self) -> dict[str, Any]:
        """Return the weights and what is remembered of each group."""
        remembered = [None if np.isnan(risk) else risk for risk in self._risks.tolist()]
        return {**super().state_dict(), "risks": remembered, "scores": self._scores.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        super().load_state_dict(state)
        self._risks = np.array([np.nan if risk is None else risk for risk in state["risks"]], dtype=np.float64)
        self._scores = np.asarray(state["scores"], dtype=np.float64)
