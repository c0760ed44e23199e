"""Data-parallel training: processes that `torchrun` starts share every batch of one network.

Every rank draws the same batch by the same seed and computes on every n-th row of each group. Sums over rows are added
up over the ranks, so each rank knows the risk of every group in the whole batch, chooses the same worst group or moves
the same weights, and the ranks' gradients add up to the one that a single process with the whole batch would have.
Batch normalization uses the statistics of the whole batch. Networks, optimizers and random streams of batches stay the
same on all ranks, so a checkpoint of rank 0 is one of all, whatever their number.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.environments import Rows, Weights
from holdfast.exceptions import ParameterError

BUCKET = 25 * 2**20  # bytes of gradients that are added up in one message


@dataclass(frozen=True)
class Ranks:
    """The processes that train together; one of them is this one."""

    number: int = 0
    n: int = 1

    def share(
        self, rows: Rows, sizes: Sequence[int], weights: Weights | None
    ) -> tuple[Rows, tuple[int, ...], Weights | None, NDArray[np.float64]]:
        """Return this rank's rows of a batch, how many of each group, their weights, and each group's total weight."""
        ends = np.cumsum(sizes)
        mine = [np.arange(end - size, end)[self.number :: self.n] for size, end in zip(sizes, ends, strict=True)]
        everything = np.ones(len(rows)) if weights is None else weights
        totals = np.array([everything[end - size : end].sum() for size, end in zip(sizes, ends, strict=True)])
        chosen = np.concatenate(mine)
        return rows[chosen], tuple(map(len, mine)), None if weights is None else weights[chosen], totals

    def add_up(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace the gradients by their sums over all ranks, some megabytes in each message."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        while self.n > 1 and gradients:
            size, bucket = 0, []
            while gradients and size < BUCKET:
                bucket.append(gradients.pop())
                size += bucket[-1].numel() * bucket[-1].element_size()
            flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
            dist.all_reduce(flat)
            for gradient, part in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return on every rank what rank 0 makes."""
        if self.n == 1:
            return make()
        found = [make() if self.number == 0 else None]
        dist.broadcast_object_list(found)
        return found[0]

    def prepare(self, network: nn.Module) -> nn.Module:
        """Return the network with rank 0's weights, and batch statistics of all ranks."""
        if self.n > 1:
            for tensor in (*network.parameters(), *network.buffers()):
                dist.broadcast(tensor.data, 0)
            for module in network.modules():
                module.__class__ = _SHARED.get(type(module), type(module))
        return network

    def gather(self, answer: Callable[[Rows], Tensor], rows: Rows, device: torch.device) -> Tensor:
        """Return what a function says about rows, each rank asked about its share of them."""
        if self.n == 1:
            return answer(rows)
        size = -(-len(rows) // self.n)
        padded = np.resize(rows, size * self.n)  # messages are equally long
        own = answer(padded[self.number * size : (self.number + 1) * size]).to(device)
        parts = [torch.empty_like(own) for _ in range(self.n)]
        dist.all_gather(parts, own)
        return torch.cat(parts)[: len(rows)].cpu()


ALONE = Ranks()
_current: ContextVar[Ranks] = ContextVar("holdfast_ranks", default=ALONE)


def current_ranks() -> Ranks:
    """Return the ranks of the innermost ``with data_parallel()``."""
    return _current.get()


@contextlib.contextmanager
def data_parallel() -> Iterator[Ranks]:
    """Train networks inside the block with all processes that `torchrun` started.

    Every process runs the same program on the same rows; NCCL connects them on GPUs, gloo on processors. Without
    torchrun nothing changes. Afterwards every process has the fitted estimator; let rank 0 save it::

        with data_parallel() as ranks:
            model.fit(X, y, environments=environments)
        if ranks.number == 0:
            model.save("model")
    """
    n = int(os.environ.get("WORLD_SIZE", "1"))
    if n == 1:
        yield ALONE
        return
    if not dist.is_initialized():  # it stays until the process ends: a second start could miss the others
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        try:
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        except (RuntimeError, ValueError) as problem:
            raise ParameterError(
                f"WORLD_SIZE is {n}, but this process cannot reach the others: {problem}. Start all of them with "
                "torchrun --nproc-per-node N, or unset WORLD_SIZE."
            ) from problem
        atexit.register(dist.destroy_process_group)
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    token = _current.set(ranks)
    try:
        yield ranks
    finally:
        _current.reset(token)


class _Sum(torch.autograd.Function):
    """Adds a tensor up over the ranks; its gradient stays this rank's own, or is added up too."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, add_gradients: bool) -> Tensor:
        ctx.add_gradients = add_gradients
        total = value.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if ctx.add_gradients:
            gradient = gradient.clone()
            dist.all_reduce(gradient)
        return gradient, None


def all_sum(value: Tensor, *, add_gradients: bool = False) -> Tensor:
    """Return the sum over all ranks.

    What follows is computed alike on every rank, so that each rank's own part of the gradient is complete; with
    `add_gradients` what follows differs between ranks, and the gradients are added up.
    """
    total: Tensor = _Sum.apply(value, add_gradients)  # type: ignore[no-untyped-call]
    return total


class _SharedStatistics(nn.modules.batchnorm._BatchNorm):
    """Batch normalization by mean and variance of the whole batch, over all ranks."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized input."""
        if not self.training or current_ranks().n == 1:
            normalized: Tensor = super().forward(input)
            return normalized
        axes = [0, *range(2, input.ndim)]
        count = input.new_tensor([input.numel() / max(input.shape[1], 1)])
        total = all_sum(torch.cat([input.sum(axes), count]), add_gradients=True)
        n, mean = total[-1].detach(), total[:-1] / total[-1].detach()
        shape = [1, -1, *[1] * (input.ndim - 2)]
        centered = input - mean.view(shape)
        variance = all_sum(centered.square().sum(axes), add_gradients=True) / n
        if self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked.add_(1)
                pace = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked or 1)
                self.running_mean.lerp_(mean.detach(), pace)
                self.running_var.lerp_(variance.detach() * n / (n - 1), pace)
        normalized = centered / (variance + self.eps).sqrt().view(shape)
        if self.affine:
            normalized = normalized * self.weight.view(shape) + self.bias.view(shape)
        return normalized


class _BatchNorm1d(_SharedStatistics, nn.BatchNorm1d):
    """One-dimensional."""


class _BatchNorm2d(_SharedStatistics, nn.BatchNorm2d):
    """Two-dimensional."""


class _BatchNorm3d(_SharedStatistics, nn.BatchNorm3d):
    """Three-dimensional."""


_SHARED: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: _BatchNorm1d,
    nn.BatchNorm2d: _BatchNorm2d,
    nn.BatchNorm3d: _BatchNorm3d,
}
