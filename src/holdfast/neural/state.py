"""The state of a training as one value, which can be saved and continued bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from holdfast.exceptions import HoldfastError, SavedModelError
from holdfast.neural.batches import GroupBatches
from holdfast.neural.objectives import ObjectiveRun
from holdfast.neural.randomness import RandomStream
from holdfast.neural.selection import Selected

# Plain values for JSON, and the tensors they refer to by name.
SavedState: TypeAlias = tuple[dict[str, Any], dict[str, Tensor]]

PLAIN = ("step", "epoch", "n_stale", "finished", "history")  # parts of a state that are saved as they are


@dataclass(eq=False)
class TrainingState:
    """All that changes while a network is trained."""

    network: nn.Module
    average: nn.Module | None  # exponential average of the weights
    optimizer: torch.optim.Optimizer
    run: ObjectiveRun
    batches: GroupBatches
    device: torch.device
    stream: RandomStream
    fingerprint: dict[str, Any]  # of the run; a saved state of another run is refused
    scheduler: Any = None  # of the learning rate, where the user has one
    step: int = 0
    epoch: int = 0
    n_stale: int = 0  # evaluations since the last improvement
    finished: bool = False
    best: Selected | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def evaluated(self) -> nn.Module:
        """The network that is evaluated and selected: the average where there is one."""
        return self.network if self.average is None else self.average

    def save(self) -> SavedState:
        """Return a copy of the state: values for JSON, and tensors by name."""
        tree = {
            "fingerprint": self.fingerprint,
            **{name: getattr(self, name) for name in PLAIN},
            "network": self.network.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "objective": self.run.state_dict(),
            "batches": self.batches.state_dict(),
            "random": self.stream.state_dict(),
            "best": None if self.best is None else self.best.as_dict(),
        }
        return flatten(tree)

    def restore(self, saved: SavedState) -> None:
        """Continue where `save` was called."""
        try:
            self._restore(unflatten(*saved))
        except HoldfastError:
            raise
        except Exception as problem:  # torch and Python on values that somebody else chose
            raise SavedModelError(
                f"The saved training state is not valid ({problem!r:.200}). Remove it to start again."
            ) from problem

    def _restore(self, tree: dict[str, Any]) -> None:
        for key, value in self.fingerprint.items():
            if tree["fingerprint"].get(key) != value:
                raise SavedModelError(
                    f"The saved training state belongs to another run: {key} was {tree['fingerprint'].get(key)!r}, "
                    f"now it is {value!r}. Remove the old state, or repeat the run as it was."
                )
        for name in PLAIN:
            setattr(self, name, tree[name])
        self.network.load_state_dict(tree["network"])
        if self.average is not None:
            self.average.load_state_dict(tree["average"])
        self.optimizer.load_state_dict(tree["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(tree["scheduler"])
        self.run.load_state_dict(tree["objective"])
        self.batches.load_state_dict(tree["batches"])
        self.stream.load_state_dict(tree["random"])
        self.best = None if tree["best"] is None else Selected.from_dict(tree["best"])


def flatten(tree: Any) -> SavedState:
    """Take the tensors out of a tree of dicts and lists, leaving their names, so that the rest is JSON.

    Examples
    --------
    >>> document, tensors = flatten({"a": torch.ones(2), "b": {0: 1.5}})
    >>> document, list(tensors)
    ({'a': {'$tensor': 'a'}, 'b': {'$items': [[0, 1.5]]}}, ['a'])
    >>> unflatten(document, tensors)["b"]
    {0: 1.5}
    """
    tensors: dict[str, Tensor] = {}

    def walk(node: Any, path: str) -> Any:
        if isinstance(node, Tensor):
            tensors[path] = node.detach().clone().cpu()  # keeps the layout in memory, which fused Adam relies on
            return {"$tensor": path}
        if isinstance(node, Mapping):
            children = [(key, walk(value, f"{path}.{key}" if path else str(key))) for key, value in node.items()]
            if all(isinstance(key, str) for key in node):
                return dict(children)
            return {"$items": [[key, value] for key, value in children]}
        if isinstance(node, list | tuple):
            return [walk(value, f"{path}.{number}") for number, value in enumerate(node)]
        return node

    document = walk(tree, "")
    return document, tensors


def unflatten(document: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Put the tensors back; the inverse of `flatten`, except that tuples become lists."""
    if isinstance(document, dict):
        if "$tensor" in document:
            return tensors[document["$tensor"]].clone()
        if "$items" in document:
            return {key: unflatten(value, tensors) for key, value in document["$items"]}
        return {key: unflatten(value, tensors) for key, value in document.items()}
    if isinstance(document, list):
        return [unflatten(value, tensors) for value in document]
    return document
