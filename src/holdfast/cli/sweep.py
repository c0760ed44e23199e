"""`holdfast sweep`: execute all runs of an experiment file that have no record yet."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import ClusterOption, DataOption, JsonOption, RecordOptions, option
from holdfast.cli.terminal import (
    command_line,
    format_seconds,
    note,
    print_table,
    print_text,
    say,
    show,
    showing_progress,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.lab.execution import SweepResult, Waiting
    from holdfast.lab.experiments import Experiment, PlannedRun

    Reader = Callable[[str], dict[str, Any] | None]

TUNED = "tuned on validation, scored on the test rows"
MEANS = "means over data sets, with 95 % intervals of the gains over data sets"


def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment file (TOML).", metavar="FILE")],
    *,
    out: Annotated[Path, option("--out", "Folder for the records; finished runs are kept.", "DIR")] = Path(
        "holdfast-sweep"
    ),
    data: DataOption = None,
    jobs: Annotated[int, option("--jobs", "Processes, each with one thread; 0: only this process.", "N", min=0)] = 1,
    cluster: ClusterOption = None,
    runs: RecordOptions,
    as_json: JsonOption = False,
) -> None:
    """Run all settings of an experiment file.

    Finished runs are never repeated: run the command again to continue. Several sweeps may share a folder. If a run
    fails, the others continue, and the exit code is 1. A dry run loads each data set once, and its exit code is 1 if
    one cannot be loaded.
    """
    from holdfast.lab.execution import find_unreadable, find_waiting, look_up, run_all
    from holdfast.lab.experiments import read_experiment
    from holdfast.lab.reproduction import read_compact, write_compact
    from holdfast.lab.store import RunStore
    from holdfast.lab.tuning import search_points

    experiment = read_experiment(file)
    if runs.dry_run:
        waiting = find_waiting(experiment.runs, out, jobs)
        following = command_line("holdfast", "sweep", file, "--out", out, "--jobs", jobs)
        problems = find_unreadable(waiting.runs, data)
        answer = f"{experiment.name}: {describe(waiting)}"
        found = {"experiment": experiment.name, **waiting.to_dict(), "problems": problems}
        show(answer, found, following=following, as_json=as_json, body=lambda: _print_grid(waiting.runs))
        for problem in problems:
            note(problem)
        if problems:
            raise typer.Exit(1)
        return
    if runs.from_records is not None:
        rows, means = _best(experiment, read_compact(runs.from_records).get)
        _write_tables(experiment.name, rows, means, runs)
        following = command_line("holdfast", "sweep", file, "--out", out, "--dry-run")
        answer = f"{experiment.name}: {len(rows)} results from the records in {runs.from_records}.{_ranking(rows)}"
        result: dict[str, Any] = {"experiment": experiment.name, "best": rows, "means": means}
        show(answer, result, following=following, as_json=as_json, body=lambda: _print_best(rows, means))
        return
    store = RunStore(out)
    with showing_progress() as tell:
        if runs.finished:
            done = look_up(experiment.runs, store, data)
        else:
            execute = partial(run_all, store=store, folder=data, jobs=jobs, cluster=cluster, on_progress=tell)
            if experiment.search is None:
                done = execute(experiment.runs)
            else:
                chosen, done = search_points(experiment, store, execute)
                experiment = replace(experiment, runs=chosen)
    read = done.reader(store)
    best, means = _best(experiment, read)
    if runs.records is not None:
        kept = [read(run.config.identity) for run in experiment.runs]
        write_compact([record for record in kept if record is not None], runs.records)
    if best:
        _write_tables(experiment.name, best, means, runs)
    failures = [{"identity": run.config.identity, "name": run.name, "error": text} for run, text in done.failures]
    counts = {"n_runs": done.n_runs, "n_done": done.n_done, "n_new": done.n_new}
    answer = f"{experiment.name}: {done.n_done} of {done.n_runs} runs are done, {done.n_new} of them new."
    answer += _ranking(best)
    following = command_line("holdfast", "report", out)
    if not done.n_done:
        following = command_line("holdfast", "sweep", file, "--out", out, "--dry-run")
    result = {"experiment": experiment.name, **counts, "failures": failures, "best": best, "means": means}
    show(answer, result, following=following, as_json=as_json, body=lambda: _print_best(best, means))
    end_failed(done, out)


def describe(waiting: Waiting) -> str:
    """Say how many runs are left, and how long they take."""
    left = f"{len(waiting.runs)} of {waiting.n_runs} runs are left and take about {format_seconds(waiting.seconds)}"
    n_guessed = waiting.n_guessed
    return left + (f" ({n_guessed} of them guessed: no similar run is finished)." if n_guessed else ".")


def end_failed(result: SweepResult, folder: Path) -> None:
    """List the runs that failed, and leave with exit code 1 if there are any."""
    if not result.failures:
        return
    described = any((folder / "failed" / f"{run.config.identity}.json").exists() for run, _ in result.failures)
    where = f"; what happened is in {folder / 'failed'}" if described else ""
    note(f"{len(result.failures)} of {result.n_runs} runs failed{where}:")
    for run, message in result.failures:
        note(f"  {run.config.identity}  {run.name}, seed {run.config.seed}: {message}")
    raise typer.Exit(1)


def _write_tables(
    name: str, rows: Sequence[dict[str, Any]], means: Sequence[dict[str, Any]], runs: RecordOptions
) -> None:
    """Write the results as tables, where files are asked for; means over data sets come first."""
    from holdfast.lab.reproduction import write_tables
    from holdfast.reports.values import Table

    found = [(MEANS, means)] * bool(means) + [(TUNED, rows)]
    tables = [
        Table(f"{name}: {what}", tuple(part[0]) if part else (), tuple(tuple(row.values()) for row in part))
        for what, part in found
    ]
    write_tables(tables, markdown=runs.markdown, latex=runs.latex)


def _ranking(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the methods by their test accuracy in a sentence, tuned on validation rows like the training rows.

    Examples
    --------
    >>> shared = {"validation": "train"}
    >>> _ranking([{"method": name, "test accuracy": x, **shared} for name, x in (("ERM", 0.2), ("PI", 0.8))])
    ' Best on the test rows is PI with an accuracy of 0.800, then ERM 0.200 (validation like train).'
    """
    from holdfast.environments import listed

    settings = {row["validation"] for row in rows}
    chosen = "train" if "train" in settings else min(settings, default="")
    found = [row for row in rows if row["validation"] == chosen and not math.isnan(row["test accuracy"])]
    if not found:
        return ""
    first, *others = sorted(found, key=lambda row: -row["test accuracy"])
    behind = listed([f"{row['method']} {row['test accuracy']:.3f}" for row in others])
    rest = f", then {behind}" if others else ""
    best = f"{first['method']} with an accuracy of {first['test accuracy']:.3f}"
    return f" Best on the test rows is {best}{rest} (validation like {chosen})."


