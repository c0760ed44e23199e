"""JSON files with a checksum inside, and records in this form.

The canonical form has sorted keys, no spaces, ASCII characters only, and one newline at the end. The checksum is the
SHA-256 of the canonical form without the key `sha256`. A file is accepted only if its bytes are exactly the canonical
form of its content. So a change that means the same, such as `1E5` for `1e5`, is refused, too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.exceptions import CorruptFileError, InputTypeError, ParameterError, SavedModelError
from holdfast.saving.files import read_regular, write_bytes

MAX_JSON_BYTES = 1 << 28
_NAME = "$name"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


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


def write_record(path: str | os.PathLike[str], record: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Write a record.

    Parameters
    ----------
    path : path
        The file. Its folder must exist.
    record : mapping
        Text keys; text, numbers, booleans, None, lists and mappings. numpy's numbers and arrays are written as
        Python's, tuples as lists, and NaN and infinity, which JSON does not know, as `{"$float": "nan"}`.
    overwrite : bool
        False refuses a record that is there, also when another process writes it at the same moment.
    """
    content = {name: _plain(value, name) for name, value in record.items()}
    if _NAME in content or not all(type(name) is str for name in content):
        raise InputTypeError(f"A record's keys must be text other than {_NAME!r}. Rename the key.")
    write_json(path, {**content, _NAME: Path(path).name}, overwrite=overwrite)


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a record that `write_record` wrote; refuse one of which any byte was changed.

    Parameters
    ----------
    path : path
        The file, under the name it was written as: two records that were swapped are refused.
    """
    content = read_json(path)
    name = content.pop(_NAME, None)
    if name != Path(path).name:
        raise CorruptFileError(
            f"{str(path)!r} holds the record {name!r:.200}: it was renamed or swapped. Restore its name."
        )
    try:
        return {key: _restored(value) for key, value in content.items()}
    except (KeyError, TypeError, RecursionError) as problem:
        raise CorruptFileError(f"{str(path)!r} is not a record as holdfast writes one ({problem!r:.80}).") from None


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping) and "$float" not in value and all(type(key) is str for key in value):
        return {key: _plain(item, f"{where}.{key}") for key, item in value.items()}
    raise InputTypeError(
        f"{where} of the record is {value!r:.80} ({type(value).__name__}), which a record cannot hold. "
        "Use text keys, text, numbers, booleans, None, lists and dictionaries."
    )


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$float"}:
            return _NON_FINITE[value["$float"]]
        return {key: _restored(item) for key, item in value.items()}
    return value
