"""Fitted networks as plain values and tensors, for saving and loading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from holdfast.exceptions import ParameterError, SavedModelError, UntrustedFileError
from holdfast.neural.networks import NETWORKS, Factory, build_network
from holdfast.neural.options import current_names, part_of
from holdfast.neural.randomness import RandomStream
from holdfast.neural.selection import Selected
from holdfast.neural.sources import Vocabulary
from holdfast.neural.training import holds_images
from holdfast.registry import ImportPath

if TYPE_CHECKING:
    from holdfast.neural.estimator import NeuralEstimator

EstimatorT = TypeVar("EstimatorT", bound="NeuralEstimator")
FORMAT = 2  # 1: before most parameters had a prefix, and read as well
# Parameters that are data of a fit, need not be plain values or are for training alone; what they led to is stored.
_NOT_STORED = (
    *("random_state", "loss", "optimizer", "scheduler", "callbacks", "verbose"),
    *("network", "data__row_transform", "data__collate_fn", "data__vocabulary", "data__n_workers"),
)
CODE = ("network", "data__row_transform", "data__collate_fn")  # import paths where they are classes or functions
TRAINING_ONLY = ("optimizer", "scheduler", "callbacks")


def state_of(estimator: NeuralEstimator) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a fitted estimator as values for JSON, and the network's tensors by name."""
    options = estimator.options_for("network")
    options.pop("weights", None)  # a file to start from; what became of it is among the network's tensors
    if options.get("vectors") is not None:
        # The vectors are part of the network's tensors; only their shape is needed to build it again.
        options["vectors"] = list(estimator.network_arguments()["vectors"].shape)
    parameters = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_STORED and part_of(name) in (None, "training", "data")
    }
    parameters |= _code_parameters(estimator)
    if estimator.scheduler == "cosine":
        parameters["scheduler"] = "cosine"
    seed, words, shape = estimator.random_state, estimator.vocabulary_, estimator.input_shape_
    listed: Any = {n: list(s) for n, s in shape.items()} if isinstance(shape, dict) else list(shape)
    state: dict[str, Any] = {
        "format": FORMAT,
        "parameters": parameters,
        "loss": estimator.loss if isinstance(estimator.loss, str) else None,
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "network_options": _plain_options(options),
        "input_shape": listed,
        "vocabulary": None if words is None else {"tokens": list(words.tokens), "lowercase": words.lowercase},
        "classes": _array_state(estimator.classes_) if hasattr(estimator, "classes_") else None,
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "selected": {key: value for key, value in estimator.selected_.as_dict().items() if key != "weights"},
        "history": estimator.history_,
        "group_weights": estimator.group_weights_.tolist(),
        "precision": estimator.precision_,
        "input_scale": getattr(estimator, "input_scale_", None),
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in estimator.network_.state_dict().items()}
    return state, tensors


def with_state(estimator: EstimatorT, state: Mapping[str, Any], tensors: Mapping[str, Any]) -> EstimatorT:
    """Return a new estimator as the fitted one that `state_of` described."""
    if state.get("format") not in range(1, FORMAT + 1):
        raise SavedModelError(
            f"The saved network has format {state.get('format')!r}; this version reads formats 1 to {FORMAT}."
        )
    name = state["parameters"]["network"]
    if isinstance(name, str) and name not in NETWORKS:
        raise SavedModelError(
            f"The saved estimator's network is {name!r}, which is not registered here. Import the module that "
            f"calls holdfast.neural.networks.register_network({name!r}) before loading."
        )
    options = dict(state["network_options"])
    if "weights" in options:  # never saved by holdfast: it would read a file outside of the model
        raise UntrustedFileError("The saved estimator names a weights file outside of its folder. It was not read.")
    vectors = options.pop("vectors", None)
    parameters = current_names({**state["parameters"], "random_state": state["random_state"]})
    parameters |= {f"network__{option}": value for option, value in options.items()}
    if state["loss"] is not None:
        parameters["loss"] = state["loss"]
    try:
        estimator.set_params(**parameters).check_parameters()
    except ParameterError as problem:  # never of a fit: it would have refused them
        raise UntrustedFileError(f"The saved network cannot predict rows: {problem}") from problem
    shape = state["input_shape"]
    estimator.input_shape_ = {n: tuple(s) for n, s in shape.items()} if isinstance(shape, dict) else tuple(shape)
    estimator.input_scale_ = state.get("input_scale") or {}
    words = state["vocabulary"]
    estimator.vocabulary_ = None if words is None else Vocabulary(tuple(words["tokens"]), words["lowercase"])
    if state["classes"] is not None:
        estimator.classes_ = _array(state["classes"])
    if state["n_features_in"] is not None:
        estimator.n_features_in_ = state["n_features_in"]
    if state["feature_names_in"]:
        estimator.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
    arguments = estimator.network_arguments()
    weights = {key: torch.as_tensor(tensor) for key, tensor in tensors.items()}
    _check_sizes(name, arguments, vectors, weights)
    if vectors is not None:
        arguments["vectors"] = torch.zeros(vectors)
    with RandomStream().borrowing():  # what is drawn here is overwritten
        network = build_network(name, **arguments)
    try:
        network.load_state_dict(weights)
    except RuntimeError as problem:
        raise SavedModelError(f"The saved weights do not fit network {name!r}: {problem}") from problem
    if holds_images(estimator.input_shape_):  # as the training lays it out: other kernels give other last bits
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    estimator.network_ = network.eval()
    estimator.device_ = "cpu"
    estimator.precision_ = state["precision"]
    estimator.history_ = list(state["history"])
    estimator.group_weights_ = np.asarray(state["group_weights"], dtype=np.float64)
    estimator.selected_ = Selected.from_dict({**state["selected"], "weights": network.state_dict()})
    return estimator


