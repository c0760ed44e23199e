"""Which columns are named: false discoveries under control, and nothing named that a named column explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.audit.contrasts import Scores, Side, contrast, permuted_statistics
from holdfast.audit.judges import Floats

MOST_NAMED = 100  # columns; where more change, the list is no longer an answer
CHUNK = 4_000_000  # numbers held at once while permuting


@dataclass(frozen=True, order=True)
class Comparison:
    """Which test a score belongs to: one partition, one label against the rest."""

    judge: int
    judged: int
    label: int


@dataclass(frozen=True, eq=False)
class Naming:
    """Every test's p and q value, and the columns that are named."""

    p_values: dict[Comparison, Floats]  # each (n_columns,), NaN where a column does not vary
    q_values: dict[Comparison, Floats]
    statistics: dict[Comparison, Floats]
    standard_errors: dict[Comparison, Floats]
    correction: str
    threshold: float  # largest p value that counts as a discovery; 0 where there is none
    named: tuple[int, ...]  # columns, strongest first
    explained_by: dict[int, int]  # discovered columns that a named one explains


class PermutationNull:
    """All |statistics| that exchanged rows gave, over every test, as counts above the observed ones.

    Pooling the studentized statistics of all columns makes small p values resolvable with few permutations.
    """

    def __init__(self, observed: ArrayLike) -> None:
        values = np.abs(np.asarray(observed, dtype=np.float64))
        self.levels = np.unique(values[np.isfinite(values)])
        self.at_least = np.zeros(len(self.levels), dtype=np.int64)  # draws >= level
        self.n_draws = 0

    def add(self, drawn: Floats) -> None:
        """Count more draws."""
        draws = np.sort(drawn.ravel())
        self.at_least += len(draws) - np.searchsorted(draws, self.levels * (1 - 1e-12))
        self.n_draws += len(draws)

    def p_values(self, statistics: Floats) -> Floats:
        """Return (1 + draws at least as large) / (1 + draws); a value between levels takes the lower level's."""
        if self.n_draws == 0:
            return np.zeros(len(statistics))
        counts = np.append(self.at_least, 0)
        place = np.searchsorted(self.levels, np.abs(np.nan_to_num(statistics)) * (1 + 1e-12), side="right") - 1
        above = np.where(place < 0, self.n_draws, counts[np.maximum(place, 0)])
        return (1 + above) / (1 + self.n_draws)


def name_columns(
    sides: Mapping[Comparison, tuple[Side, Side]],
    *,
    level: float,
    correction: str,
    n_permutations: int,
    generator: np.random.Generator,
) -> Naming:
    """Test every column in every comparison, and name the strongest until nothing is left that it does not explain.

    A p value is the larger of Welch's and the permutations'. Where Welch's alone discover nothing, larger ones will
    not either, and the permutations are spared.
    """
    scores = {key: contrast(home, away) for key, (home, away) in sides.items()}
    null = PermutationNull(np.concatenate([score.statistic for score in scores.values()]) if scores else [])
    welch = np.concatenate([score.p_values for score in scores.values()]) if scores else np.empty(0)
    if (adjusted(welch, correction) <= level).any():
        for home, away in sides.values():
            for size in _chunks(n_permutations, home, away):
                null.add(permuted_statistics(home, away, size, generator))
    p_values = {key: _p_values(score, null) for key, score in scores.items()}
    q_values = _by_key(adjusted(np.concatenate(list(p_values.values())), correction), p_values) if p_values else {}
    discovered = [
        p[q <= level].max() for p, q in zip(p_values.values(), q_values.values(), strict=True) if (q <= level).any()
    ]
    threshold = float(max(discovered, default=0.0))
    named, explained_by = _name(sides, p_values, scores, null, threshold)
    return Naming(
        p_values,
        q_values,
        {key: score.statistic for key, score in scores.items()},
        {key: score.standard_error for key, score in scores.items()},
        correction,
        threshold,
        tuple(named),
        explained_by,
    )


