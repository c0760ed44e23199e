"""Options that several commands share, with their help texts, and checks of output files and folders."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from holdfast.cli.terminal import note
from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import HoldfastError
from holdfast.extras import import_sklearn

if TYPE_CHECKING:
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.files import TableSource, TextLayout
    from holdfast.tables.roles import TableRows


MOST_FILES = 20  # beside a table, that are looked at for rows of a new site


def option(flag: str, text: str, metavar: str | None = None, **more: Any) -> Any:
    """Return an option of a command, with its help text and what its value is called there."""
    return typer.Option(flag, help=text, metavar=metavar, **more)


TABLE_HELP = (
    "A file (.csv, .tsv, also .gz, .bz2 or .zst; .jsonl, .feather, .arrow, .parquet, .xlsx), a folder of Parquet "
    "files, a URL, or - for standard input."
)
TableArgument = Annotated[str, typer.Argument(help=TABLE_HELP, metavar="TABLE")]
FolderArgument = Annotated[Path, typer.Argument(help="The folder that 'holdfast fit' wrote.", metavar="DIR")]
LabelOption = Annotated[str, option("--label", "Column with the label to predict.", "COL")]
EnvironmentOption = Annotated[
    list[str],
    option("--environment", "Column with the site (environment) of each row; repeat it to combine columns.", "COL"),
]
ESTIMATOR_NAMES = f"{', '.join(list(ESTIMATORS)[:-1])} or {list(ESTIMATORS)[-1]}."
EstimatorOption = Annotated[str, option("--estimator", ESTIMATOR_NAMES, "NAME")]
ReportOption = Annotated[Path | None, option("--report", "Also write an HTML report.", "FILE")]
SeedOption = Annotated[int, option("--seed", "Random seed.", "N", min=0)]
ClusterOption = Annotated[
    str | None,
    option(
        "--cluster",
        "Where fits run: local:N (processes), ray, ray://HOST:PORT, dask or tcp://HOST:PORT (Dask).",
        "WHERE",
    ),
]
ThresholdOption = Annotated[
    float | None,
    option(
        "--threshold",
        "Treat from this risk on, for sensitivity and net benefit (default: share of events).",
        "RISK",
        min=0,
        max=1,
    ),
]
WeightOption = Annotated[
    str | None, option("--weight", "Column of row weights, which is not used as a feature.", "COL")
]
TaskOption = Annotated[
    str,
    option("--task", "classification, regression (the label is an amount) or auto (detected, with a note).", "TASK"),
]
JsonOption = Annotated[bool, option("--json", "Print one JSON object instead of text.")]
OverwriteOption = Annotated[bool, option("--overwrite", "Replace what an earlier run wrote there.")]
SpreadsheetOption = Annotated[
    bool, option("--for-spreadsheets", "Put an apostrophe before texts that a spreadsheet would read as a formula.")
]
DataOption = Annotated[
    Path | None, option("--data", "Folder with the files of the data sets (default: $HOLDFAST_DATA).", "DIR")
]
MANIFEST = "manifest.json"
PAGES = (".html", ".htm")


@dataclass(frozen=True, kw_only=True)
class LayoutOptions:
    """How a text file is written, if the detection is wrong."""

    separator: Annotated[str | None, option("--separator", "Separator of a text file (default: detected).", "CHAR")] = (
        None
    )
    decimal: Annotated[str | None, option("--decimal", "Decimal sign of a text file (default: detected).", "CHAR")] = (
        None
    )
    encoding: Annotated[str | None, option("--encoding", "Encoding of a text file (default: detected).", "NAME")] = None

    def open(self, table: str, missing: Sequence[str] = (), **folder: Any) -> TableSource:
        """Open a table's file, or a folder of files, which `folder` is about."""
        from holdfast.tables.files import open_table

        return open_table(table, missing, self.text(), **folder)

    def text(self) -> TextLayout:
        """Return how text files are written."""
        from holdfast.tables.files import TextLayout

        separator = None if self.separator is None else self.separator.replace("\\t", "\t")
        return TextLayout(separator=separator, decimal=self.decimal, encoding=self.encoding)

    def open_for(self, folder: Path, table: str) -> tuple[TableClassifier, TableSource]:
        """Return the classifier that was saved in a folder and a table for it, and print how the table is read."""
        from holdfast.tables.classifier import TableClassifier

        fitted = TableClassifier.load(folder)
        rows = self.open(table, fitted.roles_.missing)
        for remark in rows.notes:
            note(f"note: {remark}")
        return fitted, rows


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """What the columns of a table are."""

    label: LabelOption
    environment: EnvironmentOption
    drop: Annotated[list[str], option("--drop", "Column to leave out; can be repeated.", "COL")] = field(
        default_factory=list
    )
    text: Annotated[list[str], option("--text", "Text column to split into words; can be repeated.", "COL")] = field(
        default_factory=list
    )
    categorical: Annotated[
        list[str], option("--categorical", "Column of numbers that are codes of categories; can be repeated.", "COL")
    ] = field(default_factory=list)
    missing: Annotated[
        list[str], option("--missing", "Text that means a missing value, such as '?'; can be repeated.", "TEXT")
    ] = field(default_factory=list)
    scale: Annotated[
        list[str],
        option(
            "--scale",
            "Convert the unit of a column at a site, such as 'creatinine@Lyon=1/88.4'; can be repeated. The saved "
            "model does the same.",
            "RULE",
        ),
    ] = field(default_factory=list)
    missing_labels: Annotated[
        str, option("--missing-labels", "What to do with rows without label or environment: stop or drop.", "WHAT")
    ] = "stop"
    environment_by: Annotated[
        str | None,
        option(
            "--environment-by",
            "Period that groups an environment column of dates: year, quarter, month or day.",
            "PERIOD",
        ),
    ] = None
    subjects: Annotated[
        str | None, option("--subjects", "Column with the patient, or another unit, whose rows stay together.", "COL")
    ] = None
    on_bad_file: Annotated[
        str | None,
        option(
            "--on-bad-file",
            "What to do with a file of a folder that is broken or has other columns: stop (default) or skip.",
            "WHAT",
        ),
    ] = None
    max_memory: Annotated[
        float | None,
        option(
            "--max-memory", "Sample the rows if the folder needs more than this many GiB (default: all memory).", "GIB"
        ),
    ] = None

    def roles(self) -> dict[str, Any]:
        """Return what the columns are, as parameters of `TableOptions` and `TableClassifier`."""
        return {name: value for name, value in vars(self).items() if name not in ("on_bad_file", "max_memory")}

    def read(
        self,
        table: str,
        layout: LayoutOptions | None = None,
        attributes: Sequence[str] = (),
        weight: str | None = None,
        task: Any = "classification",
    ) -> TableRows:
        """Read the rows of a table, and print what was left out or guessed."""
        from holdfast.diagnosis.words import say
        from holdfast.tables.roles import TableOptions, read_rows

        folder = {"on_bad_file": self.on_bad_file or "stop", "max_memory": self.max_memory}
        source = (layout or LayoutOptions()).open(table, self.missing, **folder)
        rows = read_rows(source, TableOptions(**self.roles(), weight=weight, task=task), attributes=attributes)
        for remark in rows.notes:
            note(f"note: {remark}")
        said = dict.fromkeys(say(problem, self.label) for problem in rows.problems if problem.is_headline)
        for sentence in said:  # before anything is fitted
            note(f"note: {sentence}")
        return rows

    def words(self) -> list[str]:
        """Return the options as they are typed.

        Examples
        --------
        >>> ColumnOptions(label="y", environment=["site"], drop=["id"]).words()
        ['--label', 'y', '--environment', 'site', '--drop', 'id']
        """
        return [word for option, values in self.typed().items() for value in values for word in (option, value)]

    def typed(self) -> dict[str, list[str]]:
        """Return the values of each option, by its name on the command line."""
        values = {f"--{name.replace('_', '-')}": value for name, value in self.roles().items()}
        values["--missing-labels"] = [self.missing_labels] * (self.missing_labels != "stop")
        return {name: value if isinstance(value, list) else [value] * bool(value) for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How often and with what randomness something is fitted."""

    seed: SeedOption = 0
    jobs: Annotated[int, option("--jobs", "Number of fits at the same time.", "N", min=1)] = 1
    cluster: ClusterOption = None

    @property
    def n_jobs(self) -> int | None:
        """Fits at the same time; None: the cluster decides."""
        return self.jobs if self.cluster is None else None


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Which runs of an experiment are started, and where their records and tables go."""

    finished: Annotated[bool, option("--finished", "Start no run; show what is finished.")] = False
    records: Annotated[
        Path | None, option("--records", "Also write the records that tables need (JSON lines).", "FILE")
    ] = None
    markdown: Annotated[Path | None, option("--markdown", "Also write the tables as Markdown.", "FILE")] = None
    latex: Annotated[Path | None, option("--latex", "Also write the tables as LaTeX.", "FILE")] = None
    from_records: Annotated[Path | None, option("--from", "Start no run; show the tables of such records.", "FILE")] = (
        None
    )
    dry_run: Annotated[bool, option("--dry-run", "Print the runs that are left and how long they will take.")] = False


def check_task(task: str) -> None:
    """Refuse a task that does not exist."""
    from holdfast.exceptions import ParameterError, suggest

    known = ("auto", "classification", "regression")
    if task not in known:
        raise ParameterError(f"There is no --task {task!r}. {suggest(task, known)}")


def one_by_one(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer: where it takes a dataclass of options, these are given one by one."""
    kinds = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kinds[name]))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        cluster = None if "runs" in groups else values.get("cluster")  # a sweep sends whole runs
        if "layout" in groups:  # reads a table: most of such a command is importing
            import_sklearn("linear_model", "impute")
        for name, kind in groups.items():
            values[name] = kind(**{option.name: values.pop(option.name) for option in fields(kind)})
        if cluster is None:
            command(**values)
            return
        from holdfast.parallel import on_cluster

        with on_cluster(cluster):
            command(**values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


@functools.cache
def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return a parameter for each option of a dataclass."""
    kinds, found = get_type_hints(group, include_extras=True), []
    for option in fields(group):
        default = option.default if option.default_factory is MISSING else option.default_factory()
        default = inspect.Parameter.empty if default is MISSING else default
        kind = inspect.Parameter.KEYWORD_ONLY
        found.append(inspect.Parameter(option.name, kind, default=default, annotation=kinds[option.name]))
    return found


def check_file(
    file: Path,
    *,
    overwrite: bool,
    option: str = "--out",
    inputs: Sequence[str | Path] = (),
    suffixes: Sequence[str] = (),
) -> None:
    """Refuse an output file of another type, that exists (without `overwrite`), is an input, or cannot be written."""
    from holdfast.exceptions import ParameterError
    from holdfast.saving.files import check_writable

    if not suffixes:
        from holdfast.tables.writing import WRITTEN

        suffixes = WRITTEN
    if file.suffix.lower() not in suffixes:
        raise ParameterError(
            f"{option} {file} is of the unknown type {file.suffix!r}. Use one of {', '.join(suffixes)}."
        )
    if any(file.resolve() == Path(path).resolve() for path in inputs):
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


def other_table(table: str, columns: Sequence[str]) -> str | None:
    """Return the newest file beside a table that has these columns, such as that of a new site; or None."""
    from holdfast.tables.files import open_table

    given = Path(table)
    if not given.is_file():
        return None
    files = [file for file in given.parent.glob(f"*{given.suffix}") if file.name != given.name and file.is_file()]
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)[:MOST_FILES]:
        with suppress(HoldfastError):
            source = open_table(str(given.with_name(file.name)))
            if all(column in source for column in columns):
                return str(given.with_name(file.name))
    return None


def free_name(name: str) -> str:
    """Return a name that no file or folder has yet, so that the next command runs as it is."""
    names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(found for found in names if not Path(found).exists())


def refuse_inside_model(path: Path, option: str) -> None:
    """Refuse to write into the folder of a saved model, which would not be loaded with a file it does not list."""
    from holdfast.exceptions import ParameterError

    if any((folder / MANIFEST).is_file() for folder in (path, path.parent)):
        raise ParameterError(f"{option} {path} is in the folder of a saved model. Choose a place outside of it.")
