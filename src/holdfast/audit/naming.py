"""Which features are named: false discoveries under control, and nothing named that a named feature explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.audit.judges import Floats
from holdfast.audit.pooling import CHUNK, PairScores, Sides, permute_pair, score_pair, simes

GRID = np.arange(0.0, 50.0, 0.05)  # statistics beside named features lie between the first ones
MOST_NAMED = 100  # features; where more change, the list is no longer an answer
MANY = 3  # columns from which on a group is also tested as a whole
CORRECTIONS = ("holm", "yekutieli", "hochberg")

Pair = tuple[int, int]  # judge and judged environment


@dataclass(frozen=True, eq=False)
class Naming:
    """Every test, and the features that are named.

    Features are numbered: the columns, then the judge's log-odds, then the groups of at least three columns.
    """

    scores: dict[Pair, PairScores]
    p_values: dict[Pair, Floats]  # each (n_features,), NaN where a feature does not vary
    label_p_values: dict[Pair, dict[int, Floats]]  # each (n_columns + 1,): the same for one label against the rest
    family_q: Floats  # (n_families,) adjusted p value of each hypothesis; the last one is the log-odds
    families: tuple[tuple[int, ...], ...]  # of features
    level: float
    threshold: float  # largest p value of a hypothesis that counts as a discovery; 0 where there is none
    named: tuple[int, ...]  # features, strongest first
    explained_by: dict[int, int]  # discovered features that a named one explains

    @property
    def n_tests(self) -> int:
        """How many hypotheses were tested."""
        return int(np.isfinite(self.family_q).sum())


class PermutationNull:
    """All |statistics| that exchanged rows gave, over every test, as counts above the observed ones.

    Pooling the studentized statistics of all features makes small p values resolvable with few permutations.
    """

    def __init__(self, observed: ArrayLike) -> None:
        values = np.abs(np.asarray(observed, dtype=np.float64))
        self.levels = np.unique(np.concatenate([values[np.isfinite(values)], GRID]))
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


def name_features(
    sides: Mapping[Pair, Sides],
    columns: Sequence[Sequence[int]],
    *,
    level: float,
    correction: str,
    n_permutations: int,
    generator: np.random.Generator,
) -> Naming:
    """Test every feature, and name the strongest until nothing is left that it does not explain.

    A p value is the larger of Welch's and the permutations'. Where Welch's alone discover nothing, larger ones will
    not either, and the permutations are spared.

    Parameters
    ----------
    sides : mapping of (judge, judged) to sides by label
    columns : sequence of sequences of int
        The hypotheses: columns that belong together, most often one alone.
    """
    n_columns = sum(map(len, columns))
    groups = [tuple(members) for members in columns if len(members) >= MANY]
    families = _families(columns, n_columns)
    scores = {pair: score_pair(part, groups) for pair, part in sides.items()}
    null = PermutationNull(np.concatenate([score.statistic for score in scores.values()]) if scores else [])
    welch = _family_p(families, {pair: part.p_values for pair, part in scores.items()})
    if (adjusted(welch, correction) <= level).any():
        for part in sides.values():
            for size in _chunks(n_permutations, part):
                null.add(permute_pair(part, groups, size, generator))
    p_values = {pair: _p_values(part.statistic, part.p_values, null) for pair, part in scores.items()}
    family_p = _family_p(families, p_values)
    family_q = adjusted(family_p, correction)
    threshold = float(max(family_p[family_q <= level], default=0.0))
    # Beside a named feature any other may be stable after all: Holm's first step, not the one all reached together.
    strict = level / max(int(np.isfinite(family_q).sum()), 1)
    again = min(threshold, strict) if correction == "holm" else threshold
    # Without any correction: the doubt is about every other name. Several labels spend half of the rows on directions.
    both_ways = _family_p([(n_columns,)], _both_ways(scores, p_values, n_columns))[0]
    noisier = both_ways <= level and all(len(part) == 1 for part in sides.values())
    needed = strict if noisier else 1.0
    named, explained_by = _name(sides, groups, families, scores, p_values, null, threshold, again, needed)
    label_p = {
        pair: {label: _p_values(part.statistic, part.p_values, null) for label, part in score.by_label.items()}
        for pair, score in scores.items()
    }
    return Naming(scores, p_values, label_p, family_q, families, level, threshold, tuple(named), explained_by)


def adjusted(p_values: ArrayLike, correction: str = "holm") -> Floats:
    """Return adjusted p values: the smallest level at which each hypothesis would be a discovery. NaN stays out.

    "holm": the chance of naming anything wrongly is at most the level, however the tests depend on one another.
    "yekutieli": the expected share of wrong names is, however they depend. "hochberg": the same, if they do not pull
    against one another.

    Examples
    --------
    >>> adjusted([0.01, 0.02, 0.9]).round(3).tolist()
    [0.03, 0.04, 0.9]
    >>> adjusted([0.01, 0.02, 0.9], "hochberg").round(3).tolist()
    [0.03, 0.03, 0.9]
    >>> adjusted([0.01, 0.02, 0.9], "yekutieli").round(3).tolist()
    [0.055, 0.055, 1.0]
    """
    p = np.asarray(p_values, dtype=np.float64)
    q = np.full(len(p), np.nan)
    tested = np.flatnonzero(np.isfinite(p))
    if not len(tested):
        return q
    order = tested[np.argsort(p[tested], kind="stable")]
    n_tests, ranks = len(order), np.arange(1, len(order) + 1)
    if correction == "holm":
        q[order] = np.minimum(np.maximum.accumulate(p[order] * (n_tests + 1 - ranks)), 1.0)
        return q
    factor = (1.0 / ranks).sum() if correction == "yekutieli" else 1.0
    q[order] = np.minimum(np.minimum.accumulate((p[order] * n_tests * factor / ranks)[::-1])[::-1], 1.0)
    return q


def _families(columns: Sequence[Sequence[int]], n_columns: int) -> tuple[tuple[int, ...], ...]:
    """Return the features of each hypothesis: its columns and their group; last the log-odds."""
    group = n_columns
    families = []
    for members in columns:
        if len(members) >= MANY:
            group += 1
            families.append((*members, group))
        else:
            families.append(tuple(members))
    return (*families, (n_columns,))


def _family_p(families: Sequence[Sequence[int]], p_values: Mapping[Pair, Floats]) -> Floats:
    """Return one p value for each hypothesis: Simes' over its columns, with the group, then over the pairs."""
    if not p_values:
        return np.full(len(families), np.nan)
    by_feature = np.stack(list(p_values.values()))  # (n_pairs, n_features)
    result = by_feature[:, [members[0] for members in families]].copy()
    for number, members in enumerate(families):
        if len(members) > MANY:
            alone = simes(by_feature[:, list(members[:-1])].T)
            result[:, number] = simes(np.stack([alone, by_feature[:, members[-1]]]))
        elif len(members) > 1:
            result[:, number] = simes(by_feature[:, list(members)].T)
    return simes(result)


