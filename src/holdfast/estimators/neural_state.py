"""A fitted network estimator as plain values and tensors, so that it can be loaded without unpickling anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.batches import Vocabulary
from holdfast.exceptions import SavedModelError, UntrustedFileError
from holdfast.networks import NETWORKS, build_network
from holdfast.selection import EpochScores, Selected

FORMAT = 1
# Parameters that are data of a fit or need not be plain values; what they led to is stored instead.
_NOT_STORED = ("network_options", "vocabulary", "random_state", "loss")


def get_state(estimator: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a fitted estimator as values for JSON, and the network's tensors by name."""
    if not isinstance(estimator.network, str):
        raise SavedModelError(
            f"network={estimator.network!r} cannot be saved: a file must not hold code. Register the network by name "
            "with holdfast.networks.register_network('my_network') and pass network='my_network'."
        )
    options = dict(estimator.network_options or {})
    options.pop("weights", None)  # a file to start from; what became of it is among the network's tensors
    if options.get("vectors") is not None:
        # The vectors are part of the network's tensors; only their shape is needed to build it again.
        options["vectors"] = list(estimator._network_arguments()["vectors"].shape)
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _NOT_STORED}
    seed = estimator.random_state
    state: dict[str, Any] = {
        "format": FORMAT,
        "parameters": parameters,
        "loss": estimator.loss if isinstance(estimator.loss, str) else None,
        "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        "network_options": _plain_options(options),
        "input_shape": list(estimator.input_shape_),
        "vocabulary": None if estimator.vocabulary_ is None else _vocabulary_state(estimator.vocabulary_),
        "classes": _array_state(estimator.classes_) if hasattr(estimator, "classes_") else None,
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "feature_names_in": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "selected": {
            "rule": estimator.selected_.rule,
            "value": estimator.selected_.value,
            "scores": estimator.selected_.scores.as_dict(),
        },
        "history": estimator.history_,
        "group_weights": estimator.group_weights_.tolist(),
        "precision": estimator.precision_,
    }
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in estimator.network_.state_dict().items()}
    return state, tensors


def set_state(estimator: Any, state: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """Make an unfitted estimator the one that was saved."""
    if state.get("format") != FORMAT:
        raise SavedModelError(
            f"The saved network has format {state.get('format')!r}; this version reads format {FORMAT}."
        )
    name = state["parameters"]["network"]
    if name not in NETWORKS:
        raise SavedModelError(
            f"The saved estimator's network is {name!r}, which is not registered here. Import the module that calls "
            f"holdfast.networks.register_network({name!r}) before loading."
        )
    options = dict(state["network_options"])
    if "weights" in options:  # never saved: whoever put it there wants another file to be read
        raise UntrustedFileError("The saved estimator names a weights file outside of its folder. It was not read.")
    vectors = options.pop("vectors", None)
    parameters = {**state["parameters"], "network_options": options or None, "random_state": state["random_state"]}
    if state["loss"] is not None:
        parameters["loss"] = state["loss"]
    estimator.set_params(**parameters)
    estimator.input_shape_ = tuple(state["input_shape"])
    words = state["vocabulary"]
    estimator.vocabulary_ = None if words is None else Vocabulary(tuple(words["tokens"]), words["lowercase"])
    if state["classes"] is not None:
        estimator.classes_ = _array(state["classes"])
    if state["n_features_in"] is not None:
        estimator.n_features_in_ = state["n_features_in"]
    if state["feature_names_in"]:
        estimator.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
    arguments = estimator._network_arguments()
    weights = {key: torch.as_tensor(tensor) for key, tensor in tensors.items()}
    _check_sizes(name, arguments, vectors, weights)
    if vectors is not None:
        arguments["vectors"] = torch.zeros(vectors)
    network = build_network(name, **arguments)
    try:
        network.load_state_dict(weights)
    except RuntimeError as problem:
        raise SavedModelError(f"The saved weights do not fit network {name!r}: {problem}") from problem
    if len(estimator.input_shape_) == 3:  # as the training lays it out: other kernels give other last bits
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    estimator.network_ = network.eval()
    estimator.device_ = "cpu"
    estimator.precision_ = state["precision"]
    estimator.history_ = list(state["history"])
    estimator.group_weights_ = np.asarray(state["group_weights"], dtype=np.float64)
    chosen = state["selected"]
    scores = EpochScores(**chosen["scores"])
    estimator.selected_ = Selected(chosen["rule"], chosen["value"], scores, network.state_dict())


def _check_sizes(
    name: str, arguments: Mapping[str, Any], vectors: list[int] | None, weights: Mapping[str, Tensor]
) -> None:
    """Refuse options that ask for a larger network than the saved tensors fill, before memory is taken for it."""
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
                f"network_options[{name!r}] is of type {type(value).__name__} and cannot be saved. "
                "Use numbers, strings or lists of them."
            )
        plain[name] = value
    return plain


def _vocabulary_state(vocabulary: Vocabulary) -> dict[str, Any]:
    return {"tokens": list(vocabulary.tokens), "lowercase": vocabulary.lowercase}


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
