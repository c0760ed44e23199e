"""Packages of the optional extras: imported where they are used, with an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from holdfast.exceptions import MissingExtraError


def require(module: str, *, extra: str | None, what: str) -> Any:
    """Import an optional package and return it; `what` needs it, in the plural, as the start of a sentence.

    `extra` is the one that installs it, None for a package that is installed by its own name.

    Examples
    --------
    >>> require("json", extra="neural", what="Networks").dumps([1])
    '[1]'
    >>> require("no_such_package", extra="neural", what="Networks")
    Traceback (most recent call last):
    holdfast.exceptions.MissingExtraError: Networks need no_such_package, which is not installed. Run: pip install ...
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        name = problem.name or module
        install = f"'holdfast[{extra}]'" if extra else name
        raise MissingExtraError(
            f"{what} need {name}, which is not installed. Run: pip install {install}", name=name
        ) from problem
