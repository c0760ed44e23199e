"""Write a checkpoint after every epoch, and continue an interrupted fit from it."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.exceptions import CorruptFileError
from holdfast.neural.monitors import EpochReport, Monitor
from holdfast.neural.state import SavedState
from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint


class CheckpointMonitor(Monitor):
    """Write a checkpoint of every network that is trained, and continue from those that are there.

    Run the same fit again under a new monitor of the same folder: finished trainings are taken from it, the one that
    was cut goes on from its last epoch, and the result is the one that an undisturbed fit would have had, bit for bit.

    Parameters
    ----------
    folder : path
        Where checkpoints go, numbered in the order of the trainings. Use one folder for one fit, with `n_jobs=None`.
    every : int
        Epochs between two checkpoints; the last epoch always gets one, and so does the last before Ctrl-C.
    inside : Monitor, optional
        Another monitor that sees the same epochs, such as a progress bar.

    Examples
    --------
    >>> from holdfast.neural.monitors import watch
    >>> with watch(CheckpointMonitor("fit.checkpoints")):
    ...     pass  # model.fit(X, y, environments=environments)
    """

    def __init__(self, folder: str | os.PathLike[str], *, every: int = 1, inside: Monitor | None = None) -> None:
        self.folder = Path(folder)
        self.every = every
        self.inside = Monitor() if inside is None else inside
        self._n_started = 0
        self._unwritten: tuple[SavedState, str] | None = None  # the last epoch, until a checkpoint holds it

    def start(self, stage: str) -> SavedState | None:
        """Return the state of this training from its last checkpoint, None when there is none."""
        self.inside.start(stage)
        self._n_started += 1
        if not self._current().exists():
            return None
        state = read_checkpoint(self._current())
        if not (isinstance(state, tuple) and [type(part) for part in state] == [dict, dict]):
            raise CorruptFileError(
                f"{str(self._current())!r} is not the state of a training. Remove it to start again."
            )
        return state

    def epoch(self, report: EpochReport) -> None:
        """Write a checkpoint."""
        self.inside.epoch(report)
        self._unwritten = (report.state.save(), str(report.state.fingerprint["precision"]))
        if report.epoch % self.every == 0 or report.state.finished:
            self._write()

    def interrupted(self) -> None:
        """Write the last whole epoch, so that Ctrl-C costs no more than the one that was cut."""
        self.inside.interrupted()  # first: what it keeps may be ahead of the training, but not behind
        self._write()

    def _write(self) -> None:
        if self._unwritten is not None:
            state, precision = self._unwritten
            write_checkpoint(self._current(), state, precision=precision)
            self._unwritten = None

    def _current(self) -> Path:
        return self.folder / f"training-{self._n_started:04d}"
