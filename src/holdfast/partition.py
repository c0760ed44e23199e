"""Stage 2, partition: cut every environment into the rows that other environments' classifiers get right and wrong.

Hard halves are what the paper runs: rows predicted correctly, rows predicted wrongly. Soft halves are its
Proposition 1 as stated: each row lies in both, weighted by the judge's probability of being right and of being wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, Group, Partition, PerRow, Rows, Weights, listed, split_environments
from holdfast.exceptions import (
    AllMistakenWarning,
    ConstantJudgeWarning,
    EmptyPartitionWarning,
    InputError,
    SmallGroupWarning,
    warn,
)
from holdfast.fitting.estimators import PROBABILITY_FLOOR

log = logging.getLogger(__name__)


def partition_by_correctness(
    predictions: Mapping[str, Any] | NDArray[Any],
    y: PerRow,
    environments: Sequence[Environment] | Any,
    *,
    sample_weight: Weights | None = None,
) -> tuple[Partition, ...]:
    """Cut each environment into the rows that each other environment's classifier gets right and wrong.

    Parameters
    ----------
    predictions : mapping of environment name to array of shape (n_rows,), or array of shape (n_judges, n_rows)
        What each judge predicts for every row; its own rows are never looked at. An array's judges are in the
        environments' order.
    y : array-like of shape (n_rows,)
        True labels, in the predictions' coding.
    environments : sequence of Environment, or array-like of shape (n_rows,) with labels
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows in `Partition.accuracy`.

    Returns
    -------
    tuple of Partition
        One for each ordered pair (judge, judged), judges in the environments' order.

    Examples
    --------
    Six rows, two sites. A's classifier predicts 1 for everything, B's predicts the truth but for row 0.

    >>> y, sites = [0, 1, 1, 0, 1, 0], ["A", "A", "A", "B", "B", "B"]
    >>> by_A, by_B = partition_by_correctness({"A": [1, 1, 1, 1, 1, 1], "B": [1, 1, 1, 0, 1, 0]}, y, sites)
    >>> by_A.judge, by_A.judged, by_A.correct.tolist(), by_A.mistaken.tolist()
    ('A', 'B', [4], [3, 5])
    >>> by_B.judged, by_B.correct.tolist(), by_B.mistaken.tolist(), round(by_B.accuracy, 3)
    ('A', [1, 2], [0], 0.667)
    """
    y = np.asarray(y)
    environments = _as_environments(environments, len(y))
    by_judge = _by_judge(predictions, environments, len(y))
    partitions = []
    for judge, judged in itertools.permutations(environments, 2):
        rows = judged.rows
        right = by_judge[judge.name][rows] == y[rows]
        accuracy = weighted_mean(right, rows, sample_weight)
        partitions.append(Partition(judge.name, judged.name, rows[right], rows[~right], accuracy=accuracy))
    log.info("stage 2: %d partitions of %d environments", len(partitions), len(environments))
    return tuple(partitions)


def partition_by_probability(
    probabilities: NDArray[np.float64],
    y: NDArray[np.intp],
    environments: Sequence[Environment],
    *,
    sample_weight: Weights | None = None,
) -> tuple[Partition, ...]:
    """Cut each environment softly: every row in both halves, with the weights of Proposition 1.

    The correct half weights a row by P_i(y|x), the mistaken half by h(x) / P_i(y|x) with h(x) = 1 / sum_c 1/P_i(c|x),
    which is 1 - P_i(y|x) for two classes and keeps, for any number, that the mistaken half's log-odds are those of
    the judged environment minus those of the judge's. The probabilities, (n_judges, n_rows, n_classes), are calibrated,
    and for each judge about rows that it was not fitted on; `y` are class codes.

    Examples
    --------
    >>> p = np.array([[[0.5, 0.5], [0.2, 0.8]], [[0.9, 0.1], [0.5, 0.5]]])
    >>> by_a, by_b = partition_by_probability(p, np.array([0, 1]), split_environments(["a", "b"], 2))
    >>> by_a.judged, by_a.correct_weights.round(3).tolist(), by_a.mistaken_weights.round(3).tolist()
    ('b', [0.8], [0.2])
    """
    partitions = []
    for index, judge, judged in _pairs(environments):
        rows = judged.rows
        clipped = np.clip(probabilities[index, rows], PROBABILITY_FLOOR, None)  # (n_rows, n_classes)
        clipped /= clipped.sum(axis=1, keepdims=True)
        right = clipped[np.arange(len(rows)), y[rows]]
        wrong = 1.0 / (right * (1.0 / clipped).sum(axis=1))
        accuracy = weighted_mean(right, rows, sample_weight)
        partitions.append(Partition(judge.name, judged.name, rows, rows, right, wrong, accuracy))
    return tuple(partitions)


def weighted_mean(values: NDArray[Any], rows: Rows, sample_weight: Weights | None) -> float:
    """Return the mean of the rows' values, those that are missing left out; NaN where nothing weighs anything."""
    known = ~np.isnan(values)
    weights = np.ones(int(known.sum())) if sample_weight is None else sample_weight[rows][known]
    return float(weights @ values[known] / weights.sum()) if weights.sum() > 0 else float("nan")


