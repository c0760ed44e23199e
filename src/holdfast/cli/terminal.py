"""Text tables, JSON, warnings and progress: everything that reaches the terminal."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast import __version__
from holdfast.exceptions import DivergedError, HoldfastError, StorageError

WIDEST = 100  # tables grow no further, however wide the terminal
SHORTEST = 8  # names are cut no further, however narrow it is
_shown: list[str] = []  # warnings of this run, for the JSON results


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object, NaN as null, with the warnings of the run."""
    print(json.dumps(_plain({**result, "warnings": list(_shown)}), ensure_ascii=False))


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], *, digits: int = 3, n_keys: int = 0
) -> None:
    """Print a table under its title, text to the left and numbers to the right, no wider than the terminal.

    Where it is too wide, names are cut. With `n_keys` nothing is cut: columns that do not fit follow in parts, each of
    which begins with so many columns again; a file or pipe gets all in one.
    """
    print()
    if title:
        print_text(title)
    cells = [[format_cell(value, digits) for value in row] for row in rows]
    columns = list(zip(header, *cells, strict=True))
    is_number = [
        bool(rows) and all(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in rows)
        for place in range(len(header))
    ]
    widths = [max(map(len, column)) for column in columns] if n_keys else _fitting_widths(columns)
    for number, places in enumerate(_parts(widths, n_keys) if n_keys else [range(len(header))]):
        if number:
            print()
        for row in [list(header), *cells]:
            fitting = [(_cut(row[i], widths[i]), widths[i], is_number[i]) for i in places]
            line = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in fitting]
            print("  " + "  ".join(line).rstrip())


def _parts(widths: Sequence[int], n_keys: int) -> list[list[int]]:
    """Return the columns of each part: the keys, and as many others as fit beside them."""
    room = shutil.get_terminal_size((sys.maxsize, 24)).columns  # a file or pipe has room for everything
    keys = list(range(n_keys))
    parts, used = [keys], sum(2 + widths[i] for i in keys)
    start = used
    for place in range(n_keys, len(widths)):
        if used + 2 + widths[place] > room and parts[-1] != keys:
            parts.append(keys)
            used = start
        parts[-1] = [*parts[-1], place]
        used += 2 + widths[place]
    return parts


def _fitting_widths(columns: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns' widths; where they are too wide together, names and headers are cut, numbers never."""
    widths = [max(map(len, column)) for column in columns]
    excess = 2 * len(columns) + sum(widths) - min(shutil.get_terminal_size().columns, WIDEST)
    least = [
        max(SHORTEST, *map(len, cells)) if cells and all(cell[:1] in "-+–0123456789" for cell in cells) else SHORTEST
        for _, *cells in columns
    ]
    while excess > 0:
        wide = [i for i in range(len(columns)) if widths[i] > least[i]]
        if not wide:
            break
        widest = max(wide, key=lambda i: widths[i])
        widths[widest], excess = widths[widest] - 1, excess - 1
    return widths


def print_text(text: str, *, indent: str = "") -> None:
    """Print a paragraph, wrapped to the terminal."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    print(textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


def format_cell(value: Any, digits: int = 3) -> str:
    """Return a number with some decimals, a count with thousands separated, text as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:z.{digits}f}"
    return str(value)


def format_score(value: float, low: float, high: float) -> str:
    """Return a value with its interval.

    Examples
    --------
    >>> format_score(0.75, 0.5, 0.9)
    '0.750 [0.500, 0.900]'
    """
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def shown_warnings() -> list[str]:
    """Return the warnings of this run so far."""
    return list(_shown)


def note(text: str) -> None:
    """Print a remark to stderr."""
    print(text, file=sys.stderr)


@contextmanager
def showing_warnings() -> Iterator[None]:
    """Print each different warning once, as one line on stderr, and keep it for the JSON results."""
    _shown.clear()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in _shown:
            _shown.append(text)
            note(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield


@contextmanager
def showing_stages(what: str) -> Iterator[None]:
    """Show on stderr what the library logs while it works: a status line on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        with _listening(_Lines()):
            yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …") as status, _listening(_Status(status, what)):
        yield


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show how far a known number of steps has come; the block calls the given function at the start of each."""
    if not sys.stderr.isatty():
        n_started = 0

        def line(step: str) -> None:
            nonlocal n_started
            n_started += 1
            note(f"{what} {n_started} of {total}: {step}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=-1)
        yield lambda step: bar.update(task, description=step, advance=1)


class _Lines(logging.Handler):
    """Prints each record as a line."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


class _Status(logging.Handler):
    """Shows the latest record behind the spinner."""

    def __init__(self, status: Any, what: str) -> None:
        super().__init__()
        self.status, self.what = status, what

    def emit(self, record: logging.LogRecord) -> None:
        self.status.update(f"{self.what} … {record.getMessage()}")


@contextmanager
def _listening(handler: logging.Handler) -> Iterator[None]:
    """Attach a handler to the package's logger for a while."""
    logger = logging.getLogger("holdfast")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _plain(value: Any) -> Any:
    """Return the value in JSON's types, NaN and infinity as None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


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
