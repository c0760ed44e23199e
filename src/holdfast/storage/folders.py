"""Whole folders: filled under a temporary name, then put in place in one step."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.storage.faults import step, storage_errors
from holdfast.storage.files import TEMPORARY, sync_folder, temporary_beside
from holdfast.storage.locks import NOFOLLOW, locked_folder, try_lock

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