def adjusted(p_values: ArrayLike, correction: str = "yekutieli") -> Floats:
    """Return q values: the smallest false discovery rate at which each test would count. NaN stays out.

    "hochberg" assumes tests that do not pull against one another; "yekutieli" assumes nothing about how they depend.

    Examples
    --------
    >>> adjusted([0.01, 0.02, 0.9], "hochberg").round(3).tolist()
    [0.03, 0.03, 0.9]
    >>> adjusted([0.01, 0.02, 0.9]).round(3).tolist()
    [0.055, 0.055, 1.0]
    """
    p = np.asarray(p_values, dtype=np.float64)
    q = np.full(len(p), np.nan)
    tested = np.flatnonzero(np.isfinite(p))
    if not len(tested):
        return q
    order = tested[np.argsort(p[tested], kind="stable")]
    ranks = np.arange(1, len(order) + 1)
    factor = dependence_factor(len(order), correction)
    q[order] = np.minimum(np.minimum.accumulate((p[order] * len(order) * factor / ranks)[::-1])[::-1], 1.0)
    return q


def dependence_factor(n_tests: int, correction: str) -> float:
    """Return what tests that depend on one another cost: 1 + 1/2 + … + 1/n for Yekutieli, 1 for Hochberg."""
    return float((1.0 / np.arange(1, n_tests + 1)).sum()) if correction == "yekutieli" else 1.0


def _name(
    sides: Mapping[Comparison, tuple[Side, Side]],
    p_values: Mapping[Comparison, Floats],
    scores: Mapping[Comparison, Scores],
    null: PermutationNull,
    threshold: float,
) -> tuple[list[int], dict[int, int]]:
    """Name the strongest discovery, fit it on all sides, test the others again, and so on."""
    named: list[int] = []
    explained_by: dict[int, int] = {}
    current_p, current = dict(p_values), dict(scores)
    open_columns = _discovered(current_p, threshold)
    while open_columns and len(named) < MOST_NAMED:
        strongest = max(open_columns, key=lambda column: _strength(current, current_p, column, threshold))
        named.append(strongest)
        for key, (home, away) in sides.items():
            current[key] = contrast(home, away, named)
            current_p[key] = _p_values(current[key], null)
        left = _discovered(current_p, threshold)
        for column in open_columns - left - {strongest}:
            explained_by[column] = strongest
        for column in left:
            explained_by.pop(column, None)
        open_columns = left - set(named)
    return named, explained_by


def _discovered(p_values: Mapping[Comparison, Floats], threshold: float) -> set[int]:
    """Return the columns that some comparison discovers."""
    return {int(column) for p in p_values.values() for column in np.flatnonzero(p <= threshold)}


def _strength(
    scores: Mapping[Comparison, Scores], p_values: Mapping[Comparison, Floats], column: int, threshold: float
) -> float:
    """Return a column's largest statistic among the comparisons that discover it."""
    return max(float(abs(scores[key].statistic[column])) for key, p in p_values.items() if p[column] <= threshold)


def _p_values(scores: Scores, null: PermutationNull) -> Floats:
    """Return the larger of Welch's and the permutations' p value; NaN where there is no test."""
    p = np.maximum(scores.p_values, null.p_values(scores.statistic))
    return np.where(np.isfinite(scores.statistic), p, np.nan)


def _by_key(values: Floats, like: Mapping[Comparison, Floats]) -> dict[Comparison, Floats]:
    """Cut one long array back into one for each comparison."""
    bounds = np.cumsum([len(part) for part in like.values()])[:-1]
    return dict(zip(like, np.split(values, bounds), strict=True))


def _chunks(n_permutations: int, home: Side, away: Side) -> Sequence[int]:
    """Cut the permutations so that few numbers are held at once."""
    n_numbers = len(home.weights) + len(away.weights) + home.values.shape[1]
    size = max(1, min(n_permutations, CHUNK // n_numbers))
    full, rest = divmod(n_permutations, size)
    return [size] * full + ([rest] if rest else [])
