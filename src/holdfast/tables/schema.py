"""The feature columns of a table: their kinds are inferred in the fit and checked in predictions.

| kind | columns | become |
|---|---|---|
| numeric | numbers, also as 1,234.5 or 12%; true/false (1/0), times and durations (seconds) | the number |
| categorical | short texts, categories, or any column the user calls categorical | the level's text |
| text | only columns the user names | the text, missing as empty |
| date | dates with or without time | days since 1970, and month and weekday as levels |

A column that is missing in every row, or has no name, is left out, with the reason noted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from holdfast.exceptions import SavedModelError, TableError, suggest
from holdfast.tables.decimals import DECIMALS, Decimal, decimal_sign, read_numbers

if TYPE_CHECKING:
    import pandas as pd


Kind = Literal["numeric", "categorical", "text", "date"]
Storage = Literal["number", "boolean", "string", "date", "time", "decimal point", "decimal comma", "decimal last"]
DATE_PARTS: Mapping[str, str] = {"month": "month", "weekday": "day_of_week"}  # our word, pandas' word
PLAIN: Mapping[str, Storage] = {"i": "number", "u": "number", "f": "number", "b": "boolean"}  # kinds of numpy types
DATE_FEATURES = ("days", *DATE_PARTS)
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d|$)")
MIN_FREQUENCY, MAX_LEVELS = 5, 100  # rows that a level needs to count by itself, and how many levels do
LARGEST = 1e100  # the square of anything larger is close to overflow


@dataclass(frozen=True)
class Column:
    """A feature column: how it is used (`kind`) and what its values are (`storage`)."""

    name: str
    kind: Kind
    storage: Storage


@dataclass(frozen=True)
class TableSchema:
    """The feature columns of a table, in the order the classifier was fitted with."""

    columns: tuple[Column, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # column -> reason

    @classmethod
    def infer(cls, frame: pd.DataFrame, *, text: Sequence[str] = (), categorical: Sequence[str] = ()) -> TableSchema:
        """Decide the kind of each column of a frame of features.

        The words of columns in `text` are used, and values of those in `categorical` are levels even if they are
        numbers.
        """
        texts, levels = set(text), set(categorical)
        for name in (*text, *categorical):
            if name not in frame.columns:
                raise TableError(f"There is no feature column {name!r}. {suggest(name, list(frame.columns))}")
        columns, left_out = [], {}
        empty, kinds = frame.isna().all().tolist(), frame.dtypes.tolist()
        for name, is_empty, kind in zip(map(str, frame.columns), empty, kinds, strict=True):
            if is_empty:
                if name in texts:
                    raise TableError(f"Text column {name!r} is missing in every row. Name another one.")
                left_out[name] = "missing in every row"
            elif name.startswith("unnamed_") and name not in texts | levels:
                left_out[name] = "has no name (a saved row index?)"
            else:
                storage = PLAIN.get(getattr(kind, "kind", "")) or storage_of(frame[name], name)
                if storage == "string" and name not in texts | levels:
                    storage = "date" if _are_dates(frame[name]) else decimal_sign(frame[name]) or storage
                columns.append(_column(storage, name, text=texts, categorical=levels))
        if not columns:
            raise TableError("No feature column is left. Keep at least one column besides label and environment.")
        _refuse_equal_names(columns)
        return cls(tuple(columns), left_out)

    def names(self, *kinds: Kind) -> list[str]:
        """Return the names of the columns of some kinds, or of all."""
        return [column.name for column in self.columns if not kinds or column.kind in kinds]

    def feature_names(self) -> list[str]:
        """Return the names of the plain features, see `features`: a date column becomes several."""
        names: list[str] = []
        for column in self.columns:
            names += [f"{column.name} ({part})" for part in DATE_FEATURES] if column.kind == "date" else [column.name]
        return names

    @property
    def types(self) -> dict[str, str]:
        """How to read each column from a CSV file; dates and numbers with signs are read as text and turned here."""
        return {c.name: "string" if c.storage in ("date", *DECIMALS) else c.storage for c in self.columns}

    def require(self, present: Sequence[str]) -> None:
        """Refuse a table without one of the columns."""
        there = set(present)
        missing = [column.name for column in self.columns if column.name not in there]
        if missing:
            more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
            hint = suggest(missing[0], present).replace("Choose from", "The table has")
            raise TableError(f"Column {missing[0]!r} is missing{more}, and the classifier needs it. {hint}")

    def features(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Check the columns and turn them into numbers and texts for the preprocessor.

        Columns may come in any order and others may be among them. A missing column, one of another type or an infinite
        number is refused.
        """
        import pandas as pd

        self.require(list(map(str, frame.columns)))
        kinds = dict(zip(map(str, frame.columns), frame.dtypes.tolist(), strict=True))
        plain = [column.name for column in self.columns if column.kind == "numeric" and _is_plain(column, kinds)]
        numbers = frame[plain].astype("float64")  # in one piece: a table can have 100,000 columns
        if (np.abs(numbers.to_numpy()) > LARGEST).any():
            for name in plain:
                _finite(numbers[name], name)
        if len(plain) == len(self.columns):
            return numbers
        known, parts = set(plain), {}
        for column in self.columns:
            if column.name not in known:
                parts.update(_features(frame[column.name], column))
        return pd.concat([numbers, pd.DataFrame(parts, index=frame.index)], axis=1)[self.feature_names()]

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain JSON values."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """Return the schema that `to_dict` wrote."""
        try:
            columns = tuple(Column(str(c["name"]), c["kind"], c["storage"]) for c in values["columns"])
            left_out = {str(name): str(reason) for name, reason in values["left_out"].items()}
        except (KeyError, TypeError, AttributeError) as problem:
            raise SavedModelError(f"The saved table schema is not valid ({problem!r}). Fit again.") from problem
        for column in columns:
            if column.kind not in get_args(Kind) or column.storage not in get_args(Storage):
                raise SavedModelError(
                    f"The saved table schema has a column of the unknown kind {column.kind!r} ({column.storage!r}). "
                    "Use the holdfast version that saved it."
                )
        return cls(columns, left_out)


def storage_of(series: pd.Series[Any], name: str) -> Storage:
    """Return what a column's values are; refuse a mixture."""
    import pandas as pd

    kind = series.dtype
    if pd.api.types.is_bool_dtype(kind):
        return "boolean"
    if pd.api.types.is_datetime64_any_dtype(kind):
        return "date"
    if pd.api.types.is_timedelta64_dtype(kind):
        return "time"
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return "number"
    if isinstance(kind, pd.CategoricalDtype):
        return storage_of(pd.Series(series.cat.categories), name)
    if isinstance(kind, pd.StringDtype):
        return "string"
    present = series.dropna()
    types = set(present.map(type).map(lambda kind: kind.__name__))
    if types <= {"str"}:
        return "string"
    if types <= {"bool", "bool_"}:
        return "boolean"
    raise TableError(
        f"Column {name!r} contains values of types {', '.join(sorted(types))}. Convert it to numbers, text or dates."
    )


