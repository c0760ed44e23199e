"""Rows of arrays, memory maps, sparse matrices, frames and texts as tensors."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch

from holdfast.datasets.colored_digits import ColoredImages
from holdfast.environments import Group
from holdfast.exceptions import FeaturesError, InputTypeError
from holdfast.neural.batches import Batch, GroupBatches
from holdfast.neural.sources import Vocabulary, make_source
from holdfast.seeding import Seeding

ROWS = np.array([4, 0, 2])
TABLE = np.arange(15.0).reshape(5, 3)


@pytest.mark.parametrize(
    "X",
    [
        TABLE,
        TABLE.astype(np.float32),
        TABLE.astype(np.int64),
        TABLE.astype(np.uint8),
        sp.csr_array(TABLE),
        sp.coo_matrix(TABLE),
        pd.DataFrame(TABLE),
        pl.DataFrame(TABLE),
        torch.from_numpy(TABLE),
    ],
    ids=["float64", "float32", "int64", "uint8", "csr", "coo", "pandas", "polars", "torch"],
)
def test_tables_become_float32_rows(X):
    """Whatever holds a table, the rows asked for come as float32 in the order asked for."""
    source = make_source(X)
    assert (len(source), source.row_shape) == (5, (3,))
    assert source.take(ROWS).dtype == torch.float32
    assert source.take(ROWS).tolist() == TABLE[ROWS].tolist()
    assert source.take(slice(1, 3)).tolist() == TABLE[1:3].tolist()


def test_images_come_with_channels_last_and_bytes_as_shares():
    """4-d batches are laid out channels last; 8-bit images are divided by 255."""
    images = np.full((4, 3, 6, 6), 51, dtype=np.uint8)
    taken = make_source(images).take(np.array([1, 3]))
    assert taken.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(taken, torch.full((2, 3, 6, 6), 0.2))


def test_a_memory_map_is_read_only_where_rows_are_taken(tmp_path):
    """A read-only memory map far larger than the batch is neither copied nor written to."""
    path = tmp_path / "rows.npy"
    on_disk = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(2_000_000, 50))  # 400 MB, sparse
    on_disk[1_999_999] = 3.0
    on_disk.flush()
    tracemalloc.start()
    source = make_source(np.load(path, mmap_mode="r"))
    source.take(np.array([5, 1_999_999]))
    assert tracemalloc.get_traced_memory()[1] < 1_000_000  # bytes at most
    tracemalloc.stop()
    taken = source.take(np.array([0, 1_999_999]))
    assert taken.mean(1).tolist() == [0.0, 3.0]
    taken.zero_()
    assert source.take(slice(1_999_999, 2_000_000)).mean().item() == 3.0


def test_texts_are_padded_to_the_longest_of_the_batch():
    """0 pads, 1 is any unknown word, the words follow in alphabetical order."""
    vocabulary = Vocabulary(("beer", "dark"))
    source = make_source(["dark beer", "beer", "pale dark beer"], vocabulary)
    assert source.row_shape == (4,)
    assert source.take(np.array([1, 0])).tolist() == [[2, 0], [3, 2]]
    assert source.take(slice(2, 3)).tolist() == [[1, 3, 2]]


def test_what_cannot_be_rows_is_refused():
    """Text without a vocabulary, and numbers in disguise."""
    with pytest.raises(InputTypeError, match="Got int instead"):
        make_source(3)
    with pytest.raises(FeaturesError, match="X must contain numbers. Got an array of dtype <U1"):
        make_source(np.array([["a"], ["b"]]))


def test_group_means_with_and_without_weights():
    """Equal sizes, unequal sizes and weights all give each group's mean."""
    values = torch.tensor([1.0, 2.0, 3.0, 6.0])
    targets = torch.zeros(4)
    assert Batch(values, targets, (0, 1), (2, 2)).means(values).tolist() == [1.5, 4.5]
    assert Batch(values, targets, (0, 1), (1, 3)).means(values).tolist() == pytest.approx([1.0, 11 / 3])
    weights = torch.tensor([1.0, 1.0, 2.0, 1.0])
    assert Batch(values, targets, (0, 1), (2, 2), weights).means(values).tolist() == [1.5, 4.0]


def test_group_batches_join_groups_in_the_order_asked_for():
    """Rows, targets and sizes of several groups stand one after the other; whole soft groups bring weights."""
    groups = [Group("a", np.arange(5)), Group("b", np.arange(2, 4), np.array([1.0, 3.0]))]
    for group in groups:
        group.rows.flags.writeable = False
    X = np.arange(5.0)[:, None]
    batches = GroupBatches(make_source(X), np.arange(5), groups, batch_size=3, seeding=Seeding(0))
    batch = batches.draw([1, 0])
    assert (batch.groups, batch.sizes) == ((1, 0), (2, 3))
    assert torch.equal(batch.inputs[:, 0].long(), batch.targets)
    assert batch.targets[:2].tolist() == [2, 3]
    assert batch.weights.tolist() == [1.0, 3.0, 1.0, 1.0, 1.0]
    assert batches.draw([0]).weights is None
    mixed = batches.draw_mixture(np.array([0.5, 0.5]), 4)
    assert (mixed.groups, mixed.sizes, mixed.weights) == ((0, 1), (2, 2), None)


def test_lazy_rows_become_dense_a_batch_at_a_time():
    """Colored images are taken by rows and by slices, channels last; the whole is never made dense."""

    class Watched(ColoredImages):
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("made dense as a whole")

    images = np.arange(5 * 4 * 4, dtype=np.uint8).reshape(5, 4, 4)
    X = Watched(images, np.array([0, 1, 2, 0, 1]), 3)
    source = make_source(X)
    assert (len(source), source.row_shape) == (5, (3, 4, 4))
    taken = source.take(ROWS)
    assert taken.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(taken[0, 1], torch.from_numpy(images[4] / np.float32(255)))
    assert taken[1, 1:].abs().sum() == 0
    assert torch.equal(source.take(slice(1, 3)), source.take(np.array([1, 2])))
