"""How every command ends: exit codes, and one line for every error."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast import __version__
from holdfast.cli.output import showing_warnings
from holdfast.exceptions import DivergedError, HoldfastError, StorageError

RUN_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class Shell(TyperGroup):
    """Commands that turn every exception into one line on stderr and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and leave with its exit code."""
        extra["standalone_mode"] = False
        try:
            with showing_warnings():
                code = super().main(*args, **extra)
        except HoldfastError as problem:
            sys.exit(_fail(problem, RUN_FAILED if isinstance(problem, DivergedError | StorageError) else BAD_INPUT))
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(_say("interrupted", INTERRUPTED))
        except Exception as problem:
            if hasattr(problem, "format_message"):  # an unknown option, a missing argument
                text = _one_line(problem.format_message())
                stop = "" if text.endswith((".", "?")) else "."
                sys.exit(_say(f"error: {text}{stop} {_help(problem)}".rstrip(), BAD_INPUT))
            sys.exit(_fail(problem, RUN_FAILED, prefix=f"{type(problem).__name__}: "))
        if code == INTERRUPTED:  # typer has turned the exception into the code
            _say("interrupted", code)
        sys.exit(code if isinstance(code, int) else 0)


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Train classifiers that keep working when the environment changes.

    Say which environment (hospital, site, year, camera) each row came from, and
    only the correlations that hold in all of them are learned.
    """
    if version:
        print(f"holdfast {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def _fail(problem: Exception, code: int, *, prefix: str = "") -> int:
    """Print one line about a failure; the whole story with HOLDFAST_DEBUG set."""
    if os.environ.get("HOLDFAST_DEBUG"):
        raise problem
    return _say(f"error: {prefix}{_one_line(str(problem))}", code)


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _help(problem: Any) -> str:
    """Return where the command's options are explained."""
    context = getattr(problem, "ctx", None)
    return f"See '{context.command_path} --help'." if context is not None else ""
