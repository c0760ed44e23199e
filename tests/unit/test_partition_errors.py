"""Halves of numbers: by a threshold, by a share of the errors, and by their likelihood."""

import numpy as np
import pytest

from holdfast.environments import split_environments
from holdfast.partition import error_matrix, partition_by_error, partition_by_likelihood

SITES = split_environments(list("AAABBB"), 6)
NUMBERS = np.array([1.0, 2.0, 4.0, 0.0, 1.0, 3.0])
GUESSES = np.array([[1.5, 2.5, 3.0, 1.0, 1.5, 1.0], [0.0, 0.0, 0.0, 0.5, 0.5, 2.0]])


def test_targets_are_cut_by_the_squared_error():
    """Rows within the threshold, its own value included, are correct; each judge cuts the other site only."""
    by_a, by_b = partition_by_error(GUESSES, NUMBERS, SITES, threshold=1.0)
    assert [(p.judge, p.judged) for p in (by_a, by_b)] == [("A", "B"), ("B", "A")]
    assert (by_a.correct.tolist(), by_a.mistaken.tolist()) == ([3, 4], [5])  # squared errors 1, 0.25, 4
    assert (by_b.correct.tolist(), by_b.mistaken.tolist()) == ([0], [1, 2])  # 1, 4, 16
    assert (by_a.accuracy, by_b.accuracy) == (pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_without_a_threshold_a_share_of_the_errors_is_correct():
    """Three quarters of each judged site by default."""
    sites = split_environments(list("AAAABBBB"), 8)
    errors = np.array([1.0, 2.0, 3.0, 4.0])
    predictions = np.tile(errors, (2, 2))
    by_a, _ = partition_by_error(predictions, np.zeros(8), sites)
    assert (by_a.correct.tolist(), by_a.mistaken.tolist()) == ([4, 5, 6], [7])
    by_a, _ = partition_by_error(predictions, np.zeros(8), sites, quantile=0.5)
    assert by_a.correct.tolist() == [4, 5]


def test_targets_are_cut_softly_by_the_likelihood():
    """The weight of a row is exp(-error²/2s²), s² the judge's squared error at home, of the rows that it has there."""
    guesses = np.array([[2.0, np.nan, 2.0, 1.0, 1.5, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0, 3.0]])
    by_a, by_b = partition_by_likelihood(guesses, NUMBERS, SITES)
    own = ((2.0 - 1.0) ** 2 + (2.0 - 4.0) ** 2) / 2
    expected = np.exp(-np.array([1.0, 0.25, 4.0]) / (2 * own))
    np.testing.assert_allclose(by_a.correct_weights, expected)
    np.testing.assert_allclose(by_a.mistaken_weights, 1 - expected)
    assert by_a.accuracy == pytest.approx(expected.mean())
    assert (by_a.judge, by_a.judged) == ("A", "B")
    assert by_a.correct.tolist() == by_a.mistaken.tolist() == [3, 4, 5]
    assert by_b.correct_weights.tolist() == [0.0, 0.0, 0.0]  # no error at home: every other one is infinitely large


def test_errors_of_every_judge_everywhere():
    """Rows are judges, columns the judged sites."""
    np.testing.assert_allclose(
        error_matrix(GUESSES, NUMBERS, SITES),
        [[(0.25 + 0.25 + 1) / 3, (1 + 0.25 + 4) / 3], [7.0, (0.25 + 0.25 + 1) / 3]],
    )


def test_weights_reach_the_second_stage_of_regression():
    """Rows without weight move neither the quantile nor what the judge's own error is."""
    rng = np.random.default_rng(0)
    y, predictions = rng.normal(size=60), rng.normal(size=(2, 60))
    kept = np.arange(60) % 3 != 0
    y[~kept] = 100.0
    sites, n_kept = np.repeat(["a", "b"], 30), int(kept.sum())
    whole, part = split_environments(sites, 60), split_environments(sites[kept], n_kept)
    for cut, options in ((partition_by_error, {"threshold": None}), (partition_by_likelihood, {})):
        weighted = cut(predictions, y, whole, sample_weight=kept.astype(float), **options)
        plain = cut(predictions[:, kept], y[kept], part, sample_weight=np.ones(n_kept), **options)
        assert [p.accuracy for p in weighted] == pytest.approx([p.accuracy for p in plain])


@pytest.mark.parametrize(("quantile", "n_correct"), [(0.3, 3), (0.5, 4), (1.0, 4)])
def test_the_share_of_errors_counts_weights(quantile, n_correct):
    """A heavy row fills a larger share, however small the sum of the weights; the largest error is within all."""
    sites = split_environments(list("AAAABBBB"), 8)
    predictions = np.tile([1.0, 2.0, 3.0, 4.0], (2, 2))
    weights = np.tile([0.05, 0.05, 0.05, 0.25], 2)
    by_a, _ = partition_by_error(predictions, np.zeros(8), sites, quantile=quantile, sample_weight=weights)
    assert len(by_a.correct) == n_correct
