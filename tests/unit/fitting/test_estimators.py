"""Fits of some rows: logistic regressions from the fit of the whole by Newton's steps, LightGBM with bins kept."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast import ERMClassifier, GroupDROClassifier, PIClassifier, StableClassifier
from holdfast.exceptions import ParameterError
from holdfast.fitting.calibration import class_scores
from holdfast.fitting.estimators import last_step, stopped_like
from holdfast.fitting.logistic import fit_part, logistic_start, refit_logistic
from holdfast.methods import BalancedClassifier


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
    quick = fit_part(start, estimator, X, y, rows)
    own = estimator.fit(X[rows], y[rows])
    np.testing.assert_allclose(quick.decision_function(X), own.decision_function(X), atol=2e-4)
    np.testing.assert_allclose(quick.predict_proba(X), own.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(quick.predict(X)[rows], own.predict(X)[rows])
    assert fit_part(start, estimator, X, y, np.flatnonzero(y == 1)) is None  # one class


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(C=0.3, tol=1e-9, max_iter=5000), make_pipeline(StandardScaler(), LogisticRegression(tol=1e-9))],
    ids=["alone", "scaled"],
)
def test_a_logistic_regression_without_a_column_begins_with_its_parts(table, estimator):
    """The result is what the estimator would fit: its own type and steps, and the same log-odds."""
    X, y, _ = table
    X = (X - X.mean(axis=0)) / X.std(axis=0) + 2
    ordinary = clone(estimator).fit(X, y)
    X[:, 1] = 0.7
    start = logistic_start(ordinary, X)
    parts = [fit_part(start, estimator, X, y, np.arange(first, len(y), 2)) for first in (0, 1)]
    found, own = refit_logistic(ordinary, parts, estimator, X, y), clone(estimator).fit(X, y)
    assert type(found) is type(own)
    np.testing.assert_allclose(found.decision_function(X), own.decision_function(X), atol=2e-4)
    for step, same in zip(getattr(found, "steps", [])[:-1], getattr(own, "steps", []), strict=False):
        np.testing.assert_allclose(step[1].transform(X), same[1].transform(X), atol=1e-9)
    assert last_step(ordinary).coef_[0, 1] != 0  # the ordinary one is left as it was
    assert refit_logistic(ordinary, [ordinary], estimator, X, y) is None  # other estimators fit themselves


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
    assert quick.verdict_.fitted == own.verdict_.fitted
    assert quick.verdict_.kept["x0"] < 0.05
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


def _lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1, random_state=0)


WEIGHTED = {
    "logistic": LogisticRegression,
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": lambda: RandomForestClassifier(5, max_depth=2, random_state=0),
    "search": lambda: GridSearchCV(LogisticRegression(max_iter=300), {"C": [0.1, 1.0]}, cv=2),
    "lightgbm": _lightgbm,
}


@pytest.mark.parametrize("labels", [[1, 2], ["ill", "well"], [0, 1], [False, True]], ids=str)
@pytest.mark.parametrize("make", WEIGHTED.values(), ids=WEIGHTED)
def test_class_weights_are_those_of_the_users_labels(table, make, labels):
    """An estimator inside of a method weights the same classes as alone; the user's object stays as it is."""
    X, y, environments = (part[:600] for part in table)
    X, y = X / X.std(axis=0), np.array(labels)[y]
    estimator = make()
    name = next(name for name in estimator.get_params() if name.endswith("class_weight"))
    estimator.set_params(**{name: {labels[0]: 10.0}})
    model = ERMClassifier(estimator)
    inside = model.fit(X, y, environments=environments)
    assert model.get_params()["estimator"].get_params()[name] == {labels[0]: 10.0}
    alone = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(inside.predict(X), alone.predict(X))
    np.testing.assert_array_equal(inside.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize(
    "around",
    [
        lambda part: VotingClassifier([("part", part)], voting="soft"),
        lambda part: BaggingClassifier(part, random_state=0),
    ],
    ids=["voting", "bagging"],
)
def test_class_weights_within_an_ensemble_that_numbers_its_classes_are_left_alone(table, around):
    """Voting and bagging fit their parts to numbers from 0 themselves, so that they take class weights by number."""
    X, y, environments = (part[:600] for part in table)
    estimator = around(DecisionTreeClassifier(max_depth=2, random_state=0, class_weight={0: 10.0}))
    inside = ERMClassifier(estimator).fit(X, y + 1, environments=environments)
    np.testing.assert_array_equal(inside.predict_proba(X), clone(estimator).fit(X, y + 1).predict_proba(X))


@pytest.mark.parametrize("method", [BalancedClassifier, GroupDROClassifier, PIClassifier, StableClassifier])
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_every_method_translates_class_weights(table, method):
    """Labels as texts, and their codes: the same classifier."""
    X, y, environments = (part[:600] for part in table)
    X = X / X.std(axis=0)
    coded = method(LogisticRegression(class_weight={0: 10.0}), random_state=0).fit(X, y, environments=environments)
    named = method(LogisticRegression(class_weight={"ill": 10.0}), random_state=0)
    named.fit(X, np.array(["ill", "well"])[y], environments=environments)
    np.testing.assert_array_equal(named.predict_proba(X), coded.predict_proba(X))


def test_a_positive_label_is_the_users(table):
    """A threshold is one of the label that the user names."""
    X, y, environments = (part[:600] for part in table)
    X, y = X / X.std(axis=0), np.array(["ill", "well"])[y]
    estimator = FixedThresholdClassifier(LogisticRegression(max_iter=300), threshold=0.9, pos_label="ill")
    inside = ERMClassifier(estimator).fit(X, y, environments=environments)
    np.testing.assert_array_equal(inside.predict(X), clone(estimator).fit(X, y).predict(X))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(class_weight={"ill": 2.0, "sick": 10.0}, max_iter=300),
        FixedThresholdClassifier(LogisticRegression(max_iter=300), threshold=0.9, pos_label="sick"),
    ],
    ids=["class_weight", "pos_label"],
)
def test_a_class_weight_of_no_label_is_refused(table, estimator):
    """The label that is not there is named, with those that are."""
    X, y, _ = (part[:600] for part in table)
    with pytest.raises(ParameterError, match=r"names 'sick', but the labels are 'ill', 'well'"):
        ERMClassifier(estimator).fit(X, np.array(["ill", "well"])[y])


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (Ridge(), "is a regressor"),
        (KMeans(2), "is a clusterer"),
        (IsolationForest(), "is an outlier detector"),
        (GaussianMixture(2), "is a density estimator"),
        (StandardScaler(), "has no predict"),
        (make_pipeline(StandardScaler(), StandardScaler()), "has no predict"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize("method", [ERMClassifier, StableClassifier])
def test_what_is_no_classifier_is_refused(table, method, other, kind):
    """It would be fitted to class codes, or not at all."""
    X, y, environments = (part[:60] for part in table)
    name = type(last_step(other)).__name__
    match = rf"{method.__name__} predicts classes, but its estimator {kind} \({name}\). Pass a classifier"
    with pytest.raises(ParameterError, match=match):
        method(other).fit(X, y, environments=environments)
