"""Load weights from files, and compute features with a frozen backbone."""

from __future__ import annotations

import hashlib
import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from holdfast.environments import PerRow
from holdfast.exceptions import FeaturesError, SavedModelError, UntrustedFileError
from holdfast.neural.networks import Network, call_network
from holdfast.neural.settings import resolve_device
from holdfast.neural.sources import ItemRows, ItemSource, make_source, moved, read_items
from holdfast.registry import ImportPath
from holdfast.rows.kinds import holds_items

log = logging.getLogger(__name__)

_SMALLEST_SIDE = 32  # the networks halve it five times
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNetNormalization(nn.Module):
    """Subtract ImageNet's mean color and divide by its deviation; its buffers are not part of the state dict."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(_DEVIATION).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return normalized images, (n_rows, 3, height, width)."""
        return (images - self.mean) / self.deviation


def check_images(name: str, input_shape: tuple[int, ...]) -> None:
    """Refuse rows that are not color images of a useful size."""
    if len(input_shape) != 3 or input_shape[0] != 3 or min(input_shape[1:]) < _SMALLEST_SIDE:
        raise FeaturesError(
            f"Network {name!r} needs color images of shape (3, height, width) with sides of at least {_SMALLEST_SIDE}. "
            f"Got rows of shape {input_shape}. Resize X, or use network='cnn'."
        )


def read_tensors(path: Path | str) -> dict[str, Tensor]:
    """Read named tensors from a `.safetensors` file, or from a `.pth` file with torch's restricted reader.

    A file with anything but tensors is refused, and nothing in it is executed.
    """
    source = Path(path)
    if not source.is_file():
        raise SavedModelError(f"The weights file {source} does not exist. Check the path.")
    try:
        if source.suffix == ".safetensors":
            from safetensors.torch import load_file

            tensors: Any = load_file(source)
        else:
            tensors = torch.load(source, map_location="cpu", weights_only=True)
    except Exception as problem:  # damaged and hostile files raise many kinds of errors
        raise UntrustedFileError(
            f"{source} contains something other than plain tensors, or is damaged ({str(problem).splitlines()[0]}). "
            "Nothing in it was executed; get the file again."
        ) from problem
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise UntrustedFileError(f"{source} must be a mapping from names to tensors. Got {type(tensors).__name__}.")
    return tensors


