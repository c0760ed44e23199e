"""`holdfast sweep`: all runs of an experiment file, each made once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import JsonOption
from holdfast.cli.runs import (
    FinishedOption,
    MarkdownOption,
    ProcessesOption,
    RecordsOption,
    RetoldOption,
    end,
    find_waiting,
    showing_progress,
    write_markdown,
    write_records,
)
from holdfast.cli.terminal import print_json, print_table, print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.lab.grids import Experiment, PlannedRun

    Reader = Callable[[str], dict[str, Any] | None]

TUNED = "tuned on validation, scored on the test rows"

DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder of the data sets' files (default: $HOLDFAST_DATA).", metavar="DIR")
]


def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment file (TOML).", metavar="FILE")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the records; finished runs are kept.", metavar="DIR")
    ] = Path("holdfast-sweep"),
    data: DataOption = None,
    jobs: ProcessesOption = 1,
    ray: Annotated[bool, typer.Option("--ray", help="Make the runs on a Ray cluster.")] = False,
    finished: FinishedOption = False,
    records: RecordsOption = None,
    markdown: MarkdownOption = None,
    retold: RetoldOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the grid and how long it will take.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make all runs of an experiment file.

    A run that is finished is never repeated: start again to go on. Several sweeps may share a folder. A run that fails
    is recorded, the others go on, and the exit code is 1.
    """
    from holdfast.lab.execution import look_up, run_all
    from holdfast.lab.grids import read_experiment
    from holdfast.lab.store import RunStore

    experiment = read_experiment(file)
    if dry_run:
        _show_grid(experiment, out, jobs, as_json=as_json)
        return
    if retold is not None:
        _retell(experiment, retold, markdown, as_json=as_json)
        return
    store = RunStore(out)
    with showing_progress() as tell:
        if finished:
            result = look_up(experiment.runs, store, data)
        elif ray:
            from holdfast.lab.execution import run_on_ray

            result = run_on_ray(experiment.runs, store, folder=data, tell=tell)
        else:
            result = run_all(experiment.runs, store, folder=data, jobs=jobs, tell=tell)
    read = result.reader(store)
    rows = _best(experiment, read)
    if records is not None:
        found = [read(run.config.identity) for run in experiment.runs]
        write_records([record for record in found if record is not None], records)
    if markdown is not None and rows:
        write_markdown(f"{experiment.name}: {TUNED}", rows, markdown)
    if as_json:
        failures = [{"identity": run.config.identity, "name": run.name, "error": text} for run, text in result.failures]
        counts = {"n_runs": result.n_runs, "n_done": result.n_done, "n_new": result.n_new}
        print_json({"experiment": experiment.name, **counts, "failures": failures, "best": rows})
    else:
        print(f"{experiment.name}: {result.n_done} of {result.n_runs} runs are done, {result.n_new} of them new.")
        if rows:
            _print_best(rows)
    end(result, out)


def _show_grid(experiment: Experiment, out: Path, jobs: int, *, as_json: bool) -> None:
    """Print the runs that a sweep would make."""
    waiting = find_waiting(experiment.runs, out, jobs)
    if as_json:
        print_json({"experiment": experiment.name, **waiting.as_json()})
        return
    if waiting.runs:
        _print_grid(experiment.name, waiting.runs)
    waiting.print_total()


def _print_grid(name: str, waiting: Sequence[PlannedRun]) -> None:
    """Print what all runs share, and a line for each grid point with what it has of its own."""
    configs = [run.config.model_dump(mode="json") for run in waiting]
    settings = [key for key in configs[0] if key not in ("method", "seed")]
    varied = [key for key in settings if any(config[key] != configs[0][key] for config in configs)]
    shared = [key for key in settings if key not in varied and key in waiting[0].config.as_dict()]
    points: dict[tuple[str, ...], list[str]] = {}
    for run, config in zip(waiting, configs, strict=True):
        own = ("–" if config[key] is None else str(config[key]) for key in varied)
        points.setdefault((run.name, *own), []).append(str(config["seed"]))
    print_text(f"{name}: " + _listed({key: configs[0][key] for key in shared}))
    rows = [[*point, ", ".join(seeds)] for point, seeds in points.items()]
    print_table("runs to make", ["method", *varied, "seeds"], rows, n_keys=1)


def _print_best(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the scores as a table and the chosen settings below, where nothing needs to be cut."""
    header = ["method", "validation", "test accuracy", "spread", "worst group", "seeds"]
    if all(math.isnan(row["worst group"]) for row in rows):
        header.remove("worst group")
    print_table(TUNED, header, [[row[key] for key in header] for row in rows], n_keys=2)
    print("\nchosen settings")
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


def _retell(experiment: Experiment, path: Path, markdown: Path | None, *, as_json: bool) -> None:
    """Show what compact records of the experiment's runs tell."""
    from holdfast.lab.reproduction import read_compact

    rows = _best(experiment, read_compact(path).get)
    if markdown is not None:
        write_markdown(f"{experiment.name}: {TUNED}", rows, markdown)
    if as_json:
        print_json({"experiment": experiment.name, "best": rows})
    elif rows:
        _print_best(rows)


def _best(experiment: Experiment, read: Reader) -> list[dict[str, Any]]:
    """Return for each method and setting the point with the best mean selection value, and its test score."""
    from holdfast.lab.tuning import tune

    return [
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
        for best in tune(experiment.runs, read)
    ]
