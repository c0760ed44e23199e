"""Packages of the optional extras: imported where they are used, with an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from holdfast.exceptions import MissingExtraError


def require(module: str, *, extra: str, what: str) -> Any:
    """Import a package of an extra and return it; `what` needs it, in the plural, as the start of a sentence.

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
        raise MissingExtraError(
            f"{what} need {problem.name or module}, which is not installed. Run: pip install 'holdfast[{extra}]'",
            name=problem.name or module,
        ) from problem
