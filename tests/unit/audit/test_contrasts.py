from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from holdfast.audit.contrasts import contrast, make_sides, permuted_statistics, rows_apart
from holdfast.audit.correlations import effective_size, half_correlations, weighted_correlations
from holdfast.metrics import correlation


def world(n_home: int, n_away: int, flips: tuple[float, float], seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return columns (stable, unstable, noise), labels, the home environment's true P(y|x), and both rows."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=n_home + n_away)
    flip = np.repeat(flips, [n_home, n_away])
    stable = (2 * y - 1) + generator.normal(size=len(y))
    unstable = np.where(generator.random(len(y)) < flip, 1 - y, y)
    odds = 2 * stable + np.log((1 - flips[0]) / flips[0]) * (2 * unstable - 1)
    p = 1 / (1 + np.exp(-odds))
    X = np.column_stack([stable, unstable, generator.normal(size=len(y))])
    return X, y, np.column_stack([1 - p, p]), np.arange(n_home), np.arange(n_home, len(y))


def test_score_is_the_mistaken_halfs_covariance() -> None:
    """With true probabilities and equal labels, Σ x·(y − p) = 2·(1 − α)·Cov in the soft mistaken half."""
    X, y, probabilities, _, away = world(10, 4000, (0.1, 0.3))
    p = probabilities[away, 1]
    weights = np.where(y[away] == 1, 1 - p, p)
    share = weights / weights.sum()
    x = X[away, 1]
    signed = (share * x * (2 * y[away] - 1)).sum()
    assert (x * (y[away] - p)).mean() == pytest.approx(weights.mean() * signed, rel=1e-12)


def test_the_unstable_column_stands_out() -> None:
    """The flipped column is strongest; the stable one follows it among the mistakes, the noise column does not."""
    X, y, probabilities, home, away = world(4000, 4000, (0.1, 0.3))
    scores = contrast(*make_sides(X, y, probabilities, None, home, away, 1))
    assert scores.statistic[1] < -10
    assert 3 < scores.statistic[0] < -scores.statistic[1]
    assert abs(scores.statistic[2]) < 3
    assert scores.p_values[1] < 1e-12


def test_named_columns_explain_their_copies() -> None:
    """Once a column is named, its copy is redundant and the stable column has nothing left to show."""
    X, y, probabilities, home, away = world(4000, 4000, (0.1, 0.3))
    X = np.column_stack([X, 1 - X[:, 1]])
    scores = contrast(*make_sides(X, y, probabilities, None, home, away, 1), named=[1])
    assert scores.redundant.tolist() == [False, True, False, True, False]
    assert np.isnan(scores.statistic[[1, 3]]).all()
    assert np.abs(scores.statistic[[0, 2]]).max() < 3


def test_sparse_and_dense_columns_agree() -> None:
    """The same numbers come out of either kind of matrix."""
    X, y, probabilities, home, away = world(300, 400, (0.1, 0.3))
    X = (X > 0.5).astype(float)
    dense = contrast(*make_sides(X, y, probabilities, None, home, away, 1), named=[0])
    sparse = contrast(*make_sides(sp.csr_array(X), y, probabilities, None, home, away, 1), named=[0])
    assert sparse.statistic[1:] == pytest.approx(dense.statistic[1:], nan_ok=True)
    for kind in (X, sp.csr_array(X)):
        sides = make_sides(kind, y, probabilities, None, home, away, 1)
        drawn = permuted_statistics(*sides, 50, np.random.default_rng(0))
        assert drawn.shape == (50, 4)  # the last column is the judge's log-odds
        assert drawn.mean() == pytest.approx(0.8, abs=0.15)  # of |N(0, 1)|


def test_label_shift_is_no_change() -> None:
    """With P(x | y) shared and another prevalence, even a bad judge shows nothing, on average over 60 draws."""
    statistics = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        y = np.concatenate([generator.random(300) < 0.5, generator.random(300) < 0.15]).astype(int)
        X = (2 * y - 1)[:, None] * [1.0, 0.5] + generator.normal(size=(600, 2))
        p = np.full(600, 0.7)  # knows nothing
        sides = make_sides(X, y, np.column_stack([1 - p, p]), None, np.arange(300), np.arange(300, 600), 1)
        statistics.append(contrast(*sides).statistic[:2])
    spread = np.std(statistics, axis=0)
    assert np.abs(np.mean(statistics, axis=0)).max() < 0.4
    assert (spread > 0.75).all()
    assert (spread < 1.25).all()


def test_judges_that_disagree_with_themselves_count_for_less() -> None:
    """Spread among the fold classifiers is part of the standard error."""
    X, y, probabilities, home, away = world(400, 400, (0.1, 0.3))
    alone = contrast(*make_sides(X, y, probabilities, None, home, away, 1))
    tilt = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])[:, None] * X[:, 1]
    p = np.clip(probabilities[None, :, 1] + tilt, 0.01, 0.99)
    folds = np.stack([1 - p, p], axis=-1)
    shaky = contrast(*make_sides(X, y, probabilities, folds, home, away, 1))
    assert shaky.standard_error[1] > 1.5 * alone.standard_error[1]


