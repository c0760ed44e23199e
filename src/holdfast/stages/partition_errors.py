"""Stage 2 for numbers: cut every judged environment by how far off every other environment's regressor is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, Partition, Weights
from holdfast.stages.partition import weighted_mean


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

    Parameters
    ----------
    predictions : array of shape (n_judges, n_rows)
    y : array of shape (n_rows,)
    environments : sequence of Environment
    threshold : float, optional
        Largest squared error of a correct row. None: the `quantile` of the judged environment's errors.
    quantile : float
        Share of the judged environment that counts as correct when there is no threshold.
    sample_weight : array of shape (n_rows,), optional
        Weights of the rows in the quantile and in `Partition.accuracy`.

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
    for (index, judge), judged in itertools.product(enumerate(environments), environments):
        if judge is not judged:
            errors = (predictions[index, judged.rows] - y[judged.rows]) ** 2
            weights = None if sample_weight is None else sample_weight[judged.rows]
            right = errors <= (_quantile(errors, quantile, weights) if threshold is None else threshold)
            rows = judged.rows
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
    partitions = []
    for (index, judge), judged in itertools.product(enumerate(environments), environments):
        if judge is not judged:
            at_home = (predictions[index, judge.rows] - y[judge.rows]) ** 2
            own = weighted_mean(at_home, judge.rows, sample_weight)
            errors = (predictions[index, judged.rows] - y[judged.rows]) ** 2
            with np.errstate(over="ignore"):  # a judge without any error at home: all others are infinitely far
                right = np.exp(-errors / (2.0 * max(own, np.finfo(float).tiny)))
            rows = judged.rows
            accuracy = weighted_mean(right, rows, sample_weight)
            partitions.append(Partition(judge.name, judged.name, rows, rows, right, 1.0 - right, accuracy))
    return tuple(partitions)


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
