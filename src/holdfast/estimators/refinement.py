"""Iterated refinement: cut the halves again, by judges that are already best in the worst half at home.

A judge of the first round leans on the strongest unstable feature, and its halves flip that one. Fitted on the halves
of its own environment instead (the least worst-case risk over them), it can no longer use that feature and leans on the
next one; its mistakes inside each half then flip the next one. Every round doubles the halves of each pair.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from holdfast.environments import Group, Partition, take_rows
from holdfast.estimators.reading import TrainingRows
from holdfast.solvers import Solution

log = logging.getLogger(__name__)


def refine_halves(
    partitions: tuple[Partition, ...],
    training: TrainingRows,
    fit_judge: Callable[[Sequence[Group], str, int], Solution],
    *,
    rounds: int,
    min_group_size: int,
) -> tuple[list[Group], int]:
    """Cut the halves again until `rounds` are done, nothing changes or the halves get too small.

    Parameters
    ----------
    partitions : tuple of Partition
        Of the first round, hard halves.
    training : TrainingRows
    fit_judge : callable
        `(groups, environment, round) -> Solution`, the least worst-case risk over the halves of one environment.
    rounds : int
        Largest number of rounds, the first one included.
    min_group_size : int
        A cut that leaves less than this on either side is not made.

    Returns
    -------
    list of Group, int
        The last round's halves and the number of rounds that changed anything.
    """
    halves = {(p.judge, p.judged): [half for half in p.groups() if len(half)] for p in partitions}
    for number in range(2, rounds + 1):
        refined = _cut_again(halves, training, fit_judge, number, min_group_size)
        n_before, n_after = (sum(map(len, pairs.values())) for pairs in (halves, refined))
        log.info("round %d: %d halves cut into %d", number, n_before, n_after)
        if n_after == n_before:
            return list(itertools.chain(*halves.values())), number - 1
        halves = refined
    return list(itertools.chain(*halves.values())), rounds


def _cut_again(
    halves: dict[tuple[str, str], list[Group]],
    training: TrainingRows,
    fit_judge: Callable[[Sequence[Group], str, int], Solution],
    number: int,
    min_group_size: int,
) -> dict[tuple[str, str], list[Group]]:
    """Return the halves of every pair, each cut by the judge's new classifier where both sides are large enough."""
    judges = {}
    for environment in dict.fromkeys(judge for judge, _ in halves):
        own = [half for (_, judged), parts in halves.items() if judged == environment for half in parts]
        large = [half for half in own if len(half) >= min_group_size] or own
        groups = [half.weighted(training.sample_weight) for half in large]
        judges[environment] = fit_judge(groups, environment, number).estimator
    return {
        (judge, judged): [part for half in parts for part in _cut(half, judges[judge], training, min_group_size)]
        for (judge, judged), parts in halves.items()
    }


def _cut(half: Group, classifier: Any, training: TrainingRows, min_group_size: int) -> list[Group]:
    """Cut one half by correctness, or keep it whole."""
    right = np.asarray(classifier.predict(take_rows(training.X, half.rows))) == training.y[half.rows]
    if min(right.sum(), (~right).sum()) < min_group_size:
        return [half]
    return [Group(f"{half.name}, correct", half.rows[right]), Group(f"{half.name}, mistaken", half.rows[~right])]
