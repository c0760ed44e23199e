"""One test where there are several labels or several columns: whether what a feature says about the labels has changed.

Ten labels, or ten values of a category, are a hundred tests, each of a few rows. Together they ask one question. With
r_c the residual 1[y = c] − p_c, and d_c the difference of a column's mean between label c and the rest, a row's share
in the answer is

    u = Σ_columns Σ_labels  d_c · (x − what named columns explain) · r_c

that is, the scores of `contrasts`, weighed by what the feature says about the labels. If nothing changed its mean is
the same on both sides. If something did, this direction sees it, or that of the other environment does, which is tested
too: a change at right angles to both would leave them equal.

Every second row of the judged environment is spent on d, and only the others are compared. d is then known before the
test. Learned from the judge's own rows it would go along with the judge's errors, and stable columns would be named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.audit.columns import Block, is_sparse
from holdfast.audit.contrasts import (
    FittedSide,
    Scores,
    Side,
    compare_fitted,
    exchanges,
    fit_side,
    permuted_statistics,
    welch,
    within_labels,
)
from holdfast.audit.judges import Floats
from holdfast.audit.matching import match_sides

CHUNK = 4_000_000  # numbers held at once while permuting
Sides = Mapping[int, tuple[Side, Side]]  # label -> home and away, of one judge and one judged environment


@dataclass(frozen=True, eq=False)
class PairScores:
    """Every feature's test in one pair of environments: the columns, the judge's log-odds, the groups of columns."""

    statistic: Floats  # (n_columns + 1 + n_groups,)
    p_values: Floats
    standard_error: Floats
    by_label: dict[int, Scores]  # each of n_columns + 1


def score_pair(sides: Sides, groups: Sequence[Sequence[int]], beside: Sequence[Sequence[int]] = ()) -> PairScores:
    """Test every column, the judge's log-odds, and every group.

    `beside` are the columns of each named feature: both sides are made alike in it. One column and one label are also
    fitted, which holds where inputs shift; for more, there would be more slopes than rows can tell. The judge's
    log-odds (the last column) are only fitted.
    """
    last = next(iter(sides.values()))[0].values.shape[1] - 1
    if matched := [members for members in beside if list(members) != [last]]:
        everything = {label: differences(home) for label, (home, _) in sides.items()}
        sides = match_sides(sides, matched, everything)
    few = len(sides) == 1
    named = list(dict.fromkeys(members[0] for members in beside if members[0] == last or (few and len(members) == 1)))
    fitted = {label: (fit_side(home, named), fit_side(away, named)) for label, (home, away) in sides.items()}
    by_label = {label: compare_fitted(*sides[label], *fitted[label]) for label in sides}
    first = next(iter(by_label.values()))
    if len(by_label) == 1:
        alone, pooled = [first], groups
    else:
        alone, pooled = [], [*((column,) for column in range(len(first.statistic))), *groups]
    usable = [_usable(members, sides, by_label) for members in pooled]
    together = _pool(sides, named, usable)
    parts = [*alone, together]
    return PairScores(
        np.concatenate([part.statistic for part in parts]),
        np.concatenate([part.p_values for part in parts]),
        np.concatenate([part.standard_error for part in parts]),
        by_label,
    )


def permute_pair(
    sides: Sides, groups: Sequence[Sequence[int]], n_permutations: int, generator: np.random.Generator
) -> Floats:
    """Return |statistic| of every feature after exchanging rows of the same label, (n_permutations, n_features)."""
    first = next(iter(sides.values()))
    if len(sides) == 1 and not groups:
        return permuted_statistics(*first, n_permutations, generator)
    n_columns = first[0].values.shape[1]
    sides, lessons = split_away(sides)
    first = next(iter(sides.values()))
    moves = exchanges(*first, n_permutations, generator)
    fitted = {label: (fit_side(home, ()), fit_side(away, ())) for label, (home, away) in sides.items()}
    pooled: list[Sequence[int]] = [*((column,) for column in range(n_columns)), *groups]
    drawn, size = [], max(1, CHUNK // len(moves))
    for start in range(0, len(pooled), size):
        rows, noise, between = [], [], []
        for members in pooled[start : start + size]:
            parts = [_rows(sides, fitted, lessons, members, side) for side in (0, 1)]
            rows.append(np.concatenate([part[0] for part in parts]))
            noise.append(np.concatenate([part[1] for part in parts]))
            between.append(sum(_between(first[side], parts[side][0]) for side in (0, 1)))
        scores, squared = moves.T @ np.stack(rows, axis=1), moves.T**2
        spread = np.maximum(squared @ np.stack(rows, axis=1) ** 2, squared @ np.stack(noise, axis=1))
        variance = within_labels(spread, np.asarray(between))
        drawn.append(np.abs(scores) / np.sqrt(np.where(variance > 0, variance, np.inf)))
    return np.hstack(drawn)


def split_away(sides: Sides) -> tuple[dict[int, tuple[Side, Side]], dict[int, Floats]]:
    """Return the sides with every second row of away, and what the other rows say about each label."""
    _, away = next(iter(sides.values()))
    taught = np.zeros(len(away.labels), dtype=bool)
    for label in np.unique(away.labels):
        taught[np.flatnonzero(away.labels == label)[1::2]] = True
    kept = np.flatnonzero(~taught)
    weights = away.weights[kept].copy()
    for label in np.unique(away.labels):
        inside = away.labels[kept] == label
        weights[inside] *= away.weights[away.labels == label].sum() / weights[inside].sum()
    lessons = {label: differences(side, np.flatnonzero(taught)) for label, (_, side) in sides.items()}
    return {label: (home, _take(side, kept, weights)) for label, (home, side) in sides.items()}, lessons


def differences(side: Side, rows: NDArray[np.intp] | None = None) -> Floats:
    """Return every column's mean with the side's label minus its mean without it; 0 where either has no rows."""
    rows = np.arange(len(side.labels)) if rows is None else rows
    parts = [side.values[rows[side.is_label[rows] == value]] for value in (1.0, 0.0)]
    if not all(part.shape[0] for part in parts):
        return np.zeros(side.values.shape[1])
    difference: Floats = np.subtract(*(np.asarray(part.mean(axis=0)).ravel() for part in parts))
    difference[-1] = 1.0  # log-odds are their own direction
    return difference


def _take(side: Side, rows: NDArray[np.intp], weights: Floats) -> Side:
    """Return some rows of a side."""
    folds = None if side.fold_log_odds is None else side.fold_log_odds[:, rows]
    log_odds, is_label = side.log_odds[rows], side.is_label[rows]
    return Side(side.values[rows], side.labels[rows], is_label, log_odds, weights, side.varies, folds)


def _usable(members: Sequence[int], sides: Sides, by_label: Mapping[int, Scores]) -> list[int]:
    """Return the columns that vary on both sides and are not determined by named ones."""
    home, away = next(iter(sides.values()))
    determined = np.all([scores.redundant for scores in by_label.values()], axis=0)
    return [column for column in members if home.varies[column] and away.varies[column] and not determined[column]]


def _pool(sides: Sides, named: Sequence[int], features: Sequence[Sequence[int]]) -> Scores:
    """Return one test for each feature; NaN for those without columns."""
    if not features:
        nothing = np.zeros(0)
        return Scores(nothing, nothing, nothing, nothing.astype(bool))
    sides, lessons = split_away(sides)
    home, away = next(iter(sides.values()))
    fitted = {label: (fit_side(home, named), fit_side(away, named)) for label, (home, away) in sides.items()}
    n_folds = next(iter(fitted.values()))[1].fold_scores.shape[0]
    difference, variance_home, variance_away = np.zeros((3, len(features)))
    fold_scores = np.zeros((n_folds, len(features)))
    for number, members in enumerate(features):
        if not members:
            continue
        scores, variances = [], []
        for place, side in enumerate((home, away)):
            rows, noise = _rows(sides, fitted, lessons, members, place)
            weighted = side.weights * rows
            squares = max(weighted @ weighted, side.weights**2 @ noise)
            scores.append(weighted.sum())
            variances.append(float(within_labels(np.array([squares]), np.array([_between(side, rows)]))[0]))
        difference[number] = scores[1] - scores[0]
        variance_home[number], variance_away[number] = variances
        for label in sides:
            fold_scores[:, number] += fitted[label][1].fold_scores[:, list(members)] @ lessons[label][list(members)]
    usable = np.array([bool(members) for members in features], dtype=bool)
    sizes = len(home.weights), len(away.weights)
    return welch(difference, variance_home, variance_away, fold_scores, sizes, usable, ~usable)


def _rows(
    sides: Sides,
    fitted: Mapping[int, tuple[FittedSide, FittedSide]],
    lessons: Mapping[int, Floats],
    members: Sequence[int],
    place: int,
) -> tuple[Floats, Floats]:
    """Return u of every row of home (place 0) or away (1), and its variance if the judge is right."""
    total, mean, mean_square = np.zeros((3, len(next(iter(sides.values()))[place].weights)))
    for label, pair in sides.items():
        side, fit = pair[place], fitted[label][place]
        values = dense_columns(side.values, members)
        beside = values - fit.design @ fit.projection[:, list(members)]
        pull = beside @ lessons[label][list(members)]
        p = side.is_label - fit.residuals
        total, mean, mean_square = total + pull * fit.residuals, mean + p * pull, mean_square + p * pull**2
    return total, np.asarray(np.maximum(mean_square - mean**2, 0.0))


def _between(side: Side, rows: Floats) -> float:
    """Return Σ_labels n·mean² of weight·u: what labels explain of its squares."""
    weighted = side.weights * rows
    return float(
        sum(
            weighted[side.labels == label].sum() ** 2 / (side.labels == label).sum() for label in np.unique(side.labels)
        )
    )


def dense_columns(values: Block, members: Sequence[int]) -> Floats:
    """Return some columns as an array of shape (n_rows, n_members)."""
    chosen = values[:, list(members)]
    return np.asarray(chosen.toarray() if is_sparse(values) else chosen)


def simes(p_values: Floats) -> Floats:
    """Return one p value for each column of (n_tests, n_columns): min over k of n·p_(k)/k; missing tests are left out.

    Examples
    --------
    >>> simes(np.array([[0.01, 0.5, np.nan], [0.02, 0.01, np.nan]])).tolist()
    [0.02, 0.02, nan]
    """
    ordered = np.sort(p_values, axis=0)  # NaN last
    n_tests = np.isfinite(p_values).sum(axis=0)
    ranks = np.arange(1, len(p_values) + 1)[:, None]
    scaled = np.where(np.isfinite(ordered), ordered * n_tests / ranks, np.inf)
    best = np.minimum(scaled.min(axis=0, initial=np.inf), 1.0)
    return np.where(n_tests > 0, best, np.nan)
