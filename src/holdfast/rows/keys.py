"""Hash each row by its content, so that results do not depend on the order of rows."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast.environments import is_lazy
from holdfast.rows.kinds import is_frame, is_sparse, is_text
from holdfast.rows.mapped import is_mapped


def row_keys(X: Any) -> NDArray[np.uint64]:
    """Return a number for each row that depends on what the row contains and on nothing else.

    Equal rows have equal keys. Rows that are read from disk or decoded when they are asked for keep their place as key.
    """
    if is_text(X):
        return _mixed(_text_bits(np.asarray(list(X), dtype=object)))
    if is_frame(X):
        columns = [np.asarray(X[name]) for name in X.columns]
        return _combined([_text_bits(c) if c.dtype.kind not in "fiub" else _number_bits(c) for c in columns])
    if is_sparse(X):
        rows = sp.coo_array(X)
        keys = np.zeros(X.shape[0], dtype=np.uint64)
        np.add.at(keys, rows.coords[0], _mixed(_number_bits(rows.data)) * _multipliers(X.shape[1])[rows.coords[1]])
        return keys
    if is_mapped(X) or is_lazy(X) or not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub":
        return np.arange(len(X), dtype=np.uint64)
    flat = X.reshape(len(X), -1)
    return _combined([_number_bits(flat[:, column]) for column in range(flat.shape[1])])


def _number_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bits of numbers, the same for 0 and -0."""
    return (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _text_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bits of a checksum of each value's text."""
    return np.array([zlib.crc32(str(value).encode()) + 1 for value in values], dtype=np.uint64)


def _combined(columns: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return one key for each row of several columns."""
    total = np.zeros(len(columns[0]) if columns else 0, dtype=np.uint64)
    for bits, multiplier in zip(columns, _multipliers(len(columns)), strict=True):
        total += _mixed(bits) * multiplier
    return total


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of each number over all its bits; 0 stays 0."""
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return np.asarray((bits ^ (bits >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53))


def _multipliers(n_columns: int) -> NDArray[np.uint64]:
    """Return an odd number for each column, always the same ones."""
    numbers = np.random.default_rng(20210721).integers(2**63, size=n_columns, dtype=np.int64)
    return numbers.astype(np.uint64) * np.uint64(2) + np.uint64(1)
