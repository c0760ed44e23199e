"""Roles of columns (label, environment, features, weight, subjects), and reading rows by them."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from holdfast.environments import Rows, listed
from holdfast.exceptions import LabelsError, NewSiteWarning, ParameterError, SavedModelError, TableError, suggest, warn
from holdfast.seeding import Seeding
from holdfast.tables.files import TableLike, TableSource, open_table
from holdfast.tables.remarks import spelling_note, table_notes
from holdfast.tables.scales import Scale, apply_scales
from holdfast.tables.schema import PLAIN, TableSchema, storage_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.diagnosis.soundness import Problem
    from holdfast.tables.folders import TableFolder


Task = Literal["classification", "regression", "auto"]
MOST_CLASSES = 50  # different whole numbers from which on a label may be an amount


MISSING_LABELS = ("stop", "drop")  # refuse rows without a label or an environment, or leave them out
PERIODS: Mapping[str, str] = {"year": "%Y", "quarter": "%Y-Q{quarter}", "month": "%Y-%m", "day": "%Y-%m-%d"}


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Which columns of a table are label, environment and features, as the user says; all others are features."""

    label: str  # column with the class
    environment: str | Sequence[str]  # column that says where a row came from; several are crossed
    environment_by: str | None = None  # how to cut an environment column of dates, see `PERIODS`
    drop: str | Sequence[str] = ()  # columns to leave out
    text: str | Sequence[str] = ()  # feature columns whose words are used
    categorical: str | Sequence[str] = ()  # feature columns of numbers that are levels, not amounts
    missing: str | Sequence[str] = ()  # texts that mean a missing value, such as "?"
    scale: str | Sequence[str] = ()  # conversions of units, such as "creatinine@Lyon=1/88.4"
    missing_labels: str = "stop"  # rows without a label or an environment: see `MISSING_LABELS`
    weight: str | None = None  # column that says how much each row counts
    subjects: str | None = None  # column that says which rows belong together, such as those of one patient
    task: Task = "classification"  # "regression": the label is an amount; "auto": see `is_amount`

    def __post_init__(self) -> None:
        if not isinstance(self.label, str):
            raise ParameterError(
                f"label= takes the name of a column. Got {type(self.label).__name__} instead. Pass for "
                "example label='ill'."
            )
        for name in ("environment", "drop", "text", "categorical", "missing", "scale"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if not self.environment:
            raise ParameterError("No environment column is named. Pass one, for example environment='site'.")
        if self.environment_by is not None and self.environment_by not in PERIODS:
            raise ParameterError(
                f"environment_by={self.environment_by!r} is not a period. {suggest(self.environment_by, list(PERIODS))}"
            )
        if self.missing_labels not in MISSING_LABELS:
            raise ParameterError(
                f"missing_labels={self.missing_labels!r} is not a choice. "
                f"{suggest(self.missing_labels, list(MISSING_LABELS))}"
            )
        if self.label in self.environment:
            raise TableError(f"Column {self.label!r} cannot be both the label and an environment. Name two columns.")
        for name in (*self.drop, *self.text, *self.categorical):
            self.refuse_role(name, "it cannot be a feature or dropped")
        if self.weight is not None:
            self.refuse_role(self.weight, "it cannot be the weight")
        if self.subjects is not None:
            why = "it cannot also say which rows belong together. Name another column, for example that of the patient"
            self.refuse_role(self.subjects, why)

    def refuse_role(self, name: str, reason: str) -> None:
        """Refuse a column that is the label or an environment already."""
        if name == self.label or name in self.environment:
            raise TableError(f"Column {name!r} is the label or an environment; {reason}.")

    def feature_names(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that are left as features."""
        taken = {self.label, *self.environment, *self.drop, self.weight, self.subjects}
        return [name for name in columns if name not in taken]


@dataclass(frozen=True)
class TableRoles:
    """What the columns were when a classifier was fitted: saved with it."""

    label: str
    label_storage: str
    environments: tuple[str, ...]
    period: str | None
    schema: TableSchema
    environment_storages: Mapping[str, str] = field(default_factory=dict)  # column -> what it contains
    known: tuple[str, ...] = ()  # environments it was fitted on, small ones that were merged too
    missing: tuple[str, ...] = ()  # texts that mean a missing value
    scales: tuple[Scale, ...] = ()  # conversions of units at some sites

    def needed(self, present: Container[str]) -> list[str]:
        """Return the columns that features are made of: with conversions by site, its columns too, if present."""
        by_site = any(scale.site for scale in self.scales) and all(name in present for name in self.environments)
        return list(dict.fromkeys([*self.schema.names(), *(self.environments if by_site else ())]))

    def needed_types(self, present: Container[str]) -> dict[str, str]:
        """How to read the needed columns from a CSV file."""
        sites = [name for name in self.environments if name in self.needed(present)]
        types = {name: kind for name, kind in self.types(sites).items() if name in sites}
        return {**self.schema.types, **types}

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Convert units, check the columns and return plain features, see `TableSchema.features`."""
        if not self.scales:
            return self.schema.features(frame)
        sites = None
        if all(name in frame.columns for name in self.environments):
            sites = read_environments(frame, self.environments, self.period, self.environment_storages)
        elif any(scale.site for scale in self.scales):
            warn(
                f"There is no column {self.environments[0]!r}, so conversions of units by site are not applied: "
                f"{listed([scale.text for scale in self.scales])}.",
                NewSiteWarning,
            )
        self.schema.require(list(map(str, frame.columns)))
        return self.schema.features(apply_scales(frame, self.scales, sites))

    def to_dict(self) -> dict[str, Any]:
        """Return the roles as plain JSON values."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableRoles:
        """Return the roles that `to_dict` wrote."""
        try:
            schema = TableSchema.from_dict(values["schema"])
            return cls(
                str(values["label"]),
                str(values["label_storage"]),
                tuple(map(str, values["environments"])),
                values["period"],
                schema,
                dict(values.get("environment_storages", {})),
                tuple(map(str, values.get("known", ()))),
                tuple(map(str, values.get("missing", ()))),
                tuple(Scale(**scale) for scale in values.get("scales", ())),
            )
        except (KeyError, TypeError) as problem:
            raise SavedModelError(
                f"The saved model does not say which columns it was fitted with ({problem!r}). "
                "Pass one that 'holdfast fit' wrote."
            ) from problem

    def types(self, environments: Sequence[str]) -> dict[str, str]:
        """How to read the label and the named environment columns of a CSV file, as far as fitting has shown."""
        # Numbers stay open: the name of a new site may be text, and other labels are refused later.
        texts = {name: "string" for name in environments if self.environment_storages.get(name) == "string"}
        return texts if self.label_storage in ("number", "boolean") else {**texts, self.label: "string"}


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table with labels."""

    roles: TableRoles
    features: pd.DataFrame  # plain features, see `TableSchema.features`
    y: NDArray[Any]  # (n_rows,) labels as they are in the table
    environments: NDArray[Any]  # (n_rows,) environment labels
    attributes: pd.DataFrame | None = None  # columns that are looked at, but are not features
    notes: tuple[str, ...] = ()  # what was left out or guessed
    source: TableFolder | None = None  # where all rows are, if these are a sample of a folder beyond the memory
    sample_weight: NDArray[np.float64] | None = None  # (n_rows,) how much each row counts
    subjects: NDArray[Any] | None = None  # (n_rows,) rows with the same label belong together
    task: Task = "classification"  # or "regression": the label is an amount

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the table, the worst first; looked for once."""
        from holdfast.tables.checks import check_rows

        return check_rows(self)

    @property
    def n_rows(self) -> int:
        """Number of rows, in the folder where these are a sample of it."""
        return len(self.y) if self.source is None else self.source.n_rows

    def take(self, rows: Rows) -> TableRows:
        """Return some of the rows."""
        columns = {name: getattr(self, name) for name in ("y", "environments", "sample_weight", "subjects")}
        frames = {name: getattr(self, name) for name in ("features", "attributes")}
        taken: dict[str, Any] = {name: None if values is None else values[rows] for name, values in columns.items()}
        taken |= {name: None if frame is None else frame.iloc[rows] for name, frame in frames.items()}
        return replace(self, **taken)

    def counted(self) -> TableRows:
        """Return the rows whose weight is above 0."""
        if self.sample_weight is None or self.sample_weight.all():
            return self
        kept = self.take(np.flatnonzero(self.sample_weight))
        left_out = f"{len(self.y) - len(kept.y):,} of {len(self.y):,} rows are left out because their weight is 0"
        return replace(kept, notes=(*self.notes, left_out))


def read_rows(table: TableLike, options: TableOptions, *, attributes: Sequence[str] = ()) -> TableRows:
    """Read the rows of a file or frame to fit on; attributes are read next to the features and are not among them."""
    source = open_table(table, options.missing)
    label, environment = options.label, options.environment
    for name in attributes:
        options.refuse_role(name, "it cannot be an attribute")
    weighted = [name for name in (options.weight, options.subjects) if name is not None]
    source.require([label, *environment, *options.drop, *options.text, *options.categorical, *weighted, *attributes])
    names = options.feature_names(source.columns)
    if attributes:
        names = [name for name in names if name not in set(attributes)]
    if not names:
        raise TableError(f"{source.name} has no feature column left. Keep at least one besides label and environment.")
    wanted = list(dict.fromkeys([label, *environment, *names, *weighted, *attributes]))
    frame, sampled, notes = _read_or_sample(source, wanted, environment)
    if sampled is not None and (options.scale or options.missing_labels == "drop"):
        raise ParameterError(
            "scale= and missing_labels='drop' need all rows in memory, but only a sample of this folder was read. "
            "Convert the files first."
        )
    if options.missing_labels == "drop":
        frame, left_out = _drop_unlabeled(frame, label, environment, source.name)
        notes = (*notes, *left_out)
    for what, name in (("Label", label), *(("Environment", name) for name in environment)):
        _refuse_missing(frame[name], what, name, "leave the rows out with missing_labels='drop'")
    task = options.task
    if task == "auto":
        task = "regression" if is_amount(frame[label], label) else "classification"
        if task == "regression":
            notes += (f"label {label!r} is numeric, so this is a regression; task='classification' takes classes",)
    if task == "regression":
        y: NDArray[Any] = read_numbers(frame[label], label)
    else:
        y = read_labels(frame[label], label)
        _check_classes(frame[label], label)
    scales = tuple(Scale.parse(text, names) for text in options.scale)
    storages = {name: storage_of(frame[name], name) for name in environment}
    if options.environment_by is not None and "date" not in storages.values():
        name, example = environment[0], str(frame[environment[0]].iloc[0])
        raise TableError(
            f"environment_by='{options.environment_by}' cuts dates, but {listed([repr(name) for name in environment])} "
            f"contains {storages[name]} values such as {example!r}. Write dates as 2026-11-15, or leave "
            "environment_by= out."
        )
    labels = read_environments(frame, environment, options.environment_by)
    known = tuple(dict.fromkeys(map(str, labels)))
    for scale in scales:
        if scale.site and scale.site not in known:
            raise TableError(f"scale={scale.text!r} names no known site. {suggest(scale.site, list(known))}")
    frame = apply_scales(frame, scales, labels)
    schema = TableSchema.infer(frame[names], text=options.text, categorical=options.categorical)
    roles = TableRoles(
        label,
        storage_of(frame[label], label),
        tuple(environment),
        options.environment_by,
        schema,
        storages,
        known,
        tuple(options.missing),
        scales,
    )
    found = TableSchema.infer(frame[list(attributes)]).features(frame) if attributes else None
    named = environment if task == "regression" else (label, *environment)
    spelled = [note for column in named if (note := spelling_note(frame[column], column))]
    features = schema.features(frame)
    notes = (*notes, *spelled, *table_notes(frame, schema))
    weights = None if options.weight is None else _read_weights(frame[options.weight], options.weight, sampled)
    subjects = None if options.subjects is None else _read_subjects(frame[options.subjects], options.subjects)
    return TableRows(roles, features, y, labels, found, notes, sampled, weights, subjects, task).counted()


def is_amount(series: pd.Series[Any], name: str) -> bool:
    """Return whether a label is an amount: decimal numbers, or whole ones with many values.

    Examples
    --------
    >>> import pandas as pd
    >>> is_amount(pd.Series([1.5, 2.0]), "cost"), is_amount(pd.Series([0, 1, 1]), "ill")
    (True, False)
    """
    if storage_of(series, name) != "number":
        return False
    known = series.dropna()
    if (known % 1 != 0).any():
        return True
    n_values = int(known.nunique())
    return n_values > MOST_CLASSES and n_values > 0.1 * len(known)


def read_numbers(series: pd.Series[Any], name: str) -> NDArray[np.float64]:
    """Return a label that is an amount; refuse gaps, texts and infinity."""
    _refuse_missing(series, "Label", name)
    if storage_of(series, name) != "number":
        raise LabelsError(
            f"Label column {name!r} contains {storage_of(series, name)} values such as {str(series.iloc[0])!r}, so it "
            "is not an amount. Pass task='classification', or name a column of numbers."
        )
    values = series.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise LabelsError(f"Label column {name!r} contains infinity. Remove these rows.")
    if values.min() == values.max():
        raise LabelsError(f"Label column {name!r} is {values[0]:g} in every row. Pass rows whose labels differ.")
    return values


def _read_weights(series: pd.Series[Any], name: str, sampled: TableFolder | None) -> NDArray[np.float64]:
    """Return a column of weights; refuse gaps, texts and negative numbers."""
    if sampled is not None:
        raise ParameterError(
            f"weight={name!r} does not go with a folder beyond the memory, of which a sample is read. Raise "
            "max_memory=, or leave the weights out."
        )
    if storage_of(series, name) not in ("number", "boolean"):
        raise TableError(f"Weight column {name!r} has no numbers. Name a column that says how much each row counts.")
    _refuse_missing(series, "Weight", name)
    weights = series.to_numpy(dtype=np.float64)
    if weights.min() < 0 or not np.isfinite(weights).all() or not weights.any():
        raise TableError(
            f"Weight column {name!r} runs from {weights.min():.3g} to {weights.max():.3g}. Weights are "
            "finite, at least 0, and not all 0."
        )
    return weights


def _read_subjects(series: pd.Series[Any], name: str) -> NDArray[Any]:
    """Return which rows belong together; refuse gaps."""
    _refuse_missing(series, "Subject", name)
    subjects = series.astype(str).to_numpy()
    if len(np.unique(subjects)) < 2:
        raise TableError(
            f"Subject column {name!r} is {subjects[0]!r} in every row. Name a column that tells subjects apart, such "
            "as a patient number."
        )
    return np.asarray(subjects)


def _read_or_sample(
    source: TableSource, columns: list[str], environment: Sequence[str]
) -> tuple[pd.DataFrame, TableFolder | None, tuple[str, ...]]:
    """Read columns, or of a folder beyond the memory a sample of their rows; say what was left out."""
    from holdfast.tables.folders import SAMPLE_ROWS, TableFolder

    if not isinstance(source, TableFolder) or not source.is_beyond_memory(len(columns)):
        frame = source.read(columns)
        return frame, None, source.notes
    frame = source.sample(columns, SAMPLE_ROWS, Seeding(0), environment)
    note = (
        f"{source.name} has {source.n_rows:,} rows; {len(columns)} columns of them need about "
        f"{source.needed_bytes(len(columns)) / 2**30:.1f} GiB of memory, and {source.memory / 2**30:.1f} GiB are "
        f"there. So {len(frame):,} rows, drawn at random, were read."
    )
    return frame, source, (*source.notes, note)


def _drop_unlabeled(
    frame: pd.DataFrame, label: str, environment: Sequence[str], name: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Leave out rows without a label or an environment; say how many."""
    blank = {column: _is_blank(frame[column]) for column in (label, *environment)}
    kept = ~np.any(list(blank.values()), axis=0)
    if not kept.any():
        raise TableError(f"{name} has no row with both a label and an environment. Fill them in.")
    notes = [
        f"{rows.sum():,} of {len(frame):,} rows are left out because {column!r} is missing"
        for column, rows in blank.items()
        if rows.any()
    ]
    return (frame[kept].reset_index(drop=True), tuple(notes)) if notes else (frame, ())


def _is_blank(series: pd.Series[Any]) -> NDArray[np.bool_]:
    """Return which cells are missing or contain nothing but spaces, (n_rows,)."""
    found = series.isna()
    if series.dtype == object or str(series.dtype) in ("string", "str"):
        found |= series.astype(str).str.strip() == ""
    return found.to_numpy(dtype=bool)


def _check_classes(series: pd.Series[Any], name: str) -> None:
    """Refuse a label column that is an amount, or has one class only."""
    if storage_of(series, name) == "number" and (series % 1 != 0).any():
        amount = series[series % 1 != 0].iloc[0]
        raise LabelsError(
            f"Label column {name!r} contains decimal numbers such as {amount}, so it is an amount, not a class. "
            "Name a column with classes, cut it into classes, or use 'fit', 'diagnose' or 'evaluate' with "
            "task='regression'."
        )
    if series.nunique() < 2:
        raise LabelsError(
            f"Label column {name!r} contains only the class {str(series.iloc[0])!r}. Pass rows of at least two classes."
        )


def read_labels(series: pd.Series[Any], name: str, classes: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the labels as an array; refuse missing ones. Numbers get the type of `classes` where they fit."""
    _refuse_missing(series, "Label", name)
    if storage_of(series, name) in ("string", "date"):
        return series.astype(str).to_numpy(dtype=object)
    labels = series.to_numpy()
    if classes is None or not {labels.dtype.kind, classes.dtype.kind} <= PLAIN.keys() or not np.isfinite(labels).all():
        return labels
    alike = labels.astype(classes.dtype)
    return alike if (alike == labels).all() else labels


def read_known_labels(series: pd.Series[Any], name: str, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels in the type of the classes of a classifier; refuse them if it knows none of them."""
    labels = read_labels(series, name, classes)
    names, found = {str(label): label for label in classes}, {str(label) for label in np.unique(labels)}
    unknown, mixed = sorted(found - set(names)), (labels.dtype.kind in PLAIN) != (classes.dtype.kind in PLAIN)
    if unknown and (mixed or len(unknown) == len(found)):
        raise LabelsError(
            f"Column {name!r} has the labels {listed(unknown)}, which the classifier does not know: it was fitted with "
            f"{listed(list(names))}. Write the labels as in the table that it was fitted on."
        )
    return np.array([names[str(label)] for label in labels], dtype=classes.dtype) if mixed else labels


def read_environments(
    frame: pd.DataFrame, columns: Sequence[str], period: str | None, storages: Mapping[str, str] | None = None
) -> NDArray[Any]:
    """Return one environment label for each row: several columns crossed, dates cut into periods.

    `storages` says what columns contained when a classifier was fitted: where it was numbers, digits are numbers still.
    """
    parts = [_environment_column(frame[name], name, period, (storages or {}).get(name)) for name in columns]
    if len(parts) == 1:
        return parts[0]
    return np.array([" × ".join(map(str, row)) for row in zip(*parts, strict=True)], dtype=object)


def _environment_column(series: pd.Series[Any], name: str, period: str | None, fitted: str | None) -> NDArray[Any]:
    """Return one column's labels: whole numbers stay numbers (and sort so), everything else becomes text."""
    _refuse_missing(series, "Environment", name)
    storage = storage_of(series, name)
    if storage == "date":
        if period is None:
            raise TableError(
                f"Environment column {name!r} contains dates. Say how to cut them: environment_by='year' (or "
                "quarter, month, day)."
            )
        texts = series.dt.strftime(PERIODS[period])
        if period == "quarter":
            texts = texts.str.replace("{quarter}", "") + series.dt.quarter.astype(str)
        return np.asarray(texts, dtype=object)
    if storage == "number" and (series.abs() < 2**63).all() and (series % 1 == 0).all():
        return series.to_numpy(dtype=np.int64)
    texts = series.astype(str)
    if storage == "string" and fitted == "number":  # a new site has letters, so that 0012 is read as a text here
        texts = texts.map(lambda text: str(int(text)) if text.isdecimal() else text)
    return np.asarray(texts, dtype=object)


def _refuse_missing(series: pd.Series[Any], what: str, name: str, instead: str = "remove the rows") -> None:
    missing = np.flatnonzero(_is_blank(series))
    if len(missing):
        raise TableError(
            f"{what} column {name!r} is missing in {len(missing)} of {len(series)} rows (first in data row "
            f"{missing[0] + 1}). Fill them in, or {instead}. Empty cells, NA, NaN, NULL and None count as missing."
        )
