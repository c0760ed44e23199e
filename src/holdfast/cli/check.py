"""`holdfast check`: can a saved classifier be used at a new site? It needs rows of the site, without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    PAGES,
    FolderArgument,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    TableArgument,
    check_file,
    option,
)
from holdfast.cli.terminal import command_line, json_line, print_table, print_text, say, show, showing_stages
from holdfast.exceptions import ParameterError

if TYPE_CHECKING:
    from holdfast.newsite.check import SiteCheck
    from holdfast.newsite.monitor import Course

CHANGED = 3  # exit code where the advice changed
RECORDS = (".jsonl", ".ndjson")


def check(
    folder: FolderArgument,
    table: TableArgument,
    *,
    layout: LayoutOptions,
    by: Annotated[
        str | None, option("--by", "Check each year, quarter, month or day of a column of dates.", "PERIOD")
    ] = None,
    date: Annotated[str | None, option("--date", "The column of dates (default: the only one).", "COL")] = None,
    records: Annotated[
        Path | None,
        option(
            "--records",
            "Append one JSON line for each period; changes that it already has are not reported again.",
            "FILE",
        ),
    ] = None,
    out: Annotated[Path | None, option("--out", "Also write the answer as an .html page.", "FILE")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a classifier can be used at a new site.

    It compares rows of the site, without labels, with the training data. The first line is the advice: use it, adapt
    it, label about 50 rows, or do not use it. Then come columns that do not fit the training data, covariate shift by
    column, the effects of unstable columns there, and the accuracy to expect. A label column is ignored.

    If the table is a folder of files with dates in their names (2026-01.csv), or with --by, each period is checked and
    gets one line. The exit code is 3 if the advice changed, else 0.
    """
    if out is not None:
        check_file(out, overwrite=overwrite, inputs=[table], suffixes=PAGES)
    if by is not None or date is not None or Path(table).is_dir():
        _monitor(folder, table, layout, by, date, records, out, as_json)
        return
    if records is not None:
        raise ParameterError("--records needs several periods. Pass --by month, or a folder of files with dates.")
    fitted, rows = layout.open_for(folder, table)
    with showing_stages(f"checking {table}"):
        found = fitted.check(rows)
    following = next_command(found, folder, table)
    if out is not None:
        from holdfast.reports import write_report
        from holdfast.reports.newsite import check_page

        title = f"{Path(table).name}: can the model be used there?"
        write_report(check_page(found, title=title, following=following), out)
    result = {**found.to_dict(), "out": out}
    show(found.answer, result, following=following, as_json=as_json, body=lambda: _print(found, out))


def next_command(found: SiteCheck, folder: Path, table: str) -> str:
    """Return the command that follows from the advice."""
    if found.advice == "do_not_use":
        return command_line("holdfast", "check", folder, "REPAIRED.csv")
    if found.advice == "adapt":
        return command_line("holdfast", "adapt", folder, table, "--out", f"{folder}-adapted")
    if found.is_unsure:
        return command_line("holdfast", "evaluate", folder, "LABELED.csv")
    if found.advice == "label":
        return command_line("holdfast", "recalibrate", folder, "LABELED.csv", "--out", f"{folder}-recalibrated")
    return command_line("holdfast", "predict", folder, table, "--out", "predictions.csv")


def _print(found: SiteCheck, out: Path | None) -> None:
    """Print what the advice rests on."""
    for line in found.remarks:
        print_text(line)
    if found.moved:
        rows = [[check.name, check.share, check.changed] for check in found.moved[:10]]
        header = ["column", "difference (standard deviations)", "predictions changed"]
        print_table("Columns that are distributed differently", header, rows)
    print_table("Predictions", ["class", "share"], [[name, share] for name, share in found.predicted.items()])
    if out is not None:
        say("")
        say(f"Wrote {out}.")


def _monitor(
    folder: Path,
    table: str,
    layout: LayoutOptions,
    by: str | None,
    date: str | None,
    records: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Check each period; leave with code 3 where the advice changed."""
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.monitor import check_periods

    reported = [] if records is None else _read_records(records)
    fitted = TableClassifier.load(folder)
    with showing_stages(f"checking {table}"):
        course = check_periods(fitted, table, by=by, date=date, layout=layout.text(), reported=reported)
    if records is not None:
        _write_records(records, course, reported)
    last = course.periods[-1]
    newest = "NEWEST.csv" if last.check.advice in ("use", "adapt") else table
    following = next_command(last.check, folder, newest)
    if out is not None:
        from holdfast.reports import write_report
        from holdfast.reports.newsite import course_page

        title = f"{Path(table).name}: can the model still be used?"
        write_report(course_page(course, title=title, following=following), out)
    result = {**course.to_dict(), "records": records, "out": out}
    show(course.answer, result, following=following, as_json=as_json, body=lambda: _print_course(course, records, out))
    if course.alarms:
        raise typer.Exit(CHANGED)


def _print_course(course: Course, records: Path | None, out: Path | None) -> None:
    """Print one line for each period."""
    for period in course.periods:
        say(str(period))
    for file in (records, out):
        if file is not None:
            say(f"Wrote {file}.")


def _read_records(file: Path) -> list[dict[str, Any]]:
    """Return the records that an earlier run wrote; none where there is no file yet."""
    check_file(file, overwrite=True, option="--records", suffixes=RECORDS)
    if not file.exists():
        return []
    try:
        found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if all(isinstance(record, dict) and "period" in record for record in found):
            return found
        problem = "a line has no 'period'"
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        problem = str(error)
    raise ParameterError(f"--records {file} was not written by 'holdfast check' ({problem}). Choose another file.")


def _write_records(file: Path, course: Course, reported: list[dict[str, Any]]) -> None:
    """Write one JSON line for each period; those of earlier runs stay, unless the period was checked again."""
    from holdfast.saving.files import write_bytes

    now = {period.name for period in course.periods}
    kept = [record for record in reported if str(record["period"]) not in now]
    lines = [json_line(record) for record in [*kept, *(period.to_dict() for period in course.periods)]]
    write_bytes(file, "".join(f"{line}\n" for line in lines).encode())
