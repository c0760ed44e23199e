"""Correlations of every column with a label, inside weighted halves."""

from __future__ import annotations

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
