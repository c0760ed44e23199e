"""Execute many runs, each once, in processes of one thread each or on a cluster."""

from __future__ import annotations

import collections
import contextlib
import functools
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from holdfast.datasets import load_dataset
from holdfast.exceptions import HoldfastError, SavedModelError
from holdfast.extras import require
from holdfast.lab.experiments import PlannedRun, RunConfig
from holdfast.lab.inputs import find_changed
from holdfast.lab.store import RunStore
from holdfast.parallel import MOST_DEATHS, is_ray, on_cluster, sharing

Outcome = Literal["done", "failed", "elsewhere"]
WAS_THERE = "was there"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
_PATIENCE = 5.0  # seconds a process has to end before it is killed
_PAUSE = 1.0  # seconds between two looks at runs of another sweep


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

    def reader(self, store: RunStore) -> Callable[[str], dict[str, Any] | None]:
        """Return what reads the store's records but those of failed runs, which may be damaged or of other data."""
        failed = {run.config.identity for run, _ in self.failures}
        return functools.cache(lambda identity: None if identity in failed else store.read(identity))


@dataclass(eq=False)
class Tally:
    """Counts while a sweep runs; `on_progress` is called with each change."""

    runs: Sequence[PlannedRun]
    jobs: int
    on_progress: Callable[[Progress], None]
    n_done: int = 0
    n_new: int = 0
    expected: dict[str, float] = field(default_factory=dict)  # seconds of each run that is left
    measured: list[tuple[float, float]] = field(default_factory=list)  # expected and real seconds
    failures: list[tuple[PlannedRun, str]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def count(self, run: PlannedRun, outcome: Outcome, message: str, seconds: float, n_running: int) -> bool:
        """Count a run that is done or has failed; return whether another sweep is running it, so that it waits."""
        if outcome == "elsewhere":
            self.report(run, "another sweep is running it", n_running)
            return True
        expected = self.expected.pop(run.config.identity, 0.0)
        if outcome == "done":
            self.n_done += 1
            if message != WAS_THERE:
                self.n_new += 1
                self.measured.append((expected, seconds))
        else:
            self.failures.append((run, message))
        self.report(run, message or f"{seconds:.0f} s", n_running)
        return False

    def report(self, run: PlannedRun, news: str, n_running: int) -> None:
        """Report what has happened to a run, and how far the sweep has come."""
        guessed = sum(expected for expected, _ in self.measured)
        pace = sum(seconds for _, seconds in self.measured) / guessed if guessed else 1.0
        remaining = pace * sum(self.expected.values()) / max(min(self.jobs, len(self.expected)), 1)
        elapsed = time.perf_counter() - self.started
        last = f"{run.name} seed {run.config.seed}: {news}"
        self.on_progress(Progress(len(self.runs), self.n_done, len(self.failures), n_running, elapsed, remaining, last))

    def result(self) -> SweepResult:
        """Return the final counts."""
        return SweepResult(len(self.runs), self.n_done, self.n_new, tuple(self.failures))


def attempt(config: RunConfig, store: RunStore, folder: Path | None) -> tuple[Outcome, str, float]:
    """Execute a run unless it is finished or another process has it; return the outcome, a message and the seconds."""
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
        except Exception as problem:  # whatever ends a run, the others continue
            message = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            _write_failure(store, config, message, traceback.format_exc())
            return "failed", message, time.perf_counter() - start
    return "done", "", time.perf_counter() - start


def _write_failure(store: RunStore, config: RunConfig, message: str, trace: str) -> None:
    record = {"identity": config.identity, "config": config.as_dict(), "error": message, "traceback": trace}
    store.write_failure(config.identity, record)


def _died(store: RunStore, config: RunConfig, message: str, trace: str) -> tuple[Outcome, str, float]:
    """Record that the process of a run died, and return the outcome: it may have finished, or another sweep has."""
    _write_failure(store, config, message, trace)
    return ("done", "", 0.0) if store.has(config.identity) else ("failed", message, 0.0)


def run_all(
    runs: Sequence[PlannedRun],
    store: RunStore,
    *,
    folder: Path | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> SweepResult:
    """Execute all runs that are not finished yet, with data sets from `folder`, in `jobs` processes of one thread.

    0 jobs use this process; `cluster`, as in `on_cluster`, uses other machines, which must share the folders. Other
    sweeps may work in the store at the same time. Each run is executed once: this sweep waits for runs of the others,
    and takes them over when the others die.
    """
    if is_ray(cluster):
        with contextlib.redirect_stdout(sys.stderr), on_cluster(cluster):  # Ray prints who died to stdout
            return run_on_ray(runs, store, folder=folder, on_progress=on_progress)
    tally = Tally(runs, jobs, on_progress)
    waiting = unfinished(store, folder, tally)
    if waiting and cluster is not None:
        with on_cluster(cluster):
            _run_batches(waiting, store, folder, tally)
    elif waiting and jobs == 0:
        _run_batches(waiting, store, folder, tally, n_jobs=1)
    elif waiting:
        with contextlib.closing(WorkerPool(min(jobs, len(waiting)), store, folder)) as pool:
            pool.work(waiting, tally)
    return tally.result()


def unfinished(store: RunStore, folder: Path | None, tally: Tally) -> list[PlannedRun]:
    """Count the runs that are finished, and return the others; a finished one that cannot be used is a failure."""
    known = look_up(tally.runs, store, folder)
    tally.n_done = known.n_done
    for run, problem in known.failures:
        tally.count(run, "failed", problem, 0.0, 0)
    waiting = [run for run in tally.runs if not store.has(run.config.identity)]
    if waiting:
        seconds, _ = estimate(waiting, store.records(damaged="skip"))
        tally.expected = {run.config.identity: value for run, value in zip(waiting, seconds, strict=True)}
    return waiting


def look_up(runs: Sequence[PlannedRun], store: RunStore, folder: Path | None) -> SweepResult:
    """Count the runs that are finished, and run nothing; a finished one that cannot be used is a failure."""
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
        return f"finished, but its record is damaged. Restore {path}, or delete it to run again"
    if changed is not None:
        return f"finished, but {changed} has changed since. Use another --out, or delete {path}"
    return None


def _run_batches(
    waiting: list[PlannedRun], store: RunStore, folder: Path | None, tally: Tally, n_jobs: int | None = None
) -> None:
    """Execute the runs wherever joblib's active backend does; several at a time, counted when these are done."""
    with sharing((store.folder.resolve(), None if folder is None else folder.resolve()), n_jobs) as run_tasks:
        size = 4 * run_tasks.n_jobs if run_tasks.n_jobs > 1 else 1
        while waiting:
            now, waiting = waiting[:size], waiting[size:]
            for run in now:
                tally.report(run, "started", len(now))
            outcomes = run_tasks(_attempt_in, ((run.config,) for run in now))
            later = []
            for run, (outcome, message, seconds) in zip(now, outcomes, strict=True):
                if tally.count(run, outcome, message, seconds, 0):
                    later.append(run)
            waiting += later
            if later and len(later) == len(waiting):
                time.sleep(_PAUSE)


def _attempt_in(places: tuple[Path, Path | None], config: RunConfig) -> tuple[Outcome, str, float]:
    return attempt(config, RunStore(places[0]), places[1])


def run_on_ray(
    runs: Sequence[PlannedRun],
    store: RunStore,
    *,
    folder: Path | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> SweepResult:
    """Execute the runs that are not finished as tasks; all machines must share the folders.

    A task asks for the processors and GPUs that its run needs. Where its worker or its machine dies, Ray starts it
    again elsewhere. What a dead process had claimed is free again, and what it had finished is recorded, so that no run
    is lost or recorded twice; the same holds when this process dies and the sweep is started again.
    """
    ray = require("ray", extra="ray", what="Sweeps on a cluster")
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    places = (store.folder.resolve(), None if folder is None else folder.resolve())
    task = ray.remote(max_retries=MOST_DEATHS)(_attempt_in)
    tally = Tally(runs, max(int(ray.cluster_resources().get("CPU", 1)), 1), on_progress)

    def start(run: PlannedRun) -> Any:
        need = run.resources
        threads = {name: str(max(int(need.cpus), 1)) for name in _THREADS}
        options = {"num_cpus": need.cpus, "num_gpus": need.gpus, "runtime_env": {"env_vars": threads}}
        return task.options(**options).remote(places, run.config)

    waiting = unfinished(store, folder, tally)
    for run in waiting:
        if not _fits(run, ray.nodes()):
            need = run.resources
            tally.report(run, f"waits: no machine has {need.cpus:g} CPUs and {need.gpus:g} GPUs", 0)
    tasks = {start(run): run for run in waiting}
    while tasks:
        ready, _ = ray.wait(list(tasks), num_returns=1)
        run = tasks.pop(ready[0])
        try:
            outcome, message, seconds = ray.get(ready[0])
        except ray.exceptions.RayError as problem:
            message = f"{type(problem).__name__}: {str(problem)[:200]}"
            outcome, message, seconds = _died(store, run.config, message, str(problem))
        if tally.count(run, outcome, message, seconds, len(tasks)):
            time.sleep(_PAUSE)
            tasks[start(run)] = run
    return tally.result()


def _fits(run: PlannedRun, nodes: Sequence[dict[str, Any]]) -> bool:
    """Return whether a machine of the cluster has what a run needs; one that joins later may."""
    resources = [node["Resources"] for node in nodes if node["Alive"]]
    need = run.resources
    return any(has.get("CPU", 0) >= need.cpus and has.get("GPU", 0) >= need.gpus for has in resources)


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    run: PlannedRun | None = None


class WorkerPool:
    """Processes that execute runs: handed one at a time, replaced when they die, gone when this one is."""

    def __init__(self, size: int, store: RunStore, folder: Path | None) -> None:
        self._store, self._folder = store, folder
        self._context = multiprocessing.get_context("spawn")  # a forked torch can hang
        self._workers: list[_Worker] = []
        try:
            for _ in range(size):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def work(self, runs: list[PlannedRun], tally: Tally) -> None:
        """Execute the runs."""
        queue, later = collections.deque(runs), collections.deque[PlannedRun]()
        while queue or later or self._n_running():
            self._hand_out(queue, tally)
            for worker in self._ready():
                self._receive(worker, later, tally)
            if later and not queue:  # another sweep runs them; they are tried again, in case it dies
                time.sleep(_PAUSE)
                queue.extend(later)
                later.clear()

    def close(self) -> None:
        """End all processes, those in the middle of a run too."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for worker in self._workers:
            worker.process.join(max(deadline - time.monotonic(), 0.1))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
        self._workers.clear()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._store.folder, self._folder))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _n_running(self) -> int:
        return sum(worker.run is not None for worker in self._workers)

    def _hand_out(self, queue: collections.deque[PlannedRun], tally: Tally) -> None:
        """Give every idle worker a run."""
        for worker in self._workers:
            if worker.run is None and queue:
                worker.run = queue.popleft()
                with contextlib.suppress(OSError):  # it has died; that shows when we wait for it
                    worker.connection.send(worker.run.config)
                tally.report(worker.run, "started", self._n_running())

    def _ready(self) -> list[_Worker]:
        """Return the busy workers that have something to say, or have died."""
        busy = {worker.connection: worker for worker in self._workers if worker.run is not None}
        return [busy[connection] for connection in wait(list(busy)) if isinstance(connection, Connection)]

    def _receive(self, worker: _Worker, later: collections.deque[PlannedRun], tally: Tally) -> None:
        """Count what a worker did; replace it if it died."""
        run, worker.run = worker.run, None
        if run is None:
            return
        try:
            outcome, message, seconds = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            code = worker.process.exitcode or 0
            message = f"the process died ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"
            trace = f"No traceback: {message}. Something outside ended it, or the system had no memory left."
            outcome, message, seconds = _died(self._store, run.config, message, trace)
            worker.connection.close()
            self._workers[self._workers.index(worker)] = self._start()
        if tally.count(run, outcome, message, seconds, self._n_running()):
            later.append(run)


def _serve(connection: Connection, store_folder: Path, folder: Path | None) -> None:
    """Execute the runs that come, until there are no more: the main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the sweep decides
    signal.signal(signal.SIGTERM, _interrupt)  # and decides by this: a training keeps its last whole epoch first
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # for libraries that are loaded from now on
    threadpool_limits(limits=1)  # for those that are there
    store = RunStore(store_folder)
    try:
        while True:
            connection.send(attempt(connection.recv(), store, folder))
    except EOFError:  # no more runs
        return
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGTERM)


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    """Leave at once when the sweep is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# Seconds of one core for a thousand rows forward and backward, measured roughly; groups and evaluations multiply them.
_ROUGH = {"cnn": 0.9, "text_cnn": 0.6, "resnet50": 60.0, "mobilenet_v2": 15.0}
_SMALL = 0.02
_TYPICAL_EPOCHS = 50
_GROUPS = {"halves": 2, "pi": 6, "group_dro": 4, "oracle": 4}


def estimate(runs: Sequence[PlannedRun], records: Iterable[dict[str, Any]]) -> tuple[list[float], int]:
    """Return the seconds of each run on one core, and how many are guessed, since no run like it is finished."""
    finished: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        finished.setdefault(_kind(record["config"]), []).append(float(record["cpu_seconds"]))
    like = [finished.get(_kind(run.config.as_dict())) for run in runs]
    each = [
        float(np.mean(found)) if found else rough_seconds(run.config) for run, found in zip(runs, like, strict=True)
    ]
    return each, like.count(None)


def rough_seconds(config: RunConfig) -> float:
    """Return a guess from the number of rows that pass through the network."""
    if not config.is_network:
        return 5.0
    epochs = min(config.max_epochs, _TYPICAL_EPOCHS)
    rows = epochs * config.steps_per_epoch * config.batch_size * _GROUPS.get(config.method, 2)
    return 5.0 + rows / 1000 * _ROUGH.get(config.estimator, _SMALL)


def _kind(config: dict[str, Any]) -> tuple[Any, ...]:
    """Return what runs that take about as long have in common."""
    keys = ("dataset", "method", "estimator", "synthetic", "max_epochs", "steps_per_epoch", "batch_size", "backbone")
    return tuple(config.get(key) for key in keys)


@dataclass(frozen=True)
class Waiting:
    """Runs that are not finished, and how long they will take."""

    n_runs: int  # with the finished ones
    runs: tuple[PlannedRun, ...]
    each: list[float]  # seconds on one core
    n_guessed: int  # runs like which none is finished
    jobs: int

    @property
    def seconds(self) -> float:
        """Seconds until all are finished."""
        return sum(self.each) / max(self.jobs, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the runs with their settings, and the seconds."""
        runs = [
            {"identity": run.config.identity, "name": run.name, "config": run.config.as_dict()} for run in self.runs
        ]
        return {"n_runs": self.n_runs, "seconds": self.seconds, "runs": runs}


def find_waiting(runs: Sequence[PlannedRun], out: Path, jobs: int) -> Waiting:
    """Return the runs that a folder of records does not have yet; nothing is written there."""
    store = RunStore(out) if out.is_dir() else None
    records = store.records(damaged="skip") if store is not None else []
    waiting = tuple(run for run in runs if store is None or not store.has(run.config.identity))
    return Waiting(len(runs), waiting, *estimate(waiting, records), jobs)


def find_unreadable(runs: Sequence[PlannedRun], folder: Path | None) -> list[str]:
    """Load each data set of some runs once, with the first seed; return why those that cannot be loaded cannot."""
    problems, seen = [], set()
    for config in (run.config for run in runs if not run.config.synthetic):
        key = config.dataset, repr(config.dataset_options)
        if key in seen:
            continue
        seen.add(key)
        try:
            load_dataset(config.dataset, folder=folder, seed=config.seed, **config.dataset_options)
        except HoldfastError as problem:
            problems.append(f"Data set {config.dataset!r} cannot be loaded: {problem}")
    return problems
