"""Options that several commands share, each with one wording, and checks of where results are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.terminal import note
from holdfast.estimators.named import ESTIMATORS

if TYPE_CHECKING:
    from holdfast.tables.roles import TableOptions, TableRows

TableArgument = Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file.", metavar="TABLE")]
FolderArgument = Annotated[Path, typer.Argument(help="The folder that 'holdfast fit' wrote.", metavar="DIR")]
LabelOption = Annotated[str, typer.Option("--label", help="Column with the class label.", metavar="COL")]
EnvironmentOption = Annotated[
    list[str],
    typer.Option(
        "--environment", help="Column that says where a row came from; repeat it to cross columns.", metavar="COL"
    ),
]
PeriodOption = Annotated[
    str | None,
    typer.Option(
        "--environment-by",
        help="How to cut an environment column of dates: year, quarter, month or day.",
        metavar="PERIOD",
    ),
]
DropOption = Annotated[list[str], typer.Option("--drop", help="Column to leave out; can be repeated.", metavar="COL")]
TextOption = Annotated[
    list[str], typer.Option("--text", help="Text column whose words are used; can be repeated.", metavar="COL")
]
CategoricalOption = Annotated[
    list[str],
    typer.Option("--categorical", help="Column of numbers that are categories; can be repeated.", metavar="COL"),
]
EstimatorOption = Annotated[
    str,
    typer.Option(
        "--estimator",
        help=f"{', '.join(list(ESTIMATORS)[:-1])} or {list(ESTIMATORS)[-1]}.",
        metavar="NAME",
    ),
]
ReportOption = Annotated[Path | None, typer.Option("--report", help="Also write an HTML report.", metavar="FILE")]
SeedOption = Annotated[int, typer.Option("--seed", help="Makes the run repeatable.", min=0, metavar="N")]
JobsOption = Annotated[int, typer.Option("--jobs", help="Fits that run at the same time.", min=1, metavar="N")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote there.")]
SpreadsheetOption = Annotated[
    bool,
    typer.Option(
        "--for-spreadsheets", help="Put an apostrophe before texts that a spreadsheet would take for a formula."
    ),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder of the data sets' files (default: $HOLDFAST_DATA).", metavar="DIR")
]
ProcessesOption = Annotated[
    int, typer.Option("--jobs", help="Processes, each with one thread; 0: only this process.", min=0, metavar="N")
]
RecordsOption = Annotated[
    Path | None, typer.Option("--records", help="Also write compact records (JSON lines).", metavar="FILE")
]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", help="Also write the tables as Markdown.", metavar="FILE")
]
FinishedOption = Annotated[bool, typer.Option("--finished", help="Start no run; show what is finished.")]
FromRecordsOption = Annotated[
    Path | None, typer.Option("--from", help="Start no run; show the tables of these compact records.", metavar="FILE")
]

MANIFEST = "manifest.json"
PAGES = (".html", ".htm")


def read_table_rows(table: Path, options: TableOptions, attributes: Sequence[str] = ()) -> TableRows:
    """Read the rows of a table, and print what was left out or guessed."""
    from holdfast.tables.roles import read_rows

    rows = read_rows(table, options, attributes=attributes)
    for remark in rows.notes:
        note(f"note: {remark}")
    return rows


def option_words(options: TableOptions) -> list[str]:
    """Return table options as they are typed.

    Examples
    --------
    >>> from holdfast.tables.roles import TableOptions
    >>> option_words(TableOptions(label="y", environment=["site"], drop=["id"]))
    ['--label', 'y', '--environment', 'site', '--drop', 'id']
    """
    values: dict[str, Any] = {"--label": [options.label], "--environment": options.environment}
    values |= {"--environment-by": [options.environment_by] if options.environment_by else []}
    values |= {"--drop": options.drop, "--text": options.text, "--categorical": options.categorical}
    return [word for option, found in values.items() for value in found for word in (option, value)]


def check_file(
    file: Path,
    *,
    overwrite: bool,
    option: str = "--out",
    inputs: Sequence[Path] = (),
    suffixes: Sequence[str] = (),
) -> None:
    """Refuse an output file of another type, that exists (without `overwrite`), is an input, or cannot be written."""
    from holdfast.exceptions import ParameterError
    from holdfast.saving.files import check_writable

    if not suffixes:
        from holdfast.tables.files import TABLES

        suffixes = TABLES
    if file.suffix.lower() not in suffixes:
        raise ParameterError(
            f"{option} {file} is of the unknown type {file.suffix!r}. Use one of {', '.join(suffixes)}."
        )
    if any(file.resolve() == path.resolve() for path in inputs):
        raise ParameterError(f"{option} {file} is the input itself. Choose another file.")
    if not file.parent.is_dir():
        raise ParameterError(f"{option} {file} is in a folder that does not exist. Create it first.")
    refuse_inside_model(file, option)
    if file.is_dir() or (file.exists() and not overwrite):
        raise ParameterError(f"{option} {file} exists. Choose another file, or pass --overwrite.")
    check_writable(file)


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is not ours, one of ours without `overwrite`, and one that could not be written."""
    from holdfast.exceptions import SavedModelError
    from holdfast.saving.files import check_writable

    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        check_writable(folder.resolve())
        return
    if not (folder / MANIFEST).is_file():
        raise SavedModelError(f"{folder} exists and was not written by holdfast. Choose another --out.")
    if not overwrite:
        raise SavedModelError(f"{folder} already contains a saved model. Choose another --out, or pass --overwrite.")
    from holdfast.saving.models import KIND, check_target

    check_target(folder, KIND, overwrite=True)
    check_writable(folder.resolve())


def refuse_inside_model(path: Path, option: str) -> None:
    """Refuse to write into the folder of a saved model, which would not be loaded with a file it does not list."""
    from holdfast.exceptions import ParameterError

    if any((folder / MANIFEST).is_file() for folder in (path, path.parent)):
        raise ParameterError(f"{option} {path} is in the folder of a saved model. Choose a place outside of it.")
