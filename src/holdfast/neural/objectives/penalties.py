"""IRM, V-REx and RGM: the environments' mean risk plus a penalty on what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.exceptions import ParameterError
from holdfast.neural.networks.small import MLP
from holdfast.neural.objectives.base import ObjectiveRun, Outcome, PenalizedObjective, Problem, StepReport
from holdfast.neural.randomness import borrowing
from holdfast.neural.risks import group_risk, irm_penalty, regret, risk_variance


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
class VREx(PenalizedObjective):
    """(1/n)·Σ_e R_e + w·Var_e(R_e)."""

    name: ClassVar[str] = "vrex"
    adds_up: ClassVar[bool] = True

    def combine(self, outcome: Outcome, step: int) -> Tensor:
        """Return the penalized mean risk."""
        return self.penalized(outcome.risks.mean(), risk_variance(outcome.risks), step)


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
        return f"RiskPenalty(weight={self.weight}, warm_up={self.warm_up}, penalty={self.penalty.__qualname__})"


@dataclass(frozen=True)
class RGM(PenalizedObjective):
    """(1/n)·Σ_e R_e + w·regret_e, with one environment e held out at random in each step (Jin et al., 2020).

    Auxiliary heads with one hidden layer are trained on the last hidden layer: for each environment one that learns
    from it alone, and one that learns from all others. The heads learn from detached features. The regret, which is the
    others' head's risk on e minus its own head's, changes the features only.
    """

    name: ClassVar[str] = "rgm"
    needs_features: ClassVar[bool] = True
    hidden: int = 64  # width of the heads' hidden layer

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
                hidden = (self.objective.hidden,)
                heads = (MLP(input_shape=(width,), n_classes=n_outputs, hidden=hidden) for _ in range(count))
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
                "width": first.hidden[0].in_features,  # type: ignore[index, union-attr]
                "n_outputs": first.classifier.out_features,  # type: ignore[union-attr]
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
