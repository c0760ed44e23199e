"""scikit-learn estimators as skops files, which hold data and names of types but no code.

skops checks types before it builds anything. In front of it stands a check of our own that every file passes when it is
saved and when it is loaded: only types on the list (`sklearn_types`), only plain uncompressed members whose sizes add
up, every array's header true to its bytes, nothing referred to twice, nothing left over. Numbers that compiled code
uses as memory offsets are checked too (`sklearn_numbers`).
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import warnings
import zipfile
from importlib import import_module
from typing import Any

import numpy as np

from holdfast.checkpoints.arrays import check_text
from holdfast.checkpoints.classes import saved_name
from holdfast.checkpoints.sklearn_numbers import check_numbers
from holdfast.checkpoints.sklearn_types import is_trusted, public_class, refused_name
from holdfast.exceptions import HoldfastError, UntrustedFileError

_MAX_SCHEMA = 1 << 27
_MAX_MEMBERS = 1_000_000
_MEMBER = re.compile(r"schema\.json|\d{1,20}\.np[yz]")
_PROTOCOL = 2  # older ones have other loaders
_AT_SAVE_TIME = "Replace that part: functions cannot be saved, and a search for neighbors only with algorithm='brute'."


def holds_ours(value: Any) -> bool:
    """Return whether an estimator of ours is inside, so that skops alone could not hold it."""
    seen: set[int] = set()
    queue = list(vars(value).values())
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if saved_name(type(item)) is not None:
            return True
        if isinstance(item, dict):
            queue.extend(item.values())
        elif isinstance(item, list | tuple) or (isinstance(item, np.ndarray) and item.dtype == object):
            queue.extend(item)
        elif hasattr(item, "get_params") and hasattr(item, "__dict__"):
            queue.extend(vars(item).values())
    return False


def pack_estimator(estimator: Any, where: str) -> bytes:
    """Return the bytes of a skops file; refuse now what loading would refuse later."""
    skops_io = _import_skops()
    try:
        check_numbers(estimator, where)
        data = _without_compression(skops_io.dumps(estimator))
    except HoldfastError:
        raise
    except Exception as problem:  # skops raises what the estimator's own methods raise
        raise UntrustedFileError(f"{where} ({type(estimator).__name__}) cannot be saved: {problem}") from problem
    _audit(data, where, advice=_AT_SAVE_TIME)
    return data


def unpack_estimator(data: bytes, name: str, file: str) -> Any:
    """Return the estimator in a skops file, after every check."""
    from sklearn.exceptions import InconsistentVersionWarning

    skops_io = _import_skops()
    expected = public_class(name)
    trusted = _audit(data, file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # the manifest's versions are compared once
            estimator = skops_io.loads(data, trusted=trusted)
        if type(estimator) is not expected:
            raise UntrustedFileError(f"{file} holds {type(estimator).__name__}, not the {name} that tree.json gives.")
        check_numbers(estimator, file)
    except HoldfastError:
        raise
    except Exception as problem:  # a foreign parser on foreign bytes
        raise UntrustedFileError(f"{file} cannot be read as a scikit-learn estimator: {problem}") from problem
    return estimator


def _import_skops() -> Any:
    """Import skops, which imports all of scikit-learn, but not the libraries that scikit-learn has adapters to."""
    loaded: dict[str, Any] = sys.modules
    hidden = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")]
    hidden = [] if "skops.io" in loaded else [name for name in hidden if name not in loaded]
    try:
        loaded |= dict.fromkeys(hidden)  # None: whoever imports it is told that it is not there
        return import_module("skops.io")
    finally:
        for name in hidden:
            loaded.pop(name, None)


def _without_compression(data: bytes) -> bytes:
    """Return the file with sparse matrices unpacked, so that no member is larger inside than outside."""
    from scipy.sparse import load_npz, save_npz

    source = zipfile.ZipFile(io.BytesIO(data))
    if not any(name.endswith(".npz") for name in source.namelist()):
        return data
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as target:
        for name in source.namelist():
            member = source.read(name)
            if name.endswith(".npz"):
                plain = io.BytesIO()
                save_npz(plain, load_npz(io.BytesIO(member)), compressed=False)
                member = plain.getvalue()
            target.writestr(name, member)
    return result.getvalue()


def _audit(data: bytes, file: str, *, advice: str = "Nothing was loaded.") -> list[str]:
    """Check a skops file without building anything, and return the types in it that skops itself has to be told of."""
    try:
        members = _members(data, file)
        if any(not _MEMBER.fullmatch(name) for name in members) or len(members.get("schema.json", b"")) > _MAX_SCHEMA:
            raise UntrustedFileError(
                f"{file} holds members that a skops file of ours does not have. It was not loaded."
            )
        schema = json.loads(members.pop("schema.json"))
        types, used = _walk(schema, file, advice)
        if schema.get("protocol") != _PROTOCOL:
            raise UntrustedFileError(f"{file} is in skops protocol {schema.get('protocol')!r:.20}, not {_PROTOCOL}.")
        if used != sorted(members):
            raise UntrustedFileError(
                f"{file} refers to a member twice, to none, or leaves one unused. It was not loaded."
            )
        for name, member in members.items():
            for array in _members(member, file).values() if name.endswith(".npz") else [member]:
                _check_array(array, f"{name} in {file}")
    except HoldfastError:
        raise
    except Exception as problem:  # zipfile, json and numpy's header parser on foreign bytes
        raise UntrustedFileError(f"{file} is not a skops file that can be read: {problem}") from problem
    return sorted(types)


def _members(data: bytes, file: str) -> dict[str, bytes]:
    """Return the members of an uncompressed zip file whose sizes add up to no more than the file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        plain = all(i.compress_type == zipfile.ZIP_STORED and i.file_size == i.compress_size for i in infos)
        if not plain or sum(info.file_size for info in infos) > len(data) or len(infos) > _MAX_MEMBERS:
            raise UntrustedFileError(f"{file} would grow when unpacked (compressed or overlapping members). Refused.")
        if len({info.filename for info in infos}) < len(infos):
            raise UntrustedFileError(f"{file} holds two members of the same name. It was not loaded.")
        return {info.filename: archive.read(info) for info in infos}


