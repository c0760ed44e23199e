"""Classifiers as ONNX files: preprocessing, estimator and labels, compared on rows before the file is kept.

Preprocessing is written with operators of ONNX itself; estimators are converted by skl2onnx, boosters by onnxmltools,
networks by torch. Numbers of a table are one input (n_rows, n_numbers) of doubles with NaN for missing ones; levels are
one input (n_rows, n_levels) of texts, where a missing one is the text "missing". A network that was fitted on arrays
has the inputs that it had then.
"""

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
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

from holdfast.exceptions import ParameterError, SavedModelError
from holdfast.extras import require
from holdfast.interpolation.removal import MixedClassifier, Removal
from holdfast.interpolation.reweight import WeightedEnsemble
from holdfast.judging.calibration import PROBABILITY_FLOOR
from holdfast.saving.files import write_bytes
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.files import open_table
from holdfast.tables.preprocessing import NativeColumns

OPSET = 18
N_COMPARED = 1_000
TOLERANCE = 1e-4  # of probabilities: ONNX computes most estimators in float32
INSTEAD = "Deploy the saved folder itself (docs/how-to/deploy.md)."
_NEEDED: dict[str, Any] = {"extra": "onnx", "what": "ONNX files"}
_BOOSTERS = {"XGBClassifier": "xgboost", "LGBMClassifier": "lightgbm", "CatBoostClassifier": "catboost"}
_INPUTS = {"numeric": "numbers", "categorical": "levels"}


def export_onnx(model: Any, file: str | os.PathLike[str], rows: Any) -> float:
    """Write a classifier as an ONNX file, if it answers the same.

    Parameters
    ----------
    model : TableClassifier, or another classifier around a network
        Fitted. Columns of text cannot be exported.
    file : path
        The .onnx file; it is replaced.
    rows : table, or what the network was fitted on
        For a `TableClassifier` a file or frame with the columns it was fitted with; else an array, a dict of arrays or
        a Dataset. The first 1,000 rows are asked both ways. The label is not needed.

    Returns
    -------
    float
        The largest difference of a probability.

    Raises
    ------
    SavedModelError
        Some answer differs by more than 0.0001, and no file was written; or a part cannot be converted.
    """
    require("onnx", **_NEEDED)
    runtime = require("onnxruntime", **_NEEDED)
    if isinstance(model, TableClassifier):
        schema = model.roles_.schema
        if schema.names("text"):
            raise ParameterError(
                f"The classifier reads columns of text ({', '.join(schema.names('text'))}), which cannot be exported "
                f"to ONNX. Fit without them. {INSTEAD}"
            )
        source = open_table(rows, model.roles_.missing)
        schema.require(source.columns)
        rows = next(iter(source.chunks(schema.names(), schema.types, N_COMPARED)))
        table = _TableGraph(model)
        graph: _Graph = table
        inputs = table.inputs(schema.features(rows))
        expected, predicted = model.predict_proba(rows), model.predict(rows).astype(str)
    else:
        graph, inputs, expected = _network_graph(model, rows)
        predicted = np.array(graph.classes)[expected.argmax(axis=1)]
    content = graph.model.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, inputs)
    difference = float(np.abs(probabilities - expected).max())
    sure = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 2 * TOLERANCE
    wrong = (labels != predicted) & sure
    if not difference <= TOLERANCE or wrong.any():
        raise SavedModelError(
            f"The ONNX file does not answer like the classifier: of {len(labels)} rows {int(wrong.sum())} get another "
            f"label, and probabilities differ by up to {difference:.2g}. It was not written. {INSTEAD}"
        )
    write_bytes(Path(file), content)
    return difference


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


