"""A target of the paper from beginning to end: plan, make what is not there yet, compare."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.experiments.config import RunConfig
from holdfast.experiments.executing import Progress, SweepResult, run_all
from holdfast.experiments.store import RunStore
from holdfast.experiments.targets import TARGETS, Missing, Options, Table

_BULKY = ("history", "words")  # of a setting: what compact records leave out


@dataclass(frozen=True)
class Reproduction:
    """What came of a target."""

    target: str
    title: str
    tables: tuple[Table, ...]
    rows: tuple[dict[str, Any], ...]  # machine-readable, for the targets that have them
    missing: tuple[Missing, ...]
    sweep: SweepResult
    records: tuple[dict[str, Any], ...]  # all finished runs of the target


def reproduce(
    target: str,
    options: Options,
    store: RunStore,
    *,
    jobs: int = 1,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Reproduction:
    """Make a target's runs and compare them with the paper.

    Parameters
    ----------
    target : str
        A name in `TARGETS`.
    options : Options
        Where the data are, quick or full, how many seeds.
    store : RunStore
        Finished runs in it are used again.
    jobs, tell
        As for `run_all`.
    """
    chosen = TARGETS[target]
    plan = chosen.plan(options)
    result = run_all(plan.runs, store, folder=options.folder, jobs=jobs, tell=tell)

    @functools.cache
    def read_identity(identity: str) -> dict[str, Any] | None:
        return store.read(identity)

    def read(config: RunConfig) -> dict[str, Any] | None:
        return read_identity(config.identity)

    report = chosen.report(options, plan, read)
    found = {run.config.identity: read(run.config) for run in plan.runs}
    return Reproduction(
        target,
        chosen.title,
        tuple(report["tables"]),
        tuple(report.get("rows", ())),
        plan.missing,
        result,
        tuple(record for record in found.values() if record is not None),
    )


def compact(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without its history: what tables are made from, small enough to keep beside them."""
    kept = {name: value for name, value in record.items() if name not in ("stages", "settings")}
    kept["stages"] = record.get("stages", {})
    kept["settings"] = {
        name: {key: value for key, value in setting.items() if key not in _BULKY}
        for name, setting in record.get("settings", {}).items()
    }
    return kept