def _column(storage: Storage, name: str, *, text: Container[str], categorical: Container[str]) -> Column:
    """Decide how one column is used."""
    if name in text:
        if storage != "string":
            raise TableError(f"Text column {name!r} contains {storage} values, expected text. Name another one.")
        return Column(name, "text", storage)
    if name in categorical or storage == "string":
        return Column(name, "categorical", storage)
    return Column(name, "date" if storage == "date" else "numeric", storage)


def _is_plain(column: Column, kinds: Mapping[str, Any]) -> bool:
    """Return whether a numeric column has numbers, or truth values where it had them or numbers."""
    found = PLAIN.get(getattr(kinds[column.name], "kind", ""))
    return found == "number" or (found == "boolean" and column.storage != "time")


def _refuse_equal_names(columns: Sequence[Column]) -> None:
    """Refuse a column that is called like a part of a date column."""
    parts = {f"{c.name} ({part})": c.name for c in columns if c.kind == "date" for part in DATE_FEATURES}
    for column in columns:
        if column.name in parts:
            raise TableError(
                f"Column {column.name!r} has the name of a part of the date column {parts[column.name]!r}. Rename it."
            )


def _features(series: pd.Series[Any], column: Column) -> dict[str, Any]:
    """Return the plain features of one column, by name."""
    import pandas as pd

    name = column.name
    if series.isna().all():
        series = pd.Series(np.nan, index=series.index, dtype=object if column.storage == "string" else np.float64)
    elif column.storage == "date":
        series = _as_dates(series, column)
    elif column.storage in DECIMALS:
        series = _as_numbers(series, column)
    else:
        found = storage_of(series, name)
        if found == "time":
            series, found = series.dt.total_seconds(), column.storage if column.storage == "number" else found
        if found != column.storage and {found, column.storage} not in ({"number", "boolean"}, {"number", "time"}):
            raise TableError(
                f"Column {name!r} contains {found} values such as {str(series.dropna().iloc[0])!r}, but it contained "
                f"{column.storage} values when the classifier was fitted. Convert it to {column.storage} values."
            )
    if column.kind == "numeric":
        return {name: _finite(series.astype("float64"), name)}
    if column.kind == "text":
        return {name: series.astype(object).where(series.notna(), "")}
    if column.kind == "categorical":
        return {name: _levels(series)}
    if series.isna().all():  # also texts that say so, such as "NaT"
        none = pd.Series(np.nan, index=series.index, dtype=np.float64)
        return {f"{name} (days)": none} | {f"{name} ({part})": _levels(none) for part in DATE_PARTS}
    # In the column's own unit: nanoseconds hold the years 1677 to 2262 only.
    days: Any = pd.Series((series.to_numpy() - np.datetime64(0, "s")) / np.timedelta64(1, "D"), index=series.index)
    parts = {part: _levels(getattr(series.dt, name_in_pandas)) for part, name_in_pandas in DATE_PARTS.items()}
    return {f"{name} (days)": days.astype("float64")} | {f"{name} ({part})": levels for part, levels in parts.items()}


