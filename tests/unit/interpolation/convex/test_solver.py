import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast.environments import Group
from holdfast.exceptions import InputTypeError, LabelsError, SolverWarning
from holdfast.interpolation.convex.solver import LinearSettings, solve_convex, supports_convex
from holdfast.rows.training import TrainingRows


def solve(estimator, X, y, groups, **options):
    """Solve on plain arrays."""
    return solve_convex(estimator, TrainingRows(X, y, ()), groups, **options)


@pytest.fixture
def rows():
    """Return X, y and two overlapping groups."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(120, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 0.0]
    y = (X[:, 0] + 0.1 * X[:, 1] + generator.normal(size=120) > 0.5).astype(int)
    return X, y, [Group("a", np.arange(80)), Group("b", np.arange(40, 120))]


@pytest.mark.parametrize(
    ("estimator", "supported"),
    [
        (LogisticRegression(), True),
        (LogisticRegression(C=np.inf), True),
        (LogisticRegression(penalty=None), True),
        (LogisticRegression(penalty="l2"), True),
        (LogisticRegression(l1_ratio=0.5), False),
        (LogisticRegression(penalty="l1"), False),
        (LogisticRegression(penalty="elasticnet", l1_ratio=0.0), False),
        (LogisticRegression(class_weight="balanced"), False),
        (LogisticRegression(solver="liblinear"), False),
        (LogisticRegressionCV(), False),
        (RidgeClassifier(), False),
        (Ridge(), True),
        (Ridge(alpha=np.ones(2)), False),
        (Ridge(positive=True), False),
        (LinearRegression(), True),
        (LinearRegression(positive=True), False),
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
        (make_pipeline(StandardScaler()), False),
        (make_pipeline(StandardScaler(), "passthrough"), False),
        (DecisionTreeClassifier(), False),
        ("LogisticRegression", False),
    ],
    ids=repr,
)
def test_supports_what_states_a_smooth_linear_problem(estimator, supported):
    """L2 and unpenalized linear estimators and pipelines that end in one; nothing that states another problem."""
    assert supports_convex(estimator) is supported


def test_the_estimator_is_fitted_like_scikit_learns_own(rows):
    """A copy comes back with the attributes of fit; the given one is untouched."""
    X, y, groups = rows
    given = LogisticRegression(C=2.0)
    solution = solve(given, X, y, groups, n_classes=2)
    fitted = solution.estimator
    assert not hasattr(given, "coef_")
    assert type(fitted) is LogisticRegression
    assert fitted.C == 2.0
    assert fitted.coef_.shape == (1, 3)
    assert fitted.intercept_.shape == (1,)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.n_features_in_ == 3
    assert fitted.n_iter_.tolist() == [len(solution.history)]
    probabilities = fitted.predict_proba(X)
    losses = -np.log(probabilities[np.arange(120), y])
    np.testing.assert_allclose(solution.group_risks, [losses[:80].mean(), losses[40:].mean()])
    assert solution.worst_case_risk == solution.group_risks.max()
    assert solution.group_weights.sum() == pytest.approx(1.0)
    assert 0.0 <= solution.gap <= 1e-4
    assert solution.solver == "convex"


def test_one_group_of_all_rows_is_the_estimators_own_fit(rows):
    """Plain ERM: coefficients of LogisticRegression, two and three classes, with and without a penalty."""
    X, y, _ = rows
    everyone = [Group("all", np.arange(120))]
    for codes, C in ((y, 1.0), (y + (X[:, 1] > 10), 0.1), (y, np.inf)):
        solution = solve(
            LogisticRegression(C=C),
            X,
            codes,
            everyone,
            n_classes=codes.max() + 1,
            settings=LinearSettings(tolerance=1e-10),
        )
        peer = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(X, codes)
        np.testing.assert_allclose(solution.estimator.predict_proba(X), peer.predict_proba(X), atol=1e-5)


def test_penalty_none_is_an_infinite_C(rows):
    """Both ways to say it give the same fit."""
    X, y, groups = rows
    old = solve(LogisticRegression(penalty=None), X, y, groups, n_classes=2, settings=LinearSettings(tolerance=1e-8))
    new = solve(LogisticRegression(C=np.inf), X, y, groups, n_classes=2, settings=LinearSettings(tolerance=1e-8))
    np.testing.assert_array_equal(old.estimator.coef_, new.estimator.coef_)


def test_a_pipeline_is_its_transformers_then_the_solver(rows):
    """Transformers are fitted once on all rows; the last step is solved on what they give."""
    X, y, groups = rows
    solution = solve(make_pipeline(StandardScaler(), LogisticRegression()), X, y, groups, n_classes=2)
    by_hand = solve(LogisticRegression(), StandardScaler().fit_transform(X), y, groups, n_classes=2)
    assert isinstance(solution.estimator, Pipeline)
    np.testing.assert_array_equal(solution.estimator[-1].coef_, by_hand.estimator.coef_)
    np.testing.assert_allclose(solution.estimator[0].mean_, X.mean(axis=0))
    assert solution.estimator.predict(X).shape == (120,)


def test_a_pipeline_with_a_cache_is_fitted(rows, tmp_path):
    """A cached pipeline fits copies of its transformers, and they are in the result."""
    X, y, groups = rows
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(), memory=str(tmp_path))
    solution = solve(pipeline, X, y, groups, n_classes=2)
    assert solution.estimator.predict_proba(X).shape == (120, 2)


def test_a_pipeline_over_a_memory_map_transforms_block_by_block(rows, tmp_path):
    """The same coefficients without a transformed copy of X."""
    X, y, groups = rows
    np.save(tmp_path / "X.npy", X)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    mapped = solve(pipeline, np.load(tmp_path / "X.npy", mmap_mode="r"), y, groups, n_classes=2)
    plain = solve(pipeline, X, y, groups, n_classes=2)
    np.testing.assert_allclose(mapped.estimator[-1].coef_, plain.estimator[-1].coef_, atol=1e-12)
    assert mapped.estimator[-1].n_features_in_ == 3


def test_texts_go_through_a_vectorizer(rows):
    """Sparse features of a text pipeline are solved as they are."""
    _, y, groups = rows
    texts = [f"{'good' if label else 'bad'} {'beer' if i % 3 else 'ale'}" for i, label in enumerate(y)]
    solution = solve(make_pipeline(CountVectorizer(), LogisticRegression()), texts, y, groups, n_classes=2)
    assert solution.estimator.predict(["good ale", "bad beer"]).tolist() == [1, 0]


def test_a_frame_keeps_its_column_names(rows):
    """Prediction on a frame does not warn about names that fit never saw."""
    X, y, groups = rows
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = solve(LogisticRegression(), frame, y, groups, n_classes=2).estimator
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        fitted.predict(frame), solve(LogisticRegression(), X, y, groups, n_classes=2).estimator.predict(X)
    )


@pytest.mark.parametrize("estimator", [Ridge(alpha=3.0), LinearRegression(), LinearRegression(fit_intercept=False)])
def test_regressors_minimize_the_worst_mean_squared_error(rows, estimator):
    """One group is the estimator's own fit; with two no group is above the reported worst case."""
    X, _, groups = rows
    y = X @ [1.0, 0.2, 3.0] + np.random.default_rng(1).normal(size=120) * np.linspace(0.1, 3, 120) + 40
    own = type(estimator)(**estimator.get_params()).fit(X, y)
    one = solve(
        estimator, X, y, [Group("all", np.arange(120))], n_classes=None, settings=LinearSettings(tolerance=1e-10)
    )
    np.testing.assert_allclose(one.estimator.predict(X), own.predict(X), atol=1e-4)
    solution = solve(estimator, X, y, groups, n_classes=None)
    errors = (solution.estimator.predict(X) - y) ** 2
    np.testing.assert_allclose(solution.group_risks, [errors[:80].mean(), errors[40:].mean()])
    pooled = (own.predict(X) - y) ** 2
    assert solution.worst_case_risk < max(pooled[:80].mean(), pooled[40:].mean())


