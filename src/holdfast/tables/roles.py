"""What each column of a table is for: label, environment, attribute or feature; and the rows read accordingly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.environments import listed
from holdfast.exceptions import LabelsError, ParameterError, SavedModelError, TableError, suggest
from holdfast.tables.files import open_table
from holdfast.tables.schema import TableSchema, looks_like_text, odd_tokens, storage_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PERIODS: Mapping[str, str] = {"year": "%Y", "quarter": "%Y-Q{quarter}", "month": "%Y-%m", "day": "%Y-%m-%d"}


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Which columns of a table are label, environment and features, as the user says.

    Parameters
    ----------
    label : str
        Column with the class.
    environment : str or sequence of str
        Column that says where a row came from. Several columns are crossed.
    environment_by : {"year", "quarter", "month", "day"}, optional
        How to cut an environment column of dates.
    drop : str or sequence of str
        Columns to leave out. All others are features.
    text : str or sequence of str
        Feature columns whose words are used.
    categorical : str or sequence of str
        Feature columns of numbers that are levels, not amounts.
    missing : str or sequence of str
        Texts that mean a missing value, such as "?".
    """

    label: str
    environment: str | Sequence[str]
    environment_by: str | None = None
    drop: str | Sequence[str] = ()
    text: str | Sequence[str] = ()
    categorical: str | Sequence[str] = ()
    missing: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("environment", "drop", "text", "categorical", "missing"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if not self.environment:
            raise ParameterError("No environment column is named. Pass one, for example environment='site'.")
        if self.environment_by is not None and self.environment_by not in PERIODS:
            raise ParameterError(
                f"environment_by={self.environment_by!r} is not a period. {suggest(self.environment_by, list(PERIODS))}"
            )
        if self.label in self.environment:
            raise TableError(f"Column {self.label!r} cannot be both the label and an environment. Name two columns.")
        for name in (*self.drop, *self.text, *self.categorical):
            self.refuse_role(name, "it cannot be a feature or dropped")

    def refuse_role(self, name: str, reason: str) -> None:
        """Refuse a column that is the label or an environment already."""
        if name == self.label or name in self.environment:
            raise TableError(f"Column {name!r} is the label or an environment; {reason}.")

    def feature_names(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that are left as features."""
        taken = {self.label, *self.environment, *self.drop}
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

    def to_dict(self) -> dict[str, Any]:
        """Return the roles as plain JSON values."""
        return {
            "label": self.label,
            "label_storage": self.label_storage,
            "environments": list(self.environments),
            "period": self.period,
            "schema": self.schema.to_dict(),
            "environment_storages": dict(self.environment_storages),
            "known": list(self.known),
            "missing": list(self.missing),
        }

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
            )
        except (KeyError, TypeError) as problem:
            raise SavedModelError(
                f"The saved model does not say which columns it was fitted with ({problem!r}). "
                "Pass one that 'holdfast fit' wrote."
            ) from problem

    def types(self, environments: Sequence[str]) -> dict[str, str]:
        """How to read the label and the named environment columns of a CSV file, as far as fitting has shown."""
        kinds = {"number": "number", "boolean": "boolean"}
        # A number stays open: the name of a new site may be text.
        texts = {name: "string" for name in environments if self.environment_storages.get(name) == "string"}
        return {**texts, self.label: kinds.get(self.label_storage, "string")}


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table with labels."""

    roles: TableRoles
    features: pd.DataFrame  # plain features, see `TableSchema.features`
    y: NDArray[Any]  # (n_rows,) labels as they are in the table
    environments: NDArray[Any]  # (n_rows,) environment labels
    attributes: pd.DataFrame | None = None  # columns that are looked at, but are not features
    notes: tuple[str, ...] = ()  # what was left out or guessed


def read_rows(table: Any, options: TableOptions, *, attributes: Sequence[str] = ()) -> TableRows:
    """Read the rows to fit on.

    Parameters
    ----------
    table : path or data frame
    options : TableOptions
        What the columns are.
    attributes : sequence of str
        Columns that are read next to the features and are not among them.
    """
    source = open_table(table, options.missing)
    label, environment = options.label, options.environment
    for name in attributes:
        options.refuse_role(name, "it cannot be an attribute")
    source.require([label, *environment, *options.drop, *options.text, *options.categorical, *attributes])
    names = options.feature_names(source.columns)
    if attributes:
        names = [name for name in names if name not in set(attributes)]
    if not names:
        raise TableError(f"{source.name} has no feature column left. Keep at least one besides label and environment.")
    frame = source.read(list(dict.fromkeys([label, *environment, *names, *attributes])))
    y = read_labels(frame[label], label)
    _check_classes(frame[label], label)
    schema = TableSchema.infer(frame[names], text=options.text, categorical=options.categorical)
    storages = {name: storage_of(frame[name], name) for name in environment}
    if options.environment_by is not None and "date" not in storages.values():
        name, example = environment[0], str(frame[environment[0]].iloc[0])
        raise TableError(
            f"environment_by='{options.environment_by}' cuts dates, but {listed([repr(name) for name in environment])} "
            f"contains {storages[name]} values such as {example!r}. Write dates as 2026-11-15, or leave it out."
        )
    labels = read_environments(frame, environment, options.environment_by)
    known = tuple(dict.fromkeys(map(str, labels)))
    roles = TableRoles(
        label,
        storage_of(frame[label], label),
        tuple(environment),
        options.environment_by,
        schema,
        storages,
        known,
        tuple(options.missing),
    )
    found = TableSchema.infer(frame[list(attributes)]).features(frame) if attributes else None
    return TableRows(roles, schema.features(frame), y, labels, found, _notes(frame, schema))


def _check_classes(series: pd.Series[Any], name: str) -> None:
    """Refuse a label column that is an amount, or has one class only."""
    if storage_of(series, name) == "number" and (series % 1 != 0).any():
        amount = series[series % 1 != 0].iloc[0]
        raise LabelsError(
            f"Label column {name!r} contains decimal numbers such as {amount}, so it is an amount, not a class. "
            "Name a column with classes, or cut it into classes first."
        )
    if series.nunique() < 2:
        raise LabelsError(
            f"Label column {name!r} contains only the class {str(series.iloc[0])!r}. Pass rows of at least two classes."
        )


def read_labels(series: pd.Series[Any], name: str, classes: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the labels as an array; refuse missing ones. They become whole numbers where those of `classes` are."""
    _refuse_missing(series, "Label", name)
    if storage_of(series, name) in ("string", "date"):
        return series.astype(str).to_numpy(dtype=object)
    labels = series.to_numpy()
    if classes is not None and classes.dtype.kind in "iu" and labels.dtype.kind == "f" and (labels % 1 == 0).all():
        return labels.astype(classes.dtype)
    return labels


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


def _refuse_missing(series: pd.Series[Any], what: str, name: str) -> None:
    missing = np.flatnonzero(series.isna().to_numpy())
    if len(missing):
        raise TableError(
            f"{what} column {name!r} is missing in {len(missing)} of {len(series)} rows (first in data row "
            f"{missing[0] + 1}; empty cells, NA, NaN, NULL and None count as missing). Fill them in or remove the rows."
        )


def _notes(frame: pd.DataFrame, schema: TableSchema) -> tuple[str, ...]:
    """Say what was left out, and which columns look like free text."""
    notes = [f"column {name!r} is left out: {reason}" for name, reason in schema.left_out.items()]
    prose = [
        c.name
        for c in schema.columns
        if c.kind == "categorical" and c.storage == "string" and looks_like_text(frame[c.name])
    ]
    if prose:
        quoted = listed([repr(name) for name in prose])
        verb = "look" if prose[1:] else "looks"
        notes.append(f"{quoted} {verb} like free text; pass text={prose[0]!r} to use the words")
    for name in schema.names("categorical"):
        if words := odd_tokens(frame[name]):
            said = listed([repr(word) for word in words])
            notes.append(
                f"column {name!r} has numbers and {said}, so that its numbers are taken for categories; pass "
                f"missing={words[0]!r} if that means a missing value"
            )
    return tuple(notes)