def _print_grid(waiting: Sequence[PlannedRun]) -> None:
    """Print what all runs share, and a line for each grid point with its own settings."""
    if not waiting:
        return
    configs = [run.config.model_dump(mode="json") for run in waiting]
    settings = [key for key in configs[0] if key not in ("method", "seed")]
    varied = [key for key in settings if any(config[key] != configs[0][key] for config in configs)]
    shared = [key for key in settings if key not in varied and key in waiting[0].config.as_dict()]
    points: dict[tuple[str, ...], list[str]] = {}
    for run, config in zip(waiting, configs, strict=True):
        own = ("–" if config[key] is None else str(config[key]) for key in varied)
        points.setdefault((run.name, *own), []).append(str(config["seed"]))
    say("")
    print_text("settings of all runs: " + _listed({key: configs[0][key] for key in shared}))
    rows = [[*point, ", ".join(seeds)] for point, seeds in points.items()]
    print_table("runs that are left", ["method", *varied, "seeds"], rows, n_keys=1)


def _print_best(rows: Sequence[Mapping[str, Any]], means: Sequence[Mapping[str, Any]]) -> None:
    """Print the scores as tables and the chosen settings below, where nothing needs to be cut."""
    if not rows:
        return
    if means:
        print_table(MEANS, list(means[0]), [list(row.values()) for row in means], n_keys=2)
    header = ["method", "validation", "test accuracy", "spread", "worst group", "seeds"]
    if all(math.isnan(row["worst group"]) for row in rows):
        header.remove("worst group")
    print_table(TUNED, header, [[row[key] for key in header] for row in rows], n_keys=2)
    say("\nchosen settings")
    for row in rows:
        settings = (row["settings"] or "defaults") + (f", the best of {row['points']}" if row["points"] > 1 else "")
        value = f"{row['selection']} {row['selection value']:.3f}"
        print_text(f"{row['method']}, validation like {row['validation']}: {settings}; {value}", indent="  ")


def _listed(settings: Mapping[str, Any]) -> str:
    """Return settings as text.

    Examples
    --------
    >>> _listed({"dropout": 0.5, "estimator": "cnn"})
    'dropout=0.5, estimator=cnn'
    """
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _best(experiment: Experiment, read: Reader) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return for each method and setting the point with the best mean selection value, and means over data sets."""
    from holdfast.lab.tuning import average_over_data, tune

    found = tune(experiment.runs, read)
    rows = [
        {
            "method": best.name,
            "validation": best.setting,
            "selection value": best.value,
            "test accuracy": best.test,
            "spread": best.spread,
            "worst group": best.worst,
            "seeds": best.n_seeds,
            "points": best.n_points,
            "selection": best.selection,
            "settings": _listed(best.point),
        }
        for best in found
    ]
    return rows, average_over_data(found)
