"""Saved models: an estimator as a folder with a manifest of checksums.

`manifest.json` lists the size and SHA-256 of every file, and has a checksum of its own. Training checkpoints are the
same kind of folder with another `kind`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.exceptions import (
    CorruptFileError,
    InputTypeError,
    MismatchWarning,
    SavedModelError,
    UntrustedFileError,
    warn,
)
from holdfast.machine import installed_version, versions
from holdfast.saving.checks import check_value
from holdfast.saving.codec import Decoder, Encoder
from holdfast.saving.files import check_ordinary, new_folder, read_regular, recover_folder, write_new
from holdfast.saving.json_files import canonical_json, checked_json, parse_checked_json

KIND = "model"
MANIFEST, TREE = "manifest.json", "tree.json"
CARD = "card.md"  # for people; never read, so that it may be edited
SCHEMA = 2  # 1 kept trees and other parts of scikit-learn in skops files, which are still read

_MAX_MANIFEST = 1 << 24
_MAX_FILES = 100_000
_NAME = re.compile(r"tree\.json|(?:arrays|tensors)\.safetensors|sklearn-\d{4,}\.skops|booster-\d{4,}\.(?:json|txt)")


def save(
    estimator: Any,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    extra: Mapping[str, Any] | None = None,
    card: str = "",
) -> None:
    """Save an estimator as a folder.

    The folder appears in one step: after any error, and after a kill, an older one is still there, whole.

    Parameters
    ----------
    estimator : estimator
        One of holdfast's, or a scikit-learn estimator, fitted or not; inside may be what `holdfast.saving.codec`
        lists.
    folder : path
        Where. Missing parents are created.
    overwrite : bool
        Replace a saved model that is there. A folder with anything else in it is never touched.
    extra : dict, optional
        JSON values to keep beside the estimator, such as column names; `read_manifest` gives them back.
    card : str
        What `card.md` says, a page for people. It is never read again, and may be edited.

    Raises
    ------
    UntrustedFileError
        The estimator holds something that could not be loaded safely; the message names it.
    SavedModelError
        The folder exists and may not be replaced.
    StorageError
        The disk is full, or the folder cannot be written. Nothing older was changed.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast import ERMClassifier, load as load_model, save as save_model
    >>> model = ERMClassifier().fit([[0.0], [1.0], [0.0], [1.0]], ["no", "yes", "no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model")
    ...     load_model(f"{folder}/model").predict([[1.0]]).tolist()
    ['yes']
    """
    facts = {"estimator": type(estimator).__name__, "extra": _plain(extra)}
    write_folder(folder, KIND, pack(estimator, "estimator"), facts, overwrite=overwrite, card=card)


def load(folder: str | os.PathLike[str], *, trust: Sequence[str] = ()) -> Any:
    """Load the estimator that `save` wrote; it predicts the same to the last bit.

    Parameters
    ----------
    folder : path
        The folder.
    trust : list of str
        Import paths of your own networks and functions that the model may use, such as ``["my_package.nets.Net"]``.
        They are imported, which runs their code; nothing else of the folder is ever run.

    Returns
    -------
    estimator

    Raises
    ------
    CorruptFileError
        A file is missing, cut or changed; the message names it.
    UntrustedFileError
        The folder holds what holdfast refuses to load. Nothing in it was executed.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast import ERMClassifier, load as load_model, save as save_model
    >>> model = ERMClassifier().fit([[0.0], [1.0], [0.0], [1.0]], ["no", "yes", "no", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model")
    ...     load_model(f"{folder}/model").predict([[1.0]]).tolist()
    ['yes']
    """
    manifest, files = read_folder(folder, KIND)
    if b'"sklearn.' in files.get(TREE, b""):
        _compare_versions(manifest["libraries"], Path(folder))
    if isinstance(trust, str):
        raise InputTypeError(f"trust must be a list of import paths. Got {trust!r}; pass trust=[{trust!r}].")
    return unpack(files, Path(folder), trust)


def pack(value: Any, where: str) -> dict[str, bytes]:
    """Return the files that hold a value: the tree, and what it refers to."""
    check_value(value, where)
    encoder = Encoder()
    tree = checked_json({"root": encoder.encode(value, where)})
    return {TREE: tree, **encoder.files()}


def unpack(files: dict[str, bytes], folder: Path, trust: Sequence[str] = ()) -> Any:
    """Return the value that `pack` made the files of."""
    tree = parse_checked_json(files.pop(TREE, b""), folder / TREE)
    decoder = Decoder(files, frozenset(trust))
    value = decoder.decode(tree.get("root"))
    decoder.check_all_used()
    try:
        check_value(value, "estimator", loaded=True)
    except UntrustedFileError as problem:
        raise UntrustedFileError(f"{str(folder)!r} was not loaded: {problem}") from problem
    return value


def _plain(extra: Mapping[str, Any] | None) -> dict[str, Any]:
    plain = dict(extra or {})
    if json.loads(canonical_json(plain)) != plain:
        raise InputTypeError(
            "extra must hold JSON values that come back as they are: text, numbers, booleans, None, lists and "
            "dictionaries with text keys. Convert tuples to lists and keys to text."
        )
    return plain


def _compare_versions(saved: Mapping[str, Any], folder: Path) -> None:
    """Warn of another scikit-learn, whose fitted estimators may change with the second number of its version."""
    now = str(installed_version("scikit-learn"))
    before = str(saved.get("scikit-learn", now))
    if before.split(".")[:2] != now.split(".")[:2]:
        warn(
            f"{str(folder)!r} was saved with scikit-learn {before}, and {now} is installed: predictions may differ. "
            f"Install scikit-learn {before}, or fit and save again.",
            MismatchWarning,
        )


def write_folder(
    folder: str | os.PathLike[str],
    kind: str,
    files: Mapping[str, bytes],
    facts: Mapping[str, Any],
    *,
    overwrite: bool,
    card: str = "",
) -> None:
    """Write files and their manifest as one folder, in one step.

    Parameters
    ----------
    folder : path
        Where. A folder of the same kind is replaced when `overwrite` allows it; anything else there is an error.
    kind : str
        What the folder is, for example "model".
    files : mapping of name to bytes
        What it holds.
    facts : mapping
        JSON values for the manifest.
    overwrite : bool
        Whether a folder of the same kind may be replaced.
    card : str
        What `card.md` says; the manifest does not list it.
    """
    path = Path(os.path.realpath(folder))
    check_target(path, kind, overwrite=overwrite)
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    manifest = {"kind": kind, "schema": SCHEMA, "libraries": versions(), "files": listed, **facts}
    content = checked_json(manifest)  # fails before anything is written
    if len(content) > _MAX_MANIFEST or len(files) > _MAX_FILES:
        raise SavedModelError(
            f"The {kind} needs {len(files)} files and a manifest of {len(content)} bytes; at most {_MAX_FILES} and "
            f"{_MAX_MANIFEST} can be loaded again. Save less: fewer estimators, or a smaller extra."
        )
    with new_folder(path, overwrite=overwrite) as temporary:
        page = [(CARD, card.encode())] if card else []
        for name, data in [*files.items(), *page, (MANIFEST, content)]:
            write_new(temporary / name, data, shown=path / name)


def read_folder(folder: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the files of a folder, every byte checked; refuse what the manifest does not list."""
    path = Path(folder)
    manifest = read_manifest(path, kind)
    listed = manifest["files"]
    present = _entries(path) - {MANIFEST, CARD}
    for name in sorted(present - set(listed)):
        raise UntrustedFileError(
            f"{str(path / name)!r} is not in the manifest. Nothing was loaded; remove it if it is yours."
        )
    for name, facts in sorted(listed.items()):  # all sizes before any reading
        if name not in present:
            raise CorruptFileError(f"{str(path / name)!r} is missing. Restore it, or save again.")
        status = os.lstat(path / name)
        check_ordinary(path / name, status)
        size = status.st_size
        if size != facts["bytes"]:
            raise CorruptFileError(
                f"{str(path / name)!r} is damaged: it has {size} bytes, {facts['bytes']} were written. Restore it."
            )
    files = {}
    for name, facts in sorted(listed.items()):
        data = read_regular(path / name, max_bytes=facts["bytes"])
        if hashlib.sha256(data).hexdigest() != facts["sha256"]:
            raise CorruptFileError(f"{str(path / name)!r} is damaged: its bytes do not match its SHA-256. Restore it.")
        files[name] = data
    return manifest, files


def read_manifest(folder: str | os.PathLike[str], kind: str = "model") -> dict[str, Any]:
    """Return the manifest of a saved model, checked against its own checksum.

    Parameters
    ----------
    folder : path
        A folder that `save` wrote.
    kind : "model" or "checkpoint"
        What the folder should be.

    Returns
    -------
    dict
        `kind`, `schema`, `libraries` (versions), `files` (size and SHA-256 of each) and, for a model, `estimator` (its
        class) and `extra` (what was handed to `save`).
    """
    path = Path(folder)
    recover_folder(Path(os.path.realpath(path)))
    if not path.exists():
        raise SavedModelError(f"The {kind} folder {str(path)!r} does not exist. Check the path.")
    if not path.is_dir():
        raise SavedModelError(f"{str(path)!r} is a file, but a {kind} is a folder. Pass the folder.")
    if not os.path.lexists(path / MANIFEST):
        raise CorruptFileError(f"{str(path)!r} is not a saved {kind}: {MANIFEST} is missing.")
    manifest = parse_checked_json(read_regular(path / MANIFEST, max_bytes=_MAX_MANIFEST), path / MANIFEST)
    found, schema = manifest.get("kind"), manifest.get("schema")
    if not isinstance(found, str):
        raise CorruptFileError(f"{str(path / MANIFEST)!r} is damaged: it is not a manifest. Restore it, or save again.")
    if found != kind:
        raise SavedModelError(f"{str(path)!r} holds a {found!r:.40}, but a {kind!r} was asked for. Check the path.")
    if type(schema) is not int or schema not in (1, SCHEMA):
        raise SavedModelError(
            f"{str(path / MANIFEST)!r} is in schema version {schema!r:.40}; this holdfast reads {SCHEMA}. "
            "Update holdfast to load it."
        )
    _check_listing(manifest, path / MANIFEST)
    return manifest


def _check_listing(manifest: dict[str, Any], path: Path) -> None:
    """Refuse a manifest that lists names or sizes that holdfast does not write."""
    files, libraries = manifest.get("files"), manifest.get("libraries")
    if not isinstance(files, dict) or len(files) > _MAX_FILES or not isinstance(libraries, dict):
        raise UntrustedFileError(f"{str(path)!r} lists no files, or too many. Nothing was loaded.")
    for name, facts in files.items():
        if not _NAME.fullmatch(name):
            raise UntrustedFileError(
                f"{str(path)!r} lists {name!r:.200}, a name that holdfast does not write. Refused."
            )
        if not isinstance(facts, dict) or type(facts.get("bytes")) is not int or type(facts.get("sha256")) is not str:
            raise UntrustedFileError(f"{str(path)!r} lists {name!r} without its size and SHA-256. Nothing was loaded.")


def check_target(path: Path, kind: str, *, overwrite: bool) -> None:
    """Refuse to write where something is that is not a folder of this kind, or that may not be replaced."""
    recover_folder(path)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise SavedModelError(f"{str(path)!r} exists and is a file. Choose another folder for the {kind}.")
    if not _entries(path):
        return  # an empty folder is nobody's
    try:
        known = {MANIFEST, CARD, *read_manifest(path, kind)["files"]}
    except SavedModelError as problem:
        raise SavedModelError(
            f"{str(path)!r} exists and is not a saved {kind} of holdfast's. It was not touched; choose another folder."
        ) from problem
    strangers = sorted(_entries(path) - known)
    if strangers:
        raise SavedModelError(
            f"{str(path)!r} also holds {', '.join(map(repr, strangers[:3]))}, which holdfast did not write. "
            "It was not touched; choose another folder, or move that away."
        )
    if not overwrite:
        raise SavedModelError(
            f"{str(path)!r} holds a saved {kind} already. Pass overwrite=True to replace it, or choose another folder."
        )


def _entries(path: Path) -> set[str]:
    with os.scandir(path) as entries:
        return {entry.name for entry in entries}
