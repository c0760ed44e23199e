"""Where results may be written: checked before the work begins."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.exceptions import ParameterError, SavedModelError
from holdfast.saving.files import check_writable, new_file
from holdfast.tables.files import PARQUET, SEPARATORS

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"
TABLES = (*SEPARATORS, *PARQUET)


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is not ours, one of ours without `overwrite`, and one that could not be written."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        check_writable(folder.resolve())
        return
    if not (folder / MANIFEST).is_file():
        raise SavedModelError(f"{folder} exists and was not written by holdfast. Choose another --out.")
    if not overwrite:
        raise SavedModelError(f"{folder} already holds a saved model. Choose another --out, or pass --overwrite.")
    from holdfast.saving.manifests import check_target
    from holdfast.saving.models import KIND

    check_target(folder, KIND, overwrite=True)
    check_writable(folder.resolve())


def refuse_inside_model(path: Path, option: str) -> None:
    """Refuse to write into the folder of a saved model, which would not be loaded with a file it does not list."""
    if any((folder / MANIFEST).is_file() for folder in (path, path.parent)):
        raise ParameterError(f"{option} {path} lies in the folder of a saved model. Choose a place outside of it.")


def check_file(file: Path, *, overwrite: bool, inputs: Sequence[Path] = (), suffixes: Sequence[str] = TABLES) -> None:
    """Refuse an output file of another type, that exists (without `overwrite`), is an input, or cannot be written."""
    if file.suffix.lower() not in suffixes:
        raise ParameterError(f"--out {file} is of the unknown type {file.suffix!r}. Use one of {', '.join(suffixes)}.")
    if any(file.resolve() == path.resolve() for path in inputs):
        raise ParameterError(f"--out {file} is the input itself. Choose another file.")
    if not file.parent.is_dir():
        raise ParameterError(f"--out {file} lies in a folder that does not exist. Create it first.")
    refuse_inside_model(file, "--out")
    if file.is_dir() or (file.exists() and not overwrite):
        raise ParameterError(f"--out {file} exists. Choose another file, or pass --overwrite.")
    check_writable(file)


class TableWriter:
    """Writes frames one after the other to a CSV or Parquet file, which appears under its name when all are written.

    Parameters
    ----------
    file : Path
        Its suffix says the format.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.n_rows = 0
        self._stack = contextlib.ExitStack()
        self._parquet: Any = None

    def __enter__(self) -> TableWriter:
        self._stream = self._stack.enter_context(new_file(self.file))
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; every frame has the same columns."""
        if self.file.suffix.lower() in PARQUET:
            self._write_parquet(frame)
        else:
            separator = SEPARATORS[self.file.suffix.lower()]
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
