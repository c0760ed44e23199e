"""`holdfast predict`: labels and probabilities for the rows of a table, in chunks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import FolderArgument, JsonOption, OverwriteOption, TableArgument
from holdfast.cli.terminal import note, print_json, print_table, showing_stages

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.classifier import Predictions, TableClassifier


def predict(
    folder: FolderArgument,
    table: TableArgument,
    out: Annotated[Path, typer.Option("--out", help="A .csv, .tsv or .parquet file to write.", metavar="FILE")],
    keep: Annotated[
        list[str], typer.Option("--keep", help="Column to copy beside the predictions; repeatable.", metavar="COL")
    ] = [],  # noqa: B006 - typer copies defaults
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the rows of a table with a saved classifier.

    Writes the columns 'prediction' and 'probability_<label>' for every row, in the table's order. Rows are read in
    chunks, so that the table may be larger than the memory.
    """
    import pandas as pd

    from holdfast.exceptions import ParameterError
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.files import TableFile
    from holdfast.tables.outputs import TableWriter, check_file

    check_file(out, overwrite=overwrite, inputs=[table])
    fitted = TableClassifier.load(folder)
    rows = TableFile(table)
    keep = list(dict.fromkeys(keep))
    rows.require(keep)
    written = _written_columns(fitted)
    for name in keep:
        if name in written:
            raise ParameterError(f"--keep {name} has the name of a column that is written. Rename it in {table}.")
    counts: Counter[str] = Counter()
    with showing_stages(f"predicting {table}"), TableWriter(out) as writer:
        for part in fitted.predictions(rows, keep):
            writer.write(_frame(part, [str(label) for label in fitted.classifier.classes_]))
            counts.update(map(str, part.labels))
        if not writer.n_rows:
            note(f"note: {table} has no rows")
            writer.write(pd.DataFrame(columns=[*keep, *written]))
    result = {"n_rows": writer.n_rows, "predicted": dict(counts.most_common()), "out": out}
    if as_json:
        print_json(result)
        return
    print(f"Predicted {writer.n_rows:,} rows; wrote {out}.")
    print_table("", ["prediction", "rows"], [[label, n] for label, n in counts.most_common(20)])


def _written_columns(fitted: TableClassifier) -> list[str]:
    """Return the columns that are written beside the kept ones."""
    classes = fitted.classifier.classes_ if hasattr(fitted.classifier, "predict_proba") else ()
    return ["prediction", *(f"probability_{name}" for name in classes)]


def _frame(part: Predictions, classes: list[str]) -> pd.DataFrame:
    """Return kept columns, predictions and probabilities side by side."""
    import pandas as pd

    columns = {"prediction": part.labels}
    if part.probabilities is not None:
        columns |= {f"probability_{name}": part.probabilities[:, place] for place, name in enumerate(classes)}
    return pd.concat([part.kept.reset_index(drop=True), pd.DataFrame(columns)], axis=1)
