import os
import pickle  # noqa: S403
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression

from holdfast.datasets.celeba import ImageFiles
from holdfast.exceptions import FeaturesError, SavedModelError, UntrustedFileError
from holdfast.neural.networks import Network, build_network, has_batch_statistics
from holdfast.neural.networks.pretrained import extract_features, load_weights, read_tensors

DATA = os.environ.get("HOLDFAST_TEST_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="HOLDFAST_TEST_DATA is not set")
WEIGHTS = "weights/mobilenet_v2-b0353104.pth"


def batch_norm(name, width):
    """Return the names and shapes of a batch normalization."""
    entries = dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (width,)) | {"num_batches_tracked": ()}
    return {f"{name}.{entry}": shape for entry, shape in entries.items()}


def resnet50_shapes():
    """Return torchvision's names and shapes of ResNet-50, written down independently of our module."""
    shapes = {"conv1.weight": (64, 3, 7, 7), "fc.weight": (1000, 2048), "fc.bias": (1000,)} | batch_norm("bn1", 64)
    n_inputs = 64
    for layer, (width, n_blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for block in range(n_blocks):
            name = f"layer{layer}.{block}"
            shapes[f"{name}.conv1.weight"] = (width, n_inputs, 1, 1)
            shapes[f"{name}.conv2.weight"] = (width, width, 3, 3)
            shapes[f"{name}.conv3.weight"] = (4 * width, width, 1, 1)
            for number, size in ((1, width), (2, width), (3, 4 * width)):
                shapes |= batch_norm(f"{name}.bn{number}", size)
            if block == 0:
                shapes[f"{name}.downsample.0.weight"] = (4 * width, n_inputs, 1, 1)
                shapes |= batch_norm(f"{name}.downsample.1", 4 * width)
            n_inputs = 4 * width
    return shapes


def mobilenet_shapes():
    """Return torchvision's names and shapes of MobileNetV2, written down independently of our module."""
    shapes = {"features.0.0.weight": (32, 3, 3, 3), "classifier.1.weight": (1000, 1280), "classifier.1.bias": (1000,)}
    shapes |= batch_norm("features.0.1", 32)
    outputs = [16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320]
    n_inputs = 32
    for block, n_outputs in enumerate(outputs, start=1):
        name, width, at = f"features.{block}.conv", n_inputs * (1 if block == 1 else 6), 0
        if block > 1:
            shapes[f"{name}.0.0.weight"] = (width, n_inputs, 1, 1)
            shapes |= batch_norm(f"{name}.0.1", width)
            at = 1
        shapes[f"{name}.{at}.0.weight"] = (width, 1, 3, 3)
        shapes |= batch_norm(f"{name}.{at}.1", width)
        shapes[f"{name}.{at + 1}.weight"] = (n_outputs, width, 1, 1)
        shapes |= batch_norm(f"{name}.{at + 2}", n_outputs)
        n_inputs = n_outputs
    shapes["features.18.0.weight"] = (1280, 320, 1, 1)
    return shapes | batch_norm("features.18.1", 1280)


@pytest.fixture(scope="module")
def mobilenet():
    """MobileNetV2 with random weights for small images and three classes."""
    torch.manual_seed(0)
    return build_network("mobilenet_v2", input_shape=(3, 32, 40), n_classes=3).eval()


@pytest.mark.parametrize(
    ("name", "shapes", "n_entries", "n_parameters"),
    [("resnet50", resnet50_shapes(), 320, 25_557_032), ("mobilenet_v2", mobilenet_shapes(), 314, 3_504_872)],
)
def test_names_and_shapes_are_torchvisions(name, shapes, n_entries, n_parameters):
    """State and parameters have torchvision's names and shapes, and a state dict with them loads."""
    network = build_network(name, input_shape=(3, 64, 64), n_classes=1000)
    assert len(shapes) == n_entries
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == shapes
    assert sum(parameter.numel() for parameter in network.parameters()) == n_parameters
    state = {key: torch.zeros(shape) for key, shape in shapes.items()}
    assert str(network.load_state_dict(state)) == "<All keys matched successfully>"


@pytest.mark.parametrize(("name", "n_features"), [("resnet50", 2048), ("mobilenet_v2", 1280)])
def test_features_and_classifier_give_the_logits(name, n_features):
    """The networks show their last hidden layer, and `classifier` turns it into the logits."""
    torch.manual_seed(0)
    network = build_network(name, input_shape=(3, 32, 40), n_classes=3, dropout=0.3).eval()
    images = torch.rand(2, 3, 32, 40)
    assert isinstance(network, Network)
    assert network.features(images).shape == (2, n_features)
    torch.testing.assert_close(network(images), network.classifier(network.features(images)))
    assert network.classifier.out_features == 3
    assert has_batch_statistics(network)


def test_images_are_normalized_as_for_imagenet(mobilenet):
    """ImageNet's mean color becomes zero, and one deviation more becomes one."""
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    image = (mean + deviation).view(1, 3, 1, 1).expand(1, 3, 2, 2)
    torch.testing.assert_close(mobilenet.normalization(image), torch.ones(1, 3, 2, 2))


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_load_from_files(tmp_path, mobilenet, suffix):
    """Both kinds of file give back the same network; a last layer of another size is left out."""
    path = tmp_path / f"weights{suffix}"
    state = {name: tensor.clone() for name, tensor in mobilenet.state_dict().items()}
    if suffix == ".pth":
        torch.save(state, path)
    else:
        save_file(state, path)
    same = build_network("mobilenet_v2", input_shape=(3, 32, 40), n_classes=3, weights=path).eval()
    images = torch.rand(2, 3, 32, 40)
    torch.testing.assert_close(same(images), mobilenet(images))
    other = build_network("mobilenet_v2", input_shape=(3, 32, 40), n_classes=5, weights=path).eval()
    assert other(images).shape == (2, 5)
    torch.testing.assert_close(other.features(images), mobilenet.features(images))


class Hostile:
    """Writes a marker file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_hostile_and_foreign_weights_are_refused(tmp_path, mobilenet):
    """Files that execute, are damaged, hold no tensors, other names or other shapes each get their reason."""
    path = tmp_path / "weights.pth"
    path.write_bytes(pickle.dumps(Hostile(tmp_path / "executed")))
    with pytest.raises(
        UntrustedFileError, match="contains something other than plain tensors.*Nothing in it was executed"
    ):
        read_tensors(path)
    assert not (tmp_path / "executed").exists()
    path.write_bytes(b"damaged")
    with pytest.raises(UntrustedFileError, match="or is damaged"):
        read_tensors(path)
    torch.save([1, 2], path)
    with pytest.raises(UntrustedFileError, match="must be a mapping from names to tensors. Got list."):
        read_tensors(path)
    torch.save({"fc.weight": torch.zeros(2)}, path)
    with pytest.raises(
        SavedModelError, match=r"does not contain the weights of MobileNetV2: .* 1 are unknown \(fc.weight\)"
    ):
        load_weights(mobilenet, path)
    torch.save({**mobilenet.state_dict(), "features.0.0.weight": torch.zeros(1)}, path)
    with pytest.raises(
        SavedModelError, match=r"features.0.0.weight has the shape \(1,\), MobileNetV2 needs \(32, 3, 3, 3\)"
    ):
        load_weights(mobilenet, path)
    with pytest.raises(SavedModelError, match="nowhere.pth does not exist"):
        read_tensors(tmp_path / "nowhere.pth")


def test_small_and_gray_images_are_refused():
    """Sides below 32 and other channels name the shape."""
    for shape in ((3, 28, 28), (1, 64, 64), (64,)):
        with pytest.raises(FeaturesError, match="needs color images of shape"):
            build_network("resnet50", input_shape=shape, n_classes=2)


def test_frozen_features_do_not_depend_on_chunks(mobilenet):
    """Whatever the chunk, rows have the same features, equal to the network's own; weights and X stay."""
    images = np.random.default_rng(0).random((7, 3, 32, 40), dtype=np.float32)
    before = {name: tensor.clone() for name, tensor in mobilenet.state_dict().items()}
    by_three = extract_features(mobilenet, images, chunk_size=3)
    np.testing.assert_allclose(by_three, extract_features(mobilenet, images), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        np.testing.assert_allclose(by_three, mobilenet.features(torch.from_numpy(images)), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in mobilenet.state_dict().items())


def test_frozen_features_of_bytes(mobilenet):
    """Bytes count as fractions of 255."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(2, 3, 32, 40), dtype=np.uint8)
    from_bytes = extract_features(mobilenet, pixels)
    from_floats = extract_features(mobilenet, (pixels / 255).astype(np.float32))
    np.testing.assert_allclose(from_bytes, from_floats, rtol=1e-4, atol=1e-5)


@needs_data
def test_real_weights_recognize_a_palace():
    """The published MobileNetV2 calls scikit-learn's picture of a Chinese temple a palace (ImageNet class 698)."""
    from sklearn.datasets import load_sample_image

    network = build_network("mobilenet_v2", input_shape=(3, 224, 224), n_classes=1000, weights=Path(DATA) / WEIGHTS)
    picture = torch.from_numpy(load_sample_image("china.jpg").copy()).permute(2, 0, 1)[None].float() / 255
    small = torch.nn.functional.interpolate(picture, size=(256, 384), mode="bilinear", antialias=True)
    with torch.no_grad():
        probabilities = network.eval()(small[:, :, 16:240, 80:304]).softmax(dim=1)[0]
    assert probabilities.argmax().item() == 698
    assert probabilities[698].item() == pytest.approx(0.71, abs=0.05)


@needs_data
def test_real_features_tell_men_from_women():
    """A linear probe of `Male` on the frozen features of 300 faces is right for more than 80 % of 200 others."""
    folder = Path(DATA) / "celeba10k"
    with np.load(folder / "attrs.npz") as arrays:
        male = arrays["attrs"][:500, arrays["attr_names"].tolist().index("Male")] == 1
    images = ImageFiles(next(folder.glob("*.zip")), [f"{i:06d}.jpg" for i in range(1, 501)])
    network = build_network("mobilenet_v2", input_shape=images.row_shape, n_classes=2, weights=Path(DATA) / WEIGHTS)
    features = extract_features(network, images)
    scaled = (features - features.mean(axis=0)) / (features.std(axis=0) + 1e-6)
    probe = LogisticRegression(C=0.01, max_iter=500).fit(scaled[:300], male[:300])
    assert probe.score(scaled[300:], male[300:]) > 0.8
