"""Sweeps that share a folder, are killed, started twice, and have runs that fail: nothing lost, nothing made twice."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast.lab.execution import run_all
from holdfast.lab.experiments import read_experiment
from holdfast.lab.store import RunStore
from holdfast.saving.files import inject_faults
from holdfast.saving.json_files import read_record

CELLS = """
name = "cells"
seeds = {seeds}
[run]
dataset = "toy"
dataset_options = {{n_rows = 20, test_etas = [1.0]}}
estimator = "logistic"
validations = ["train"]
[[methods]]
method = "erm"
dropout = {points}
"""
TRAININGS = """
name = "trainings"
seeds = [0, 1]
[run]
dataset = "toy"
dataset_options = {n_rows = 40, test_etas = [1.0]}
estimator = "mlp"
steps_per_epoch = 2
batch_size = 5
max_epochs = 12
patience = 4
precision = "fp32"
[[methods]]
method = "erm"
[[methods]]
method = "pi"
"""


class Sweep:
    """A sweep in a process of its own: started by its name, with workers, or forked, as its own worker."""

    def __init__(self, file, out, log, *, forked=False, jobs=1, preexec_fn=None):
        self.log = log
        arguments = ["sweep", str(file), "--out", str(out), "--jobs", "0" if forked else str(jobs)]
        if forked:
            self.pid = os.fork()
            if self.pid == 0:
                run_command(arguments, log)
        else:
            command = [sys.executable, "-c", "from holdfast.cli import main; main()", *arguments]
            with open(log, "w") as errors:
                self.process = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=preexec_fn
                )
            self.pid = self.process.pid
        self.forked, self.code = forked, None

    def poll(self):
        """Return the exit code, None while it runs."""
        if self.code is None:
            if self.forked:
                done, status = os.waitpid(self.pid, os.WNOHANG)
                self.code = os.waitstatus_to_exitcode(status) if done else None
            else:
                self.code = self.process.poll()
        return self.code

    def wait(self, seconds=600):
        """Return the exit code; None when it has not ended in time."""
        deadline = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.code

    def kill(self):
        """End it as nothing can prevent."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def workers(self):
        """Return the numbers of the processes that make its runs."""
        if self.forked:
            return [self.pid]
        with contextlib.suppress(OSError):
            numbers = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            return [int(n) for n in numbers if b"spawn_main" in Path(f"/proc/{n}/cmdline").read_bytes()]
        return []

    def said(self):
        """Return what it wrote to stderr."""
        return self.log.read_text() if self.log.exists() else ""  # killed before it could say a word


def run_command(arguments, log):
    """Run the command line in this process, a fork, and leave with its exit code."""
    from holdfast.cli import main

    code = 99
    try:
        with open(os.devnull, "w") as nowhere, open(log, "w") as errors:
            sys.stdout, sys.stderr, sys.argv = nowhere, errors, ["holdfast", *arguments]
            main()
    except SystemExit as problem:
        code = problem.code or 0
    finally:
        os._exit(code)


@pytest.fixture
def start_sweep(memory_folder):
    """Return a function that starts a sweep; all are gone at the end."""
    started = []

    def start(file, out, **options):
        started.append(Sweep(file, out, memory_folder / f"{len(started)}.err", **options))
        return started[-1]

    yield start
    for sweep in started:
        sweep.kill()
        sweep.wait()


def watch_records(folder, seen):
    """Note when each record appeared under its name, and refuse one that was written again."""
    for entry in os.scandir(folder / "runs"):
        if entry.name.endswith(".json"):
            status = entry.stat()
            assert seen.setdefault(entry.name, (status.st_ino, status.st_mtime_ns)) == (
                status.st_ino,
                status.st_mtime_ns,
            )


def share_folder(file, out, start_sweep, *, n_sweeps, n_kills, seed, forked):
    """Let sweeps of the same file work in one folder, kill them or their workers, start the sweep twice more."""
    rng = np.random.default_rng(seed)
    sweeps = [start_sweep(file, out, forked=forked) for _ in range(n_sweeps)]
    planned = {f"{run.config.identity}.json" for run in read_experiment(file).runs}
    seen, n_killed = {}, 0
    moments = np.sort(rng.uniform(0.02, 0.9, n_kills)) * len(planned)  # by how many cells are done
    while any(sweep.poll() is None for sweep in sweeps):
        time.sleep(0.01)
        if (out / "runs").is_dir():
            watch_records(out, seen)
        if n_killed < n_kills and len(seen) >= moments[n_killed]:
            alive = [sweep for sweep in sweeps if sweep.poll() is None]
            workers = [worker for sweep in alive for worker in sweep.workers()]
            if workers:
                os.kill(workers[rng.integers(len(workers))], signal.SIGKILL)
                n_killed += 1
                if forked:
                    sweeps.append(start_sweep(file, out, forked=True))
    again = [start_sweep(file, out, forked=forked) for _ in range(2)]
    assert [sweep.wait() for sweep in again] == [0, 0], again[0].said()
    watch_records(out, seen)
    assert {path.name for path in (out / "runs").iterdir() if path.suffix} == planned  # none lost, none beside
    records = [read_record(out / "runs" / name) for name in sorted(planned)]  # none torn
    assert {f"{record['identity']}.json" for record in records} == planned
    assert list((out / "failed").iterdir()) == []
    assert not any("exists already" in sweep.said() for sweep in [*sweeps, *again])  # none made twice
    return len(records), n_killed


