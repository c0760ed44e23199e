import itertools

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from holdfast.environments import Group
from holdfast.exceptions import InputError, LabelsError
from holdfast.metrics import (
    accuracy_by_group,
    auroc,
    auroc_interval,
    average_interval,
    brier_score,
    calibration_error,
    correlation,
    difference_interval,
    exact_interval,
    group_correlation,
    label_attribute_groups,
    log_loss,
    prevalence,
    score_groups,
)


def by_counts(hits, sizes):
    """Return truth, predictions and groups with `hits` of `sizes` rows correct."""
    truth = np.ones(sum(sizes), dtype=int)
    predicted = np.concatenate([np.arange(n) < k for k, n in zip(hits, sizes, strict=True)]).astype(int)
    bounds = np.cumsum([0, *sizes])
    return truth, predicted, [Group(f"g{i}", np.arange(bounds[i], bounds[i + 1])) for i in range(len(sizes))]


def test_accuracy_by_group_uses_weights_and_is_nan_without_rows():
    """Rows count by their weights, overlap is allowed, and an empty group has no accuracy."""
    groups = [
        Group("half", np.array([0, 1])),
        Group("weighted", np.array([0, 1]), np.array([3.0, 1.0])),
        Group("empty", np.array([], dtype=int)),
    ]
    np.testing.assert_allclose(accuracy_by_group(["a", "b"], ["a", "a"], groups), [0.5, 0.75, np.nan])


def test_label_attribute_groups_are_the_nonempty_cells():
    """Only cells that hold a row become groups, with names that say which cell."""
    groups = label_attribute_groups([0, 0, 1], ["f", "m", "m"], name="gender")
    assert [(g.name, g.rows.tolist()) for g in groups] == [
        ("label=0, gender=f", [0]),
        ("label=0, gender=m", [1]),
        ("label=1, gender=m", [2]),
    ]


def test_worst_and_average_group_accuracy_hand_worked():
    """Groups (0,f) 1/2, (0,m) 1/1, (1,m) 2/3: worst 1/2, average 13/18."""
    y_true = [0, 0, 0, 1, 1, 1]
    attribute = ["f", "f", "m", "m", "m", "m"]
    y_pred = [0, 1, 0, 1, 1, 0]
    scores = score_groups(y_true, y_pred, label_attribute_groups(y_true, attribute))
    assert scores.worst.value == 0.5
    assert scores.average.value == pytest.approx(13 / 18)


def test_exact_interval_known_values():
    """0/10, 5/10 and 10/10 at 95 % as printed in textbooks; without a row nothing is known."""
    low, high = exact_interval([0, 5, 10, 0], [10, 10, 10, 0])
    np.testing.assert_allclose(low, [0.0, 0.1871, 0.6915, 0.0], atol=5e-5)
    np.testing.assert_allclose(high, [0.3085, 0.8129, 1.0, 1.0], atol=5e-5)


def test_score_groups_values_names_and_sizes():
    """The worst score is the lowest group's, the average weighs groups alike, empty groups are left out."""
    truth, predicted, groups = by_counts([9, 1], [10, 4])
    scores = score_groups(truth, predicted, [*groups, Group("empty", np.array([], dtype=int))])
    assert [(s.name, s.value, s.n_rows) for s in scores.groups] == [("g0", 0.9, 10), ("g1", 0.25, 4)]
    assert (scores.worst.name, scores.worst.value, scores.worst.n_rows) == ("g1", 0.25, 4)
    assert scores.average.value == pytest.approx(0.575)
    assert scores.average.low < 0.575 < scores.average.high


def test_score_groups_have_width_when_every_group_is_perfect():
    """Three rows, all correct, do not prove an accuracy of one."""
    scores = score_groups(*by_counts([3, 2], [3, 2]))
    assert scores.worst.value == 1.0
    assert scores.worst.low == pytest.approx(0.158, abs=1e-3)  # exact for 2 of 2
    assert scores.worst.high == 1.0
    assert scores.average.low < 0.7
    assert scores.average.high == 1.0


def test_score_groups_bounds_one_group_alike():
    """With one group the worst group and the average are that group."""
    scores = score_groups(*by_counts([7], [10]))
    low, high = exact_interval([7], [10])
    for score in (scores.groups[0], scores.worst, scores.average):
        assert (score.low, score.high) == (float(low[0]), float(high[0]))


