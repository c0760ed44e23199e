"""From a table file to rows, labels and environments; and what is saved beside a classifier that was fitted on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed
from holdfast.exceptions import LabelsError, ParameterError, SavedModelError, TableError
from holdfast.tables.files import TableFile
from holdfast.tables.schema import TableSchema, looks_like_text, storage_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

PERIODS: Mapping[str, str] = {"year": "%Y", "quarter": "%Y-Q{quarter}", "month": "%Y-%m", "day": "%Y-%m-%d"}


@dataclass(frozen=True)
class TableRoles:
    """Which column is the label, which are environments, and what the features are: saved with the classifier."""

    label: str
    label_storage: str
    environments: tuple[str, ...]
    period: str | None
    schema: TableSchema
    environment_storages: Mapping[str, str] = field(default_factory=dict)  # column -> what it holds
    known: tuple[str, ...] = ()  # environments it was fitted on, small ones that were merged too

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
        }

    def types(self, environments: Sequence[str]) -> dict[str, str]:
        """How to read the label and the named environment columns of a CSV file, as far as fitting has told."""
        kinds = {"number": "number", "boolean": "boolean"}
        # A number stays open: a new site may be called by a text.
        texts = {name: "string" for name in environments if self.environment_storages.get(name) == "string"}
        return {**texts, self.label: kinds.get(self.label_storage, "string")}

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
            )
        except (KeyError, TypeError) as problem:
            raise SavedModelError(
                f"The saved model does not say which columns it was fitted with ({problem!r}). "
                "Pass one that 'holdfast fit' wrote."
            ) from problem


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """A table read for fitting."""

    roles: TableRoles
    features: pd.DataFrame  # plain features, see `TableSchema.features`
    y: NDArray[Any]  # (n_rows,) labels as they stand in the table
    environments: NDArray[Any]  # (n_rows,) environment labels
    notes: tuple[str, ...]  # what was left out or guessed


def read_training(
    path: str,
    *,
    label: str,
    environments: Sequence[str],
    period: str | None = None,
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> TrainingTable:
    """Read a table whose columns are label, environments, dropped ones, and features."""
    table = TableFile(path)
    table.require([label, *environments, *drop, *text, *categorical])
    roles = [label, *environments]
    for name in (*drop, *text, *categorical):
        if name in roles:
            raise TableError(f"Column {name!r} is the label or an environment; it cannot be a feature or dropped.")
    if label in environments:
        raise TableError(f"Column {label!r} cannot be both the label and an environment.")
    names = [name for name in table.columns if name not in (*roles, *drop)]
    if not names:
        raise TableError(f"{path} has no feature column left. Keep at least one besides label and environment.")
    frame = table.read([*roles, *names])
    y = read_labels(frame[label], label)
    _check_classes(frame[label], label)
    schema = TableSchema.infer(frame[names], text=text, categorical=categorical)
    storages = {name: storage_of(frame[name], name) for name in environments}
    if period is not None and "date" not in storages.values():
        name, example = environments[0], str(frame[environments[0]].iloc[0])
        raise TableError(
            f"--environment-by {period} cuts dates, but {listed([repr(name) for name in environments])} holds "
            f"{storages[name]} values such as {example!r}. Write dates as 2026-11-15, or leave the option out."
        )
    labels = read_environments(frame, environments, period)
    known = tuple(dict.fromkeys(map(str, labels)))
    return TrainingTable(
        TableRoles(label, storage_of(frame[label], label), tuple(environments), period, schema, storages, known),
        schema.features(frame),
        y,
        labels,
        _notes(frame, schema),
    )


def _check_classes(series: pd.Series[Any], name: str) -> None:
    """Refuse a label column that is an amount, or has one class only."""
    if storage_of(series, name) == "number" and (series % 1 != 0).any():
        amount = series[series % 1 != 0].iloc[0]
        raise LabelsError(
            f"Label column {name!r} holds decimal numbers such as {amount}, so it is an amount, not a class. "
            "Name a column with classes, or cut it into classes first."
        )
    if series.nunique() < 2:
        raise LabelsError(
            f"Label column {name!r} holds only the class {str(series.iloc[0])!r}. Pass rows of at least two classes."
        )


def read_labels(series: pd.Series[Any], name: str, classes: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the labels as an array; refuse missing ones. Whole numbers are such where those of `classes` are."""
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

    `storages` says what columns held when a classifier was fitted: where it was numbers, digits are numbers still.
    """
    import numpy as np

    parts = [_environment_column(frame[name], name, period, (storages or {}).get(name)) for name in columns]
    if len(parts) == 1:
        return parts[0]
    return np.array([" × ".join(map(str, row)) for row in zip(*parts, strict=True)], dtype=object)


def _environment_column(series: pd.Series[Any], name: str, period: str | None, fitted: str | None) -> NDArray[Any]:
    """Return one column's labels: whole numbers stay numbers (and sort so), everything else becomes text."""
    import numpy as np

    _refuse_missing(series, "Environment", name)
    storage = storage_of(series, name)
    if storage == "date":
        if period is None:
            raise TableError(
                f"Environment column {name!r} holds dates. Say how to cut them: --environment-by "
                f"{', '.join(list(PERIODS)[:-1])} or {list(PERIODS)[-1]}."
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


def check_period(period: str | None) -> None:
    """Refuse a period that is none."""
    from holdfast.tables.files import suggest

    if period is not None and period not in PERIODS:
        raise ParameterError(f"--environment-by does not know {period!r}. {suggest(period, list(PERIODS))}")


def _refuse_missing(series: pd.Series[Any], what: str, name: str) -> None:
    import numpy as np

    missing = np.flatnonzero(series.isna().to_numpy())
    if len(missing):
        raise TableError(
            f"{what} column {name!r} is missing in {len(missing)} of {len(series)} rows (first in data row "
            f"{missing[0] + 1}; empty cells, NA, NaN, NULL and None count as missing). Fill them in or remove the rows."
        )


def _notes(frame: pd.DataFrame, schema: TableSchema) -> tuple[str, ...]:
    """Say what was left out, and which columns look like prose."""
    notes = [f"column {name!r} is left out: {reason}" for name, reason in schema.left_out.items()]
    prose = [
        c.name
        for c in schema.columns
        if c.kind == "categorical" and c.storage == "string" and looks_like_text(frame[c.name])
    ]
    if prose:
        quoted = listed([repr(name) for name in prose])
        notes.append(f"{quoted} look like free text; pass --text {prose[0]} to use the words")
    return tuple(notes)
