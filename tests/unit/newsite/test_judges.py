"""Adaptation of PIClassifier: the judges' vote is learned anew at a site."""

import numpy as np
import pytest

from holdfast import ERMClassifier, PIClassifier, load, save
from holdfast.exceptions import LabelsError, ParameterError
from holdfast.newsite.judges import SiteAdapter, _chance_weights


def site(n_rows, agreement, seed, depends=0.0):
    """Return a stable column that tells 3 of 4 labels, and a color; with `depends` the color follows that column."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=n_rows)
    stable = np.where(generator.random(n_rows) < 0.75, y, 1 - y)
    color = np.where(generator.random(n_rows) < agreement, y, 1 - y)
    color = np.where(generator.random(n_rows) < depends, stable, color)
    return np.column_stack([stable, color]).astype(float), np.array(["no", "yes"])[y]


def known(depends=0.0):
    """Return rows of two sites, in which the color agrees with the label in 95 and 80 %."""
    parts = [site(2000, 0.95, 0, depends), site(2000, 0.8, 1, depends)]
    sites = np.repeat(["A", "B"], 2000)
    return np.vstack([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), sites


@pytest.fixture(scope="module")
def adapter():
    """Return an adapter; half of the rows trained, the other half calibrated."""
    X, y, sites = known()
    model = PIClassifier().fit(X[::2], y[::2], environments=sites[::2])
    return SiteAdapter(model).fit(X[1::2], y[1::2], environments=sites[1::2])


@pytest.mark.parametrize(("agreement", "gain"), [(0.1, 0.1), (0.5, -0.01), (0.9, 0.1)])
def test_a_color_that_turned_is_used_again(adapter, agreement, gain):
    """75 % without the color; with what it means there, 90 %, and nothing is lost where it means nothing."""
    X, y = site(2000, agreement, 7)
    adapted = adapter.adapt(X[:1000])
    before, after = (np.mean(m.predict(X[1000:]) == y[1000:]) for m in (adapter.classifier, adapted))
    assert after - before > gain
    if gain > 0:
        assert adapted.adaptation_.adapted
        assert "the judges' vote" in str(adapted.adaptation_)


def test_the_votes_are_right_by_chance_under_the_weights():
    """Two classes: half of each class's weight is on rows that the votes get right."""
    votes, codes = np.array([0, 0, 0, 1, 1, 1, 1, 0]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    weights = _chance_weights(votes, codes, 2)
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 2 / 3, 2, 2 / 3, 2 / 3, 2 / 3, 2])


def test_a_vote_that_follows_the_stable_part_is_refused():
    """Within label and site the color depends on the stable column: EM could not tell what it means."""
    X, y, sites = known()
    model = PIClassifier().fit(X, y, environments=sites)
    X, y, sites = known(depends=0.8)
    adapted = SiteAdapter(model).fit(X, y, environments=sites).adapt(X[:500])
    assert adapted.adaptation_.reason == "mechanism"
    np.testing.assert_array_equal(adapted.predict_proba(X[:5]), model.predict_proba(X[:5]))


def test_a_few_rows_are_not_enough(adapter):
    """With 29 rows, or one, it predicts as before and says why."""
    X, _ = site(29, 0.1, 7)
    for rows in (X, X[:1]):
        adapted = adapter.adapt(rows)
        assert adapted.adaptation_.reason == "few_rows"
        np.testing.assert_array_equal(adapted.predict(X), adapter.classifier.predict(X))


def test_it_is_saved(adapter, tmp_path):
    """Adapter and adapted classifier answer the same after loading."""
    X, _ = site(500, 0.1, 7)
    save(adapter, tmp_path / "adapter")
    save(adapter.adapt(X), tmp_path / "adapted")
    expected = adapter.adapt(X).predict_proba(X)
    np.testing.assert_array_equal(load(tmp_path / "adapter").adapt(X).predict_proba(X), expected)
    np.testing.assert_array_equal(load(tmp_path / "adapted").predict_proba(X), expected)


def test_what_cannot_be_adapted():
    """A classifier without judges, and labels that it does not know."""
    X, y, sites = known()
    with pytest.raises(ParameterError, match="needs a fitted PIClassifier"):
        SiteAdapter(ERMClassifier().fit(X, y, environments=sites)).fit(X, y, environments=sites)
    model = PIClassifier().fit(X, y, environments=sites)
    with pytest.raises(LabelsError, match="y has the label 'maybe', which the classifier does not know"):
        SiteAdapter(model).fit(X, np.where(np.arange(len(y)) == 0, "maybe", y), environments=sites)
