"""Columns among the rows of one label and environment: what others explain, what can stand in, where tails end."""

import numpy as np
import pytest
import scipy.sparse as sp

from holdfast.audit import within as module
from holdfast.audit.within import Cells, explained_by_others, go_together, tail_limits

N_ROWS = 3000


def cells(seed=0, n_rows=N_ROWS):
    """Return labels and the rows of each label and of three environments."""
    y = np.random.default_rng(seed).integers(2, size=n_rows)
    return y, Cells(y, np.arange(n_rows) % 3)


def explained(columns, some, *, named=(), seed=0):
    """Return what others explain of one column, or of several that belong together."""
    family = [some] if isinstance(some, int) else some
    return explained_by_others(columns, [family], list(named), cells(seed, columns.shape[0])[1])[0]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_a_known_share_of_the_variance_is_explained(share):
    """Others that each explain a part, none of them so much that it could stand in; three standard errors are off."""
    rng = np.random.default_rng(1)
    causes = rng.normal(size=(N_ROWS, 8))
    column = causes @ np.full(8, np.sqrt(share / 8)) + np.sqrt(1 - share) * rng.normal(size=N_ROWS)
    error = 3 * np.sqrt(2 * 8) / N_ROWS
    assert explained(np.column_stack([causes, column]), 8) == pytest.approx(share - error, abs=0.03)


@pytest.mark.parametrize("n_others", [1, 10, 100])
def test_of_a_column_that_only_depends_on_the_label_nothing_is_explained(n_others):
    """However much the label explains of all of them, and however many they are: in 59 of 60 draws it is nothing."""
    found = []
    for seed in range(60):
        rng, (y, _) = np.random.default_rng(seed), cells(seed)
        others = rng.normal(size=(N_ROWS, n_others)) + y[:, None]
        code = np.where(rng.random(N_ROWS) < 0.9, y, 1 - y)
        found.append(explained(np.column_stack([others, code]), n_others, seed=seed))
    assert sum(share > 0 for share in found) <= 1
    assert max(found) < 0.01


def test_what_environments_have_in_common_explains_nothing():
    """Two columns that are higher in one environment than in another, and do not go together in any of them."""
    rng, site = np.random.default_rng(0), np.arange(N_ROWS) % 3
    columns = rng.normal(size=(N_ROWS, 2)) + 3 * site[:, None]
    assert explained(columns, 0) < 0.002


def test_named_columns_and_those_that_can_stand_in_do_not_count():
    """Two columns that turn go together because they turn; a noisy copy says nothing about what it is a copy of."""
    rng = np.random.default_rng(0)
    column = rng.normal(size=N_ROWS)
    partner, copy = 0.4 * column + rng.normal(size=N_ROWS), column + 0.5 * rng.normal(size=N_ROWS)
    columns = np.column_stack([column, partner, rng.normal(size=N_ROWS)])
    assert explained(columns, 0) == pytest.approx(0.14, abs=0.04)
    assert explained(columns, 0, named=[0, 1]) == 0.0
    assert explained(np.column_stack([column, copy, rng.normal(size=N_ROWS)]), 0) == 0.0


def test_values_of_the_same_category_do_not_count():
    """Codes of 0 and 1 that are never 1 together exclude each other, which is no relation; numbers may."""
    rng = np.random.default_rng(1)
    level = rng.integers(6, size=N_ROWS)
    codes = (level[:, None] == np.arange(6)).astype(float)
    assert explained(codes, 0) == 0.0
    assert explained(2 * codes, 0) > 0.9
    also = np.where(level == 0, rng.random(N_ROWS) < 0.5, rng.random(N_ROWS) < 0.2)
    assert explained(np.column_stack([codes, also]), 0) == pytest.approx(0.06, abs=0.03)


def test_of_a_family_it_is_the_mean_over_its_columns():
    """All values of a category at once; its own columns are none of the others."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=N_ROWS)
    columns = np.column_stack([cause, 0.6 * cause + 0.8 * rng.normal(size=N_ROWS), rng.normal(size=N_ROWS)])
    columns[:, 0] = 0.7 * cause + 0.7 * rng.normal(size=N_ROWS)
    both = explained(columns, [1, 2])
    assert both == pytest.approx(explained(columns[:, :2], 1) / 2, abs=0.01)
    assert explained(columns[:, 1:], [0, 1]) == 0.0


def test_columns_without_others_or_rows_are_explained_by_nothing():
    """One column; one that is constant; as many columns as rows."""
    rng = np.random.default_rng(0)
    assert explained(rng.normal(size=(N_ROWS, 1)), 0) == 0.0
    columns = np.column_stack([np.full(N_ROWS, 7.0), rng.normal(size=N_ROWS)])
    assert explained(columns, 0) == explained(columns, 1) == 0.0
    assert explained(rng.normal(size=(40, 60)), 0) == 0.0


def test_sparse_rows_are_the_same_table():
    """Words as a sparse matrix; of more columns than `MOST_OTHERS` the ones that vary most explain."""
    rng = np.random.default_rng(0)
    n_columns = module.MOST_OTHERS + 30
    columns = rng.normal(size=(N_ROWS, n_columns)) * (rng.random((N_ROWS, n_columns)) < 0.3)
    columns[:, 0] = 2 * columns[:, 0] + 0.8 * columns[:, 1]
    columns[:, 2:32] *= 0.01
    dense = explained(columns, 0)
    assert dense == pytest.approx(explained(sp.csr_array(columns), 0))
    assert dense > 0.02
    columns[:, 32:] *= 2.0
    columns[:, 1] *= 0.01  # now it varies less than `MOST_OTHERS` others
    assert explained(columns, 0) == 0.0


def test_one_extreme_value_explains_nothing():
    """Tails are pulled in: two columns that are large in the same few rows do not go together elsewhere."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(N_ROWS, 2))
    columns[:3] = 1e4
    assert explained(columns, 0) == 0.0


def test_columns_stand_in_from_a_correlation_of_a_half():
    """Among the rows of a cell; a common dependence on the label does not count."""
    y, where = cells()
    rng = np.random.default_rng(1)
    column = rng.normal(size=N_ROWS)
    near, far = (r * column + np.sqrt(1 - r**2) * rng.normal(size=N_ROWS) for r in (0.6, 0.4))
    label = 5 * y + rng.normal(size=N_ROWS)
    values = np.column_stack([column + 5 * y, near, far, label])
    columns = np.array([1, 2, 3])
    assert go_together(values, columns, [0], where).tolist() == [True, False, False]
    assert go_together(sp.csr_array(values), columns, [0], where).tolist() == [True, False, False]


@pytest.mark.parametrize("n_rows", [1, 2, 3, 50, 401, 5_000])
def test_tails_are_pulled_in_to_their_quantiles(n_rows):
    """Wherever the tails are found first: drawn values, ascending ones, few different ones, one, and all but one."""
    drawn = np.random.default_rng(0).normal(size=n_rows)
    columns = np.stack([drawn, np.sort(drawn), np.round(drawn), np.zeros(n_rows), np.arange(n_rows) == 0.0], axis=1)
    low, high = tail_limits(columns)
    quantiles = np.quantile(columns, [module.TAILS, 1 - module.TAILS], axis=0)
    flat = quantiles[0] >= quantiles[1]
    np.testing.assert_allclose(low, np.where(flat, columns.min(axis=0), quantiles[0]), atol=1e-12)
    np.testing.assert_allclose(high, np.where(flat, columns.max(axis=0), quantiles[1]), atol=1e-12)
