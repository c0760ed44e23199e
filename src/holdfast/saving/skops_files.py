"""Read parts that earlier versions wrote as skops files. This needs the package skops, and nothing else does."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from holdfast.exceptions import UntrustedFileError
from holdfast.extras import require
from holdfast.saving.sklearn_parts import is_path_listed

# Kinds of nodes that those versions wrote. None of them calls a method or a function.
_KINDS = {
    *("DTypeNode", "DictNode", "FunctionNode", "JsonNode", "ListNode", "LossNode", "MaskedArrayNode", "NdArrayNode"),
    *("ObjectNode", "PartialNode", "RandomGeneratorNode", "RandomStateNode", "SetNode", "SliceNode"),
    *("SparseMatrixNode", "TreeNode", "TupleNode", "TypeNode"),
}


def read_skops(data: bytes, file: str) -> Any:
    """Return the estimator in a skops file; whoever calls checks what is in it, as in every loaded model."""
    skops_io = require("skops.io", extra=None, what="Trees in models of earlier versions, until they are saved again,")
    nodes: list[dict[str, Any]] = []

    def collect(node: dict[str, Any]) -> dict[str, Any]:
        nodes.append(node)
        return node

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        json.loads(archive.read("schema.json"), object_hook=collect)
    arrays = {node["__id__"]: node["file"] for node in nodes if "file" in node}
    if _grows(data) or len(set(arrays.values())) < len(arrays):
        raise UntrustedFileError(f"{file} would grow when unpacked. It was not loaded.")
    untrusted = skops_io.get_untrusted_types(data=data)
    strangers = {str(kind) for node in nodes if (kind := node.get("__loader__", "DictNode")) not in _KINDS}
    strangers |= {path for path in untrusted if not is_path_listed(path)}
    if strangers:
        raise UntrustedFileError(f"{file} holds what is not on the list: {', '.join(sorted(strangers))}. Refused.")
    return skops_io.loads(data, trusted=untrusted)


def _grows(data: bytes) -> bool:
    """Return whether a zip file, or one inside, has compressed or overlapping members; those versions wrote none."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        grows = sum(member.file_size for member in members) > len(data)
        return grows or any(_grows(archive.read(member)) for member in members if member.filename.endswith(".npz"))
