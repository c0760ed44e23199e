"""`holdfast predict`: labels and probabilities for the rows of a table, in chunks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from holdfast.cli.options import (
    FolderArgument,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    SpreadsheetOption,
    TableArgument,
    check_file,
    option,
)
from holdfast.cli.terminal import command_line, note, print_table, show, showing_stages, verdict_values
from holdfast.exceptions import ParameterError


def predict(
    folder: FolderArgument,
    table: TableArgument,
    *,
    layout: LayoutOptions,
    out: Annotated[
        Path, option("--out", "A .csv, .tsv or .parquet file to write (default: standard output, as CSV).", "FILE")
    ] = Path("-"),
    keep: Annotated[
        list[str], option("--keep", "Column to copy next to the predictions; can be repeated.", "COL")
    ] = [],  # noqa: B006 - typer copies defaults
    recalibrate: Annotated[
        Path | None,
        option(
            "--recalibrate",
            "Table with labeled rows of one site; they correct the probabilities for this site.",
            "FILE",
        ),
    ] = None,
    adapt: Annotated[
        bool, option("--adapt", "First adapt a stable classifier to these rows, which must come from one site.")
    ] = False,
    for_spreadsheets: SpreadsheetOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the rows of a table with a saved classifier.

    Writes the columns 'prediction' and 'probability_<label>' for every row, in the table's order. Rows are read in
    chunks, so the table may be larger than the memory.
    """
    from holdfast.tables.regression import TableRegressor, load_model

    if str(out) == "-":
        if as_json:
            raise ParameterError("Predictions go to standard output, where --json would print. Name a file with --out.")
    else:
        check_file(out, overwrite=overwrite, inputs=[table, *([recalibrate] if recalibrate else [])])
    fitted = load_model(folder)
    result: dict[str, Any] = {"out": out}
    if isinstance(fitted, TableRegressor):
        if adapt or recalibrate is not None:
            raise ParameterError(
                f"{folder} is a regression model, which --adapt and --recalibrate do not support. Leave them out."
            )
        result["task"] = "regression"
    else:
        if adapt:
            fitted = fitted.adapt(layout.open(table, fitted.roles_.missing))
            note(f"note: {fitted.adaptation_}")
            if fitted.adaptation_ is not None:
                result["adaptation"] = fitted.adaptation_.to_dict()
        if recalibrate is not None:
            fitted = fitted.recalibrate(layout.open(str(recalibrate), fitted.roles_.missing))
        result["verdict"] = verdict_values(fitted.method_)
    rows = layout.open(table, fitted.roles_.missing)
    for remark in rows.notes:
        note(f"note: {remark}")
    with showing_stages(f"predicting {table}"):
        counts: Counter[str] = fitted.write_predictions(rows, out, keep=keep, for_spreadsheets=for_spreadsheets)
    n_rows = counts.total()
    if not n_rows:
        note(f"note: {table} has no rows")
    if str(out) == "-":  # nothing but the predictions
        return
    if "task" in result:
        counts.clear()
    else:
        result["predicted"] = dict(counts.most_common())
    shares = [f"{count / n_rows:.1%} {label}" for label, count in counts.most_common(3)]
    more = f" and {len(counts) - 3} other labels" if len(counts) > 3 else ""
    corrected = f"recalibrated with {recalibrate}; " if recalibrate else ""
    answer = f"Predicted {n_rows:,} rows{': ' * bool(shares)}{', '.join(shares)}{more}; {corrected}wrote {out}."
    following = command_line("holdfast", "evaluate", folder, table)
    if fitted.roles_.label not in rows:
        following = command_line("holdfast", "report", folder)
    result = {"n_rows": n_rows, **result}
    show(answer, result, following=following, as_json=as_json, body=lambda: _print(counts))


def _print(counts: Counter[str]) -> None:
    if counts:
        print_table("", ["prediction", "rows"], [[label, n] for label, n in counts.most_common(20)])
