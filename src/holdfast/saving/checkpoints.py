"""Training checkpoints: the state of an interrupted fit, and the versions it depends on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from holdfast.exceptions import CorruptFileError, MismatchWarning, SavedModelError, warn
from holdfast.machine import processor_name, versions
from holdfast.saving.models import pack, read_folder, unpack, write_folder

KIND = "checkpoint"


def write_checkpoint(folder: str | os.PathLike[str], state: Any, *, precision: str = "float32") -> None:
    """Replace the checkpoint in `folder` in one step; a kill leaves the older one or the newer one, whole.

    Parameters
    ----------
    folder : path
        Where. It is created, or must hold a checkpoint.
    state : dict
        Anything that `holdfast.saving.codec` lists: numbers, arrays, tensors, `state_dict()`s of networks and
        optimizers, random generators, histories.
    precision : str
        The precision of the training, which is recorded beside versions, CPU type and number of threads.
    """
    facts = {"runtime": runtime_facts(precision)}
    write_folder(folder, KIND, pack(state, "state"), facts, overwrite=True)


def read_checkpoint(folder: str | os.PathLike[str], *, precision: str | None = None, strict: bool = False) -> Any:
    """Return the state that `write_checkpoint` wrote, every byte checked.

    Continuing is bit-identical only with the same versions, CPU type, number of threads and precision. A difference is
    a `MismatchWarning` that names it, since the fit can still go on.

    Parameters
    ----------
    folder : path
        The folder.
    precision : str, optional
        The precision that training will go on with; None is not compared.
    strict : bool
        Raise a `SavedModelError` for a difference instead.
    """
    manifest, files = read_folder(folder, KIND)
    saved = manifest.get("runtime")
    if not isinstance(saved, dict):
        raise CorruptFileError(f"{str(folder)!r} does not say how it was trained. Restore it, or start again.")
    now = runtime_facts(saved.get("precision") if precision is None else precision)
    differences = [f"{name} was {saved.get(name)}, is {now.get(name)}" for name in now if saved.get(name) != now[name]]
    if differences:
        message = (
            f"{str(folder)!r} was written under other circumstances ({'; '.join(differences)}): "
            "continuing from it may differ in the last bits from a run that was not interrupted."
        )
        if strict:
            raise SavedModelError(f"{message} Use the same ones, or pass strict=False.")
        warn(message, MismatchWarning)
    return unpack(files, Path(folder))


def runtime_facts(precision: str | None) -> dict[str, Any]:
    """Return all that the last bits of a training run depend on, apart from data and settings."""
    found, torch = versions(), sys.modules.get("torch")
    facts: dict[str, Any] = {name: found.get(name) for name in ("holdfast", "numpy", "scikit-learn", "torch")}
    capability = "" if torch is None else f" ({torch.backends.cpu.get_cpu_capability()})"
    facts["cpu"] = processor_name() + capability
    asked = os.environ.get("OMP_NUM_THREADS", "")
    alone = int(asked) if asked.isdigit() else os.cpu_count()
    facts["threads"] = alone if torch is None else torch.get_num_threads()
    facts["precision"] = precision
    return facts
