"""The small convolutional network of the colored-digit experiments."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.exceptions import FeaturesError
from holdfast.networks.registry import Network, register_network

_SMALLEST_SIDE = 6  # two 3x3 convolutions and one halving leave one pixel


@register_network("cnn")
class CNN(Network):
    """Two 3x3 convolutions (32 and 64 maps), max-pool 2, and one hidden layer.

    Parameters
    ----------
    input_shape : tuple of int
        (channels, height, width); (height, width) is read as one channel.
    n_classes : int
        Number of outputs.
    dropout : float, default=0.0
        Probability that a hidden unit is dropped during training.
    channel_dropout : float, default=0.25
        Probability that a whole map is dropped before the hidden layer.
    hidden : int, default=390
        Width of the hidden layer.
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        n_classes: int,
        dropout: float = 0.0,
        channel_dropout: float = 0.25,
        hidden: int = 390,
    ) -> None:
        super().__init__()
        if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < _SMALLEST_SIDE:
            raise FeaturesError(
                f"Network 'cnn' needs images of shape (channels, height, width) with sides of at least "
                f"{_SMALLEST_SIDE}. Got rows of shape {input_shape}. Reshape X, or use network='mlp'."
            )
        n_channels, height, width = (1, *input_shape)[-3:]
        self.conv1 = nn.Conv2d(n_channels, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.channel_dropout = nn.Dropout2d(channel_dropout)
        self.hidden = nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden, n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the hidden layer, (n_rows, hidden)."""
        images = inputs.unsqueeze(1) if inputs.ndim == 3 else inputs
        maps = F.relu(self.conv1(images))
        # ReLU and max commute: pooling first leaves a quarter of the values to rectify.
        maps = F.relu(F.max_pool2d(self.conv2(maps), 2))
        flat = self.channel_dropout(maps).flatten(1)  # (n_rows, 64 * height/2 * width/2)
        return self.dropout(F.relu(self.hidden(flat)))  # type: ignore[no-any-return]
