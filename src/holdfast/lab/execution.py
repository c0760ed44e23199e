"""Making many runs: claimed one by one, kept when finished, recorded when failed, by processes of one thread each."""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdfast.exceptions import SavedModelError
from holdfast.extras import require
from holdfast.lab.config import RunConfig
from holdfast.lab.grids import PlannedRun, estimate
from holdfast.lab.inputs import find_changed
from holdfast.lab.store import RunStore

Outcome = Literal["done", "failed", "elsewhere"]
WAS_THERE = "was there"


@dataclass(frozen=True)
class Progress:
    """How far a sweep has come."""

    n_runs: int
    n_done: int  # finished, also by earlier or other sweeps
    n_failed: int
    n_running: int
    elapsed: float  # seconds
    remaining: float  # seconds, as long as runs like these took, or a guess
    last: str = ""  # what has just happened

    @property
    def n_left(self) -> int:
        """Runs that have not begun here."""
        return self.n_runs - self.n_done - self.n_failed - self.n_running


@dataclass(frozen=True)
class SweepResult:
    """What became of the runs."""

    n_runs: int
    n_done: int
    n_new: int  # of these, finished by this sweep
    failures: tuple[tuple[PlannedRun, str], ...] = ()  # with one line each
    seconds: float = 0.0

    def reader(self, store: RunStore) -> Callable[[str], dict[str, Any] | None]:
        """Return what reads the store's records but those of failed runs, which may be damaged or of other data."""
        failed = {run.config.identity for run, _ in self.failures}
        return functools.cache(lambda identity: None if identity in failed else store.read(identity))


