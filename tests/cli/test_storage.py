"""Commands on file systems that refuse locks, or that cannot be written."""

import errno
import fcntl
import os

import pytest

from holdfast.saving.files import inject_faults
from holdfast.tables.classifier import TableClassifier


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_file_system_without_locks_does_not_cost_the_model(holdfast, hospitals, tmp_path, monkeypatch, code):
    """On a network file system that refuses locks, the fit is saved and can be used."""

    def flock(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    out = tmp_path / "model"
    outcome = holdfast("fit", hospitals.train, *hospitals.fit_options, "--method", "erm", "--out", out)
    assert outcome.code == 0, outcome.err
    assert holdfast("predict", out, hospitals.test, "--out", tmp_path / "p.csv").code == 0


def test_a_place_that_cannot_be_written_is_refused_before_the_fit(holdfast, hospitals, tmp_path, monkeypatch):
    """Nobody waits for a fit whose result cannot be saved."""

    def fault(name, path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(TableClassifier, "fit", lambda *args, **options: pytest.fail("it was fitted"))
    with inject_faults(fault):
        outcome = holdfast("fit", hospitals.train, *hospitals.fit_options, "--out", tmp_path / "model")
    assert outcome.code == 1
    assert "the file system is read-only" in outcome.err


def test_a_place_that_cannot_be_written_is_refused_before_predicting(holdfast, hospitals, tmp_path, monkeypatch):
    """The same for a table of predictions."""
    options = ("--method", "erm", "--out", tmp_path / "model")
    assert holdfast("fit", hospitals.train, *hospitals.fit_options, *options).code == 0

    def fault(name, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TableClassifier, "write_predictions", lambda *args, **options: pytest.fail("it predicted"))
    with inject_faults(fault):
        outcome = holdfast("predict", tmp_path / "model", hospitals.test, "--out", tmp_path / "p.csv")
    assert outcome.code == 1
    assert "the disk is full" in outcome.err
