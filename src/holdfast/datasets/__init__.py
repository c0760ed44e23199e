"""Data sets by name: one registry, one module for each.

Loaders read files or make data with numpy alone; torch is never imported here.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from holdfast.datasets.values import Dataset, Split
from holdfast.exceptions import DatasetError, ParameterError

__all__ = ["DATASETS", "Dataset", "DatasetEntry", "Split", "load_dataset"]


@dataclass(frozen=True)
class DatasetEntry:
    """Where a data set's loader is, and what it holds. Modules load when they are first used."""

    summary: str
    loader: str  # "module:function", called as loader(folder=…, seed=…, **options)

    def load_function(self) -> Callable[..., Dataset]:
        """Import and return the loader."""
        return _function(self.loader)  # type: ignore[no-any-return]

    def options(self) -> tuple[str, ...]:
        """Return the names of the loader's own options."""
        parameters = inspect.signature(self.load_function()).parameters
        return tuple(name for name in parameters if name not in ("folder", "seed"))


DATASETS: Mapping[str, DatasetEntry] = MappingProxyType(
    {
        "toy": DatasetEntry(
            summary="Two binary features, one stable, one not; made.",
            loader="holdfast.datasets.toy:load_toy",
        ),
        "colored_digits": DatasetEntry(
            summary="1,797 real 8x8 digits that come with scikit-learn, colored.",
            loader="holdfast.datasets.colored_digits:load_colored_digits",
        ),
    }
)


def load_dataset(name: str, *, folder: Path | str | None = None, seed: int = 0, **options: Any) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    folder : path, optional
        Where its files are, for those that need files.
    seed : int, default=0
        Everything random: the order of rows, labels, colors, tokens.
    **options
        The loader's own options, for example ``etas=(0.9, 0.8)``.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> data = load_dataset("toy", etas=(0.0, 0.1))
    >>> data.train.X.shape, sorted(set(data.train.environments.tolist()))
    ((2000, 2), ['E1', 'E2'])
    """
    entry = find_entry(name)
    known = entry.options()
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(
            f"Data set {name!r} has no option {unknown[0]!r}{_guess(unknown[0], known)} Its options are {list(known)}."
        )
    return entry.load_function()(folder=None if folder is None else Path(folder), seed=seed, **options)


def find_entry(name: str) -> DatasetEntry:
    """Return the registered entry, or say which names there are."""
    if name not in DATASETS:
        raise DatasetError(f"There is no data set {name!r}{_guess(name, DATASETS)} Known are {sorted(DATASETS)}.")
    return DATASETS[name]


def _function(path: str) -> Any:
    """Import "module:function"."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


def _guess(name: object, known: Any) -> str:
    """Return "; did you mean …?" where a known name is close, else a full stop."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."