class _Graph:
    """An ONNX model, built from left to right; a value is known by its name."""

    def __init__(self, classes: Sequence[str]) -> None:
        from onnx import TensorProto, helper

        self._helper, self.double = helper, TensorProto.DOUBLE
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.classes = list(classes)

    def add(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add an operator over values, or arrays that become constants, and return its value."""
        from onnx import numpy_helper

        names = []
        for value in inputs:
            if not isinstance(value, str):
                value = numpy_helper.from_array(np.asarray(value), f"constant{len(self._constants)}")
                self._constants.append(value)
                value = value.name
            names.append(value)
        output = output or f"value{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(operator, names, [output], **attributes))
        return output

    def join(self, model: Any, answer: str, matrix: str | None = None) -> str:
        """Add another model, of which `matrix` is the input (None: inputs of the same names); return its answer."""
        from onnx import compose

        prefix = f"part{len(self._nodes)}/"
        part = compose.add_prefix(model, prefix).graph
        for entry in part.input:
            kind = entry.type.tensor_type.elem_type
            self.add("Cast", matrix or entry.name.removeprefix(prefix), to=kind, output=entry.name)
        self._nodes.extend(part.node)
        self._constants.extend(part.initializer)
        return self.add("Cast", prefix + answer, to=self.double)

    def finish(self, probabilities: str, inputs: Mapping[str, tuple[Any, Sequence[Any]]], names: Any = None) -> None:
        """Make the model of all that was added; inputs have a type of numpy and a shape, `names` what they contain."""
        best = self.add("ArgMax", probabilities, axis=1, keepdims=0)
        self.add("Gather", np.array(self.classes, dtype=object), best, output="label")
        self.add("Identity", probabilities, output="probabilities")
        value, kind = self._helper.make_tensor_value_info, self._helper.np_dtype_to_tensor_dtype
        taken = [value(name, kind(np.dtype(of)), shape) for name, (of, shape) in inputs.items()]
        given = [value("label", kind(np.dtype(object)), [None])]
        given.append(value("probabilities", self.double, [None, len(self.classes)]))
        graph = self._helper.make_graph(self._nodes, "holdfast", taken, given, self._constants)
        sets = [self._helper.make_opsetid("", OPSET), self._helper.make_opsetid("ai.onnx.ml", 3)]
        self.model = self._helper.make_model(graph, opset_imports=sets, producer_name="holdfast", ir_version=9)
        self._helper.set_model_props(self.model, names or {})


class _TableGraph(_Graph):
    """The ONNX model of a classifier of a table."""

    def __init__(self, model: TableClassifier) -> None:
        super().__init__([str(label) for label in model.classes_])
        before = [step for _, step in model.pipeline_.steps[:-1]]
        final = model.method_.estimator_
        self._preprocessor = before[0] if before else _preprocessor_of(final)
        self._is_inside = not before  # the preprocessing is the first step of each estimator
        self._names = model.roles_.schema.feature_names()
        self._columns = _columns_of(self._preprocessor, self._names)
        probabilities = self._probabilities(final, Removal())
        kinds = {"numeric": np.float64, "categorical": object}
        inputs = {_INPUTS[part]: (kinds[part], [None, len(columns)]) for part, columns in self._columns.items()}
        names = {_INPUTS[p]: "\n".join(self._names[c] for c in columns) for p, columns in self._columns.items()}
        self.finish(probabilities, inputs, names)

    def inputs(self, features: Any) -> dict[str, NDArray[Any]]:
        """Return what the model takes of some rows."""
        found = {}
        for part, columns in self._columns.items():
            values = features.iloc[:, columns]
            if part == "categorical":
                values = values.astype(object).where(values.notna(), "missing").astype(str)
            found[_INPUTS[part]] = values.to_numpy(dtype=object if part == "categorical" else np.float64)
        return found

    def _probabilities(self, estimator: Any, removal: Removal) -> str:
        """Return the (n_rows, n_classes) probabilities of an estimator over codes."""
        if isinstance(estimator, MixedClassifier):
            parts = zip(estimator.estimators, estimator.removals, estimator.weights, strict=True)
            scores = [self.add("Mul", self._scores(part, lacks), float(weight)) for part, lacks, weight in parts]
            scaled = self.add("Mul", self.add("Sum", *scores), float(estimator.calibration.scale))
            return self.add("Softmax", self.add("Add", scaled, estimator.calibration.offsets), axis=1)
        if isinstance(estimator, WeightedEnsemble):
            shares = np.asarray(estimator.weights) / np.sum(estimator.weights)
            pairs = zip(estimator.estimators, shares, strict=True)
            return self.add("Sum", *(self.add("Mul", self._probabilities(e, removal), share) for e, share in pairs))
        steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
        return self._converted(steps[1:] if self._is_inside else steps, self._matrix(removal))

    def _scores(self, estimator: Any, removal: Removal) -> str:
        """Return centered log-probabilities, as `mix_scores` makes them."""
        floor = 1e-12 if hasattr(estimator, "decision_function") else PROBABILITY_FLOOR
        logs = self.add("Log", self.add("Max", self._probabilities(estimator, removal), floor))
        return self.add("Sub", logs, self.add("ReduceMean", logs, np.array([1]), keepdims=1))

    def _matrix(self, removal: Removal) -> str:
        """Return the preprocessed matrix, some columns held constant."""
        held = dict(zip(removal.columns, removal.stand_ins, strict=True))
        if isinstance(self._preprocessor, NativeColumns):
            return self._held(len(self._names), held)
        parts = []
        for part, step, _ in self._preprocessor.transformers_:
            if part in self._columns:
                here = {place: held[c] for place, c in enumerate(self._columns[part]) if c in held}
                parts.append(self._numbers(step, here) if part == "numeric" else self._levels(step, here))
        return self.add("Concat", *parts, axis=1)

    def _held(self, n_columns: int, held: Mapping[int, Any]) -> str:
        """Return the numbers, some columns held constant."""
        if not held:
            return "numbers"
        mask, values = np.zeros(n_columns, bool), np.zeros(n_columns)
        mask[list(held)], values[list(held)] = True, [np.nan if v is None else float(v) for v in held.values()]
        return self.add("Where", mask, values, "numbers")

    def _numbers(self, step: Any, held: Mapping[int, Any]) -> str:
        """Write imputing with indicators, then scaling."""
        imputer, scaler = step[0], step[-1]
        rows = self._held(len(imputer.statistics_), held)
        missing = self.add("IsNaN", rows)
        filled = self.add("Where", missing, np.nan_to_num(np.asarray(imputer.statistics_, dtype=np.float64)), rows)
        if imputer.indicator_ is not None and len(imputer.indicator_.features_):
            places = np.asarray(imputer.indicator_.features_, dtype=np.int64)
            shown = self.add("Cast", self.add("Gather", missing, places, axis=1), to=self.double)
            filled = self.add("Concat", filled, shown, axis=1)
        return self.add("Div", self.add("Sub", filled, scaler.mean_), scaler.scale_)

    def _levels(self, step: Any, held: Mapping[int, Any]) -> str:
        """Write one column for each frequent level, and one for the others where there is one."""
        encoder, blocks = step[-1], []
        for place, levels in enumerate(encoder.categories_):
            few = encoder.infrequent_categories_[place]
            rare = set() if few is None else set(few)
            frequent = [str(level) for level in levels if level not in rare]
            column = self.add("Gather", "levels", np.array([place]), axis=1)
            if place in held:
                value = np.array([["missing" if held[place] is None else str(held[place])]], dtype=object)
                column = self.add("Expand", value, self.add("Shape", column))
            known = self.add("OneHotEncoder", column, domain="ai.onnx.ml", cats_strings=frequent, zeros=1)
            block = self.add("Cast", self.add("Reshape", known, np.array([-1, len(frequent)])), to=self.double)
            if rare:
                other = self.add("Sub", 1.0, self.add("ReduceSum", block, np.array([1]), keepdims=1))
                block = self.add("Concat", block, other, axis=1)
            blocks.append(block)
        return self.add("Concat", *blocks, axis=1)

    def _converted(self, steps: Sequence[Any], matrix: str) -> str:
        """Add estimators that a library converts; return their probabilities."""
        last, n_columns = steps[-1], int(steps[0].n_features_in_)
        if len(steps) > 1 and (hasattr(last, "network_") or type(last).__name__ in _BOOSTERS):
            raise SavedModelError(
                f"{type(last).__name__} after other steps than the table's preprocessing cannot be exported to ONNX. "
                f"{INSTEAD}"
            )
        if hasattr(last, "network_"):
            model, answer = _convert_network(last, {"matrix": np.zeros((2, n_columns), dtype=np.float32)})
            return self.add("Softmax", self.join(model, answer, matrix), axis=1)
        probabilities = self.join(*_convert(steps, n_columns), matrix)
        if len(last.classes_) < len(self.classes):  # fitted without some class: probability zero
            spread = np.eye(len(self.classes))[np.asarray(last.classes_, dtype=np.intp)]
            probabilities = self.add("MatMul", probabilities, spread)
        return probabilities


def _columns_of(preprocessor: Any, names: Sequence[str]) -> dict[str, list[int]]:
    """Return which columns each part of the preprocessing reads."""
    everything = list(range(len(names)))
    if isinstance(preprocessor, NativeColumns):
        if len(preprocessor.levels):
            found = ", ".join(names[place] for place in preprocessor.levels)
            raise SavedModelError(
                f"The booster reads levels as categories of its own ({found}), which no converter to ONNX knows. "
                f"{INSTEAD}"
            )
        return {"numeric": everything}
    parts = [(part, chosen) for part, _, chosen in preprocessor.transformers_ if part != "remainder"]
    return {part: everything[chosen] if isinstance(chosen, slice) else list(chosen) for part, chosen in parts}


def _preprocessor_of(estimator: Any) -> Any:
    """Return the preprocessing inside of a fitted pipeline, or of the first of several."""
    while not isinstance(estimator, Pipeline):
        estimator = estimator.estimators[0]
    return estimator.steps[0][1]


def _convert(steps: Sequence[Any], n_columns: int) -> tuple[Any, str]:
    """Return the ONNX model of fitted steps over codes, and the name of its probabilities."""
    problem: Exception | None = None
    # Doubles where the converter has them. Thresholds of histogram boosting become floats, and so must the numbers.
    is_histogram = isinstance(steps[-1], HistGradientBoostingClassifier)
    for kind in ("DoubleTensorType", "FloatTensorType")[is_histogram:]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the converters about their own parts
                model = _convert_by_library(steps, n_columns, kind)
                return model, model.graph.output[1].name
        except ModuleNotFoundError:
            raise
        except Exception as found:  # whatever a converter raises on an estimator that it does not know
            problem = found
    reason = " ".join(str(problem).split())[:200]
    raise SavedModelError(f"{type(steps[-1]).__name__} cannot be converted to ONNX ({reason}). {INSTEAD}") from problem


def _convert_by_library(steps: Sequence[Any], n_columns: int, kind: str) -> Any:
    """Return the ONNX model of fitted steps whose input has one type of numbers."""
    last, shape = steps[-1], [None, n_columns]
    library = _BOOSTERS.get(type(last).__name__)
    if library is None:
        types = require("skl2onnx.common.data_types", **_NEEDED)
        return require("skl2onnx", **_NEEDED).convert_sklearn(
            Pipeline([(str(number), step) for number, step in enumerate(steps)]),
            initial_types=[("matrix", getattr(types, kind)(shape))],
            options={"zipmap": False},
            target_opset={"": OPSET, "ai.onnx.ml": 3},
            **_histogram_boosting(),
        )
    if library == "catboost":
        import onnx

        with tempfile.TemporaryDirectory() as folder:
            last.save_model(os.path.join(folder, "model.onnx"), format="onnx")
            return _without_zipmap(onnx.load(os.path.join(folder, "model.onnx")))
    types = require("onnxmltools.convert.common.data_types", **_NEEDED)
    convert = getattr(require("onnxmltools", **_NEEDED), f"convert_{library}")
    options = {"zipmap": False} if library == "lightgbm" else {}
    if library == "xgboost":  # its converter reads the places of columns from their names
        last = copy.deepcopy(last)
        last.get_booster().feature_names = [f"f{place}" for place in range(n_columns)]
    return convert(last, initial_types=[("matrix", types.FloatTensorType(shape))], **options)


def _histogram_boosting() -> dict[str, Any]:
    """Return options by which skl2onnx 1.20 converts it: its truth values, which onnx 1.23 refuses, become numbers."""
    known = require("skl2onnx.common._registration", **_NEEDED)
    name, flags = "SklearnHistGradientBoostingClassifier", "nodes_missing_value_tracks_true"

    def convert(scope: Any, operator: Any, container: Any) -> None:
        add = container.add_node

        def add_node(*parts: Any, **attributes: Any) -> Any:
            if flags in attributes:
                attributes[flags] = [int(flag) for flag in attributes[flags]]
            return add(*parts, **attributes)

        container.add_node = add_node
        known.get_converter(name)(scope, operator, container)

    return {
        "custom_conversion_functions": {HistGradientBoostingClassifier: convert},
        "custom_shape_calculators": {HistGradientBoostingClassifier: known.get_shape_calculator(name)},
    }


def _without_zipmap(model: Any) -> Any:
    """Return a model whose probabilities are a matrix, not a list of dictionaries."""
    from onnx import TensorProto, helper

    (zipmap,) = [node for node in model.graph.node if node.op_type == "ZipMap"]
    model.graph.node.remove(zipmap)
    del model.graph.output[1]
    model.graph.output.append(helper.make_tensor_value_info(zipmap.input[0], TensorProto.FLOAT, None))
    return model


def _convert_network(estimator: Any, inputs: Mapping[str, NDArray[Any]]) -> tuple[Any, str]:
    """Return a network as an ONNX model of these inputs, and the name of its logits."""
    import onnx
    import torch

    from holdfast.neural.networks import run_network

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = copy.deepcopy(estimator.network_).cpu().eval()

        def forward(self, *tensors: Any) -> Any:
            batch = dict(zip(inputs, tensors, strict=True)) if len(inputs) > 1 else tensors[0]
            return run_network(self.network, batch, len(estimator.classes_))

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names packages that are not needed
    require("onnxscript", **_NEEDED)
    any_number: Any = torch.export.Dim.DYNAMIC
    lengths = [{0: any_number} | ({1: any_number} if values.dtype == np.int64 else {}) for values in inputs.values()]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of torch's exporter about its own parts
        program = torch.onnx.export(
            Logits(),
            tuple(torch.from_numpy(values[:2]) for values in inputs.values()),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(inputs),
            dynamic_shapes=(tuple(lengths),),
            verbose=False,
        )
        assert program is not None
        program.save(os.path.join(folder, "network.onnx"))
        model = onnx.load(os.path.join(folder, "network.onnx"))
    return model, model.graph.output[0].name


def _network_graph(model: Any, rows: Any) -> tuple[_Graph, dict[str, NDArray[Any]], NDArray[np.float64]]:
    """Return the ONNX model of a classifier around a network, what it takes of some rows, and what they should get."""
    estimator = getattr(model, "estimator_", model)
    if not hasattr(estimator, "network_"):
        raise SavedModelError(
            f"{type(estimator).__name__} is not a network, and so exported from a TableClassifier only."
        )
    batch = estimator.inputs(rows, N_COMPARED)
    batch = batch if isinstance(batch, Mapping) else {"rows": batch}
    inputs = {name: np.ascontiguousarray(tensor.cpu().numpy()) for name, tensor in batch.items()}
    graph = _Graph([str(label) for label in model.classes_])
    logits = graph.join(*_convert_network(estimator, inputs))
    axes = {name: [None] * (1 + (values.dtype == np.int64)) for name, values in inputs.items()}
    shapes = {name: (v.dtype, [*axes[name], *v.shape[len(axes[name]) :]]) for name, v in inputs.items()}
    graph.finish(graph.add("Softmax", logits, axis=1), shapes)
    n_rows = len(next(iter(inputs.values())))
    outputs = estimator.outputs(rows, np.arange(n_rows)).double().numpy()
    return graph, inputs, special.softmax(outputs, axis=1)
