"""The training profile: summaries of the columns at the known sites, which are saved with a model.

For each number the profile has quantiles and the median at each site; for each category the share of each level; for
both the share of missing values at each site. It has no rows, and no extreme value of a single row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, PerRow, split_environments, take_rows
from holdfast.exceptions import SavedModelError
from holdfast.newsite.trials import spread_rows
from holdfast.rows.kinds import is_frame

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
MOST_COLUMNS, MOST_SITES, MOST_LEVELS = 500, 50, 100  # of a profile; the rest is left out
GRID = np.r_[0.005, np.linspace(0.05, 0.95, 19), 0.995]  # quantiles of numbers
MOST_SITE_ROWS = 1000  # of each site that the profile of a matrix is made of
LEAST_LEVEL_ROWS = 5  # levels that fewer rows have are not named

LEAST_ROWS = 30  # of a new site, below which nothing is said about its columns
BEYOND = 0.25  # of the range of the known sites, by which a value must lie outside of it
OUTSIDE = 0.1  # share of rows outside from which on a column is said not to fit
MISSING_MORE = 0.3  # of the rows, by which a column is missing more often than at any known site
VARIES = 10  # different values among the quantiles of the known sites, from which on a constant is an error
MOVED = 0.5  # of a standard deviation, or of the rows' levels, from which on a column is said to have moved

Problem = Literal["unit", "range", "levels", "missing", "constant"]


@dataclass(frozen=True)
class ColumnProfile:
    """One column at the known sites."""

    name: str
    kind: Literal["numeric", "categorical"]
    missing: Mapping[str, float]  # site -> share
    quantiles: tuple[float, ...] = ()  # of all values, at `GRID`
    low: float | None = None  # smallest and largest of the sites' outer quantiles
    high: float | None = None
    medians: Mapping[str, float] = field(default_factory=dict)  # site -> median
    levels: Mapping[str, float] = field(default_factory=dict)  # level -> share

    @property
    def spread(self) -> float:
        """The standard deviation between the outer quantiles; 0 for a constant."""
        return float(np.interp(np.linspace(GRID[0], GRID[-1], 199), GRID, self.quantiles).std())

    def to_standard(self, values: Array) -> Array:
        """Return numbers with the distribution that the column had at the known sites; their order stays."""
        known = np.isfinite(values)
        found = values.copy()
        ranks = np.argsort(np.argsort(values[known], kind="stable"), kind="stable")
        found[known] = np.interp((ranks + 0.5) / max(known.sum(), 1), GRID, self.quantiles)
        return found


@dataclass(frozen=True)
class ColumnCheck:
    """A column of a new site that does not fit, or has moved."""

    name: str
    problem: Problem | Literal["moved"]
    share: float  # of the rows that do not fit; of a column that moved, by how many standard deviations
    sentence: str
    changed: float = float("nan")  # share of predictions that would be others with the column as at the known sites

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(vars(self))


@dataclass(frozen=True)
class TrainingProfile:
    """All columns at the known sites."""

    columns: tuple[ColumnProfile, ...]
    sites: Mapping[str, int]  # name -> rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "columns": [{**vars(column), "quantiles": list(column.quantiles)} for column in self.columns],
            "sites": dict(self.sites),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingProfile:
        """Return the profile that `to_dict` wrote."""
        try:
            columns = tuple(
                ColumnProfile(**{**column, "quantiles": tuple(map(float, column["quantiles"]))})
                for column in values["columns"]
            )
            return cls(columns, {str(name): int(n) for name, n in values["sites"].items()})
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise SavedModelError(f"The saved profile is not valid ({problem!r}). Fit again.") from problem

    def check(self, features: pd.DataFrame) -> tuple[ColumnCheck, ...]:
        """Return the columns of a new site that do not fit, those with most rows first."""
        if len(features) < LEAST_ROWS:
            return ()
        found = [check for column in self.columns for check in _check_column(column, features[column.name])]
        return tuple(sorted(found, key=lambda check: -check.share))

    def moved(self, features: pd.DataFrame) -> tuple[ColumnCheck, ...]:
        """Return the columns whose distribution is another one than at any known site, the most moved first."""
        if len(features) < LEAST_ROWS:
            return ()
        found = [_moved(column, features[column.name]) for column in self.columns]
        return tuple(sorted((check for check in found if check is not None), key=lambda check: -check.share))


def profile_training(features: pd.DataFrame, environments: PerRow, texts: tuple[str, ...] = ()) -> TrainingProfile:
    """Return the profile of the plain features of a table; columns of texts are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": np.arange(100.0), "sex": ["f", "m"] * 50})
    >>> profile = profile_training(frame, ["A"] * 50 + ["B"] * 50)
    >>> profile.columns[0].medians, profile.columns[1].levels
    ({'A': 24.5, 'B': 74.5}, {'f': 0.5, 'm': 0.5})
    >>> new = pd.DataFrame({"age": 12 * np.arange(100.0), "sex": ["f", "x"] * 50})
    >>> for found in profile.check(new):
    ...     print(found.sentence)
    `age` may be in another unit: its median is 594, and 24.5 to 74.5 at the known sites.
    In 50% of the rows `sex` has a category that no known site has: 'x'.
    """
    sites = split_environments(environments, len(features))[:MOST_SITES]
    columns = []
    for name in [name for name in features.columns if name not in texts][:MOST_COLUMNS]:
        values = features[name]
        if values.dtype.kind == "f":
            columns += _number_profiles([str(name)], values.to_numpy()[:, None], sites)
        else:
            missing = {site.name: float(values.iloc[site.rows].isna().mean()) for site in sites}
            counts = values.dropna().astype(str).value_counts()
            named = counts[counts >= LEAST_LEVEL_ROWS][:MOST_LEVELS]
            levels = {str(level): float(n / max(counts.sum(), 1)) for level, n in named.items()}
            columns.append(ColumnProfile(str(name), "categorical", missing, levels=levels))
    return TrainingProfile(tuple(columns), {site.name: len(site.rows) for site in sites})


def column_names(X: Any, names: Any = None) -> list[str]:
    """Return the names of the columns of a matrix or frame; x0, x1 and so on where they have none."""
    found = getattr(X, "columns", None) if names is None else names
    return [f"x{place}" for place in range(X.shape[1])] if found is None else [str(name) for name in found]


def profile_matrix(X: Any, names: Sequence[str], sites: Sequence[Environment]) -> TrainingProfile:
    """Return the profile of a dense matrix or a frame, from some rows of each site."""
    some = [replace(site, rows=spread_rows(site.rows, MOST_SITE_ROWS)) for site in sites]
    if is_frame(X):
        rows = np.concatenate([site.rows for site in some])
        environments = np.repeat([site.name for site in some], [len(site.rows) for site in some])
        found = profile_training(as_frame(take_rows(X, rows), names), environments)
        return replace(found, sites={site.name: len(site.rows) for site in sites})
    rows, ends = np.concatenate([site.rows for site in some]), np.cumsum([len(site.rows) for site in some])
    placed = [
        replace(site, rows=np.arange(end - len(site.rows), end)) for site, end in zip(some, ends.tolist(), strict=True)
    ]
    values = np.asarray(X[rows, :MOST_COLUMNS], dtype=np.float64)
    columns = _number_profiles(names[:MOST_COLUMNS], values, placed[:MOST_SITES])
    return TrainingProfile(tuple(columns), {site.name: len(site.rows) for site in sites})


def as_frame(X: Any, names: Sequence[str]) -> pd.DataFrame:
    """Return rows as a frame with these names; numbers as floats."""
    import pandas as pd

    if not is_frame(X):
        X = pd.DataFrame(np.asarray(X))
    frame: pd.DataFrame = nw.from_native(X, eager_only=True).to_pandas().copy()  # polars, too
    frame.columns = pd.Index(names)
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "iufb"]
    return frame.astype(dict.fromkeys(numbers, np.float64))


def _number_profiles(names: Sequence[str], values: Array, sites: Sequence[Environment]) -> list[ColumnProfile]:
    """Return the profiles of numbers, (n_rows, n_columns)."""
    all_rows = _quantiles(values, GRID)
    own = np.stack([_quantiles(values[site.rows], [GRID[0], 0.5, GRID[-1]]) for site in sites])  # sites × 3 × columns
    missing = np.stack([np.isnan(values[site.rows]).mean(axis=0) for site in sites])
    found = []
    for place, name in enumerate(names):
        known = np.isfinite(own[:, 1, place])
        ends = own[known][:, [0, 2], place]
        low, high = (float(ends.min()), float(ends.max())) if known.any() else (0.0, 0.0)
        present = np.unique(values[:, place][np.isfinite(values[:, place])])
        if 0 < len(present) <= VARIES:  # a value that few rows have is no row's alone
            low, high = float(present[0]), float(present[-1])
        medians = {site.name: float(own[n, 1, place]) for n, site in enumerate(sites) if known[n]}
        shares = {site.name: float(missing[n, place]) for n, site in enumerate(sites)}
        quantiles = tuple(np.nan_to_num(all_rows[:, place]).tolist())
        found.append(ColumnProfile(name, "numeric", shares, quantiles, low, high, medians))
    return found


def _quantiles(values: Array, at: Any) -> Array:
    """Return the quantiles of each column's finite values, (n_at, n_columns); NaN where there are none.

    One sort of all columns takes a tenth of `numpy.quantile`'s time.
    """
    ordered = np.sort(np.where(np.isfinite(values), values, np.nan), axis=0)  # NaN comes last
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)
    places = np.asarray(at)[:, None] * last
    below = places.astype(np.intp)
    low, high = (np.take_along_axis(ordered, rows, axis=0) for rows in (below, np.minimum(below + 1, last)))
    return np.asarray(low + (places - below) * (high - low))


def _check_column(column: ColumnProfile, values: pd.Series[Any]) -> list[ColumnCheck]:
    """Return what does not fit in one column."""
    found = []
    missing, most = float(values.isna().mean()), max(column.missing.values(), default=0.0)
    if missing > most + MISSING_MORE:
        text = f"`{column.name}` is missing in {missing:.0%} of the rows, and in at most {most:.0%} at a known site."
        found.append(ColumnCheck(column.name, "missing", missing, text))
    present = values.dropna()
    if len(present) < LEAST_ROWS:
        return found
    if column.kind == "numeric":
        check = _check_numbers(column, present.to_numpy(dtype=np.float64))
    else:
        check = _check_levels(column, present.astype(str))
    return [*found, check] if check is not None else found


def _check_numbers(column: ColumnProfile, values: Array) -> ColumnCheck | None:
    """Return whether numbers lie outside of what was seen; days move on with time, and are not asked."""
    if column.low is None or column.high is None or not column.medians or column.name.endswith(" (days)"):
        return None
    if values.min() == values.max() and len(set(column.quantiles)) >= VARIES:
        text = (
            f"`{column.name}` is {values[0]:.4g} in all rows that have it. At the known sites it varies between "
            f"{column.low:.4g} and {column.high:.4g}."
        )
        return ColumnCheck(column.name, "constant", 1.0, text)
    reach = BEYOND * (column.high - column.low)
    outside = float(np.mean((values < column.low - reach) | (values > column.high + reach)))
    if outside < OUTSIDE:
        return None
    median, known = float(np.median(values)), list(column.medians.values())
    seen = f"{min(known):.4g} to {max(known):.4g}" if min(known) < max(known) else f"{known[0]:.4g}"
    if median < column.low - reach or median > column.high + reach:
        text = f"`{column.name}` may be in another unit: its median is {median:.4g}, and {seen} at the known sites."
        return ColumnCheck(column.name, "unit", outside, text)
    seen = f"{column.low:.4g} to {column.high:.4g}" if column.low < column.high else f"{column.low:.4g} only"
    text = f"`{column.name}` is outside the range of the known sites ({seen}) in {outside:.0%} of the rows."
    return ColumnCheck(column.name, "range", outside, text)


def _check_levels(column: ColumnProfile, values: pd.Series[Any]) -> ColumnCheck | None:
    """Return whether levels are new; a column of many rare levels always has new ones."""
    rare = 1.0 - sum(column.levels.values())
    unseen = ~values.isin(list(column.levels))
    share = float(unseen.mean())
    if share < rare + OUTSIDE:
        return None
    names = values[unseen].value_counts().index[:3].tolist()
    what = "a category" if len(set(values[unseen])) == 1 else "categories"
    text = (
        f"In {share:.0%} of the rows `{column.name}` has {what} that no known site has: {', '.join(map(repr, names))}."
    )
    return ColumnCheck(column.name, "levels", share, text)


def _moved(column: ColumnProfile, values: pd.Series[Any]) -> ColumnCheck | None:
    """Return whether a column's distribution differs from that of every known site."""
    present = values.dropna()
    if len(present) < LEAST_ROWS:
        return None
    if column.kind == "categorical":
        shares = present.astype(str).value_counts(normalize=True)
        levels = {*column.levels, *map(str, shares.index)}
        apart = sum(abs(shares.get(level, 0.0) - column.levels.get(level, 0.0)) for level in levels) / 2
        if apart < MOVED:
            return None
        return ColumnCheck(
            column.name, "moved", float(apart), f"{apart:.0%} of the rows would need another level of `{column.name}`."
        )
    known = list(column.medians.values())
    if not known or column.spread == 0:
        return None
    median = float(present.median())
    beyond = max(min(known) - median, median - max(known)) / column.spread
    if beyond < MOVED:
        return None
    text = (
        f"The median of `{column.name}` is {median:.4g}, and {min(known):.4g} to {max(known):.4g} at the known sites."
    )
    return ColumnCheck(column.name, "moved", float(beyond), text)
