"""Numpy arrays out of a pickle, without unpickling.

Nothing in the file is ever called. The reader knows the few opcodes and the three names that a pickled tuple of plain
arrays consists of, and refuses every other one, so that the worst a hostile file can do is to be refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.exceptions import DatasetError

_NAMES = ("numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype")
_DTYPES = ("f4", "f8", "i4", "i8", "u1", "b")
_MARK = object()
_MEMO_SIZE = 1000


class _Name:
    """One of the allowed names; it stands on the stack and is never imported."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Dtype:
    """A plain numeric type and its byte order."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "="


class _Array:
    """An array whose content comes with a later opcode."""

    def __init__(self) -> None:
        self.values: np.ndarray[Any, Any] | None = None


def read_array_pickle(content: bytes, source: Path | str) -> Any:
    """Return the (nested) tuple of arrays that a pickle of protocol 2 holds.

    Parameters
    ----------
    content : bytes
        The pickle.
    source : path or str
        Named in errors.
    """
    try:
        return _plain(_Reader(content).read())
    except (_RefusedError, IndexError, struct.error, ValueError, TypeError, KeyError) as problem:
        raise DatasetError(
            f"{source} is not a plain pickle of numpy arrays ({problem or 'it ends too early'}). "
            "Nothing in it was executed; get the file again."
        ) from problem


class _RefusedError(Exception):
    """The pickle holds something else than arrays."""


class _Reader:
    """The stack machine, with the opcodes of arrays alone."""

    def __init__(self, content: bytes) -> None:
        self.content = memoryview(content)
        self.position = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self) -> Any:
        opcodes: dict[bytes, Callable[[], Any]] = {
            b"c": lambda: self.stack.append(self._name()),
            b"q": lambda: self._remember(self._number("<B")),
            b"r": lambda: self._remember(self._number("<I")),
            b"h": lambda: self.stack.append(self.memo[self._number("<B")]),
            b"j": lambda: self.stack.append(self.memo[self._number("<I")]),
            b"K": lambda: self.stack.append(self._number("<B")),
            b"M": lambda: self.stack.append(self._number("<H")),
            b"J": lambda: self.stack.append(self._number("<i")),
            b"U": lambda: self.stack.append(self._take(self._number("<B"))),
            b"T": lambda: self.stack.append(self._take(self._number("<i"))),
            b"N": lambda: self.stack.append(None),
            b"\x88": lambda: self.stack.append(True),
            b"\x89": lambda: self.stack.append(False),
            b"(": lambda: self.stack.append(_MARK),
            b"t": self._tuple_from_mark,
            b"\x85": lambda: self._tuple(1),
            b"\x86": lambda: self._tuple(2),
            b"\x87": lambda: self._tuple(3),
            b"R": self._reduce,
            b"b": self._build,
        }
        if bytes(self._take(2)) != b"\x80\x02":
            raise _RefusedError("it is not of protocol 2")
        while (opcode := bytes(self._take(1))) != b".":
            if opcode not in opcodes:
                raise _RefusedError(f"opcode {opcode!r} at byte {self.position - 1} is not one that arrays need")
            opcodes[opcode]()
        (value,) = self.stack
        return value

    def _take(self, size: int) -> memoryview:
        part = self.content[self.position : self.position + size]
        if size < 0 or len(part) < size:
            raise _RefusedError("it ends too early")
        self.position += size
        return part

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _name(self) -> _Name:
        lines = bytes(self.content[self.position : self.position + 200]).split(b"\n", 2)
        name = b" ".join(lines[:2]).decode("ascii", errors="replace")
        if len(lines) < 3 or name not in _NAMES:
            raise _RefusedError(f"the name {name[:60]!r} is not one that arrays need")
        self.position += len(lines[0]) + len(lines[1]) + 2
        return _Name(name)

    def _remember(self, key: int) -> None:
        if len(self.memo) >= _MEMO_SIZE:
            raise _RefusedError("it remembers too much")
        self.memo[key] = self.stack[-1]

    def _tuple(self, size: int) -> None:
        if len(self.stack) < size:
            raise _RefusedError("a tuple lacks its parts")
        self.stack[-size:] = [tuple(self.stack[-size:])]

    def _tuple_from_mark(self) -> None:
        mark = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        self.stack[mark:] = [tuple(self.stack[mark + 1 :])]

    def _reduce(self) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name) or not isinstance(arguments, tuple):
            raise _RefusedError("something else than an array is made")
        if name.name == "numpy dtype":
            code = bytes(arguments[0]).decode("ascii")
            if code not in _DTYPES:
                raise _RefusedError(f"numbers of type {code!r}")
            self.stack.append(_Dtype(code))
        elif name.name == "numpy.core.multiarray _reconstruct":
            self.stack.append(_Array())
        else:
            raise _RefusedError(f"{name.name!r} is called")

    def _build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _Dtype):
            order = bytes(state[1]).decode("ascii")
            if order not in ("<", ">", "|"):
                raise _RefusedError(f"byte order {order!r}")
            target.order = order
        elif isinstance(target, _Array):
            _, shape, dtype, fortran, content = state
            if not isinstance(dtype, _Dtype) or fortran is not False or not all(isinstance(n, int) for n in shape):
                raise _RefusedError("an array is not a plain one")
            target.values = np.frombuffer(content, dtype=dtype.order + dtype.code).reshape(shape)
        else:
            raise _RefusedError("something else than an array is built")


def _plain(value: Any) -> Any:
    """Return arrays for their stand-ins, in the tuples they stand in."""
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    if not isinstance(value, _Array) or value.values is None:
        raise _RefusedError("it holds something else than arrays")
    return value.values
