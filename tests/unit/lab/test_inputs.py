"""From a run's settings to rows: features of images are computed once, whatever the seed deals to which split."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from holdfast.datasets import load_dataset
from holdfast.datasets.synthetic import make_files
from holdfast.exceptions import ConfigError
from holdfast.lab.experiments import RunConfig
from holdfast.lab.inputs import prepare
from holdfast.neural.networks import build_network
from holdfast.neural.networks.pretrained import extract_features

OPTIONS = {"image_size": (32, 32)}


@pytest.fixture
def folder(tmp_path):
    """Forty synthetic faces, and the weights of a small network that nobody trained."""
    make_files("celeba", tmp_path, n_rows=40)
    torch.manual_seed(0)
    network = build_network("mobilenet_v2", input_shape=(3, 32, 32), n_classes=2)
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    return tmp_path


def prepared(folder, seed):
    """Return the data set of a run with this seed."""
    config = RunConfig(
        dataset="celeba",
        method="erm",
        estimator="linear",
        seed=seed,
        dataset_options=OPTIONS,
        backbone="mobilenet_v2",
        weights="weights.safetensors",
    )
    return prepare(config, folder, folder / "cache").dataset


def test_features_are_those_of_the_rows_images_in_every_split(folder):
    """Whatever the order in which features are kept, each row gets its own image's."""
    found = prepared(folder, seed=1)
    images = load_dataset("celeba", folder=folder, seed=1, **OPTIONS)
    network = build_network(
        "mobilenet_v2", input_shape=(3, 32, 32), n_classes=2, weights=folder / "weights.safetensors"
    )
    raw = extract_features(network, images.train.X)
    mean, scale = raw.mean(0), raw.std(0) + 1e-6
    np.testing.assert_allclose(found.train.X, (raw - mean) / scale, atol=1e-3)
    np.testing.assert_allclose(found.test.X, (extract_features(network, images.test.X) - mean) / scale, atol=1e-3)
    assert found.train.X.dtype == np.float32


def test_another_seed_deals_the_same_features(folder, monkeypatch):
    """Three seeds of CelebA cost one pass of the frozen network, not three."""
    prepared(folder, seed=0)
    kept = sorted((folder / "cache" / "features").glob("*.npy"))

    def refuse(*_):
        raise AssertionError("features were computed again")

    monkeypatch.setattr("holdfast.neural.networks.pretrained.extract_features", refuse)
    first, second = prepared(folder, seed=0), prepared(folder, seed=1)
    assert sorted((folder / "cache" / "features").glob("*.npy")) == kept
    assert len(first.train) == len(second.train)
    assert not np.array_equal(first.train.X, second.train.X)


def test_synthetic_files_are_whole_or_not_there(tmp_path, monkeypatch):
    """A process that dies while it makes them leaves nothing that the next one would take for data."""

    def half(name, folder):
        (folder / "train.tsv").write_text("label\tcomment\n")
        raise KeyboardInterrupt("cut")

    config = RunConfig(dataset="beer", method="erm", synthetic=True, dataset_options={"aspect": "aroma"})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="cut"):
        patch.setattr("holdfast.lab.inputs.make_files", half)
        prepare(config, None, tmp_path)
    assert len(prepare(config, None, tmp_path).dataset.train) > 100


def test_a_backbone_needs_images(tmp_path):
    """Rows that are no image files are refused before any network is made."""
    config = RunConfig(dataset="toy", method="erm", backbone="mobilenet_v2", weights="weights.pth")
    with pytest.raises(ConfigError, match="makes features of image files. Data set 'toy' has none. Leave backbone and"):
        prepare(config, None, tmp_path)


def test_a_whole_network_starts_from_weights_of_the_data_folder(folder):
    """Without a backbone the images stay, the network begins with the file's weights, and the record names the file."""
    config = RunConfig(
        dataset="celeba",
        method="erm",
        estimator="mobilenet_v2",
        dataset_options=OPTIONS,
        weights="weights.safetensors",
    )
    found = prepare(config, folder, folder / "cache")
    assert found.dataset.train.X.shape[1:] == (3, 32, 32)
    assert found.network_options == {"weights": folder / "weights.safetensors"}
    assert "weights.safetensors" in found.facts["files"]
