"""The one place that deals folds."""

import numpy as np
import pytest
import scipy.sparse as sp

from holdfast.environments import split_environments
from holdfast.fitting.folds import fold_parts
from holdfast.judging.judges import deal_folds
from holdfast.rows.training import TrainingRows


def rows_of(n_rows=90, seed=0, folds=None):
    """Return rows of three sites in mixed order, the first label twice as frequent as the second."""
    generator = np.random.default_rng(seed)
    X, y = generator.normal(size=(n_rows, 3)), (generator.random(n_rows) < 1 / 3).astype(int)
    labels = generator.permutation(np.repeat(["a", "b", "c"], n_rows // 3))
    return TrainingRows(X, y, split_environments(labels, n_rows), folds=folds), labels


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_every_row_has_a_fold_and_labels_are_spread(n_folds):
    """In each environment folds, and each label's rows in them, differ by one row at most."""
    training, _ = rows_of()
    folds = deal_folds(training, n_folds)
    assert sorted(np.unique(folds)) == list(range(n_folds))
    for environment in training.environments:
        own = environment.rows
        assert np.ptp(np.bincount(folds[own], minlength=n_folds)) <= 1
        for label in (0, 1):
            counts = np.bincount(folds[own][training.y[own] == label], minlength=n_folds)
            assert np.ptp(counts) <= 1


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_the_order_of_the_rows_does_not_matter(kind):
    """A row falls into the same fold wherever it stands in the table."""
    training, labels = rows_of()
    kinds = {"array": np.asarray, "sparse": sp.csr_array}
    folds = deal_folds(training, 3)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(training.n_rows)
        other = TrainingRows(
            kinds[kind](training.X[order]), training.y[order], split_environments(labels[order], training.n_rows)
        )
        np.testing.assert_array_equal(deal_folds(other, 3), folds[order])


def test_an_environment_does_not_depend_on_the_others():
    """The rows of one environment are dealt alike with and without the rest of the table."""
    training, labels = rows_of()
    alone = labels == "a"
    part = TrainingRows(training.X[alone], training.y[alone], split_environments(labels[alone], int(alone.sum())))
    np.testing.assert_array_equal(deal_folds(part, 3), deal_folds(training, 3)[alone])


def test_a_fold_says_nothing_about_a_column():
    """Rows are spread by a number made of all their bits: no column's mean differs between folds beyond chance."""
    training, _ = rows_of(9000)
    folds = deal_folds(training, 2)
    for column in training.X.T:
        difference = column[folds == 0].mean() - column[folds == 1].mean()
        assert abs(difference) < 4 * 2 / np.sqrt(9000)


def test_given_folds_are_kept():
    """Rows with one fold number are held out together, however many folds are asked for."""
    given = np.arange(90) // 2 % 4
    training, _ = rows_of(folds=given)
    assert deal_folds(training, 2) is given


@pytest.mark.parametrize("n_folds", [0, 1])
def test_fewer_than_two_folds_are_none(n_folds):
    """Without a second fold no row is out of fold, not even of given ones."""
    assert deal_folds(rows_of()[0], n_folds) is None
    assert deal_folds(rows_of(folds=np.arange(90) % 2)[0], n_folds) is None


def test_parts_are_those_of_the_rows():
    """The rows of each fold, among the rows that are asked for."""
    folds = np.array([0, 0, 1, 1, 0, 1])
    assert [part.tolist() for part in fold_parts(np.array([0, 1, 2, 3]), folds)] == [[0, 1], [2, 3]]
    assert [part.tolist() for part in fold_parts(np.array([5, 4]), folds)] == [[4], [5]]


@pytest.mark.parametrize("folds", [None, np.array([0, 0, 1])], ids=["none", "all in one"])
def test_rows_of_one_fold_have_no_parts(folds):
    """Nothing is held out where nothing would be left to fit on."""
    assert fold_parts(np.array([0, 1]), folds) == ()