def _are_dates(series: pd.Series[Any]) -> bool:
    """Return whether all texts of a column are ISO dates, which a file would have as dates."""
    import pandas as pd

    texts = pd.Series(series.dropna().unique(), dtype=object)
    if not all(ISO_DATE.match(text) for text in texts):
        return False
    return bool(pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce").notna().all())


def _as_numbers(series: pd.Series[Any], column: Column) -> pd.Series[Any]:
    """Return the numbers of a column that is written with signs; numbers stay."""
    found = storage_of(series, column.name)
    if found == "number":
        return series
    numbers, wrong = read_numbers(series, cast("Decimal", column.storage))
    if found != "string" or wrong is not None:
        raise TableError(
            f"Column {column.name!r} contained numbers when the classifier was fitted, but now "
            f"{found + ' values' if wrong is None else repr(wrong)}. Write numbers, or name texts that mean a missing "
            "value with missing=."
        )
    return numbers


def _as_dates(series: pd.Series[Any], column: Column) -> pd.Series[Any]:
    """Return dates without time zone (UTC); texts must be ISO dates."""
    import pandas as pd

    found = storage_of(series, column.name)
    if found == "string":
        try:
            series = pd.to_datetime(series.astype(object), format="ISO8601", utc=True)
        except ValueError as problem:
            raise TableError(
                f"Column {column.name!r} contained dates when the classifier was fitted, but now a text that is not an "
                f"ISO date ({' '.join(str(problem).split())[:80]}). Write dates as 2026-11-15."
            ) from problem
    elif found != "date":
        raise TableError(
            f"Column {column.name!r} contains {found} values, but it contained dates when the classifier was fitted. "
            "Convert the column to dates."
        )
    return series.dt.tz_convert("UTC").dt.tz_localize(None) if series.dt.tz is not None else series


def _finite(series: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Refuse infinite numbers and those whose square nearly is."""
    bad = np.flatnonzero(series.abs().to_numpy() > LARGEST)
    if len(bad):
        raise TableError(
            f"Column {name!r} is infinite or beyond {LARGEST:g} in {len(bad)} rows (first in data row {bad[0] + 1}). "
            "Replace those values, for example by empty cells."
        )
    return series


def _levels(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return each value as text, whole numbers without a decimal point; missing stays NaN."""
    import pandas as pd

    def written(value: Any) -> str:
        is_whole = isinstance(value, float) and value.is_integer()
        return str(int(value)) if is_whole else str(value)

    codes, values = pd.factorize(series)
    texts = np.array([written(value) for value in values] + [np.nan], dtype=object)
    return pd.Series(texts[codes], index=series.index, dtype=object)  # code -1, a missing value, takes the last entry