def _walk(schema: Any, file: str, advice: str) -> tuple[set[str], list[str]]:
    """Return the types and the members that a schema asks for; refuse all kinds of nodes but those listed."""
    types: set[str] = set()
    members: dict[Any, str] = {}  # a node that is met again, under its id, is not read again
    refused: set[str] = set()
    queue = [schema]
    while queue:
        item = queue.pop()
        if isinstance(item, list):
            queue.extend(item)
        elif isinstance(item, dict):
            queue.extend(item.values())
            if isinstance(item.get("__loader__"), str):
                loader, name = item["__loader__"], f"{item['__module__']}.{item['__class__']}"
                if not is_trusted(loader, name):
                    refused.add(refused_name(loader, name))
                types.add(name)
                if loader == "DictNode" and any("bool" in key["__class__"] for key in item["key_types"]["content"]):
                    refused.add("a dictionary with True and False as keys")  # skops would read "False" as True
                if "file" in item:
                    if type(item["__id__"]) is not int or item["__id__"] <= 0:
                        raise UntrustedFileError(f"{file} refers to a member without an identity. It was not loaded.")
                    members[item["__id__"]] = item["file"]
    if refused:
        raise UntrustedFileError(f"{file} holds types that are not trusted: {', '.join(sorted(refused))}. {advice}")
    return types, sorted(members.values())


def _check_array(data: bytes, name: str) -> None:
    """Refuse an .npy member that holds objects, or whose header claims another size than it has."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # headers that numpy can only guess at
        shape, _, dtype = read_header(stream)
    if dtype.hasobject or any(size < 0 for size in shape):
        raise UntrustedFileError(f"{name} holds Python objects. It was not loaded.")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise UntrustedFileError(f"{name} claims another size than it has. It was not loaded.")
    check_text(dtype, memoryview(data)[stream.tell() :], name)
