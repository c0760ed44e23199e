"""Watching a training from outside: progress, checkpoints, continuing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from holdfast.selection import EpochScores
from holdfast.training.state import SavedState, TrainingState


@dataclass(frozen=True, eq=False)
class EpochReport:
    """What a monitor sees after each evaluation."""

    stage: str  # what is being trained, for example "stage 3"
    epoch: int  # counted from 1
    max_epochs: int
    scores: EpochScores
    improved: bool  # whether this epoch is the best so far
    state: TrainingState  # state.save() gives all that is needed to continue from here


class Monitor:
    """Base of monitors; it does nothing. Override what you need."""

    def start(self, stage: str) -> SavedState | None:
        """Return a saved state to continue from, or None to begin afresh."""
        return None

    def epoch(self, report: EpochReport) -> None:
        """Look at an epoch that has just been evaluated."""

    def interrupted(self) -> None:
        """Keep what is not kept yet: the block was left by Ctrl-C."""


_current: ContextVar[Monitor | None] = ContextVar("holdfast_monitor", default=None)


@contextlib.contextmanager
def watch(monitor: Monitor) -> Iterator[Monitor]:
    """Let `monitor` see every training inside the ``with`` block, however deep in an estimator it happens."""
    token = _current.set(monitor)
    try:
        yield monitor
    except KeyboardInterrupt:
        monitor.interrupted()
        raise
    finally:
        _current.reset(token)


def current_monitor() -> Monitor:
    """Return the monitor of the innermost ``with watch(…)``."""
    return _current.get() or Monitor()
