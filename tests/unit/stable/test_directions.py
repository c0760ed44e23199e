"""Combinations of columns whose effect differs between sites."""

import numpy as np
import pytest

from holdfast import StableClassifier
from holdfast.datasets import load_dataset
from holdfast.saving.models import load, save
from holdfast.stable.directions import find_directions

NAMED = "combination 1 of columns"


def units(example, seed=0):
    """Return a unit test of invariance with ten environments, and the classifier fitted to it."""
    data = load_dataset("units", example=example, n_environments=10, n_rows=700, scaled=True, seed=seed)
    return data, StableClassifier(random_state=0).fit(data.train.X, data.train.y, environments=data.train.environments)


@pytest.mark.parametrize("example", ["2", "2s", "3", "3s"])
def test_unit_tests_of_invariance_are_solved_and_foretold(example):
    """The error is at most .02 where the spurious block is shuffled and at a new site, and forecasts hold."""
    data, model = units(example)
    assert (NAMED in str(model.verdict_)) == example.endswith("s")
    for place in ("shuffled", "new"):
        rows = np.asarray(data.test.environments) == place
        accuracy = model.score(data.test.X[rows], data.test.y[rows])
        assert accuracy >= 0.98
        assert model.verdict_.forecast.low <= accuracy <= model.verdict_.forecast.high


def test_the_verdict_says_what_is_ignored_and_what_that_saves():
    """Without caution nothing is given up; else the ordinary classifier loses where the combinations turn."""
    data, model = units("3s")
    verdict = model.verdict_
    assert verdict.fitted == "stable"
    assert set(verdict.kept.values()) == {0.0}
    assert len(verdict.columns) == 5
    assert verdict.vanished.fitted == pytest.approx(verdict.known.fitted)
    assert verdict.reversed.fitted > verdict.reversed.ordinary
    assert all(finding.spread > 1.0 for finding in verdict.columns)
    careless = StableClassifier(caution=0.0).fit(data.train.X, data.train.y, environments=data.train.environments)
    assert careless.verdict_.fitted == "ordinary"


def test_the_classifier_is_saved_checked_and_adapted_like_others(tmp_path):
    """It predicts the same after loading; there is no column to adapt."""
    data, model = units("2s")
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(data.test.X), model.predict_proba(data.test.X))
    assert not loaded.adapt(data.test.X[:300]).adaptation_.adapted
    assert str(loaded.check(data.test.X[:300]))


def bent(n_rows, rng):
    """Return rows whose label depends on a square, with other ranges at every site: P(y|x) is the same."""
    sites = np.repeat(np.arange(5), n_rows)
    X = rng.normal(size=(5 * n_rows, 3)) + np.linspace(-1, 1, 5)[sites, None]
    return X, (rng.random(len(X)) < 1 / (1 + np.exp(1 - X[:, 0] ** 2 - 0.5 * X[:, 1]))).astype(int), sites


@pytest.mark.parametrize("draw", range(3))
def test_a_bend_is_no_reason(draw):
    """Where P(y|x) is bent, effects differ along directions, but leaving them out does not help elsewhere."""
    X, y, sites = bent(600, np.random.default_rng(draw))
    assert find_directions(X, y, sites).unstable.shape[1]
    model = StableClassifier().fit(X, y, environments=sites)
    assert NAMED not in str(model.verdict_)


def product(generator, means):
    """Return rows whose label depends on a product, with other means of one factor at each site: one P(y|x)."""
    X = generator.normal(size=(2000, 3))
    X[:, 1] += np.repeat(means, 500)
    return X, (generator.random(2000) < 1 / (1 + np.exp(-2 * X[:, 0] * X[:, 1]))).astype(int), np.repeat(range(4), 500)


@pytest.mark.parametrize("draw", range(3))
def test_an_interaction_is_no_reason(draw):
    """Where a factor has other means, the effect of the other factor differs, and the product explains it."""
    X, y, sites = product(np.random.default_rng(draw), [-2.0, -0.5, 1.0, 2.5])
    assert find_directions(X, y, sites).unstable.shape[1]
    assert StableClassifier().fit(X, y, environments=sites).verdict_.fitted == "ordinary"


def test_a_column_that_changes_is_given_up_as_a_column():
    """One column of six changes: the verdict names it, and no combination."""
    rng = np.random.default_rng(0)
    sites, y = np.repeat(np.arange(4), 500), rng.integers(2, size=2000)
    X = rng.normal(size=(2000, 6)) + 0.5 * y[:, None]
    X[:, 0] = np.where(rng.random(2000) < np.array([0.98, 0.9, 0.8, 0.7])[sites], y, 1 - y)
    assert find_directions(X, y, sites).unstable.shape[1]
    verdict = StableClassifier().fit(X, y, environments=sites).verdict_
    assert [finding.feature for finding in verdict.acted_on] == ["x0"]


def test_exchanging_the_unstable_coordinates_leaves_the_stable_ones():
    """What the stable classifier sees of a row does not change, and what varies comes from the partner."""
    rng = np.random.default_rng(0)
    sites, y = np.repeat(np.arange(4), 300), rng.integers(2, size=1200)
    X = rng.normal(size=(1200, 4)) @ rng.normal(size=(4, 4)) + y[:, None] * rng.normal(size=(4, 4))[sites]
    found, partners = find_directions(X, y, sites), rng.permutation(1200)
    changed = found.exchange(X, partners)
    assert found.unstable.shape[1] > 0
    assert np.allclose(changed @ found.stable, X @ found.stable)
    assert np.allclose(changed @ found.unstable, X[partners] @ found.unstable)
