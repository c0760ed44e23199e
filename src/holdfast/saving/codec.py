"""Encode estimators as JSON and arrays, and decode them, without pickle.

Text, numbers, booleans, None and lists are written as they are. Every other value is a node `{"$": tag, …}`; the table
of tags is at the end of this file.

| value | is written as |
|---|---|
| dictionary, tuple | its items; keys keep their type and order |
| array, tensor | a key into a safetensors file |
| random generator | its state |
| object of ours, or a scikit-learn estimator | the name of its class, and its attributes (see `sklearn_parts`) |
| fitted object of ours that has `get_state` | what `get_state() -> (json, arrays)` returns; `from_state` reads it |
| booster | a file of its own (see `boosters`) |
| class or function of the user | its import path; `load` follows it only if the caller trusts it by name |

A value that is on no list is refused when it is saved.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import math
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.estimators.methods import METHODS
from holdfast.exceptions import CorruptFileError, HoldfastError, ParameterError, SavedModelError, UntrustedFileError
from holdfast.extras import require
from holdfast.registry import ImportPath
from holdfast.saving.boosters import booster_state, find_library, pack_booster, unpack_booster
from holdfast.saving.sklearn_parts import (
    PARTS,
    attributes_of,
    is_listed,
    listed_class,
    path_of,
    put_together,
    remake,
    take_apart,
)
from holdfast.saving.skops_files import read_skops

if TYPE_CHECKING:
    import torch

AnyClass = TypeVar("AnyClass", bound=type)

# Name in the file -> module. A class that fitted estimators hold gets its line here; methods are in `METHODS`.
_OURS = {
    "Accuracy": "holdfast.stable.verdict",
    "AdaptedClassifier": "holdfast.newsite.adapt",
    "Adaptation": "holdfast.newsite.adapt",
    "Answers": "holdfast.newsite.forecast",
    "Calibration": "holdfast.fitting.calibration",
    "ColumnProfile": "holdfast.newsite.profile",
    "Coding": "holdfast.newsite.codes",
    "Environment": "holdfast.environments",
    "Finding": "holdfast.stable.findings",
    "ForecastBasis": "holdfast.newsite.forecast",
    "FrozenFeatures": "holdfast.neural.networks.pretrained",
    "Group": "holdfast.environments",
    "Interval": "holdfast.metrics",
    "MixedClassifier": "holdfast.stable.removal",
    "MixedRegressor": "holdfast.stable.removal",
    "NetworkFinding": "holdfast.stable.network",
    "NeuralClassifier": "holdfast.neural.estimator",
    "NeuralRegressor": "holdfast.neural.estimator",
    "PIRegressor": "holdfast.estimators.regression",
    "Partition": "holdfast.environments",
    "PathPoint": "holdfast.estimators.stable",
    "JudgedClassifier": "holdfast.newsite.judges",
    "NativeColumns": "holdfast.tables.preprocessing",
    "RecalibratedClassifier": "holdfast.newsite.recalibrate",
    "Recalibration": "holdfast.newsite.recalibrate",
    "RecodedClassifier": "holdfast.fitting.estimators",
    "RegressionVerdict": "holdfast.stable.verdict",
    "Relation": "holdfast.newsite.relation",
    "Relearning": "holdfast.newsite.trials",
    "Removal": "holdfast.stable.removal",
    "Seeding": "holdfast.seeding",
    "SiteAdapter": "holdfast.newsite.judges",
    "SiteTrial": "holdfast.newsite.trials",
    "Solution": "holdfast.interpolation",
    "StableRegressor": "holdfast.estimators.stable_regression",
    "TableClassifier": "holdfast.tables.classifier",
    "TrainingProfile": "holdfast.newsite.profile",
    "UnstableColumn": "holdfast.newsite.codes",
    "Verdict": "holdfast.stable.verdict",
    "Vocabulary": "holdfast.neural.sources",
    "WeightedEnsemble": "holdfast.interpolation.reweight",
    "WeightedMean": "holdfast.interpolation.reweight",
}
_allowed: dict[str, type] = {}


def allow(cls: AnyClass) -> AnyClass:
    """Let instances of your own class be saved and loaded; usable as a decorator.

    Attributes are saved one by one (see `holdfast.saving.codec`), and loading sets them without calling
    `__init__`. The class has to be allowed in the process that loads, too.

    Parameters
    ----------
    cls : type
        Your class. Its name must not be taken.
    """
    name = cls.__name__
    if _module_of(name) is not None or _allowed.get(name, cls) is not cls:
        raise ParameterError(f"The name {name!r} is taken by another class that can be saved. Rename your class.")
    _allowed[name] = cls
    return cls


def saved_name(cls: type) -> str | None:
    """Return the name of a class that may be saved, else None."""
    name = cls.__name__
    if _allowed.get(name) is cls:
        return name
    return name if _module_of(name) == cls.__module__ else None


def saved_class(name: object) -> type:
    """Return the class of that name; refuse all but those on the list."""
    if isinstance(name, str) and name in _allowed:
        return _allowed[name]
    module = _module_of(name)
    if not isinstance(name, str) or module is None:
        raise UntrustedFileError(
            f"The file asks for the class {name!r}, which is not on the list of classes that may be loaded. "
            "If it is your own, pass it to holdfast.saving.allow first."
        )
    loaded: type = getattr(import_module(module), name)
    return loaded


def _module_of(name: object) -> str | None:
    """Return the module of a class that may be loaded: ours, or a method that an installed package has registered."""
    if name in _OURS:
        return _OURS[str(name)]
    paths = (path.partition(":") for path in METHODS.paths.values())
    return next((module for module, _, attribute in paths if attribute == name), None)


ARRAYS, TENSORS = "arrays.safetensors", "tensors.safetensors"

_MAX_HEADER = 1 << 25
_OBJECTS = np.dtype(object).str  # as the type that an imputer of texts was fitted on
_NATIVE = {np.dtype(code).str for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")}
_DTYPE = re.compile(r"[<>|](?:[biufcSU]\d{1,9}|[mM]8(?:\[\d{0,9}[A-Za-zμ]{1,2}\])?)")  # no objects, no records


class ArrayWriter:
    """Collects arrays and tensors on their way to a file, each object once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self._keys: dict[int, dict[str, Any]] = {}
        self._alive: list[Any] = []  # an id is only good while its object lives

    def add_array(self, array: NDArray[Any]) -> dict[str, Any]:
        """Take an array of numbers, text or dates, and return the node that stands for it."""
        return self._add(array, self._new_array)

    def add_tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Take a tensor, and return the node that stands for it."""
        return self._add(tensor, self._new_tensor)

    def _add(self, value: Any, make: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        if id(value) not in self._keys:
            self._keys[id(value)] = make(value)
            self._alive.append(value)
        return self._keys[id(value)]

    def _new_array(self, array: NDArray[Any]) -> dict[str, Any]:
        array = np.asarray(array)
        key = f"a{len(self.arrays)}"
        node = {"$": "array", "key": key, "dtype": array.dtype.str, "shape": list(array.shape)}
        # Sums over a matrix depend on its order in memory in the last bit, so the order is kept.
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            node["order"] = "F"
            array = array.T
        if array.dtype.str not in _NATIVE:
            check_text(array.dtype, array.tobytes(), "The model")
            array = np.frombuffer(array.tobytes(), dtype=np.uint8)
        self.arrays[key] = np.asarray(array, order="C")
        return node

    def _new_tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        import torch

        key = f"t{len(self.tensors)}"
        node: dict[str, Any] = {"$": "tensor", "key": key}
        # channels_last and the like: kernels, and so the last bit, depend on the strides.
        if not _same_strides(tensor) and _is_dense(tensor.shape, tensor.stride()):
            node["strides"] = list(tensor.stride())
        self.tensors[key] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        return node

    def files(self) -> dict[str, bytes]:
        """Return the files that hold what was taken."""
        files = {}
        if self.arrays:
            from safetensors.numpy import save as save_arrays

            files[ARRAYS] = save_arrays(self.arrays)
        if self.tensors:
            from safetensors.torch import save as save_tensors

            files[TENSORS] = save_tensors(self.tensors)
        return files


class ArrayReader:
    """Gives back arrays and tensors from checked bytes."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._arrays: dict[str, Any] = {}
        self._tensors: dict[str, Any] = {}
        self._built: dict[str, Any] = {}
        if ARRAYS in files:
            from safetensors.numpy import load as load_arrays

            self._arrays = _parsed(load_arrays, files.pop(ARRAYS), ARRAYS)
        if TENSORS in files:
            require("torch", extra="neural", what="Networks")  # not found is not corrupt
            from safetensors.torch import load as load_tensors

            self._tensors = _parsed(load_tensors, files.pop(TENSORS), TENSORS)

    def array(self, node: dict[str, Any]) -> NDArray[Any]:
        """Return the array that a node stands for, the same object each time."""
        key, dtype, shape = node.get("key"), node.get("dtype"), _sizes(node.get("shape"), ARRAYS)
        if key in self._built:
            return self._built[key]  # type: ignore[no-any-return]
        if key not in self._arrays or not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
            raise CorruptFileError(
                f"tree.json asks for an array {key!r} of type {dtype!r} that {ARRAYS} does not hold."
            )
        stored = self._arrays.pop(key)
        fortran = node.get("order") == "F"
        expected = shape[::-1] if fortran else shape
        if dtype not in _NATIVE:
            raw = np.dtype(dtype)
            if stored.dtype != np.uint8 or stored.size != math.prod(shape) * raw.itemsize:
                raise CorruptFileError(f"array {key!r} in {ARRAYS} does not have the size that tree.json gives.")
            check_text(raw, stored.tobytes(), ARRAYS)
            stored = np.ndarray(expected, raw, buffer=stored.tobytes() or None).copy()
        if stored.dtype.str != dtype or stored.shape != expected:
            raise CorruptFileError(f"array {key!r} in {ARRAYS} does not have the type and shape that tree.json gives.")
        array = np.array(stored.T if fortran else stored, order="F" if fortran else "C")
        self._built[key] = array
        return array

    def tensor(self, node: dict[str, Any]) -> torch.Tensor:
        """Return the tensor that a node stands for, the same object each time."""
        import torch

        key = node.get("key")
        if key in self._built:
            return self._built[key]  # type: ignore[no-any-return]
        if key not in self._tensors:
            raise CorruptFileError(f"tree.json asks for a tensor {key!r} that {TENSORS} does not hold.")
        tensor = self._tensors.pop(key)
        if "strides" in node:
            strides = _sizes(node["strides"], TENSORS)
            if len(strides) != tensor.ndim or not _is_dense(tensor.shape, strides):
                raise CorruptFileError(f"tensor {key!r} in {TENSORS} cannot have the strides that tree.json gives.")
            tensor = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
        self._built[key] = tensor
        return tensor  # type: ignore[no-any-return]

    def check_all_used(self) -> None:
        """Refuse files with more in them than the tree asks for."""
        for name, rest in ((ARRAYS, self._arrays), (TENSORS, self._tensors)):
            if rest:
                raise UntrustedFileError(f"{name} holds {', '.join(sorted(rest)[:5])}, which nothing refers to.")


