"""THE loop: objective + batches + selection -> a trained network and its history."""

from holdfast.training.evaluation import HeldOut, minus_squared_error, outputs_on, right_class, union_of
from holdfast.training.loop import Trained, seeded_torch, train
from holdfast.training.monitor import EpochReport, Monitor, watch
from holdfast.training.settings import (
    Precision,
    Schedule,
    TrainingSettings,
    autocast,
    resolve_device,
    resolve_precision,
)
from holdfast.training.state import SavedState, TrainingState, flatten, unflatten

__all__ = [
    "EpochReport",
    "HeldOut",
    "Monitor",
    "Precision",
    "SavedState",
    "Schedule",
    "Trained",
    "TrainingSettings",
    "TrainingState",
    "autocast",
    "flatten",
    "minus_squared_error",
    "outputs_on",
    "resolve_device",
    "resolve_precision",
    "right_class",
    "seeded_torch",
    "train",
    "unflatten",
    "union_of",
    "watch",
]
