"""A classifier of a table as an ONNX file: preprocessing, estimator and labels, compared on rows before it is kept.

Preprocessing is written with operators of ONNX itself; estimators are converted by skl2onnx, boosters by onnxmltools,
networks by torch. Numbers are one input (n_rows, n_numbers) of doubles with NaN for missing ones; levels are one input
(n_rows, n_levels) of texts, where a missing one is the text "missing".
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
from sklearn.pipeline import Pipeline

from holdfast.exceptions import ParameterError, SavedModelError
from holdfast.extras import require
from holdfast.interpolation.removal import MixedClassifier, Removal
from holdfast.interpolation.reweight import WeightedEnsemble
from holdfast.judging.calibration import PROBABILITY_FLOOR
from holdfast.saving.files import write_bytes
from holdfast.tables.classifier import TableClassifier, TableLike
from holdfast.tables.files import open_table
from holdfast.tables.preprocessing import NativeColumns

OPSET = 18
N_COMPARED = 1_000
TOLERANCE = 1e-4  # of probabilities: ONNX computes most estimators in float32
_NEEDED: dict[str, Any] = {"extra": "onnx", "what": "ONNX files"}
_BOOSTERS = {"XGBClassifier": "xgboost", "LGBMClassifier": "lightgbm", "CatBoostClassifier": "catboost"}


def export_onnx(model: TableClassifier, file: str | os.PathLike[str], table: TableLike) -> float:
    """Write a classifier as an ONNX file, if it answers the same.

    Parameters
    ----------
    model : TableClassifier
        Fitted. Columns of text cannot be exported.
    file : path
        The .onnx file; it is replaced.
    table : path or data frame
        Rows with the columns it was fitted with; the first 1,000 are asked both ways. The label is not needed.

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
    schema = model.roles_.schema
    if schema.names("text"):
        raise ParameterError(
            f"The classifier reads columns of text ({', '.join(schema.names('text'))}), which cannot be exported to "
            "ONNX. Fit without them, or deploy the saved folder itself (docs/how-to/deploy.md)."
        )
    source = open_table(table, model.roles_.missing)
    schema.require(source.columns)
    chunk = next(iter(source.chunks(schema.names(), schema.types, N_COMPARED)))
    features = schema.features(chunk)
    graph = _Graph(model)
    content = graph.model.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, graph.inputs(features))
    expected = model.predict_proba(chunk)
    difference = float(np.abs(probabilities - expected).max())
    sure = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 2 * TOLERANCE
    wrong = (labels != model.predict(chunk).astype(str)) & sure
    if not difference <= TOLERANCE or wrong.any():
        raise SavedModelError(
            f"The ONNX file does not answer like the classifier: of {len(chunk)} rows {int(wrong.sum())} get another "
            f"label, and probabilities differ by up to {difference:.2g}. It was not written. Deploy the saved folder "
            "itself (docs/how-to/deploy.md)."
        )
    write_bytes(Path(file), content)
    return difference


