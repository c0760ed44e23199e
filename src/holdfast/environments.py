"""Environments, partitions and groups as row numbers, and checks of the labels that users pass.

A partition cuts one environment (`judged`) by whether another one's classifier (`judge`) predicts its rows correctly.
A group is any set of rows, with or without weights, whose risk enters a maximum or a report. Groups may overlap.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.exceptions import EnvironmentsError, LabelsError, SmallGroupWarning, warn

Rows = NDArray[np.intp]
Weights = NDArray[np.float64]
PerRow: TypeAlias = ArrayLike | None  # a value for each row: an array, a list, a column of a frame

MIN_ROWS = 30  # of an environment that is to have a network of its own
MAX_ENVIRONMENTS = 300  # 89,700 pairs of judge and judged


@dataclass(frozen=True, eq=False)
class Environment:
    """Rows that were collected under the same circumstances."""

    label: Hashable  # as the user wrote it
    rows: Rows  # (n_rows,) ascending row numbers

    @property
    def name(self) -> str:
        """The label as text."""
        return str(self.label)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows of `judged` that `judge`'s classifier gets right and wrong.

    Hard halves are disjoint and carry no weights. Soft halves hold every row of the judged environment twice, with the
    probability that the judge is right and (up to a factor) that it is wrong as weights.
    """

    judge: str
    judged: str
    correct: Rows  # (n_correct,) row numbers
    mistaken: Rows  # (n_mistaken,) row numbers
    correct_weights: Weights | None = None  # (n_correct,) soft halves only
    mistaken_weights: Weights | None = None  # (n_mistaken,) soft halves only
    accuracy: float = float("nan")  # alpha: (weighted) share of the judged rows that are correct

    def groups(self) -> tuple[Group, Group]:
        """Return the two halves as groups, the correct one first."""
        return (
            Group(f"{self.judged} judged by {self.judge}: correct", self.correct, self.correct_weights),
            Group(f"{self.judged} judged by {self.judge}: mistaken", self.mistaken, self.mistaken_weights),
        )


@dataclass(frozen=True, eq=False)
class Group:
    """Rows whose (weighted) mean loss is one risk."""

    name: str
    rows: Rows  # (n_rows,) row numbers
    weights: Weights | None = None  # (n_rows,) not normalised; None: all equal

    def __len__(self) -> int:
        return len(self.rows)

    def effective_size(self) -> float:
        """Return the number of equally weighted rows that would be as informative (Kish)."""
        if self.weights is None:
            return float(len(self.rows))
        total = float(self.weights.sum())
        return total**2 / float((self.weights**2).sum()) if total > 0 else 0.0

    def probabilities(self) -> Weights:
        """Return the weights scaled to sum one."""
        if self.weights is None:
            return np.full(len(self.rows), 1.0 / max(len(self.rows), 1))
        return np.asarray(self.weights / self.weights.sum())

    def part(self, inside: Any) -> Group:
        """Return some of the rows (a mask, places or a slice) under the same name."""
        return Group(self.name, self.rows[inside], None if self.weights is None else self.weights[inside])

    def weighing(self) -> Group:
        """Return the rows of positive weight."""
        return self if self.weights is None else self.part(self.weights > 0)

    def weighted(self, sample_weight: Weights | None) -> Group:
        """Return the group with its rows also weighted by `sample_weight` (one number for each row of X)."""
        if sample_weight is None:
            return self
        weights = sample_weight[self.rows]
        return Group(self.name, self.rows, weights if self.weights is None else weights * self.weights)


def split_environments(environments: PerRow, n_rows: int) -> tuple[Environment, ...]:
    """Turn one label for each row into environments, ordered by label.

    Labels are strings, integers, categories, booleans or dates; several columns are crossed. None: all rows are one.

    Examples
    --------
    >>> [(e.name, e.rows.tolist()) for e in split_environments(["b", "a", "b"], 3)]
    [('a', [1]), ('b', [0, 2])]
    """
    if environments is None:
        return (Environment("all", np.arange(n_rows)),)
    if n_rows == 0:
        raise EnvironmentsError("X has no rows. Pass at least one row.")
    labels = label_array(environments, n_rows, what="environments", error=EnvironmentsError, example="frame['site']")
    values, codes = unique_labels(labels, what="environments", error=EnvironmentsError)
    order = np.argsort(codes, kind="stable")
    bounds = np.cumsum(np.bincount(codes, minlength=len(values)))[:-1]
    rows = np.split(order, bounds)
    result = tuple(Environment(value, part) for value, part in zip(values, rows, strict=True))
    if len({environment.name for environment in result}) < len(result):
        raise EnvironmentsError(
            "environments holds different labels that read the same as text (for example 1 and '1'). "
            "Convert them to one type, for example environments=frame['site'].astype(str)."
        )
    return result


