"""The checked arguments of `fit` as one value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, Group, Rows, Weights, take_rows
from holdfast.exceptions import EnvironmentsError
from holdfast.rows.keys import row_keys


class ValidationRows(NamedTuple):
    """Rows that select or score, checked like the training rows."""

    X: Any
    y: NDArray[Any]  # (n_rows,) class codes, or targets
    groups: NDArray[Any] | None = None  # (n_rows,) labels of groups


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """All that `fit` was handed, checked."""

    X: Any
    y: NDArray[Any]  # (n_rows,) class codes, or targets
    environments: tuple[Environment, ...]
    sample_weight: Weights | None = None
    group_labels: tuple[NDArray[np.intp], tuple[str, ...]] | None = None  # codes (n_rows,) and their names
    folds: NDArray[np.intp] | None = None
    names: NDArray[Any] | None = None  # of the columns, where X was a frame

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def environment_codes(self) -> NDArray[np.intp]:
        """Number of each row's environment, shape (n_rows,)."""
        codes = np.empty(self.n_rows, dtype=np.intp)
        for number, environment in enumerate(self.environments):
            codes[environment.rows] = number
        return codes

    @property
    def site_rows(self) -> dict[str, Rows]:
        """The rows of each environment, by its name."""
        return {environment.name: environment.rows for environment in self.environments}

    @cached_property
    def row_keys(self) -> NDArray[np.uint64]:
        """A number for each row that depends on what it contains."""
        return row_keys(self.X)

    @cached_property
    def content_order(self) -> Rows:
        """The rows by environment, label and what they contain: the same whatever order they came in."""
        return np.lexsort((self.row_keys, self.y, self.environment_codes))

    def environment_groups(self) -> tuple[Group, ...]:
        """Return the environments as groups, with the sample weights."""
        return tuple(Group(e.name, e.rows).weighted(self.sample_weight) for e in self.environments)

    @property
    def weights(self) -> Weights:
        """Weight of each row; ones where none were given."""
        return np.ones(self.n_rows) if self.sample_weight is None else self.sample_weight

    def take(self, rows: Rows) -> TrainingRows:
        """Return some of the rows, renumbered; environments without a row are left out."""
        place = np.full(self.n_rows, -1)
        place[rows] = np.arange(len(rows))
        parts = [Environment(e.label, np.sort(place[e.rows][place[e.rows] >= 0])) for e in self.environments]
        weights, folds = self.sample_weight, self.folds
        labels = self.group_labels
        return TrainingRows(
            take_rows(self.X, rows),
            self.y[rows],
            tuple(part for part in parts if len(part)),
            None if weights is None else weights[rows],
            None if labels is None else (labels[0][rows], labels[1]),
            None if folds is None else folds[rows],
            self.names,
        )

    def check_folds(self) -> None:
        """Refuse folds that leave no rows of an environment to ask its own classifier about, out of fold."""
        if self.folds is None:
            return
        for environment in self.environments:
            if len(np.unique(self.folds[environment.rows])) < 2:
                raise EnvironmentsError(
                    f"folds puts all rows of environment {environment.name!r} into one fold, but its classifier is "
                    "calibrated on rows of its own that it was not fitted on. Spread the rows of every environment "
                    "over at least two folds."
                )
