"""Saved models: an estimator as a folder that can be checked byte by byte and loaded without running code."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.exceptions import InputTypeError, MismatchWarning, UntrustedFileError
from holdfast.saving.checks import check_value
from holdfast.saving.codec import Decoder, Encoder
from holdfast.saving.json_files import canonical_json, checked_json, parse_checked_json
from holdfast.saving.manifests import TREE, library_versions, read_folder, write_folder

KIND = "model"
_MINOR = ("scikit-learn",)  # libraries whose fitted estimators may change with the second number of the version


def save(
    estimator: Any, folder: str | os.PathLike[str], *, overwrite: bool = False, extra: Mapping[str, Any] | None = None
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

    Raises
    ------
    UntrustedFileError
        The estimator holds something that could not be loaded safely; the message names it.
    SavedModelError
        The folder exists and may not be replaced.
    StorageError
        The disk is full, or the folder cannot be written. Nothing older was changed.
    """
    facts = {"estimator": type(estimator).__name__, "extra": _plain(extra)}
    write_folder(folder, KIND, pack(estimator, "estimator"), facts, overwrite=overwrite)


def load(folder: str | os.PathLike[str]) -> Any:
    """Load the estimator that `save` wrote; it predicts the same to the last bit.

    Parameters
    ----------
    folder : path
        The folder.

    Returns
    -------
    estimator

    Raises
    ------
    CorruptFileError
        A file is missing, cut or changed; the message names it.
    UntrustedFileError
        The folder holds what holdfast refuses to load. Nothing in it was executed.
    """
    manifest, files = read_folder(folder, KIND)
    if any(name.endswith(".skops") for name in files):
        _compare_versions(manifest["libraries"], Path(folder))
    return unpack(files, Path(folder))


def pack(value: Any, where: str) -> dict[str, bytes]:
    """Return the files that hold a value: the tree, and what it refers to."""
    check_value(value, where)
    encoder = Encoder()
    tree = checked_json({"root": encoder.encode(value, where)})
    return {TREE: tree, **encoder.files()}


def unpack(files: dict[str, bytes], folder: Path) -> Any:
    """Return the value that `pack` made the files of."""
    tree = parse_checked_json(files.pop(TREE, b""), folder / TREE)
    decoder = Decoder(files)
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
    """Warn when a library that gives no promise across versions is another one now."""
    present = library_versions()
    for name in _MINOR:
        before, now = str(saved.get(name)), present.get(name, "none")
        if name in saved and before.split(".")[:2] != now.split(".")[:2]:
            warnings.warn(
                f"{str(folder)!r} was saved with {name} {before}, and {now} is installed: predictions may differ. "
                f"Install {name} {before}, or fit and save again.",
                MismatchWarning,
                stacklevel=3,
            )
