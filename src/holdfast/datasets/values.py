"""The values of a data set: its entry in the registry, its three splits, and rows that are loaded on demand."""

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

    Attributes
    ----------
    X : array, `ColoredImages`, `ImageFiles` or list of str
        The rows.
    y : array of shape (n_rows,)
        Class codes; their names are in `Dataset.classes`.
    environments : array of shape (n_rows,)
        Environment labels, as text.
    attributes : mapping of str to array of shape (n_rows,)
        Annotations for evaluation and for the oracle. No other method reads them.
    """

    X: Any
    y: NDArray[np.intp]
    environments: NDArray[Any]
    attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)

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
    """A data set in three splits.

    Attributes
    ----------
    name : str
    train : Split
    validation : mapping of str to Split
        One split for each validation setting: ``"train"``, rows like those of the training environments, and, where
        the environments are synthetic, ``"test"``, rows like those of the test environment.
    test : Split
    classes : tuple of str
        The name of each code in `y`.
    attribute_names : tuple of str
        The attributes to evaluate by; splits may have others.
    unstable_attribute : str or None
        The attribute that was planted, in the codes of `y`. The oracle uses it.
    notes : tuple of str
        How the rows differ from the paper's description.
    """

    name: str
    train: Split
    validation: Mapping[str, Split]
    test: Split
    classes: tuple[str, ...]
    attribute_names: tuple[str, ...]
    unstable_attribute: str | None = None
    notes: tuple[str, ...] = ()

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


def split_sizes(train: Split, validation: Split, test: Split) -> dict[str, int]:
    """Return the number of rows of each training environment, "validation" and "test"."""
    names, counts = np.unique(train.environments, return_counts=True)
    environments = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    return environments | {"validation": len(validation), "test": len(test)}


def size_notes(found: Mapping[str, int], expected: Mapping[str, int], what: str = "rows") -> list[str]:
    """Return how sizes differ from the paper's.

    Examples
    --------
    >>> size_notes({"E1": 1000, "test": 7}, {"E1": 1200, "test": 7})
    ['E1: 1,000 rows, the paper has 1,200']
    """
    return [
        f"{name}: {n:,} {what}, the paper has {expected[name]:,}"
        for name, n in found.items()
        if name in expected and n != expected[name]
    ]


class LazyRows:
    """Rows that become an array when asked for: `X[rows]` and `X[a:b]` stay compact, `X[3]` and `np.asarray(X)` do not.

    A subclass defines `shape`, `dense`, which makes an array of some rows, and `_take`, which keeps them compact.
    """

    dtype = np.dtype(np.float32)  # of the dense form

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the dense form: (n_rows, …)."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """Number of axes of the dense form."""
        return len(self.shape)

    def dense(self, rows: Any) -> NDArray[np.float32]:
        """Return these rows (numbers, a slice or a mask) as one array."""
        raise NotImplementedError

    def _take(self, rows: Any) -> LazyRows:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # scikit-learn takes rows as X[rows, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                return np.asarray(self)[key]
            key = key[0]
        return self.dense([int(key)])[0] if isinstance(key, int | np.integer) else self._take(key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(f"{type(self).__name__} has no dense array to share; it has to make one.")
        return self.dense(slice(None)).astype(self.dtype if dtype is None else dtype, copy=False)


NOTHING_NEEDED = "No files are needed: the data are synthetic, or come with scikit-learn."


@dataclass(frozen=True)
class DatasetEntry:
    """A data set by name: what it holds, how it is loaded, and which files it needs.

    A package adds one with an entry point of the group ``holdfast.datasets`` that names such an object.
    """

    summary: str
    loader: Callable[..., Dataset] | None  # called with options, and folder=… and seed=… if it has them; None: files
    instructions: str = NOTHING_NEEDED  # which files go where; FOLDER and COMMAND are replaced
    downloader: Callable[..., list[Path]] | None = None  # called as downloader(folder, …); None: get them by hand
    edition: int = 1  # raise it when the same options come to mean other rows: runs on the old ones are not used again

    def options(self) -> tuple[str, ...]:
        """Return the names of the loader's own options."""
        return tuple(name for name in self._parameters() if name not in ("folder", "seed"))

    def _parameters(self) -> tuple[str, ...]:
        return () if self.loader is None else tuple(inspect.signature(self.loader).parameters)

    def load(self, folder: Path | None, seed: int, **options: Any) -> Dataset:
        """Load the data; a loader that needs no files has no `folder`, and one that draws nothing no `seed`."""
        assert self.loader is not None
        places = {"folder": folder, "seed": seed}
        return self.loader(**{name: places[name] for name in places if name in self._parameters()}, **options)
