"""Two-class colored MNIST as IRM and DomainBed cut it."""

import numpy as np
import pytest

from holdfast.datasets import load_dataset
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import ParameterError


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Return a loader of 1,497 training and 300 test digits."""
    folder = make_files("colored_mnist", tmp_path_factory.mktemp("mnist"))
    return lambda **options: load_dataset("colored_mnist", folder=folder, verify=False, **options)


def agreement(split, environment=None):
    """Return how often the color is the label's."""
    mine = slice(None) if environment is None else split.environments == environment
    return np.mean(split.attributes["color"][mine] == split.y[mine])


def test_irms_cut_has_five_sixths_in_two_environments(load):
    """1,247 rows train, the last 250 of the file test, and the 300 of the other file validate."""
    data = load(protocol="irm", etas=(0.8, 0.9), seed=3)
    assert [len(split) for split in data.splits] == [1247, 300, 300, 250]
    assert data.train.X.shape == (1247, 2, 14, 14)
    for name, share in (("E1", 0.8), ("E2", 0.9)):
        assert abs(agreement(data.train, name) - share) < 0.06
        assert abs(agreement(data.validation["train"], name) - share) < 0.12
    assert abs(agreement(data.test) - 0.1) < 0.08
    assert abs(agreement(data.validation["test"]) - 0.1) < 0.08


def test_a_quarter_of_the_labels_is_wrong(load):
    """The label is whether the digit is five or more, flipped in 25 % of the rows; seeds flip others."""
    data, other = load(protocol="irm", seed=0), load(protocol="irm", seed=1)
    assert abs(np.mean(data.train.y != data.train.attributes["digit"]) - 0.25) < 0.05
    assert set(data.train.attributes["digit"]) == {0, 1}
    assert not np.array_equal(data.test.y, other.test.y)


def test_domainbeds_cut_deals_all_digits_to_three_domains(load):
    """599 of 1,797 digits each, a fifth of them for validation."""
    data = load(protocol="domainbed", etas=(0.9, 0.8), test_eta=0.1)
    assert [len(split) for split in data.splits] == [2 * 479, 2 * 120, 120, 479]
    assert abs(agreement(data.train, "E1") - 0.9) < 0.06
    assert abs(agreement(data.train, "E2") - 0.8) < 0.08
    assert abs(agreement(data.test) - 0.1) < 0.06
    alone = load(protocol="domainbed", etas=(0.9,), test_eta=0.8)
    assert [len(split) for split in alone.splits] == [479, 120, 120, 479]


def test_the_image_is_in_the_channel_of_its_color(load):
    """Every second pixel of every second row is kept, and the other channel is empty."""
    data = load(protocol="irm")
    images, colors = np.asarray(data.train.X[:20]), data.train.attributes["color"][:20]
    assert images[np.arange(20), colors].reshape(20, -1).max(axis=1).min() > 0.5
    assert images[np.arange(20), 1 - colors].max() == 0.0


def test_what_cannot_be_cut_is_refused(load):
    """DomainBed has two training domains, and there are three protocols."""
    with pytest.raises(ParameterError, match="Got 3 etas; pass 1 or 2"):
        load(protocol="domainbed", etas=(0.9, 0.8, 0.7))
    with pytest.raises(ParameterError, match=r"one of \['paper', 'irm', 'domainbed'\]"):
        load(protocol="wilds")
