"""Fits of some rows: logistic regressions from the fit of the whole by Newton's steps, LightGBM with bins kept."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import StableClassifier
from holdfast.judging.calibration import class_scores
from holdfast.learners import KeptBins, fit_logistic, fit_rows, logistic_start, stopped_like


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


@pytest.mark.parametrize("with_pipeline", [False, True])
def test_rounds_of_lightgbm_share_their_bins(with_pipeline, monkeypatch):
    """Fits of the same rows with other weights and seeds are those of `fit_rows` to the last bit, binned once."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)
    rows, weights = np.arange(0, 300, 2), rng.random((3, 150)) + 0.1
    booster = lightgbm.LGBMClassifier(n_estimators=5, subsample=0.5, subsample_freq=1, verbosity=-1, n_jobs=1)
    estimator = make_pipeline(SimpleImputer(), booster) if with_pipeline else booster
    seed = "lgbmclassifier__random_state" if with_pipeline else "random_state"
    found = [fit_rows(clone(estimator).set_params(**{seed: i}), X, y, rows, w) for i, w in enumerate(weights)]
    binned, construct = [], lightgbm.Dataset.construct

    def count(data):
        binned.extend([data] if data._handle is None else [])
        return construct(data)

    monkeypatch.setattr(lightgbm.Dataset, "construct", count)
    kept = KeptBins()
    for i, w in enumerate(weights):
        model = kept.fit(clone(estimator).set_params(**{seed: i}), X, y, rows, w)
        assert model.predict_proba(X).tobytes() == found[i].predict_proba(X).tobytes()
        assert model.get_params()[seed] == i
    assert len(binned) == 1
    kept.fit(clone(estimator), X, y, rows, np.where(rows < 50, 0.0, 1.0))  # other rows: those of weight zero stay out
    scaled = make_pipeline(StandardScaler(), booster)  # takes the weights, too
    for w in weights[:2]:
        expected = fit_rows(clone(scaled), X, y, rows, w).predict_proba(X)
        assert KeptBins().fit(clone(scaled), X, y, rows, w).predict_proba(X).tobytes() == expected.tobytes()
    assert len(binned) == 6
