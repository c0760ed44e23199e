"""Streams of row numbers."""

import itertools

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from holdfast.environments import Group
from holdfast.exceptions import ParameterError
from holdfast.neural.batches import GroupBatchSampler, GroupStreams
from holdfast.seeding import Seeding

LARGE = Group("large", np.arange(100, 400))
SMALL = Group("small", np.arange(7))
SOFT = Group("soft", np.arange(400, 500), np.arange(100.0))


def test_a_batch_has_no_row_twice_and_a_small_group_is_used_whole():
    """Rows are drawn without replacement inside a batch; a group below the batch size comes whole, in order."""
    streams = GroupStreams([LARGE, SMALL], 50, Seeding(0))
    rows, weights = streams.draw_rows(0)
    assert len(set(rows.tolist())) == 50
    assert set(rows.tolist()) <= set(range(100, 400))
    assert weights is None
    assert streams.draw_rows(1)[0].tolist() == list(range(7))


def test_the_seed_reaches_the_batches():
    """Another seed draws other batches, the same seed the same ones; consecutive batches differ."""
    first, again, other = (GroupStreams([LARGE], 50, Seeding(seed)) for seed in (0, 0, 1))
    rows = first.draw_rows(0)[0]
    assert np.array_equal(rows, again.draw_rows(0)[0])
    assert not np.array_equal(rows, other.draw_rows(0)[0])
    assert not np.array_equal(rows, first.draw_rows(0)[0])


def test_a_groups_stream_does_not_depend_on_the_other_groups():
    """Adding a group, or drawing from it, changes no other group's batches."""
    alone, beside = GroupStreams([LARGE], 50, Seeding(0)), GroupStreams([SOFT, LARGE], 50, Seeding(0))
    beside.draw_rows(0)
    assert np.array_equal(alone.draw_rows(0)[0], beside.draw_rows(1)[0])


def test_groups_of_the_same_name_draw_differently():
    """Two groups with one name do not share a stream."""
    streams = GroupStreams([LARGE, LARGE], 50, Seeding(0))
    assert not np.array_equal(streams.draw_rows(0)[0], streams.draw_rows(1)[0])


def test_the_mean_of_a_soft_groups_batches_is_its_risk():
    """Drawn by weight, the plain mean over batches is the weighted mean; a row of weight zero never comes."""
    streams = GroupStreams([SOFT], 20, Seeding(0))
    losses = np.zeros(500)
    losses[400:] = np.random.default_rng(0).random(100)
    batches = [streams.draw_rows(0)[0] for _ in range(2000)]
    assert np.mean([losses[rows].mean() for rows in batches]) == pytest.approx(
        np.average(losses[400:], weights=SOFT.weights), abs=2e-3
    )
    assert 400 not in set(np.concatenate(batches).tolist())


def test_a_small_soft_group_comes_whole_with_its_weights():
    """Its weighted mean is the exact risk."""
    rows, weights = GroupStreams([SOFT], 100, Seeding(0)).draw_rows(0)
    assert rows.tolist() == list(range(401, 500))
    assert weights.tolist() == list(range(1, 100))


@pytest.mark.parametrize("groups", [(LARGE, SMALL), (LARGE, SMALL, SOFT)])
def test_a_mixture_draws_every_group_as_often_as_asked(groups):
    """Counts are the expectation rounded down or up, rows belong to their groups, and every row can come."""
    streams = GroupStreams(groups, 50, Seeding(0))
    probabilities = np.array([0.72, 0.18, 0.1])[: len(groups)]
    expected = 40 * probabilities / probabilities.sum()
    seen = set()
    for _ in range(300):
        rows, numbers, counts = streams.draw_mixture_rows(probabilities, 40)
        assert (np.abs(counts - expected[numbers]) < 1).all()
        parts = np.split(rows, counts.cumsum()[:-1])
        assert all(np.isin(part, groups[number].rows).all() for number, part in zip(numbers, parts, strict=True))
        seen.update(rows.tolist())
    assert seen - set(SOFT.rows.tolist()) == set(LARGE.rows.tolist()) | set(SMALL.rows.tolist())


def test_streams_continue_where_their_state_was_taken():
    """State in, same rows out, also for groups and mixtures drawn later only."""
    streams = GroupStreams([LARGE, SOFT], 50, Seeding(0))
    streams.draw_rows(0)
    state = streams.state_dict()
    later = [streams.draw_rows(0)[0], streams.draw_rows(1)[0], streams.draw_mixture_rows(np.ones(2), 10)[0]]
    restored = GroupStreams([LARGE, SOFT], 50, Seeding(0))
    restored.draw_rows(1)
    restored.load_state_dict(state)
    again = [restored.draw_rows(0)[0], restored.draw_rows(1)[0], restored.draw_mixture_rows(np.ones(2), 10)[0]]
    assert all(np.array_equal(a, b) for a, b in zip(later, again, strict=True))


def test_bad_groups_and_sizes_are_refused():
    """An empty group and a batch size of zero are named."""
    with pytest.raises(ParameterError, match="Group 'none' has no rows"):
        GroupStreams([Group("none", np.arange(0))], 5, Seeding(0))
    with pytest.raises(ParameterError, match="'batch_size' parameter must be at least 1. Got 0 instead"):
        GroupStreams([LARGE], 0, Seeding(0))


def test_batch_sampler_feeds_a_data_loader():
    """Each batch of a DataLoader holds the groups' rows one after the other, in the sizes announced."""
    sampler = GroupBatchSampler([LARGE, SMALL, SOFT], batch_size=10, n_batches=3, random_state=0)
    assert sampler.sizes == [10, 7, 10]
    loader = DataLoader(TensorDataset(torch.arange(500)), batch_sampler=sampler)
    batches = [rows for (rows,) in loader]
    assert len(batches) == len(loader) == 3
    for large, small, soft in (rows.split(sampler.sizes) for rows in batches):
        assert (large >= 100).all() and (large < 400).all()
        assert small.tolist() == list(range(7))
        assert (soft > 400).all()


def test_batch_sampler_draws_small_weighted_groups_by_weight():
    """A dataset has no place for weights, so a small soft group is drawn by weight instead of used whole."""
    group = Group("soft", np.arange(3), np.array([1.0, 0.0, 3.0]))
    sampler = GroupBatchSampler([group], batch_size=4, n_batches=100, random_state=0)
    rows = list(itertools.chain.from_iterable(sampler))
    assert len(rows) == 400
    assert rows.count(1) == 0
    assert rows.count(2) == pytest.approx(300, abs=30)
