"""Predict, then extrapolate."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import LinearSVC

from holdfast import ERMClassifier, ExtrapolationClassifier, load_model, save_model
from holdfast.datasets import load_dataset
from holdfast.datasets.gaussian import stable_columns
from holdfast.environments import split_environments
from holdfast.estimators.extrapolation import centered, find_extrapolation
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


def test_exact_distributions_have_the_same_risk_where_the_unstable_part_is_gone():
    """On the toy's exact law (eta 0.1 and 0.3) equal risk is found where x2 no longer matters."""
    rows, environments = [], []
    for name, eta in (("E1", 0.1), ("E2", 0.3)):
        part = load_dataset("toy", exact=True, etas=(eta,), n_rows=10_000).train
        rows.append((part.X, part.y))
        environments += [name] * len(part.y)
    X, y = np.concatenate([part[0] for part in rows]), np.concatenate([part[1] for part in rows])
    split = split_environments(environments, len(y))

    def log_posterior(eta):
        agree1, agree2 = np.where(X[:, 0] == 1, 1, -1), np.where(X[:, 1] == 1, 1, -1)
        logit = agree1 * np.log(0.8 / 0.2) + agree2 * np.log((1 - eta) / eta)
        return -np.logaddexp(0, np.stack([logit, -logit], axis=1))

    evidence = centered(np.stack([log_posterior(0.1), log_posterior(0.3)]))
    found = find_extrapolation(evidence, y, split)
    weights = 0.5 + found.coefficient * found.direction
    x2 = weights @ [np.log(0.9 / 0.1), np.log(0.7 / 0.3)]
    x1 = weights.sum() * np.log(0.8 / 0.2)
    assert abs(x2) < 0.15 * x1
    assert found.spread < 0.01


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
    assert model.extrapolation_.evidence > 2


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
    with pytest.warns(IdenticalEnvironmentsWarning, match="no evidence that anything changes between them"):
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
    data = load_dataset("gaussian", n_environments=3, n_rows=300, seed=1)
    model = ExtrapolationClassifier(random_state=0).fit(
        data.train.X, data.train.y, environments=data.train.environments
    )
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(data.test.X), model.predict_proba(data.test.X))
