"""Advisory locks, which the system releases when their holder dies."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.exceptions import StorageError

Fault = Callable[[str, Path], None]
_fault: Fault | None = None

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
    errno.EIO: ("the disk reports an error", "Check the disk."),
}


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


if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # not on Windows


class FileLock:
    """An advisory lock for processes that share a store.

    The system releases it when its holder dies, however it dies. A process that forks shares the lock with its children
    until all of them have closed it.

    Parameters
    ----------
    path : path
        A file for the lock alone; it is created, and never deleted.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "store.lock"
    >>> with FileLock(path):
    ...     FileLock(path).acquire(timeout=0)
    False
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None

    def acquire(self, *, timeout: float | None = None) -> bool:
        """Take the lock and return True, or return False when `timeout` seconds (None: any time) were not enough."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.001
        with storage_errors(self.path, doing="lock", safe=""):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o666)
            try:
                while not try_lock(descriptor):
                    if deadline is not None and time.monotonic() >= deadline:
                        os.close(descriptor)
                        return False
                    time.sleep(pause)
                    pause = min(2 * pause, 0.1)
            except BaseException:
                os.close(descriptor)
                raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone; False when another one holds it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock, and say whether nobody else did."""
    if sys.platform == "win32":
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | NOFOLLOW)
    try:
        yield try_lock(descriptor)
    finally:
        os.close(descriptor)
