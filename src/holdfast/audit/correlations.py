"""Correlations of every column with a label, inside weighted halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.audit.columns import Block, is_sparse
from holdfast.audit.judges import Floats


@dataclass(frozen=True, eq=False)
class HalfCorrelations:
    """Correlations of every column with one label, each (n_columns,)."""

    environment: Floats
    correct_soft: Floats
    mistaken_soft: Floats
    correct_hard: Floats
    mistaken_hard: Floats
    home_mistaken_soft: Floats


def half_correlations(
    values: Block,
    y: NDArray[np.intp],
    probabilities: Floats,
    home_rows: NDArray[np.intp],
    away_rows: NDArray[np.intp],
    label: int,
) -> HalfCorrelations:
    """Return the correlations in the judged environment and its halves, and in the judge's own mistaken half.

    Soft halves are those of "this label or another": a row of the label is mistaken with weight 1 − p, any other with
    weight p. Hard halves are the rows whose most probable class is, and is not, theirs.
    """
    away, home = values[away_rows], values[home_rows]
    is_label = (y[away_rows] == label).astype(np.float64)
    p = probabilities[away_rows, label]
    right = np.where(is_label == 1, p, 1 - p)
    hit = (probabilities[away_rows].argmax(axis=1) == y[away_rows]).astype(np.float64)
    home_label = (y[home_rows] == label).astype(np.float64)
    home_p = probabilities[home_rows, label]
    return HalfCorrelations(
        weighted_correlations(away, is_label, np.ones(len(away_rows))),
        weighted_correlations(away, is_label, right),
        weighted_correlations(away, is_label, 1 - right),
        weighted_correlations(away, is_label, hit),
        weighted_correlations(away, is_label, 1 - hit),
        weighted_correlations(home, home_label, np.where(home_label == 1, 1 - home_p, home_p)),
    )


def group_correlations(
    values: Floats,
    y: NDArray[np.intp],
    probabilities: Floats,
    home_rows: NDArray[np.intp],
    away_rows: NDArray[np.intp],
    labels: Sequence[int],
) -> HalfCorrelations:
    """Return the same for a group of columns as a whole, each an array of one number.

    For each label the columns are added with the weights d of `audit/pooling.py`, which home teaches: the sum stands
    for what the group says about the label. Covariances and variances are added over the labels.
    """
    sums = np.zeros((6, 3))  # halves × (covariance, variance of the sum, variance of the label)
    for label in labels:
        home, away = values[home_rows], values[away_rows]
        home_label, is_label = ((y[rows] == label).astype(np.float64) for rows in (home_rows, away_rows))
        inside, outside = home[home_label == 1], home[home_label == 0]
        pull = inside.mean(axis=0) - outside.mean(axis=0)
        # At home a row has no part in its own weights.
        own = np.where(
            home_label[:, None] == 1,
            (home - inside.mean(axis=0)) / max(len(inside) - 1, 1),
            -(home - outside.mean(axis=0)) / max(len(outside) - 1, 1),
        )
        said, home_said = away @ pull, (home * (pull - own)).sum(axis=1)
        p, home_p = probabilities[away_rows, label], probabilities[home_rows, label]
        right = np.where(is_label == 1, p, 1 - p)
        hit = (probabilities[away_rows].argmax(axis=1) == y[away_rows]).astype(np.float64)
        for half, weights in enumerate((np.ones(len(said)), right, 1 - right, hit, 1 - hit)):
            sums[half] += _moments(said, is_label, weights)
        sums[5] += _moments(home_said, home_label, np.where(home_label == 1, 1 - home_p, home_p))
    varies = (sums[:, 1] > 1e-12) & (sums[:, 2] > 1e-12)
    scale = np.sqrt(np.where(varies, sums[:, 1] * sums[:, 2], 1.0))
    found = np.where(varies, np.clip(sums[:, 0] / scale, -1.0, 1.0), np.nan)
    return HalfCorrelations(*(found[[half]] for half in range(6)))


def _moments(said: Floats, is_label: Floats, weights: Floats) -> Floats:
    """Return weighted covariance and both variances; zeros where no row has weight."""
    if not weights.sum() > 0:
        return np.zeros(3)
    share = weights / weights.sum()
    off, label_off = said - share @ said, is_label - share @ is_label
    return np.array([share @ (off * label_off), share @ off**2, share @ label_off**2])


def weighted_correlations(values: Block, target: Floats, weights: Floats) -> Floats:
    """Return the weighted Pearson correlation of every column with `target`; NaN where either is constant.

    Examples
    --------
    >>> values = np.array([[0.0, 5.0], [1.0, 5.0], [1.0, 5.0]])
    >>> weighted_correlations(values, np.array([0.0, 1.0, 0.0]), np.ones(3)).round(3)
    array([0.5, nan])
    """
    total = weights.sum()
    if not total > 0:
        return np.full(values.shape[1], np.nan)
    share = weights / total
    mean = np.asarray(values.T @ share)
    squared = values.multiply(values).tocsr() if is_sparse(values) else values**2
    variance = np.asarray(squared.T @ share) - mean**2
    off = target - share @ target
    target_variance = share @ off**2
    covariance = np.asarray(values.T @ (share * off))
    # Rounding leaves about 1e-16 of the square of a column's size where the variance is zero.
    varies = (variance > 1e-12 * np.maximum(mean**2, 1e-30)) & (target_variance > 1e-12)
    scale = np.sqrt(np.where(varies, variance * target_variance, 1.0))
    correlations: Floats = np.where(varies, np.clip(covariance / scale, -1.0, 1.0), np.nan)
    return correlations


def effective_size(weights: Floats) -> float:
    """Return the number of equally weighted rows that would be as informative (Kish)."""
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total > 0 else 0.0
