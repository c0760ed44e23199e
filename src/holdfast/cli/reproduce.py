"""`holdfast reproduce`: a table or figure of the paper, run again, beside the paper's numbers."""

from __future__ import annotations

import dataclasses
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import JsonOption, ReportOption
from holdfast.cli.output import note, print_json, print_table, print_text
from holdfast.cli.reported import check_page
from holdfast.cli.sweep import DataOption
from holdfast.cli.sweeping import (
    FinishedOption,
    MarkdownOption,
    RecordsOption,
    RetoldOption,
    end,
    format_seconds,
    showing_progress,
    write_records,
    write_tables,
)
from holdfast.exceptions import ConfigError

if TYPE_CHECKING:
    from holdfast.experiments.reproducing import Reproduction
    from holdfast.experiments.targets import Table

NAMES = ("toy", "table1", "table2", "table3", "table4", "ablation", "correlations", "words", "irm", "time")


def reproduce(
    target: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.", metavar="TARGET")],
    data: DataOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the records; finished runs are used again.", metavar="DIR")
    ] = Path("holdfast-reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Made data and a few steps, to see that it works.")] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="How many seeds (default: 3; quick: 1).", min=1, metavar="N")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            help="Processes, each with one thread (default: one for each core; quick: none but this).",
            min=0,
            metavar="N",
        ),
    ] = None,
    finished: FinishedOption = False,
    records: RecordsOption = None,
    markdown: MarkdownOption = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Also write tables and figures, one file each.", metavar="DIR")
    ] = None,
    report: ReportOption = None,
    retold: RetoldOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a table or figure of the paper again, and compare.

    What is finished is used again. Data sets that are not there are listed with the files they need; the rest is run.
    """
    from holdfast.experiments.reproducing import reproduce as run_target
    from holdfast.experiments.reproducing import retell
    from holdfast.experiments.store import RunStore
    from holdfast.experiments.targets import TARGETS, Options

    if target not in TARGETS:
        raise ConfigError(f"There is no target {target!r}. Known are {', '.join(TARGETS)}.")
    if report is not None:
        check_page(report, option="--report", overwrite=True)  # a second call tells more of the same
    if retold is not None:
        result = retell(target, retold)
    else:
        options = Options(data, quick, seeds or (1 if quick else 3))
        n_processes = (0 if quick else os.cpu_count() or 1) if jobs is None else jobs
        with showing_progress() as tell:
            result = run_target(target, options, RunStore(out), jobs=n_processes, finished=finished, tell=tell)
    if records is not None:
        write_records(result.records, records)
    if markdown is not None:
        write_tables([_report_table(table) for table in result.tables], markdown)
    if figures is not None and result.records:
        _write_figures(result, figures)
    if report is not None and result.records:
        _write_report(result, report)
    if as_json:
        print_json(_as_json(result))
    else:
        _print(result)
    end(result.sweep, out)


def _as_json(result: Reproduction) -> dict[str, Any]:
    tables = [
        {
            "title": table.title,
            "note": table.note,
            "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
        }
        for table in result.tables
    ]
    return {
        "target": result.target,
        "rows": list(result.rows) if result.rows else [row for table in tables[:1] for row in table["rows"]],
        "tables": tables,
        "missing": [{"dataset": m.dataset, "reason": m.reason, "needs": m.needs} for m in result.missing],
    }


def _print(result: Reproduction) -> None:
    print(result.title)
    for table in result.tables:
        rows = [["–" if cell is None else _text(cell, table.digits) for cell in row] for row in table.rows]
        print_table(table.title, list(table.columns), rows, digits=table.digits)
        if table.note:
            print_text(table.note, indent="  ")
    seconds = sum(float(record["seconds"]) for record in result.records)
    print(f"\n{result.sweep.n_done} of {result.sweep.n_runs} runs are done ({format_seconds(seconds)} in all).")
    for missing in result.missing:
        note(f"missing: {missing.dataset}. {missing.reason}")
        note("\n".join(f"  {line}" for line in missing.needs.splitlines()))


def _text(cell: Any, digits: int) -> Any:
    """Return a (mean, spread) pair as text; numbers and text as they are."""
    if isinstance(cell, tuple):
        mean, spread = cell
        return f"{mean:.{digits}f}" + ("" if math.isnan(spread) else f" ± {spread:.{digits}f}")
    return cell


def _write_report(result: Reproduction, file: Path) -> None:
    """Write one page: the tables with the paper's numbers, training curves, comparisons, every run."""
    from holdfast.reports import runs_story, write_report

    tables = [_report_table(table) for table in result.tables]
    write_report(runs_story(result.records, title=result.title, tables=tables), file)


def _write_figures(result: Reproduction, folder: Path) -> None:
    """Write the tables, training curves, comparisons and heat maps, each in the forms that papers and pages take."""
    from holdfast.reports.assets import write_assets
    from holdfast.reports.runs import runs_story
    from holdfast.reports.story import HeatMap, Section

    story = runs_story(result.records, title=result.title, tables=[_report_table(table) for table in result.tables])
    maps = [
        HeatMap(
            table.title,
            tuple(str(row[0]) for row in table.rows),
            table.columns[1:],
            tuple(tuple(math.nan if cell is None else cell[0] / 100 for cell in row[1:]) for row in table.rows),
            "share",
            table.columns[0],
            "",
            table.note,
        )
        for table in result.tables
        if table.is_map
    ]
    if maps:
        story = dataclasses.replace(story, sections=(Section("Maps", "", tuple(maps)), *story.sections))
    write_assets(story, folder)


def _report_table(table: Table) -> Any:
    from holdfast.reports.tables import Spread
    from holdfast.reports.tables import Table as ReportTable

    def cell(value: Any) -> Any:
        if isinstance(value, tuple):
            return Spread(*value) if not math.isnan(value[1]) else value[0]
        return value

    rows = tuple(tuple(cell(value) for value in row) for row in table.rows)
    return ReportTable(table.title, table.columns, rows, table.note, table.digits)
