"""A row of weight 3 counts like three rows, in every stage of every method."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import ERMClassifier, GroupDROClassifier, PIClassifier, PIRegressor, StableClassifier
from holdfast.environments import Group
from holdfast.interpolation import SolverSettings
from holdfast.interpolation.convex.solver import solve_convex
from holdfast.interpolation.reweight import solve_reweight
from holdfast.methods import BalancedClassifier, OracleClassifier
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding

LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(C=1.0))


@pytest.fixture
def rows():
    """Return rows, labels, sites, an attribute and whole-number weights, some of them zero."""
    generator = np.random.default_rng(0)
    sites = np.repeat(["a", "b"], 300)
    y = generator.integers(2, size=600)
    attribute = np.where(generator.random(600) < np.repeat([0.95, 0.8], 300), y, 1 - y)
    stable = np.where(generator.random(600) < 0.8, y, 1 - y)
    X = np.stack([stable, 5.0 * attribute], axis=1)
    return X, y, sites, attribute, generator.integers(0, 4, size=600)


@pytest.mark.parametrize(
    "model",
    [
        ERMClassifier(),
        ERMClassifier(weighting="environments"),
        BalancedClassifier(),
        GroupDROClassifier(),
        GroupDROClassifier(LOGISTIC),
        OracleClassifier(LOGISTIC),
        PIClassifier(LOGISTIC, min_group_size=1),
        PIRegressor(error_threshold=0.1),
    ],
    ids=str,
)
def test_weights_are_repeated_rows(model, rows):
    """Scaler, penalty and risks see the weights, so that repeating the rows gives the same classifier."""
    X, y, sites, attribute, weights = rows
    more = {"attribute": attribute} if isinstance(model, OracleClassifier) else {}
    model.fit(X, y, environments=sites, sample_weight=weights, **more)
    weighted = getattr(model, "predict_proba", model.predict)(X)
    more = {"attribute": np.repeat(attribute, weights)} if more else {}
    model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights), environments=np.repeat(sites, weights), **more)
    np.testing.assert_allclose(weighted, getattr(model, "predict_proba", model.predict)(X), atol=1e-6)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_the_penalty_counts_weight(factor, rows):
    """All weights times 100 is a hundred times the rows: the penalty matters less, as in scikit-learn."""
    X, y, _, _, weights = rows
    weights = factor * (weights + 1.0)
    groups = [Group("all", np.arange(600), weights)]
    training = TrainingRows(X, y, (), weights)
    found = solve_convex(LogisticRegression(C=0.01), training, groups, n_classes=2)
    peer = LogisticRegression(C=0.01, tol=1e-8).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(found.estimator.predict_proba(X), peer.predict_proba(X), atol=5e-3)


def test_reweighted_fits_have_the_weight_of_their_rows(rows):
    """The weights of a fit sum to the sample weights of its rows, whatever the mixture of groups."""
    X, y, _, _, weights = rows
    sums = []

    class Recorder(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            """Note the sum of the weights."""
            sums.append(sample_weight.sum())
            return super().fit(X, y, sample_weight=sample_weight)

    weights = weights + 1.0
    training = TrainingRows(X, y, (), weights, folds=np.arange(600) % 2)
    groups = [Group(name, rows, weights[rows]) for name, rows in (("a", np.arange(200)), ("b", np.arange(200, 400)))]
    solve_reweight(Recorder(), training, groups, SolverSettings(reweight_rounds=2), Seeding(0), n_classes=2)
    used = weights[:400]
    assert sums[:2] == pytest.approx([used[1::2].sum(), used[::2].sum()])


def test_an_environment_whose_rows_have_no_weight():
    """Its rows say nothing, and nothing is divided by them."""
    generator = np.random.default_rng(0)
    X, environments = generator.normal(size=(600, 4)), np.arange(600) % 4
    y = (X[:, 0] + 0.5 * generator.normal(size=600) > 0).astype(int)
    model = StableClassifier().fit(X, y, environments=environments, sample_weight=(environments != 3).astype(float))
    assert model.verdict_.fitted == "ordinary"
