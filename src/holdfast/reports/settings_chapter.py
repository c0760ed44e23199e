"""The last section: settings, seeds, versions and warnings, so that the numbers can be had again."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from holdfast import __version__
from holdfast.reports.story import Block, Section, Sentences
from holdfast.reports.tables import Table

LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch", "pandas")


def settings_section(
    fitted: Any, settings: Mapping[str, Any], seeds: Sequence[int], warnings: Sequence[str] | None
) -> Section:
    """Tell how the numbers came about."""
    rows = {"method": type(fitted).__name__, **_parameters(fitted)}
    for name in ("solver_", "rounds_"):
        if hasattr(fitted, name):
            rows[f"{name} (chosen)"] = getattr(fitted, name)
    rows |= dict(settings)
    if seeds:
        rows["seeds"] = ", ".join(map(str, seeds))
    blocks: list[Block] = [
        Table("Settings", ("setting", "value"), tuple((str(name), _written(value)) for name, value in rows.items())),
        Table("Versions", ("what", "version"), tuple(versions().items())),
    ]
    told = tuple(dict.fromkeys(str(text) for text in warnings or ()))
    if told:
        blocks.insert(0, Sentences(told, "warning"))
    intro = "Warnings, settings, seeds and versions." if told else "Settings, seeds and versions."
    if warnings is not None and not told:
        intro += " There were no warnings."
    return Section("How this was made", intro, tuple(blocks))


def versions() -> dict[str, str]:
    """Return the versions of Python, holdfast and the libraries that its numbers depend on."""
    found = {"Python": platform.python_version(), "holdfast": __version__}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "machine": f"{platform.system()} {platform.machine()}"}


def _parameters(fitted: Any) -> dict[str, Any]:
    """Return the constructor's parameters."""
    return dict(fitted.get_params(deep=False)) if hasattr(fitted, "get_params") else {}


def _written(value: Any) -> str:
    """Return a setting in one line."""
    text = str(value) if isinstance(value, str) else repr(value)
    return " ".join(text.split())[:300]
