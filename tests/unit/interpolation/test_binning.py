"""Columns in bins, for histogram boosting that is fitted with many weights."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from holdfast.interpolation.reweight import MOST_ROWS, bin_columns, binned_for


def test_equally_large_bins_keep_their_means():
    """A thousand values in four bins become four values, the means of 250 each; order and total mean stay."""
    column = np.random.default_rng(0).permutation(1000.0 * np.arange(1000))
    binned = bin_columns(column[:, None], 4)[:, 0]
    values, counts = np.unique(binned, return_counts=True)
    assert counts.tolist() == [250, 250, 250, 250]
    np.testing.assert_allclose(values, 1000.0 * np.array([124.5, 374.5, 624.5, 874.5]))
    assert (np.diff(binned[np.argsort(column)]) >= 0).all()


def test_few_values_and_missing_ones_stay():
    """A column with as many values as bins is not touched; missing values stay missing; X itself is never changed."""
    X = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
    before = X.copy()
    binned = bin_columns(X, 2)
    np.testing.assert_array_equal(binned, [[0, 1.5], [1, np.nan], [0, 1.5], [1, 3.5], [1, 3.5]])
    np.testing.assert_array_equal(X, before)


def test_only_histogram_boosting_gets_bins():
    """Other estimators, integers, and more rows than scikit-learn bins by weight get X itself."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    booster = HistGradientBoostingClassifier(max_bins=16)
    assert len(np.unique(binned_for(booster, X)[:, 0])) == 16
    assert binned_for(RandomForestClassifier(), X) is X
    whole = np.ones((MOST_ROWS + 1, 1))
    assert binned_for(booster, whole) is whole
    codes = np.arange(300)[:, None]
    assert binned_for(booster, codes) is codes


def test_a_booster_fitted_on_bins_predicts_the_rows_alike():
    """Fitted on bins and asked about the raw rows, it says nearly what one that was fitted on the rows says."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(2000, 2))
    y = (X[:, 0] + 0.5 * generator.normal(size=2000) > 0).astype(int)
    booster = HistGradientBoostingClassifier(max_iter=20, early_stopping=False)
    raw = booster.fit(X, y).predict_proba(X)
    on_bins = booster.fit(binned_for(booster, X), y).predict_proba(X)
    assert np.abs(raw - on_bins).mean() < 0.01
