"""Group batches: rows of one or several groups in one tensor, from arrays, memory maps, sparse rows or texts.

Everything happens in the training process: drawing rows by number from memory or a memory map takes microseconds, and
worker processes would only add latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.batches.sampling import GroupBatchSampler, GroupStreams
from holdfast.batches.sources import RowSource, make_source
from holdfast.batches.text import Vocabulary, tokenize
from holdfast.environments import Group, Rows, Weights
from holdfast.seeding import Seeding

__all__ = ["Batch", "GroupBatchSampler", "GroupBatches", "RowSource", "Vocabulary", "make_source", "tokenize"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one or several groups, one group after the other."""

    inputs: Tensor  # (n_rows, ...)
    targets: Tensor  # (n_rows,)
    groups: tuple[int, ...]  # group numbers, in the order of their rows
    sizes: tuple[int, ...]  # number of rows of each
    weights: Tensor | None = None  # (n_rows,) where a weighted group is used whole

    def means(self, values: Tensor) -> Tensor:
        """Return the (weighted) mean over each group of one value for each row, (n_groups,)."""
        if self.weights is None and len(set(self.sizes)) == 1:
            return values.view(len(self.sizes), self.sizes[0]).mean(1)  # (n_groups, batch_size) -> (n_groups,)
        if self.weights is None:
            return torch.stack([part.mean() for part in values.split(self.sizes)])
        pairs = zip(values.split(self.sizes), self.weights.split(self.sizes), strict=True)
        return torch.stack([torch.dot(weights, part) / weights.sum() for part, weights in pairs])


class GroupBatches:
    """Draws batches of groups and puts them on the device.

    Parameters
    ----------
    source : RowSource
        Rows of X by number.
    targets : array of shape (n_rows,)
        Class codes, or numbers to predict.
    groups : sequence of Group
        May overlap.
    batch_size : int
        Rows of each group; a smaller group is used whole.
    seeding : Seeding
        Streams of the groups.
    device : torch.device
        Where batches go.
    """

    def __init__(
        self,
        source: RowSource,
        targets: NDArray[Any],
        groups: Sequence[Group],
        *,
        batch_size: int,
        seeding: Seeding,
        device: torch.device | str = "cpu",
    ) -> None:
        self._source = source
        self._targets = targets
        self._streams = GroupStreams(groups, batch_size, seeding)
        self._device = torch.device(device)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, without rows of weight zero."""
        return self._streams.groups

    @property
    def batch_size(self) -> int:
        """Rows of each group in a batch."""
        return self._streams.batch_size

    def draw(self, groups: Sequence[int]) -> Batch:
        """Return the next batch of each of the groups, as one batch."""
        drawn = [self._streams.draw(group) for group in groups]
        sizes = tuple(len(rows) for rows, _ in drawn)
        weights = None
        if any(part is not None for _, part in drawn):
            weights = np.concatenate([_or_ones(part, size) for (_, part), size in zip(drawn, sizes, strict=True)])
        rows = drawn[0][0] if len(drawn) == 1 else np.concatenate([rows for rows, _ in drawn])
        return self._take(rows, tuple(groups), sizes, weights)

    def draw_mixture(self, probabilities: Weights, n_rows: int) -> Batch:
        """Return `n_rows` rows of a mixture of the groups, as a batch of those that were drawn."""
        rows, groups, sizes = self._streams.draw_mixture(probabilities, n_rows)
        return self._take(rows, tuple(groups.tolist()), tuple(sizes.tolist()), None)

    def _take(self, rows: Rows, groups: tuple[int, ...], sizes: tuple[int, ...], weights: Weights | None) -> Batch:
        """Fetch rows by number."""
        moved = None if weights is None else torch.from_numpy(weights.astype(np.float32)).to(self._device)
        inputs, targets = self._source.take(rows), torch.from_numpy(self._targets[rows])
        return Batch(inputs.to(self._device), targets.to(self._device), groups, sizes, moved)

    def state_dict(self) -> dict[str, Any]:
        """Return where the streams stand."""
        return self._streams.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the streams back."""
        self._streams.load_state_dict(state)


def _or_ones(weights: Weights | None, size: int) -> Weights:
    """Return the weights, or ones where there are none."""
    return np.ones(size) if weights is None else weights