class _Graph:
    """The ONNX model of a classifier, built from left to right."""

    def __init__(self, model: TableClassifier) -> None:
        from onnx import TensorProto, helper

        self._helper, self._type = helper, TensorProto
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._n_names = 0
        steps = [step for _, step in model.pipeline_.steps[:-1]]
        self._classes = [str(label) for label in model.classes_]
        final = model.method_.estimator_
        self._preprocessor = steps[0] if steps else _preprocessor_of(final)
        names = model.roles_.schema.feature_names()
        self._columns = _columns_of(self._preprocessor, names)
        self._names = names
        probabilities = self._probabilities(final, Removal(), inside=not steps)
        best = self._add("ArgMax", [probabilities], axis=1, keepdims=0)
        self._add("Gather", [self._constant(np.array(self._classes, dtype=object)), best], output="label")
        self._add("Identity", [probabilities], output="probabilities")
        self.model = self._finish()

    def inputs(self, features: Any) -> dict[str, NDArray[Any]]:
        """Return what the model takes of some rows."""
        kinds = {"numeric": np.float64, "categorical": object}
        found = {}
        for part, columns in self._columns.items():
            values = features.iloc[:, columns]
            if part == "categorical":
                values = values.astype(object).where(values.notna(), "missing").astype(str)
            found[_INPUTS[part]] = values.to_numpy(dtype=kinds[part])
        return found

    def _probabilities(self, estimator: Any, removal: Removal, *, inside: bool) -> str:
        """Return where the (n_rows, n_classes) probabilities of an estimator over codes are."""
        if isinstance(estimator, MixedClassifier):
            parts = zip(estimator.estimators, estimator.removals, estimator.weights, strict=True)
            scores = [self._scaled(self._scores(part, lacks, inside), weight) for part, lacks, weight in parts]
            mixed = scores[0] if len(scores) == 1 else self._add("Sum", scores)
            calibration = estimator.calibration
            scaled = self._add("Mul", [mixed, self._constant(np.array(calibration.scale))])
            return self._add("Softmax", [self._add("Add", [scaled, self._constant(calibration.offsets)])], axis=1)
        if isinstance(estimator, WeightedEnsemble):
            shares = np.asarray(estimator.weights) / np.sum(estimator.weights)
            pairs = zip(estimator.estimators, shares, strict=True)
            return self._add("Sum", [self._scaled(self._probabilities(e, removal, inside=inside), w) for e, w in pairs])
        steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
        matrix = self._matrix(removal)
        if inside:
            steps = steps[1:]  # the preprocessing
        return self._converted(steps, matrix)

    def _scores(self, estimator: Any, removal: Removal, inside: bool) -> str:
        """Return where centered log-probabilities are, as `mix_scores` makes them."""
        floor = 1e-12 if hasattr(estimator, "decision_function") else PROBABILITY_FLOOR
        probabilities = self._probabilities(estimator, removal, inside=inside)
        logs = self._add("Log", [self._add("Max", [probabilities, self._constant(np.array(floor))])])
        mean = self._add("ReduceMean", [logs, self._constant(np.array([1], dtype=np.int64))], keepdims=1)
        return self._add("Sub", [logs, mean])

    def _scaled(self, name: str, weight: float) -> str:
        return self._add("Mul", [name, self._constant(np.array(float(weight)))])

    def _matrix(self, removal: Removal) -> str:
        """Return where the preprocessed matrix is, some columns held constant."""
        held = dict(zip(removal.columns, removal.stand_ins, strict=True))
        if isinstance(self._preprocessor, NativeColumns):
            return self._held(len(self._names), held)
        parts = []
        for part, step, _ in self._preprocessor.transformers_:
            if part in self._columns:
                here = {place: held[c] for place, c in enumerate(self._columns[part]) if c in held}
                parts.append(self._numbers(step, here) if part == "numeric" else self._levels(step, here))
        return parts[0] if len(parts) == 1 else self._add("Concat", parts, axis=1)

    def _held(self, n_columns: int, held: Mapping[int, Any]) -> str:
        """Return where the numbers are, some columns held constant."""
        if not held:
            return "numbers"
        mask, values = np.zeros(n_columns, bool), np.zeros(n_columns)
        mask[list(held)], values[list(held)] = True, [np.nan if v is None else float(v) for v in held.values()]
        return self._add("Where", [self._constant(mask), self._constant(values), "numbers"])

    def _numbers(self, step: Any, held: Mapping[int, Any]) -> str:
        """Write imputing with indicators, then scaling."""
        imputer, scaler = step[0], step[-1]
        rows, medians = self._held(len(imputer.statistics_), held), np.asarray(imputer.statistics_, dtype=np.float64)
        missing = self._add("IsNaN", [rows])
        filled = self._add("Where", [missing, self._constant(np.nan_to_num(medians)), rows])
        if imputer.indicator_ is not None and len(imputer.indicator_.features_):
            places = self._constant(np.asarray(imputer.indicator_.features_, dtype=np.int64))
            shown = self._add("Cast", [self._add("Gather", [missing, places], axis=1)], to=self._type.DOUBLE)
            filled = self._add("Concat", [filled, shown], axis=1)
        return self._add(
            "Div",
            [self._add("Sub", [filled, self._constant(scaler.mean_)]), self._constant(scaler.scale_)],
        )

    def _levels(self, step: Any, held: Mapping[int, Any]) -> str:
        """Write one column for each frequent level, and one for the others where there is one."""
        encoder = step[-1]
        blocks = []
        for place, levels in enumerate(encoder.categories_):
            rare = set(
                encoder.infrequent_categories_[place] if encoder.infrequent_categories_[place] is not None else ()
            )
            frequent = [str(level) for level in levels if level not in rare]
            column = self._add("Gather", ["levels", self._constant(np.array([place], dtype=np.int64))], axis=1)
            if place in held:
                value = np.array([["missing" if held[place] is None else str(held[place])]], dtype=object)
                n_rows = self._add("Shape", [column])
                column = self._add("Expand", [self._constant(value), n_rows])
            known = self._add("OneHotEncoder", [column], domain="ai.onnx.ml", cats_strings=frequent, zeros=1)
            flat = self._add("Reshape", [known, self._constant(np.array([-1, len(frequent)], dtype=np.int64))])
            flat = self._add("Cast", [flat], to=self._type.DOUBLE)
            if rare:
                axis = self._constant(np.array([1], dtype=np.int64))
                seen = self._add("ReduceSum", [flat, axis], keepdims=1)
                other = self._add("Sub", [self._constant(np.array(1.0)), seen])
                flat = self._add("Concat", [flat, other], axis=1)
            blocks.append(flat)
        return blocks[0] if len(blocks) == 1 else self._add("Concat", blocks, axis=1)

    def _converted(self, steps: Sequence[Any], matrix: str) -> str:
        """Add estimators that a library converts; return where their probabilities are, as doubles."""
        from onnx import compose

        prefix = f"part{self._n_names}/"
        model, answer = _convert(steps, self._width(steps))
        model = compose.add_prefix(model, prefix)
        graph = model.graph
        of_type = graph.input[0].type.tensor_type.elem_type
        self._add("Cast", [matrix], to=of_type, output=graph.input[0].name)
        self._nodes.extend(graph.node)
        self._constants.extend(graph.initializer)
        probabilities = self._add("Cast", [prefix + answer], to=self._type.DOUBLE)
        classes = getattr(steps[-1], "classes_", None)
        if hasattr(steps[-1], "network_"):
            probabilities = self._add("Softmax", [probabilities], axis=1)
        if classes is not None and len(classes) < len(self._classes):  # fitted without some class: probability zero
            spread = np.zeros((len(classes), len(self._classes)))
            spread[np.arange(len(classes)), np.asarray(classes, dtype=np.intp)] = 1.0
            probabilities = self._add("MatMul", [probabilities, self._constant(spread)])
        return probabilities

    def _width(self, steps: Sequence[Any]) -> int:
        return int(steps[0].n_features_in_)

    def _constant(self, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        self._n_names += 1
        name = f"constant{self._n_names}"
        self._constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _add(self, operator: str, inputs: Sequence[str], *, output: str | None = None, **attributes: Any) -> str:
        self._n_names += 1
        name = f"value{self._n_names}" if output is None else output
        self._nodes.append(self._helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def _finish(self) -> Any:
        value, kind = self._helper.make_tensor_value_info, self._type
        n_columns = {part: len(columns) for part, columns in self._columns.items()}
        types = {"numeric": kind.DOUBLE, "categorical": kind.STRING}
        inputs = [value(_INPUTS[part], types[part], [None, n]) for part, n in n_columns.items()]
        outputs = [value("label", kind.STRING, [None]), value("probabilities", kind.DOUBLE, [None, len(self._classes)])]
        graph = self._helper.make_graph(self._nodes, "holdfast", inputs, outputs, self._constants)
        sets = [self._helper.make_opsetid("", OPSET), self._helper.make_opsetid("ai.onnx.ml", 3)]
        model = self._helper.make_model(graph, opset_imports=sets, producer_name="holdfast", ir_version=9)
        self._helper.set_model_props(
            model,
            {_INPUTS[part]: "\n".join(self._names[c] for c in columns) for part, columns in self._columns.items()},
        )
        return model


_INPUTS = {"numeric": "numbers", "categorical": "levels"}


def _columns_of(preprocessor: Any, names: Sequence[str]) -> dict[str, list[int]]:
    """Return which columns each part of the preprocessing reads."""
    if isinstance(preprocessor, NativeColumns):
        if len(preprocessor.levels):
            found = ", ".join(names[place] for place in preprocessor.levels)
            raise SavedModelError(
                f"The booster reads levels as categories of its own ({found}), which no converter to ONNX knows. "
                "Deploy the saved folder itself (docs/how-to/deploy.md)."
            )
        return {"numeric": list(range(len(names)))}
    parts = [(part, chosen) for part, _, chosen in preprocessor.transformers_ if part != "remainder"]
    return {part: _listed(chosen, len(names)) for part, chosen in parts}


def _listed(chosen: Any, n_columns: int) -> list[int]:
    return list(range(n_columns))[chosen] if isinstance(chosen, slice) else list(chosen)


def _preprocessor_of(estimator: Any) -> Any:
    """Return the preprocessing inside of a fitted pipeline, or of the first of several."""
    while not isinstance(estimator, Pipeline):
        estimator = estimator.estimators[0]
    return estimator.steps[0][1]


def _convert(steps: Sequence[Any], width: int) -> tuple[Any, str]:
    """Return the ONNX model of fitted steps over codes, and the name of its probabilities (of a network: logits)."""
    last = steps[-1]
    if len(steps) > 1 and (hasattr(last, "network_") or type(last).__name__ in _BOOSTERS):
        raise SavedModelError(
            f"{type(last).__name__} after other steps than the table's preprocessing cannot be exported to ONNX. "
            "Deploy the saved folder itself (docs/how-to/deploy.md)."
        )
    if hasattr(last, "network_"):
        return _convert_network(last, width)
    problem: Exception | None = None
    # Doubles where the converter of the estimator has them: trees compare numbers with thresholds.
    for kind in ("DoubleTensorType", "FloatTensorType"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the converters about their own parts
                return _convert_estimators(steps, width, kind)
        except ModuleNotFoundError:
            raise
        except Exception as found:  # whatever a converter raises on an estimator that it does not know
            problem = found
    reason = " ".join(str(problem).split())[:200]
    raise SavedModelError(
        f"{type(last).__name__} cannot be converted to ONNX ({reason}). Deploy the saved folder itself "
        "(docs/how-to/deploy.md)."
    ) from problem


def _convert_estimators(steps: Sequence[Any], width: int, kind: str) -> tuple[Any, str]:
    """Return the ONNX model of fitted steps whose input has one type of numbers, and the name of the probabilities."""
    last = steps[-1]
    inputs = [("matrix", getattr(require("skl2onnx.common.data_types", **_NEEDED), kind)([None, width]))]
    library = _BOOSTERS.get(type(last).__name__)
    if library is None:
        model = require("skl2onnx", **_NEEDED).convert_sklearn(
            Pipeline([(str(number), step) for number, step in enumerate(steps)]),
            initial_types=inputs,
            options={"zipmap": False},
            target_opset={"": OPSET, "ai.onnx.ml": 3},
        )
    elif library == "catboost":
        import onnx

        with tempfile.TemporaryDirectory() as folder:
            last.save_model(os.path.join(folder, "model.onnx"), format="onnx")
            model = onnx.load(os.path.join(folder, "model.onnx"))
        model = _without_zipmap(model)
    else:
        types = require("onnxmltools.convert.common.data_types", **_NEEDED)
        convert = getattr(require("onnxmltools", **_NEEDED), f"convert_{library}")
        options = {"zipmap": False} if library == "lightgbm" else {}
        if library == "xgboost":  # its converter reads the places of columns from their names
            last = copy.deepcopy(last)
            last.get_booster().feature_names = [f"f{place}" for place in range(width)]
        model = convert(last, initial_types=[("matrix", types.FloatTensorType([None, width]))], **options)
    return model, model.graph.output[1].name


def _without_zipmap(model: Any) -> Any:
    """Return a model whose probabilities are a matrix, not a list of dictionaries."""
    from onnx import TensorProto, helper

    (zipmap,) = [node for node in model.graph.node if node.op_type == "ZipMap"]
    model.graph.node.remove(zipmap)
    del model.graph.output[1]
    model.graph.output.append(helper.make_tensor_value_info(zipmap.input[0], TensorProto.FLOAT, None))
    return model


def _convert_network(estimator: Any, width: int) -> tuple[Any, str]:
    """Return a network as an ONNX model with its logits."""
    import onnx
    import torch

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names packages that are not needed
    require("onnxscript", **_NEEDED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter about its own parts
        program = torch.onnx.export(
            estimator.network_,
            (torch.zeros(2, width),),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=({0: torch.export.Dim("n_rows")},),
            verbose=False,
        )
        with tempfile.TemporaryDirectory() as folder:
            assert program is not None
            program.save(os.path.join(folder, "network.onnx"))
            model = onnx.load(os.path.join(folder, "network.onnx"))
    return model, model.graph.output[0].name
