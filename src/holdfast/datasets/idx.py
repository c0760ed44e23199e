"""The idx files of MNIST: reading them, plain or gzip, and knowing that they are the original ones."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.compressed import read_plain
from holdfast.datasets.folders import data_command
from holdfast.exceptions import DatasetError

# File -> md5 of its uncompressed bytes.
MNIST_MD5: Mapping[str, str] = MappingProxyType(
    {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }
)
_UNSIGNED_BYTES = 0x08


def other_names(name: str) -> tuple[str, ...]:
    """Return the other names that one of the four files goes by.

    Examples
    --------
    >>> other_names("t10k-labels-idx1-ubyte")
    ('t10k-labels-idx1-ubyte.gz', 't10k-labels.idx1-ubyte', 't10k-labels.idx1-ubyte.gz')
    """
    dotted = name.replace("-idx", ".idx")
    return f"{name}.gz", dotted, f"{dotted}.gz"


def read_idx(path: Path, *, md5: str | None = None) -> NDArray[np.uint8]:
    """Read one idx file of bytes.

    Parameters
    ----------
    path : Path
        Plain or gzip.
    md5 : str, optional
        What the uncompressed bytes must have.
    """
    content = read_plain(path, remedy=_remedy(path))
    if md5 is not None and (found := md5_of(content)) != md5:
        raise DatasetError(
            f"{path} has the md5 {found} (uncompressed), not {md5}: it is not the original file. {_remedy(path)}"
        )
    return parse_idx(content, path)


def parse_idx(content: bytes, source: Any) -> NDArray[np.uint8]:
    """Return the array that idx bytes hold; `source` is named in errors.

    Examples
    --------
    >>> parse_idx(idx_bytes(np.array([[1, 2], [3, 4]], dtype=np.uint8)), "made").tolist()
    [[1, 2], [3, 4]]
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTES or not 1 <= content[3] <= 4:
        raise DatasetError(f"{source} does not start like an idx file of bytes. {_remedy(source)}")
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise DatasetError(f"{source} ends inside its header. {_remedy(source)}")
    shape = struct.unpack(f">{n_axes}I", content[4:start])
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DatasetError(f"{source} has {len(content)} bytes where its header says {expected}. {_remedy(source)}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Return the idx file that holds an array of bytes."""
    header = bytes([0, 0, _UNSIGNED_BYTES, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + np.ascontiguousarray(array, dtype=np.uint8).tobytes()


def md5_of(content: bytes) -> str:
    """Return the md5, which names the original files; it protects against damage, not against malice."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _remedy(source: Any) -> str:
    """Say what to do about a file that is not MNIST's, with the command for its folder."""
    folder = source.parent if isinstance(source, Path) else None
    return f"Delete it and get it again: {data_command('colored_mnist', folder)}"
