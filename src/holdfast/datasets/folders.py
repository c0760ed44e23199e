"""Where files of data sets are looked for, and the error when they are missing."""

from __future__ import annotations

import contextlib
import os
import shlex
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from holdfast.exceptions import AbsentFilesError, DatasetError

# What reading a damaged zip, .npz or gzip file can raise: wrong sizes, checksums, versions and flags.
DAMAGED = (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
DATA_VARIABLE = "HOLDFAST_DATA"
_noted: ContextVar[list[Path] | None] = ContextVar("noted", default=None)


@contextlib.contextmanager
def noting_files() -> Iterator[list[Path]]:
    """Give a list that gets every file which data sets are read from inside the block, as do blocks around it."""
    files: list[Path] = []
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)
        for path in files:
            note_file(path)


def note_file(path: Path) -> Path:
    """Say that a data set is read from this file; returns it."""
    files = _noted.get()
    if files is not None:
        files.append(path)
    return path


def data_folder() -> Path:
    """Return the folder for data sets: $HOLDFAST_DATA, or `holdfast` in the user's cache folder."""
    chosen = os.environ.get(DATA_VARIABLE)
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(cache) if cache else Path.home() / ".cache") / "holdfast"


def candidate_folders(folder: Path | str | None, subfolders: Sequence[str]) -> list[Path]:
    """Return the folder itself and its usual subfolders, those that exist."""
    base = data_folder() if folder is None else Path(folder)
    if folder is not None and not base.is_dir():
        what = "is a file" if base.exists() else "does not exist"
        raise DatasetError(f"The folder {base} {what}. Pass the folder that holds the data set's files.")
    return existing_folders(base, subfolders)


def existing_folders(base: Path, subfolders: Sequence[str]) -> list[Path]:
    """Return the folder and those of its subfolders that are there."""
    return [path for path in (base, *(base / name for name in subfolders)) if path.is_dir()]


def find_file(name: str, folders: Iterable[Path], *names: str) -> Path | None:
    """Return the first folder's file that has one of the names, or None."""
    for folder in folders:
        for candidate in (name, *names):
            if (folder / candidate).is_file():
                return note_file(folder / candidate)
    return None


def data_command(dataset: str, folder: Path | str | None) -> str:
    """Return the command that gets a data set's files into a folder, ready to be pasted into a shell.

    Examples
    --------
    >>> data_command("beer", "my data"), data_command("vectors", None)
    ("holdfast data beer --folder 'my data'", 'holdfast data vectors')
    """
    command = f"holdfast data {dataset}"
    return command if folder is None else f"{command} --folder {shlex.quote(str(folder))}"


def missing_file(dataset: str, name: str, folder: Path | str | None) -> AbsentFilesError:
    """Return the error for a file that is in none of the folders, with what to do about it."""
    base = data_folder() if folder is None else Path(folder)
    remedy = f"To see which files to put where, run: {data_command(dataset, folder)} --show"
    return AbsentFilesError(f"Data set {dataset!r} needs {name}, which is not in {base}. {remedy}")
