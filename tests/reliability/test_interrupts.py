"""Ctrl-C at any moment: exit code 130, no process left behind, and at most the epoch that was cut is lost."""

import contextlib
import importlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

SWEEP = """
name = "cut"
[run]
dataset = "toy"
dataset_options = {n_rows = 40, test_etas = [1.0]}
estimator = "mlp"
steps_per_epoch = 2
batch_size = 5
max_epochs = 23
selection = "last"
precision = "fp32"
[[methods]]
method = "erm"
[[methods]]
method = "pi"
"""


class Epochs(logging.Handler):
    """Writes every epoch that has been trained to a file, at once; sends Ctrl-C some time after one of them."""

    def __init__(self, file, n_more, seconds):
        super().__init__()
        self.file, self.n_more, self.seconds = file, n_more, seconds
        signal.signal(signal.SIGPROF, lambda *_: os.killpg(0, signal.SIGINT))

    def count_down(self):
        """Set the clock when it is time: processor time, which other processes do not change."""
        if self.n_more == 0:
            signal.setitimer(signal.ITIMER_PROF, self.seconds)
        self.n_more -= 1

    def emit(self, record):
        """Write one down."""
        if record.msg.startswith("%s: epoch"):
            os.write(self.file, f"{json.dumps(record.args[:2])}\n".encode())
            self.count_down()


