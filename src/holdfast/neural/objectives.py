"""Objectives of the training loop by name: worst group, online weights, IRM, V-REx, RGM.

Pass a name for the default settings, or an instance: ``objective="irm"`` or ``objective=IRM(weight=10, warm_up=100)``.
An `Objective` holds settings only and can be shared; ``start`` gives the `ObjectiveRun` of one training, which draws
its batches, differentiates, and keeps its own state. A new method without state is one class with ``combine``:

    @dataclass(frozen=True)
    class MeanPlusSpread(Objective):
        name = "mean_plus_spread"

        def combine(self, outcome, step):
            return outcome.risks.mean() + outcome.risks.std()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.environments import Group, Weights
from holdfast.exceptions import DivergedError, InputTypeError, ParameterError
from holdfast.neural.batches import Batch, GroupBatches
from holdfast.neural.distributed import all_sum
from holdfast.neural.networks import Network, as_logits, has_batch_statistics, run_network
from holdfast.neural.randomness import Dropout, borrowing
from holdfast.neural.risks import Loss, group_risk, irm_penalty, regret, risk_variance
from holdfast.seeding import Seeding


@dataclass(frozen=True, eq=False)
class Outcome:
    """A network's outputs on a batch, with their losses."""

    batch: Batch
    logits: Tensor  # (n_rows, n_classes)
    losses: Tensor  # (n_rows,)
    loss: Loss  # computed the losses from the logits
    features: Tensor  # (n_rows, n_features) the last hidden layer, if the objective needs it and the network has one

    @cached_property
    def risks(self) -> Tensor:
        """The risk of each group of the batch, (n_groups,)."""
        return self.batch.means(self.losses)

    def parts(self, values: Tensor) -> tuple[Tensor, ...]:
        """Split values of all rows into one tensor for each group."""
        return tuple(values.split(self.batch.sizes))

    def weights(self) -> tuple[Tensor | None, ...]:
        """Return each group's row weights, None where rows count the same."""
        return (None,) * len(self.batch.sizes) if self.batch.weights is None else self.parts(self.batch.weights)


@dataclass(frozen=True, eq=False)
class Problem:
    """What a training run is about: the network, its batches and its loss."""

    network: nn.Module
    batches: GroupBatches
    loss: Loss
    seeding: Seeding
    score: Callable[[Tensor, Tensor], Tensor]  # (n, n_classes) outputs, (n,) targets -> (n,) 1 where right
    autocast: Callable[[], AbstractContextManager[Any]]
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    n_outputs: int | None = None  # of the network; None: as many as it gives

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of the objective."""
        return self.batches.groups

    def assess(self, batch: Batch, *, with_features: bool = False) -> Outcome:
        """Run the network on a batch; losses are computed in float32 in every precision."""
        with self.autocast():
            if with_features and isinstance(self.network, Network) and isinstance(batch.inputs, Tensor):
                features = self.network.features(batch.inputs)
                logits = as_logits(self.network.classify(features), self.n_outputs)
            else:
                # Without features(), penalties act on the logits.
                logits = features = run_network(self.network, batch.inputs, self.n_outputs)
        logits, features = logits.float(), features.float()
        return Outcome(batch, logits, self.loss(logits, batch.targets), self.loss, features)

    def scores(self, outcome: Outcome) -> Tensor:
        """Return each group's batch accuracy (for regression minus its mean squared error), (n_groups,)."""
        with torch.no_grad():
            return outcome.batch.means(self.score(outcome.logits, outcome.batch.targets))


@dataclass(frozen=True)
class StepReport:
    """What one step saw."""

    loss: float  # the number that was differentiated
    groups: tuple[int, ...]  # groups with a fresh risk
    risks: tuple[float, ...]  # of those groups
    scores: tuple[float, ...]  # batch accuracies of those groups, dropout on
    worst: int  # the group with the largest risk
    worst_score: float  # its batch accuracy


