"""One linear layer on the flattened row."""

from __future__ import annotations

import math

from torch import Tensor, nn

from holdfast.networks.registry import Network, register_network


@register_network("linear")
class Linear(Network):
    """Logistic regression as a network; `dropout` drops inputs.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one row.
    n_classes : int
        Number of outputs.
    dropout : float, default=0.0
        Probability that an input is dropped during training.
    """

    def __init__(self, *, input_shape: tuple[int, ...], n_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(math.prod(input_shape), n_classes)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the row itself, flattened."""
        return self.dropout(inputs.flatten(1))  # type: ignore[no-any-return]
