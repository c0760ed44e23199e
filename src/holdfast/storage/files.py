"""One file at a time: written whole or not at all, read only when it is an ordinary file of a sane size."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.exceptions import CorruptFileError, UntrustedFileError
from holdfast.storage.faults import step, storage_errors
from holdfast.storage.locks import NOFOLLOW, try_lock

TEMPORARY = ".holdfast-tmp-"
Bytes = bytes | bytearray | memoryview

_CHUNK = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe in a file's place must not hang the reader


def write_bytes(path: str | os.PathLike[str], data: Bytes, *, overwrite: bool = True) -> None:
    """Write a file so that its name shows the old bytes or the new ones, never anything else.

    Parameters
    ----------
    path : path
        The file. Its folder must exist.
    data : bytes
        What it shall hold.
    overwrite : bool
        False refuses a name that exists, also when another process creates it at the same moment.

    Raises
    ------
    StorageError
        The disk is full, the folder cannot be written, or the name exists. What was there is unchanged.
    """
    path = Path(path)
    temporary = temporary_beside(path)
    with storage_errors(path):
        try:
            with _created(temporary) as descriptor:
                _write_and_sync(descriptor, temporary, data)
                step("rename", path)
                if overwrite:
                    os.replace(temporary, path)
                else:
                    os.link(temporary, path)  # unlike a rename, a link never replaces
                    temporary.unlink()
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)


def write_new(path: Path, data: Bytes, *, shown: Path | None = None) -> None:
    """Write and flush a part of a new folder; errors name `shown`, where it will be, instead of where it is made."""
    with storage_errors(path if shown is None else shown), _created(path) as descriptor:
        _write_and_sync(descriptor, path, data)


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of an ordinary file; refuse links, pipes and devices, and more than `max_bytes`."""
    try:
        _check_ordinary(path, os.lstat(path), max_bytes)
        with open(os.open(path, os.O_RDONLY | NOFOLLOW | _NONBLOCK | _BINARY), "rb") as file:
            status = os.fstat(file.fileno())
            _check_ordinary(path, status, max_bytes)
            data = file.read(status.st_size + 1)
    except FileNotFoundError:
        raise CorruptFileError(f"{str(path)!r} is missing. Restore it, or save again.") from None
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise UntrustedFileError(f"{str(path)!r} is a link, not an ordinary file. It was not read.") from problem
        with storage_errors(path, doing="read", safe=""):
            raise
    if len(data) > status.st_size:
        raise CorruptFileError(f"{str(path)!r} grew while it was read. Wait until nobody writes to it.")
    return data


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    if sys.platform == "win32":
        return
    step("fsync-folder", folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # some network file systems flush names on their own and refuse the call
            raise
    finally:
        os.close(descriptor)


def temporary_beside(path: Path) -> Path:
    """Return a fresh name in the same folder, short whatever the length of the final one."""
    return path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"


def _check_ordinary(path: Path, status: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "a folder, pipe or device"
        raise UntrustedFileError(f"{str(path)!r} is {kind}, not an ordinary file. It was not read.")
    if status.st_size > max_bytes:
        raise UntrustedFileError(
            f"{str(path)!r} has {status.st_size} bytes, more than the {max_bytes} allowed here. It was not read."
        )


@contextlib.contextmanager
def _created(path: Path) -> Iterator[int]:
    """Open a file that does not exist yet, locked so that nobody takes it for a leftover."""
    step("create", path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | _BINARY, 0o666)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: the leftover's age alone protects it
            try_lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _write_and_sync(descriptor: int, path: Path, data: Bytes) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        step("write", path)
        rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
    step("write", path)
    step("fsync", path)
    os.fsync(descriptor)
