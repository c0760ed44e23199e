"""Versions of Python and libraries, and the name of the processor."""

from __future__ import annotations

import platform
from functools import cache

from holdfast import __version__

# What numbers and saved files depend on
LIBRARIES: tuple[str, ...] = ("numpy", "scipy", "scikit-learn", "pandas", "torch", "safetensors")
LIBRARIES += ("xgboost", "xgboost-cpu", "lightgbm", "catboost")


@cache
def installed_version(distribution: str) -> str | None:
    """Return the version of an installed package, None where there is none."""
    from importlib import metadata  # slow to import, and most commands need no versions

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def declared_requirements() -> list[str] | None:
    """Return what the installed holdfast declares to need; None for a copy of the code that was never installed."""
    from importlib import metadata

    try:
        return metadata.requires("holdfast") or []
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Return the version of Python, of holdfast and of the libraries that are installed, and the kind of machine."""
    found = {name: installed_version(name) for name in LIBRARIES}
    installed = {name: number for name, number in found.items() if number is not None}
    kind = f"{platform.system()} {platform.machine()}"
    return {"python": platform.python_version(), "holdfast": __version__, **installed, "machine": kind}


def processor_name() -> str:
    """Return what the processor calls itself."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