def run_command(arguments, log, n_more, seconds):
    """Run the command line in this process, which a test has forked, and leave with its exit code."""
    from holdfast.cli import main

    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the command begins
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(os.open(log.with_suffix(".err"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    logger = logging.getLogger("holdfast.neural.training")
    logger.setLevel(logging.DEBUG)
    handler = Epochs(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), n_more, seconds)
    logger.addHandler(handler)
    logger.propagate = False
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)  # pytest has others in their place
    sys.argv = ["holdfast", *map(str, arguments)]
    code = 99
    try:
        log.with_suffix(".ready").touch()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        handler.count_down()
        main()
    except SystemExit as problem:
        code = problem.code or 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def start(arguments, log, n_more=-1, seconds=0.0):
    """Return the process number of a fork that runs a command, and cuts it some time after n_more epochs if any."""
    ready = log.with_suffix(".ready")
    ready.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        run_command(arguments, log, n_more, seconds)
    while not ready.exists():
        time.sleep(0.002)
    return child


def epochs(log):
    """Return how often each (stage, epoch) was written down."""
    return Counter(log.read_text().splitlines())


def wait_for_end(child, seconds=60):
    """Return a child's exit code, or None when it has not ended in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def members(session):
    """Return the living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def wait_until_gone(session):
    """Wait for a session to be empty: what helps to start processes leaves a moment after its parent."""
    deadline = time.monotonic() + 30
    while members(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert members(session) == []


def interrupt_until_done(arguments, log, n_interrupts=0, seed=0):
    """Interrupt a command again and again, then let it end; return how often it was, and how often each epoch came."""
    rng = np.random.default_rng(seed)
    n_cut = 0
    while True:
        later = 0.1 if n_cut else 0.002  # the first comes soon, so that no machine is done before it
        when = (int(rng.integers(0, 3)), rng.uniform(0.001, later)) if n_cut < n_interrupts else ()
        child = start(arguments, log, *when)
        code = wait_for_end(child, 300)
        if code == 0:
            return n_cut, epochs(log)
        said = log.with_suffix(".err").read_text().splitlines()
        assert (code, said[-1:]) == (130, ["interrupted"]), said
        assert not any("Traceback" in line for line in said)
        wait_until_gone(child)
        n_cut += 1


def assert_cut_without_loss(cut, n_interrupts, whole):
    """Check that no epoch was trained twice; a command may end before its last interrupts are sent."""
    n_cut, seen = cut
    assert 0 < n_cut <= n_interrupts
    assert seen <= whole  # one that was cut after it was saved was not written down


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Import what the commands need once, before the forks."""
    for name in ("torch", "holdfast.tables.classifier", "holdfast.neural.estimator", "holdfast.lab.runner"):
        importlib.import_module(name)


pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


@pytest.fixture
def experiment(memory_folder):
    """Return an experiment file of two trainings."""
    path = memory_folder / "cut.toml"
    path.write_text(SWEEP)
    return path


def comparable(folder):
    """Return the records of a store without what a clock said."""

    def timeless(value):
        if isinstance(value, dict):
            return {k: timeless(v) for k, v in value.items() if k not in ("seconds", "cpu_seconds", "started")}
        return [timeless(item) for item in value] if isinstance(value, list) else value

    from holdfast.lab.store import RunStore

    return timeless(RunStore(folder).records())


def test_an_interrupted_sweep_loses_one_epoch_at_most(experiment, memory_folder):
    """Cut several times in this process, a sweep ends with the records of one that was left alone."""
    arguments = ("sweep", experiment, "--jobs", 0, "--out")
    _, whole = interrupt_until_done((*arguments, memory_folder / "whole"), memory_folder / "whole.log")
    cut = interrupt_until_done((*arguments, memory_folder / "cut"), memory_folder / "cut.log", 4, 1)
    assert_cut_without_loss(cut, 4, whole)
    assert comparable(memory_folder / "cut") == comparable(memory_folder / "whole")
    assert not any((memory_folder / "cut" / "checkpoints").iterdir())


def test_a_worker_that_is_told_to_end_keeps_its_last_epoch(experiment, memory_folder):
    """Ctrl-C during a sweep with a process of its own: what was trained is in a checkpoint, whichever epoch it was."""
    out, log = memory_folder / "out", memory_folder / "log"
    experiment.write_text(SWEEP.replace("max_epochs = 23", "max_epochs = 4003"))
    child = start(("sweep", experiment, "--jobs", 1, "--out", out), log)
    deadline = time.monotonic() + 120
    while not list(out.glob("checkpoints/*/training-0001")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(child, signal.SIGINT)
    assert wait_for_end(child) == 130
    wait_until_gone(child)
    from holdfast.saving.checkpoints import read_checkpoint

    (folder,) = out.glob("checkpoints/*")
    epoch, seen = read_checkpoint(folder / "training-0001")[0]["epoch"], read_checkpoint(folder / "selection")["n_seen"]
    assert 5 <= epoch <= seen <= epoch + 1


@pytest.fixture
def table(memory_folder):
    """Return a small table."""
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{'ab'[i % 2]},{int(x + rng.normal() > 0)}" for i, x in enumerate(rng.normal(size=60))]
    path = memory_folder / "table.csv"
    path.write_text("\n".join(["x,site,y", *rows]))
    return path


def interrupt_fits(table, folder, monkeypatch, n_interrupts, seed):
    """Fit a network by the command line, left alone and interrupted; check that both are the same."""
    from holdfast.estimators.named import ESTIMATORS

    monkeypatch.setitem(ESTIMATORS["mlp"].settings, "steps_per_epoch", 2)
    found = {}
    for name, n in (("whole", 0), ("cut", n_interrupts)):
        arguments = (
            "fit",
            table,
            "--label",
            "y",
            "--environment",
            "site",
            "--estimator",
            "mlp",
            "--out",
            folder / name,
        )
        found[name] = interrupt_until_done(arguments, folder / f"{name}.log", n, seed)
        assert not (folder / f"{name}.unfinished").exists()
    weights = [{p.name: p.read_bytes() for p in (folder / name).rglob("*.safetensors")} for name in ("whole", "cut")]
    assert weights[0] != {}
    assert weights[0] == weights[1]
    assert_cut_without_loss(found["cut"], n_interrupts, found["whole"][1])


def test_an_interrupted_fit_loses_one_epoch_at_most(table, memory_folder, monkeypatch):
    """The same command goes on, and ends with the same bytes as a fit that was left alone."""
    interrupt_fits(table, memory_folder, monkeypatch, 3, 1)


@pytest.mark.slow
def test_ctrl_c_twenty_times_during_fit(table, memory_folder, monkeypatch):
    """Exit code 130, nobody left, no epoch trained twice, and the same bytes in the end."""
    interrupt_fits(table, memory_folder, monkeypatch, 20, 2)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_ctrl_c_twenty_times_during_sweep(experiment, memory_folder, part):
    """Four times five: the same."""
    sweep = ("sweep", experiment, "--jobs", 0, "--out")
    _, whole = interrupt_until_done((*sweep, memory_folder / "whole"), memory_folder / "whole.log")
    cut = interrupt_until_done((*sweep, memory_folder / "cut"), memory_folder / "cut.log", 5, 30 + part)
    assert_cut_without_loss(cut, 5, whole)
    assert comparable(memory_folder / "cut") == comparable(memory_folder / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_ctrl_c_ten_times_during_reproduce(memory_folder, part):
    """Two times five: the same."""
    reproduce = ("reproduce", "table2", "--quick", "--out")
    _, whole = interrupt_until_done((*reproduce, memory_folder / "whole"), memory_folder / "whole.log")
    cut = interrupt_until_done((*reproduce, memory_folder / "cut"), memory_folder / "cut.log", 5, 40 + part)
    assert_cut_without_loss(cut, 5, whole)


@pytest.mark.slow
def test_ctrl_c_in_real_processes(table, experiment, memory_folder):
    """From the first moments of a command that was started by its name, with processes of its own: 130, nobody left."""
    rng = np.random.default_rng(5)
    commands = [
        ["sweep", experiment, "--jobs", "2", "--out", memory_folder / "out"],
        ["fit", table, "--label", "y", "--environment", "site", "--estimator", "forest", "--jobs", "2", "--out"],
        ["reproduce", "table2", "--quick", "--jobs", "2", "--out", memory_folder / "reproduced"],
    ]
    commands[1].append(memory_folder / "forest")
    for attempt in range(9):
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", *map(str, commands[attempt % 3])]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)  # fmt: skip
        time.sleep(rng.uniform(0.5, 8))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            code, said = process.wait(timeout=120), process.stderr.read().splitlines()
            # While Python itself starts, the signal ends it; a shell says 130 for that, too. What has ended is done.
            assert code in (0, -signal.SIGINT) or (code, said[-1]) == (130, "interrupted"), said
        wait_until_gone(process.pid)
        process.stderr.close()
        shutil.rmtree(memory_folder / "forest", ignore_errors=True)
