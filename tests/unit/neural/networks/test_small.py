import pytest
import torch

from holdfast.exceptions import ParameterError
from holdfast.neural.networks import build_network
from holdfast.neural.networks.small import _shifted


def test_shifted_images_are_moved_whole():
    """One lit pixel stays one lit pixel, at most two pixels away, and images move by themselves."""
    images = torch.zeros(200, 2, 9, 9)
    images[:, 1, 4, 4] = 3.0
    torch.manual_seed(0)
    moved = _shifted(images, 2)
    assert moved.shape == images.shape
    assert moved.sum() == images.sum()
    places = moved[:, 1].flatten(1).argmax(1)
    assert {int(p) // 9 for p in places} == {2, 3, 4, 5, 6} == {int(p) % 9 for p in places}
    assert len(set(places.tolist())) == 25


def test_pixels_that_leave_are_replaced_by_zeros():
    """Nothing comes back on the other side."""
    images = torch.ones(50, 1, 8, 8)
    torch.manual_seed(0)
    counts = set(_shifted(images, 1).sum((1, 2, 3)).tolist())
    assert counts == {49.0, 56.0, 64.0}


def test_images_are_shifted_in_training_alone():
    """Prediction sees every image as it is; a negative shift is refused."""
    torch.manual_seed(0)
    network = build_network("cnn", input_shape=(1, 12, 12), n_classes=2, shift=2, channel_dropout=0.0)
    images = torch.rand(4, 1, 12, 12)
    assert not torch.equal(network.train()(images), network(images))
    assert torch.equal(network.eval()(images), network(images))
    with pytest.raises(ParameterError, match="'shift' of network 'cnn' must not be negative. Got -1"):
        build_network("cnn", input_shape=(1, 12, 12), n_classes=2, shift=-1)
