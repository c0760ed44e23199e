"""Write files atomically, lock them, and read only ordinary files of limited size.

Every file is written by `new_file`, and every folder by `new_folder`. They use a new temporary name in the same folder,
which is created exclusively and locked. The content is flushed to the disk, the name is replaced in one step, and the
folder is flushed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import io
import math
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import filelock

from holdfast.exceptions import CorruptFileError, StorageError, UntrustedFileError

TEMPORARY = ".holdfast-tmp-"
LEFTOVER_AGE = 60.0  # seconds: a writer has locked its temporary name long before it is this old
Bytes = bytes | bytearray | memoryview
Fault = Callable[[str, Path], None]

_fault: Fault | None = None
_CHUNK = 1 << 20
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
_BINARY = getattr(os, "O_BINARY", 0)  # Windows
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe in a file's place must not hang the reader
# What file systems without locks answer, many network file systems among them.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space or choose another place."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or choose another place."),
    errno.EFBIG: ("the file would be larger than the file system allows", "Choose another place."),
    errno.EROFS: ("the file system is read-only", "Choose a place that can be written."),
    errno.EACCES: ("permission is denied", "Choose a place that you may use."),
    errno.EPERM: ("the operation is not permitted", "Choose a place that you may use."),
    errno.ENAMETOOLONG: ("the name is too long for the file system", "Choose a shorter name."),
    errno.ENOENT: ("its folder does not exist", "Create the folder first."),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Choose another place."),
    errno.EISDIR: ("a folder stands in its place", "Choose another name."),
    errno.EEXIST: ("it exists already", "Choose another name."),
    errno.ENOTEMPTY: ("it exists already", "Choose another name."),
    errno.EMFILE: ("too many files are open", "Close some files or raise the limit (ulimit -n)."),
    errno.EPIPE: ("whoever reads it has stopped", "Read all of it, or write to a file."),
    errno.EIO: ("the disk reports an error", "Check the disk."),
    errno.ESTALE: ("its temporary file was deleted or replaced while it was written", "Run the command again."),
}


# Faults and errors.


@contextlib.contextmanager
def inject_faults(fault: Fault) -> Iterator[None]:
    """Call `fault(step, path)` before every step that changes the disk; for tests.

    Parameters
    ----------
    fault : callable
        It may raise an `OSError`, as a full disk would, or kill the process. Steps are "create", "write" (before each
        MiB and after the last), "fsync", "rename", "fsync-folder", "mkdir" and "remove".
    """
    global _fault
    before, _fault = _fault, fault
    try:
        yield
    finally:
        _fault = before


def step(name: str, path: Path) -> None:
    """Announce a step that is about to change the disk."""
    if _fault is not None:
        _fault(name, path)


@contextlib.contextmanager
def storage_errors(path: Path, *, doing: str = "write", safe: str = " Nothing older was changed.") -> Iterator[None]:
    """Turn the system's errors into a `StorageError` of one line that names the path."""
    try:
        yield
    except StorageError:
        raise
    except OSError as problem:
        number = problem.errno or 0
        code = errno.errorcode.get(number, "unknown error")
        reason, advice = _REASONS.get(number, (problem.strerror or str(problem), "Choose another place."))
        error = StorageError(f"Could not {doing} {str(path)!r}: {reason} ({code}).{safe} {advice}")
        error.errno = problem.errno
        raise error from problem


# Locks.


