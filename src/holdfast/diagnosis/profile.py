"""A table of every column by site, with the cells marked that the checks of the data found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.diagnosis.soundness import Problem, check_table
from holdfast.diagnosis.soundness.table import FEW_VALUES, MOST_COLUMNS
from holdfast.diagnosis.words import check_line, say, written
from holdfast.environments import PerRow, split_environments
from holdfast.rows.kinds import is_frame, is_sparse

if TYPE_CHECKING:
    import pandas as pd

MOST_UNNAMED = 50  # columns of an array: more are pixels or features of a network


@dataclass(frozen=True)
class ColumnAtSite:
    """One column in the rows of one site."""

    n_rows: int
    missing: float  # share
    n_values: int  # different ones
    constant: str | None  # the value, where there is only one
    quartiles: tuple[float, float, float] | None  # of numbers
    zeros: float  # share of zeros among the numbers
    levels: dict[str, float]  # share of each value, most frequent first; empty for numbers of many values

    @property
    def text(self) -> str:
        """The column in a few words."""
        if self.n_values == 0:
            return "all missing"
        gap = f"; {self.missing:.0%} missing" if self.missing >= 0.005 else ""
        if self.constant is not None:
            return f"always {self.constant}{gap}"
        if self.quartiles is not None and set(self.levels) == {"0", "1"}:
            return f"{self.levels['1']:.0%} are 1{gap}"
        if self.quartiles is not None:
            low, middle, high = map(written, self.quartiles)
            return f"{middle} ({low} to {high}){gap}"
        first, share = next(iter(self.levels.items()))
        return f"{first} {share:.0%}, {self.n_values} levels{gap}"


@dataclass(frozen=True)
class Profile:
    """Every column at every site."""

    columns: tuple[str, ...]
    sites: tuple[str, ...]
    cells: tuple[tuple[ColumnAtSite, ...], ...]  # (n_columns, n_sites)
    problems: tuple[Problem, ...] = ()  # what does not fit, the worst first
    n_left_out: int = 0  # columns of a wide table that were not looked at
    label: str = "label"  # the name of what is predicted

    @property
    def sentences(self) -> tuple[str, ...]:
        """What does not fit, in sentences."""
        return tuple(dict.fromkeys(say(problem, self.label) for problem in self.problems))

    @property
    def check(self) -> str:
        """The worst of it in one line; empty where everything fits."""
        return check_line(self.problems, self.label)

    @property
    def odd(self) -> tuple[str, ...]:
        """The columns that do not fit at some sites."""
        return tuple(dict.fromkeys(p.column for p in self.problems if p.column in self.columns and p.sites))

    @property
    def marked(self) -> tuple[tuple[int, int], ...]:
        """Places (column, site) of the cells that do not fit."""
        places = [
            (self.columns.index(problem.column), self.sites.index(site))
            for problem in self.problems
            if problem.column in self.columns
            for site in problem.sites
            if site in self.sites
        ]
        return tuple(dict.fromkeys(places))

    def about(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what does not fit in some columns."""
        return tuple(dict.fromkeys(say(p, self.label) for p in self.problems if p.column in columns))


def profile_columns(X: Any, environments: PerRow, names: Sequence[str] | None = None) -> Profile | None:
    """Describe every column of a frame or a 2-d array, whose columns have `names`, at every site.

    None for texts, images and arrays of many columns.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"chol": [200.0, 240.0] * 6 + [0.0] * 12})
    >>> profile_columns(frame, ["a"] * 12 + ["b"] * 12).sentences
    ('`chol` is 0 in all rows in b and hardly anywhere else: does 0 mean missing? If so, empty these cells.',)
    """
    frame = _read_frame(X, names)
    return None if frame is None else describe_columns(frame, environments, check_table(frame, None, environments))


def describe_columns(
    frame: pd.DataFrame, environments: PerRow, problems: Sequence[Problem], label: str = "label"
) -> Profile:
    """Describe every column of a frame at every site, next to what was found in it."""
    sites = split_environments(environments, len(frame))
    shown = list(frame.columns)[:MOST_COLUMNS]
    cells = tuple(tuple(_describe(frame[name].iloc[site.rows]) for site in sites) for name in shown)
    names, columns = tuple(site.name for site in sites), tuple(str(name) for name in shown)
    return Profile(columns, names, cells, tuple(problems), len(frame.columns) - len(shown), label)


def _read_frame(X: Any, names: Sequence[str] | None) -> pd.DataFrame | None:
    """Return X as a pandas frame; None where it has no columns."""
    import narwhals as nw
    import pandas as pd

    if is_frame(X):
        return pd.DataFrame(nw.from_native(X, eager_only=True).to_pandas())
    if is_sparse(X) or getattr(X, "ndim", 0) != 2 or X.shape[1] > MOST_UNNAMED or X.dtype.kind not in "biuf":
        return None
    array = np.asarray(X)
    labels = [f"x{column}" for column in range(array.shape[1])] if names is None else [str(name) for name in names]
    return pd.DataFrame(array, columns=labels)


def _describe(values: pd.Series[Any]) -> ColumnAtSite:
    """Return what a column looks like in some rows."""
    import pandas as pd

    known = values.dropna()
    missing = 1.0 - len(known) / max(len(values), 1)
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if is_number:
        numbers = known.to_numpy(dtype=np.float64)
        n_values = len(np.unique(numbers))
        quartiles = tuple(float(q) for q in np.quantile(numbers, (0.25, 0.5, 0.75))) if n_values > 1 else None
        constant = written(numbers[0]) if n_values == 1 else None
        zeros = float((numbers == 0).mean()) if len(numbers) else 0.0
        levels = _shares([written(number) for number in numbers]) if n_values <= FEW_VALUES else {}
        return ColumnAtSite(len(values), missing, n_values, constant, quartiles, zeros, levels)  # type: ignore[arg-type]
    levels = _shares(known.astype(str).tolist())
    constant = next(iter(levels)) if len(levels) == 1 else None
    return ColumnAtSite(len(values), missing, len(levels), constant, None, 0.0, levels)


def _shares(values: Sequence[str]) -> dict[str, float]:
    """Return the share of each value, most frequent first."""
    return {value: count / len(values) for value, count in Counter(values).most_common()}
