"""The convolutional network for texts (Kim, 2014): filters over word vectors, then the maximum over positions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from holdfast.exceptions import FeaturesError, ParameterError
from holdfast.neural.networks import Network

_PADDING = 0  # token number


class TextCNN(Network):
    """Word vectors, dropout, convolutions of several widths, max over time, ReLU, dropout, one linear layer.

    A window starts at each word of a text; those that reach beyond its end see zeros. So a text's outputs do not depend
    on the padding of its batch. `dropout` drops entries of word vectors, and features.

    Parameters
    ----------
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
        # A window starts at each token; a text without tokens has one, of zeros. Only words and windows that are there
        # are dropped and multiplied: texts are several times shorter than the longest of their batch.
        lengths = (inputs != _PADDING).sum(dim=1).clamp(min=1)
        present = torch.arange(inputs.shape[1], device=inputs.device) < lengths.unsqueeze(1)
        words = F.pad(self.dropout(self.embedding(inputs[present])), (0, 0, 0, 1))  # the last is what follows a text
        ends = lengths.cumsum(0).repeat_interleave(lengths)  # of each word's text
        places = torch.arange(len(ends), device=inputs.device).unsqueeze(1) + torch.arange(max(self.widths)).to(ends)
        windows = words[places.where(places < ends.unsqueeze(1), len(ends))].flatten(1)
        strongest = []
        for width, convolution in zip(self.widths, self.convolutions, strict=True):
            weight, bias = cast("nn.Conv1d", convolution).weight, cast("nn.Conv1d", convolution).bias
            by_word = weight.transpose(1, 2).flatten(1)  # (n_filters, width * dimension)
            seen = windows[:, : width * words.shape[1]]
            answers = _StrongestAnswers.apply(seen, by_word, lengths.tolist())  # type: ignore[no-untyped-call]
            strongest.append(answers + bias)
        return F.relu(torch.cat(strongest, dim=1))

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits, with units dropped first."""
        return self.classifier(self.dropout(features))  # type: ignore[no-any-return]


class _StrongestAnswers(torch.autograd.Function):
    """Each filter's largest answer to the windows of each text.

    One window of a text has the whole of a filter's gradient. So the way back sums over n_texts windows for each
    filter, where differentiating the product and the maximum would multiply all windows, most of them by zero.
    """

    @staticmethod
    def forward(ctx: Any, windows: Tensor, weight: Tensor, lengths: list[int]) -> Tensor:
        answers = windows @ weight.t()  # (n_windows, n_filters)
        ctx.save_for_backward(windows, weight, answers)
        ctx.lengths = lengths
        return torch.stack([part.amax(dim=0) for part in answers.split(lengths)])  # (n_texts, n_filters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None]:
        # Finding the window takes longer than the maximum alone. Only the backward pass needs it, of one group of many.
        windows, weight, answers = ctx.saved_tensors
        starts = itertools.accumulate(ctx.lengths[:-1], initial=0)
        parts = zip(answers.split(ctx.lengths), starts, strict=True)
        which = torch.stack([part.max(dim=0).indices + start for part, start in parts])
        gradient = gradient.to(windows.dtype)
        of_weight = F.embedding_bag(
            which.t().contiguous(), windows.contiguous(), mode="sum", per_sample_weights=gradient.t().contiguous()
        )
        of_windows = None
        if ctx.needs_input_grad[0]:  # word vectors that are learned
            chosen = gradient.new_zeros(len(windows), len(weight)).scatter_(0, which, gradient)
            of_windows = chosen @ weight
        return of_windows, of_weight, None


def _embedding(vectors: Tensor | None, n_tokens: int, dimension: int) -> nn.Embedding:
    """Return fixed or learned word vectors; padding is zero."""
    if vectors is None:
        return nn.Embedding(n_tokens, dimension, padding_idx=_PADDING)
    if vectors.ndim != 2 or len(vectors) != n_tokens:
        raise ParameterError(
            f"The 'vectors' option must have one vector for each of the {n_tokens} tokens. "
            f"Got a tensor of shape {tuple(vectors.shape)}."
        )
    fixed = vectors.detach().float().clone()
    fixed[_PADDING] = 0
    embedding = nn.Embedding(fixed.shape[0], fixed.shape[1], padding_idx=_PADDING, _weight=fixed)
    embedding.weight.requires_grad_(False)
    return embedding
