"""The loss of the decision: how much of a feature's effect to keep.

A code that agrees with the label in a share p of the rows has the effect logit p. With probability P its relation
changes; then, at a new site, caution 0 means that it agrees as before, 1/2 that the effect vanishes, 1 that it
reverses. So the expected share is

    q = 1/2 + (p - 1/2) max(0, 1 - 2 caution P),

and the effect of least expected log loss is logit q: the share logit q / logit p of it is kept. A change of the
classifier must be worth it: what is given up is shrunk by gain³ / (gain³ + 0.05³), where the gain is the expected log
loss saved, the Kullback-Leibler divergence of q and p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy import special

from holdfast.stable.hypotheses import Posterior

CAUTION = 0.75  # the default: halfway between "vanishes" and "reverses"
LEAST_GAIN = 0.05  # log loss, in nats for each row, that a change of the classifier must save to count half
NOTHING, EVERYTHING = 0.02, 0.98  # shares up to which nothing, and from which on everything is kept
MOST_LEVELS = 3  # classifiers that do without some features
APART = 0.1  # kept shares that differ by less belong to one level

Reason = Literal["weak_evidence", "label_noise", "small_change", "part_of_mechanism", "bend_or_product"]


def kept_share(found: Posterior, caution: float = CAUTION) -> float:
    """Return how much of a feature's effect to keep, between 0 and 1.

    Examples
    --------
    >>> sure, unsure = Posterior(0.99, effect=1.5), Posterior(0.02, effect=1.5)
    >>> kept_share(sure), kept_share(sure, caution=0.0), kept_share(unsure)
    (0.0, 1.0, 1.0)
    """
    known = float(special.expit(max(abs(found.effect), 1e-3)))
    expected = 0.5 + (known - 0.5) * max(0.0, 1 - 2 * caution * found.probability)
    share = float(special.logit(expected) / special.logit(known))
    gain = expected * np.log(expected / known) + (1 - expected) * np.log((1 - expected) / (1 - known))
    share = 1 - (1 - share) * float(gain**3 / (gain**3 + LEAST_GAIN**3))
    return 0.0 if share < NOTHING else 1.0 if share > EVERYTHING else share


def reason_for(found: Posterior) -> Reason:
    """Return why a feature whose effects seem to differ is kept: the rival that explains them best."""
    if found.change < 1.0:
        return "weak_evidence"
    if found.probability > 0.5:
        return "small_change"
    rivals: dict[Reason, float] = {
        "part_of_mechanism": found.mechanism,
        "label_noise": -found.noise,
        "bend_or_product": -found.bend,
    }
    best = max(rivals, key=lambda reason: rivals[reason])
    return best if rivals[best] > 0 else "weak_evidence"


def removal_levels(kept: Sequence[float]) -> list[tuple[float, tuple[int, ...]]]:
    """Return nested sets of features to do without, each with its weight in the mixture; the first has none.

    Weights sum to one, and a feature is seen by parts of the mixture that weigh about its kept share.

    Examples
    --------
    >>> [(round(weight, 2), features) for weight, features in removal_levels([0.2, 1.0, 0.7])]
    [(0.2, ()), (0.5, (0,)), (0.3, (0, 2))]
    """
    order = [i for i in np.argsort(kept, kind="stable").tolist() if kept[i] < 1.0]
    if not order:
        return [(1.0, ())]
    groups = [[order[0]]]
    for i in order[1:]:
        lowest = kept[groups[-1][0]]
        if lowest == 0.0 < kept[i] or (len(groups) < MOST_LEVELS and kept[i] - lowest > APART):  # 0 is exact
            groups.append([i])
        else:
            groups[-1].append(i)
    shares = [float(np.mean([kept[i] for i in group])) for group in groups] + [1.0]
    levels: list[tuple[float, tuple[int, ...]]] = [(shares[0], ())]
    removed: list[int] = []
    for group, (share, upper) in zip(groups, zip(shares, shares[1:], strict=False), strict=True):
        removed = [*removed, *group]
        levels.append((upper - share, tuple(removed)))
    return levels


def level_weights(levels: Sequence[tuple[float, tuple[int, ...]]], kept: Sequence[float]) -> list[float]:
    """Return the weight of each level of `removal_levels`, so that features are seen by about as much as is kept.

    Examples
    --------
    >>> levels = removal_levels([0.2, 1.0, 0.7])
    >>> [round(weight, 2) for weight in level_weights(levels, [0.4, 1.0, 0.5])]
    [0.4, 0.1, 0.5]
    """
    shares = [
        float(np.mean([kept[i] for i in set(level) - set(before)]))
        for (_, before), (_, level) in zip(levels, levels[1:], strict=False)
    ]
    edges = np.clip(np.maximum.accumulate([*shares, 1.0]), 0.0, 1.0)
    return [float(edges[0]), *np.diff(edges).tolist()]