def pool_judges(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return one cut of each environment by all of its judges: halves weighted by the share that is right and wrong.

    There are two halves for each environment, and not for each pair. A single judge's halves stay as they are.

    Examples
    --------
    >>> by_a = Partition("a", "c", np.array([0, 1]), np.array([2]), accuracy=2 / 3)
    >>> by_b = Partition("b", "c", np.array([1]), np.array([0, 2]), accuracy=1 / 3)
    >>> (cut,) = pool_judges([by_a, by_b])
    >>> cut.judge, cut.correct.tolist(), cut.correct_weights.tolist(), cut.mistaken.tolist()
    ('a, b', [0, 1], [0.5, 1.0], [0, 2])
    """
    by_judged: dict[str, list[Partition]] = {}
    for partition in partitions:
        by_judged.setdefault(partition.judged, []).append(partition)
    pooled = []
    for judged, parts in by_judged.items():
        if len(parts) == 1:
            pooled += parts
            continue
        halves = []
        for side in (0, 1):
            found = [part.groups()[side] for part in parts]
            rows, places = np.unique(np.concatenate([half.rows for half in found]), return_inverse=True)
            shares = [np.ones(len(half)) if half.weights is None else half.weights for half in found]
            halves.append((rows, np.bincount(places, np.concatenate(shares), len(rows)) / len(parts)))
        (correct, right), (mistaken, wrong) = halves
        accuracy = float(np.mean([part.accuracy for part in parts]))
        judges = listed([part.judge for part in parts], most=3)
        pooled.append(Partition(judges, judged, correct, mistaken, right, wrong, accuracy))
    return tuple(pooled)


def halves_at_chance(
    partitions: Sequence[Partition], n_classes: int, *, sample_weight: Weights | None = None
) -> tuple[Partition, ...]:
    """Return the partitions with halves weighted 1/K to 1 − 1/K: in their mixture a judge is right as often as chance.

    What the judge predicts says nothing about the label there, and with it whatever it relied on. Each partition's
    weights sum to one; equal labels in the halves are assumed.
    """
    shares = (1 / n_classes, 1 - 1 / n_classes)
    found = []
    for partition in partitions:
        halves = [half.weighted(sample_weight) for half in partition.groups()]
        correct, mistaken = (share * half.probabilities() for share, half in zip(shares, halves, strict=True))
        found.append(dataclasses.replace(partition, correct_weights=correct, mistaken_weights=mistaken))
    return tuple(found)


def halves_as_groups(
    partitions: Sequence[Partition],
    *,
    min_group_size: int,
    sample_weight: Weights | None = None,
    group_labels: tuple[NDArray[np.intp], Sequence[str]] | None = None,
) -> tuple[Group, ...]:
    """Return every half that is large enough as a group, refined by a known bias where one is given.

    Empty and small halves are dropped with a warning. `group_labels` are codes of shape (n_rows,) and their names.
    """
    empty = [f"{p.judged} judged by {p.judge}" for p in partitions if not len(p.mistaken)]
    if empty:
        warn(
            f"No row is mistaken (accuracy 1) in {listed(empty)}. The empty mistaken half is dropped.",
            EmptyPartitionWarning,
        )
    all_mistaken = [f"{p.judged} judged by {p.judge}" for p in partitions if not len(p.correct)]
    if all_mistaken:
        warn(
            f"Every row is mistaken (accuracy 0) in {listed(all_mistaken)}: the correlation is reversed there. "
            "The whole environment is the mistaken half.",
            AllMistakenWarning,
        )
    halves = [half for partition in partitions for half in partition.groups() if len(half)]
    return large_halves(halves, min_group_size=min_group_size, sample_weight=sample_weight, group_labels=group_labels)


def large_halves(
    halves: Sequence[Group],
    *,
    min_group_size: int,
    sample_weight: Weights | None = None,
    group_labels: tuple[NDArray[np.intp], Sequence[str]] | None = None,
) -> tuple[Group, ...]:
    """Weight halves, refine them by a known bias, and drop the small ones with a warning."""
    parts = [part for half in halves for part in _refine(half.weighted(sample_weight), group_labels)]
    small = [f"{g.name} ({g.effective_size():.0f})" for g in parts if 0 < g.effective_size() < min_group_size]
    if small:
        warn(
            f"{len(small)} half or halves are below min_group_size={min_group_size} (effective) rows and are dropped: "
            f"{listed(small)}. Lower min_group_size to keep them.",
            SmallGroupWarning,
        )
    return tuple(group for group in parts if group.effective_size() >= min_group_size)


def warn_of_constant_judges(
    predictions: NDArray[np.intp], environments: Sequence[Environment], classes: NDArray[Any]
) -> None:
    """Say which judges give every row of the other environments one class: their halves are the label groups."""
    constant = []
    for judge, environment in enumerate(environments):
        others = np.ones(predictions.shape[1], dtype=bool)
        others[environment.rows] = False
        said = np.unique(predictions[judge, others])
        if len(said) == 1:
            constant.append(f"{environment.name} (always {classes[said[0]]})")
    if constant:
        warn(
            f"the classifier of {listed(constant)} predicts one class only in the other environments; the halves that "
            "it cuts are the label groups.",
            ConstantJudgeWarning,
        )


def _refine(half: Group, group_labels: tuple[NDArray[np.intp], Sequence[str]] | None) -> list[Group]:
    """Cross a half with the known bias."""
    if group_labels is None:
        return [half]
    codes, names = group_labels
    refined = []
    for code in np.unique(codes[half.rows]):
        part = half.part(codes[half.rows] == code)
        refined.append(dataclasses.replace(part, name=f"{half.name}, {names[code]}"))
    return refined


def _as_environments(environments: Any, n_rows: int) -> tuple[Environment, ...]:
    if isinstance(environments, Sequence) and environments and isinstance(environments[0], Environment):
        return tuple(environments)
    return split_environments(environments, n_rows)


def _by_judge(
    predictions: Mapping[str, Any] | NDArray[Any], environments: Sequence[Environment], n_rows: int
) -> dict[str, NDArray[Any]]:
    """Return the predictions of each judge by its environment's name."""
    names = [environment.name for environment in environments]
    if isinstance(predictions, Mapping):
        given = {str(name): np.asarray(values) for name, values in predictions.items()}
        if set(given) != set(names):
            raise InputError(
                f"predictions has judges {sorted(given)}, but the environments are {sorted(names)}. "
                "Pass the predictions of one classifier for each environment, under its name."
            )
    else:
        predictions = np.asarray(predictions)
        if len(predictions) != len(names) or predictions.ndim != 2:
            raise InputError(
                f"predictions has shape {predictions.shape}, but there are {len(names)} environments and {n_rows} "
                "rows. Pass a row of predictions for each environment's classifier."
            )
        given = dict(zip(names, predictions, strict=True))
    for name, values in given.items():
        if values.shape != (n_rows,):
            raise InputError(
                f"the predictions of judge {name!r} have shape {values.shape}, but there are {n_rows} rows. "
                "Pass one prediction for each row; those of the judge's own rows are not looked at."
            )
    return given


def partition_by_error(
    predictions: NDArray[np.float64],
    y: NDArray[np.float64],
    environments: Sequence[Environment],
    *,
    threshold: float | None = None,
    quantile: float = 0.75,
    sample_weight: Weights | None = None,
) -> tuple[Partition, ...]:
    """Cut each environment by whether each judge's squared error is within a threshold, for regression.

    Predictions have the shape (n_judges, n_rows). Without a threshold, the largest squared error of a correct row is
    the (weighted) `quantile` of the judged environment's errors.

    Examples
    --------
    >>> from holdfast.environments import split_environments
    >>> sites = split_environments(list("aabbbb"), 6)
    >>> predictions = np.array([[0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]], dtype=float)
    >>> by_a, by_b = partition_by_error(predictions, np.array([1.0, 2, 1, 2, 3, 4]), sites, threshold=4.0)
    >>> by_a.correct.tolist(), by_a.mistaken.tolist(), by_b.correct.tolist()
    ([2, 3], [4, 5], [0, 1])
    """
    partitions = []
    for index, judge, judged in _pairs(environments):
        rows = judged.rows
        errors = (predictions[index, rows] - y[rows]) ** 2
        weights = None if sample_weight is None else sample_weight[rows]
        right = errors <= (_quantile(errors, quantile, weights) if threshold is None else threshold)
        accuracy = weighted_mean(right, rows, sample_weight)
        partitions.append(Partition(judge.name, judged.name, rows[right], rows[~right], accuracy=accuracy))
    return tuple(partitions)


def partition_by_likelihood(
    predictions: NDArray[np.float64],
    y: NDArray[np.float64],
    environments: Sequence[Environment],
    *,
    sample_weight: Weights | None = None,
) -> tuple[Partition, ...]:
    """Cut each environment softly by exp(-error²/2s²), s² the judge's own out-of-fold squared error, for regression."""
    errors = (predictions - y) ** 2  # (n_judges, n_rows)
    partitions = []
    for index, judge, judged in _pairs(environments):
        own, rows = weighted_mean(errors[index, judge.rows], judge.rows, sample_weight), judged.rows
        with np.errstate(over="ignore"):  # a judge without any error at home: all others are infinitely far
            right = np.exp(-errors[index, rows] / (2.0 * max(own, np.finfo(float).tiny)))
        accuracy = weighted_mean(right, rows, sample_weight)
        partitions.append(Partition(judge.name, judged.name, rows, rows, right, 1.0 - right, accuracy))
    return tuple(partitions)


def _pairs(environments: Sequence[Environment]) -> Iterator[tuple[int, Environment, Environment]]:
    """Yield every judge with its number, and every environment that it judges."""
    for (index, judge), judged in itertools.product(enumerate(environments), environments):
        if judge is not judged:
            yield index, judge, judged


def _quantile(values: NDArray[np.float64], share: float, weights: Weights | None) -> float:
    """Return the value up to which a share of the (weighted) rows lies."""
    if weights is None or weights.sum() <= 0:
        return float(np.quantile(values, share))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(below, share * below[-1]), len(values) - 1)])


def error_matrix(
    predictions: NDArray[np.float64],
    y: NDArray[np.float64],
    environments: Sequence[Environment],
    sample_weight: Weights | None = None,
) -> NDArray[np.float64]:
    """Return the mean squared error of each judge (row) in each judged environment (column), its own out of fold."""
    errors = (predictions - y) ** 2  # (n_judges, n_rows)
    return np.array([[weighted_mean(own[e.rows], e.rows, sample_weight) for e in environments] for own in errors])
