"""Rows as the hypotheses see them: codes and scores, what features predict out of fold, pools of small sites."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats

from holdfast.stable import design as module
from holdfast.stable.columns import encode_table
from holdfast.stable.design import make_design, pool_sites


def rows(n_rows=200, seed=0):
    """Return a number and a code that go with the label, labels and two sites."""
    generator = np.random.default_rng(seed)
    y, sites = generator.integers(2, size=2 * n_rows), np.repeat([0, 1], n_rows)
    code = np.where(generator.random(2 * n_rows) < 0.8, y, 1 - y)
    return np.column_stack([generator.normal(size=2 * n_rows) + y, code]), y, sites


def test_codes_are_0_and_1_and_numbers_are_scores_of_their_ranks_within_the_site():
    """Units of a site, and any increasing function of a number, do not show."""
    X, y, sites = rows()
    X[:, 0] = X[:, 0].round(1)
    plain = make_design(encode_table(X), y, sites, n_classes=2)
    assert plain.is_code.tolist() == [False, True]
    assert np.array_equal(plain.own[:, 1], X[:, 1])
    other = X.copy()
    other[sites == 1, 0] = np.exp(other[sites == 1, 0]) * 100
    np.testing.assert_allclose(make_design(encode_table(other), y, sites, n_classes=2).own, plain.own, atol=1e-12)


@pytest.mark.parametrize("distance", [0.5, 1.5, 3.0])
def test_scores_are_normal_given_the_label_however_strong_the_effect(distance):
    """Their means are as far apart as those of the normal numbers that the column was made of."""
    generator = np.random.default_rng(0)
    y, sites = np.arange(4000) % 2, np.zeros(4000, dtype=int)
    X = np.exp(generator.normal(size=(4000, 1)) + distance * y[:, None])
    own = make_design(encode_table(X), y, sites, n_classes=2).own[:, 0]
    assert own[y == 1].mean() - own[y == 0].mean() == pytest.approx(distance, abs=0.1)
    assert own[y == 1].std() == pytest.approx(1.0, abs=0.07)
    assert abs(stats.skew(own[y == 1])) < 0.2


def test_what_is_said_of_a_row_is_out_of_fold():
    """The label of a row changes nothing of what features say of it, as far as its fold stays the same."""
    X, y, sites = rows()
    before = make_design(encode_table(X), y, sites, n_classes=2)
    assert np.corrcoef(before.parts.sum(axis=1), y)[0, 1] > 0.5
    noise = np.random.default_rng(0).normal(size=(400, 30))
    chance = make_design(encode_table(noise), y, sites, n_classes=2)
    assert abs(np.corrcoef(chance.parts.sum(axis=1), y)[0, 1]) < 0.15  # in sample it would be about 0.27


def test_rows_of_a_subject_share_a_fold_and_count_as_one():
    """Weights of a subject's rows sum to one; copies are then out of fold, too."""
    X, y, sites = rows(50)
    subjects = np.repeat(np.arange(100), 3)
    found = make_design(encode_table(X[subjects]), y[subjects], sites[subjects], n_classes=2, subjects=subjects)
    np.testing.assert_allclose(np.bincount(subjects, found.weights), 1.0)
    np.testing.assert_allclose(found.parts[::3], found.parts[1::3])


def test_sparse_rows_are_the_same_rows():
    """Every array is that of the dense table."""
    X, y, sites = rows()
    dense, sparse = (make_design(encode_table(table), y, sites, n_classes=2) for table in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.parts, dense.parts)
    np.testing.assert_allclose(sparse.own, dense.own)


def test_a_category_is_one_feature():
    """Its columns are taken together, as what they add to the log-odds."""
    X, y, sites = rows()
    frame = pd.DataFrame({"age": X[:, 0], "ward": np.array(["a", "b", "c"])[np.arange(len(y)) % 3]})
    found = make_design(encode_table(frame), y, sites, n_classes=2)
    assert found.features == ((0,), (1, 2, 3))
    assert found.own.shape == (400, 2)
    assert not found.is_code[1]


def test_wide_tables_are_screened():
    """Features that say most, and those whose class means differ most, are looked at; others are not."""
    X, y, sites = rows(300)
    turns = np.where(sites == 0, y, 1 - y) + np.random.default_rng(1).normal(size=len(y))
    noise = np.random.default_rng(0).normal(size=(len(y), 300))
    table = np.column_stack([noise[:, :150], X[:, 0], turns, noise[:, 150:]])
    found = make_design(encode_table(table), y, sites, n_classes=2)
    assert len(found.features) <= module.MOST_FEATURES
    assert {(150,), (151,)} <= set(found.features)


@pytest.mark.parametrize("n_sites", [60, 300])
def test_there_are_never_more_sites_than_can_be_looked_at(n_sites):
    """Small ones are pooled, each into one pool."""
    sites = np.repeat(np.arange(n_sites), 40)
    pooled = pool_sites(np.tile([0, 1], 20 * n_sites), sites)
    assert pooled.max() < module.MOST_SITES
    assert all(len(np.unique(pooled[sites == site])) == 1 for site in range(n_sites))


def test_questions_about_several_classes_have_two_answers():
    """Each row is asked about its own class and another; both sides are right equally often."""
    generator = np.random.default_rng(0)
    y, sites = generator.integers(4, size=400), np.repeat([0, 1], 200)
    X = np.eye(4)[y] + generator.normal(size=(400, 4))
    found = make_design(encode_table(X), y, sites, n_classes=4)
    assert found.label.mean() == 0.5
    assert np.corrcoef(found.parts.sum(axis=1), found.label)[0, 1] > 0.5
