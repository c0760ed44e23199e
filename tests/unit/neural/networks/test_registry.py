"""The registry of networks."""

import pytest
import torch
from torch import nn

from holdfast.exceptions import FeaturesError, InputTypeError, ParameterError
from holdfast.neural.networks import NETWORKS, build_network, has_batch_statistics, register_network


@pytest.mark.parametrize(("name", "shape"), [("linear", (5,)), ("mlp", (5,)), ("cnn", (3, 8, 8)), ("cnn", (8, 8))])
def test_logits_are_the_classifier_of_the_features(name, shape):
    """Each of our networks maps rows to logits through features() and classifier."""
    network = build_network(name, input_shape=shape, n_classes=4, dropout=0.5).eval()
    inputs = torch.randn(7, *shape)
    assert network(inputs).shape == (7, 4)
    assert torch.equal(network.classifier(network.features(inputs)), network(inputs))


def test_the_papers_cnn_has_its_sizes():
    """On 10x28x28 images the hidden layer sees 9216 values and has 390 units."""
    network = build_network("cnn", input_shape=(10, 28, 28), n_classes=10, dropout=0.1)
    assert (network.hidden.in_features, network.hidden.out_features) == (9216, 390)


def test_options_reach_the_network_and_unknown_ones_are_named():
    """hidden= sets the widths; a misspelt option is refused with the list of options."""
    network = build_network("mlp", input_shape=(5,), n_classes=2, hidden=(7, 3))
    assert network.classifier.in_features == 3
    with pytest.raises(ParameterError, match=r"Network 'mlp' has no option 'hiden'. Did you mean 'network__hidden'\?"):
        build_network("mlp", input_shape=(5,), n_classes=2, hiden=3)


def test_unknown_name_lists_the_known_ones():
    """An unknown network name is refused with the list of names."""
    with pytest.raises(ParameterError, match="must be one of .*'mlp'.* Got 'resnet51' instead"):
        build_network("resnet51", input_shape=(5,), n_classes=2)


def test_a_callable_gets_only_what_it_asks_for():
    """A callable may take any of input_shape, n_classes and dropout, or nothing at all."""
    assert build_network(lambda: nn.Linear(5, 2), input_shape=(5,), n_classes=2).out_features == 2
    built = build_network(lambda n_classes: nn.Linear(5, n_classes), input_shape=(5,), n_classes=3)
    assert built.out_features == 3
    with pytest.raises(InputTypeError, match="must return an nn.Module. It returned int"):
        build_network(lambda: 3, input_shape=(5,), n_classes=2)
    with pytest.raises(InputTypeError, match="must be a name, a callable or an nn.Module. Got int instead"):
        build_network(3, input_shape=(5,), n_classes=2)


def test_a_module_is_copied():
    """A module handed in keeps its weights; training works on a copy."""
    module = nn.Linear(5, 2)
    built = build_network(module, input_shape=(5,), n_classes=2)
    assert built is not module
    assert torch.equal(built.weight, module.weight)


def test_registering_a_name_twice_is_refused():
    """A registered name belongs to one network."""
    with pytest.raises(ParameterError, match="named 'mlp' is registered already"):
        register_network("mlp")(nn.Linear)
    assert NETWORKS["mlp"] is not nn.Linear


def test_small_images_are_refused_by_the_cnn():
    """The cnn says which sides it needs."""
    with pytest.raises(FeaturesError, match=r"sides of at least 6. Got rows of shape \(30,\)"):
        build_network("cnn", input_shape=(30,), n_classes=2)


def test_batch_statistics_are_recognized():
    """A network with batch normalization is told apart."""
    assert has_batch_statistics(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)))
    assert not has_batch_statistics(build_network("mlp", input_shape=(5,), n_classes=2))
