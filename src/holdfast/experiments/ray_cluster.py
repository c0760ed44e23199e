"""Runs as tasks of a Ray cluster: one task and one record each, in a folder that every machine sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.exceptions import ConfigError
from holdfast.experiments.config import RunConfig
from holdfast.experiments.executing import Progress, SweepResult, Tally, attempt, failure_record, unfinished
from holdfast.experiments.grids import PlannedRun
from holdfast.experiments.store import RunStore


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
        As for `holdfast.experiments.executing.run_all`. The folders must be shared by all machines.
    """
    try:
        import ray
    except ImportError as problem:
        raise ConfigError("Sweeps on a cluster need Ray: pip install ray.") from problem
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
