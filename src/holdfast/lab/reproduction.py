"""Reproduce one target of the paper: plan the runs, execute what is missing, compare the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.datasets.folders import candidate_folders
from holdfast.exceptions import ConfigError
from holdfast.lab.execution import Progress, SweepResult, look_up, run_all
from holdfast.lab.store import RunStore
from holdfast.lab.targets import TARGETS, Missing, Options, Plan, Reader, Record
from holdfast.lab.targets.results import warn_quick
from holdfast.reports.tables import to_latex, to_markdown
from holdfast.reports.values import Figure, Table
from holdfast.saving.files import write_bytes
from holdfast.saving.json_files import canonical_json


@dataclass(frozen=True)
class Reproduction:
    """The results of a target."""

    target: str
    title: str
    tables: tuple[Table, ...]
    rows: tuple[dict[str, Any], ...]  # machine-readable, for the targets that have them
    figures: tuple[Figure, ...]
    missing: tuple[Missing, ...]  # data sets whose files are not there
    damaged: tuple[Missing, ...]  # data sets whose files cannot be read
    sweep: SweepResult
    records: tuple[dict[str, Any], ...]  # all finished runs of the target


def reproduce(
    target: str,
    options: Options,
    store: RunStore,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    finished: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Reproduction:
    """Execute a target's runs and compare them with the paper.

    Finished runs in the store are used again. With `finished`, nothing is executed: what is finished is compared.
    `jobs`, `cluster` and `on_progress` are those of `run_all`.
    """
    plan = plan_target(target, options, store.has)
    if finished:
        result = look_up(plan.runs, store, options.folder)
    else:
        result = run_all(plan.runs, store, folder=options.folder, jobs=jobs, cluster=cluster, on_progress=on_progress)
    read = result.reader(store)
    return _compare(target, plan, lambda config: read(config.identity), result)


def plan_target(target: str, options: Options, has: Callable[[str], bool]) -> Plan:
    """Return the runs that a target needs, and the data sets that are missing; `has` says which runs are finished."""
    if options.folder is not None:
        candidate_folders(options.folder, ())  # raises where there is no such folder
    return TARGETS[target].plan(options).served(has)


def compare_recorded(target: str, path: Path) -> Reproduction:
    """Return a target's tables from the compact records in a file; nothing is run."""
    by_identity = read_compact(path)
    records = tuple(by_identity.values())
    n_quick = sum(bool(record["config"].get("synthetic")) for record in records)
    if 0 < n_quick < len(records):
        raise ConfigError(
            f"{path} mixes {n_quick} quick runs on synthetic data with {len(records) - n_quick} others. "
            "Use one file for each kind."
        )
    # Seeds count from zero. A file of another experiment may have any, and none of its runs will be found.
    n_seeds = min(max(record["config"].get("seed", 0) for record in records) + 1, 10 * len(records))
    options = Options(quick=n_quick > 0, n_seeds=n_seeds, recorded=records)
    plan = plan_target(target, options, by_identity.__contains__)
    known = [run for run in plan.runs if run.config.identity in by_identity]
    if not known:
        data = ", ".join(sorted({record["config"]["dataset"] for record in records}))
        raise ConfigError(
            f"{path} holds no run of {target}: its {len(records)} records are of {data}, or have other settings. "
            f"Pass a file that 'holdfast reproduce {target} --records FILE' has written."
        )
    result = SweepResult(len(plan.runs), len(known), 0)
    return _compare(target, plan, lambda config: by_identity.get(config.identity), result)


def read_compact(path: Path) -> dict[str, Record]:
    """Return the compact records of a file, by identity."""
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found = {record["identity"]: _restored(record) for record in records}
        if not all(map(_is_record, found.values())) or not records:
            raise ValueError("no records")
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ConfigError(f"{path} does not hold records as JSON lines ({problem}). Check the path.") from problem
    return found


def keep_known(path: Path, store: RunStore) -> None:
    """Put compact records of a file into a store, so that their runs count as finished; those that are there stay."""
    for identity, record in read_compact(path).items():
        if not store.has(identity):
            store.write(identity, dict(record))


def _is_record(record: Any) -> bool:
    """Return whether a value has what every record of a run has."""
    parts = [record.get(name) for name in ("config", "data", "settings")]
    if not all(isinstance(part, dict) for part in parts) or not isinstance(record.get("seconds"), int | float):
        return False
    return isinstance(parts[0].get("dataset"), str) and isinstance(parts[0].get("seed", 0), int)


def _compare(target: str, plan: Plan, read: Reader, result: SweepResult) -> Reproduction:
    """Compare the records of a target with the paper."""
    report = TARGETS[target].report(plan, read)
    found = {run.config.identity: read(run.config) for run in plan.runs}
    return Reproduction(
        target,
        TARGETS[target].title,
        warn_quick(report.tables, plan, read),
        report.rows,
        report.figures,
        tuple(missing for missing in plan.missing if not missing.is_damaged),
        tuple(missing for missing in plan.missing if missing.is_damaged),
        result,
        tuple(record for record in found.values() if record is not None) if report.kept is None else report.kept,
    )


def _restored(value: Any) -> Any:
    """Return a value in which NaN was written as null, below the level of keys that may be absent."""
    if isinstance(value, dict):
        return {
            key: {name: math.nan if item is None else item for name, item in entry.items()}
            if key == "correlations"
            else _restored(entry)
            for key, entry in value.items()
        }
    return [_restored(item) for item in value] if isinstance(value, list) else value


def compact(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without its history: what the tables need, small enough to keep next to them.

    A text's words are put in alphabetical order, the same in every record: what they weigh is kept, the text is not.
    """
    settings = {
        name: {
            key: _alphabetical(value) if key == "words" else value for key, value in setting.items() if key != "history"
        }
        for name, setting in record.get("settings", {}).items()
    }
    return {**record, "stages": record.get("stages", {}), "settings": settings}


def write_compact(records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write compact records, one a line, NaN as null: what `read_compact` reads."""
    lines = [canonical_json(_finite(compact(dict(record)))) for record in records]
    write_bytes(path, b"".join(line + b"\n" for line in lines))


def write_tables(tables: Iterable[Table], *, markdown: Path | None, latex: Path | None) -> None:
    """Write tables as Markdown or LaTeX, one after the other, where a file is given."""
    tables = list(tables)
    for form, path in ((to_markdown, markdown), (to_latex, latex)):
        if path is not None:
            write_bytes(path, ("\n\n".join(map(form, tables)) + "\n").encode())


def _finite(value: Any) -> Any:
    """Return the value with NaN as None."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _alphabetical(explained: dict[str, Any]) -> dict[str, Any]:
    """Return words and what each weighs by the alphabet, repeated ones as they come."""
    order = sorted(range(len(explained["words"])), key=explained["words"].__getitem__)
    return {**explained, **{key: [explained[key][i] for i in order] for key in ("words", "drops")}}
