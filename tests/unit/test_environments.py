"""Environments, partitions and groups."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from holdfast.environments import (
    MAX_ENVIRONMENTS,
    Environment,
    Group,
    Partition,
    check_pairs,
    cross_groups,
    listed,
    merge_small_environments,
    split_environments,
    take_rows,
)
from holdfast.exceptions import EnvironmentsError, SmallGroupWarning


def rows_by_name(environments):
    """Return {name: rows} for easy comparison."""
    return {environment.name: environment.rows.tolist() for environment in environments}


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b", "a"],
        np.array(["b", "a", "b", "a"], dtype=object),
        pd.Series(["b", "a", "b", "a"], index=[9, 8, 7, 6]),
        pd.Categorical(["b", "a", "b", "a"], categories=["z", "b", "a"]),
        pl.Series(["b", "a", "b", "a"]),
        pd.DataFrame({"site": ["b", "a", "b", "a"]}),
    ],
)
def test_labels_of_any_container_split_the_rows(labels):
    """Lists, arrays, series, categories and one-column frames give the same environments in label order."""
    assert rows_by_name(split_environments(labels, 4)) == {"a": [1, 3], "b": [0, 2]}


@pytest.mark.parametrize("labels", [[2, 1, 2], [True, False, True], [2.5, 1.5, 2.5]])
def test_numbers_are_labels_too(labels):
    """Integers, booleans and floats are ordered by value and keep their type as label."""
    first, second = split_environments(labels, 3)
    assert first.rows.tolist() == [1]
    assert second.rows.tolist() == [0, 2]
    assert second.label == labels[0]


def test_dates_are_labels():
    """A column of days gives one environment for each day."""
    days = pd.to_datetime(["2024-02-01", "2024-01-01", "2024-02-01"])
    assert [len(environment) for environment in split_environments(days, 3)] == [1, 2]


def test_several_columns_are_crossed():
    """Two columns make one environment for each pair of values that occurs."""
    frame = pd.DataFrame({"site": ["a", "a", "b"], "year": [1, 2, 2]})
    assert rows_by_name(split_environments(frame, 3)) == {"a × 1": [0], "a × 2": [1], "b × 2": [2]}


def test_no_labels_is_one_environment():
    """environments=None puts all rows into one environment."""
    (only,) = split_environments(None, 3)
    assert only.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("labels", "n_rows", "message"),
    [
        (
            ["a", "b"],
            3,
            r"environments has 2 labels for 3 rows\. Pass one label for each row, for example",
        ),
        (["a", None, "b"], 3, r"environments is missing \(NaN or None\) in 1 of 3 rows\. Drop those rows"),
        ([1.0, np.nan, np.nan], 3, r"environments is missing \(NaN or None\) in 2 of 3 rows"),
        (pd.array([1, None, 2], dtype="Int64"), 3, r"environments is missing \(NaN or None\) in 1 of 3 rows"),
        (np.array(["2024-01-01", "NaT"], dtype="M8[D]"), 2, r"missing \(NaN or None\) in 1 of 2 rows"),
        (np.zeros((2, 2, 2)), 2, r"environments has shape \(2, 2, 2\), but one label for each row was asked for"),
        (
            np.array(["a", 1], dtype=object),
            2,
            r"environments mixes labels of types int, str, which have no",
        ),
        (np.array([1, 1.0, "1"], dtype=object)[:2], 3, r"environments has 2 labels for 3 rows"),
    ],
)
def test_bad_labels_are_refused(labels, n_rows, message):
    """Lengths that differ, missing labels, wrong shapes and mixed types are named with advice."""
    with pytest.raises(EnvironmentsError, match=message):
        split_environments(labels, n_rows)


def test_permuted_rows_permute_environments():
    """The environments do not depend on the order of the rows."""
    labels = np.array(list("abcabc"))
    order = np.random.default_rng(0).permutation(6)
    for one, other in zip(split_environments(labels, 6), split_environments(labels[order], 6), strict=True):
        assert one.name == other.name
        assert sorted(order[other.rows].tolist()) == one.rows.tolist()


def test_small_environments_are_merged_and_named():
    """Environments below the minimum become one, and the warning names them."""
    split = split_environments(list("aaaabbc"), 7)
    with pytest.warns(SmallGroupWarning, match=r"2 of 3 environments have fewer than 4 rows .* into one: b, c\."):
        merged = merge_small_environments(split, 4)
    assert rows_by_name(merged) == {"a": [0, 1, 2, 3], "b, c (2 small environments)": [4, 5, 6]}
    with pytest.warns(SmallGroupWarning, match=r"1 of 3 environments has fewer than 2 rows: c\."):
        assert merge_small_environments(split, 2) == split


def test_very_many_environments_of_one_row_become_one():
    """One label for each row is merged in a moment instead of making pairs of pairs."""
    split = split_environments(np.arange(200_000), 200_000)
    with pytest.warns(SmallGroupWarning, match="200000 of 200000 environments"):
        (merged,) = merge_small_environments(split, 5)
    assert len(merged) == 200_000


def test_too_many_environments_are_refused():
    """Beyond the supported number the message says what to do."""
    labels = np.repeat(np.arange(MAX_ENVIRONMENTS + 1), 5)
    with pytest.raises(EnvironmentsError, match="environments has 301 different labels; .* Use a coarser label"):
        check_pairs(split_environments(labels, len(labels)))


def test_group_weights():
    """A group's weights multiply with sample weights; the effective size is Kish's."""
    group = Group("g", np.array([1, 3]), np.array([1.0, 3.0]))
    assert group.effective_size() == pytest.approx(16 / 10)
    assert group.probabilities().tolist() == [0.25, 0.75]
    assert group.weighted(np.array([0.0, 2.0, 0.0, 1.0])).weights.tolist() == [2.0, 3.0]
    assert Group("h", np.array([0, 1])).weighted(None).weights is None
    assert Group("h", np.array([0, 1])).effective_size() == 2.0


def test_partition_gives_two_named_groups():
    """The correct half comes first, and the names say who judged whom."""
    correct, mistaken = Partition("A", "B", np.array([1]), np.array([2, 3])).groups()
    assert (correct.name, correct.rows.tolist()) == ("B judged by A: correct", [1])
    assert (mistaken.name, mistaken.rows.tolist()) == ("B judged by A: mistaken", [2, 3])


def test_cross_groups_leaves_out_empty_cells():
    """Only combinations that occur become groups."""
    groups = cross_groups(["e", "y"], [np.array([0, 1, 0]), np.array([1, 0, 1])], [["E1", "E2"], ["no", "yes"]])
    assert {group.name: group.rows.tolist() for group in groups} == {"e=E1, y=yes": [0, 2], "e=E2, y=no": [1]}


def test_take_rows_of_every_container():
    """Arrays, memory maps, sparse matrices, frames and lists give the same rows."""
    dense = np.arange(6.0).reshape(3, 2)
    rows = np.array([2, 0])
    expected = dense[rows].tolist()
    assert take_rows(dense, rows).tolist() == expected
    assert take_rows(sp.csr_array(dense), rows).toarray().tolist() == expected
    assert take_rows(pd.DataFrame(dense), rows).to_numpy().tolist() == expected
    assert take_rows(pl.DataFrame(dense), rows).to_numpy().tolist() == expected
    assert take_rows(["x", "y", "z"], rows) == ["z", "x"]


def test_listed_cuts_long_lists():
    """A message names five and counts the rest."""
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert listed(["a"]) == "a"


def test_environment_has_a_length_and_a_name():
    """An environment counts its rows and reads its label as text."""
    environment = Environment(2019, np.array([3, 4]))
    assert len(environment) == 2
    assert environment.name == "2019"


def test_no_rows_are_refused():
    """Labels of no rows have no environments."""
    with pytest.raises(EnvironmentsError, match=r"^X has no rows\. Pass at least one"):
        split_environments([], 0)


def test_groups_know_their_size_and_weights():
    """Rows are counted; equal weights are as many rows; weights of one row only are one; none at all are none."""
    plain = Group("g", np.arange(4))
    assert (len(plain), plain.effective_size()) == (4, 4.0)
    assert plain.probabilities().tolist() == [0.25] * 4
    assert Group("g", np.arange(0)).probabilities().tolist() == []
    light = Group("g", np.arange(2), np.array([0.2, 0.2]))
    assert (len(light), light.effective_size()) == (2, pytest.approx(2.0))
    assert light.probabilities().tolist() == [0.5, 0.5]
    assert Group("g", np.arange(2), np.array([3.0, 0.0])).effective_size() == 1.0
    assert Group("g", np.arange(2), np.zeros(2)).effective_size() == 0.0


def test_weights_of_rows_and_of_a_group_multiply():
    """A group without weights takes those of its rows; none change nothing."""
    weights = np.array([1.0, 2.0, 3.0])
    group = Group("g", np.array([0, 2]), np.array([0.5, 0.5]))
    assert group.weighted(None) is group
    assert group.weighted(weights).weights.tolist() == [0.5, 1.5]
    assert Group("h", np.array([1, 2])).weighted(weights).weights.tolist() == [2.0, 3.0]
    assert len(split_environments(["a", "a"], 2)[0]) == 2


def test_labels_that_cannot_be_compared_or_read():
    """Rows of different lengths, and numbers that refuse to be ordered, are named."""
    with pytest.raises(EnvironmentsError, match=r"^environments cannot be read as one label for each row"):
        split_environments([[1], [1, 2]], 2)
    with pytest.raises(EnvironmentsError, match=r"^environments mixes labels of types Decimal"):
        split_environments([decimal.Decimal("sNaN"), decimal.Decimal(1)], 2)


def test_a_part_of_a_group_keeps_name_and_weights():
    """Rows are taken with their weights, and rows that weigh nothing can be left out."""
    group = Group("g", np.array([3, 5, 8]), np.array([1.0, 0.0, 2.0]))
    part = group.part(slice(None, None, 2))
    assert (part.name, part.rows.tolist(), part.weights.tolist()) == ("g", [3, 8], [1.0, 2.0])
    assert group.weighing().rows.tolist() == [3, 8]
    plain = Group("h", np.array([3, 5]))
    assert plain.weighing() is plain
    assert plain.part(np.array([False, True])).weights is None
