"""Tables on a terminal, and where files may be written."""

import errno
import itertools
import logging
import os
import re
from pathlib import Path

import pytest

from holdfast.cli.options import check_file, check_folder
from holdfast.cli.terminal import counting, print_table, showing_stages
from holdfast.exceptions import StorageError
from holdfast.parallel import run_each
from holdfast.saving.files import inject_faults

HEADER = ["attribute", "method", "a long heading", "another heading"]
ROWS = [["Wearing_Earrings", "PI", 0.25, 0.5], ["Wearing_Necklace", "PI", 0.75, 1.0]]


def test_names_are_cut_to_the_terminal(capsys, monkeypatch):
    """Without keys a table never gets wider than the terminal; names that begin alike can still be told apart."""
    monkeypatch.setenv("COLUMNS", "40")
    print_table("", HEADER, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert "…" in lines[1]
    assert [line.split()[0] for line in lines[2:]] == ["Wear…ngs", "Wear…ace"]


def test_a_table_with_keys_comes_in_parts(capsys, monkeypatch):
    """What does not fit follows below, under the same names; nothing is cut."""
    monkeypatch.setenv("COLUMNS", "45")
    print_table("", HEADER, ROWS, digits=2, n_keys=2)
    assert (
        capsys.readouterr().out
        == """
  attribute         method  a long heading
  Wearing_Earrings  PI                0.25
  Wearing_Necklace  PI                0.75

  attribute         method  another heading
  Wearing_Earrings  PI                 0.50
  Wearing_Necklace  PI                 1.00
"""
    )


def test_a_pipe_has_room_for_everything(capsys, monkeypatch):
    """Where nobody says how wide it is, a table with keys is one."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)
    print_table("", [*HEADER, "x" * 200], [[*row, 1] for row in ROWS], n_keys=2)
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("check", [check_file, check_folder])
def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path, check):
    """A read-only disk is noticed by the check, not after hours."""

    def fault(name, path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with inject_faults(fault), pytest.raises(StorageError, match="out.csv': the file system is read-only"):
        check(Path(tmp_path / "out.csv"), overwrite=False)


@pytest.mark.parametrize("show", [lambda: showing_stages("fitting"), lambda: counting("step", 2)])
def test_epochs_of_a_network_are_shown_now_and_then(show, capsys, monkeypatch):
    """Where there is no terminal, long training is heard of every ten seconds; other details are not."""
    clock = itertools.count(step=4.0)
    monkeypatch.setattr("holdfast.cli.terminal.time.monotonic", lambda: next(clock))
    logger = logging.getLogger("holdfast.neural.training")
    with show() as begin:
        if begin is not None:
            begin("without Boston", 2, 9)
        for number in range(1, 7):
            logger.debug("stage 1: epoch %d of at most 100, at most 9 s left", number, extra={"epoch": number})
            logger.debug("a detail of a solver")
    lines = [line for line in capsys.readouterr().err.splitlines() if "epoch" in line]
    assert 1 <= len(lines) <= 3
    assert "stage 1: epoch " in lines[0]
    if begin is not None:
        assert re.match(r"step 3 of 9 \(about \d+ s left\): without Boston; stage 1: epoch \d", lines[0])
    assert "a detail" not in "".join(lines)


def test_an_epoch_says_which_fit_of_how_many_it_belongs_to(capsys, monkeypatch):
    """A stage of several networks shows the fit, and the time that the stage has left."""
    clock = itertools.count(step=6.0)
    monkeypatch.setattr("holdfast.cli.terminal.time.monotonic", lambda: next(clock))

    def train(_, number):
        logging.getLogger("holdfast.neural.training").debug("epoch 1 of 9, risk 0.2", extra={"epoch": 1})
        return number

    with showing_stages("fitting"):
        assert run_each(train, None, [(1,), (2,), (3,)]) == [1, 2, 3]
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"fit 3 of 3 \(about \d+ s left\); epoch 1 of 9", lines[-1])


def test_the_epoch_is_shown_next_to_its_step(monkeypatch):
    """On a terminal the step stays in view while its network trains."""
    from rich.status import Status

    seen = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(Status, "update", lambda self, text: seen.append(text.plain))
    with counting("step", 2) as begin:
        begin("without Boston")
        logging.getLogger("holdfast.neural.training").debug("epoch %d of 9", 3, extra={"epoch": 3})
    assert seen == ["step 1 of 2: without Boston", "step 1 of 2: without Boston; epoch 3 of 9"]
