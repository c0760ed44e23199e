"""The linear network and the multilayer perceptron, on flattened rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from holdfast.exceptions import ParameterError
from holdfast.neural.networks.registry import Network, register_network


@register_network("linear")
class Linear(Network):
    """Logistic regression as a network; `dropout` drops inputs."""

    def __init__(self, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(math.prod(input_shape), n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the row itself, flattened."""
        return self.dropout(inputs.flatten(1))  # type: ignore[no-any-return]


@register_network("mlp")
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
        self.hidden = nn.Sequential(*layers)
        self.classifier = nn.Linear(width, n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the last hidden layer, (n_rows, hidden[-1])."""
        return self.hidden(inputs.flatten(1))  # type: ignore[no-any-return]