@dataclass(eq=False)
class Tally:
    """Counts while a sweep runs, and who is told."""

    runs: Sequence[PlannedRun]
    jobs: int
    tell: Callable[[Progress], None]
    n_done: int = 0
    n_new: int = 0
    expected: dict[str, float] = field(default_factory=dict)  # seconds of each run that is left
    measured: list[tuple[float, float]] = field(default_factory=list)  # expected and real seconds
    failures: list[tuple[PlannedRun, str]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def finished(self, run: PlannedRun, outcome: Outcome, message: str, seconds: float, n_running: int) -> None:
        """Count a run that is done or has failed."""
        expected = self.expected.pop(run.config.identity, 0.0)
        if outcome == "done":
            self.n_done += 1
            if message != WAS_THERE:
                self.n_new += 1
                self.measured.append((expected, seconds))
        else:
            self.failures.append((run, message))
        self.report(f"{run.name} seed {run.config.seed}: {message or f'{seconds:.0f} s'}", n_running)

    def waits(self, run: PlannedRun, n_running: int) -> None:
        """Report a run that another sweep is running."""
        self.report(f"{run.name} seed {run.config.seed}: another sweep is running it", n_running)

    def report(self, last: str, n_running: int) -> None:
        """Tell how far it has come."""
        guessed = sum(expected for expected, _ in self.measured)
        pace = sum(seconds for _, seconds in self.measured) / guessed if guessed else 1.0
        remaining = pace * sum(self.expected.values()) / max(min(self.jobs, len(self.expected)), 1)
        elapsed = time.perf_counter() - self.started
        self.tell(Progress(len(self.runs), self.n_done, len(self.failures), n_running, elapsed, remaining, last))

    def result(self) -> SweepResult:
        """Return the final counts."""
        seconds = time.perf_counter() - self.started
        return SweepResult(len(self.runs), self.n_done, self.n_new, tuple(self.failures), seconds)


def attempt(config: RunConfig, store: RunStore, folder: Path | None) -> tuple[Outcome, str, float]:
    """Make a run unless it is finished or another process has it; return what happened, a message and the seconds."""
    identity = config.identity
    start = time.perf_counter()
    if store.has(identity):
        return "done", WAS_THERE, 0.0
    with store.claim(identity) as mine:
        if not mine:
            return "elsewhere", "", 0.0
        if store.has(identity):  # finished between the look and the claim
            return "done", WAS_THERE, 0.0
        try:
            from holdfast.lab.runner import run

            checkpoints = store.checkpoints(identity)
            store.write(identity, run(config, folder=folder, cache=store.folder, checkpoints=checkpoints))
            shutil.rmtree(checkpoints, ignore_errors=True)
        except Exception as problem:  # whatever a run dies of, the others go on
            message = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            store.write_failure(identity, failure_record(config, message, traceback.format_exc()))
            return "failed", message, time.perf_counter() - start
    return "done", "", time.perf_counter() - start


def failure_record(config: RunConfig, message: str, story: str) -> dict[str, object]:
    """Return what is kept of a run that failed."""
    return {"identity": config.identity, "config": config.as_dict(), "error": message, "traceback": story}


def run_all(
    runs: Sequence[PlannedRun],
    store: RunStore,
    *,
    folder: Path | None = None,
    jobs: int = 1,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> SweepResult:
    """Make all runs that are not finished yet.

    Parameters
    ----------
    runs : sequence of PlannedRun
    store : RunStore
        Other sweeps may work in it at the same time. Each run is executed once: this sweep waits for runs of the
        others, and takes them over when the others die.
    folder : Path, optional
        Where the files of data sets are.
    jobs : int
        Processes, each with one thread; 0 makes the runs in this process.
    tell : callable
        Called with a `Progress` whenever something happens.
    """
    tally = Tally(runs, jobs, tell)
    waiting = unfinished(store, folder, tally)
    if waiting and jobs == 0:
        _run_here(waiting, store, folder, tally)
    elif waiting:
        from holdfast.lab.workers import WorkerPool

        with contextlib.closing(WorkerPool(min(jobs, len(waiting)), store, folder)) as pool:
            pool.work(waiting, tally)
    return tally.result()


def unfinished(store: RunStore, folder: Path | None, tally: Tally) -> list[PlannedRun]:
    """Count the runs that are finished, and return the others; a finished one that cannot be used is a failure."""
    known = look_up(tally.runs, store, folder)
    tally.n_done = known.n_done
    for run, problem in known.failures:
        tally.finished(run, "failed", problem, 0.0, 0)
    waiting = [run for run in tally.runs if not store.has(run.config.identity)]
    if waiting:
        seconds = estimate(waiting, store.records(damaged="skip")).each
        tally.expected = {run.config.identity: value for run, value in zip(waiting, seconds, strict=True)}
    return waiting


def look_up(runs: Sequence[PlannedRun], store: RunStore, folder: Path | None) -> SweepResult:
    """Count the runs that are finished, and make none; a finished one that cannot be used is a failure."""
    there = [run for run in runs if store.has(run.config.identity)]
    problems = [(run, _find_problem(run, store, folder)) for run in there]
    failures = tuple((run, problem) for run, problem in problems if problem is not None)
    return SweepResult(len(runs), len(there) - len(failures), 0, failures)


def _find_problem(run: PlannedRun, store: RunStore, folder: Path | None) -> str | None:
    """Return why a finished run cannot be used, and what to do, or None."""
    path = store.path(run.config.identity)
    try:
        changed = find_changed(store.read(run.config.identity) or {}, folder)
    except SavedModelError:
        return f"finished, but its record is damaged. Restore {path}, or delete it to make the run again"
    if changed is not None:
        return f"finished, but {changed} has changed since. Use another --out, or delete {path}"
    return None


def _run_here(waiting: list[PlannedRun], store: RunStore, folder: Path | None, tally: Tally) -> None:
    """Make the runs one after the other in this process."""
    while waiting:
        later = []
        for run in waiting:
            tally.report(f"{run.name} seed {run.config.seed}: started", 1)
            outcome, message, seconds = attempt(run.config, store, folder)
            if outcome == "elsewhere":
                later.append(run)
                tally.waits(run, 0)
            else:
                tally.finished(run, outcome, message, seconds, 0)
        waiting = later
        if waiting:
            time.sleep(1.0)


def run_on_ray(
    runs: Sequence[PlannedRun],
    store: RunStore,
    *,
    folder: Path | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> SweepResult:
    """Make all runs that are not finished yet, as tasks of one processor each.

    Parameters
    ----------
    runs, store, folder, tell
        As for `holdfast.lab.execution.run_all`. The folders must be shared by all machines.
    """
    ray = require("ray", extra="ray", what="Sweeps on a cluster")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    task = ray.remote(num_cpus=1, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})(_attempt)
    tally = Tally(runs, max(int(ray.cluster_resources().get("CPU", 1)), 1), tell)
    places = (str(store.folder.resolve()), None if folder is None else folder.resolve())
    tasks = {task.remote(run.config, *places): run for run in unfinished(store, folder, tally)}
    while tasks:
        ready, _ = ray.wait(list(tasks), num_returns=1)
        run = tasks.pop(ready[0])
        try:
            outcome, message, seconds = ray.get(ready[0])
        except ray.exceptions.RayError as problem:
            outcome, message, seconds = "failed", f"{type(problem).__name__}: {str(problem)[:200]}", 0.0
            store.write_failure(run.config.identity, failure_record(run.config, message, str(problem)))
        if outcome == "elsewhere":
            tally.waits(run, len(tasks))
            time.sleep(1.0)
            tasks[task.remote(run.config, *places)] = run
        else:
            tally.finished(run, outcome, message, seconds, len(tasks))
    return tally.result()


def _attempt(config: RunConfig, store_folder: str, folder: Path | None) -> tuple[Any, ...]:
    """Make one run; executed on the cluster."""
    return attempt(config, RunStore(store_folder), folder)
