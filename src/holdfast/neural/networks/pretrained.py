"""Weights from files, and features of a frozen backbone, computed once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.exceptions import FeaturesError, SavedModelError, UntrustedFileError
from holdfast.neural.networks.registry import Network
from holdfast.neural.sources import make_source

log = logging.getLogger(__name__)

_SMALLEST_SIDE = 32  # the networks halve it five times
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNetNormalization(nn.Module):
    """Subtract ImageNet's mean color and divide by its deviation; its buffers are not part of the state dict."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(_DEVIATION).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return normalized images, (n_rows, 3, height, width)."""
        return (images - self.mean) / self.deviation


def check_images(name: str, input_shape: tuple[int, ...]) -> None:
    """Refuse rows that are not color images of a useful size."""
    if len(input_shape) != 3 or input_shape[0] != 3 or min(input_shape[1:]) < _SMALLEST_SIDE:
        raise FeaturesError(
            f"Network {name!r} needs color images of shape (3, height, width) with sides of at least {_SMALLEST_SIDE}. "
            f"Got rows of shape {input_shape}. Resize X, or use network='cnn'."
        )


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """Read named tensors from a `.safetensors` file, or from a `.pth` file with torch's restricted reader.

    A file with anything but tensors is refused, and nothing in it is executed.
    """
    source = Path(path)
    if not source.is_file():
        raise SavedModelError(f"The weights file {source} does not exist. Check the path.")
    try:
        if source.suffix == ".safetensors":
            from safetensors.torch import load_file

            tensors: Any = load_file(source)
        else:
            tensors = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as problem:  # damaged and hostile files raise many kinds of errors
        raise UntrustedFileError(
            f"{source} contains something other than plain tensors, or is damaged ({str(problem).splitlines()[0]}). "
            "Nothing in it was executed; get the file again."
        ) from problem
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise UntrustedFileError(f"{source} must be a mapping from names to tensors. Got {type(tensors).__name__}.")
    return tensors


def load_weights(network: nn.Module, path: Path | str, *, head: str | None = None) -> None:
    """Load the tensors of a `.pth` or `.safetensors` file into a network whose names and shapes must be the file's.

    Only the last layer, called `head`, may have another shape; it then stays as it is.
    """
    tensors = read_weights(path)
    expected = network.state_dict()
    if head is not None and _shape(tensors, f"{head}.weight") != _shape(expected, f"{head}.weight"):
        log.info("%s: the last layer %s is not loaded, its shape differs", path, head)
        for name in (f"{head}.weight", f"{head}.bias"):
            tensors[name] = expected[name]
    missing, foreign = sorted(set(expected) - set(tensors)), sorted(set(tensors) - set(expected))
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]  # old files lack the counters
    if missing or foreign:
        raise SavedModelError(
            f"{path} does not contain the weights of {type(network).__name__}: "
            f"{len(missing)} names are missing ({', '.join(missing[:3])}), "
            f"{len(foreign)} are unknown ({', '.join(foreign[:3])}). Pass the file of this network."
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise SavedModelError(
                f"{path}: {name} has the shape {tuple(tensor.shape)}, {type(network).__name__} needs "
                f"{tuple(expected[name].shape)}. Pass the file of this network."
            )
    network.load_state_dict(tensors, strict=False)


def extract_features(network: Network, X: Any, *, chunk_size: int = 64) -> NDArray[np.float32]:
    """Compute the features of every row once, with the network frozen; return them as (n_rows, n_features).

    X has (n_rows, channels, height, width) floats in [0, 1] or bytes, or is an object with a method ``dense(rows)``,
    such as `ImageFiles`, which is decoded a chunk at a time.
    """
    source, frozen = make_source(X), network.eval()
    with torch.inference_mode():
        parts = [
            frozen.features(source.take(slice(start, start + chunk_size))).float().numpy()
            for start in range(0, len(source), chunk_size)
        ]
    return np.concatenate(parts)


def _shape(tensors: dict[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(tensors[name].shape) if name in tensors else None
