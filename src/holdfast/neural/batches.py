"""Batches with rows of one or several groups, as tensors.

Drawing rows by number from memory or a memory map takes microseconds, so it happens in the training process; items of a
Dataset may be read by workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from holdfast.environments import Group, Rows, Weights
from holdfast.exceptions import ParameterError
from holdfast.neural.distributed import all_sum, current_ranks
from holdfast.neural.sources import Inputs, RowSource, Vocabulary, make_source, moved, tokenize
from holdfast.seeding import RandomState, Seeding


class GroupStreams:
    """Batches of row numbers, independent between groups and from batch to batch.

    Inside a batch rows are drawn without replacement. A group no larger than the batch is used whole. A weighted group
    is drawn by weight, stratified: row i is drawn batch_size·w_i/Σw times on average, so that the plain mean of a batch
    is an unbiased group risk (a row can be drawn twice where it spans two strata or its share exceeds one). Rows of
    weight zero are never drawn. Group `name` draws from the stream ("batches", name).
    """

    def __init__(self, groups: Sequence[Group], batch_size: int, seeding: Seeding) -> None:
        if batch_size < 1:
            raise ParameterError(f"The 'batch_size' parameter must be at least 1. Got {batch_size!r} instead.")
        self.groups = tuple(_without_zero_weights(group) for group in groups)
        self.batch_size = batch_size
        self._names = _distinct([group.name for group in groups])
        self._seeding = seeding
        self._generators: dict[int, np.random.Generator] = {}
        self._cumulative: dict[int, Weights] = {}
        self._mixture = seeding.generator("batches of a mixture")

    def draw_rows(self, group: int) -> tuple[Rows, Weights | None]:
        """Return the next batch of a group: row numbers, and weights where a weighted group is used whole."""
        rows, weights = self.groups[group].rows, self.groups[group].weights
        if len(rows) <= self.batch_size:
            return rows, weights
        generator = self._generator(group)
        if weights is None:
            return rows[generator.choice(len(rows), self.batch_size, replace=False, shuffle=False)], None
        strata = (np.arange(self.batch_size) + generator.random(self.batch_size)) / self.batch_size
        return rows[np.searchsorted(self._cumulative_weights(group), strata, side="right")], None

    def draw_mixture_rows(self, probabilities: Weights, n_rows: int) -> tuple[Rows, NDArray[np.intp], NDArray[np.intp]]:
        """Return `n_rows` row numbers of a mixture of the groups, which groups they are of, and how many of each.

        Group g is drawn n_rows·probabilities[g] times on average, rounded down or up, one row from each of as many
        strata. Apart from one running sum the cost does not grow with the number of groups.
        """
        # Systematic sampling: one uniform shift for all draws keeps every count within one of its expectation.
        points = (self._mixture.random() + np.arange(n_rows)) * (probabilities.sum() / n_rows)
        drawn = np.cumsum(probabilities).searchsorted(points, side="right")
        np.minimum(drawn, len(self.groups) - 1, out=drawn)  # a point may round up to the whole sum
        counts = np.bincount(drawn, minlength=len(self.groups))
        groups = counts.nonzero()[0]
        counts = counts[groups]
        ends = counts.cumsum()
        order = np.arange(n_rows) - (ends - counts).repeat(counts)  # the k-th draw of its group ...
        shares = (order + self._mixture.random(n_rows)) / counts.repeat(counts)  # ... from the k-th of m strata
        return self._pool.take(drawn, shares), groups, counts

    @cached_property
    def _pool(self) -> _Pool:
        """The rows of all groups in one array, built at the first mixture."""
        return _Pool(self.groups)

    def _cumulative_weights(self, group: int) -> Weights:
        """Return the running sum of a group's weights, the last one exactly 1."""
        if group not in self._cumulative:
            cumulative = np.cumsum(self.groups[group].probabilities())
            cumulative[-1] = 1.0
            self._cumulative[group] = cumulative
        return self._cumulative[group]

    def _generator(self, group: int) -> np.random.Generator:
        """Return the group's stream, created at its first use."""
        if group not in self._generators:
            self._generators[group] = self._seeding.generator("batches", *self._names[group])
        return self._generators[group]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every stream as plain values."""
        return {
            "mixture": self._mixture.bit_generator.state,
            "groups": {str(group): stream.bit_generator.state for group, stream in self._generators.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of every stream."""
        self._mixture.bit_generator.state = state["mixture"]
        self._generators.clear()
        for group, stream in state["groups"].items():
            self._generator(int(group)).bit_generator.state = stream


