"""What `holdfast doctor` finds out about the machine; nothing here fails on a strange one."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any


def processor_facts() -> dict[str, Any]:
    """Return name, cores, threads, and what networks compute in; None where it cannot be known."""
    facts: dict[str, Any] = {
        "name": _processor_name(),
        "cores": _usable_cores(),
        "threads": None,
        "device": None,
        "capability": None,
        "precision": None,
    }
    try:
        import torch

        from holdfast.training.settings import resolve_device, resolve_precision

        device = resolve_device("auto")
        facts["threads"] = torch.get_num_threads()
        facts["device"] = device.type
        facts["capability"] = torch.backends.cpu.get_cpu_capability()
        facts["precision"] = resolve_precision("auto", device)
    except Exception as problem:  # torch is named as broken in the list of packages
        facts["problem"] = f"{type(problem).__name__}: {problem}"
    return facts


def cache_facts() -> dict[str, Any]:
    """Return where data sets go, whether that can be written, and how much space is left there and here."""
    facts: dict[str, Any] = {"folder": None, "variable": None, "writable": None, "free_bytes": None}
    facts["free_bytes_here"] = _free_bytes(Path.cwd())
    try:
        from holdfast.datasets.folders import DATA_VARIABLE, data_folder
    except ImportError:  # a package that is missing is named in the list of packages
        return facts
    folder = data_folder()
    nearest = _existing(folder)
    writable, free = _can_write(nearest), _free_bytes(nearest)
    return facts | {"folder": folder, "variable": DATA_VARIABLE, "writable": writable, "free_bytes": free}


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above that exists; the rest would be made in it."""
    return next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))


def _can_write(folder: Path) -> bool:
    """Return whether a file can be made there; asking for permissions would not notice a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _usable_cores() -> int | None:
    """Return the cores that this process may use, which a container or a batch system can limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()
