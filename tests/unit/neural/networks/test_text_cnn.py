import pytest
import torch

from holdfast.exceptions import FeaturesError, ParameterError
from holdfast.neural.networks import build_network


def make(n_tokens=20, **options):
    """Return a small text network in evaluation mode."""
    torch.manual_seed(0)
    options = {"n_filters": 4, "dimension": 6, **options}
    return build_network("text_cnn", input_shape=(n_tokens,), n_classes=3, **options).eval()


def test_shapes_are_the_papers():
    """Widths 3, 4, 5 with 390 filters each over 50-d vectors give 1,170 features."""
    network = build_network("text_cnn", input_shape=(20,), n_classes=2, vectors=torch.randn(20, 50))
    assert [tuple(c.weight.shape) for c in network.convolutions] == [(390, 50, 3), (390, 50, 4), (390, 50, 5)]
    inputs = torch.randint(2, 20, (7, 11))
    assert network.features(inputs).shape == (7, 1170)
    assert network(inputs).shape == (7, 2)
    assert network.classifier.in_features == 1170


def test_vectors_stay_fixed():
    """Given vectors are copied, get no gradient and keep padding at zero; learned ones get a gradient."""
    vectors = torch.ones(20, 6)
    fixed, learned = make(vectors=vectors), make()
    for network in (fixed, learned):
        network(torch.tensor([[2, 3, 4]])).sum().backward()
    assert fixed.embedding.weight.grad is None
    assert fixed.embedding.weight[0].abs().sum() == 0
    assert vectors[0].sum() == 6
    assert learned.embedding.weight.grad[2].abs().sum() > 0
    assert all(parameter.grad is not None for parameter in fixed.convolutions.parameters())


def test_padding_changes_nothing():
    """A text has the same outputs alone and beside a longer one."""
    network = make()
    text = torch.tensor([[5, 3, 7]])
    padded = torch.tensor([[5, 3, 7, 0, 0, 0, 0], [2, 2, 2, 2, 2, 2, 2]])
    torch.testing.assert_close(network(padded)[0], network(text)[0])


def test_texts_shorter_than_a_window_work():
    """One word, and no word at all, have finite outputs."""
    network = make()
    assert torch.isfinite(network(torch.tensor([[4], [0]]))).all()
    torch.testing.assert_close(network(torch.tensor([[4, 0, 0]]))[0], network(torch.tensor([[4]]))[0])


def test_one_filter_by_hand():
    """A filter that sums a window of two answers with the largest sum, and ReLU cuts at zero."""
    network = make(vectors=torch.arange(20.0).reshape(20, 1) - 10, widths=(2,), n_filters=1)
    with torch.no_grad():
        network.convolutions[0].weight.fill_(1.0)
        network.convolutions[0].bias.fill_(-1.0)
    # Words 12, 15, 3 have the values 2, 5, -7: windows 7, -2 and -7 (a zero behind the end), minus 1.
    assert network.features(torch.tensor([[12, 15, 3]])).item() == 6.0
    assert network.features(torch.tensor([[3, 2, 4]])).item() == 0.0


def test_its_answers_and_gradients_are_those_of_convolutions_over_padded_texts():
    """Skipping the windows of padding, and those that no filter chose on the way back, changes nothing."""
    torch.manual_seed(0)
    network = make(widths=(2, 3), n_filters=7, dimension=4).eval()
    texts = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0], [0, 0, 0, 0, 0]])
    expected = []
    for row, length in enumerate((5, 2, 1)):
        words = network.embedding(torch.nn.functional.pad(texts[row : row + 1, :length], (0, 2))).transpose(1, 2)
        found = [
            convolution(words[:, :, : length + width - 1])
            for width, convolution in zip((2, 3), network.convolutions, strict=True)
        ]
        expected.append(torch.cat([answers.amax(2) for answers in found], dim=1).relu())
    parameters = [network.embedding.weight, *network.convolutions.parameters()]
    outcomes = {}
    for name, features in (("network", network.features(texts)), ("convolutions", torch.cat(expected))):
        loss = (features * torch.arange(1.0, 15.0)).sum()
        outcomes[name] = [features, *torch.autograd.grad(loss, parameters)]
    torch.testing.assert_close(outcomes["network"], outcomes["convolutions"])


def test_bad_options_are_refused():
    """Rows that are no texts, vectors of another vocabulary and empty widths."""
    with pytest.raises(FeaturesError, match=r"'text_cnn' needs texts. Got rows of shape \(3, 8, 8\)"):
        build_network("text_cnn", input_shape=(3, 8, 8), n_classes=2)
    with pytest.raises(ParameterError, match=r"one vector for each of the 20 tokens. Got a tensor of shape \(19, 5\)"):
        make(vectors=torch.zeros(19, 5))
    with pytest.raises(ParameterError, match=r"needs positive widths, n_filters and dimension. Got \(\)"):
        make(widths=())