@pytest.mark.parametrize(("size", "accuracy"), [(3, 0.95), (30, 0.995), (8, 0.5), (200, 0.999)])
def test_the_interval_of_one_group_covers_its_level(size, accuracy):
    """The probability, summed over all outcomes, that the interval holds the true accuracy is 95 % or more."""
    hits = np.arange(size + 1)
    low, high = exact_interval(hits, np.full(size + 1, size))
    assert binom.pmf(hits, size, accuracy)[(low <= accuracy) & (accuracy <= high)].sum() >= 0.95


@pytest.mark.parametrize(
    ("accuracies", "sizes"),
    [((0.9,) * 40, (5,) * 40), ((0.9,) * 4, (30,) * 4), ((0.95, 0.9, 0.6), (200, 50, 12)), ((0.98,) * 2, (40, 12))],
)
def test_the_interval_of_the_worst_group_covers_its_level(accuracies, sizes):
    """In 400 draws it holds the lowest true accuracy 95 % of the time or more, also where many groups are alike."""
    held = 0
    for hits in np.random.default_rng(3).binomial(sizes, accuracies, size=(400, len(sizes))):
        low, _ = exact_interval(hits, sizes)
        worst = score_groups(*by_counts(hits, sizes)).worst
        assert worst.low == low.min()
        held += worst.low <= min(accuracies) <= worst.high
    assert held >= 380


def average_coverage(accuracies, sizes):
    """Return the exact probability that the average's interval of two groups holds the true average."""
    first, second = (binom.pmf(np.arange(n + 1), n, p) for n, p in zip(sizes, accuracies, strict=True))
    truth, total = np.mean(accuracies), 0.0
    for a, b in itertools.product(range(sizes[0] + 1), range(sizes[1] + 1)):
        if first[a] * second[b] > 1e-5:
            low, high = average_interval([a, b], sizes)
            assert low <= np.mean([a / sizes[0], b / sizes[1]]) <= high
            total += first[a] * second[b] * (low <= truth <= high)
    return total


@pytest.mark.parametrize("accuracies", [(0.9, 0.9), (0.95, 0.5), (0.55, 1.0), (0.999, 0.9), (0.2, 0.3)])
@pytest.mark.parametrize("sizes", [(5, 200), (3, 17), (1, 2), (12, 12)])
def test_the_interval_of_the_average_covers_its_level(accuracies, sizes):
    """Groups of 200 and 5 rows, and others: summed over all outcomes the true average is held in 95 % or more."""
    assert average_coverage(accuracies, sizes) >= 0.95
    assert average_coverage(accuracies[::-1], sizes) >= 0.95


def test_the_interval_of_the_average_known_values():
    """Where every row is right Chernoff's bound is exact: the least favorable shares have a chance of 2.5 %."""
    low, high = average_interval([3, 2], [3, 2])
    # (1 - p)^3 (1 - q)^2 = 0.025 with p + q largest is reached at 3 / (1 - p) = 2 / (1 - q)
    miss = np.exp((np.log(0.025) - 3 * np.log(1.5)) / 5)  # 1 - q
    assert low == pytest.approx(1 - (2 - 2.5 * miss) / 2, abs=1e-4)
    assert high == 1.0
    assert average_interval([12, 12], [24, 24]) == exact_interval(24, 48)


def test_the_interval_of_the_average_narrows_with_rows_and_level():
    """A hundred times the rows: about a tenth of the width. A lower level: a narrower interval inside the other."""
    low, high = average_interval([90, 45], [100, 60])
    far_low, far_high = average_interval([9000, 4500], [10000, 6000])
    assert 8 < (high - low) / (far_high - far_low) < 12
    half_low, half_high = average_interval([90, 45], [100, 60], level=0.5)
    assert low < half_low < 0.825 < half_high < high


def test_the_interval_of_the_average_takes_many_groups():
    """Fifty thousand groups of 1 to 400 rows take a moment, not a minute."""
    sizes = np.arange(50_000) % 400 + 1
    low, high = average_interval(np.floor(sizes * 0.9), sizes)
    mean = np.mean(np.floor(sizes * 0.9) / sizes)
    assert low < mean < high
    assert high - low < 0.01


def test_score_groups_refuses_no_rows():
    """Nothing to score is an error, not a nan."""
    with pytest.raises(InputError, match="groups has no row at all"):
        score_groups([1], [1], [])


