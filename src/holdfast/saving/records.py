"""Records: what one run found, as one JSON file that carries its own checksum and is written whole or not at all."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.exceptions import CorruptFileError, InputTypeError
from holdfast.saving.json_files import read_json, write_json

_NAME = "$name"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


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
    return {key: _restored(value) for key, value in content.items()}


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
