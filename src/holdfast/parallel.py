"""Run independent fits through joblib: in this process, in several processes, or on a Ray or Dask cluster.

joblib's active backend decides where fits run. ``with joblib.parallel_config(backend="ray")``, or Dask's backend, moves
every loop over fits to a cluster, and so does ``with on_cluster("ray://head:10001")``. Each fit has a seed of its own,
so that results do not depend on where it ran. Fits whose worker or machine died are started again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import sklearn
from sklearn.utils.parallel import Parallel, delayed

from holdfast.exceptions import ClusterError, ParameterError
from holdfast.extras import require

log = logging.getLogger(__name__)
DASK = ("tcp", "tls", "ucx", "ws", "wss")  # protocols of Dask's schedulers
MOST_DEATHS = 5  # how often a task is started again when its worker or its machine has died


def _call(function: Callable[..., Any], value: Any, task: tuple[Any, ...]) -> Any:
    return function(value, *task)


def _call_there(function: Callable[..., Any], value: Any, task: tuple[Any, ...], config: dict[str, Any]) -> Any:
    """Run a task on another machine, with the settings of scikit-learn that hold here."""
    with sklearn.config_context(**config):
        return function(value, *task)


def _announced(tasks: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Give the tasks and log which of how many begins, for the command line."""
    total = len(tasks) if isinstance(tasks, Sequence) else 0
    for number, task in enumerate(tasks, start=1):
        if total:
            log.debug("fit %d of %d", number, total, extra={"fit": (number, total)})
        yield task


