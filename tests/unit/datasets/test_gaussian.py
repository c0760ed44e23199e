import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast.datasets.gaussian import load_gaussian, simplex_corners, stable_columns
from holdfast.exceptions import ParameterError


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_corners_are_one_apart(n_classes):
    """All pairs of corners have distance one, and their mean is the origin."""
    corners = simplex_corners(n_classes)
    assert corners.shape == (n_classes, n_classes - 1)
    distances = np.linalg.norm(corners[:, None] - corners[None], axis=2)
    np.testing.assert_allclose(distances[np.triu_indices(n_classes, 1)], 1.0)
    np.testing.assert_allclose(corners.mean(axis=0), 0.0, atol=1e-12)


def test_agreement_by_environment():
    """Training agreement falls evenly from 0.9 to 0.7; the tests are natural, shuffled and flipped."""
    data = load_gaussian(n_environments=3, n_rows=20_000, n_test_rows=20_000)
    for split, expected in (
        (data.train, {"E1": 0.9, "E2": 0.8, "E3": 0.7}),
        (data.test, {"natural": 0.8, "shuffled": 1 / 3, "flipped": 0.1}),
    ):
        for name, agreement in expected.items():
            rows = split.environments == name
            assert np.mean((split.attributes["unstable"] == split.y)[rows]) == pytest.approx(agreement, abs=0.015)


def test_second_unstable_feature_is_weaker():
    """The second feature agrees with the label one time in ten less often, and has columns of its own."""
    data = load_gaussian(n_unstable=2, agreements=(0.9, 0.7), n_rows=20_000, n_classes=2)
    agree = np.mean(data.train.attributes["unstable_2"] == data.train.y)
    assert agree == pytest.approx(0.7, abs=0.015)
    assert data.train.X.shape == (40_000, 5)
    assert stable_columns(2, 2).tolist() == [0, 3, 4]


@pytest.mark.parametrize(
    ("n_classes", "stable", "expected"),
    [(2, "noisy", 0.77), (3, "noisy", 0.70), (2, "clean", 0.93), (3, "clean", 0.90)],
)
def test_best_stable_classifier(n_classes, stable, expected):
    """A classifier of the stable columns is as accurate in every test environment as the separation says."""
    data = load_gaussian(n_classes=n_classes, stable=stable, n_rows=3000, n_test_rows=8000)
    columns = stable_columns(n_classes)
    classifier = LogisticRegression().fit(data.train.X[:, columns], data.train.y)
    for name in ("natural", "shuffled", "flipped"):
        rows = data.test.environments == name
        assert classifier.score(data.test.X[rows][:, columns], data.test.y[rows]) == pytest.approx(expected, abs=0.02)


def test_unequal_prevalence_is_of_training_only():
    """The first class has 1.6 and 0.4 times the weight of the others in turn; test labels stay even."""
    data = load_gaussian(prevalence="unequal", n_rows=10_000, n_test_rows=10_000)
    share = [np.mean(data.train.y[data.train.environments == name] == 0) for name in ("E1", "E2", "E3")]
    np.testing.assert_allclose(share, [1.6 / 3.6, 0.4 / 2.4, 1.6 / 3.6], atol=0.02)
    assert np.mean(data.test.y == 0) == pytest.approx(1 / 3, abs=0.02)


def test_seed_changes_rows_only():
    """The same seed repeats the rows, another draws others, and validation splits are rows of their own."""
    one, same, other = load_gaussian(seed=1), load_gaussian(seed=1), load_gaussian(seed=2)
    np.testing.assert_array_equal(one.train.X, same.train.X)
    assert (one.train.X != other.train.X).all()
    assert not np.isin(one.validation["test"].X[:, 0], one.test.X[:, 0]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_unstable": 3}, "'n_unstable' option must be 1 or 2. Got 3"),
        ({"stable": "loud"}, "'stable' option must be one of"),
        ({"prevalence": "odd"}, "'prevalence' option must be one of"),
        ({"agreements": (1.2,)}, "'agreements' option must be a probability"),
        ({"n_classes": 1}, "'n_classes' option must be a whole number of at least 2"),
    ],
)
def test_bad_options_are_refused(options, message):
    """Each bad option is named with what came."""
    with pytest.raises(ParameterError, match=message):
        load_gaussian(**options)
