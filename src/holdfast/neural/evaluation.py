"""Outputs of a network in chunks, and the scores that select an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.environments import Group, Rows
from holdfast.neural.distributed import current_ranks
from holdfast.neural.networks import run_network
from holdfast.neural.settings import without_denormals
from holdfast.neural.sources import Inputs, RowShape, RowSource, moved

_CHUNK_VALUES = 1_000_000  # input numbers in a chunk: 4 MB of float32, so that layers stay near the processor

Score = Callable[[Tensor, Tensor], Tensor]  # (n, n_classes) outputs, (n,) targets -> (n,) scores


def right_class(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return 1 where the largest logit is the target's, else 0, (n,)."""
    return (outputs.argmax(1) == targets).float()


def minus_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return −(f(x) − y)², (n,)."""
    return -(outputs.reshape(targets.shape) - targets).square()


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out rows by which epochs are compared, in (weighted) groups."""

    source: RowSource
    targets: NDArray[Any]  # (n_rows,)
    groups: tuple[Group, ...] = ()


def outputs_on(
    network: nn.Module,
    source: RowSource,
    *,
    device: torch.device,
    autocast: Callable[[], AbstractContextManager[Any]],
    rows: Rows | None = None,
    n_outputs: int | None = None,
    look: Callable[[Inputs], None] = lambda inputs: None,
) -> Tensor:
    """Return the network's outputs on all rows (or those listed), (n_rows, n_outputs) on the CPU.

    `look` is shown the first rows that are read.
    """
    n_rows = len(source) if rows is None else len(rows)
    size = min(max(_CHUNK_VALUES // max(_n_values(source.row_shape), 1), 64), 4096)
    was_training = network.training
    if was_training:
        network.eval()
    parts = []
    with without_denormals(), torch.inference_mode():
        for start in range(0, n_rows, size):
            chunk = slice(start, start + size) if rows is None else rows[start : start + size]
            inputs = source.take(chunk)
            if not start:
                look(inputs)
            with autocast():
                outputs = run_network(network, moved(_matching(inputs, network), device), n_outputs)
            parts.append((outputs if outputs.dtype == torch.float64 else outputs.float()).cpu())
    if was_training:
        network.train()
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _n_values(shape: RowShape) -> int:
    """Return how many numbers a row has."""
    return sum(map(math.prod, shape.values())) if isinstance(shape, dict) else math.prod(shape)


def _matching(inputs: Inputs, network: nn.Module) -> Inputs:
    """Return inputs for a network in float64 as float64; token numbers stay as they are."""
    if isinstance(inputs, dict):
        return inputs
    parameter = next(network.parameters(), None)
    double = parameter is not None and parameter.dtype == torch.float64 and inputs.is_floating_point()
    return inputs.double() if double else inputs


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """An epoch's scores on held-out rows."""

    score: float  # mean over all rows, or over the other environments
    group_scores: Mapping[str, float]
    predicts_one_class: bool


@dataclass(frozen=True, eq=False)
class Examiner:
    """Evaluates a network during training."""

    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]]
    score: Score
    validation: HeldOut | None = None
    others: HeldOut | None = None  # the other training environments, each a group
    selection_rows: int | None = None  # rows of each of them that are scored; None: all
    n_outputs: int | None = None  # of the network; None: as many as it gives

    def validate(self, network: nn.Module) -> HeldOutScores | None:
        """Score the validation rows."""
        held_out = self.validation
        if held_out is None:
            return None
        outputs = self._outputs(network, held_out.source, np.arange(len(held_out.targets)))
        scores = self.score(outputs, torch.from_numpy(held_out.targets)).double().numpy()
        groups = {group.name: float(np.average(scores[group.rows], weights=group.weights)) for group in held_out.groups}
        return HeldOutScores(float(scores.mean()), groups, _one_class(outputs, held_out.targets))

    def score_others(self, network: nn.Module) -> HeldOutScores | None:
        """Score the other environments, each by some of its rows; the score is the mean of theirs."""
        if self.others is None:
            return None
        parts = [evenly(group.rows, self.selection_rows) for group in self.others.groups]
        rows = np.concatenate(parts)
        outputs, targets = self._outputs(network, self.others.source, rows), self.others.targets[rows]
        scores = self.score(outputs, torch.from_numpy(targets)).double().split([len(part) for part in parts])
        means = {group.name: part.mean().item() for group, part in zip(self.others.groups, scores, strict=True)}
        return HeldOutScores(float(np.mean(list(means.values()))), means, _one_class(outputs, targets))

    def sees_one_class(self, network: nn.Module, source: RowSource, targets: NDArray[Any], rows: Rows) -> bool:
        """Return whether the network gives one class to rows of several."""
        return _one_class(self._outputs(network, source, rows), targets[rows])

    def _outputs(self, network: nn.Module, source: RowSource, rows: Rows) -> Tensor:
        def answer(part: Rows) -> Tensor:
            context, n_outputs = self.autocast, self.n_outputs
            return outputs_on(network, source, device=self.device, autocast=context, rows=part, n_outputs=n_outputs)

        return current_ranks().gather(answer, rows, self.device)


def _one_class(outputs: Tensor, targets: NDArray[Any]) -> bool:
    """Return whether all rows get the same class although their labels differ (never for regression)."""
    if outputs.ndim < 2 or outputs.shape[1] < 2 or len(np.unique(targets)) < 2:
        return False
    return len(outputs.argmax(1).unique()) == 1


def evenly(rows: Rows, most: int | None) -> Rows:
    """Return at most `most` of the rows, evenly spaced; all of them for None."""
    if most is None or len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def union_of(groups: Sequence[Group]) -> Rows:
    """Return the rows that are in any of the groups, ascending."""
    return np.unique(np.concatenate([group.rows for group in groups]))
