"""Objectives by name: what the training loop minimizes.

Pass a name for the default settings, or an instance: ``objective="irm"`` or ``objective=IRM(weight=10, warm_up=100)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.exceptions import InputTypeError, ParameterError
from holdfast.neural.objectives.base import (
    ERM,
    Balanced,
    Objective,
    ObjectiveRun,
    Outcome,
    PenalizedObjective,
    PooledERM,
    Problem,
    StepReport,
)
from holdfast.neural.objectives.groups import OnlineGroups, OnlineGroupWeights, WorstGroup
from holdfast.neural.objectives.penalties import IRM, RGM, RiskPenalty, VREx

__all__ = [
    "ERM",
    "IRM",
    "OBJECTIVES",
    "RGM",
    "Balanced",
    "Objective",
    "ObjectiveRun",
    "OnlineGroupWeights",
    "OnlineGroups",
    "Outcome",
    "PenalizedObjective",
    "PooledERM",
    "Problem",
    "RiskPenalty",
    "StepReport",
    "VREx",
    "WorstGroup",
    "make_objective",
]

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