def site_names(sites: Sequence[Environment]) -> NDArray[Any]:
    """Return the name of each row's site."""
    names = np.empty(sum(map(len, sites)), dtype=object)
    for site in sites:
        names[site.rows] = site.name
    return names


def label_array(
    values: Any, n_rows: int, *, what: str, error: type[EnvironmentsError] | type[LabelsError], example: str
) -> NDArray[Any]:
    """Return one label for each row as a 1-d array; several columns are crossed into tuples written as text."""
    try:
        labels = as_labels(values)
    except (TypeError, ValueError, OverflowError) as problem:  # rows of different lengths, for example
        raise error(
            f"{what} cannot be read as one label for each row ({problem}). Pass a column, for example {what}={example}."
        ) from problem
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2):
        raise error(
            f"{what} has shape {labels.shape}, but one label for each row was asked for. "
            f"Pass a column, for example {what}={example}."
        )
    if len(labels) != n_rows:
        raise error(
            f"{what} has {len(labels)} labels for {n_rows} rows. "
            f"Pass one label for each row, for example {what}={example}."
        )
    n_missing = int(missing_labels(labels).sum())
    if n_missing:
        raise error(
            f"{what} is missing (NaN or None) in {n_missing} of {n_rows} rows. "
            "Drop those rows, or give them a label of their own such as 'unknown'."
        )
    if labels.ndim == 2:
        labels = np.array([" × ".join(map(str, row)) for row in labels], dtype=object)
    return labels


def as_labels(values: Any) -> NDArray[Any]:
    """Return labels as an array; NaN and numbers next to texts in a list stay what they are.

    Examples
    --------
    >>> as_labels(["a", float("nan")]).tolist()
    ['a', nan]
    """
    labels = np.asarray(values)
    if labels.dtype.kind in "US" and isinstance(values, list | tuple):
        plain = np.array(values, dtype=object)
        if plain.shape == labels.shape and not all(isinstance(value, str | bytes) for value in plain.ravel()):
            return plain
    return labels


def missing_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows hold None, NaN or NaT in any column."""
    if labels.dtype.kind in "fcmM":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "O":
        flat = labels.ravel().tolist()
        kinds = set(map(type, flat))  # few, whatever the number of rows
        absent = {kind for kind in kinds if kind.__name__ in ("NoneType", "NAType", "NaTType")}
        floats = {kind for kind in kinds if issubclass(kind, float | np.floating)}
        if not absent and not floats:
            return np.zeros(len(labels), dtype=bool)
        found = [type(value) in absent or (type(value) in floats and value != value) for value in flat]
        missing = np.array(found, dtype=bool).reshape(labels.shape)
    else:
        missing = np.zeros(labels.shape, dtype=bool)
    return np.asarray(missing.any(axis=1) if missing.ndim == 2 else missing)


def unique_labels(
    labels: NDArray[Any], *, what: str, error: type[EnvironmentsError] | type[LabelsError]
) -> tuple[NDArray[Any], Rows]:
    """Return the sorted distinct labels and each row's code."""
    try:
        if labels.dtype.kind == "O" and labels.ndim == 1:  # texts are hashed, which is faster than sorting all rows
            rows = labels.tolist()
            values = np.unique(np.fromiter(dict.fromkeys(rows), dtype=object))
            places = {value: place for place, value in enumerate(values.tolist())}
            return values, np.fromiter(map(places.__getitem__, rows), dtype=np.intp, count=len(rows))
        values, codes = np.unique(labels, return_inverse=True)
    except (TypeError, ValueError, ArithmeticError) as problem:
        types = sorted({type(value).__name__ for value in labels})
        raise error(
            f"{what} mixes labels of types {', '.join(types)}, which have no common order. "
            f"Convert them to one type, for example {what}=frame['column'].astype(str)."
        ) from problem
    return values, codes.astype(np.intp).ravel()


def cross_groups(names: Sequence[str], codes: Sequence[Rows], values: Sequence[Sequence[str]]) -> tuple[Group, ...]:
    """Return the non-empty groups of a cross of label columns, named `column=value, …`.

    Examples
    --------
    >>> groups = cross_groups(["site", "y"], [np.array([0, 0, 1]), np.array([0, 1, 1])], [["A", "B"], ["no", "yes"]])
    >>> [(g.name, g.rows.tolist()) for g in groups]
    [('site=A, y=no', [0]), ('site=A, y=yes', [1]), ('site=B, y=yes', [2])]
    """
    stacked = np.stack(list(codes), axis=1)  # (n_rows, n_columns)
    cells, cell_of_row = np.unique(stacked, axis=0, return_inverse=True)
    order = np.argsort(cell_of_row.ravel(), kind="stable")
    bounds = np.cumsum(np.bincount(cell_of_row.ravel(), minlength=len(cells)))[:-1]
    return tuple(
        Group(", ".join(f"{name}={value[code]}" for name, value, code in zip(names, values, cell, strict=True)), rows)
        for cell, rows in zip(cells, np.split(order, bounds), strict=True)
    )


