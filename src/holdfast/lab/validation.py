"""Select the epoch for each validation setting of a run, from one training."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.datasets import Split
from holdfast.lab.experiments import RunConfig
from holdfast.lab.inputs import Prepared
from holdfast.metrics import accuracy_by_group, label_attribute_groups
from holdfast.neural.batches import make_source
from holdfast.neural.evaluation import outputs_on
from holdfast.neural.monitors import EpochReport, Monitor, watch
from holdfast.neural.selection import EpochScores, Selected, choose_rule
from holdfast.neural.settings import autocast, resolve_precision
from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint
from holdfast.saving.monitors import CheckpointMonitor

FINAL_STAGES = ("training", "stage 3")
CHECKPOINT_EVERY = 5  # epochs


@contextlib.contextmanager
def selecting(
    config: RunConfig, prepared: Prepared, validations: Mapping[str, Split], checkpoints: Path | None
) -> Iterator[SettingsMonitor]:
    """Watch every training in the block; with `checkpoints`, a run that was interrupted continues from there."""
    monitor = SettingsMonitor(config, prepared, validations, checkpoints and checkpoints / "selection")
    watcher = CheckpointMonitor(checkpoints, every=CHECKPOINT_EVERY, inside=monitor) if checkpoints else monitor
    with watch(watcher):
        yield monitor


@dataclass(eq=False)
class Setting:
    """The state of selection by one validation split."""

    split: Split
    best: Selected | None = None
    n_stale: int = 0
    n_epochs: int = 0  # evaluations until its own stop
    seconds: float = 0.0  # until then
    stopped: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """Return all but the split, as plain values and tensors."""
        values = {name: getattr(self, name) for name in ("n_stale", "n_epochs", "seconds", "stopped")}
        values["history"] = list(self.history)  # the next epoch appends to ours
        return {**values, "best": None if self.best is None else self.best.as_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was called."""
        for name in ("n_stale", "n_epochs", "seconds", "stopped", "history"):
            setattr(self, name, state[name])
        self.best = None if state["best"] is None else Selected.from_dict(state["best"])


class SettingsMonitor(Monitor):
    """Scores every validation setting after each epoch, and ends the training when all patiences have run out.

    The classifier trains with selection "last", which never stops by itself. With `folder`, the selection is kept there
    next to the checkpoints of the training.
    """

    def __init__(
        self, config: RunConfig, prepared: Prepared, validations: Mapping[str, Split], folder: Path | None
    ) -> None:
        self.settings = {name: Setting(split) for name, split in validations.items()}
        self.stages: dict[str, dict[str, Any]] = {}  # what was trained, how long and how well
        self._rule = choose_rule(config.selection, validation=True, validation_groups=True)
        self._patience = config.patience if config.selection != "last" else config.max_epochs
        self._precision = config.precision
        # The label of each output: test rows may have labels that training rows do not.
        self._classes = np.unique(prepared.dataset.train.y)
        self._sources = {name: make_source(split.X, prepared.vocabulary) for name, split in validations.items()}
        self._groups = {
            name: label_attribute_groups(split.y, split.environments, "environment")
            for name, split in validations.items()
        }
        self._folder = folder
        self._n_seen = 0  # epochs of the last stage that were scored
        self._before = 0.0  # seconds of the current stage before an interruption
        self._start = time.perf_counter()
        self.spent_before = 0.0, 0.0  # on the whole run, by the clock and by the processor
        self._began = time.perf_counter(), time.process_time()
        self._unwritten: dict[str, Any] | None = None  # after the last epoch, until a checkpoint holds it
        if folder is not None and folder.exists():
            state = read_checkpoint(folder)
            self._n_seen, self.stages, self.spent_before = state["n_seen"], state["stages"], state["spent"]
            for name, setting in self.settings.items():
                setting.restore(state["settings"][name])

    def start(self, stage: str) -> None:
        """Note that a training begins, or continues."""
        self._start = time.perf_counter()
        self._before = self.stages.get(stage, {}).get("seconds", 0.0)

    def epoch(self, report: EpochReport) -> None:
        """Score the settings that have not stopped."""
        self.stages[report.stage] = {
            "epochs": report.epoch,
            "seconds": round(self._seconds(), 2),
            "other_environments_score": report.scores.other_environments_score,
        }
        if report.stage in FINAL_STAGES:
            # An epoch may come twice: the selection was kept, but the run was interrupted before its training was.
            if report.epoch > self._n_seen:
                self._n_seen = report.epoch
                for name, setting in self.settings.items():
                    if not setting.stopped:
                        self._look(name, setting, report)
            if report.epoch >= self._n_seen and all(setting.stopped for setting in self.settings.values()):
                report.state.finished = True
        settings = {name: setting.state() for name, setting in self.settings.items()}
        spent = (
            self.spent_before[0] + time.perf_counter() - self._began[0],
            self.spent_before[1] + time.process_time() - self._began[1],
        )
        self._unwritten = {"n_seen": self._n_seen, "stages": dict(self.stages), "spent": spent, "settings": settings}
        if report.epoch % CHECKPOINT_EVERY == 0 or report.state.finished:
            self.interrupted()

    def interrupted(self) -> None:
        """Keep the selection as it was after the last whole epoch."""
        if self._folder is not None and self._unwritten is not None:
            write_checkpoint(self._folder, self._unwritten)
            self._unwritten = None

    def _seconds(self) -> float:
        """Return the seconds of the current stage."""
        return self._before + time.perf_counter() - self._start

    def _look(self, name: str, setting: Setting, report: EpochReport) -> None:
        """Score one setting, and keep the epoch if it is the best so far."""
        scores = self._scores(name, setting.split, report)
        setting.n_epochs, setting.seconds = report.epoch, self._seconds()
        setting.history.append(scores.as_dict())
        if self._rule.improves(scores, setting.best):
            setting.best, setting.n_stale = self._rule.select(scores, report.state.evaluated), 0
        else:
            setting.n_stale += 1
        setting.stopped = setting.n_stale >= self._patience

    def _scores(self, name: str, split: Split, report: EpochReport) -> EpochScores:
        """Return the epoch's scores with those of this validation split."""
        device = report.state.device
        context = autocast(resolve_precision(self._precision, device), device)
        outputs = outputs_on(report.state.evaluated, self._sources[name], device=device, autocast=context)
        predictions = np.asarray(self._classes[outputs.argmax(dim=1).numpy()])
        by_group = accuracy_by_group(split.y, predictions, self._groups[name])
        return dataclasses.replace(
            report.scores,
            validation_score=float((predictions == split.y).mean()),
            validation_group_scores={g.name: float(a) for g, a in zip(self._groups[name], by_group, strict=True)},
        )
