"""Fetching files: several sources, a timeout, retries, a bound of the size, no file until the checksum is right."""

from __future__ import annotations

import hashlib
import http.client
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from holdfast.exceptions import DatasetError, StorageError
from holdfast.saving.files import new_file

log = logging.getLogger(__name__)

TIMEOUT = 30.0  # seconds without a byte
RETRIES = 2  # after the first attempt, for each source
_BLOCK = 1 << 20

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known


def fetch(
    urls: Sequence[str],
    target: Path,
    *,
    check: Callable[[Path], object],
    max_bytes: int,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    progress: Progress | None = None,
) -> Path:
    """Download a file from the first source that delivers what it should; it appears only complete and checked.

    `check` raises `DatasetError` when the file is not the expected one. A source that sends more than `max_bytes` is
    given up before anything is checked, an attempt after `timeout` seconds without a byte.
    """
    problems = []
    for url in urls:
        for attempt in range(retries + 1):
            try:
                with new_file(target) as file:
                    _download(url, file, target.name, max_bytes, timeout, progress)
                    file.flush()
                    _check(check, Path(file.name), target)
                return target
            except StorageError:
                raise
            except DatasetError as problem:
                problems.append(f"{url}: {problem}")
                break  # asking again does not help
            except (OSError, http.client.HTTPException) as problem:
                problems.append(f"{url}: {_reason(problem)}")
                if isinstance(problem, urllib.error.HTTPError) and 400 <= problem.code < 500:
                    break
                time.sleep(0 if attempt == retries else min(2**attempt, 8) * 0.5)
            log.info("download of %s failed: %s", target.name, problems[-1])
    tried = "; ".join(dict.fromkeys(problems))
    raise DatasetError(
        f"{target.name} could not be downloaded ({tried}). Check the connection, or put the file into {target.parent}."
    )


def _check(check: Callable[[Path], object], path: Path, target: Path) -> None:
    """Check a file that does not have its name yet; errors name what it will be."""
    try:
        check(path)
    except DatasetError as problem:
        text = str(problem).replace(str(path), str(target)).replace(path.name, target.name)
        raise DatasetError(text) from problem


def check_sha256(expected: str) -> Callable[[Path], None]:
    """Return a check that a file has this sha256."""

    def check(path: Path) -> None:
        found = sha256_of(path)
        if found != expected:
            raise DatasetError(f"{path.name} has the sha256 {found}, not {expected}.")

    return check


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_folder(folder: Path) -> Path:
    """Create a folder for downloads, or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageError(f"The folder {folder} cannot be created: {problem.strerror}.") from problem
    return folder


def _download(url: str, file: BinaryIO, name: str, max_bytes: int, timeout: float, progress: Progress | None) -> None:
    """Copy a source into a file; a short answer is a failed one, and so is one that is too long."""
    request = urllib.request.Request(url, headers={"User-Agent": "holdfast"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        done = 0
        while (total or 0) <= max_bytes and (block := answer.read(_BLOCK)):
            done += len(block)
            if done > max_bytes:
                break
            file.write(block)
            if progress is not None:
                progress(name, done, total)
    if max(total or 0, done) > max_bytes:
        raise DatasetError(f"the source sends more than the {max_bytes:,} bytes that {name} can have")
    if total is not None and done != total:
        raise ConnectionError(f"{done} of {total} bytes arrived")


def _reason(problem: Exception) -> str:
    """Return what went wrong, in a few words."""
    if isinstance(problem, urllib.error.HTTPError):
        return f"HTTP {problem.code}"
    if isinstance(problem, urllib.error.URLError):
        return str(problem.reason)
    return str(problem) or type(problem).__name__
