"""Columns cut into bins once, for histogram boosting that is fitted many times with other weights.

Given weights, scikit-learn 1.8 and 1.9 place the bins of every column by 254 separate weighted percentiles, which takes
some ten times as long as the boosting itself (scikit-learn/scikit-learn#34248 mends it). A column that has no more
different values than bins is spared that: its bins are its values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

MOST_ROWS = 200_000  # with more, scikit-learn draws a sample by weight and places the bins without


def binned_for(estimator: Any, X: Any) -> Any:
    """Return rows to fit a histogram booster on, X itself for every other estimator.

    Bins are those of the unweighted rows, whatever the weights of a fit, so that rounds differ by their weights alone.
    Values stay in the units of X, so that what is fitted on them predicts rows of X.
    """
    is_histogram = isinstance(estimator, HistGradientBoostingClassifier | HistGradientBoostingRegressor)
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"
    return bin_columns(X, estimator.max_bins) if is_histogram and is_array and len(X) <= MOST_ROWS else X


def bin_columns(X: NDArray[np.floating], n_bins: int) -> NDArray[np.floating]:
    """Return a copy of X whose columns have at most `n_bins` different values, the means of equally large bins.

    Columns with few enough values, and missing values, stay as they are.

    Examples
    --------
    >>> bin_columns(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, np.nan]]), 2)
    array([[1.5, 0. ],
           [1.5, 1. ],
           [3.5, 0. ],
           [3.5, nan]])
    """
    binned = X.copy()
    for column in binned.T:
        known = ~np.isnan(column)
        values = column[known].astype(np.float64)
        if len(np.unique(values)) > n_bins:
            edges = np.percentile(values, np.linspace(0.0, 100.0, n_bins + 1)[1:-1], method="averaged_inverted_cdf")
            bins = np.searchsorted(edges, values)
            sums = np.bincount(bins, weights=values, minlength=n_bins)
            column[known] = (sums / np.maximum(np.bincount(bins, minlength=n_bins), 1))[bins]
    return binned