def load_weights(network: nn.Module, path: Path | str, *, head: str | None = None) -> None:
    """Load the tensors of a `.pth` or `.safetensors` file into a network whose names and shapes must be the file's.

    Only the last layer, called `head`, may have another shape; it then stays as it is.
    """
    tensors = read_tensors(path)
    expected = network.state_dict()
    if head is not None and _shape(tensors, f"{head}.weight") != _shape(expected, f"{head}.weight"):
        log.info("%s: the last layer %s is not loaded, its shape differs", path, head)
        for name in (f"{head}.weight", f"{head}.bias"):
            tensors[name] = expected[name]
    missing, foreign = sorted(set(expected) - set(tensors)), sorted(set(tensors) - set(expected))
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]  # old files lack the counters
    if missing or foreign:
        raise SavedModelError(
            f"{path} does not contain the weights of {type(network).__name__}: "
            f"{len(missing)} names are missing ({', '.join(missing[:3])}), "
            f"{len(foreign)} are unknown ({', '.join(foreign[:3])}). Pass the file of this network."
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise SavedModelError(
                f"{path}: {name} has the shape {tuple(tensor.shape)}, {type(network).__name__} needs "
                f"{tuple(expected[name].shape)}. Pass the file of this network."
            )
    network.load_state_dict(tensors, strict=False)


def extract_features(network: Network, X: Any, *, chunk_size: int = 64) -> NDArray[np.float32]:
    """Compute the features of every row once, with the network frozen; return them as (n_rows, n_features).

    X has (n_rows, channels, height, width) floats in [0, 1] or bytes, or is an object with a method ``dense(rows)``,
    such as `ImageFiles`, which is decoded a chunk at a time.
    """
    source, frozen = make_source(X), network.eval()
    with torch.inference_mode():
        parts = [
            frozen.features(cast(Tensor, source.take(slice(start, start + chunk_size)))).float().numpy()
            for start in range(0, len(source), chunk_size)
        ]
    return np.concatenate(parts)


_KEPT: weakref.WeakKeyDictionary[nn.Module, OrderedDict[Any, NDArray[np.float32]]] = weakref.WeakKeyDictionary()


@dataclass(eq=False, repr=False)
class FrozenFeatures(TransformerMixin, BaseEstimator):
    """Features of a pre-trained network that is not trained further: the first step of a Pipeline.

    Each row is computed once and kept: judges, folds and the final classifier, which are fitted on parts of the same
    rows, find their features there.

    Parameters
    ----------
    network : nn.Module or callable
        The backbone, or a function of no arguments that returns it, which can be saved.
    pooling : callable, optional
        ``(answer, inputs) -> (n_rows, n_features)`` from what the network returns. None: `features` of holdfast's own
        networks; `pooler_output`, else the mean of `last_hidden_state` over the tokens, of Hugging Face's; a tensor as
        it is, flattened.
    row_transform, collate_fn, n_workers
        As for `NeuralClassifier`. For a list of texts `collate_fn` gets texts and returns tokens.
    batch_size : int, default=64
        Rows that the network sees at once.
    n_kept : int, default=200_000
        Rows whose features are kept in memory, as long as the network lives; the oldest go first.
    device : str, default="auto"

    Examples
    --------
    >>> step = FrozenFeatures(nn.Linear(2, 3, bias=False)).fit(np.ones((4, 2)))
    >>> step.transform(np.ones((4, 2))).shape
    (4, 3)
    """

    takes_items: ClassVar[bool] = True

    network: nn.Module | Callable[[], nn.Module]
    _: KW_ONLY
    pooling: Callable[[Any, Any], Tensor] | None = None
    row_transform: Callable[[Any], Any] | None = None
    collate_fn: Callable[[list[Any]], Any] | None = None
    n_workers: int = 0
    batch_size: int = 64
    n_kept: int = 200_000
    device: str = "auto"

    def fit(self, X: Any, y: PerRow = None) -> Self:
        """Build the network; nothing is learned from the rows."""
        built: Any = _BUILT.get(self.network) if not isinstance(self.network, nn.Module) else self.network
        if built is None:
            built = _BUILT[self.network] = self.network()
        self.network_: nn.Module = built.eval()
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the features of each row, (n_rows, n_features)."""
        check_is_fitted(self, "network_")
        rows = read_items(X, (), ())[0] if holds_items(X) else ItemRows(X if isinstance(X, list) else np.asarray(X))
        kept = _KEPT.setdefault(self.network_, OrderedDict())
        keys = [(self.row_transform, self.collate_fn, self.pooling, key) for key in _row_keys(rows)]
        wanted = np.array([place for place, key in enumerate(keys) if key not in kept], dtype=np.intp)
        found = {key: kept[key] for key in keys if key in kept}
        for part, features in self._compute(rows, wanted):
            found |= {keys[place]: row for place, row in zip(part.tolist(), features, strict=True)}
        for key in keys:
            kept[key] = found[key]
            kept.move_to_end(key)
        while len(kept) > self.n_kept:
            kept.popitem(last=False)
        return np.stack([found[key] for key in keys])

    def _compute(self, rows: ItemRows, wanted: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Yield row numbers and their features, a batch at a time."""
        if not len(wanted):
            return
        options = {name: getattr(self, name) for name in ("row_transform", "collate_fn", "n_workers")}
        source, device = ItemSource(rows, **options), resolve_device(self.device)
        network = self.network_.to(device)
        with source.reading(), torch.inference_mode():
            for start in range(0, len(wanted), self.batch_size):
                part = wanted[start : start + self.batch_size]
                inputs = moved(source.take(part), device)
                yield part, self._pool(network, inputs).float().cpu().numpy()

    def _pool(self, network: nn.Module, inputs: Any) -> Tensor:
        """Return (n_rows, n_features) of a batch."""
        if self.pooling is None and isinstance(network, Network):
            return network.features(inputs)
        answer = call_network(network, inputs)
        if self.pooling is not None:
            return self.pooling(answer, inputs)
        if isinstance(answer, Tensor):
            return answer.flatten(1)
        if getattr(answer, "pooler_output", None) is not None:
            return answer.pooler_output.flatten(1)  # type: ignore[no-any-return]
        tokens = getattr(answer, "last_hidden_state", None)
        if tokens is None:
            raise FeaturesError(
                f"The backbone returned {type(answer).__name__}, whose features are not known. Pass pooling=, a "
                "function of the answer and the inputs."
            )
        mask = inputs.get("attention_mask") if isinstance(inputs, dict) else None
        weights = torch.ones(tokens.shape[:2], device=tokens.device) if mask is None else mask.float()
        return (tokens * weights.unsqueeze(-1)).sum(1) / weights.sum(1, keepdim=True)  # type: ignore[no-any-return]

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same network, whose features are kept."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def saved_attributes(self) -> dict[str, Any]:
        """Return what is saved of a step that is not fitted: functions by import path."""
        if isinstance(self.network, nn.Module):
            raise SavedModelError(
                f"FrozenFeatures has an instance of {type(self.network).__name__}, and how it was built cannot be "
                "saved. Pass a function that returns it; see docs/how-to/backbones.md."
            )
        code = {name: getattr(self, name) for name in ("network", "pooling", "row_transform", "collate_fn")}
        code = {name: None if value is None else ImportPath.of(value, name) for name, value in code.items()}
        return {name: value for name, value in vars(self).items() if name != "network_"} | code | {"n_workers": 0}

    def get_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the step as plain values and import paths, and the network's tensors by name."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network_.state_dict().items()}
        return self.saved_attributes(), tensors

    @classmethod
    def from_state(cls, state: Mapping[str, Any], tensors: Mapping[str, Any]) -> Self:
        """Return the step that `get_state` described."""
        step = cls(**state)
        step.network_ = step.network().eval()
        try:
            step.network_.load_state_dict({name: torch.as_tensor(tensor) for name, tensor in tensors.items()})
        except RuntimeError as problem:
            raise SavedModelError(f"The saved weights do not fit the backbone: {problem}") from problem
        return step


_BUILT: weakref.WeakKeyDictionary[Any, nn.Module] = weakref.WeakKeyDictionary()  # by functions: clones share a network


def _row_keys(rows: ItemRows) -> list[Any]:
    """Return what tells rows apart: their content, or the Dataset and their number in it."""
    items = rows.items
    if isinstance(items, dict):
        columns = [values for _, values in sorted(items.items())]
        return [b"".join(_digest(values[row]) for values in columns) for row in rows.rows]
    if isinstance(items, list | np.ndarray):
        return [_digest(items[row]) for row in rows.rows]
    return [(weakref.ref(items), int(row)) for row in rows.rows]


def _digest(value: Any) -> bytes:
    data = value.encode() if isinstance(value, str) else np.asarray(value).tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()


def _shape(tensors: dict[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(tensors[name].shape) if name in tensors else None
