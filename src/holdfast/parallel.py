"""Independent fits through joblib: in this process, in several, or on a cluster; what all fits share travels once.

joblib's active backend decides where fits run. ``with joblib.parallel_config(backend="ray")``, or Dask's backend, moves
every loop over fits to a cluster, and so does ``with on_cluster("ray://head:10001")``. Each fit has a seed of its own,
so that results do not depend on where it ran.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.utils.parallel import Parallel, delayed

from holdfast.exceptions import ParameterError
from holdfast.extras import require

DASK = ("tcp", "tls", "ucx", "ws", "wss")  # protocols of Dask's schedulers


class _Shared:
    """A value that many tasks use: on Ray it travels as a reference to the object store."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.reference: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"value": None if self.reference is not None else self.value, "reference": self.reference}

    def get(self) -> Any:
        if self.reference is None or self.value is not None:
            return self.value
        import ray

        return ray.get(self.reference)


def _call(function: Callable[..., Any], shared: _Shared, task: tuple[Any, ...]) -> Any:
    return function(shared.get(), *task)


@dataclass(frozen=True)
class Runner:
    """Runs tasks that share a value: ``run(function, tasks)`` returns ``function(value, *task)`` for each, in order."""

    parallel: Any
    shared: _Shared

    @property
    def n_jobs(self) -> int:
        """Tasks that run at the same time."""
        return int(self.parallel._effective_n_jobs())

    def __call__(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Run the tasks."""
        found: list[Any] = self.parallel(delayed(_call)(function, self.shared, task) for task in tasks)
        return found


@contextlib.contextmanager
def sharing(value: Any, n_jobs: int | None = None) -> Iterator[Runner]:
    """Yield what runs tasks that share a value.

    The value is sent once: put into Ray's object store, or scattered to Dask's workers. Processes of this machine map
    its large arrays from one file. `n_jobs=None` leaves the number of tasks at a time to joblib's active backend.

    Examples
    --------
    >>> with sharing(10) as run:
    ...     run(divmod, [(3,), (4,)])
    [(3, 1), (2, 2)]
    """
    shared = _Shared(value)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:  # ranks that torchrun started train one network after the other
        n_jobs = 1
    with Parallel(n_jobs=n_jobs) as parallel:
        backend, scattered = parallel._backend, None
        if type(backend).__name__ == "RayBackend":
            shared.reference = require("ray", extra="ray", what="Fits on Ray").put(value)
        elif hasattr(backend, "data_futures"):  # Dask's: futures by the id of what they stand for
            scattered = backend.data_futures
            scattered[id(shared)] = backend.client.scatter(shared, hash=False)
        try:
            yield Runner(parallel, shared)
        finally:
            if scattered is not None:
                del scattered[id(shared)]


def run_each(
    function: Callable[..., Any], value: Any, tasks: Iterable[tuple[Any, ...]], n_jobs: int | None = None
) -> list[Any]:
    """Return ``function(value, *task)`` for each task, in order; the value is sent once (see `sharing`)."""
    with sharing(value, n_jobs) as run:
        return run(function, tasks)


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
                f"The Ray cluster {where} cannot be reached: {problem} Start one with 'ray start --head'."
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