def listed(names: Sequence[str], most: int = 5) -> str:
    """Join names for a message, cutting a long list."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def take_rows(X: Any, rows: Rows) -> Any:
    """Return the rows of X, whatever holds them: array, memory map, sparse matrix, frame or list of texts."""
    from sklearn.utils import _safe_indexing

    if type(X) is np.ndarray and isinstance(rows, np.ndarray) and rows.dtype.kind == "i":
        return X.take(rows, axis=0)  # half the time of X[rows]
    if isinstance(X, np.ndarray) or is_lazy(X):
        return X[rows]
    return _safe_indexing(X, rows)


def is_lazy(X: Any) -> bool:
    """Return whether X holds rows that become an array only where asked, by `X.dense(rows)`."""
    return callable(getattr(X, "dense", None)) and hasattr(X, "shape")


def merge_small_environments(environments: tuple[Environment, ...], min_size: int) -> tuple[Environment, ...]:
    """Merge every environment with fewer than `min_size` rows into one, with a warning; a single one keeps its name.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     merged = merge_small_environments(split_environments(list("aaabc"), 5), 2)
    >>> [(e.name, e.rows.tolist()) for e in merged]
    [('a', [0, 1, 2]), ('b, c (2 small environments)', [3, 4])]
    """
    if len(environments) > 1:
        small = [environment for environment in environments if len(environment) < min_size]
        if small:
            names = [environment.name for environment in small]
            what = "have fewer than {} rows and are merged into one" if small[1:] else "has fewer than {} rows"
            warn(
                f"{len(small)} of {len(environments)} environments {what.format(min_size)}: {listed(names)}.",
                SmallGroupWarning,
            )
        if len(small) > 1:
            rows = np.sort(np.concatenate([environment.rows for environment in small]))
            kept = tuple(environment for environment in environments if len(environment) >= min_size)
            environments = (*kept, Environment(f"{listed(names, most=3)} ({len(small)} small environments)", rows))
    return environments


def pool_small_environments(
    environments: tuple[Environment, ...], *, min_size: int = MIN_ROWS, most: int = 10
) -> tuple[Environment, ...]:
    """Pool environments with few rows, where there are more than `most` environments, with a warning.

    Pools have about as many rows as one another, at least `min_size`, and follow the order of the labels. There are at
    most as many as make `most` environments together with the large ones, and at least two.

    Examples
    --------
    >>> import warnings
    >>> sites = split_environments([f"site {number // 6:03}" for number in range(600)], 600)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     pooled = pool_small_environments(sites)
    >>> len(pooled), {len(pool) for pool in pooled}, pooled[0].name
    (10, {60}, 'site 000 to site 009 (10 environments)')
    """
    small = [environment for environment in environments if len(environment) < min_size]
    if len(environments) <= most or len(small) < 3:
        return environments
    large = [environment for environment in environments if len(environment) >= min_size]
    n_rows = sum(len(environment) for environment in small)
    n_pools = max(min(n_rows // min_size, most - len(large)), 2 if not large else 1)
    pools: list[list[Environment]] = [[] for _ in range(n_pools)]
    before = 0
    for environment in small:
        pools[before * n_pools // n_rows].append(environment)
        before += len(environment)
    parts = [pool for pool in pools if pool]
    pooled = [pool[0] if len(pool) == 1 else _joined(pool) for pool in parts]
    warn(
        f"{len(small)} of {len(environments)} environments have fewer than {min_size} rows. They are pooled into "
        f"{len(pooled)}, in the order of their labels. To pool those that are alike, pass a coarser label, such as the "
        "region or the device.",
        SmallGroupWarning,
    )
    return (*large, *pooled)


def _joined(pool: Sequence[Environment]) -> Environment:
    """Return several environments as one."""
    rows = np.sort(np.concatenate([environment.rows for environment in pool]))
    return Environment(f"{pool[0].name} to {pool[-1].name} ({len(pool)} environments)", rows)


def check_pairs(environments: Sequence[Environment]) -> None:
    """Refuse more environments than can all judge one another."""
    if len(environments) > MAX_ENVIRONMENTS:
        raise EnvironmentsError(
            f"environments has {len(environments)} different labels; every pair of them is judged, and at most "
            f"{MAX_ENVIRONMENTS} are supported. Use a coarser label (region instead of site, month instead of day), "
            "or raise min_group_size so that small ones are merged."
        )
