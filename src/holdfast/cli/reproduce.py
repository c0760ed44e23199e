"""`holdfast reproduce`: run a table or figure of the paper, or benchmarks of other methods, and compare the numbers."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    PAGES,
    ClusterOption,
    DataOption,
    JsonOption,
    RecordOptions,
    ReportOption,
    check_file,
    option,
)
from holdfast.cli.sweep import describe, end_failed
from holdfast.cli.terminal import command_line, format_seconds, note, print_table, print_text, show, showing_progress
from holdfast.exceptions import ConfigError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.lab.execution import Waiting
    from holdfast.lab.reproduction import Reproduction
    from holdfast.lab.targets import Missing, Options
    from holdfast.reports.values import Page

NAMES = ("toy", "table1", "table2", "table3", "table4", "ablation", "correlations", "words", "irm", "time", "rivals")


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """On what data, how often and in how many processes a target is run."""

    data: DataOption = None
    quick: Annotated[bool, option("--quick", "Use synthetic data and a few steps, to test that it works.")] = False
    small: Annotated[
        bool,
        option(
            "--small",
            "Train less for ablation, words, irm and CelebA (a linear layer on frozen features), and mark the results.",
        ),
    ] = False
    seeds: Annotated[
        int | None, option("--seeds", "How many seeds (default: 3; rivals: 10; quick: 1).", "N", min=1)
    ] = None
    jobs: Annotated[
        int | None,
        option(
            "--jobs",
            "Processes, each with one thread (default: one for each core; quick: only this process).",
            "N",
            min=0,
        ),
    ] = None
    cluster: ClusterOption = None

    @property
    def n_processes(self) -> int:
        """Processes besides this one."""
        return (0 if self.quick else os.cpu_count() or 1) if self.jobs is None else self.jobs


def reproduce(
    target: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.", metavar="TARGET")],
    *,
    plan: PlanOptions,
    out: Annotated[Path, option("--out", "Folder for the records; finished runs are used again.", "DIR")] = Path(
        "holdfast-reproduction"
    ),
    known: Annotated[Path | None, option("--known", "File of --records, whose runs count as finished.", "FILE")] = None,
    runs: RecordOptions,
    figures: Annotated[Path | None, option("--figures", "Also write tables and figures, one file each.", "DIR")] = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run tables of the paper or benchmarks again, and compare.

    `rivals` runs the benchmarks of other methods; their published numbers are marked.

    Finished runs are used again. Missing data sets are listed with the files that they need; the rest is run. Damaged
    files are listed too, and the exit code is 1.
    """
    from holdfast.lab.reproduction import compare_recorded, keep_known, write_compact, write_tables
    from holdfast.lab.reproduction import reproduce as run_target
    from holdfast.lab.store import RunStore
    from holdfast.lab.targets import TARGETS, Options

    if target not in TARGETS:
        raise ConfigError(f"There is no target {target!r}. {suggest(target, list(TARGETS))}")
    if report is not None:
        check_file(report, option="--report", overwrite=True, suffixes=PAGES)  # a second call shows more of the same
    seeds = plan.seeds or (1 if plan.quick else TARGETS[target].seeds)
    options = Options(plan.data, plan.quick, seeds, small=plan.small)
    if known is not None and runs.from_records is None:
        keep_known(known, RunStore(out))
    if runs.dry_run and runs.from_records is None:
        _show_runs(target, options, out, plan.n_processes, as_json=as_json)
        return
    if runs.from_records is not None:
        result = compare_recorded(target, runs.from_records)
    else:
        with showing_progress() as tell:
            result = run_target(
                target,
                options,
                RunStore(out),
                jobs=plan.n_processes,
                cluster=plan.cluster,
                finished=runs.finished,
                on_progress=tell,
            )
    if runs.records is not None:
        write_compact(result.records, runs.records)
    write_tables(result.tables, markdown=runs.markdown, latex=runs.latex)
    if figures is not None and result.records:
        from holdfast.reports import write_assets

        write_assets(_page(result), figures)
    if report is not None and result.records:
        from holdfast.reports import write_report

        write_report(_page(result), report)
    seconds = sum(float(record["seconds"]) for record in result.records)
    counts = f"{result.sweep.n_done} of {result.sweep.n_runs} runs are done"
    answer = f"{result.title}: {counts} ({format_seconds(seconds)} in all)."
    following = command_line("holdfast", "reproduce", target, "--out", out, "--report", f"{target}.html")
    if report is not None and result.records:
        following = command_line("python", "-m", "webbrowser", report)
    show(answer, _as_json(result), following=following, as_json=as_json, body=lambda: _print(result))
    _end_damaged(result.damaged, fails=not result.sweep.failures)
    end_failed(result.sweep, out)


