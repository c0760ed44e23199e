"""JSON in one canonical form that carries its own SHA-256: any changed byte is noticed.

The canonical form has sorted keys, no spaces, ASCII only and one newline at the end. The checksum is that of the
canonical form without the key `sha256`. A file is accepted only when its bytes are exactly those that its content would
be written as, so that even a change which means the same (`1e5` and `1E5`) is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.exceptions import CorruptFileError, InputTypeError, ParameterError, SavedModelError
from holdfast.saving.files import read_regular, write_bytes

MAX_JSON_BYTES = 1 << 28


def canonical_json(value: Any) -> bytes:
    """Return the one way in which `value` is written as JSON.

    Examples
    --------
    >>> canonical_json({"b": [1, 2.5], "a": None})
    b'{"a":null,"b":[1,2.5]}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as problem:
        raise InputTypeError(
            f"This cannot be written as JSON: {problem}. Use text, finite numbers, booleans, None, lists and "
            "dictionaries with text keys."
        ) from problem


def checked_json(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a JSON file with its checksum inside."""
    if "sha256" in content:
        raise ParameterError("The key 'sha256' is kept for the checksum. Choose another name.")
    digest = hashlib.sha256(canonical_json(dict(content))).hexdigest()
    return canonical_json({**content, "sha256": digest}) + b"\n"


def parse_checked_json(data: bytes, path: Path) -> dict[str, Any]:
    """Return the content of a checked JSON file; `path` is what errors name."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptFileError(f"{str(path)!r} is damaged: it is not JSON. Restore it, or write it again.") from None
    if not isinstance(content, dict) or "sha256" not in content:
        raise CorruptFileError(f"{str(path)!r} is damaged or not ours: it carries no checksum. Restore it.")
    content.pop("sha256")
    try:
        same = checked_json(content) == data
    except InputTypeError:  # NaN and infinity, which JSON does not know but Python reads
        same = False
    if not same:
        raise CorruptFileError(f"{str(path)!r} is damaged: its bytes do not match its checksum. Restore it.")
    return content


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any], *, overwrite: bool = True) -> None:
    """Write a JSON file with its checksum inside, whole or not at all.

    Parameters
    ----------
    path : path
        The file. Its folder must exist.
    content : mapping
        JSON values with text keys; the key `sha256` is kept for the checksum.
    overwrite : bool
        False refuses a name that exists.
    """
    write_bytes(path, checked_json(content), overwrite=overwrite)


def read_json(path: str | os.PathLike[str], *, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Return the content of a file that `write_json` wrote, without its checksum.

    Parameters
    ----------
    path : path
        The file.
    max_bytes : int
        Larger files are refused unread.

    Raises
    ------
    CorruptFileError
        A byte is not what was written.
    """
    path = Path(path)
    if not os.path.lexists(path):
        raise SavedModelError(f"{str(path)!r} does not exist. Check the path.")
    return parse_checked_json(read_regular(path, max_bytes=max_bytes), path)
