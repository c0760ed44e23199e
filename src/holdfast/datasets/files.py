"""Download and read files of data sets and experiments; errors name the file and the line."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import logging
import time
import tomllib
import urllib.error
import urllib.request
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from holdfast.datasets.folders import DAMAGED
from holdfast.exceptions import DatasetError, InputError, StorageError, suggest
from holdfast.saving.files import new_file

log = logging.getLogger(__name__)

TIMEOUT = 30.0  # seconds without a byte
RETRIES = 2  # after the first attempt, for each source
_BLOCK = 1 << 20

BytesProgress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known
_GZIP = b"\x1f\x8b"
MAX_BYTES = 1 << 32
MIN_COUNT = 5  # words that occur less often are not in the paper's vocabulary


def fetch(
    urls: Sequence[str],
    target: Path,
    *,
    check: Callable[[Path], object],
    max_bytes: int,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    progress: BytesProgress | None = None,
) -> Path:
    """Download a file from the first source that delivers what it should; it appears only complete and checked.

    `check` raises `DatasetError` when the file is not the expected one. A source that sends more than `max_bytes` is
    given up before anything is checked, an attempt after `timeout` seconds without a byte.
    """
    problems = []
    make_folder(target.parent)
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
        raise StorageError(
            f"The folder {folder} cannot be created: {problem.strerror}. Choose another folder."
        ) from problem
    return folder


def _download(
    url: str, file: BinaryIO, name: str, max_bytes: int, timeout: float, progress: BytesProgress | None
) -> None:
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


@contextmanager
def open_plain(path: Path, *, remedy: str = "Get the file again.") -> Iterator[BinaryIO]:
    """Open a file for reading, uncompressed; errors while it is read say the remedy."""
    try:
        with path.open("rb") as file:
            is_gzip = file.read(len(_GZIP)) == _GZIP
        with cast("BinaryIO", gzip.open(path, "rb")) if is_gzip else path.open("rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise DatasetError(f"{path} is a truncated or damaged gzip file ({problem}). {remedy}") from problem
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read: {problem.strerror}. Check its permissions.") from problem


def read_plain(path: Path, *, max_bytes: int = MAX_BYTES, remedy: str = "Get the file again.") -> bytes:
    """Return a file's bytes, uncompressed; refuse one that would fill the memory."""
    with open_plain(path, remedy=remedy) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DatasetError(f"{path} has more than {max_bytes:,} bytes, uncompressed: it is another file. {remedy}")
    return content


def read_text(path: Path) -> str:
    """Return a file of UTF-8 text, plain or gzip, without its byte order mark."""
    try:
        return read_plain(path).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise DatasetError(f"{path} is not UTF-8 text ({problem.reason}). Save the file as UTF-8.") from problem


def read_npz(path: Path, *names: str) -> list[NDArray[Any]]:
    """Return these arrays of an ``.npz`` archive, which may hold no Python objects."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return [arrays[name] for name in names]
    except KeyError as problem:
        wanted = " and ".join(map(repr, names))
        raise DatasetError(f"{path} must hold the arrays {wanted}: {problem.args[0]}.") from problem
    except DAMAGED as problem:
        raise DatasetError(
            f"{path} is not a readable .npz archive of plain arrays ({problem}). Get it again."
        ) from problem


def read_json_lines(path: Path, keys: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each line that is not empty; every object must have the keys."""
    number, n_objects = 0, 0
    try:
        with path.open(encoding="utf-8-sig") as file:  # a byte order mark is not part of the first object
            for number, line in enumerate(file, start=1):
                if line.strip():
                    n_objects += 1
                    yield number, _object(line, keys, path, number)
    except UnicodeDecodeError as problem:
        raise DatasetError(
            f"{path}, after line {number}: not UTF-8 text ({problem.reason}). Save the file as UTF-8."
        ) from problem
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read: {problem.strerror}. Check its permissions.") from problem
    if n_objects == 0:
        raise DatasetError(f"{path} is empty. Get the file again.")


def is_flag(value: Any) -> bool:
    """Return whether a value is 0 or 1, as a number or a truth value."""
    return isinstance(value, bool | int | float) and value in (0, 1)


def zero_or_one(value: Any, key: str, path: Path, line: int) -> int:
    """Return a 0/1 value as an integer."""
    if is_flag(value):
        return int(value)
    raise DatasetError(f"{path}, line {line}: {key!r} must be 0 or 1. Got {value!r}. Correct the line.")


def text_of(value: Any, path: Path, line: int) -> str:
    """Return a text, also where it was written as a list of tokens."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return " ".join(value)
    raise DatasetError(
        f"{path}, line {line}: 'text' must be a text or a list of tokens. Got {type(value).__name__}. Correct the line."
    )


def word_notes(texts: Iterable[str], expected: int) -> list[str]:
    """Return how the number of words differs from the paper's.

    Examples
    --------
    >>> word_notes(["dark beer dark beer dark dark", "dark"], 2)
    ['1 words occur at least 5 times, the paper has 2']
    """
    counts = Counter(token for text in texts for token in text.split())
    found = sum(count >= MIN_COUNT for count in counts.values())
    return (
        [] if found == expected else [f"{found:,} words occur at least {MIN_COUNT} times, the paper has {expected:,}"]
    )


def _object(line: str, keys: Sequence[str], path: Path, number: int) -> dict[str, Any]:
    """Parse one line."""
    try:
        value = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as problem:
        what = problem.msg if isinstance(problem, json.JSONDecodeError) else "nested too deeply"
        raise DatasetError(
            f"{path}, line {number}: not a JSON object ({what}). The file may be cut off; get it again."
        ) from problem
    if not isinstance(value, dict):
        raise DatasetError(
            f"{path}, line {number}: a JSON object was expected. Got {type(value).__name__}. Correct the line."
        )
    for key in keys:
        if key not in value:
            raise DatasetError(
                f"{path}, line {number}: the key {key!r} is missing; the line has {sorted(value)[:20]}. "
                "Add the key, or get the original file."
            )
    return value


def read_toml(path: Path, missing: str, error: type[InputError]) -> dict[str, Any]:
    """Return the content of a TOML file; `missing` is what the error says where there is none."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise error(missing) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise error(f"{path} cannot be read as TOML: {problem}.") from problem


def first_error(problem: ValidationError, known: Iterable[str]) -> str:
    """Return what is wrong, in one sentence."""
    error = problem.errors()[0]
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"has an unknown key {key!r}. {suggest(key, list(known))}"
    if error["type"] == "missing":
        return f"lacks the key {key!r}. Add it."
    message = error["msg"].removeprefix("Value error, ")
    if not key:  # of several keys together
        return f"cannot be used: {message}."
    text = f"has a value of {key!r} that cannot be used: {message}"
    return text if message.endswith((".", "?")) else f"{text}. Got {error['input']!r:.100}."
