"""Small networks: linear, a multilayer perceptron, and a convolutional network for digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.exceptions import FeaturesError, ParameterError
from holdfast.neural.networks import Network
from holdfast.neural.randomness import active_generator

_SMALLEST_SIDE = 6  # two 3x3 convolutions and one halving leave one pixel


class Linear(Network):
    """Logistic regression as a network; `dropout` drops inputs."""

    def __init__(self, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(math.prod(input_shape), n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the row itself, flattened."""
        return inputs.flatten(1)

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits, with units dropped first."""
        return self.classifier(self.dropout(features))  # type: ignore[no-any-return]


class MLP(Network):
    """Hidden layers of ReLU units, of the widths `hidden`, on the flattened row."""

    def __init__(
        self, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0, hidden: Sequence[int] = (128,)
    ) -> None:
        super().__init__()
        if not hidden or min(hidden) < 1:
            raise ParameterError(f"The 'hidden' option must be one or more positive widths. Got {hidden!r} instead.")
        layers: list[nn.Module] = []
        width = math.prod(input_shape)
        for n_units in hidden:
            layers += [nn.Linear(width, n_units), nn.ReLU(), nn.Dropout(dropout)]
            width = n_units
        self.hidden = nn.Sequential(*layers[:-1])
        self.dropout = nn.Dropout(dropout)  # of the last hidden layer
        self.classifier = nn.Linear(width, n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the last hidden layer, (n_rows, hidden[-1])."""
        return self.hidden(inputs.flatten(1))  # type: ignore[no-any-return]

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits, with units dropped first."""
        return self.classifier(self.dropout(features))  # type: ignore[no-any-return]


class CNN(Network):
    """Two 3x3 convolutions (32 and 64 maps), max-pool 2, and one hidden layer.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width); (height, width) is read as one channel.
    channel_dropout : float, default=0.25
        Probability that a whole map is dropped before the hidden layer.
    hidden : int, default=390
        Width of the hidden layer.
    shift : int, default=0
        Each training image is moved by up to this many pixels in both directions, what enters being zero: more images
        where few are left.
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        n_classes: int,
        dropout: float = 0.0,
        channel_dropout: float = 0.25,
        hidden: int = 390,
        shift: int = 0,
    ) -> None:
        super().__init__()
        if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < _SMALLEST_SIDE:
            raise FeaturesError(
                f"Network 'cnn' needs images of shape (channels, height, width) with sides of at least "
                f"{_SMALLEST_SIDE}. Got rows of shape {input_shape}. Reshape X, or use network='mlp'."
            )
        if shift < 0:
            raise ParameterError(f"The 'shift' of network 'cnn' must not be negative. Got {shift!r} instead.")
        n_channels, height, width = (1, *input_shape)[-3:]
        self.shift = shift
        self.conv1 = nn.Conv2d(n_channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.channel_dropout = nn.Dropout2d(channel_dropout)
        self.hidden = nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the hidden layer, (n_rows, hidden)."""
        images = inputs.unsqueeze(1) if inputs.ndim == 3 else inputs
        if self.training and self.shift:
            images = _shifted(images, self.shift)
        # The same numbers with the channels of a pixel side by side, which a processor convolves and pools faster.
        maps = F.relu(self.conv1(images.contiguous(memory_format=torch.channels_last)))
        # ReLU and max commute: pooling first leaves a quarter of the values to rectify.
        maps = F.relu(F.max_pool2d(self.conv2(maps), 2))
        flat = self.channel_dropout(maps).flatten(1)  # (n_rows, 64 * height/2 * width/2)
        return F.relu(self.hidden(flat))

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits, with units dropped first."""
        return self.classifier(self.dropout(features))  # type: ignore[no-any-return]


def _shifted(images: Tensor, most: int) -> Tensor:
    """Move each image by its own random number of pixels, at most `most` in each direction."""
    n_images, _, height, width = images.shape
    generator = active_generator(images.device)
    corners = torch.randint(2 * most + 1, (2, n_images, 1, 1), device=images.device, generator=generator)
    rows = corners[0] + torch.arange(height, device=images.device).unsqueeze(1)  # (n_images, height, 1)
    columns = corners[1] + torch.arange(width, device=images.device)  # (n_images, 1, width)
    padded = F.pad(images, (most, most, most, most)).permute(0, 2, 3, 1)
    return padded[torch.arange(n_images, device=images.device)[:, None, None], rows, columns].permute(0, 3, 1, 2)
