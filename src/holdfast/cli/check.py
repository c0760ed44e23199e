"""`holdfast check`: can a saved classifier be used at a new site? Asks rows of the site, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from holdfast.cli.terminal import command_line, note, print_table, print_text, say, show, showing_stages

if TYPE_CHECKING:
    from holdfast.newsite.check import SiteCheck


def check(
    folder: FolderArgument,
    table: TableArgument,
    *,
    layout: LayoutOptions,
    out: Annotated[Path | None, option("--out", "Also write the answer as an .html page.", "FILE")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a classifier can be used at a new site, from rows of that site without labels.

    The first line is the advice: use it, adapt it, label about 50 rows, or do not use it. Then come columns that differ
    from the training data in type or content, covariate shift by column, how unstable columns relate to the label
    there, and the accuracy to expect. A label column is ignored.
    """
    from holdfast.tables.classifier import TableClassifier

    if out is not None:
        check_file(out, overwrite=overwrite, inputs=[table], suffixes=PAGES)
    fitted = TableClassifier.load(folder)
    rows = layout.open(table, fitted.roles_.missing)
    for remark in rows.notes:
        note(f"note: {remark}")
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
    if found.advice == "label":
        return command_line("holdfast", "recalibrate", folder, "LABELED.csv", "--out", f"{folder}-recalibrated")
    return command_line("holdfast", "predict", folder, table, "--out", "predictions.csv")


def _print(found: SiteCheck, out: Path | None) -> None:
    """Print what the advice rests on."""
    for line in found.remarks:
        print_text(line)
    if found.moved:
        rows = [[check.name, check.share, check.changed] for check in found.moved[:10]]
        header = ["column", "moved by (standard deviations)", "predictions it changes"]
        print_table("Columns that are distributed differently", header, rows)
    print_table("Predictions", ["class", "share"], [[name, share] for name, share in found.predicted.items()])
    if out is not None:
        say("")
        say(f"Wrote {out}.")