def test_labels_that_one_side_lacks_are_left_out() -> None:
    """A class that only the home environment has cannot be compared, and does not break the comparison."""
    generator = np.random.default_rng(0)
    y = np.concatenate([generator.integers(3, size=300), generator.integers(2, size=300)])
    probabilities = generator.dirichlet(np.ones(3), size=600)
    home, away = make_sides(np.eye(600, 2), y, probabilities, None, np.arange(300), np.arange(300, 600), 1)
    assert set(home.labels) == set(away.labels) == {0, 1}
    assert home.weights.sum() == pytest.approx(1.0)


def test_columns_that_hardly_vary_are_not_compared() -> None:
    """A column needs five rows apart from its most common value on both sides."""
    X, y, probabilities, home, away = world(200, 200, (0.1, 0.3))
    X[home, 2] = 0.0
    assert rows_apart(X[home]).tolist() == [200, min((X[home, 1] == 0).sum(), (X[home, 1] == 1).sum()), 0]
    assert rows_apart(sp.csr_array(np.eye(4, 2))).tolist() == [1, 1]
    assert np.isnan(contrast(*make_sides(X, y, probabilities, None, home, away, 1)).statistic[2])


def test_correlations_match_one_at_a_time() -> None:
    """All columns at once, dense or sparse, equal the plain weighted correlation."""
    generator = np.random.default_rng(0)
    X, target, weights = generator.normal(size=(50, 4)), generator.integers(2, size=50), generator.random(50)
    X[:, 3] = 2.0
    expected = [correlation(X[:, column], target, weights) for column in range(3)]
    for values in (X, sp.csr_array(X)):
        found = weighted_correlations(values, target.astype(float), weights)
        assert found[:3] == pytest.approx(expected)
        assert np.isnan(found[3])
    assert np.isnan(weighted_correlations(X, target.astype(float), np.zeros(50))).all()


def test_half_correlations_of_a_sure_judge() -> None:
    """A judge that follows x2 alone: soft and hard halves have correlations near +1 and −1, as in the toy example."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=2000)
    x2 = np.where(generator.random(2000) < 0.2, 1 - y, y)
    p = np.where(x2 == 1, 0.999, 0.001)
    seen = half_correlations(
        x2[:, None].astype(float), y, np.column_stack([1 - p, p]), np.arange(1000), np.arange(1000, 2000), 1
    )
    assert seen.environment[0] == pytest.approx(0.6, abs=0.05)
    assert (seen.correct_hard[0], seen.mistaken_hard[0]) == (pytest.approx(1), pytest.approx(-1))
    assert seen.correct_soft[0] > 0.99
    assert seen.mistaken_soft[0] < -0.99


def test_effective_size_is_kishs() -> None:
    """Equal weights count fully, one heavy row counts as one."""
    assert effective_size(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == 1.0
    assert effective_size(np.zeros(3)) == 0.0