def _name(
    sides: Mapping[Pair, Sides],
    groups: Sequence[Sequence[int]],
    families: Sequence[Sequence[int]],
    scores: Mapping[Pair, PairScores],
    p_values: Mapping[Pair, Floats],
    null: PermutationNull,
    threshold: float,
    again: float,
    needed: float,  # p value of a column beside noisier labels; 1 where labels do not look noisier
) -> tuple[list[int], dict[int, int]]:
    """Name the strongest discovery, fit it on all sides, test the others again, and so on."""
    named: list[int] = []
    beside: list[list[int]] = []  # the columns behind each named feature
    explained_by: dict[int, int] = {}
    current, current_p = dict(scores), dict(p_values)
    log_odds = families[-1][0]
    discovered = still = _discovered(families, current_p, threshold)

    def refit(known: Sequence[Sequence[int]]) -> tuple[dict[Pair, PairScores], dict[Pair, Floats]]:
        """Return the tests beside some features."""
        tests = {pair: score_pair(part, groups, known) for pair, part in sides.items()}
        return tests, {pair: _p_values(part.statistic, part.p_values, null) for pair, part in tests.items()}

    while still and len(named) < MOST_NAMED:
        strongest = max(still, key=lambda feature: (feature != log_odds, _strength(current, feature)))
        if strongest != log_odds and log_odds not in named and (log_odds in still or needed < 1.0):
            # Either may explain the other: the better answer leaves less of the other one. Where labels look noisier
            # both ways everything is weaker, and beside that a column must still show a change of its own.
            family = next(members for members in families if strongest in members)
            p_feature = _family_p([family], refit([*beside, [log_odds]])[1])[0]
            p_log_odds = _family_p([(log_odds,)], refit([*beside, _behind(strongest, groups, log_odds)])[1])[0]
            if p_feature > min(p_log_odds, needed):
                strongest = log_odds
        beside.append(_behind(strongest, groups, log_odds))
        current, current_p = refit(beside)
        named.append(strongest)
        # Fitting a named feature may explain others. It may not add any: beside it even a stable one need not stay put.
        left = (_discovered(families, current_p, again) & discovered) - set(named)
        for feature in discovered - left - set(named):
            explained_by.setdefault(feature, strongest)
        for feature in left:
            explained_by.pop(feature, None)
        still = left
    return named, explained_by


