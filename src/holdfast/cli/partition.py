"""`holdfast partition`: run stages 1 and 2 alone, and write which rows each judge gets right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from holdfast.cli.options import (
    ColumnOptions,
    EstimatorOption,
    FitOptions,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    SpreadsheetOption,
    TableArgument,
    check_file,
    option,
)
from holdfast.cli.terminal import command_line, print_stages, say, show, showing_stages


def partition(
    table: TableArgument,
    *,
    columns: ColumnOptions,
    layout: LayoutOptions,
    out: Annotated[Path, option("--out", "A .csv, .tsv or .parquet file to write.", "FILE")],
    estimator: EstimatorOption = "logistic",
    fits: FitOptions,
    for_spreadsheets: SpreadsheetOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write which rows classifiers of other environments get right.

    One classifier (a judge) is fitted on each environment and predicts the rows of all others. The file has a row for
    each row of the table: its number (from 0), label, environment, and a column 'correct_by_<judge>' that is empty for
    the judge's own rows.
    """
    from holdfast.tables.stages import partition_rows
    from holdfast.tables.writing import TableWriter

    check_file(out, overwrite=overwrite, inputs=[table])
    rows = columns.read(table, layout)
    with showing_stages(f"judging with {estimator} on {len(rows.y):,} rows"):
        frame, summary = partition_rows(rows, estimator, random_state=fits.seed, n_jobs=fits.n_jobs)
        with TableWriter(out, for_spreadsheets=for_spreadsheets) as writer:
            writer.write(frame)
    found = summary["partitions"]
    n_mistaken, n_judged = (sum(p[key] for p in found) for key in ("n_mistaken", "n_correct"))
    share = n_mistaken / (n_mistaken + n_judged)
    answer = f"Judges were mistaken in {share:.1%} of the rows of other environments ({len(found)} partitions)."
    result = {"estimator": estimator, "n_rows": len(frame), **summary, "out": out}
    following = command_line("holdfast", "fit", table, *columns.words(), "--out", "model")

    def body() -> None:
        print_stages(summary)
        say("")
        say(f"Wrote {out}.")

    show(answer, result, following=following, as_json=as_json, body=body)
