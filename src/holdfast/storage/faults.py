"""What the system says when a write fails, in one line; and a hook through which tests make it fail."""

from __future__ import annotations

import contextlib
import errno
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
