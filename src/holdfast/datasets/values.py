"""What a data set is: where its files come from, and the rows that its loader returns, in three splits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows, take_rows
from holdfast.exceptions import DatasetError


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of one split, with what is known about each.

    Attributes are annotations for evaluation and the oracle; no method reads them as inputs.
    """

    X: Any  # n_rows rows: array, `ColoredImages`, `ImageFiles` or list of texts
    y: NDArray[np.intp]  # (n_rows,) class codes, names in `Dataset.classes`
    environments: NDArray[Any]  # (n_rows,) environment labels, text
    attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # each (n_rows,)

    def __post_init__(self) -> None:
        lengths = {"X": len(self.X), "y": len(self.y), "environments": len(self.environments)}
        lengths |= {f"attribute {name!r}": len(values) for name, values in self.attributes.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} {n}" for name, n in lengths.items())
            raise DatasetError(f"A split needs one entry of everything for each row. Got {found}.")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Rows) -> Split:
        """Return the split of these row numbers, in their order."""
        attributes = {name: values[rows] for name, values in self.attributes.items()}
        return Split(take_rows(self.X, rows), self.y[rows], self.environments[rows], attributes)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set ready for an experiment.

    `validation` holds one split for each validation setting: ``"train"``, rows like those of the training environments,
    and, where the environments are synthetic, ``"test"``, rows like those of the test environment.
    """

    name: str
    train: Split
    validation: Mapping[str, Split]
    test: Split
    classes: tuple[str, ...]  # the name of each code in y
    attribute_names: tuple[str, ...]  # those to evaluate; splits may carry others
    unstable_attribute: str | None = None  # in the codes of y, where one was planted: what the oracle knows
    notes: tuple[str, ...] = ()  # how what was read differs from the paper's description

    @property
    def splits(self) -> tuple[Split, ...]:
        """All splits: train, those of validation, test."""
        return (self.train, *self.validation.values(), self.test)


def join_splits(splits: list[Split]) -> Split:
    """Return the rows of several splits, one after the other (arrays and lists of texts)."""
    first = splits[0].X
    X: Any
    if isinstance(first, list):
        X = [row for split in splits for row in split.X]
    elif isinstance(first, np.ndarray):
        X = np.concatenate([split.X for split in splits])
    else:
        X = type(first).concatenate([split.X for split in splits])
    return Split(
        X,
        np.concatenate([split.y for split in splits]),
        np.concatenate([split.environments for split in splits]),
        {name: np.concatenate([split.attributes[name] for split in splits]) for name in splits[0].attributes},
    )


NOTHING_NEEDED = "No files are needed: the data are synthetic, or come with scikit-learn."


@dataclass(frozen=True)
class DatasetEntry:
    """A data set by name: what it holds, how it is loaded, and which files it needs.

    A package adds one with an entry point of the group ``holdfast.datasets`` that names such an object.
    """

    summary: str
    loader: Callable[..., Dataset] | None  # called as loader(folder=…, seed=…, **options); None: files only
    instructions: str = NOTHING_NEEDED  # which files go where; FOLDER and COMMAND are replaced
    downloader: Callable[..., list[Path]] | None = None  # called as downloader(folder, …); None: get them by hand

    def options(self) -> tuple[str, ...]:
        """Return the names of the loader's own options."""
        parameters = () if self.loader is None else inspect.signature(self.loader).parameters
        return tuple(name for name in parameters if name not in ("folder", "seed"))
