"""One file at a time: written whole or not at all, read only when it is an ordinary file of a sane size."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.exceptions import CorruptFileError, UntrustedFileError
from holdfast.saving.locks import NOFOLLOW, locked_folder, step, storage_errors, try_lock

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


LEFTOVER_AGE = 60.0  # seconds: a writer has locked its temporary name long before it is this old


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give an empty folder to fill, which takes the place of `path` in one step at the end of the block.

    Any error inside the block, or while swapping, leaves an older folder at `path` as it was.

    Parameters
    ----------
    path : path
        The final name. Missing parents are created.
    overwrite : bool
        Replace a folder that is there. The caller has made sure that it may be replaced.
    """
    path = Path(os.path.abspath(path))
    temporary = temporary_beside(path)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # a folder may be writable but not listable
            remove_leftovers(path.parent)
        recover_folder(path)
        step("mkdir", temporary)
        temporary.mkdir()
    replaced: Path | None = None
    in_place = False
    with locked_folder(temporary):
        try:
            yield temporary
            with storage_errors(path):
                sync_folder(temporary)
                step("rename", path)
                if overwrite and path.exists():
                    replaced = _swap(temporary, path)
                else:
                    os.rename(temporary, path)  # refuses a folder that is not empty
                in_place = True
                sync_folder(path.parent)
        except BaseException:
            if not in_place:
                shutil.rmtree(temporary, ignore_errors=True)
            raise
        if replaced is not None:
            with contextlib.suppress(OSError):  # what stays behind, a later writer sweeps away
                step("remove", replaced)
                shutil.rmtree(replaced)


def recover_folder(path: Path) -> None:
    """Put back a folder whose replacement was cut short (where the system cannot exchange two names in one step)."""
    previous = _previous_of(path)
    if previous.is_dir():
        if path.exists():
            shutil.rmtree(previous, ignore_errors=True)
        else:
            os.rename(previous, path)


def remove_leftovers(folder: str | os.PathLike[str], *, age: float = LEFTOVER_AGE) -> int:
    """Delete what killed writers left in `folder`, and return how many names that were.

    A leftover is called `.holdfast-tmp-…`, is older than `age` seconds, and no living process holds its lock.
    """
    with os.scandir(folder) as entries:
        names = [Path(entry.path) for entry in entries if entry.name.startswith(TEMPORARY)]
    n_removed = 0
    for name in names:
        with contextlib.suppress(OSError):  # another process sweeps too
            if time.time() - name.lstat().st_mtime >= age:
                n_removed += _remove_if_abandoned(name)
    return n_removed


def _remove_if_abandoned(name: Path) -> bool:
    if name.is_dir() and not name.is_symlink():
        with locked_folder(name) as abandoned:
            if abandoned:
                shutil.rmtree(name)
        return abandoned
    descriptor = os.open(name, os.O_RDWR | NOFOLLOW)
    try:
        abandoned = try_lock(descriptor)
        if abandoned:
            name.unlink()
        return abandoned
    finally:
        os.close(descriptor)


def _previous_of(path: Path) -> Path:
    return path.with_name(f".holdfast-old-{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}")


def _swap(new: Path, old: Path) -> Path:
    """Let the new folder take the old one's name, and return where the old one is now."""
    if _exchange(new, old):
        return new
    previous = _previous_of(old)
    os.rename(old, previous)
    try:
        step("rename", old)
        os.rename(new, old)
    except BaseException:
        os.rename(previous, old)
        raise
    return previous


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is None:
        return False
    current_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(current_folder, os.fsencode(first), current_folder, os.fsencode(second), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(second))
