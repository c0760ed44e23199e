import os
from pathlib import Path

import numpy as np
import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.mnist import class_parts, idx_bytes
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import DatasetError

DATA = os.environ.get("HOLDFAST_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The four idx files with 1,500 training and 300 test digits."""
    return make_files("colored_mnist", tmp_path_factory.mktemp("mnist"))


def test_quarters_of_each_class_give_the_papers_sizes():
    """MNIST's class counts, cut into four equal parts, give 14,995 and 2,497 rows."""
    training = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    testing = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    for counts, size in ((training, 14_995), (testing, 2_497)):
        digits = np.random.default_rng(0).permutation(np.repeat(np.arange(10), counts))
        parts = class_parts(digits, 4, generator=np.random.default_rng(1))
        assert [len(rows) for rows in parts] == [size] * 4
        assert len(np.unique(np.concatenate(parts))) == 4 * size


def test_each_class_is_shuffled_before_it_is_cut():
    """With 400 rows of each class every quarter has rows from everywhere; the generator alone decides which."""
    digits = np.repeat([0, 1, 2], 400)
    parts, again, other = (class_parts(digits, 4, generator=np.random.default_rng(seed)) for seed in (0, 0, 1))
    for rows in parts:
        assert np.bincount(digits[rows]).tolist() == [100, 100, 100]
        for start in range(0, 1200, 100):  # a quarter of each block of 100 rows, give or take five standard errors
            assert abs(((rows >= start) & (rows < start + 100)).sum() - 25) < 5 * np.sqrt(100 * 0.25 * 0.75)
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    assert not np.array_equal(parts[0], other[0])


def test_splits_are_disjoint_quarters(folder):
    """Environments come from the training digits and share no image, with each other or with the test digits."""
    data = load_dataset("colored_mnist", folder=folder, verify=False)
    names, counts = np.unique(data.train.environments, return_counts=True)
    assert names.tolist() == ["E1", "E2"]
    assert counts[0] == counts[1]
    images = {image.tobytes() for image in data.train.X.images}
    assert len(images) == len(data.train)
    assert images.isdisjoint(image.tobytes() for image in data.validation["train"].X.images)
    assert images.isdisjoint(image.tobytes() for image in data.test.X.images)


def test_the_seed_draws_labels_and_colors_but_not_digits(folder):
    """Another seed leaves the images where they are."""
    one, other = (load_dataset("colored_mnist", folder=folder, verify=False, seed=s).train for s in (0, 1))
    np.testing.assert_array_equal(one.X.images, other.X.images)
    assert (one.X.colors != other.X.colors).any()
    assert (one.y != other.y).any()


def test_more_environments_take_more_parts(folder):
    """Four environments are the quarters, six are sixths, all of equal size."""
    for etas in ((0.9,) * 4, (0.9,) * 6):
        train = load_dataset("colored_mnist", folder=folder, verify=False, etas=etas).train
        counts = np.unique(train.environments, return_counts=True)[1]
        assert len(counts) == len(etas)
        assert len(set(counts.tolist())) == 1


def test_colors_labels_and_notes(folder):
    """Extreme options do what they say, and the notes name every difference from the paper."""
    data = load_dataset(
        "colored_mnist",
        folder=folder,
        verify=False,
        etas=(1.0, 0.0, 1.0),
        label_noise=0.0,
        test_eta=1.0,
        test_colorings=2,
    )
    agree = data.train.attributes["color"] == data.train.y
    assert [agree[data.train.environments == name].mean() for name in ("E1", "E2", "E3")] == [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(data.train.y, data.train.attributes["digit"])
    np.testing.assert_array_equal(data.test.attributes["color"], data.test.y)
    n = len(data.validation["train"])
    assert data.notes == (
        f"environment: {len(data.train) // 3:,} rows, the paper has 14,995",
        f"validation: {n:,} rows, the paper has 2,497",
        f"test: {len(data.test) // 2:,} rows, the paper has 2,497",
        "3 training environments, the paper has 2",
        "the files' checksums were not compared with MNIST's",
    )


def test_other_digits_than_mnist_are_refused(folder):
    """Files with another checksum are refused unless they are asked for."""
    with pytest.raises(DatasetError, match="train-images-idx3-ubyte.gz has the md5 .* it is not the original file"):
        load_dataset("colored_mnist", folder=folder)


def test_missing_files_are_named(tmp_path):
    """A folder without the files, or no folder, says what is missing and what to do."""
    with pytest.raises(
        DatasetError,
        match=r"needs train-images-idx3-ubyte \(plain or .gz\), which is not in .*run: holdfast data colored_mn",
    ):
        load_dataset("colored_mnist", folder=tmp_path)
    with pytest.raises(DatasetError, match="nowhere does not exist. Pass the folder that holds"):
        load_dataset("colored_mnist", folder=tmp_path / "nowhere")


def test_more_environments_than_digits_are_refused(folder):
    """Three hundred environments of 1,497 digits would have no digit each."""
    message = "300 etas leave no training digit for each environment.*1,497 training digits. Pass fewer etas"
    with pytest.raises(DatasetError, match=message):
        load_dataset("colored_mnist", folder=folder, verify=False, etas=(0.9,) * 300)


def test_names_with_a_dot_are_the_same_files(folder, tmp_path):
    """Some sources write train-images.idx3-ubyte, plain or gzip."""
    for path in folder.iterdir():
        (tmp_path / path.name.replace("-idx", ".idx")).write_bytes(path.read_bytes())
    found, expected = (load_dataset("colored_mnist", folder=place, verify=False) for place in (tmp_path, folder))
    np.testing.assert_array_equal(found.train.X.images, expected.train.X.images)


def test_labels_must_fit_images(tmp_path, folder):
    """As many labels as images, from 0 to 9."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    n = 1797 * 5 // 6
    labels.write_bytes(idx_bytes(np.zeros(n - 1, dtype=np.uint8)))
    with pytest.raises(DatasetError, match="not as many images as labels"):
        load_dataset("colored_mnist", folder=tmp_path, verify=False)
    labels.write_bytes(idx_bytes(np.full(n, 10, dtype=np.uint8)))
    with pytest.raises(DatasetError, match="train-labels-idx1-ubyte.gz holds the label 10"):
        load_dataset("colored_mnist", folder=tmp_path, verify=False)


@needs_data
def test_the_original_files_have_the_papers_sizes():
    """MNIST itself gives two environments of 14,995 and 2,497 rows for validation and test, and nothing to note."""
    data = load_dataset("colored_mnist", folder=Path(DATA), test_colorings=2)
    assert [int((data.train.environments == name).sum()) for name in ("E1", "E2")] == [14_995, 14_995]
    assert (len(data.validation["train"]), len(data.validation["test"]), len(data.test)) == (2_497, 2_497, 2 * 2_497)
    assert data.notes == ()
    assert data.train.X.images.nbytes == 2 * 14_995 * 784
    assert np.mean(data.train.y == data.train.attributes["digit"]) == pytest.approx(0.75, abs=0.01)
    agree = data.train.attributes["color"] == data.train.y
    assert agree[data.train.environments == "E2"].mean() == pytest.approx(0.8, abs=0.014)
