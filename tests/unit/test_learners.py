"""Logistic regressions of parts of a table, fitted by Newton's steps from the fit of the whole."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import StableClassifier
from holdfast.judging.calibration import class_scores
from holdfast.learners import fit_logistic, logistic_start, stopped_like


@pytest.fixture(scope="module")
def table():
    """Return 3,000 rows of five columns in other units, the first of which changes between three environments."""
    generator = np.random.default_rng(0)
    y, environments = generator.integers(2, size=3000), np.arange(3000) % 3
    X = generator.normal(size=(3000, 5)) + y[:, None] * [0.0, 0.8, 0.3, 0.0, -0.4]
    X[:, 0] += np.array([2.0, 1.0, 0.0])[environments] * y
    return X * [1.0, 100.0, 1e-3, 1.0, 1.0] + [0.0, 5e3, 0.0, -7.0, 0.0], y, environments


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(C=0.3, tol=1e-9, max_iter=5000), make_pipeline(StandardScaler(), LogisticRegression(tol=1e-9))],
    ids=["alone", "scaled"],
)
@pytest.mark.parametrize("n_rows", [200, 3000])
def test_newtons_steps_end_where_the_estimator_does(table, estimator, n_rows):
    """Half of the rows, from the fit of all: the same log-odds, also with a column that is constant in them."""
    X, y, _ = table
    if isinstance(estimator, LogisticRegression):
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    X, y = X[:n_rows].copy(), y[:n_rows]
    rows = np.arange(0, n_rows, 2)
    whole = estimator.fit(X, y)
    start = logistic_start(whole, X)
    np.testing.assert_allclose(class_scores(start, X, 2), class_scores(whole, X, 2), rtol=1e-9, atol=1e-9)
    X[:, 1] = 0.1
    quick = fit_logistic(start, estimator, X, y, rows)
    own = estimator.fit(X[rows], y[rows])
    np.testing.assert_allclose(quick.decision_function(X), own.decision_function(X), atol=2e-4)
    np.testing.assert_allclose(quick.predict_proba(X), own.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(quick.predict(X)[rows], own.predict(X)[rows])
    assert fit_logistic(start, estimator, X, y, np.flatnonzero(y == 1)) is None  # one class


@pytest.mark.parametrize(
    "other",
    [
        LogisticRegression(class_weight="balanced"),
        LogisticRegression(C=np.inf),
        LogisticRegression(solver="liblinear"),
        LogisticRegression(solver="saga", l1_ratio=1.0, max_iter=5000),
        LogisticRegression(fit_intercept=False),
        make_pipeline(StandardScaler(with_mean=False), LogisticRegression()),
        make_pipeline(StandardScaler(), StandardScaler(), LogisticRegression()),
    ],
    ids=str,
)
def test_other_problems_are_left_to_the_estimator(table, other):
    """Weights of classes, other penalties and other transformers are another problem."""
    X, y, _ = table
    assert logistic_start(other.fit(X[:300] / X.std(axis=0), y[:300]), X) is None


def test_three_classes_and_other_tables_are_left_to_the_estimator(table):
    """So are more than two classes, and rows that are not an array of floats."""
    X, y, environments = table
    assert logistic_start(LogisticRegression().fit(X[:, [0, 2]], environments), X[:, [0, 2]]) is None
    assert logistic_start(LogisticRegression().fit(X[:, [0, 2]], y), X[:, [0, 2]].astype(np.float32)) is None


class Own(LogisticRegression):
    """The same estimator under another name, which is fitted by itself."""


def test_the_verdict_is_that_of_the_estimators_own_fits(table):
    """Judges and folds by Newton's steps or by the estimator: as equal as its tolerance."""
    X, y, environments = table
    quick, own = (
        StableClassifier(make_pipeline(StandardScaler(), last)).fit(X, y, environments=environments)
        for last in (LogisticRegression(), Own())
    )
    assert quick.verdict_.fitted == own.verdict_.fitted == "stable"
    assert quick.verdict_.kept == pytest.approx(own.verdict_.kept, abs=1e-6)
    assert quick.verdict_.known.fitted == pytest.approx(own.verdict_.known.fitted, abs=2e-3)
    assert quick.verdict_.vanished.fitted == pytest.approx(own.verdict_.vanished.fitted, abs=2e-3)
    np.testing.assert_allclose(quick.predict_proba(X), own.predict_proba(X), atol=5e-4)


def test_parts_are_boosted_no_longer_than_the_whole():
    """Where early stopping by the number of rows ended the whole, parts make as many rounds; else nothing changes."""
    estimator = HistGradientBoostingClassifier(max_iter=50)
    whole = SimpleNamespace(early_stopping="auto", do_early_stopping_=True, n_iter_=7)
    part = stopped_like(estimator, whole)
    assert (part.max_iter, part.early_stopping, estimator.max_iter) == (7, "auto", 50)
    for other in (LogisticRegression(), SimpleNamespace(early_stopping=True, do_early_stopping_=True, n_iter_=7)):
        assert stopped_like(estimator, other) is estimator