def test_difference_interval_pairs_the_rows():
    """40 rows gained and 10 lost among 1,000 are a clear gain of 0.03, though each accuracy alone is uncertain."""
    truth = np.ones(1000, dtype=int)
    first = np.r_[np.ones(840), np.zeros(160)]
    second = np.r_[np.zeros(40), np.ones(800), np.ones(10), np.zeros(150)]
    value, low, high = difference_interval(truth, first, second)
    assert value == pytest.approx(0.03)
    assert 0.01 < low < 0.03 < high < 0.056
    assert (-high, -low) == pytest.approx(difference_interval(truth, second, first)[1:])


def test_difference_interval_has_width_when_two_classifiers_agree():
    """Five rows on which two classifiers agree do not prove them equal."""
    value, low, high = difference_interval([1] * 5, [1] * 5, [1] * 5)
    assert value == 0.0
    assert low == pytest.approx(-(1 - 0.0125**0.2))
    assert high == -low


@pytest.mark.parametrize("n_rows", [5, 100, 1000])
@pytest.mark.parametrize(("gained", "lost"), [(0.002, 0.0), (0.02, 0.02), (0.3, 0.1), (0.0, 0.6)])
def test_the_interval_of_a_difference_covers_its_level(n_rows, gained, lost):
    """Over 1,000 draws the true difference is held in 95 % or more."""
    held = 0
    for a, b, _ in np.random.default_rng(5).multinomial(n_rows, [gained, lost, 1 - gained - lost], size=1000):
        first, second = np.ones(n_rows), np.ones(n_rows)
        second[:a] = 0
        first[a : a + b] = 0
        value, low, high = difference_interval(np.ones(n_rows), first, second)
        assert low <= value <= high
        held += low <= gained - lost <= high
    assert held >= 950


def test_correlation_matches_numpy_and_repeated_rows():
    """Without weights it is numpy's; an integer weight counts as that many rows."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 50))
    weights = generator.integers(1, 4, size=50)
    assert correlation(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert correlation(x, y, weights) == pytest.approx(correlation(np.repeat(x, weights), np.repeat(y, weights)))


@pytest.mark.parametrize(
    ("x", "expected"), [([0.1] * 6, np.nan), ([0.0] * 6, np.nan), ([1e200, 0, 1e200, 0, 1e200, 0], 1.0)]
)
def test_correlation_of_constants_and_huge_numbers(x, expected):
    """A constant has no correlation, not a rounding error's; large numbers do not overflow."""
    np.testing.assert_allclose(correlation(x, [1, 0, 1, 0, 1, 0]), expected)


def test_correlation_without_weight_is_nan():
    """Weights that sum to zero describe no rows."""
    assert np.isnan(correlation([0, 1], [0, 1], [0.0, 0.0]))


def test_correlation_refuses_different_lengths():
    """Lengths that differ are named."""
    with pytest.raises(InputError, match="given 2, 3 and 2 values"):
        correlation([0, 1], [0, 1, 2])


def test_group_correlation_flips_between_halves():
    """In the correct half x equals y (+1), in the mistaken half it is the opposite (−1)."""
    x, y = np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])
    assert group_correlation(x, y, Group("correct", np.array([0, 1]))) == pytest.approx(1.0)
    assert group_correlation(x, y, Group("mistaken", np.array([2, 3]))) == pytest.approx(-1.0)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probability_scores_match_scikit_learn(n_classes):
    """AUROC (with ties), log loss and Brier agree with independent implementations."""
    generator = np.random.default_rng(1)
    codes = generator.integers(n_classes, size=200)
    probabilities = generator.integers(1, 5, size=(200, n_classes)).astype(float)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    scores = probabilities[:, 1] if n_classes == 2 else probabilities
    assert auroc(codes, probabilities) == pytest.approx(roc_auc_score(codes, scores, multi_class="ovr"))
    weights = generator.integers(3, size=200)
    weighted = roc_auc_score(codes, scores, multi_class="ovr", sample_weight=weights)
    assert auroc(codes, probabilities, weights) == pytest.approx(weighted)
    assert log_loss(codes, probabilities) == pytest.approx(sklearn_log_loss(codes, probabilities))
    assert brier_score(codes, probabilities) == pytest.approx(
        brier_score_loss(codes, probabilities, scale_by_half=True, labels=range(n_classes))
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_of_the_auroc_cover_it(n_classes):
    """The area of many rows lies in the interval of a few, about 19 times in 20; without two classes there is none."""

    def answers(generator, n_rows):
        codes = generator.integers(n_classes, size=n_rows)
        scores = np.exp(generator.normal(size=(n_rows, n_classes)) + 1.2 * np.eye(n_classes)[codes])
        return codes, scores / scores.sum(axis=1, keepdims=True)

    truth = auroc(*answers(np.random.default_rng(0), 50_000))
    found = [auroc_interval(*answers(np.random.default_rng(seed), 60)) for seed in range(1, 201)]
    assert np.mean([interval.low <= truth <= interval.high for interval in found]) >= 0.93
    assert np.mean([interval.high - interval.low for interval in found]) < 0.3
    assert np.isnan(auroc_interval([1, 1], [[0.5, 0.5], [0.1, 0.9]]).low)


def test_auroc_without_two_classes_is_nan():
    """One class alone has no order to judge; with three columns the absent class is left out."""
    assert np.isnan(auroc([1, 1], [[0.5, 0.5], [0.1, 0.9]]))
    assert auroc([0, 1], [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]]) == 1.0


