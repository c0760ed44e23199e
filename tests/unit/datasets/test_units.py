"""The linear unit tests of invariance."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast.datasets import load_dataset
from holdfast.exceptions import ParameterError


def rows(split, environment):
    """Return X and y of one environment."""
    mine = split.environments == environment
    return split.X[mine], split.y[mine]


def test_example_3_has_a_stable_and_a_spurious_block():
    """The stable block has means of ±0.1 everywhere; those of the spurious one differ between environments."""
    data = load_dataset("units", example="3", n_environments=10, seed=1)
    means = []
    for name in np.unique(data.train.environments):
        X, y = rows(data.train, name)
        means.append(((2 * y - 1)[:, None] * X).mean(axis=0))
    stable, spurious = np.array(means)[:, :5], np.array(means)[:, 5:]
    np.testing.assert_allclose(stable, 0.1, atol=5 * 0.1 / np.sqrt(1000))
    assert 0.5 < spurious.std() < 1.5


def test_example_2_gives_its_first_environments():
    """The spurious block follows the animal in 95, 97 and 99 % of the rows, and is a hundred times larger."""
    data = load_dataset("units", example="2", n_environments=3, seed=2)
    for name, share in zip(np.unique(data.train.environments), (0.95, 0.97, 0.99), strict=True):
        X, y = rows(data.train, name)
        follows = (X[:, 5:].mean(axis=1) > 0) == (y == 1)
        assert abs(follows.mean() - share) < 0.03
        assert 50 < np.abs(X[:, 5:]).mean() / np.abs(X[:, :5]).mean() < 200
        np.testing.assert_array_equal(y, X[:, :5].sum(axis=1) > 0)


def test_the_shuffled_block_says_nothing_about_the_label():
    """In the test and in validation "test" the spurious block predicts like chance, the stable one as ever."""
    data = load_dataset("units", example="3", n_environments=10, seed=3)
    X, y = rows(data.test, "shuffled")
    for name, split in (("test", (X, y)), ("validation", (data.validation["test"].X, data.validation["test"].y))):
        spurious = LogisticRegression().fit(split[0][:, 5:], split[1]).score(split[0][:, 5:], split[1])
        stable = LogisticRegression().fit(split[0][:, :5], split[1]).score(split[0][:, :5], split[1])
        assert spurious < 0.53, name
        assert stable > 0.97, name


def test_scrambling_turns_all_columns():
    """A scrambled test has the same lengths of rows, and no column is as stable as the blocks were."""
    data = load_dataset("units", example="3s", n_environments=3, seed=4)
    plain = load_dataset("units", example="3", n_environments=3, seed=4)
    assert data.train.X.shape == plain.train.X.shape
    by_site = [np.abs(rows(data.train, name)[0]).mean(axis=0) for name in np.unique(data.train.environments)]
    assert np.min(np.std(by_site, axis=0)) > 0.005


def test_scaled_columns_have_a_standard_deviation_of_one():
    """Validation and test are divided by the same numbers, so that labels of Example 2 follow the same law."""
    data = load_dataset("units", example="2", scaled=True, seed=5)
    np.testing.assert_allclose(data.train.X.std(axis=0), 1.0)
    model = LogisticRegression(C=1e6, max_iter=10_000).fit(data.train.X, data.train.y)
    assert model.score(*rows(data.test, "shuffled")) > 0.99


def test_the_seed_draws_everything():
    """The same seed gives the same rows, another one other rows."""
    first, again, other = (load_dataset("units", seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.train.X, again.train.X)
    assert not np.allclose(first.train.X, other.train.X)


def test_an_unknown_example_is_refused():
    """Examples 1 and 1s are of regression."""
    with pytest.raises(ParameterError, match=r"The 'example' option must be one of \['2', '2s', '3', '3s'\]"):
        load_dataset("units", example="1")
