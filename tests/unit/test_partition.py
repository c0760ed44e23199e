"""Stage 2."""

import numpy as np
import pytest

from holdfast.environments import Partition, split_environments
from holdfast.exceptions import (
    AllMistakenWarning,
    ConstantJudgeWarning,
    EmptyPartitionWarning,
    InputError,
    SmallGroupWarning,
)
from holdfast.partition import (
    halves_as_groups,
    halves_at_chance,
    partition_by_correctness,
    partition_by_probability,
    warn_of_constant_judges,
)

SITES = split_environments(list("AAABBB"), 6)
Y = np.array([0, 1, 1, 0, 1, 0])
PREDICTIONS = np.array([[-1, -1, -1, 1, 1, 1], [1, 1, 1, -1, -1, -1]])


def test_six_rows_by_hand():
    """Each judge cuts the other site into what it gets right and wrong."""
    by_a, by_b = partition_by_correctness(PREDICTIONS, Y, SITES)
    assert (by_a.judge, by_a.judged, by_a.correct.tolist(), by_a.mistaken.tolist()) == ("A", "B", [4], [3, 5])
    assert (by_b.judge, by_b.judged, by_b.correct.tolist(), by_b.mistaken.tolist()) == ("B", "A", [1, 2], [0])
    assert by_a.accuracy == pytest.approx(1 / 3)


def test_three_environments_make_six_ordered_pairs():
    """Pairs are ordered, and nobody judges itself."""
    sites = split_environments(list("abcabc"), 6)
    partitions = partition_by_correctness(np.zeros((3, 6), dtype=int), np.array([0, 0, 0, 1, 1, 1]), sites)
    assert [(p.judge, p.judged) for p in partitions] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "a"),
        ("b", "c"),
        ("c", "a"),
        ("c", "b"),
    ]


