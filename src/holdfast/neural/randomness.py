"""Random generators of one training: initialization, dropout and augmentation.

torch's own generators belong to the whole process. Trainings in several threads would draw from them in turn, and none
could be repeated. So dropout layers and our networks draw from the training's `RandomStream`. Where torch takes no
generator, its own are borrowed for a moment, behind a lock: to initialize layers, and to train networks of users that
call random functions themselves, such as `torch.nn.functional.dropout`. Threads train such networks one at a time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

_lock = threading.RLock()  # held while torch's own generators are borrowed


class RandomStream:
    """Generators of one training, on the CPU and on its device."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        device = torch.device(device)
        self._devices = [torch.device("cpu"), *([device] if device.type == "cuda" else [])]
        self._generators = {place.type: torch.Generator(place) for place in self._devices}
        self._borrows = False  # whether torch's own generators continue the stream at the moment

    def seed(self, seed: int) -> None:
        """Start again from a seed."""
        for generator in self._generators.values():
            generator.manual_seed(seed)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Let layers that run in this thread draw from the stream inside the block."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)

    @contextlib.contextmanager
    def borrowing(self) -> Iterator[None]:
        """Let torch's own generators continue the stream inside the block; afterwards they are as they were."""
        if self._borrows:
            yield
            return
        with self._lent():
            self._borrows = True
            try:
                yield
            finally:
                self._take_back()

    @contextlib.contextmanager
    def guarding(self, network: nn.Module) -> Iterator[Callable[[], None]]:
        """Borrow torch's own generators inside the block, unless a first step shows that the network needs none.

        Yields
        ------
        callable
            To be called after every step.
        """
        if type(network).__module__.startswith("holdfast."):
            yield lambda: None
            return
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lent())
            before = [_own_state(place) for place in self._devices]

            def after_step() -> None:
                if before and not self._borrows:
                    self._borrows = any(
                        not torch.equal(_own_state(place), state)
                        for place, state in zip(self._devices, before, strict=True)
                    )
                    before.clear()
                    if not self._borrows:
                        stack.close()

            try:
                yield after_step
            finally:
                if self._borrows:
                    self._take_back()

    @contextlib.contextmanager
    def _lent(self) -> Iterator[None]:
        """Keep other threads away, set torch's own generators like the stream's, and restore them afterwards."""
        with _lock, torch.random.fork_rng(devices=self._devices[1:]):
            for place in self._devices:
                _set_own_state(place, self._generators[place.type].get_state())
            yield

    def _take_back(self) -> None:
        """Continue where torch's own generators stand."""
        for place in self._devices:
            self._generators[place.type].set_state(_own_state(place))
        self._borrows = False

    def generator(self, device: torch.device) -> torch.Generator | None:
        """Return the generator for tensors on a device; None while torch's own are borrowed."""
        return None if self._borrows else self._generators[device.type]

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream stands, and whether torch's own generators continue it."""
        states = {
            place.type: _own_state(place) if self._borrows else self._generators[place.type].get_state()
            for place in self._devices
        }
        return {**states, "borrows": self._borrows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`; a stream that borrowed has to be inside `guarding`."""
        self._borrows = bool(state.get("borrows", False))
        for place in self._devices:
            if self._borrows:
                _set_own_state(place, state[place.type])
            else:
                self._generators[place.type].set_state(state[place.type])


_active: ContextVar[RandomStream | None] = ContextVar("holdfast_random_stream", default=None)


def active_generator(device: torch.device) -> torch.Generator | None:
    """Return the generator of the training that runs in this thread; None: draw from torch's own."""
    stream = _active.get()
    return None if stream is None else stream.generator(device)


def borrowing() -> contextlib.AbstractContextManager[None]:
    """Return a block in which torch's own generators continue the active stream, where there is one."""
    stream = _active.get()
    return contextlib.nullcontext() if stream is None else stream.borrowing()


def _own_state(place: torch.device) -> Tensor:
    """Return where torch's own generator stands."""
    return torch.cuda.get_rng_state(place) if place.type == "cuda" else torch.get_rng_state()


def _set_own_state(place: torch.device, state: Tensor) -> None:
    """Put torch's own generator somewhere."""
    if place.type == "cuda":
        torch.cuda.set_rng_state(state, place)
    else:
        torch.set_rng_state(state)


class _FromStream(nn.Module):
    """Dropout that draws from the training's stream, in torch's own way and order."""

    p: float
    inplace: bool
    _n_axes: ClassVar[int | None] = None  # of a batch, where whole channels are dropped

    def forward(self, input: Tensor) -> Tensor:
        """Return the input, in training with entries or channels that are zero with probability p."""
        generator = active_generator(input.device)
        if not self.training or generator is None or self.p in (0.0, 1.0) or self._n_axes not in (None, input.ndim):
            dropped: Tensor = super().forward(input)
            return dropped
        mask = torch.empty_like(input, dtype=torch.bool)
        if self._n_axes is not None:  # one number for each channel
            mask = mask.new_empty((*input.shape[:2], *[1] * (input.ndim - 2)))
        mask.bernoulli_(1 - self.p, generator=generator)
        scale = 1 / (1 - self.p)
        return input.mul_(mask).mul_(scale) if self.inplace else input * mask * scale


class Dropout(_FromStream, nn.Dropout):
    """`torch.nn.Dropout`, drawing from the training's stream."""


class Dropout1d(_FromStream, nn.Dropout1d):
    """`torch.nn.Dropout1d`, drawing from the training's stream."""

    _n_axes = 3


class Dropout2d(_FromStream, nn.Dropout2d):
    """`torch.nn.Dropout2d`, drawing from the training's stream."""

    _n_axes = 4


class Dropout3d(_FromStream, nn.Dropout3d):
    """`torch.nn.Dropout3d`, drawing from the training's stream."""

    _n_axes = 5


_FROM_STREAM = {kind.__mro__[2]: kind for kind in (Dropout, Dropout1d, Dropout2d, Dropout3d)}


def draw_from_stream(network: nn.Module) -> nn.Module:
    """Return the network, its dropout layers drawing from the training's stream from now on."""
    for module in network.modules():
        module.__class__ = _FROM_STREAM.get(type(module), type(module))
    return network


def _renew_lock() -> None:
    """Give a forked process a lock of its own: the thread that held the old one is not in it."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
