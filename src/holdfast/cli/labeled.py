"""Labels, environments and attributes of a table to be evaluated, and a classifier's answers for all its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.cli.tabular import read_environments, read_labels
from holdfast.exceptions import TableError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.cli.table_classifier import TableClassifier
    from holdfast.datasets.tables import Table


@dataclass(frozen=True, eq=False)
class Labeled:
    """What is known about the rows of a table."""

    y: NDArray[Any]  # (n_rows,)
    environments: NDArray[Any]  # (n_rows,) text
    known: frozenset[str]  # environments the classifier was fitted on
    attributes: Mapping[str, NDArray[Any]]  # each (n_rows,) text, missing as its own value
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answers:
    """A classifier's predictions for all rows."""

    labels: NDArray[Any]  # (n_rows,)
    probabilities: NDArray[np.float64] | None  # (n_rows, n_classes)
    classes: list[Any] = field(default_factory=list)


def read_labeled(
    table: Table, fitted: TableClassifier, *, environments: Sequence[str], attributes: Sequence[str]
) -> Labeled:
    """Read label, environment and attribute columns."""
    roles = fitted.roles
    notes = []
    names = list(environments) or [name for name in roles.environments if name in table.columns]
    table.require([roles.label, *names, *attributes])
    if not environments and len(names) < len(roles.environments):
        missing = [name for name in roles.environments if name not in names]
        names = []
        notes.append(f"there is no environment column {missing[0]!r}: all rows count as one environment")
    columns = list(dict.fromkeys([roles.label, *names, *attributes]))
    frame = table.read(columns, roles.types(names))
    where = np.full(len(frame), "all rows", dtype=object)
    if names:
        labels = read_environments(frame, names, roles.period, roles.environment_storages)
        where = np.array([str(label) for label in labels], dtype=object)
    return Labeled(
        read_labels(frame[roles.label], roles.label, fitted.classifier.classes_),
        where,
        frozenset(roles.known or map(str, fitted.classifier.environments_)),
        {name: _written(frame[name]) for name in attributes},
        tuple(notes),
    )


def _written(series: pd.Series[Any]) -> NDArray[Any]:
    """Return an attribute's values as text, missing as a value of its own."""
    return series.astype(object).where(series.notna(), "missing").astype(str).to_numpy(dtype=object)


def predict_labeled(table: Table, fitted: TableClassifier) -> Answers:
    """Predict all rows of a table, chunk by chunk."""
    parts = list(fitted.predictions(table))
    if not parts:
        raise TableError(f"{table.path} has a header but no rows. Pass a file with rows.")
    probabilities = [part.probabilities for part in parts if part.probabilities is not None]
    return Answers(
        np.concatenate([part.labels for part in parts]),
        np.concatenate(probabilities) if probabilities else None,
        list(fitted.classifier.classes_),
    )