def _without_zero_weights(group: Group) -> Group:
    """Return the group without rows of weight zero."""
    if len(group := group.weighing()) == 0:
        raise ParameterError(f"Group {group.name!r} has no rows (of positive weight). Drop it before training.")
    return group


def _distinct(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return stream names that differ even where group names repeat."""
    seen: dict[str, int] = {}
    result: list[tuple[str, ...]] = []
    for name in names:
        count = seen.get(name, 0)
        result.append((name,) if count == 0 else (name, str(count)))
        seen[name] = count + 1
    return result


class _Pool:
    """Rows of all groups in one array, so that rows of many groups are found at once."""

    def __init__(self, groups: Sequence[Group]) -> None:
        sizes = np.array([len(group) for group in groups])
        largest = max(int(group.rows.max()) for group in groups)
        kind = np.int32 if largest < np.iinfo(np.int32).max else np.intp  # half the memory where that is enough
        self._rows = np.concatenate([group.rows for group in groups], dtype=kind, casting="same_kind")
        self._sizes = sizes
        self._starts = np.concatenate([[0], sizes.cumsum()[:-1]])
        self._reached: Weights | None = None
        if any(group.weights is not None for group in groups):
            # Group g's running sum of weights runs from g to g + 1: one ascending array for all.
            sums = (np.cumsum(group.probabilities()) for group in groups)
            self._reached = np.concatenate([number + np.minimum(part, 1.0) for number, part in enumerate(sums)])
            self._reached[self._starts + sizes - 1] = np.arange(1, len(groups) + 1)

    def take(self, groups: NDArray[np.intp], shares: Weights) -> Rows:
        """Return the row of each group at which its weights reach a share of their sum."""
        if self._reached is None:
            places = self._starts[groups] + (shares * self._sizes[groups]).astype(np.intp)
        else:
            places = self._reached.searchsorted(groups + shares, side="right")
        last = self._starts[groups] + self._sizes[groups] - 1
        rows: Rows = self._rows[np.minimum(places, last)].astype(np.intp)
        return rows


class GroupBatchSampler(Sampler[list[int]]):
    """Batches with rows of every group, for a `torch.utils.data.DataLoader` over any map-style dataset.

    Each batch is a list of row numbers: first group's rows, then the second's, and so on; `sizes` says how many of
    each, so ``torch.split(losses, sampler.sizes)`` gives the groups back after any collate function.

    Parameters
    ----------
    groups : sequence of Group
        May overlap. Weighted groups are drawn by weight, so that the plain mean over a group's rows is its risk.
    batch_size : int
        Rows of each group; a smaller group is used whole.
    n_batches : int
        Batches in one pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the streams; every pass continues them.

    Examples
    --------
    >>> import numpy as np
    >>> groups = [Group("a", np.arange(0, 4)), Group("b", np.arange(4, 6))]
    >>> sampler = GroupBatchSampler(groups, batch_size=3, n_batches=2, random_state=0)
    >>> sampler.sizes, [len(rows) for rows in sampler]
    ([3, 2], [5, 5])
    """

    def __init__(
        self, groups: Sequence[Group], *, batch_size: int, n_batches: int, random_state: RandomState = None
    ) -> None:
        self._streams = GroupStreams(groups, batch_size, Seeding(random_state))
        self.n_batches = n_batches
        self.sizes = [
            batch_size if group.weights is not None else min(batch_size, len(group)) for group in self._streams.groups
        ]

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.n_batches):
            yield [row for group in range(len(self.sizes)) for row in self._rows(group)]

    def _rows(self, group: int) -> list[int]:
        """Return one group's part of a batch."""
        rows, weights = self._streams.draw_rows(group)
        if weights is not None:  # a small weighted group: rows by weight, since a dataset has no place for weights
            rows = self._streams.draw_mixture_rows(np.eye(len(self.sizes))[group], self.sizes[group])[0]
        return [int(row) for row in rows]


__all__ = ["Batch", "GroupBatchSampler", "GroupBatches", "RowSource", "Vocabulary", "make_source", "tokenize"]


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one or several groups, one group after the other."""

    inputs: Inputs  # (n_rows, ...), or a dict of such
    targets: Tensor  # (n_rows,)
    groups: tuple[int, ...]  # group numbers, in the order of their rows
    sizes: tuple[int, ...]  # number of rows of each
    weights: Tensor | None = None  # (n_rows,) where a weighted group is used whole
    totals: Tensor | None = None  # (n_groups,) weight of each group's rows on all ranks; None: all rows are here

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of one value for each row."""
        return values.mean() if self.totals is None else all_sum(values.sum()) / self.totals.sum()

    def means(self, values: Tensor) -> Tensor:
        """Return the (weighted) mean over each group of one value for each row, (n_groups,)."""
        if self.totals is not None:
            weighted = values if self.weights is None else values * self.weights
            return all_sum(torch.stack([part.sum() for part in weighted.split(self.sizes)])) / self.totals
        if self.weights is None and len(set(self.sizes)) == 1:
            return values.view(len(self.sizes), self.sizes[0]).mean(1)  # (n_groups, batch_size) -> (n_groups,)
        if self.weights is None:
            return torch.stack([part.mean() for part in values.split(self.sizes)])
        pairs = zip(values.split(self.sizes), self.weights.split(self.sizes), strict=True)
        return torch.stack([torch.dot(weights, part) / weights.sum() for part, weights in pairs])


class GroupBatches(GroupStreams):
    """Draws batches of groups, which may overlap, and puts them on the device."""

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
        super().__init__(groups, batch_size, seeding)
        self._source = source
        self._targets = targets
        self._device = torch.device(device)
        self._ranks = current_ranks()
        self._draw_seed, self._n_drawn = seeding.integer("items"), 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state of every stream as plain values."""
        return {**super().state_dict(), "drawn": self._n_drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of every stream."""
        super().load_state_dict(state)
        self._n_drawn = state.get("drawn", 0)

    def draw(self, groups: Sequence[int]) -> Batch:
        """Return the next batch of each of the groups, as one batch."""
        drawn = [self.draw_rows(group) for group in groups]
        sizes = tuple(len(rows) for rows, _ in drawn)
        weights = None
        if any(part is not None for _, part in drawn):
            weights = np.concatenate([np.ones(len(rows)) if part is None else part for rows, part in drawn])
        rows = drawn[0][0] if len(drawn) == 1 else np.concatenate([rows for rows, _ in drawn])
        return self._take(rows, tuple(groups), sizes, weights)

    def draw_mixture(self, probabilities: Weights, n_rows: int) -> Batch:
        """Return `n_rows` rows of a mixture of the groups, as a batch of those that were drawn."""
        rows, groups, sizes = self.draw_mixture_rows(probabilities, n_rows)
        return self._take(rows, tuple(groups.tolist()), tuple(sizes.tolist()), None)

    def _take(self, rows: Rows, groups: tuple[int, ...], sizes: tuple[int, ...], weights: Weights | None) -> Batch:
        """Fetch rows by number; where several ranks train together, this one's share of each group."""
        totals = None
        if self._ranks.n > 1:
            rows, sizes, weights, found = self._ranks.share(rows, sizes, weights)
            totals = torch.from_numpy(found.astype(np.float32)).to(self._device)
        on_device = None if weights is None else torch.from_numpy(weights.astype(np.float32)).to(self._device)
        self._n_drawn += 1
        source, targets = self._source, torch.from_numpy(self._targets[rows])
        inputs = source.take(rows, self._draw_seed + self._n_drawn)
        return Batch(moved(inputs, self._device), targets.to(self._device), groups, sizes, on_device, totals)
