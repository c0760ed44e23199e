"""Convert classifiers of tables to ONNX: preprocessing, estimator and labels in one file.

skl2onnx converts estimators, onnxmltools or CatBoost convert boosters, and torch converts networks. The preprocessing
and the mixture of estimators are built here from operators of ONNX, because skl2onnx 1.20 supports neither indicators
of missing values nor infrequent levels. The model has two inputs. Numbers are doubles of shape (n_rows, n_numbers), and
NaN if missing. Levels are texts of shape (n_rows, n_levels), and the text "missing" if missing.
"""

from __future__ import annotations

import copy
import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

from holdfast.exceptions import ParameterError, SavedModelError
from holdfast.fitting.estimators import PROBABILITY_FLOOR, has_probabilities, trained_network
from holdfast.fitting.kinds import Predictor
from holdfast.interpolation.reweight import WeightedEnsemble
from holdfast.newsite.recalibrate import LEAST_PROBABILITY, RecalibratedClassifier
from holdfast.saving.onnx_files import (
    INSTEAD,
    N_COMPARED,
    OPSET,
    add_labels,
    convert_network,
    export_network,
    keep_if_same,
    require_onnx,
)
from holdfast.stable.removal import MixedClassifier, Removal
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.files import open_table
from holdfast.tables.preprocessing import NativeColumns

_BOOSTERS = {"XGBClassifier": "xgboost", "LGBMClassifier": "lightgbm", "CatBoostClassifier": "catboost"}
_DOUBLE = 11  # onnx.TensorProto.DOUBLE
_INPUTS = {"numeric": ("numbers", np.float64), "categorical": ("levels", object)}


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
    require_onnx("onnx")
    if not isinstance(model, TableClassifier):
        return export_network(model, file, rows)
    schema = model.roles_.schema
    if schema.names("text"):
        raise ParameterError(
            f"The classifier reads columns of text ({', '.join(schema.names('text'))}), which cannot be exported to "
            f"ONNX. Fit without them. {INSTEAD}"
        )
    if model.adaptation_ is not None and model.adaptation_.adapted:
        raise SavedModelError(
            "A classifier that was adapted to a site cannot be exported to ONNX. Recalibrate the one that it was made "
            f"of, and export that. {INSTEAD}"
        )
    if model.roles_.scales:
        raise ParameterError(
            "The classifier converts units of some sites (--scale), which cannot be exported to ONNX. Convert the "
            f"table and fit again. {INSTEAD}"
        )
    source = open_table(rows, model.roles_.missing)
    schema.require(source.columns)
    first = next(iter(source.chunks(schema.names(), schema.types, N_COMPARED)))
    graph = _TableGraph(model)
    inputs = graph.inputs(schema.features(first))
    return keep_if_same(graph.model, inputs, model.predict_proba(first), model.predict(first).astype(str), file)


