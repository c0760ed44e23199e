"""What a method is to the training loop: an objective over the groups' risks.

An `Objective` holds settings only and can be shared; ``start`` gives the `ObjectiveRun` of one training, which draws
its batches, differentiates, and keeps its own state. A new method without state is one class with
``combine``:

    @dataclass(frozen=True)
    class MeanPlusSpread(Objective):
        name = "mean_plus_spread"

        def combine(self, outcome, step):
            return outcome.risks.mean() + outcome.risks.std()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.environments import Group, Weights
from holdfast.exceptions import ParameterError
from holdfast.neural.batches import Batch, GroupBatches
from holdfast.neural.networks import Network, as_logits, run_network
from holdfast.neural.risks import Loss
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
                logits = as_logits(self.network.classifier(features), self.n_outputs)
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
