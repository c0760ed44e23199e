"""Which files a run was made from, and whether they are still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.datasets.folders import data_folder

_HASHED = 1 << 27  # bytes from the start and from the end: files of word vectors have gigabytes


def fingerprints(files: Iterable[Path], folder: Path | None) -> dict[str, str]:
    """Return a hash of each file, by its path inside the data folder."""
    base = (data_folder() if folder is None else folder).resolve()
    found = {}
    for file in dict.fromkeys(path.resolve() for path in files):
        name = file.relative_to(base).as_posix() if file.is_relative_to(base) else str(file)
        found[name] = fingerprint(file)
    return found


def find_changed(record: Mapping[str, Any], folder: Path | None) -> str | None:
    """Return the first file of a finished run that is another one now, or None; files that are gone tell nothing."""
    base = data_folder() if folder is None else folder
    for name, known in record.get("data", {}).get("files", {}).items():
        path = base / name
        if path.is_file() and fingerprint(path) != known:
            return str(name)
    return None


def fingerprint(path: Path) -> str:
    """Return what changes when a file, or the list of files in a folder, does."""
    facts = path.stat()
    if path.is_dir():
        return f"{path.resolve()} {facts.st_mtime_ns}"
    return _hash(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash(path: Path, size: int, _changed: int) -> str:
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_HASHED))
        if size > _HASHED:
            file.seek(max(size - _HASHED, _HASHED))
            digest.update(file.read())
    return digest.hexdigest()[:20]
