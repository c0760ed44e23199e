import pickle  # noqa: S403

import numpy as np
import pytest

from holdfast.datasets.coloring import ColoredImages, agreeing_codes, color_images
from holdfast.environments import take_rows
from holdfast.exceptions import ParameterError


@pytest.fixture
def colored():
    """Six 2x3 byte images in three colors."""
    images = np.arange(36, dtype=np.uint8).reshape(6, 2, 3)
    return ColoredImages(images, np.array([0, 1, 2, 2, 1, 0]), 3)


def test_codes_agree_with_the_given_probability_and_err_evenly():
    """At agreement 0.7 of three codes, each of the two others gets 0.15."""
    codes = np.repeat([0, 1, 2], 20_000)
    drawn = agreeing_codes(codes, 0.7, 3, np.random.default_rng(0))
    shift = np.bincount((drawn - codes) % 3) / len(codes)
    np.testing.assert_allclose(shift, [0.7, 0.15, 0.15], atol=0.01)


def test_color_images_fills_one_channel():
    """Bytes are scaled to [0, 1] in the channel of the color; the others stay zero."""
    dense = color_images(np.full((2, 2, 2), 51, dtype=np.uint8), np.array([1, 0]), 2)
    assert dense.dtype == np.float32
    np.testing.assert_allclose(dense[0, 1], 0.2)
    np.testing.assert_allclose(dense.sum(axis=(2, 3)), [[0, 0.8], [0.8, 0]], rtol=1e-6)


def test_lazy_rows_equal_dense_rows(colored):
    """Whatever way rows are taken, they equal those of the dense array."""
    dense = np.asarray(colored)
    assert dense.shape == colored.shape == (6, 3, 2, 3)
    assert len(colored) == 6
    rows = np.array([4, 0, 0])
    np.testing.assert_array_equal(np.asarray(colored[rows]), dense[rows])
    np.testing.assert_array_equal(np.asarray(take_rows(colored, rows)), dense[rows])
    np.testing.assert_array_equal(np.asarray(colored[1:3]), dense[1:3])
    np.testing.assert_array_equal(np.asarray(colored[dense[:, 2, 0, 0] > 0]), dense[dense[:, 2, 0, 0] > 0])
    np.testing.assert_array_equal(colored[3], dense[3])
    np.testing.assert_array_equal(colored[-1, 0], dense[-1, 0])
    assert isinstance(colored[rows], ColoredImages)


def test_lazy_images_pickle_and_join(colored):
    """Worker processes get the same images, and parts join in order."""
    again = pickle.loads(pickle.dumps(colored))  # noqa: S301
    np.testing.assert_array_equal(np.asarray(again), np.asarray(colored))
    joined = ColoredImages.concatenate([colored[:2], colored[2:]])
    np.testing.assert_array_equal(np.asarray(joined), np.asarray(colored))


def test_recolor_moves_the_channel(colored):
    """Other colors, same ink."""
    other = np.asarray(colored.recolor((colored.colors + 1) % 3))
    np.testing.assert_array_equal(np.roll(np.asarray(colored), 1, axis=1), other)


def test_shapes_must_match():
    """One color for each image."""
    with pytest.raises(ParameterError, match=r"Got shapes \(2, 4, 4\) and \(3,\)"):
        ColoredImages(np.zeros((2, 4, 4)), np.zeros(3, dtype=int), 2)
