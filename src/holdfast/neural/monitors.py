"""Monitors of a training: progress, checkpoints, TensorBoard."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from holdfast.extras import require
from holdfast.neural.selection import EpochScores
from holdfast.neural.state import SavedState, TrainingState


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
        """Return a saved state to continue from, or None to start from the beginning."""
        return None

    def epoch(self, report: EpochReport) -> None:
        """Receive the report of an epoch."""

    def interrupted(self) -> None:
        """Save what is not saved yet: Ctrl-C ended the block."""


class ProgressLine(Monitor):
    """Write a line about every epoch to the terminal: stage, epoch, worst group, time left.

    Parameters
    ----------
    inside : Monitor
        The monitor that sees the same epochs.
    computing : str
        Precision and device in words, for the first line of each training.
    """

    def __init__(self, inside: Monitor, computing: str = "") -> None:
        self.inside, self.computing = inside, computing
        self._began, self._first = time.monotonic(), 0

    def start(self, stage: str) -> SavedState | None:
        """Begin to count the time."""
        saved = self.inside.start(stage)
        if self.computing:
            sys.stderr.write(f"{stage}: {self.computing}\n")
        self._began, self._first = time.monotonic(), 0 if saved is None else int(saved[0]["epoch"])
        return saved

    def epoch(self, report: EpochReport) -> None:
        """Write the line; in a terminal it replaces the one before."""
        self.inside.epoch(report)
        seconds = (time.monotonic() - self._began) / max(report.epoch - self._first, 1)
        left = "done" if report.state.finished else f"{seconds * (report.max_epochs - report.epoch):.0f} s left at most"
        line = f"{report.stage}: epoch {report.epoch} of {report.max_epochs}, {_scores_of(report.scores)}, {left}"
        if sys.stderr.isatty():
            end = "\n" if report.state.finished else ""
            sys.stderr.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}{end}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _scores_of(scores: EpochScores) -> str:
    """Return an epoch's scores in a few words."""
    text = f"worst group {scores.worst_group} (risk {scores.worst_group_risk:.3f})"
    return text if scores.validation_score is None else f"{text}, validation {scores.validation_score:.3f}"


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


class TensorBoardMonitor(Monitor):
    """Write the scores of every training to a folder that TensorBoard shows: one run for each network.

    Parameters
    ----------
    folder : path
        Where runs go, numbered in the order of the trainings. Use one folder for one fit, with `n_jobs=None`.
    inside : Monitor, optional
        Another monitor that sees the same epochs, such as a `CheckpointMonitor`.

    Raises
    ------
    MissingExtraError
        TensorBoard is not installed.

    Notes
    -----
    View them with ``tensorboard --logdir runs``::

        with TensorBoardMonitor("runs") as monitor, watch(monitor):
            model.fit(X, y, environments=environments)
    """

    def __init__(self, folder: str | os.PathLike[str], *, inside: Monitor | None = None) -> None:
        self.folder = Path(folder)
        self.inside = Monitor() if inside is None else inside
        require("tensorboard", extra="tensorboard", what="Event files for TensorBoard")
        from torch.utils.tensorboard import SummaryWriter

        self._make_writer: Any = SummaryWriter
        self._writer: Any = None
        self._n_started = 0

    def start(self, stage: str) -> SavedState | None:
        """Begin a run of its own for this training."""
        self.close()
        self._n_started += 1
        name = re.sub(r"[^\w.-]+", "-", stage, flags=re.ASCII).strip("-")[:80]
        self._writer = self._make_writer(str(self.folder / f"{self._n_started:04d}-{name}"))
        return self.inside.start(stage)

    def epoch(self, report: EpochReport) -> None:
        """Write the epoch's scores; the last epoch ends the run."""
        self.inside.epoch(report)
        scores = report.scores
        for name, value in scores.as_dict().items():
            if isinstance(value, float):
                self._writer.add_scalar(name, value, scores.epoch)
        for name in ("group_risks", "validation_group_scores"):
            for group, value in (getattr(scores, name) or {}).items():
                self._writer.add_scalar(f"{name}/{group}", value, scores.epoch)
        self._writer.add_scalar("selected", float(report.improved), scores.epoch)
        self._writer.add_text("worst_group", scores.worst_group, scores.epoch)
        self._writer.flush()

    def close(self) -> None:
        """End the run that is being written, if any."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