class _TableGraph:
    """The ONNX model of a classifier of a table, built from left to right; a value is known by its name."""

    def __init__(self, model: TableClassifier) -> None:
        from onnx import helper

        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._n_classes = len(model.classes_)
        before = [step for _, step in model.pipeline_.steps[:-1]]
        final = model.method_.estimator_
        self._before = before[0] if before else None  # None: the preprocessing is the first step of each estimator
        names = model.roles_.schema.feature_names()
        self._columns = _columns_of(self._before or _preprocessor_of(final), names)
        self._add("Identity", self._probabilities(final, Removal()), output="probabilities")
        value, kind = helper.make_tensor_value_info, helper.np_dtype_to_tensor_dtype
        inputs = [(*_INPUTS[part], columns) for part, columns in self._columns.items()]
        taken = [value(name, kind(np.dtype(of)), [None, len(columns)]) for name, of, columns in inputs]
        given = [value("probabilities", kind(np.dtype(np.float64)), [None, self._n_classes])]
        graph = helper.make_graph(self._nodes, "holdfast", taken, given, self._constants)
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", 3)]
        self.model = helper.make_model(graph, opset_imports=sets, producer_name="holdfast", ir_version=9)
        add_labels(self.model, [str(label) for label in model.classes_])
        helper.set_model_props(self.model, {name: "\n".join(names[c] for c in columns) for name, _, columns in inputs})

    def inputs(self, features: Any) -> dict[str, NDArray[Any]]:
        """Return what the model takes of some rows."""
        found = {}
        for part, columns in self._columns.items():
            values, (name, of) = features.iloc[:, columns], _INPUTS[part]
            if part == "categorical":
                values = values.astype(object).where(values.notna(), "missing").astype(str)
            found[name] = values.to_numpy(dtype=of)
        return found

    def _add(self, operator: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add an operator over values, or arrays that become constants, and return its value."""
        from onnx import helper, numpy_helper

        names = []
        for value in inputs:
            if not isinstance(value, str):
                self._constants.append(numpy_helper.from_array(np.asarray(value), f"constant{len(self._constants)}"))
                value = self._constants[-1].name
            names.append(value)
        output = output or f"value{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def _join(self, model: Any, matrix: str) -> str:
        """Add a model over the preprocessed matrix; return its probabilities."""
        from onnx import compose

        prefix = f"part{len(self._nodes)}/"
        part = compose.add_prefix(model, prefix).graph
        (taken,) = part.input
        self._add("Cast", matrix, to=taken.type.tensor_type.elem_type, output=taken.name)
        maps = [node for node in part.node if node.op_type == "ZipMap"]  # of probabilities to lists of dictionaries
        self._nodes.extend(node for node in part.node if node not in maps)
        self._constants.extend(part.initializer)
        return self._add("Cast", maps[0].input[0] if maps else part.output[-1].name, to=_DOUBLE)

    def _probabilities(self, estimator: Predictor, removal: Removal) -> str:
        """Return the (n_rows, n_classes) probabilities of an estimator over codes."""
        if isinstance(estimator, MixedClassifier):
            parts = zip(estimator.estimators, estimator.removals, estimator.weights, strict=True)
            scores = [self._add("Mul", self._scores(part, lacks), float(weight)) for part, lacks, weight in parts]
            scaled = self._add("Mul", self._add("Sum", *scores), float(estimator.calibration.scale))
            return self._add("Softmax", self._add("Add", scaled, estimator.calibration.offsets), axis=1)
        if isinstance(estimator, RecalibratedClassifier):
            calibration = estimator.recalibration.calibration
            floored = self._add("Max", self._probabilities(estimator.estimator, removal), LEAST_PROBABILITY)
            scaled = self._add("Mul", self._add("Log", floored), float(calibration.scale))
            return self._add("Softmax", self._add("Add", scaled, calibration.offsets), axis=1)
        if isinstance(estimator, WeightedEnsemble):
            shares = np.asarray(estimator.weights) / np.sum(estimator.weights)
            pairs = zip(estimator.estimators, shares, strict=True)
            return self._add("Sum", *(self._add("Mul", self._probabilities(e, removal), share) for e, share in pairs))
        steps: list[Any] = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
        preprocessor, *steps = steps if self._before is None else [self._before, *steps]
        probabilities = self._join(_convert(steps), self._matrix(preprocessor, removal))
        known = np.asarray(steps[-1].classes_, dtype=np.intp)
        if len(known) < self._n_classes:  # fitted without some class: probability zero
            probabilities = self._add("MatMul", probabilities, np.eye(self._n_classes)[known])
        return probabilities

    def _scores(self, estimator: Predictor, removal: Removal) -> str:
        """Return centered log-probabilities, as `mix_scores` makes them."""
        floor = 1e-12 if hasattr(estimator, "decision_function") else PROBABILITY_FLOOR
        logs = self._add("Log", self._add("Max", self._probabilities(estimator, removal), floor))
        return self._add("Sub", logs, self._add("ReduceMean", logs, np.array([1]), keepdims=1))

    def _matrix(self, preprocessor: Any, removal: Removal) -> str:
        """Return the preprocessed matrix, some columns held constant."""
        inputs = {part: self._held(part, removal) for part in self._columns}
        if isinstance(preprocessor, NativeColumns):
            return inputs["numeric"]
        write = {"numeric": self._numbers, "categorical": self._levels}
        steps = [(part, step) for part, step, _ in preprocessor.transformers_ if part in inputs]
        return self._add("Concat", *(write[part](step, inputs[part]) for part, step in steps), axis=1)

    def _held(self, part: str, removal: Removal) -> str:
        """Return an input, with a constant in the place of some columns."""
        name, of = _INPUTS[part]
        held = dict(zip(removal.columns, removal.stand_ins, strict=True))
        values = np.array([held.get(column) for column in self._columns[part]], dtype=of)  # of None: NaN
        mask = np.array([column in held for column in self._columns[part]])
        if part == "categorical":
            values = np.array(["missing" if value is None else str(value) for value in values], dtype=of)
        return self._add("Where", mask, values, name) if mask.any() else name

    def _numbers(self, step: Any, rows: str) -> str:
        """Write imputing with indicators, then scaling."""
        imputer, scaler = step[0], step[-1]
        missing = self._add("IsNaN", rows)
        filled = self._add("Where", missing, np.nan_to_num(np.asarray(imputer.statistics_, dtype=np.float64)), rows)
        if imputer.indicator_ is not None and len(imputer.indicator_.features_):
            places = np.asarray(imputer.indicator_.features_, dtype=np.int64)
            shown = self._add("Cast", self._add("Gather", missing, places, axis=1), to=_DOUBLE)
            filled = self._add("Concat", filled, shown, axis=1)
        return self._add("Div", self._add("Sub", filled, scaler.mean_), scaler.scale_)

    def _levels(self, step: Any, rows: str) -> str:
        """Write one column for each frequent level, and one for the others where there is one."""
        encoder, blocks = step[-1], []
        for place, (levels, rare) in enumerate(zip(encoder.categories_, encoder.infrequent_categories_, strict=True)):
            few = set() if rare is None else set(rare)
            frequent = [str(level) for level in levels if level not in few]
            column = self._add("Gather", rows, np.array([place]), axis=1)
            known = self._add("OneHotEncoder", column, domain="ai.onnx.ml", cats_strings=frequent, zeros=1)
            block = self._add("Cast", self._add("Reshape", known, np.array([-1, len(frequent)])), to=_DOUBLE)
            if few:
                other = self._add("Sub", 1.0, self._add("ReduceSum", block, np.array([1]), keepdims=1))
                block = self._add("Concat", block, other, axis=1)
            blocks.append(block)
        return self._add("Concat", *blocks, axis=1)


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
        inside = estimator.estimator if isinstance(estimator, RecalibratedClassifier) else estimator.estimators[0]
        estimator = inside
    return estimator.steps[0][1]


def _convert(steps: Sequence[Any]) -> Any:
    """Return the ONNX model of fitted steps, the last of which gives probabilities."""
    last, n_columns, problem = steps[-1], int(steps[0].n_features_in_), None
    library = "torch" if trained_network(last) is not None else _BOOSTERS.get(type(last).__name__, "skl2onnx")
    problems = {
        "gives no probabilities, and": not has_probabilities(last),
        "after other steps than the table's preprocessing": len(steps) > 1 and library != "skl2onnx",
    }
    for why, holds in problems.items():
        if holds:
            raise SavedModelError(f"{type(last).__name__} {why} cannot be exported to ONNX. {INSTEAD}")
    if library == "torch":
        return convert_network(last, {"matrix": np.zeros((2, n_columns), dtype=np.float32)})
    # Doubles where the converter has them. Thresholds of histogram boosting become floats, and so must the numbers.
    for kind in ("DoubleTensorType", "FloatTensorType")[isinstance(last, HistGradientBoostingClassifier) :]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the converters about their own parts
                if library == "skl2onnx":
                    return _convert_sklearn(steps, kind, [None, n_columns])
                return _convert_booster(last, library, [None, n_columns])
        except ModuleNotFoundError:
            raise
        except Exception as found:  # whatever a converter raises on an estimator that it does not know
            problem = found
    reason = " ".join(str(problem).split())[:200]
    raise SavedModelError(f"{type(last).__name__} cannot be converted to ONNX ({reason}). {INSTEAD}") from problem


def _convert_sklearn(steps: Sequence[Any], kind: str, shape: list[Any]) -> Any:
    """Convert steps of scikit-learn whose input has one type of numbers."""
    known, boosting = require_onnx("skl2onnx.common._registration"), "SklearnHistGradientBoostingClassifier"

    def convert(scope: Any, operator: Any, container: Any) -> None:
        """Convert histogram boosting with numbers in the place of truth values, which onnx 1.23 refuses."""
        add, flags = container.add_node, "nodes_missing_value_tracks_true"
        container.add_node = lambda *parts, **attributes: add(
            *parts, **attributes | ({flags: list(map(int, attributes[flags]))} if flags in attributes else {})
        )
        known.get_converter(boosting)(scope, operator, container)

    return require_onnx("skl2onnx").convert_sklearn(
        Pipeline([(str(number), step) for number, step in enumerate(steps)]),
        initial_types=[("matrix", getattr(require_onnx("skl2onnx.common.data_types"), kind)(shape))],
        target_opset={"": OPSET, "ai.onnx.ml": 3},
        custom_conversion_functions={HistGradientBoostingClassifier: convert},
        custom_shape_calculators={HistGradientBoostingClassifier: known.get_shape_calculator(boosting)},
    )


def _convert_booster(booster: Any, library: str, shape: list[Any]) -> Any:
    """Convert a classifier of XGBoost, LightGBM or CatBoost."""
    if library == "catboost":
        with tempfile.TemporaryDirectory() as folder:
            booster.save_model(os.path.join(folder, "model.onnx"), format="onnx")
            return require_onnx("onnx").load(os.path.join(folder, "model.onnx"))
    if library == "xgboost":  # its converter reads the places of columns from their names
        booster = copy.deepcopy(booster)
        booster.get_booster().feature_names = [f"f{place}" for place in range(shape[1])]
    floats = require_onnx("onnxmltools.convert.common.data_types").FloatTensorType(shape)
    return getattr(require_onnx("onnxmltools"), f"convert_{library}")(booster, initial_types=[("matrix", floats)])