def check_text(dtype: np.dtype[Any], data: bytes | memoryview, name: str) -> None:
    """Refuse an array of text with characters that do not exist, which Python could not even show."""
    if dtype.kind == "U" and len(data):
        points = np.frombuffer(data, dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if points.max() > sys.maxunicode or bool(((points >= 0xD800) & (points < 0xE000)).any()):
            raise CorruptFileError(f"{name} holds text with characters that do not exist.")


def _whole_text(text: str) -> str:
    """Refuse text with half of a character, which no file and no table can contain."""
    if not text.isascii() and re.search("[\ud800-\udfff]", text):
        raise CorruptFileError(f"The model holds the text {text!r:.80}, with characters that do not exist. Change it.")
    return text


def _parsed(load: Any, data: bytes, name: str) -> dict[str, Any]:
    """Parse a safetensors file whose header is of a sane size."""
    header = int.from_bytes(data[:8], "little")
    if len(data) < 8 or header > min(_MAX_HEADER, len(data) - 8):
        raise UntrustedFileError(
            f"{name} is not a safetensors file: its header claims {header} bytes. It was not loaded."
        )
    try:
        return dict(load(data))
    except Exception as problem:  # a foreign parser on foreign bytes
        raise UntrustedFileError(f"{name} is not a safetensors file that can be read: {problem}") from problem


def _sizes(values: Any, name: str) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > 64 or not all(type(v) is int and 0 <= v < 2**63 for v in values):
        raise CorruptFileError(f"tree.json gives an impossible shape for an array in {name}: {values!r:.80}.")
    return tuple(values)


def _same_strides(tensor: torch.Tensor) -> bool:
    """Return whether the strides are those of a fresh tensor of this shape."""
    expected = [math.prod([max(size, 1) for size in tensor.shape[i + 1 :]]) for i in range(tensor.ndim)]
    return list(tensor.stride()) == expected


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether strides address every element once, without holes."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride != reach:
            return False
        reach *= size
    # A dimension of one element is never stepped along, but a stride of any size must not ask for memory.
    return 0 not in shape and all(stride <= max(reach, 1) for stride in strides)


Node = Any  # what JSON can say
_BUNCH = "sklearn.utils._bunch.Bunch"
_DATES: dict[str, Any] = {"date": datetime.date, "datetime": datetime.datetime, "time": datetime.time}


class Encoder:
    """Turns values into nodes, and collects the files that they refer to."""

    def __init__(self) -> None:
        self._arrays = ArrayWriter()
        self._boosters: dict[str, bytes] = {}
        self._numbers: dict[int, int] = {}  # id of an object -> its number in the file
        self._alive: list[Any] = []  # an id is only good while its object lives

    def files(self) -> dict[str, bytes]:
        """Return the files beside the tree."""
        return {**self._arrays.files(), **self._boosters}

    def encode(self, value: Any, where: str) -> Node:
        """Return the node of a value; `where` names it in errors."""
        try:
            return self._encode(value, where)
        except RecursionError:
            raise UntrustedFileError(f"{where} is nested too deeply, or holds itself. It cannot be saved.") from None

    def _encode(self, value: Any, where: str) -> Node:
        kind = type(value)
        if value is None or kind in (bool, int):
            return value
        if isinstance(value, str) and not isinstance(value, np.generic):
            return _whole_text(str.__str__(value))  # torch.__version__ and members of a StrEnum are text, too
        if kind is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if kind is list:
            return [self._encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if kind is tuple:
            return {"$": "tuple", "items": [self._encode(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if kind in (dict, OrderedDict) or path_of(kind) == _BUNCH:
            items = [
                [self._encode(key, f"a key of {where}"), self._encode(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"$": {dict: "dict", OrderedDict: "ordered_dict"}.get(kind, "bunch"), "items": items}
        if isinstance(value, np.ndarray | np.generic | np.dtype | np.random.Generator | np.random.RandomState):
            return self._encode_numpy(value, where)
        if kind in _DATES.values():
            node = {"$": "date", "kind": kind.__name__, "value": value.isoformat()}
            return node | {"fold": 1} if getattr(value, "fold", 0) else node
        if kind is slice:
            return {"$": "slice", "items": [self._encode(end, where) for end in (value.start, value.stop, value.step)]}
        if kind is type and issubclass(value, np.generic):
            return {"$": "number_type", "value": np.dtype(value).str}
        if kind is datetime.timedelta:
            return {"$": "timedelta", "value": [value.days, value.seconds, value.microseconds]}
        if kind is ImportPath:
            return {"$": "code", "path": value.path}
        name = saved_name(kind)
        if name is not None:
            return self._encode_object(value, {"$": "object", "class": name}, where)
        return self._encode_foreign(value, where)

    def _encode_numpy(self, value: Any, where: str) -> Node:
        if isinstance(value, np.random.Generator):
            return {"$": "generator", "state": self._encode(value.bit_generator.state, where)}
        if isinstance(value, np.random.RandomState):
            return {"$": "random_state", "state": self._encode(value.get_state(legacy=False), where)}
        if isinstance(value, np.dtype):
            if value.kind == "V":
                raise _refused(value, where, "Only types of numbers, text and dates can be saved.")
            return {"$": "dtype", "value": value.str}
        if value.dtype.kind in "biufcmMSU":
            if isinstance(value, np.generic):
                return {"$": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
            if type(value) in (np.ndarray, np.memmap):
                return self._arrays.add_array(value)
        if value.dtype.kind == "O" and type(value) is np.ndarray:
            items = [self._encode(item, f"{where}[{i}]") for i, item in enumerate(value.ravel())]
            return {"$": "objects", "shape": list(value.shape), "items": items}
        return self._encode_part(value, where, "Convert it to a plain array of numbers, text or dates.")

    def _encode_part(self, value: Any, where: str, advice: str) -> Node:
        found = take_apart(value)
        if found is None:
            raise _refused(value, where, advice)
        tag, content = found
        return {"$": tag, **{name: self._encode(item, f"{where}.{name}") for name, item in content.items()}}

    def _encode_object(self, value: Any, node: dict[str, Any], where: str) -> Node:
        """Return the node of an object by its attributes, a reference where it was met before."""
        if id(value) in self._numbers:
            return {"$": "same", "number": self._numbers[id(value)]}
        node["number"] = self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        if node["$"] == "estimator":
            attributes = attributes_of(value)
        elif node["$"] == "booster":
            attributes, packed = booster_state(value, where), pack_booster(value, where)
            if packed is not None:
                node["file"] = f"booster-{len(self._boosters):04d}.{packed[0]}"
                self._boosters[node["file"]] = packed[1]
        elif hasattr(value, "from_state") and _is_fitted(value):
            state, arrays = value.get_state()
            return node | {"state": self._encode(state, where), "arrays": self._encode(dict(arrays), where)}
        else:
            attributes = _attributes(value)
        node["attributes"] = [[name, self._encode(item, f"{where}.{name}")] for name, item in attributes.items()]
        return node

    def _encode_foreign(self, value: Any, where: str) -> Node:
        torch, pandas = sys.modules.get("torch"), sys.modules.get("pandas")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._arrays.add_tensor(value)
        if torch is not None and isinstance(value, torch.Generator):
            return {"$": "torch_generator", "state": self._arrays.add_tensor(value.get_state())}
        if pandas is not None and type(value) is pandas.Timestamp and value.tzinfo is None:
            return {"$": "timestamp", "value": value.asm8.astype(np.int64).item(), "unit": value.unit}
        path = path_of(type(value))
        if find_library(type(value)) is not None:
            return self._encode_object(value, {"$": "booster", "class": path}, where)
        if is_listed(type(value)):
            return self._encode_object(value, {"$": "estimator", "class": path}, where)
        if hasattr(value, "get_params"):
            raise UntrustedFileError(
                f"{where} holds {path}, which is not on the list of classes that load safely. "
                "If it is your own class, pass it to holdfast.saving.allow; else use another scikit-learn estimator."
            )
        return self._encode_part(
            value, where, "Use text, numbers, arrays, lists, dictionaries and scikit-learn estimators."
        )


class Decoder:
    """Turns nodes back into values, with the files that they refer to."""

    def __init__(self, files: dict[str, bytes], trust: Collection[str] = ()) -> None:
        self._trust = trust
        self._files = {name: data for name, data in files.items() if name.startswith(("booster-", "sklearn-"))}
        self._arrays = ArrayReader({name: data for name, data in files.items() if name.endswith(".safetensors")})
        self._objects: dict[Any, Any] = {}
        self._used: set[str] = set()

    def decode(self, node: Node) -> Any:
        """Return the value of a node."""
        try:
            return self._decode(node)
        except HoldfastError:
            raise
        except Exception as problem:  # numpy, torch and our own classes on values that somebody else chose
            raise CorruptFileError(f"tree.json does not describe what holdfast saves: {problem!r}.") from problem

    def check_all_used(self) -> None:
        """Refuse files with more in them than the tree asks for."""
        self._arrays.check_all_used()
        unused = sorted(set(self._files) - self._used)
        if unused:
            raise UntrustedFileError(f"{', '.join(unused[:5])}: tree.json does not refer to it. It was not loaded.")

    def _decode(self, node: Node) -> Any:
        if isinstance(node, list):
            return [self._decode(item) for item in node]
        if not isinstance(node, dict):
            return _whole_text(node) if isinstance(node, str) else node
        return _DECODERS[node["$"]](self, node)

    def _dict(self, node: Node) -> Any:
        result: dict[Any, Any] = {} if node["$"] == "dict" else OrderedDict()
        if node["$"] == "bunch":
            result = import_module("sklearn.utils").Bunch()
        for key, item in node["items"]:
            result[self._decode(key)] = self._decode(item)
        return result

    def _scalar(self, node: Node) -> Any:
        dtype, data = _dtype(node["dtype"]), bytes.fromhex(node["hex"])
        check_text(dtype, data, "tree.json")
        return np.frombuffer(data, dtype, count=1)[0] if dtype.itemsize else dtype.type()

    def _object_array(self, node: Node) -> Any:
        array = np.empty(len(node["items"]), dtype=object)
        for i, item in enumerate(node["items"]):
            array[i] = self._decode(item)
        return array.reshape(tuple(node["shape"]))

    def _date(self, node: Node) -> Any:
        value = _DATES[node["kind"]].fromisoformat(node["value"])
        return value.replace(fold=1) if "fold" in node else value

    def _generator(self, node: Node) -> Any:
        state = self._decode(node["state"])
        if state["bit_generator"] not in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"):
            raise UntrustedFileError(f"tree.json asks for an unknown random generator {state['bit_generator']!r}.")
        if node["$"] == "random_state":
            result = np.random.RandomState()
            result.set_state(state)
            return result
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)

    def _torch_generator(self, node: Node) -> Any:
        import torch

        generator = torch.Generator()
        generator.set_state(self._decode(node["state"]))
        return generator

    def _timestamp(self, node: Node) -> Any:
        import pandas as pd

        return pd.Timestamp(np.datetime64(node["value"], node["unit"])).as_unit(node["unit"])

    def _object(self, node: Node) -> Any:
        cls: Any = saved_class(node["class"])
        if "state" in node:
            value = cls.from_state(self._decode(node["state"]), self._decode(node["arrays"]))
            self._objects[node["number"]] = value
            return value
        value = self._objects[node["number"]] = cls.__new__(cls)
        self._set_attributes(value, node["attributes"])
        return value

    def _code(self, node: Node) -> Any:
        path = node["path"]
        if path not in self._trust:
            raise UntrustedFileError(
                f"The model was fitted with {path!r:.200}, which is code outside of holdfast. Nothing was imported. If "
                f"you know it and trust it, load with trust=[{path!r:.200}]."
            )
        try:
            return ImportPath(path).resolve()
        except (ImportError, AttributeError) as problem:
            raise SavedModelError(
                f"The model was fitted with {path!r}, which cannot be imported here ({problem}). Install the package, "
                "or add its folder to PYTHONPATH."
            ) from problem

    def _estimator(self, node: Node) -> Any:
        cls: Any = listed_class(node["class"])
        value = cls.__new__(cls)
        if "number" in node:
            self._objects[node["number"]] = value
        vars(value).update({str(name): self._decode(item) for name, item in node["attributes"]})
        remake(value)
        return value

    def _part(self, node: Node) -> Any:
        return put_together(node["$"], {name: self._decode(item) for name, item in node.items() if name != "$"})

    def _booster(self, node: Node) -> Any:
        state = {str(name): self._decode(item) for name, item in node["attributes"]}
        file = node.get("file")
        data = None if file is None else self._file(file)
        value = unpack_booster(node["class"], state, data, file or "tree.json")
        self._objects[node.get("number", file)] = value  # the first schema had no number here
        return value

    def _file(self, name: Any) -> bytes:
        if name not in self._files:
            raise CorruptFileError(f"tree.json asks for {name!r:.200}, which is not there.")
        self._used.add(name)
        return self._files[name]

    def _skops(self, node: Node) -> Any:
        """Return a part of a model of the first schema, once it is sure that it could be saved today."""
        name = node["file"]
        if name not in self._objects:
            value = read_skops(self._file(name), name)
            Encoder().encode(value, name)
            if type(value) is not listed_class(node["class"]):
                raise UntrustedFileError(f"{name} does not hold the {node['class']:.200} that tree.json gives.")
            self._objects[name] = value
        return self._objects[name]

    def _set_attributes(self, value: Any, attributes: Node) -> None:
        state = {str(name): self._decode(item) for name, item in attributes}
        if _is_plain_value(value):
            fields = dataclasses.fields(value)
            for name, default in _defaults(fields).items():  # an older version may not have known all fields
                state.setdefault(name, default)
            if set(state) != {field.name for field in fields}:
                raise CorruptFileError(
                    f"tree.json gives other attributes than {type(value).__name__} has: it is damaged, or of another "
                    "development version. Restore it, or fit and save again."
                )
            for name, item in state.items():
                object.__setattr__(value, name, item)
        else:
            if hasattr(value, "current_attributes"):  # networks: an older version may have had other names
                state = value.current_attributes(state)
            vars(value).update({**_new_parameters(type(value)), **state})


def _defaults(fields: Sequence[dataclasses.Field[Any]]) -> dict[str, Any]:
    """Return the values of fields that need not be given."""
    plain = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    made = {field.name: field.default_factory() for field in fields if field.default_factory is not dataclasses.MISSING}
    return plain | made


def _new_parameters(cls: type) -> dict[str, Any]:
    """Return the defaults of an estimator's parameters: a model of an older version lacks those that came since."""
    if saved_name(cls) is None or not hasattr(cls, "get_params"):
        return {}
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _attributes(value: Any) -> dict[str, Any]:
    if _is_plain_value(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(value.saved_attributes() if hasattr(value, "saved_attributes") else vars(value))


def _is_plain_value(value: Any) -> bool:
    """Return whether a value is a dataclass whose fields are all it has; estimators learn further attributes."""
    return dataclasses.is_dataclass(value) and not hasattr(value, "get_params")


def _is_fitted(value: Any) -> bool:
    return any(name.endswith("_") and not name.startswith("_") for name in vars(value))


def _dtype(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.kind not in "biufcmMSU" or dtype.itemsize > 1 << 20:
        raise UntrustedFileError(f"tree.json asks for values of type {text!r:.40}, which holdfast does not save.")
    return dtype


def _checked_end(end: Any) -> int | None:
    if end is not None and type(end) is not int:
        raise UntrustedFileError(f"tree.json asks for rows or columns from {end!r:.40} on. It was not loaded.")
    return end


def _refused(value: Any, where: str, advice: str) -> UntrustedFileError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        kind, advice = (
            f"the function or class {value.__qualname__}",
            "Code is not saved: pass a registered name instead.",
        )
    return UntrustedFileError(f"{where} holds {kind}, which cannot be saved so that loading it is safe. {advice}")


_DECODERS: dict[str, Callable[[Decoder, Node], Any]] = {
    "array": lambda decoder, node: decoder._arrays.array(node),
    "booster": Decoder._booster,
    "code": Decoder._code,
    "date": Decoder._date,
    "dict": Decoder._dict,
    "dtype": lambda _, node: np.dtype(object) if node["value"] == _OBJECTS else _dtype(node["value"]),
    "estimator": Decoder._estimator,
    "float": lambda _, node: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["value"]],
    "generator": Decoder._generator,
    "number_type": lambda _, node: _dtype(node["value"]).type,
    "object": Decoder._object,
    "objects": Decoder._object_array,
    "ordered_dict": Decoder._dict,
    "random_state": Decoder._generator,
    "same": lambda decoder, node: decoder._objects[node["number"]],
    "scalar": Decoder._scalar,
    "skops": Decoder._skops,
    "slice": lambda decoder, node: slice(*(_checked_end(end) for end in node["items"])),
    "tensor": lambda decoder, node: decoder._arrays.tensor(node),
    "timedelta": lambda _, node: datetime.timedelta(*node["value"]),
    "timestamp": Decoder._timestamp,
    "torch_generator": Decoder._torch_generator,
    "tuple": lambda decoder, node: tuple(decoder._decode(item) for item in node["items"]),
    "bunch": Decoder._dict,
    **dict.fromkeys(PARTS, Decoder._part),
}
