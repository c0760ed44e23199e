"""Write tables in parts: CSV and Parquet files, and memory maps of numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.exceptions import TableError
from holdfast.saving.files import new_file, storage_errors
from holdfast.tables.files import PARQUET, SEPARATORS, TableFile

if TYPE_CHECKING:
    import pandas as pd

WRITTEN = (*SEPARATORS, *PARQUET)
FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # how a cell begins that a spreadsheet computes


class TableWriter:
    """Writes frames one after the other to a CSV or Parquet file, which appears under its name when all are written.

    The file's suffix says the format; `-` is standard output, as CSV. With `for_spreadsheets`, an apostrophe is put
    before texts, column names included, that a spreadsheet would take for a formula.
    """

    def __init__(self, file: Path, *, for_spreadsheets: bool = False) -> None:
        self.file = file
        self.for_spreadsheets = for_spreadsheets
        self.n_rows = 0
        self._stack = ExitStack()
        self._parquet: Any = None

    def __enter__(self) -> TableWriter:
        if str(self.file) == "-":
            self._stream: Any = sys.stdout.buffer
            self._stack.enter_context(storage_errors(Path("standard output"), safe=""))
            self._stack.callback(self._stream.flush)  # a full disk is said here, and not after the end
        else:
            self._stream = self._stack.enter_context(new_file(self.file))
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; every frame has the same columns."""
        if self.for_spreadsheets:
            frame = without_formulas(frame)
        if self.file.suffix.lower() in PARQUET:
            self._write_parquet(frame)
        else:
            separator = SEPARATORS.get(self.file.suffix.lower(), ",")
            frame.to_csv(self._stream, mode="wb", header=not self.n_rows, index=False, sep=separator)
        self.n_rows += len(frame)

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, traceback: Any) -> None:
        self._stack.__exit__(kind, problem, traceback)

    def _write_parquet(self, frame: pd.DataFrame) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._parquet is None:
            self._parquet = self._stack.enter_context(pyarrow.parquet.ParquetWriter(self._stream, table.schema))
        self._parquet.write_table(table.cast(self._parquet.schema))


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame in which no text or column name begins like a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> without_formulas(pd.DataFrame({"=1": ["=cmd|x", "plain"], "n": [-1, 2]})).to_dict("list")
    {"'=1": ["'=cmd|x", 'plain'], 'n': [-1, 2]}
    """

    def safe(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value

    texts = {name: frame[name].map(safe) for name in frame if frame[name].dtype.kind not in "biufcmM"}
    return frame.assign(**{str(name): column for name, column in texts.items()}).rename(columns=safe)


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
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    with new_file(to) as written:
        np.lib.format.write_array_header_1_0(written, header | {"shape": (n_rows, len(columns))})
        for part in source.chunks(columns, types, rows_at_once):
            texts = [name for name in columns if part[name].dtype.kind not in "biuf"]
            if texts:
                raise TableError(
                    f"Column {texts[0]!r} of {table} does not contain numbers. Name columns of numbers only."
                )
            written.write(np.ascontiguousarray(part[list(columns)], dtype=dtype).data)
    mapped: np.memmap[Any, Any] = np.lib.format.open_memmap(to, mode="r")
    return mapped