def _behind(feature: int, groups: Sequence[Sequence[int]], log_odds: int) -> list[int]:
    """Return the columns of a feature."""
    return [feature] if feature <= log_odds else list(groups[feature - log_odds - 1])


def _discovered(families: Sequence[Sequence[int]], p_values: Mapping[Pair, Floats], threshold: float) -> set[int]:
    """Return the features of discovered hypotheses: groups as such, columns where they show it themselves."""
    family_p = _family_p(families, p_values)
    found: set[int] = set()
    for number in np.flatnonzero(family_p <= threshold).tolist() if threshold > 0 else ():
        members = list(families[number])
        smallest = np.nan_to_num(np.stack([p[members] for p in p_values.values()]), nan=np.inf).min(axis=0)
        if len(members) > MANY:
            found.add(members.pop())
            shown = smallest[:-1] * len(members) <= threshold
        else:
            shown = smallest <= max(threshold, float(smallest.min()))
        found.update(feature for feature, shows in zip(members, shown, strict=True) if shows)
    return found


def _strength(scores: Mapping[Pair, PairScores], feature: int) -> float:
    """Return a feature's largest statistic."""
    return float(np.nan_to_num([abs(score.statistic[feature]) for score in scores.values()]).max())


def _p_values(statistic: Floats, welch: Floats, null: PermutationNull) -> Floats:
    """Return the larger of Welch's and the permutations' p value; NaN where there is no test."""
    return np.where(np.isfinite(statistic), np.maximum(welch, null.p_values(statistic)), np.nan)


def _both_ways(scores: Mapping[Pair, PairScores], p_values: Mapping[Pair, Floats], log_odds: int) -> dict[Pair, Floats]:
    """Give the log-odds the larger p value of both directions, and 1 where they do not change in opposite ones.

    Where labels are noisier in one environment, its judge is not sure enough of the other one, which is too sure of it.
    A column that changed often shows in one direction only.
    """
    result = {pair: p.copy() for pair, p in p_values.items()}
    for pair, p in result.items():
        back = pair[::-1]
        if back in p_values:
            alike = scores[pair].statistic[log_odds] * scores[back].statistic[log_odds] > 0
            p[log_odds] = 1.0 if alike else np.maximum(p_values[pair][log_odds], p_values[back][log_odds])
    return result


def _chunks(n_permutations: int, sides: Sides) -> Sequence[int]:
    """Cut the permutations so that few numbers are held at once."""
    home, away = next(iter(sides.values()))
    n_numbers = len(home.weights) + len(away.weights) + home.values.shape[1]
    size = max(1, min(n_permutations, CHUNK // n_numbers))
    full, rest = divmod(n_permutations, size)
    return [size] * full + ([rest] if rest else [])