@contextlib.contextmanager
def locked(path: str | os.PathLike[str], *, timeout: float = -1) -> Iterator[bool]:
    """Hold the lock of a path that processes share, and say whether it could be taken.

    The system releases the lock when its holder dies, however it dies. Where the file system has no locks, a file
    `path.marker` stands for it: one that a dead process of this machine left is taken over, one of another machine
    has to be deleted by hand.

    Parameters
    ----------
    path : path
        A file for the lock alone. It is created; whoever holds the lock may delete it.
    timeout : float
        Seconds to wait for another holder. A negative number waits for any time.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "store.lock"
    >>> with locked(path), locked(path, timeout=0) as again:
    ...     again
    False
    """
    lock: filelock.BaseFileLock = filelock.FileLock(path, fallback_to_soft=False, thread_local=False)
    with storage_errors(Path(path), doing="lock", safe=""):
        os.stat(f"{Path(path).parent}/.")  # filelock would create a missing folder
        try:
            try:
                lock.acquire(timeout, poll_interval=0.01)
            except OSError as problem:
                if problem.errno not in _NO_LOCKS:
                    raise
                lock = filelock.SoftFileLock(f"{os.fspath(path)}.marker", thread_local=False)
                lock.acquire(timeout, poll_interval=0.05)
        except filelock.Timeout:
            pass
    try:
        yield lock.is_locked
    finally:
        lock.release()


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder: False when another process holds it, None where the file system has no locks."""
    try:
        return filelock.lock_descriptor(descriptor, blocking=False)
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise
        return None


# Writing one file.


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Give an open file to fill, which takes the name `path`, flushed and whole, at the end of the block.

    Any error inside the block, or at its end, leaves an older file at `path` as it was.

    Parameters
    ----------
    path : path
        The final name. Its folder must exist.
    overwrite : bool
        False refuses a name that exists, also when another process creates it at the same moment.

    Raises
    ------
    StorageError
        The disk is full, the folder cannot be written, the name exists, or somebody deleted the temporary file.
    """
    path = Path(path)
    temporary = temporary_beside(path)
    with _created(temporary, shown=path) as file:
        try:
            yield file
            with storage_errors(path):
                _flush(file, temporary)
                _check_in_place(file, temporary)
                step("rename", path)
                (os.replace if overwrite else _rename_to_new)(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    with storage_errors(path):
        sync_folder(path.parent)


def write_bytes(path: str | os.PathLike[str], data: Bytes, *, overwrite: bool = True) -> None:
    """Write a file through `new_file`: its name shows the old bytes or the new ones, never anything else."""
    with new_file(path, overwrite=overwrite) as file:
        file.write(data)


def write_new(path: Path, data: Bytes, *, shown: Path | None = None) -> None:
    """Write and flush a part of a new folder; errors name `shown`, where it will be, instead of where it is now."""
    shown = path if shown is None else shown
    with _created(path, shown=shown) as file:
        file.write(data)
        with storage_errors(shown):
            _flush(file, path)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Fail before the work rather than after it when a file or folder `path` could not be written.

    A small file is written beside `path` (or where its first missing folder would be), flushed and removed; what killed
    writers left there is removed too.
    """
    folder = Path(os.path.abspath(path)).parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    probe = temporary_beside(folder / "probe")
    try:
        write_new(probe, bytes(4096), shown=Path(path))
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    with contextlib.suppress(OSError):  # a folder may be writable but not listable
        remove_leftovers(folder)


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


class _StepwiseFile(io.RawIOBase):
    """A descriptor that announces each write, and whose errors name the file that it will become."""

    def __init__(self, descriptor: int, path: Path, shown: Path) -> None:
        self.descriptor, self.name, self.shown = descriptor, str(path), shown
        self.abandoned = False  # what is still in a buffer goes nowhere: the descriptor's number may be another file's

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def write(self, data: Any) -> int:
        if self.abandoned:
            return len(data)
        with storage_errors(self.shown):
            step("write", Path(self.name))
            return os.write(self.descriptor, memoryview(data)[:_CHUNK])


@contextlib.contextmanager
def _created(path: Path, *, shown: Path) -> Iterator[BinaryIO]:
    """Open a file that does not exist yet, locked so that nobody takes it for a leftover."""
    with storage_errors(shown):
        step("create", path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY, 0o666)
    raw = _StepwiseFile(descriptor, path, shown)
    file = io.BufferedWriter(raw, _CHUNK)
    try:
        try_lock(descriptor)
        yield file
    finally:
        raw.abandoned = True
        file.detach()  # later writes are an error
        os.close(descriptor)


def _flush(file: BinaryIO, path: Path) -> None:
    file.flush()
    step("write", path)
    step("fsync", path)
    os.fsync(file.fileno())


def _check_in_place(file: BinaryIO, path: Path) -> None:
    """Refuse to rename a name that is not the open file's any more."""
    mine = os.fstat(file.fileno())
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        there = None
    if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def _rename_to_new(temporary: Path, path: Path) -> None:
    """Rename a file unless the new name exists."""
    try:
        os.link(temporary, path)  # unlike a rename, a link never replaces
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.replace(temporary, path)
    else:
        temporary.unlink()


# Folders that appear in one step.


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
    with _locked_folder(temporary):
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
            with storage_errors(path, doing="put back", safe=""):
                os.rename(previous, path)


def remove_leftovers(folder: str | os.PathLike[str], *, age: float = LEFTOVER_AGE) -> int:
    """Delete what killed writers left in `folder`, and return how many names that were.

    A leftover is called `.holdfast-tmp-…`, is older than `age` seconds, and no living process holds its lock. Where the
    file system has no locks, nothing is removed.
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
        with _locked_folder(name) as abandoned:
            if abandoned:
                shutil.rmtree(name)
        return bool(abandoned)
    descriptor = os.open(name, os.O_RDWR | _NOFOLLOW)
    try:
        abandoned = try_lock(descriptor)
        if abandoned:
            name.unlink()
        return bool(abandoned)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[bool | None]:
    """Hold a folder's lock; False when another process holds it, None where the file system has no locks."""
    if sys.platform == "win32":
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW)
    try:
        yield try_lock(descriptor)
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


# Reading.


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of an ordinary file; refuse links, pipes and devices, and more than `max_bytes`."""
    try:
        check_ordinary(path, os.lstat(path), max_bytes)
        with open(os.open(path, os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _BINARY), "rb") as file:
            status = os.fstat(file.fileno())
            check_ordinary(path, status, max_bytes)
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


def check_ordinary(path: Path, status: os.stat_result, max_bytes: float = math.inf) -> None:
    """Refuse links, folders, pipes and devices, and files of more than `max_bytes`."""
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "a folder, pipe or device"
        raise UntrustedFileError(f"{str(path)!r} is {kind}, not an ordinary file. It was not read.")
    if status.st_size > max_bytes:
        raise UntrustedFileError(
            f"{str(path)!r} has {status.st_size} bytes, more than the {max_bytes} allowed here. It was not read."
        )
