"""Files that may be gzip files, whatever their names: their plain bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from holdfast.exceptions import DatasetError

_GZIP = b"\x1f\x8b"


@contextmanager
def open_plain(path: Path, *, remedy: str = "Get the file again.") -> Iterator[BinaryIO]:
    """Open a file for reading, uncompressed; what goes wrong while it is read is told with the remedy."""
    try:
        with path.open("rb") as file:
            is_gzip = file.read(len(_GZIP)) == _GZIP
        with cast("BinaryIO", gzip.open(path, "rb")) if is_gzip else path.open("rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise DatasetError(f"{path} is a truncated or damaged gzip file ({problem}). {remedy}") from problem
    except OSError as problem:
        raise DatasetError(f"{path} cannot be read: {problem.strerror}. Check its permissions.") from problem


def read_plain(path: Path, *, remedy: str = "Get the file again.") -> bytes:
    """Return a file's bytes, uncompressed."""
    with open_plain(path, remedy=remedy) as file:
        return file.read()
