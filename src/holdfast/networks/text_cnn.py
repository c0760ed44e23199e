"""The convolutional text network: windows of words over fixed vectors, the strongest answer of each filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.exceptions import FeaturesError, ParameterError
from holdfast.networks.registry import Network, register_network

_PADDING = 0  # token number


@register_network("text_cnn")
class TextCNN(Network):
    """Word vectors, dropout, convolutions of several widths, max over time, ReLU, dropout, one linear layer.

    A window starts at each word of a text; those that reach beyond its end see zeros. So a text's outputs do not depend
    on how far the other texts of its batch made it be padded.

    Parameters
    ----------
    input_shape : tuple of int
        (n_tokens,), the size of the vocabulary.
    n_classes : int
        Number of outputs.
    dropout : float, default=0.0
        Probability that an entry of a word vector, or a feature, is dropped during training.
    vectors : tensor of shape (n_tokens, dimension), optional
        Word vectors that stay fixed. None: vectors of `dimension` entries are learned.
    n_filters : int, default=390
        Filters of each width.
    widths : sequence of int, default=(3, 4, 5)
        Words in a window.
    dimension : int, default=100
        Entries of a learned vector.
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        n_classes: int,
        dropout: float = 0.0,
        vectors: Tensor | None = None,
        n_filters: int = 390,
        widths: Sequence[int] = (3, 4, 5),
        dimension: int = 100,
    ) -> None:
        super().__init__()
        if len(input_shape) != 1:
            raise FeaturesError(
                f"Network 'text_cnn' needs texts. Got rows of shape {input_shape}. "
                "Pass a list of str, or use another network."
            )
        if not widths or min(widths) < 1 or n_filters < 1 or dimension < 1:
            raise ParameterError(
                f"Network 'text_cnn' needs positive widths, n_filters and dimension. "
                f"Got {tuple(widths)!r}, {n_filters!r} and {dimension!r}."
            )
        self.embedding = _embedding(vectors, input_shape[0], dimension)
        self.convolutions = nn.ModuleList(nn.Conv1d(self.embedding.embedding_dim, n_filters, width) for width in widths)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(n_filters * len(widths), n_classes)
        self.widths = tuple(widths)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the strongest answer of each filter, (n_rows, n_filters * n_widths)."""
        # A window starts at each token; a text without tokens has one, of zeros. Only windows that are there are
        # multiplied: texts are several times shorter than the longest of their batch.
        present = inputs != _PADDING
        present[:, 0] = True
        lengths = present.sum(dim=1).tolist()
        words = self.dropout(self.embedding(F.pad(inputs, (0, max(self.widths) - 1), value=_PADDING)))
        windows = words.unfold(1, max(self.widths), 1)[present]  # (n_windows, dimension, widest)
        strongest = []
        for width, convolution in zip(self.widths, self.convolutions, strict=True):
            weight, bias = cast("nn.Conv1d", convolution).weight, cast("nn.Conv1d", convolution).bias
            answers = F.linear(windows[:, :, :width].flatten(1), weight.flatten(1), bias)  # (n_windows, n_filters)
            strongest.append(torch.stack([part.amax(dim=0) for part in answers.split(lengths)]))
        return self.dropout(F.relu(torch.cat(strongest, dim=1)))  # type: ignore[no-any-return]


def _embedding(vectors: Tensor | None, n_tokens: int, dimension: int) -> nn.Embedding:
    """Return fixed or learned word vectors; padding is zero."""
    if vectors is None:
        return nn.Embedding(n_tokens, dimension, padding_idx=_PADDING)
    if vectors.ndim != 2 or len(vectors) != n_tokens:
        raise ParameterError(
            f"The 'vectors' option must hold one vector for each of the {n_tokens} tokens. "
            f"Got a tensor of shape {tuple(vectors.shape)}."
        )
    fixed = vectors.detach().float().clone()
    fixed[_PADDING] = 0
    embedding = nn.Embedding(fixed.shape[0], fixed.shape[1], padding_idx=_PADDING, _weight=fixed)
    embedding.weight.requires_grad_(False)
    return embedding
