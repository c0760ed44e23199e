"""Arrays and tensors in safetensors files: numbers only, sizes checked before anything is built."""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import CorruptFileError, UntrustedFileError

if TYPE_CHECKING:
    import torch

ARRAYS, TENSORS = "arrays.safetensors", "tensors.safetensors"

_MAX_HEADER = 1 << 25
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
        known = self._keys.get(id(array))
        if known is None:
            known = self._keys[id(array)] = self._new_array(np.asarray(array))
            self._alive.append(array)
        return known

    def add_tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Take a tensor, and return the node that stands for it."""
        known = self._keys.get(id(tensor))
        if known is None:
            known = self._keys[id(tensor)] = self._new_tensor(tensor)
            self._alive.append(tensor)
        return known

    def _new_array(self, array: NDArray[Any]) -> dict[str, Any]:
        key = f"a{len(self.arrays)}"
        node = {"$": "array", "key": key, "dtype": array.dtype.str, "shape": list(array.shape)}
        # Sums over a matrix depend on its order in memory in the last bit, so the order is kept.
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            node["order"] = "F"
            array = array.T
        if array.dtype.str not in _NATIVE:
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
        if points.max() > sys.maxunicode:
            raise CorruptFileError(f"{name} holds text with characters that do not exist.")


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
