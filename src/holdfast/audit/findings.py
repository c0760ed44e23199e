"""From tests to findings: the correlations behind each test, and which of them are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.audit.columns import Block, Columns
from holdfast.audit.correlations import HalfCorrelations, group_correlations, half_correlations
from holdfast.audit.judges import Floats
from holdfast.audit.naming import MANY, Naming, Pair
from holdfast.audit.pooling import dense_columns
from holdfast.audit.results import ANY_LABEL, SHARPNESS, Finding
from holdfast.environments import Environment


def make_findings(
    columns: Columns,
    values: Block,
    y: NDArray[np.intp],
    classes: NDArray[Any],
    environments: Sequence[Environment],
    probabilities: Floats,
    naming: Naming,
    level: float,
) -> list[Finding]:
    """Return a finding for every column that varies, in every pair of environments and for every label; groups too."""
    groups = [(name, members) for name, members in columns.hypotheses() if len(members) >= MANY]
    names = [*columns.names, SHARPNESS, *(name for name, _ in groups)]
    inputs = [*columns.inputs, True, *(bool(columns.inputs[list(members)].all()) for _, members in groups)]
    family = {feature: number for number, members in enumerate(naming.families) for feature in members}
    strongest = _strongest(naming, len(columns))
    found = []
    for pair, label, features, seen, p, statistic in _correlations(
        columns, groups, values, y, environments, probabilities, naming
    ):
        for place, feature in enumerate(features):
            if not np.isfinite(p[place]):
                continue
            headline = strongest.get(feature) == (pair, label)
            q = _adjusted(naming, family[feature], float(p[place]), alone=headline)
            tells = headline or q <= level
            explained = naming.explained_by.get(feature) if p[place] <= naming.threshold else None
            flip = seen.mistaken_soft[place] - seen.home_mistaken_soft[place]
            found.append(
                Finding(
                    feature=names[feature],
                    judge=environments[pair[0]].name,
                    judged=environments[pair[1]].name,
                    label=ANY_LABEL if label is None else str(classes[label]),
                    environment_correlation=float(seen.environment[place]),
                    correct_soft=float(seen.correct_soft[place]),
                    mistaken_soft=float(seen.mistaken_soft[place]),
                    correct_hard=float(seen.correct_hard[place]),
                    mistaken_hard=float(seen.mistaken_hard[place]),
                    home_mistaken_soft=float(seen.home_mistaken_soft[place]),
                    flip_score=float(flip),
                    statistic=float(statistic[place]),
                    p_value=float(p[place]),
                    q_value=q,
                    named=bool(feature in naming.named and tells),
                    explained_by=None if explained is None else names[explained],
                    is_input=bool(inputs[feature]),
                )
            )
    return found


def sharpness(naming: Naming, environments: Sequence[Environment]) -> str | None:
    """Return a sentence where everything is less sure in one environment, more than any column explains."""
    log_odds = naming.families[-1][0]
    if log_odds not in naming.named:
        return None
    judge, judged = max(naming.scores, key=lambda pair: abs(naming.scores[pair].statistic[log_odds]))
    less = naming.scores[judge, judged].statistic[log_odds] < 0
    return (
        f"Labels follow everything {'less' if less else 'more'} closely in {environments[judged].name} than "
        f"{environments[judge].name}'s model expects, as noisier labels would make it. That is no column's change; "
        "columns are named for what they show beyond it."
    )


def _correlations(
    columns: Columns,
    groups: Sequence[tuple[str, tuple[int, ...]]],
    values: Block,
    y: NDArray[np.intp],
    environments: Sequence[Environment],
    probabilities: Floats,
    naming: Naming,
) -> Iterator[tuple[Pair, int | None, Sequence[int], HalfCorrelations, Floats, Floats]]:
    """Yield pair, label, features, their correlations, p values and statistics: all columns, then group by group."""
    n_columns = len(columns)
    for pair, scores in naming.scores.items():
        rows = environments[pair[0]].rows, environments[pair[1]].rows
        chances = probabilities[pair[0]]
        for label, p in naming.label_p_values[pair].items():
            seen = half_correlations(values, y, chances, *rows, label)
            yield pair, label, range(n_columns), seen, p[:-1], scores.by_label[label].statistic[:-1]
        labels = list(scores.by_label)
        for number, (_, members) in enumerate(groups):
            feature = n_columns + 1 + number
            seen = group_correlations(dense_columns(values, members), y, chances, *rows, labels)
            only = labels[0] if len(labels) == 1 else None
            p, statistic = naming.p_values[pair], scores.statistic
            yield pair, only, [feature], seen, p[[feature]], statistic[[feature]]


def _strongest(naming: Naming, n_columns: int) -> dict[int, tuple[Pair, int | None]]:
    """Return the pair and label that tell most about each feature."""
    best: dict[int, tuple[float, Pair, int | None]] = {}
    for pair, scores in naming.scores.items():
        places: list[tuple[int | None, int, Floats]] = [
            (label, 0, part.statistic[:n_columns]) for label, part in scores.by_label.items()
        ]
        only = next(iter(scores.by_label)) if len(scores.by_label) == 1 else None
        places.append((only, n_columns + 1, scores.statistic[n_columns + 1 :]))
        for label, start, statistic in places:
            for number in np.flatnonzero(np.isfinite(statistic)).tolist():
                size = abs(float(statistic[number]))
                if size > best.get(start + number, (-1.0,))[0]:
                    best[start + number] = (size, pair, label)
    return {feature: place[1:] for feature, place in best.items()}


def _adjusted(naming: Naming, family: int, p_value: float, *, alone: bool) -> float:
    """Return a finding's adjusted p value: its hypothesis' where it tells most, else corrected among the details.

    Inside of the discovered hypotheses details are tested at the level times the share that was discovered (Benjamini
    and Bogomolov 2014).
    """
    if alone:
        return float(naming.family_q[family])
    n_labels = max((len(scores.by_label) for scores in naming.scores.values()), default=1)
    n_details = len(naming.families[family]) * len(naming.scores) * n_labels
    share = max(int((naming.family_q <= naming.level).sum()), 1) / naming.n_tests
    return float(min(1.0, max(naming.family_q[family], p_value * n_details / share)))