class ObjectiveRun:
    """One training run of an objective; this one draws every group and differentiates ``combine``."""

    def __init__(self, objective: Objective, problem: Problem) -> None:
        self.objective = objective
        self.problem = problem
        self._n_worst = np.zeros(len(problem.groups))

    def backward(self, step: int) -> StepReport:
        """Draw a batch, put the objective's gradient into the network's parameters, and report the step."""
        batch = self.problem.batches.draw(range(len(self.problem.groups)))
        outcome = self.problem.assess(batch, with_features=self.objective.needs_features)
        total = self.objective.combine(outcome, step)
        total.backward()
        return self.report(total, batch.groups, outcome.risks, self.problem.scores(outcome))

    def report(
        self, total: Tensor, groups: Sequence[int], risks: Tensor, scores: Tensor, worst: int | None = None
    ) -> StepReport:
        """Bring a step's numbers to the host at once, and count the worst group: the given one, or the riskiest."""
        # One transfer for all numbers: each .item() would stop an accelerator.
        loss, *numbers = torch.cat([total.detach().reshape(1), risks.detach(), scores]).tolist()
        seen, right = numbers[: len(groups)], numbers[len(groups) :]
        place = int(np.argmax(seen)) if worst is None else groups.index(worst)
        self._n_worst[groups[place]] += 1
        return StepReport(loss, tuple(groups), tuple(seen), tuple(right), groups[place], right[place])

    def mixture(self) -> Weights:
        """Return the groups' weights in the training so far, (n_groups,) on the simplex."""
        return np.full(len(self._n_worst), 1 / len(self._n_worst))

    def state_dict(self) -> dict[str, Any]:
        """Return what must be kept to continue exactly: plain values and tensors."""
        return {"n_worst": self._n_worst.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self._n_worst = np.asarray(state["n_worst"], dtype=np.float64)


@dataclass(frozen=True)
class Objective:
    """Settings of a method's objective."""

    name: ClassVar[str] = ""
    # Which accuracy the rule min_train_validation sees: of the group with the largest risk, or the mean of all.
    training_score: ClassVar[Literal["worst", "mean"]] = "mean"
    needs_features: ClassVar[bool] = False
    # Whether rows matter through the groups' risks alone, so that several ranks can train together.
    adds_up: ClassVar[bool] = False

    def start(self, problem: Problem) -> ObjectiveRun:
        """Begin a training run."""
        return ObjectiveRun(self, problem)

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the scalar to differentiate, from the groups' risks at this step (counted from 0)."""
        raise NotImplementedError(f"{type(self).__name__} must define combine() or its own start().")


@dataclass(frozen=True)
class PenalizedObjective(Objective):
    """Mean risk plus a weighted penalty, with the warm-up and scaling that IRM, V-REx and RGM share.

    The penalty's weight w is 1 during the first `warm_up` steps ("anneal" in the literature) and `weight` afterwards;
    the whole loss is divided by w where that is above 1, so that the gradient keeps its size.
    """

    weight: float = 1.0
    warm_up: int = 0

    def __post_init__(self) -> None:
        if self.weight < 0 or self.warm_up < 0:
            raise ParameterError(
                f"The 'weight' and 'warm_up' of objective {self.name!r} must not be negative. "
                f"Got {self.weight!r} and {self.warm_up!r} instead."
            )

    def penalized(self, risk: Tensor, penalty: Tensor, step: int) -> Tensor:
        """Return (risk + w·penalty) / max(w, 1) with the weight w of this step."""
        weight = 1.0 if step < self.warm_up else self.weight
        return (risk + weight * penalty) / max(weight, 1.0)


@dataclass(frozen=True)
class ERM(Objective):
    """(1/n)·Σ_e R_e, the mean of the environments' risks: every environment counts the same, large or small."""

    name: ClassVar[str] = "erm"
    adds_up: ClassVar[bool] = True

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the mean risk."""
        return outcome.risks.mean()


@dataclass(frozen=True)
class Balanced(ERM):
    """(1/G)·Σ_g R_g, the mean over the groups that a min–max would compare: the resampling without the max."""

    name: ClassVar[str] = "balanced"


@dataclass(frozen=True)
class PooledERM(Objective):
    """Σ_e (n_e/n)·R_e, the risk of all rows together: every row counts the same, or by its weight."""

    name: ClassVar[str] = "pooled"
    adds_up: ClassVar[bool] = True
    n_batches: int | None = None  # times `batch_size` rows are drawn in a step; None: once for each group

    def start(self, problem: Problem) -> ObjectiveRun:
        """Begin a training run."""
        return _PooledRun(self, problem)


class _PooledRun(ObjectiveRun):
    """Draws from the groups in proportion to their rows; by default as many rows in all as ERM draws."""

    def __init__(self, objective: PooledERM, problem: Problem) -> None:
        super().__init__(objective, problem)
        sizes = np.array([len(group) if group.weights is None else group.weights.sum() for group in problem.groups])
        self._shares: Weights = sizes / sizes.sum()
        size = problem.batches.batch_size
        each = sum(min(size, len(group)) for group in problem.groups)
        self._n_rows = each if objective.n_batches is None else objective.n_batches * size

    def backward(self, step: int) -> StepReport:
        """Differentiate the mean loss of rows drawn from the pool."""
        batch = self.problem.batches.draw_mixture(self._shares, self._n_rows)
        outcome = self.problem.assess(batch)
        total = batch.mean(outcome.losses)
        total.backward()
        return self.report(total, batch.groups, outcome.risks, self.problem.scores(outcome))

    def mixture(self) -> Weights:
        """Return the groups' shares of the rows."""
        return self._shares


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
        with self.problem.autocast():  # weights are cast once for all groups
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


@dataclass(frozen=True)
class IRM(PenalizedObjective):
    """(1/n)·Σ_e (R_e + w·D_e²), D_e being the derivative of R_e along a dummy scale of the logits."""

    name: ClassVar[str] = "irm"
    variant: Literal["squared", "unbiased"] = "squared"  # see `irm_penalty`

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


@dataclass(frozen=True)
class RiskPenalty(PenalizedObjective):
    """(1/n)·Σ_e R_e + w·penalty(R_1, …, R_n), for any differentiable function of the environments' risks."""

    name: ClassVar[str] = "risk_penalty"
    adds_up: ClassVar[bool] = True
    penalty: Callable[[Tensor], Tensor] = risk_variance

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the penalized mean risk."""
        return self.penalized(outcome.risks.mean(), self.penalty(outcome.risks), step)

    def __repr__(self) -> str:
        # The same in every process, since checkpoints compare it: a function's own repr has its address.
        settings = f"weight={self.weight}, warm_up={self.warm_up}, penalty={self.penalty.__qualname__}"
        return f"{type(self).__name__}({settings})"


@dataclass(frozen=True, repr=False)
class VREx(RiskPenalty):
    """(1/n)·Σ_e R_e + w·Var_e(R_e)."""

    name: ClassVar[str] = "vrex"


@dataclass(frozen=True)
class RGM(PenalizedObjective):
    """(1/n)·Σ_e R_e + w·regret_e, with one environment e held out at random in each step (Jin et al., 2020).

    Auxiliary heads with one hidden layer are trained on the network's last hidden layer: for each environment one that
    learns from it alone, and one that learns from all others. They see that layer before the classifier's dropout, and
    drop units of it and of their own hidden layer with the same probability. The heads learn from detached features.
    The regret, which is the others' head's risk on e minus its own head's, changes the features only.
    """

    name: ClassVar[str] = "rgm"
    needs_features: ClassVar[bool] = True
    hidden: int = 390  # width of the heads' hidden layer

    def start(self, problem: Problem) -> ObjectiveRun:
        """Begin a training run."""
        if len(problem.groups) < 2:
            raise ParameterError(
                f"Objective 'rgm' holds one environment out and so needs at least 2. Got {len(problem.groups)}."
            )
        return _RGMRun(self, problem)


class _RGMRun(ObjectiveRun):
    """Trains the heads together with the network; they are built at the first step, when the width is known."""

    objective: RGM

    def __init__(self, objective: RGM, problem: Problem) -> None:
        super().__init__(objective, problem)
        self._draws = problem.seeding.generator("held-out environments")
        self._own = nn.ModuleList()
        self._others = nn.ModuleList()
        self._optimizer: torch.optim.Optimizer | None = None

    def backward(self, step: int) -> StepReport:
        """Teach the heads, then differentiate the mean risk plus the held-out environment's regret."""
        batch = self.problem.batches.draw(range(len(self.problem.groups)))
        outcome = self.problem.assess(batch, with_features=True)
        held_out = int(self._draws.integers(len(self.problem.groups)))
        features = outcome.parts(outcome.features)
        self._teach([part.detach() for part in features], outcome, held_out)
        others, own = (
            self._risk(head, features[held_out], outcome, held_out)
            for head in (self._others_head(held_out), self._own[held_out])
        )
        total = self.objective.penalized(outcome.risks.mean(), regret(others, own), step)
        # This also reaches the heads' gradients, which their next zero_grad clears.
        total.backward()
        return self.report(total, batch.groups, outcome.risks, self.problem.scores(outcome))

    def _teach(self, features: Sequence[Tensor], outcome: Outcome, held_out: int) -> None:
        """Take one step of every own head, and of the held-out environment's others' head."""
        optimizer = self._heads(features[0].shape[1], outcome.logits.shape[1])
        environments = range(len(features))
        loss = torch.stack([self._risk(self._own[e], features[e], outcome, e) for e in environments]).sum()
        if len(features) > 2:
            head = self._others_head(held_out)
            rest = [self._risk(head, features[e], outcome, e) for e in environments if e != held_out]
            loss = loss + torch.stack(rest).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def _risk(self, head: nn.Module, features: Tensor, outcome: Outcome, environment: int) -> Tensor:
        """Return a head's risk on an environment."""
        losses = outcome.loss(head(features), outcome.parts(outcome.batch.targets)[environment])
        return group_risk(losses, outcome.weights()[environment])

    def _others_head(self, held_out: int) -> nn.Module:
        """Return the head that learned without the environment; of two environments, the other one's own."""
        return self._others[held_out] if len(self._others) else self._own[1 - held_out]

    def _heads(self, width: int, n_outputs: int) -> torch.optim.Optimizer:
        """Return the heads' optimizer; build heads at the first step."""
        if self._optimizer is None:
            n = len(self.problem.groups)
            device = next(self.problem.network.parameters()).device

            def build(count: int) -> nn.ModuleList:
                dropout = classifier_dropout(self.problem.network)
                heads = (_head(width, self.objective.hidden, n_outputs, dropout) for _ in range(count))
                return nn.ModuleList(heads).to(device)

            with borrowing():
                self._own, self._others = build(n), build(n if n > 2 else 0)
            self._optimizer = torch.optim.Adam(
                [*self._own.parameters(), *self._others.parameters()],
                lr=self.problem.learning_rate,
                weight_decay=self.problem.weight_decay,
                fused=True,
            )
        return self._optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return the heads, their optimizer and the stream of held-out environments."""
        state = {**super().state_dict(), "draws": self._draws.bit_generator.state, "heads": None}
        if self._optimizer is not None:
            first = self._own[0]
            state["heads"] = {
                "width": first[1].in_features,  # type: ignore[index]
                "n_outputs": first[-1].out_features,  # type: ignore[index]
                "own": self._own.state_dict(),
                "others": self._others.state_dict(),
                "optimizer": self._optimizer.state_dict(),
            }
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        super().load_state_dict(state)
        self._draws.bit_generator.state = state["draws"]
        heads = state["heads"]
        if heads is not None:
            optimizer = self._heads(heads["width"], heads["n_outputs"])
            self._own.load_state_dict(heads["own"])
            self._others.load_state_dict(heads["others"])
            optimizer.load_state_dict(heads["optimizer"])


def _head(n_features: int, hidden: int, n_outputs: int, dropout: float) -> nn.Sequential:
    """Return an auxiliary head: one hidden layer, with units of its input and of that layer dropped."""
    return nn.Sequential(
        Dropout(dropout), nn.Linear(n_features, hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, n_outputs)
    )


def classifier_dropout(network: nn.Module) -> float:
    """Return the probability with which a network's last dropout layer drops units, 0 where it has none."""
    found = [module.p for module in network.modules() if isinstance(module, nn.Dropout)]
    return found[-1] if found else 0.0


OBJECTIVES: Mapping[str, type[Objective]] = MappingProxyType(
    {objective.name: objective for objective in (ERM, PooledERM, Balanced, WorstGroup, OnlineGroups, IRM, VREx, RGM)}
)


def make_objective(objective: str | Objective) -> Objective:
    """Return an objective by name with its default settings, or the instance itself."""
    if isinstance(objective, Objective):
        return objective
    if not isinstance(objective, str):
        raise InputTypeError(f"The 'objective' must be a name or an Objective. Got {type(objective).__name__} instead.")
    if objective not in OBJECTIVES:
        raise ParameterError(
            f"The 'objective' must be one of {sorted(OBJECTIVES)} or an Objective. Got {objective!r} instead."
        )
    return OBJECTIVES[objective]()
