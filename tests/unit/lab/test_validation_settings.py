"""Selection beside a training: kept, and continued, when a run is cut."""

import sys

import pytest

from holdfast.lab.config import parse_run
from holdfast.lab.runner import CheckpointMonitor, run

QUICK = {
    "dataset": "toy", "dataset_options": {"n_rows": 40, "test_etas": [1.0]}, "method": "erm", "estimator": "mlp",
    "steps_per_epoch": 2, "batch_size": 5, "max_epochs": 30, "patience": 3, "precision": "fp32",
}  # fmt: skip


class Stopped(Exception):
    """Ends a run from inside."""


def test_a_run_cut_between_selection_and_training_ends_at_the_same_epoch(tmp_path, monkeypatch):
    """The selection knows the end already, the training does not: its epochs are made again, all of them."""
    config = parse_run(QUICK)
    expected = run(config, cache=tmp_path, checkpoints=tmp_path / "whole")
    assert expected["stages"]["training"]["epochs"] % 5 > 1  # the last checkpoint before the end is not of the end

    training_checkpoints = sys.modules[CheckpointMonitor.__module__]
    write = training_checkpoints.write_checkpoint

    def dying(folder, state, **options):
        if state[0]["finished"]:
            raise Stopped
        write(folder, state, **options)

    with monkeypatch.context() as patch:
        patch.setattr(training_checkpoints, "write_checkpoint", dying)
        with pytest.raises(Stopped, match="^$"):
            run(config, cache=tmp_path, checkpoints=tmp_path / "cut")
    resumed = run(config, cache=tmp_path, checkpoints=tmp_path / "cut")
    assert resumed["stages"]["training"]["epochs"] == expected["stages"]["training"]["epochs"]
    for name, setting in expected["settings"].items():
        assert resumed["settings"][name]["history"] == setting["history"]
        assert resumed["settings"][name]["test"] == setting["test"]
