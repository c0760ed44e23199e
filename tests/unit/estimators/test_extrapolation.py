"""Predict, then extrapolate."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import LinearSVC

from holdfast import ERMClassifier, ExtrapolationClassifier, load_model, save_model
from holdfast.datasets import load_dataset
from holdfast.datasets.gaussian import stable_columns
from holdfast.exceptions import (
    IdenticalEnvironmentsWarning,
    ParameterError,
    PrevalenceWarning,
    SingleEnvironmentWarning,
)

FOREST = RandomForestClassifier(40, min_samples_leaf=5)


def made(**options):
    """Return a Gaussian table, its training rows as arguments of fit, and its test rows where the feature is turned."""
    data = load_dataset("gaussian", **options)
    flipped = data.test.environments == "flipped"
    return data, (data.train.X, data.train.y), (data.test.X[flipped], data.test.y[flipped])


@pytest.mark.parametrize("n_environments", [2, 3, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_half_of_the_gap_is_closed_where_the_unstable_feature_turns(n_environments, n_classes):
    """With a noisy stable feature, at least half of what ERM loses against the stable columns alone comes back."""
    data, train, turned = made(n_environments=n_environments, n_classes=n_classes, n_rows=1000, seed=1)
    model = ExtrapolationClassifier(random_state=0).fit(*train, environments=data.train.environments)
    erm = ERMClassifier(random_state=0).fit(*train).score(*turned)
    columns = stable_columns(n_classes)
    limit = ERMClassifier(random_state=0).fit(train[0][:, columns], train[1]).score(turned[0][:, columns], turned[1])
    reached = model.score(*turned)
    assert reached > erm + 0.5 * (limit - erm)
    assert model.extrapolation_.difference > 2
    assert np.ptp(model.extrapolation_.risks) < np.ptp(model.extrapolation_.mean_judge_risks)


@pytest.mark.parametrize(
    "estimator", [RandomForestClassifier(40, min_samples_leaf=5), LinearSVC()], ids=["forest", "svm"]
)
def test_learners_that_memorize_or_only_score(estimator):
    """A forest is judged and calibrated out of fold, a linear SVM calibrated from its scores; both gain over ERM."""
    data, train, turned = made(n_environments=2, n_classes=2, n_rows=800, seed=1)
    model = ExtrapolationClassifier(estimator, random_state=0).fit(*train, environments=data.train.environments)
    assert model.score(*turned) > ERMClassifier(estimator, random_state=0).fit(*train).score(*turned) + 0.05


def test_identical_environments_are_plain_erm():
    """Without evidence of a difference nothing is extrapolated into noise."""
    data = load_dataset("gaussian", n_environments=2, n_classes=2, n_rows=400, seed=0, agreements=(0.8, 0.8))
    with pytest.warns(
        IdenticalEnvironmentsWarning, match="no evidence that what predicts the label changes between them"
    ):
        model = ExtrapolationClassifier(random_state=0).fit(
            data.train.X, data.train.y, environments=data.train.environments
        )
    erm = ERMClassifier(random_state=0).fit(data.train.X, data.train.y)
    np.testing.assert_array_equal(model.predict(data.test.X), erm.predict(data.test.X))
    assert model.extrapolation_ is None


def test_unlike_prevalence_is_said():
    """Label shares that differ are named with their range."""
    data = load_dataset("gaussian", n_environments=2, n_classes=2, n_rows=600, prevalence="unequal", seed=0)
    with pytest.warns(PrevalenceWarning, match="label frequencies differ between environments: 0 "):
        ExtrapolationClassifier(random_state=0).fit(data.train.X, data.train.y, environments=data.train.environments)


def test_one_environment_is_plain_erm():
    """Nothing to compare: ERM, warned."""
    data = load_dataset("gaussian", n_environments=2, n_rows=100)
    with pytest.warns(SingleEnvironmentWarning, match="ExtrapolationClassifier compares environments"):
        model = ExtrapolationClassifier(random_state=0).fit(data.train.X, data.train.y)
    assert model.extrapolation_ is None


def test_folds_are_needed():
    """Own rows must be predicted out of fold."""
    with pytest.raises(ParameterError, match="The 'n_folds' parameter of ExtrapolationClassifier must be at least 2"):
        ExtrapolationClassifier(n_folds=1).fit(np.zeros((4, 1)), [0, 1, 0, 1])


def test_it_is_saved_and_loaded(tmp_path):
    """A loaded classifier predicts the same probabilities to the last bit."""
    data = load_dataset("gaussian", n_environments=2, n_classes=2, n_rows=600, seed=1)
    model = ExtrapolationClassifier(random_state=0).fit(
        data.train.X, data.train.y, environments=data.train.environments
    )
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.test.X), model.predict_proba(data.test.X))
    assert loaded.extrapolation_.coefficient == model.extrapolation_.coefficient > 0