def test_sweeps_share_a_folder(start_sweep, memory_folder, tmp_path):
    """Two sweeps of the same 12 cells, one worker killed, started twice again: every cell once."""
    file = tmp_path / "cells.toml"
    file.write_text(CELLS.format(seeds=[0, 1, 2], points=[0.0, 0.1, 0.2, 0.3]))
    found = share_folder(file, memory_folder / "out", start_sweep, n_sweeps=2, n_kills=1, seed=1, forked=False)
    assert found == (12, 1)


@pytest.mark.slow
def test_eight_sweeps_share_a_thousand_cells(start_sweep, memory_folder, tmp_path):
    """Eight processes make the same 1,000 cells; 40 are killed and replaced; twice again: every cell once."""
    import holdfast.lab.runner  # noqa: F401 - once, before the forks

    file = tmp_path / "cells.toml"
    points = [round(0.01 * point, 2) for point in range(50)]
    file.write_text(CELLS.format(seeds=list(range(20)), points=points))
    found = share_folder(file, memory_folder / "out", start_sweep, n_sweeps=8, n_kills=40, seed=2, forked=True)
    assert found == (1000, 40)


# -- a sweep that is killed and continued ------------------------------------------------------------------------------


def dying(n_steps):
    """Return a fault that kills its process before a step."""
    counter = iter(range(n_steps))

    def fault(name, path):
        if next(counter, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return fault


def sweep_here(file, out, n_steps):
    """Make an experiment's runs in this process, and return a digest of their records without what a clock said."""
    with inject_faults(dying(n_steps)):
        result = run_all(read_experiment(file).runs, RunStore(out), jobs=0)
    assert result.failures == ()
    return hashlib.sha256(json.dumps(timeless(RunStore(out).records()), sort_keys=True).encode()).hexdigest()


def timeless(value):
    """Return a record without its times."""
    if isinstance(value, dict):
        return {key: timeless(v) for key, v in value.items() if key not in ("seconds", "cpu_seconds", "started")}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def kill_sweeps(folder, in_child, n_kills, seed):
    """Kill sweeps of networks, half of the times inside a write, until they end; return kills and equal ends."""
    import holdfast.lab.runner  # noqa: F401 - once, before the children

    file = folder / "trainings.toml"
    file.write_text(TRAININGS)
    expected = in_child(sweep_here, file, folder / "undisturbed", 10**9).text
    assert len(expected) == 64, expected
    rng = np.random.default_rng(seed)
    n_done = n_ends = n_equal = 0
    while n_done < n_kills:
        out = folder / f"out-{n_ends}"
        while True:
            inside = n_done % 2 == 0
            n_steps = int(rng.integers(0, 150)) if inside else 10**9
            child = in_child(sweep_here, file, out, n_steps, kill_after=None if inside else rng.uniform(0.05, 0.6))
            if len(child.text) == 64:
                break
            assert child.ended_by == signal.SIGKILL, child.text
            n_done += 1
        n_ends += 1
        n_equal += child.text == expected
    return n_done, n_ends, n_equal


def test_a_killed_sweep_goes_on_bit_by_bit(memory_folder, in_child):
    """Killed at four moments, two of them inside a write, a sweep ends with the records of an undisturbed one."""
    n_kills, n_ends, n_equal = kill_sweeps(memory_folder, in_child, 4, seed=1)
    assert n_kills >= 4
    assert n_ends == n_equal


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_sweep_killed_often_goes_on_bit_by_bit(memory_folder, in_child, part):
    """Of 10 times 20 kills, half of them inside a write, every sweep ends with the same records."""
    n_kills, n_ends, n_equal = kill_sweeps(memory_folder, in_child, 20, seed=100 + part)
    assert n_kills >= 20
    assert n_ends == n_equal


# -- runs that fail ----------------------------------------------------------------------------------------------------


FAILING = """
name = "failing"
[run]
dataset = "toy"
dataset_options = {n_rows = 20, test_etas = [1.0]}
estimator = "logistic"
[[methods]]
name = "killed"
method = "balanced"
[[methods]]
name = "raises"
method = "irm"
[[methods]]
name = "too large"
method = "erm"
dataset_options = {n_rows = 4000000000}
[[methods]]
name = "good"
method = "erm"
dropout = [0.0, 0.2]
"""


def test_a_failing_run_takes_no_other_along(start_sweep, memory_folder, tmp_path):
    """One's process is killed, one raises, one wants more memory than there is: three failures with their stories.

    The others are done, and the exit code is 1.
    """
    file, out = tmp_path / "failing.toml", memory_folder / "out"
    file.write_text(FAILING)

    def limit_memory():
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))

    sweep = start_sweep(file, out, preexec_fn=limit_memory)
    while sweep.poll() is None and not sweep.workers():
        time.sleep(0.01)
    os.kill(sweep.workers()[0], signal.SIGKILL)
    assert sweep.wait() == 1, sweep.said()
    runs = {run.name: run.config.identity for run in read_experiment(file).runs}
    store = RunStore(out)
    assert len(store.records()) == 2
    assert store.has(runs["good"])
    stories = {name: read_record(store.failure_path(runs[name])) for name in ("killed", "raises", "too large")}
    assert stories["raises"]["error"].startswith("ParameterError: The 'estimator' parameter of IRMClassifier")
    assert "MemoryError: Unable to allocate" in stories["too large"]["error"]
    for name in ("raises", "too large"):
        assert stories[name]["traceback"].startswith("Traceback (most recent call last)")
    assert stories["killed"]["error"] == "the process died (SIGKILL)"
    assert stories["killed"]["traceback"].startswith("No traceback: the process died (SIGKILL).")
    assert "3 of 5 runs failed" in sweep.said()


pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