def test_an_open_gap_warns(rows):
    """The warning of the solver reaches the caller."""
    X, y, groups = rows
    with pytest.warns(SolverWarning, match="certified gap"):
        solve(
            LogisticRegression(), X, y, groups, n_classes=2, settings=LinearSettings(tolerance=1e-9, max_iterations=1)
        )


def test_other_estimators_are_refused(rows):
    """The message names what can be solved, what came and the way out."""
    X, y, groups = rows
    with pytest.raises(InputTypeError, match=r"Got DecisionTreeClassifier\(\) instead. Use solver='reweight'"):
        solve(DecisionTreeClassifier(), X, y, groups, n_classes=2)


def test_one_class_is_refused(rows):
    """A classifier of one class is no linear problem."""
    X, y, groups = rows
    with pytest.raises(LabelsError, match="needs at least two classes. Got n_classes=1"):
        solve(LogisticRegression(), X, np.zeros_like(y), groups, n_classes=1)


def test_a_group_of_one_row_has_a_risk(rows):
    """It counts as every other group does."""
    X, y, groups = rows
    alone = np.flatnonzero(y == 0)[-1:]
    found = solve(LogisticRegression(), X, y, [groups[0], Group("one", alone)], n_classes=2)
    expected = -found.estimator.predict_log_proba(X[alone])[0, 0]
    assert found.group_risks[1] == pytest.approx(expected)


def test_weights_of_a_group_count_in_proportion(rows):
    """A group whose weights add up to very little is the same group."""
    X, y, groups = rows
    whole = [Group(group.name, group.rows, np.ones(len(group))) for group in groups]
    tiny = [Group(group.name, group.rows, np.full(len(group), 1e-6)) for group in groups]
    first, second = (solve(LogisticRegression(), X, y, parts, n_classes=2) for parts in (whole, tiny))
    np.testing.assert_allclose(second.estimator.coef_, first.estimator.coef_, rtol=1e-6)
    np.testing.assert_allclose(second.group_risks, first.group_risks, rtol=1e-9)
