"""A table of your own as a data set: a TOML file names the table, the label, the environment and the attributes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.datasets.drawing import deal_rows
from holdfast.datasets.files import first_error, read_toml
from holdfast.datasets.folders import data_folder, note_file
from holdfast.datasets.values import Dataset, DatasetEntry, Split
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError, suggest
from holdfast.seeding import Seeding
from holdfast.tables.files import read_table

if TYPE_CHECKING:
    import pandas as pd


class TableDescription(BaseModel):
    """What a TOML says about a table."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)  # environments may be years

    file: Path
    label: str
    environment: str
    attributes: list[str] = []  # columns to evaluate by; no inputs
    drop: list[str] = []  # columns to leave out
    test_environments: list[str] = []  # environments that are the test split; none: a share of all
    validation_share: float = Field(0.2, ge=0, le=1)
    test_share: float = Field(0.3, ge=0, le=1)


def load_table(*, folder: Path | str | None = None, seed: int = 0, config: Path | str = "table.toml") -> Dataset:
    """Load a table of your own; X is a frame of all columns but label, environment, attributes and those to drop.

    Parameters
    ----------
    seed : int, default=0
        Deals rows to the splits, by label and environment.
    config : path, default="table.toml"
        A TOML file with the keys file (CSV or Parquet, relative to the TOML), label and environment, and optionally
        attributes, drop, test_environments (only these environments are the test split), validation_share (0.2) and
        test_share (0.3).
    """
    description = read_description((data_folder() if folder is None else Path(folder)) / config)
    frame = read_table(note_file(description.file))
    return split_table(frame, description, seed)


def read_description(path: Path) -> TableDescription:
    """Read and check the TOML."""
    missing = f"The table's description {path} does not exist. Write a TOML with file, label and environment."
    content = read_toml(note_file(path), missing, DatasetError)
    try:
        description = TableDescription.model_validate(content)
    except ValidationError as problem:
        raise DatasetError(f"{path} {first_error(problem, TableDescription.model_fields)}") from problem
    return description.model_copy(update={"file": path.parent / description.file})


def split_table(frame: pd.DataFrame, description: TableDescription, seed: int) -> Dataset:
    """Deal a table's rows to training, validation and test."""
    named = (description.label, description.environment, *description.attributes, *description.drop)
    for name in named:
        if name not in frame.columns:
            raise DatasetError(
                f"{description.file} has no column {name!r}. {suggest(name, list(map(str, frame.columns)))}"
            )
    for name in named[:2]:
        empty_rows = np.flatnonzero(frame[name].isna())
        if len(empty_rows):
            raise DatasetError(
                f"{description.file}: column {name!r} is empty in {len(empty_rows):,} rows, first in row "
                f"{empty_rows[0] + 1} below the header. Fill or remove them."
            )
    environments = frame[description.environment].astype(str).to_numpy()
    held_out = np.isin(environments, description.test_environments)
    unknown = sorted(set(description.test_environments) - set(environments))
    if unknown:
        raise DatasetError(
            f"{description.file} has no environment {unknown[0]!r}. {suggest(unknown[0], sorted(set(environments)))}"
        )
    if held_out.all():
        raise DatasetError(
            f"{description.file}: test_environments names all environments {sorted(set(environments.tolist()))}, which "
            "leaves none for training. Leave one out of it."
        )
    pairs = zip(environments, frame[description.label].astype(str), strict=True)
    _, cells = np.unique(np.array([" × ".join(pair) for pair in pairs]), return_inverse=True)
    rest = np.flatnonzero(~held_out)
    deal = deal_rows(
        cells[rest],
        1,
        validation_share=description.validation_share,
        test_share=0.0 if held_out.any() else description.test_share,
        generator=Seeding(seed).generator("splits"),
    )
    test = np.flatnonzero(held_out) if held_out.any() else rest[deal.test]
    parts = (rest[deal.environments[0]], rest[deal.validation], test)
    empty = [name for name, rows in zip(("training", "validation", "test"), parts, strict=True) if not len(rows)]
    if empty:
        raise DatasetError(
            f"{description.file} has {len(frame)} rows, which leaves none for {empty[0]}: shares are taken of each "
            "label in each environment, and rounded down. Pass more rows, or larger shares."
        )
    note = (
        f"test: the environments {', '.join(description.test_environments)}"
        if held_out.any()
        else "no test_environments: rows are split at random by label and environment"
    )
    return make_dataset("table", frame, description, parts, (note,))


def make_dataset(
    name: str, frame: pd.DataFrame, description: TableDescription, parts: tuple[Rows, Rows, Rows], notes: Sequence[str]
) -> Dataset:
    """Return the data set of a table whose rows are already split."""
    classes, y = np.unique(frame[description.label].astype(str).to_numpy(), return_inverse=True)
    hidden = {description.label, description.environment, *description.attributes, *description.drop}
    X = frame[[column for column in frame.columns if column not in hidden]]
    environments = frame[description.environment].astype(str).to_numpy()
    attributes = {column: _plain(frame[column]) for column in description.attributes}

    def split(rows: Rows) -> Split:
        values = {column: values[rows] for column, values in attributes.items()}
        return Split(X.iloc[rows].reset_index(drop=True), y[rows].astype(np.intp), environments[rows], values)

    train, validation, test = map(split, parts)
    names, names_of_classes = tuple(description.attributes), tuple(map(str, classes))
    return Dataset(name, train, {"train": validation}, test, names_of_classes, names, None, tuple(notes))


def _plain(column: Any) -> NDArray[Any]:
    """Return a column of numbers as numbers, any other as text, missing values as "unknown"."""
    if column.dtype.kind in "iufb" and not column.isna().any():
        return np.asarray(column)
    return np.where(column.isna(), "unknown", column.astype(str))


TABLE = DatasetEntry(
    summary="Any table of your own, described by a TOML.",
    loader=load_table,
    instructions=(
        'In FOLDER a file table.toml (or config="name.toml") with the keys\n'
        '  file = "patients.csv"    label = "diagnosis"    environment = "site"\n'
        "and optionally attributes, drop, test_environments, validation_share, test_share."
    ),
)
