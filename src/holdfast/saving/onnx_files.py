"""Write ONNX files, after comparing their predictions with the classifier's; torch converts networks."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.exceptions import ParameterError, SavedModelError
from holdfast.extras import require
from holdfast.fitting.estimators import trained_network
from holdfast.saving.files import write_bytes

OPSET = 18
N_COMPARED = 1_000
TOLERANCE = 1e-4  # of probabilities: ONNX computes most estimators in float32
INSTEAD = "Deploy the saved folder itself (docs/how-to/deploy.md)."
Arrays = Mapping[str, NDArray[Any]]


def require_onnx(module: str) -> Any:
    """Return a package of the extra `onnx`."""
    return require(module, extra="onnx", what="ONNX files")


def keep_if_same(
    model: Any, inputs: Arrays, expected: NDArray[np.float64], predicted: NDArray[Any], file: str | os.PathLike[str]
) -> float:
    """Write a model that gives labels and probabilities, unless these differ; return the largest difference."""
    content = model.SerializeToString()
    runtime = require_onnx("onnxruntime")
    try:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        labels, probabilities = session.run(None, dict(inputs))
    except Exception as problem:  # what the runtime raises on what converters wrote
        reason = " ".join(str(problem).split())[:200]
        raise SavedModelError(f"The ONNX file cannot be run ({reason}). It was not written. {INSTEAD}") from problem
    difference = float(np.abs(probabilities - expected).max())
    ranked = np.sort(expected, axis=1)
    wrong = (labels != predicted) & (ranked[:, -1] - ranked[:, -2] > 2 * TOLERANCE)
    if not difference <= TOLERANCE or wrong.any():
        raise SavedModelError(
            f"Predictions of the ONNX file differ from those of the classifier: {int(wrong.sum())} of {len(labels)} "
            f"labels, and probabilities by up to {difference:.2g}. It was not written. {INSTEAD}"
        )
    write_bytes(Path(file), content)
    return difference


def export_network(model: Any, file: str | os.PathLike[str], rows: Any) -> float:
    """Write a classifier around a network that was fitted on arrays or a Dataset; see `tables.export.export_onnx`."""
    estimator = getattr(model, "estimator_", model)
    if trained_network(estimator) is None:
        raise SavedModelError(
            f"{type(estimator).__name__} was not fitted on a table and is not a network, so it cannot be exported. Fit "
            "it with TableClassifier or `holdfast fit`."
        )
    batch = estimator.inputs(rows, N_COMPARED)
    batch = batch if isinstance(batch, Mapping) else {"rows": batch}
    inputs = {name: np.ascontiguousarray(tensor.cpu().numpy()) for name, tensor in batch.items()}
    n_rows = len(next(iter(inputs.values())))
    outputs = estimator.outputs(rows, np.arange(n_rows)).double().numpy()
    expected, classes = special.softmax(outputs, axis=1), [str(label) for label in model.classes_]
    converted = convert_network(estimator, inputs)
    add_labels(converted, classes)
    return keep_if_same(converted, inputs, expected, np.array(classes)[expected.argmax(axis=1)], file)


def read_arrays(file: str | os.PathLike[str]) -> Any:
    """Return the rows of a network that a file has: the array of an .npy file, or all of an .npz file by name."""
    try:
        found = np.load(file, allow_pickle=False)
        return dict(found) if isinstance(found, Mapping) else found
    except (OSError, ValueError) as problem:
        raise ParameterError(
            f"{os.fspath(file)} cannot be read as arrays ({problem}). A network that was not fitted on a table needs "
            "its rows as a .npy file, or as a .npz file with an array for each input."
        ) from problem


def convert_network(estimator: Any, inputs: Arrays) -> Any:
    """Return a network as an ONNX model from these inputs to `probabilities`."""
    import torch

    from holdfast.neural.networks import run_network

    class Probabilities(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = copy.deepcopy(estimator.network_).cpu().eval()

        def forward(self, *tensors: Any) -> Any:
            batch = dict(zip(inputs, tensors, strict=True)) if len(inputs) > 1 else tensors[0]
            return torch.softmax(run_network(self.network, batch, len(estimator.classes_)).double(), dim=1)

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names packages that are not needed
    require_onnx("onnxscript")
    any_number: Any = torch.export.Dim.DYNAMIC
    lengths = [{0: any_number} | ({1: any_number} if values.dtype == np.int64 else {}) for values in inputs.values()]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of torch's exporter about its own parts
        program: Any = torch.onnx.export(
            Probabilities(),
            tuple(torch.from_numpy(values[:2]) for values in inputs.values()),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=["probabilities"],
            dynamic_shapes=(tuple(lengths),),
            verbose=False,
        )
        program.save(os.path.join(folder, "network.onnx"))
        return require_onnx("onnx").load(os.path.join(folder, "network.onnx"))


def add_labels(model: Any, classes: Sequence[str]) -> None:
    """Add the most probable label, as the first output."""
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array(classes, dtype=object), "classes"))
    graph.node.append(helper.make_node("ArgMax", ["probabilities"], ["best"], axis=1, keepdims=0))
    graph.node.append(helper.make_node("Gather", ["classes", "best"], ["label"]))
    graph.output.insert(0, helper.make_tensor_value_info("label", TensorProto.STRING, [None]))