def test_log_loss_of_a_certain_mistake_is_finite():
    """Probability zero for the true class is clipped at 1e-15."""
    assert log_loss([0], [[0.0, 1.0]]) == pytest.approx(-np.log(1e-15))


def test_calibration_error_hand_worked():
    """Bins of ten rows at 0.9 with 8 right and ten at 0.6 with 6 right: (10 × 0.1 + 10 × 0) / 20."""
    probabilities = np.repeat([[0.1, 0.9], [0.4, 0.6]], 10, axis=0)
    codes = np.r_[np.arange(10) < 8, np.arange(10) < 6].astype(int)
    assert calibration_error(codes, probabilities) == pytest.approx(0.05)
    assert calibration_error([1], [[0.0, 1.0]]) == 0.0


def test_prevalence_counts_and_names_unlike_environments():
    """Shares by environment; an environment is unlike when it is off by more than threshold and noise."""
    y = ["no"] * 90 + ["yes"] * 10 + ["no"] * 50 + ["yes"] * 50 + ["yes"]
    environments = ["a"] * 100 + ["b"] * 100 + ["c"]
    table = prevalence(y, environments)
    assert table.classes == ("no", "yes")
    np.testing.assert_array_equal(table.counts, [[90, 10], [50, 50], [0, 1]])
    np.testing.assert_allclose(table.shares[:, 1], [0.1, 0.5, 1.0])
    assert table.unlike() == ("a", "b")  # c is further off, but one row says nothing
    assert table.unlike(threshold=0.3) == ()


def test_labels_and_predictions_must_match():
    """Lengths that differ are named with what to pass."""
    with pytest.raises(
        LabelsError, match=r"y_true has shape \(2,\) and y_pred \(1,\). Pass one true and one predicted"
    ):
        accuracy_by_group([0, 1], [0], [])


def test_codes_must_number_the_columns():
    """A code beyond the columns, or no rows at all, is refused."""
    with pytest.raises(LabelsError, match="codes run from 0 to 2, but probabilities has 2 columns"):
        log_loss([0, 2], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(InputError, match="one column for each class"):
        log_loss([], np.empty((0, 2)))


def test_weights_need_not_sum_to_one():
    """Small weights are weights all the same."""
    assert correlation([0, 1, 1], [0, 1, 0], [0.1, 0.1, 0.1]) == pytest.approx(0.5)


def test_calibration_is_judged_in_fifteen_bins():
    """Rows of neighboring bins do not make up for one another, the last bin included; fifteen is the default."""
    confidence = np.array([0.9, 0.9, 0.97, 0.97])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    codes = np.array([0, 0, 1, 0])  # the first two are right too often, the last two too seldom
    assert calibration_error(codes, probabilities) == pytest.approx((0.2 + 0.94) / 4)
    spread = np.linspace(0.5, 1.0, 40)
    probabilities, codes = np.stack([spread, 1 - spread], axis=1), np.arange(40) % 2
    assert calibration_error(codes, probabilities) == calibration_error(codes, probabilities, n_bins=15)
    assert calibration_error(codes, probabilities) != calibration_error(codes, probabilities, n_bins=16)
