import numpy as np
import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.toy import cell_probabilities
from holdfast.exceptions import ParameterError


def test_exact_counts_meet_the_generating_frequencies():
    """1,000 rows of E2 hold 500 of each x1, 800 with y = x1 and 900 with x2 = y."""
    train = load_dataset("toy", seed=3).train
    second = train.take(np.flatnonzero(train.environments == "E2"))
    x1, x2 = second.X.T
    assert len(second) == 1000
    assert (x1 == 1).sum() == 500
    assert (x1 == second.y).sum() == 800
    assert (x2 == second.y).sum() == 900
    assert ((x1 == second.y) & (x2 == second.y)).sum() == 720


def test_first_environment_repeats_the_label():
    """With eta 0 the unstable feature is the label."""
    train = load_dataset("toy").train
    first = train.environments == "E1"
    np.testing.assert_array_equal(train.X[first, 1], train.y[first])


def test_test_environments_follow_ignore_and_contradict_the_label():
    """The default test environments have agreement 1, 0.5 and 0."""
    test = load_dataset("toy").test
    agreement = {
        name: np.mean(test.attributes["x2"] == test.y, where=test.environments == name)
        for name in np.unique(test.environments)
    }
    assert agreement == {"eta=0": 1.0, "eta=0.5": 0.5, "eta=1": 0.0}


def test_sampled_rows_come_near_the_frequencies_and_change_with_the_seed():
    """Drawn rows have the right means within four standard errors, and another seed draws others."""
    one, other = (load_dataset("toy", seed=s, exact=False, n_rows=20_000).train for s in (0, 1))
    second = one.environments == "E2"
    assert np.mean(one.X[second, 0] == one.y[second]) == pytest.approx(0.8, abs=4 * 0.4 / np.sqrt(20_000))
    assert np.mean(one.X[second, 1] == one.y[second]) == pytest.approx(0.9, abs=4 * 0.3 / np.sqrt(20_000))
    assert (one.y != other.y).mean() > 0.4


def test_more_classes_and_environments_are_one_hot():
    """Three classes and four environments give six columns, one of each block set."""
    data = load_dataset("toy", n_classes=3, etas=(0.0, 0.1, 0.2, 0.3), n_rows=600)
    assert data.train.X.shape == (2400, 6)
    np.testing.assert_array_equal(data.train.X[:, 3:].argmax(1), data.train.attributes["x2"])
    assert sorted(set(data.train.environments)) == ["E1", "E2", "E3", "E4"]
    assert data.classes == ("0", "1", "2")


def test_rounded_counts_are_noted():
    """Counts that cannot be met exactly still sum to n_rows, and the notes say so."""
    data = load_dataset("toy", n_rows=7)
    assert len(data.train) == 14
    assert data.notes == ("7 rows cannot meet the probabilities at eta=0 exactly; counts are rounded.",)
    assert load_dataset("toy").notes == ()


@pytest.mark.parametrize("n_classes", [2, 5])
def test_cell_probabilities_sum_to_one(n_classes):
    """P(x1, y, x2) is a distribution with a uniform label."""
    cells = cell_probabilities(n_classes, 0.2, 0.1)
    assert cells.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(cells.sum(axis=(0, 2)), 1 / n_classes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"etas": ()}, "The 'etas' option must hold one probability for each environment. Got () instead."),
        ({"etas": (0.1, 1.5)}, "The 'etas' option must be a probability from 0 to 1. Got 1.5 instead."),
        ({"noise": "much"}, "The 'noise' option must be a probability from 0 to 1. Got 'much' instead."),
        ({"n_rows": 0}, "The 'n_rows' option must be a whole number of at least 1. Got 0 instead."),
        ({"n_classes": 1}, "The 'n_classes' option must be a whole number of at least 2. Got 1 instead."),
    ],
)
def test_bad_options_are_refused(options, message):
    """An option outside its range is an error that names option and value."""
    with pytest.raises(ParameterError, match="^" + message.replace("(", r"\(").replace(")", r"\)") + "$"):
        load_dataset("toy", **options)
