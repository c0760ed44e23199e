"""Saved folders to harm, and children of this process to harm them in."""

import contextlib
import os
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

from holdfast.exceptions import HoldfastWarning
from holdfast.saving.models import save

DONE = os.environ.get("HOLDFAST_TORTURE")  # a file: the long tests that passed, which another run leaves out


def pytest_collection_modifyitems(config, items):
    """Leave out what has passed before."""
    done = (
        {line.partition(" ")[0] for line in Path(DONE).read_text().splitlines()}
        if DONE and Path(DONE).exists()
        else set()
    )
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_runtest_logreport(report):
    """Note what has passed, and its seconds."""
    if DONE and report.when == "call" and report.passed:
        with Path(DONE).open("a") as file:
            file.write(f"{report.nodeid} {report.duration:.0f}\n")


class Child:
    """What became of a forked child: its text, or the signal that ended it, and how much memory it asked for."""

    def __init__(self, text: str, ended_by: int, peak_mib: float) -> None:
        self.text, self.ended_by, self.peak_mib = text, ended_by, peak_mib


def run_in_child(function, *arguments, kill_after=None) -> Child:
    """Call a function in a fork of this process and return the text it returns; a crash is the child's alone."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            os.close(read_end)
            text = str(function(*arguments))
        except BaseException:
            text = traceback.format_exc()
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(write_end, f"{growth}\n{text}"[:60_000].encode())
        os._exit(0)
    os.close(write_end)
    if kill_after is not None:
        signal.sigtimedwait([], kill_after)
        os.kill(child, signal.SIGKILL)
    with open(read_end, "rb") as pipe:
        growth, _, text = pipe.read().decode().partition("\n")
    status = os.waitpid(child, 0)[1]
    return Child(text, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, float(growth or 0) / 1024)


@pytest.fixture
def in_child():
    """Return the function that runs another one in a child."""
    return run_in_child


@pytest.fixture
def memory_folder(tmp_path):
    """Return a folder in memory where there is one: a kill is the same there, and flushing costs nothing."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.fixture(scope="module")
def memory_folder_of_module(tmp_path_factory):
    """Return such a folder for all tests of a module."""
    with folder_in_memory(tmp_path_factory.mktemp("module")) as folder:
        yield folder


@contextlib.contextmanager
def folder_in_memory(otherwise):
    """Make a folder in memory, or use another one."""
    if not os.access("/dev/shm", os.W_OK):
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> Path:
    """Return a folder of saved models: linear, boosters that are installed, and others."""
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.svm import SVC

    from holdfast import PIClassifier
    from holdfast.estimators.named import ESTIMATORS
    from holdfast.fitting.estimators import BOOSTERS
    from holdfast.neural import NeuralClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.where(X[:, 0] + rng.normal(size=90) > 0, "yes", "no")
    environments = np.repeat(["a", "b", "c"], 30)
    folder = tmp_path_factory.mktemp("models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        save(PIClassifier(random_state=0).fit(X, y, environments=environments), folder / "linear")
        save(HistGradientBoostingClassifier(max_iter=3).fit(X, y), folder / "boosting")
        save(GradientBoostingClassifier(n_estimators=3).fit(X, y), folder / "stages")
        save(RandomForestClassifier(3, random_state=0).fit(X, y), folder / "forest")
        save(SVC().fit(X, y), folder / "svm")
        for name in BOOSTERS:
            if ESTIMATORS[name].is_installed():
                save(ESTIMATORS[name].make(n_estimators=3).fit(X, (y == "yes").astype(int)), folder / name)
        save(NeuralClassifier(max_epochs=1, steps_per_epoch=2, random_state=0).fit(X, y), folder / "network")
    return folder


@pytest.fixture
def copy_of(models, tmp_path):
    """Return a function that gives a fresh copy of a saved model."""

    def copied(name: str) -> Path:
        target = tmp_path / "copy"
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(models / name, target))

    return copied