def attributes_of(estimator: NeuralEstimator) -> dict[str, Any]:
    """Return what is saved of an estimator that is not fitted: parameters, but for those of a training alone."""
    kept = {name: value for name, value in vars(estimator).items() if part_of(name) not in ("optimizer", "scheduler")}
    given: dict[str, Any] = {name: None for name in TRAINING_ONLY if getattr(estimator, name) != "cosine"}
    return kept | _code_parameters(estimator) | given


def _code_parameters(estimator: NeuralEstimator) -> dict[str, Any]:
    """Return parameters that may be code: classes and functions by import path, all else as it is."""
    if isinstance(estimator.network, nn.Module):
        raise SavedModelError(
            f"network is an instance of {type(estimator.network).__name__}, and how it was built cannot be saved. Pass "
            "its class, or a function that returns it, and its settings as network__…; see "
            "docs/how-to/own-network.md."
        )
    given = estimator.get_params(deep=False)
    values = {name: given[name] for name in CODE if name in given}
    return {name: ImportPath.of(value, name) if callable(value) else value for name, value in values.items()}


def _check_sizes(
    name: str | Factory, arguments: Mapping[str, Any], vectors: list[int] | None, weights: Mapping[str, Tensor]
) -> None:
    """Refuse options of a network that does not match the saved tensors, before its memory is allocated."""
    try:
        with torch.device("meta"):  # shapes without memory
            fixed: dict[str, Any] = {} if vectors is None else {"vectors": torch.empty(vectors)}
            network = build_network(name, **arguments, **fixed)
    except (NotImplementedError, RuntimeError):  # a user's network that looks at its own numbers
        return
    expected = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
    if expected != {key: tuple(tensor.shape) for key, tensor in weights.items()}:
        raise SavedModelError(f"The saved weights do not fit network {name!r}: their names or shapes differ.")


def _plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the network's options as plain values, or say which one is not."""
    plain: dict[str, Any] = {}
    for name, value in options.items():
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        value = list(value) if isinstance(value, tuple) else value
        items = value if isinstance(value, list) else [value]
        if not all(item is None or isinstance(item, bool | int | float | str) for item in items):
            raise SavedModelError(
                f"network__{name} is of type {type(value).__name__} and cannot be saved. "
                "Use numbers, strings or lists of them."
            )
        plain[name] = value
    return plain


def _array_state(array: NDArray[Any]) -> dict[str, Any]:
    """Return labels as plain values with their type."""
    values = array.tolist()
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise SavedModelError(
            f"Labels of type {type(values[0]).__name__} cannot be saved. Use numbers or strings as labels."
        )
    return {"dtype": array.dtype.str if array.dtype.kind != "O" else "object", "values": values}


def _array(state: Mapping[str, Any]) -> NDArray[Any]:
    return np.array(state["values"], dtype=object if state["dtype"] == "object" else np.dtype(state["dtype"]))
