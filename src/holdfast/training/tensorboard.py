"""Every epoch's scores for TensorBoard, while networks are trained. Needs the extra `tensorboard`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdfast.exceptions import ParameterError
from holdfast.training.monitor import EpochReport, Monitor
from holdfast.training.state import SavedState


class TensorBoardMonitor(Monitor):
    """Write the scores of every training to a folder that TensorBoard shows: one run for each network.

    Parameters
    ----------
    folder : path
        Where runs go, numbered in the order of the trainings. Use one folder for one fit, with `n_jobs=None`.
    inside : Monitor, optional
        Another monitor that shall see the same epochs, such as a `CheckpointMonitor`.

    Raises
    ------
    ParameterError
        TensorBoard is not installed.

    Notes
    -----
    Then look: ``tensorboard --logdir runs``::

        with TensorBoardMonitor("runs") as monitor, watch(monitor):
            model.fit(X, y, environments=environments)
    """

    def __init__(self, folder: str | os.PathLike[str], *, inside: Monitor | None = None) -> None:
        self.folder = Path(folder)
        self.inside = Monitor() if inside is None else inside
        self._make_writer = _writer_class()
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

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _writer_class() -> Any:
    """Return torch's writer, or say what is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as problem:
        raise ParameterError(
            "TensorBoardMonitor needs the package tensorboard, which is not installed. "
            "Run pip install tensorboard, or leave the monitor out."
        ) from problem
    return SummaryWriter
