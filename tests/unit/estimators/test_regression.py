"""Predict then interpolate for numbers."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_squared_error

from holdfast import PIRegressor
from holdfast.exceptions import LabelsError, ParameterError, SingleEnvironmentWarning


def copied(agreements, n_rows=2000, seed=0):
    """Return rows whose second column copies the target with a probability that differs between environments."""
    generator = np.random.default_rng(seed)
    n_total = n_rows * len(agreements)
    x1 = generator.normal(size=n_total)
    y = x1 + generator.normal(size=n_total)
    kept = generator.random(n_total) < np.repeat(agreements, n_rows)
    x2 = np.where(kept, y + 0.1 * generator.normal(size=n_total), np.sqrt(2) * generator.normal(size=n_total))
    return np.stack([x1, x2], axis=1), y, np.repeat(np.arange(len(agreements)), n_rows)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lower_error_where_the_copy_is_broken(seed):
    """PI's error is clearly below ordinary regression's where the unstable predictor no longer copies the target."""
    X, y, environments = copied([0.95, 0.8], seed=seed)
    broken, target, _ = copied([0.0], n_rows=5000, seed=99)
    pi = mean_squared_error(target, PIRegressor().fit(X, y, environments=environments).predict(broken))
    ordinary = mean_squared_error(target, LinearRegression().fit(X, y).predict(broken))
    stable = mean_squared_error(target, LinearRegression().fit(X[:, :1], y).predict(broken[:, :1]))
    assert ordinary > 2.0
    assert pi < stable + 0.5 * (ordinary - stable)


@pytest.mark.parametrize(
    ("parameters", "solver"),
    [
        ({}, "convex"),
        ({"estimator": Ridge()}, "convex"),
        ({"error_threshold": 1.0}, "convex"),
        ({"error_threshold": "90%"}, "convex"),
        ({"halves": "soft"}, "convex"),
        ({"estimator": HistGradientBoostingRegressor(max_iter=10), "reweight_rounds": 2}, "reweight"),
    ],
)
def test_solvers_thresholds_and_halves(parameters, solver):
    """Every way to cut and to solve runs and reports its groups."""
    X, y, environments = copied([0.95, 0.8, 0.7], n_rows=300)
    model = PIRegressor(random_state=0, **parameters).fit(X, y, environments=environments)
    assert model.solver_ == solver
    assert len(model.partitions_) == 6
    assert model.errors_.shape == (3, 3)
    assert np.isfinite(model.errors_).all()
    assert model.worst_case_risk_ == model.group_risks_.max()


def test_share_is_the_size_of_the_correct_half():
    """With "75%" three quarters of every judged environment are correct."""
    X, y, environments = copied([0.95, 0.8], n_rows=400)
    model = PIRegressor().fit(X, y, environments=environments)
    assert [len(p.correct) for p in model.partitions_] == [300, 300]


@pytest.mark.parametrize("threshold", [0, -1.0, "most", "150%", np.nan])
def test_bad_thresholds_are_refused(threshold):
    """A threshold is a positive number or a share."""
    X, y, environments = copied([0.9, 0.8], n_rows=20)
    with pytest.raises(ParameterError, match="The 'error_threshold' parameter of PIRegressor must be a positive"):
        PIRegressor(error_threshold=threshold).fit(X, y, environments=environments)


def test_one_environment_is_ordinary_regression():
    """Nothing to compare: warned, and the same as the estimator alone."""
    X, y, _ = copied([0.9], n_rows=50)
    with pytest.warns(SingleEnvironmentWarning, match="PIRegressor compares environments"):
        model = PIRegressor(Ridge()).fit(X, y)
    np.testing.assert_allclose(model.predict(X), Ridge().fit(X, y).predict(X))


def test_targets_are_finite_numbers():
    """Infinity is refused, and so are texts, with the way to classifiers."""
    message = "y must contain numbers, but could not convert string to float: 'ill'. For classes use a classifier"
    with pytest.raises(LabelsError, match=message):
        PIRegressor().fit(np.zeros((3, 1)), ["ill", "well", "ill"])
    with pytest.raises(LabelsError, match=r"Input y contains NaN or infinity in 1 of 3 rows"):
        PIRegressor().fit(np.zeros((3, 1)), [0.0, np.inf, 1.0])


def test_soft_halves_need_answers_out_of_fold():
    """Without folds a judge's own error is not known, so that soft halves are refused before any work."""
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20.0)
    with pytest.raises(ParameterError, match="halves='soft' needs out-of-fold predictions"):
        PIRegressor(halves="soft", n_folds=0).fit(X, y, environments=["a", "b"] * 10)
