import sys

import pytest

from holdfast.exceptions import MissingExtraError
from holdfast.neural.monitors import EpochReport, Monitor, TensorBoardMonitor
from holdfast.neural.selection import EpochScores

STATE = None  # the monitor does not look at it


def report(epoch: int, risk: float) -> EpochReport:
    """Return what the loop tells after an epoch."""
    scores = EpochScores(
        epoch, 10 * epoch, risk, 0.75, "E1: mistaken", risk + 0.1, validation_group_scores={"label=1, color=0": 0.25}
    )
    return EpochReport("stage 3", epoch, 2, scores, epoch == 1, STATE)


def test_scores_reach_the_event_files(tmp_path):
    """Each training is one run; each epoch one value of every score, read back by TensorBoard itself."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with TensorBoardMonitor(tmp_path / "runs") as monitor:
        assert monitor.start("stage 3: PI/max") is None
        monitor.epoch(report(1, 0.5))
        monitor.epoch(report(2, 0.25))
        monitor.start("again")
        monitor.epoch(report(1, 0.125))
    assert sorted(run.name for run in (tmp_path / "runs").iterdir()) == ["0001-stage-3-PI-max", "0002-again"]
    events = accumulator.EventAccumulator(str(tmp_path / "runs" / "0001-stage-3-PI-max")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("risk")] == [(1, 0.5), (2, 0.25)]
    assert [event.value for event in events.Scalars("selected")] == [1.0, 0.0]
    assert events.Scalars("validation_group_scores/label=1, color=0")[0].value == 0.25


def test_monitor_inside_sees_the_same(tmp_path):
    """A monitor inside may bring a saved state, and sees every epoch."""
    pytest.importorskip("tensorboard")
    seen = []

    class Inside(Monitor):
        def start(self, stage):
            return {"stage": stage}, {}

        def epoch(self, report):
            seen.append(report.epoch)

    with TensorBoardMonitor(tmp_path, inside=Inside()) as monitor:
        assert monitor.start("stage 1") == ({"stage": "stage 1"}, {})
        monitor.epoch(report(1, 0.5))
    assert seen == [1]


def test_missing_package_is_said(tmp_path, monkeypatch):
    """Without the extra, making the monitor fails at once and says what to install."""
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(
        MissingExtraError,
        match=r"need tensorboard, .* pip install -c constraints.txt '.\[tensorboard\]' in a clone of holdfast",
    ):
        TensorBoardMonitor(tmp_path)