def _show_runs(target: str, options: Options, out: Path, jobs: int, *, as_json: bool) -> None:
    """Print the runs that a target would make."""
    from holdfast.lab.execution import find_waiting
    from holdfast.lab.reproduction import plan_target
    from holdfast.lab.targets import TARGETS

    runs = out / "runs"
    plan = plan_target(target, options, lambda identity: (runs / f"{identity}.json").exists())
    waiting = find_waiting(plan.runs, out, jobs)
    missing = [lack for lack in plan.missing if not lack.is_damaged]
    damaged = tuple(lack for lack in plan.missing if lack.is_damaged)
    result = {"target": target, **waiting.to_dict(), **_lacks(missing, damaged)}
    following = command_line("holdfast", "reproduce", target, "--out", out, *_kind(options))
    answer = f"{TARGETS[target].title}: {describe(waiting)}"
    show(answer, result, following=following, as_json=as_json, body=lambda: _print_runs(waiting, missing))
    _end_damaged(damaged)


def _kind(options: Options) -> list[str]:
    """Return the options that say which kind of runs a target was asked for."""
    return ["--quick"] * options.quick + ["--small"] * options.small


def _print_runs(waiting: Waiting, missing: Sequence[Missing]) -> None:
    """Print the runs that are left, and the data sets that are missing."""
    points: dict[str, list[tuple[int, float]]] = {}
    for run, seconds in zip(waiting.runs, waiting.each, strict=True):
        points.setdefault(run.name, []).append((run.config.seed, seconds))
    rows = [
        [name, ", ".join(str(seed) for seed, _ in found), format_seconds(sum(seconds for _, seconds in found))]
        for name, found in points.items()
    ]
    if rows:
        print_table("runs that are left", ["run", "seeds", "about"], rows, n_keys=1)
    _print_missing(missing)


def _lacks(missing: Iterable[Missing], damaged: Iterable[Missing]) -> dict[str, Any]:
    """Return what data sets lack, for the JSON results."""
    return {
        "missing": [{"dataset": m.dataset, "reason": m.reason, "needs": m.needs} for m in missing],
        "damaged": [{"dataset": m.dataset, "error": m.reason} for m in damaged],
    }


def _print_missing(missing: Iterable[Missing]) -> None:
    """Say which data sets are not there, and what they need."""
    for lack in missing:
        note(f"missing: {lack.dataset}. {lack.reason}")
        note("\n".join(f"  {line}" for line in lack.needs.splitlines()))


def _end_damaged(damaged: Sequence[Missing], *, fails: bool = True) -> None:
    """List the data sets whose files cannot be read, and leave with exit code 1 if there are any."""
    for lack in damaged:
        note(f"failed: {lack.dataset}. {lack.reason}")
    if damaged and fails:
        raise typer.Exit(1)


def _as_json(result: Reproduction) -> dict[str, Any]:
    from holdfast.reports.values import Spread

    def value(cell: Any) -> Any:
        return [cell.value, cell.spread] if isinstance(cell, Spread) else cell

    tables = [
        {
            "title": table.title,
            "note": table.note,
            "rows": [dict(zip(table.columns, map(value, row), strict=True)) for row in table.rows],
        }
        for table in result.tables
    ]
    return {
        "target": result.target,
        "rows": list(result.rows) if result.rows else [row for table in tables[:1] for row in table["rows"]],
        "tables": tables,
        **_lacks(result.missing, result.damaged),
    }


def _print(result: Reproduction) -> None:
    from holdfast.reports.values import format_cell

    for table in result.tables:
        rows = [
            [cell if isinstance(cell, int | float | str) else format_cell(cell, table.digits) for cell in row]
            for row in table.rows
        ]
        print_table(table.title, list(table.columns), rows, digits=table.digits, n_keys=table.n_keys or 1)
        if table.note:
            print_text(table.note, indent="  ")
    _print_missing(result.missing)


def _page(result: Reproduction) -> Page:
    """Return the tables with the paper's numbers, the target's figures, training curves, comparisons, every run."""
    from holdfast.lab.pages import runs_page
    from holdfast.reports.values import Section

    content = runs_page(result.records, title=result.title, tables=result.tables)
    if not result.figures:
        return content
    figures = Section("Figures", "", result.figures)
    return dataclasses.replace(content, sections=(content.sections[0], figures, *content.sections[1:]))