@dataclass(frozen=True)
class Runner:
    """Runs tasks that share a value: ``run(function, tasks)`` returns ``function(value, *task)`` for each, in order."""

    parallel: Any
    value: Any
    is_far: ClassVar[bool] = False  # whether tasks run on a cluster

    @property
    def n_jobs(self) -> int:
        """Tasks that run at the same time."""
        return int(self.parallel._effective_n_jobs())

    def __call__(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Run the tasks."""
        if self.parallel.n_jobs == 1:  # joblib would take a tenth of a millisecond for each
            return [function(self.value, *task) for task in _announced(tasks)]
        found: list[Any] = self.parallel(delayed(_call)(function, self.value, task) for task in _announced(tasks))
        return found


@dataclass(frozen=True)
class _RayRunner(Runner):
    """Runs them as tasks of Ray: joblib's own bridge to Ray starts new processes for every loop."""

    value: Any  # a reference to the object store
    is_far: ClassVar[bool] = True

    def __call__(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        import ray

        start = ray.remote(max_retries=MOST_DEATHS)(_call_there)
        running = [start.remote(function, self.value, task, sklearn.get_config()) for task in tasks]
        try:
            found: list[Any] = ray.get(running)
        except ray.exceptions.RayError as problem:
            for reference in running:
                ray.cancel(reference)
            cause = getattr(problem, "cause", None)
            if isinstance(cause, Exception):
                raise cause from None
            raise ClusterError(f"Ray lost a fit: {str(problem).strip()[:500]} Run the command again.") from problem
        return found


@dataclass(frozen=True)
class _DaskRunner(Runner):
    """Runs them as tasks of Dask's scheduler."""

    value: Any  # a future
    is_far: ClassVar[bool] = True

    def __call__(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        client, config = self.parallel._backend.client, sklearn.get_config()
        running = [client.submit(_call_there, function, self.value, task, config, pure=False) for task in tasks]
        try:
            found: list[Any] = client.gather(running)
        except Exception as problem:
            if type(problem).__module__.partition(".")[0] == "distributed":  # not of the fit
                raise ClusterError(f"Dask lost a fit: {problem}. Run the command again.") from problem
            raise
        return found


@contextlib.contextmanager
def sharing(value: Any, n_jobs: int | None = None) -> Iterator[Runner]:
    """Yield what runs tasks that share a value.

    The value is sent once: put into Ray's object store, or to each of Dask's workers. Processes of this machine map
    its large arrays from one file. `n_jobs=None` leaves the number of tasks at a time to joblib's active backend.

    Examples
    --------
    >>> with sharing(10) as run:
    ...     run(divmod, [(3,), (4,)])
    [(3, 1), (2, 2)]
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # ranks that torchrun started train one network after the other
        n_jobs = 1
    parallel = Parallel(n_jobs=n_jobs)
    backend = type(parallel._backend).__name__
    if parallel.n_jobs == 1 or backend not in ("RayBackend", "DaskDistributedBackend"):
        with parallel:
            yield Runner(parallel, value)
    elif backend == "RayBackend":
        ray = require("ray", extra="ray", what="Fits on Ray")
        try:
            reference = ray.put(value)
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as problem:
            raise ClusterError(
                "The rows fit neither into Ray's object store nor on its disk. Start its nodes with a larger "
                "--object-store-memory, make room on the disk, or pass fewer rows."
            ) from problem
        yield _RayRunner(parallel, reference)
    else:
        yield _DaskRunner(parallel, parallel._backend.client.scatter(value, hash=False, broadcast=True))


def run_each(
    function: Callable[..., Any], value: Any, tasks: Iterable[tuple[Any, ...]], n_jobs: int | None = None
) -> list[Any]:
    """Return ``function(value, *task)`` for each task, in order; the value is sent once (see `sharing`)."""
    with sharing(value, n_jobs) as run:
        return run(function, tasks)


def cluster_memory() -> int | None:
    """Return the bytes of memory that all workers of the cluster have together; None without a cluster."""
    backend = Parallel()._backend
    if type(backend).__name__ == "RayBackend":
        ray = require("ray", extra="ray", what="Fits on Ray")
        return int(ray.cluster_resources().get("memory", 0))
    if type(backend).__name__ == "DaskDistributedBackend":
        workers = backend.client.scheduler_info(n_workers=-1)["workers"].values()
        return sum(int(worker["memory_limit"]) for worker in workers)
    return None


@contextlib.contextmanager
def on_cluster(where: str | None) -> Iterator[None]:
    """Let fits inside the block run elsewhere.

    Parameters
    ----------
    where : str or None
        "local:N", N processes of this machine; "ray", a Ray cluster (that of the environment variable RAY_ADDRESS, else
        a new one on this machine); "ray://HOST:PORT" or "ray:HOST:PORT", that cluster; "dask", Dask workers on this
        machine; "tcp://HOST:PORT", the Dask scheduler there. None: this process.

    Examples
    --------
    >>> with on_cluster("local:1"):
    ...     run_each(pow, 2, [(3,)])
    [8]
    """
    import joblib

    if where is None:
        yield
        return
    kind, _, rest = where.partition(":")
    if kind == "local" and rest.isdecimal() and int(rest) > 0:
        with joblib.parallel_config(backend="loky", n_jobs=int(rest)):
            yield
    elif kind == "ray":
        with _ray(where, rest) as n_processors, joblib.parallel_config(backend="ray", n_jobs=n_processors):
            yield
    elif where == "dask" or kind in DASK:
        with _dask(None if where == "dask" else where), joblib.parallel_config(backend="dask"):
            yield
    else:
        raise ParameterError(
            f"There is no cluster {where!r}. Choose from local:N, ray, ray://HOST:PORT, dask, tcp://HOST:PORT."
        )


def is_ray(where: str | None) -> bool:
    """Return whether a cluster, as in `on_cluster`, is one of Ray."""
    return where is not None and where.partition(":")[0] == "ray"


@contextlib.contextmanager
def _ray(where: str, rest: str) -> Iterator[int]:
    """Connect to Ray, and yield its number of processors; what was started here ends with the block."""
    ray = require("ray", extra="ray", what="Fits on Ray")
    started = not ray.is_initialized()
    if started:
        address = where if rest.startswith("//") else rest or None
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as problem:
            raise ParameterError(
                f"The Ray cluster {where} cannot be reached: {problem} Start one with 'ray start --head'. If it asks "
                "for a token, set RAY_AUTH_MODE=token here, too, and copy the head's ~/.ray/auth_token."
            ) from problem
    require("ray.util.joblib", extra="ray", what="Fits on Ray").register_ray()
    try:
        yield max(int(ray.cluster_resources().get("CPU", 1)), 1)
    finally:
        if started:
            ray.shutdown()


@contextlib.contextmanager
def _dask(address: str | None) -> Iterator[None]:
    """Connect to Dask."""
    distributed = require("distributed", extra="dask", what="Fits on Dask")
    options = {"address": address} if address else {"threads_per_worker": 1, "dashboard_address": None}
    try:
        client = distributed.Client(**options, timeout="10s")
    except OSError as problem:
        raise ParameterError(
            f"The Dask scheduler {address} cannot be reached: {problem}. Start one with 'dask scheduler'."
        ) from problem
    with client:
        yield
