"""The numbers of a table as a memory map, for tables that do not fit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.exceptions import TableError
from holdfast.tables.files import TableFile


def map_columns(
    table: str | Path, columns: Sequence[str], to: str | Path, *, dtype: Any = np.float64, rows_at_once: int = 100_000
) -> np.memmap[Any, Any]:
    r"""Copy number columns of a CSV or Parquet file to an ``.npy`` file, part by part, and return it as a memory map.

    Estimators with the convex or the gradient solver read such rows block by block: they are never all in memory.

    Parameters
    ----------
    table : path
        A .csv, .tsv or .parquet file.
    columns : sequence of str
        Columns of numbers, in the order wanted.
    to : path
        The file to write; an older one is replaced.
    dtype : numpy type, default=float64
        Networks compute in float32, which takes half the space.
    rows_at_once : int, default=100_000
        Rows of the table that are in memory at once.

    Returns
    -------
    memmap of shape (n_rows, n_columns), read-only

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rows.csv"
    ...     _ = file.write_text("a,b,name\n1,2,x\n3,4,y\n")
    ...     map_columns(file, ["b", "a"], Path(folder) / "rows.npy").tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    source, types = TableFile(table), dict.fromkeys(columns, "number")
    n_rows = sum(len(part) for part in source.chunks(columns[:1], types, rows_at_once))
    if n_rows == 0:
        raise TableError(f"{table} has no rows, so there is nothing to map.")
    written = np.lib.format.open_memmap(to, mode="w+", dtype=dtype, shape=(n_rows, len(columns)))
    start = 0
    for part in source.chunks(columns, types, rows_at_once):
        texts = [name for name in columns if part[name].dtype.kind not in "biuf"]
        if texts:
            raise TableError(f"Column {texts[0]!r} of {table} does not hold numbers. Name columns of numbers only.")
        written[start : start + len(part)] = part[list(columns)].to_numpy(dtype=dtype)
        start += len(part)
    written.flush()
    mapped: np.memmap[Any, Any] = np.lib.format.open_memmap(to, mode="r")
    return mapped