def test_sample_weight_enters_the_accuracy_only():
    """Weights change alpha, not the halves."""
    weights = np.array([1.0, 1.0, 1.0, 0.0, 2.0, 2.0])
    by_a, _ = partition_by_correctness(PREDICTIONS, Y, SITES, sample_weight=weights)
    assert by_a.mistaken.tolist() == [3, 5]
    assert by_a.accuracy == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ({"A": [0] * 6}, r"predictions has judges \['A'\], but the environments are \['A', 'B'\]"),
        ([0] * 6, r"predictions has shape \(6,\), but there are 2 environments and 6 rows"),
        ({"A": [0] * 6, "B": [0] * 5}, r"the predictions of judge 'B' have shape \(5,\), but there are 6 rows"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(predictions, message):
    """A judge too few or a row too few is named."""
    with pytest.raises(InputError, match=message):
        partition_by_correctness(predictions, Y, list("AAABBB"))


def test_soft_halves_of_two_classes_are_proposition_1():
    """With two classes the weights are P(y|x) and 1 - P(y|x), every row in both halves."""
    probabilities = np.full((2, 6, 2), [0.3, 0.7])
    by_a, _ = partition_by_probability(probabilities, Y, SITES)
    assert by_a.correct.tolist() == by_a.mistaken.tolist() == [3, 4, 5]
    np.testing.assert_allclose(by_a.correct_weights, [0.3, 0.7, 0.3])
    np.testing.assert_allclose(by_a.mistaken_weights, [0.7, 0.3, 0.7])
    assert by_a.accuracy == pytest.approx(1.3 / 3)


def test_soft_halves_of_three_classes_cancel_the_judge():
    """The mistaken half weights label c by h(x)/P(c|x): times P the weights are the same for every label."""
    p = np.array([0.2, 0.3, 0.5])
    sites = split_environments(list("aaabbb"), 6)
    labels = np.array([0, 1, 2, 0, 1, 2])
    by_a, _ = partition_by_probability(np.tile(p, (2, 6, 1)), labels, sites)
    np.testing.assert_allclose(by_a.mistaken_weights * p, 1.0 / (1.0 / p).sum())


def test_at_chance_a_judge_is_right_as_often_as_guessing():
    """With K classes correct rows weigh 1/K in all and mistaken ones the rest; sample weights act inside a half."""
    partitions = partition_by_correctness(PREDICTIONS, Y, SITES)
    for partition in halves_at_chance(partitions, 4):
        assert partition.correct_weights.sum() == pytest.approx(1 / 4)
        assert partition.mistaken_weights.sum() == pytest.approx(3 / 4)
    by_a, _ = halves_at_chance(partitions, 2, sample_weight=np.array([1.0, 1, 1, 1, 1, 3]))
    assert by_a.mistaken_weights.tolist() == pytest.approx([1 / 8, 3 / 8])


def test_halves_become_groups_with_weights():
    """Sample weights multiply the soft weights."""
    partition = Partition("a", "b", np.array([0, 1]), np.array([0, 1]), np.array([0.2, 0.8]), np.array([0.8, 0.2]))
    correct, mistaken = halves_as_groups([partition], min_group_size=1, sample_weight=np.array([1.0, 2.0]))
    assert correct.weights.tolist() == [0.2, 1.6]
    assert mistaken.weights.tolist() == [0.8, 0.4]


def test_known_bias_refines_the_halves():
    """Each half is crossed with the group labels."""
    partition = Partition("a", "b", np.array([0, 1, 2]), np.array([3]))
    groups = halves_as_groups([partition], min_group_size=1, group_labels=(np.array([0, 1, 0, 1]), ("old", "new")))
    assert {group.name: group.rows.tolist() for group in groups} == {
        "b judged by a: correct, old": [0, 2],
        "b judged by a: correct, new": [1],
        "b judged by a: mistaken, new": [3],
    }


def test_nobody_mistaken_drops_the_half():
    """Alpha = 1 is a result with a warning."""
    with pytest.warns(EmptyPartitionWarning, match=r"^No row is mistaken \(accuracy 1\) in b judged by a\."):
        groups = halves_as_groups([Partition("a", "b", np.arange(4), np.array([], dtype=int))], min_group_size=1)
    assert [group.name for group in groups] == ["b judged by a: correct"]


def test_everybody_mistaken_keeps_the_environment():
    """Alpha = 0 leaves the whole environment as the mistaken half, with a warning."""
    with pytest.warns(AllMistakenWarning, match=r"^Every row is mistaken \(accuracy 0\) in b judged by a:"):
        groups = halves_as_groups([Partition("a", "b", np.array([], dtype=int), np.arange(4))], min_group_size=1)
    assert [group.name for group in groups] == ["b judged by a: mistaken"]


def test_small_halves_are_dropped_with_their_size():
    """A half below the minimum is named with its number of rows."""
    with pytest.warns(SmallGroupWarning, match=r"below min_group_size=3 .*: b judged by a: mistaken \(1\)\. Lower"):
        groups = halves_as_groups([Partition("a", "b", np.arange(4), np.array([4]))], min_group_size=3)
    assert len(groups) == 1


def test_constant_judge_is_named_with_its_class():
    """A judge that says one class everywhere is reported."""
    with pytest.warns(ConstantJudgeWarning, match=r"classifier of A \(always yes\), B \(always yes\) predicts"):
        warn_of_constant_judges(PREDICTIONS, SITES, np.array(["no", "yes"]))


def test_an_environment_without_weight_has_no_accuracy():
    """Where all rows weigh nothing, alpha is not a number, in both kinds of halves; a weight of one half counts."""
    weights = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    by_a, by_b = partition_by_correctness(PREDICTIONS, Y, SITES, sample_weight=weights)
    assert np.isnan(by_a.accuracy)
    assert by_b.accuracy == pytest.approx(2 / 3)
    probabilities = np.full((2, 6, 2), [0.3, 0.7])
    by_a, _ = partition_by_probability(probabilities, Y, SITES, sample_weight=weights)
    assert np.isnan(by_a.accuracy)
    light = np.array([1.0, 1.0, 1.0, 0.0, 0.5, 0.0])
    assert partition_by_correctness(PREDICTIONS, Y, SITES, sample_weight=light)[0].accuracy == 1.0
    soft, _ = partition_by_probability(probabilities, Y, SITES, sample_weight=light)
    assert soft.accuracy == pytest.approx(0.7)


def test_probabilities_are_normalized_after_the_floor():
    """A judge that is certain keeps its rows in both halves, with weights that still are probabilities."""
    probabilities = np.full((2, 6, 2), [0.0, 4.0])
    by_a, _ = partition_by_probability(probabilities, Y, SITES)
    np.testing.assert_allclose(by_a.correct_weights + by_a.mistaken_weights, 1.0)
    assert by_a.correct_weights.max() <= 1.0
    assert 0 < by_a.correct_weights.min() < 0.01


def test_the_stage_is_logged(caplog):
    """How many partitions of how many environments."""
    with caplog.at_level("INFO", logger="holdfast.partition"):
        partition_by_correctness(PREDICTIONS, Y, SITES)
    assert caplog.messages == ["stage 2: 2 partitions of 2 environments"]


def test_a_half_of_exactly_the_smallest_size_stays():
    """The minimum itself is enough, and nothing is said."""
    partition = Partition("a", "b", np.arange(3), np.arange(3, 6))
    assert len(halves_as_groups([partition], min_group_size=3)) == 2
