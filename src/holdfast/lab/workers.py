"""Worker processes: one thread each, handed one run at a time, replaced when they die, gone when we are."""

from __future__ import annotations

import collections
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from holdfast.lab.execution import Tally, attempt, failure_record
from holdfast.lab.grids import PlannedRun
from holdfast.lab.store import RunStore

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
_PATIENCE = 5.0  # seconds a process has to end before it is killed
_PAUSE = 1.0  # seconds between two looks at runs that another sweep has in work


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    run: PlannedRun | None = None


class WorkerPool:
    """Processes that make runs.

    Parameters
    ----------
    size : int
        Number of processes.
    store : RunStore
    folder : Path or None
        Where the files of data sets are.
    """

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
        """Make the runs."""
        queue, later = collections.deque(runs), collections.deque[PlannedRun]()
        while queue or later or self._n_running():
            self._hand_out(queue, tally)
            for worker in self._ready():
                self._receive(worker, later, tally)
            if later and not queue:  # another sweep has them in work; they are tried again, in case it dies
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
        with _one_thread():
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
                tally.report(f"{worker.run.name} seed {worker.run.config.seed}: started", self._n_running())

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
            outcome, seconds = "failed", 0.0
            story = f"No traceback: {message}. Something outside ended it, or the system had no memory left."
            self._store.write_failure(run.config.identity, failure_record(run.config, message, story))
            if self._store.has(run.config.identity):  # finished all the same, before it died or by another sweep
                outcome, message = "done", ""
            worker.connection.close()
            self._workers[self._workers.index(worker)] = self._start()
        if outcome == "elsewhere":
            later.append(run)
            tally.waits(run, self._n_running())
        else:
            tally.finished(run, outcome, message, seconds, self._n_running())


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started in the block compute with one thread."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _serve(connection: Connection, store_folder: Path, folder: Path | None) -> None:
    """Make the runs that come, until there are no more. Runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the sweep decides
    signal.signal(signal.SIGTERM, _interrupt)  # and decides by this: a training keeps its last whole epoch first
    threading.Thread(target=_end_with_parent, daemon=True).start()
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
