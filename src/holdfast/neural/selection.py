"""Selection rules: which epoch's weights are kept.

============================  =========================================================================
rule                          keeps the epoch with the largest
============================  =========================================================================
validation_accuracy           accuracy on the validation rows
worst_group_validation        accuracy in the worst validation group (label × group label)
min_train_validation          min(a, validation accuracy); a is the mean over the epoch's steps of the
                              batch accuracy, dropout on: of the group with the largest risk for
                              objectives that look at the worst group, of all groups for the others
other_environments            mean accuracy on the training environments that were not trained on
leave_one_environment_out     a procedure around whole trainings, in interpolation.gradient; the loop refuses it
last                          epoch number: no selection, no early stop
============================  =========================================================================

For regression "accuracy" reads minus the mean squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from torch import Tensor, nn

from holdfast.exceptions import ParameterError


@dataclass(frozen=True)
class EpochScores:
    """What one epoch's training and its evaluation showed; scores are accuracies, or minus squared errors."""

    epoch: int  # counted from 1
    step: int  # steps taken so far
    risk: float  # mean over the epoch's steps of what was differentiated
    training_score: float  # mean over the steps, of the worst group's or of all groups' batches (the objective decides)
    worst_group: str  # most often the one with the largest risk
    worst_group_risk: float  # its mean risk over the steps in which it was the worst
    group_risks: Mapping[str, float] | None = None  # mean over the steps, by name; None where there are many groups
    validation_score: float | None = None
    validation_group_scores: Mapping[str, float] | None = None
    other_environments_score: float | None = None
    predicts_one_class: bool | None = None  # on all evaluated rows, although their labels differ

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as plain values, without those that were not measured."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("group_risks", "validation_group_scores"):
            if values[name] is not None:
                values[name] = dict(values[name])
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Selected:
    """The selected epoch: its weights and its scores belong together."""

    rule: str
    value: float  # what the rule compares
    scores: EpochScores
    weights: Mapping[str, Tensor]  # a copy of the network's state

    @property
    def epoch(self) -> int:
        """The selected epoch, counted from 1."""
        return self.scores.epoch

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values and tensors."""
        return {"rule": self.rule, "value": self.value, "scores": self.scores.as_dict(), "weights": dict(self.weights)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what `as_dict` described."""
        return cls(values["rule"], values["value"], EpochScores(**values["scores"]), values["weights"])


@dataclass(frozen=True)
class SelectionRule:
    """How epochs are compared."""

    name: str
    value: Callable[[EpochScores], float]
    needs: str | None = None  # the input that it needs

    def improves(self, scores: EpochScores, best: Selected | None) -> bool:
        """Return whether an epoch beats the best so far; ties keep the earlier one."""
        return best is None or self.value(scores) > best.value

    def select(self, scores: EpochScores, network: nn.Module) -> Selected:
        """Return an epoch with a copy of the network's weights; a state dict alone would go on changing."""
        weights = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        return Selected(self.name, self.value(scores), scores, weights)


def _measured(value: float | None) -> float:
    """Return a score that the rule's needs guarantee."""
    if value is None:
        raise ParameterError("The selection rule's score was not measured.")
    return value


SELECTION_RULES: Mapping[str, SelectionRule] = MappingProxyType(
    {
        rule.name: rule
        for rule in (
            SelectionRule("validation_accuracy", lambda scores: _measured(scores.validation_score), "validation"),
            SelectionRule(
                "worst_group_validation",
                lambda scores: min((scores.validation_group_scores or {"": float("nan")}).values()),
                "validation_groups",
            ),
            SelectionRule(
                "min_train_validation",
                lambda scores: min(scores.training_score, _measured(scores.validation_score)),
                "validation",
            ),
            SelectionRule(
                "other_environments", lambda scores: _measured(scores.other_environments_score), "other_environments"
            ),
            SelectionRule("last", lambda scores: float(scores.epoch)),
        )
    }
)
LEAVE_ONE_OUT = "leave_one_environment_out"
SELECTION_NAMES = (*SELECTION_RULES, LEAVE_ONE_OUT)

_ADVICE = {
    "validation": "validation rows. Pass validation=(X, y)",
    "validation_groups": "validation rows with group labels. Pass validation=(X, y, group_labels)",
    "other_environments": "other training environments. Pass environments=, some of which are not among the groups",
}


def choose_rule(
    selection: str | None, *, validation: bool, validation_groups: bool = False, other_environments: bool = False
) -> SelectionRule:
    """Return a rule by name; None means validation_accuracy where there is validation, else last."""
    if selection is None:
        selection = "validation_accuracy" if validation else "last"
    if selection == LEAVE_ONE_OUT:
        raise ParameterError(
            "selection='leave_one_environment_out' compares whole trainings, each without one environment, and is "
            "not a rule of one training. Pass it to a method around the network, such as "
            "ERMClassifier(network, selection=…), or choose another selection."
        )
    if selection not in SELECTION_RULES:
        raise ParameterError(
            f"The 'selection' parameter must be one of {list(SELECTION_NAMES)} or None. Got {selection!r} instead."
        )
    rule = SELECTION_RULES[selection]
    available = {
        "validation": validation,
        "validation_groups": validation_groups,
        "other_environments": other_environments,
    }
    if rule.needs is not None and not available[rule.needs]:
        raise ParameterError(f"selection={selection!r} needs {_ADVICE[rule.needs]}, or use selection='last'.")
    return rule
