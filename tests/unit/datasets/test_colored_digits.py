import pickle  # noqa: S403

import numpy as np
import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.colored_digits import ColoredImages, color_images
from holdfast.environments import take_rows
from holdfast.exceptions import ParameterError


def pixels(X):
    """Return the gray pixels of one-hot rows as bytes, for comparing images."""
    return {row.tobytes() for row in np.ascontiguousarray(X[:, :64])}


def test_splits_hold_disjoint_digits():
    """No digit image is in two splits, and together they are the 1,797."""
    data = load_dataset("colored_digits", test_colorings=1)
    train, validation, test = (pixels(split.X) for split in (data.train, data.validation["train"], data.test))
    assert len(data.train) + len(data.validation["train"]) + len(data.test) == 1797
    assert not (train & validation or train & test or validation & test)


def test_environments_are_equal_and_stratified():
    """Both environments have 633 rows and as many of each digit, give or take one."""
    train = load_dataset("colored_digits").train
    counts = [np.bincount(train.attributes["digit"][train.environments == name]) for name in ("E1", "E2")]
    assert counts[0].sum() == counts[1].sum() == 633
    assert np.abs(counts[0] - counts[1]).max() <= 1


def test_colors_agree_as_asked():
    """Agreement is 0.9 and 0.8 in training and 0.1 in the test environment, within four standard errors."""
    data = load_dataset("colored_digits", seed=5)
    agree = data.train.attributes["color"] == data.train.y
    assert agree[data.train.environments == "E1"].mean() == pytest.approx(0.9, abs=0.048)
    assert agree[data.train.environments == "E2"].mean() == pytest.approx(0.8, abs=0.064)
    assert np.mean(data.test.attributes["color"] == data.test.y) == pytest.approx(0.1, abs=0.021)


def test_label_noise_is_drawn():
    """A quarter of the labels is another digit at noise 0.25, none at 0."""
    noisy = load_dataset("colored_digits", label_noise=0.25).train
    clean = load_dataset("colored_digits", label_noise=0).train
    assert np.mean(noisy.attributes["digit"] != noisy.y) == pytest.approx(0.25, abs=0.05)
    np.testing.assert_array_equal(clean.attributes["digit"], clean.y)


def test_validation_settings_share_digits_and_labels():
    """The two validation settings differ in their colors alone."""
    validation = load_dataset("colored_digits").validation
    np.testing.assert_array_equal(validation["train"].y, validation["test"].y)
    np.testing.assert_array_equal(validation["train"].X[:, :64], validation["test"].X[:, :64])
    assert (validation["train"].X[:, 64:] != validation["test"].X[:, 64:]).any()


def test_seed_reshuffles_digits_and_colors():
    """Equal seeds give equal data; another seed deals other digits and colors."""
    one, same, other = (load_dataset("colored_digits", seed=s).train for s in (1, 1, 2))
    np.testing.assert_array_equal(one.X, same.X)
    assert (one.attributes["color"] != other.attributes["color"]).mean() > 0.5
    assert pixels(one.X) != pixels(other.X)


@pytest.mark.parametrize(("representation", "shape"), [("one_hot", (74,)), ("channels", (10, 8, 8))])
def test_representations_hold_pixels_and_color(representation, shape):
    """Ink is the same in all representations, and the color is where it is said to be."""
    train = load_dataset("colored_digits", representation=representation).train
    ink = load_dataset("colored_digits").train.X[:, :64].sum(axis=1)
    assert train.X.shape == (1266, *shape)
    if representation == "one_hot":
        np.testing.assert_array_equal(train.X[:, 64:], 4.0 * np.eye(10)[train.attributes["color"]])
    else:
        channels = train.X.reshape(-1, 10, 64).sum(axis=2)
        np.testing.assert_array_equal(channels.argmax(1), train.attributes["color"])
        np.testing.assert_allclose(channels.sum(1), ink, rtol=1e-5)


def test_any_number_of_environments():
    """Five environments with their own agreement share the training digits evenly."""
    train = load_dataset("colored_digits", etas=(1.0, 0.9, 0.8, 0.7, 0.6)).train
    names, counts = np.unique(train.environments, return_counts=True)
    assert names.tolist() == ["E1", "E2", "E3", "E4", "E5"]
    assert counts.max() - counts.min() <= 1
    first = train.environments == "E1"
    np.testing.assert_array_equal(train.attributes["color"][first], train.y[first])


def test_test_digits_are_colored_several_times():
    """Three colorings repeat the digits three times, each with labels and colors of its own."""
    test = load_dataset("colored_digits", test_colorings=3).test
    first, second = (test.take(np.flatnonzero(test.attributes["coloring"] == i)) for i in (0, 1))
    np.testing.assert_array_equal(first.attributes["digit"], second.attributes["digit"])
    assert (first.attributes["color"] != second.attributes["color"]).mean() > 0.5
    assert len(test) == 3 * len(first)


def test_bad_options_are_refused():
    """Unknown representations and shares that leave nothing to train on are errors."""
    with pytest.raises(ParameterError, match="'representation' option must be one of .*'one_hot', 'channels'"):
        load_dataset("colored_digits", representation="rgb")
    with pytest.raises(ParameterError, match="leave 0 of 178 rows of class 0 for 2 environments. Lower the shares"):
        load_dataset("colored_digits", validation_share=0.5, test_share=0.5)


@pytest.fixture
def colored():
    """Six 2x3 byte images in three colors."""
    images = np.arange(36, dtype=np.uint8).reshape(6, 2, 3)
    return ColoredImages(images, np.array([0, 1, 2, 2, 1, 0]), 3)


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


def test_shapes_must_match():
    """One color for each image."""
    with pytest.raises(ParameterError, match=r"Got shapes \(2, 4, 4\) and \(3,\)"):
        ColoredImages(np.zeros((2, 4, 4)), np.zeros(3, dtype=int), 2)
