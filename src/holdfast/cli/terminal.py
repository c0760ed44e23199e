"""Output on the terminal: text tables, JSON, warnings, progress and error messages."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shlex
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast import __version__
from holdfast.exceptions import ClusterError, DivergedError, HoldfastError, StorageError, cut_middle

if TYPE_CHECKING:
    from holdfast.diagnosis.clinical import ClinicalReport
    from holdfast.diagnosis.regression import RegressionReport
    from holdfast.lab.execution import Progress

WIDEST = 100  # tables grow no further, however wide the terminal
EPOCHS_EVERY = 10.0  # seconds between lines about a network's epochs, where there is no terminal
MOST_COLUMNS = 6  # of the accuracy matrix that fit next to each other in 80 characters
MOST_ROWS = 12  # of a table; the rest is in --json
SHORTEST = 8  # names are cut no further, however narrow it is
_shown: list[str] = []  # warnings of this run, for the JSON results
_running: list[Any] = []  # the command of this run


# What a terminal obeys or hides: control characters (C0, DEL, C1), changes of text direction, lone surrogates
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def show(
    answer: str, result: Mapping[str, Any], *, following: str, as_json: bool, body: Callable[[], None] | None = None
) -> None:
    """Print what a command found: the answer in one sentence, its numbers, and a command to run next.

    With `as_json` all of it, the numbers as in `result`, is one JSON object; else `body` prints the numbers.
    """
    if as_json:
        print_json({"answer": answer, **result, "next": following})
        return
    print_text(answer)
    if body is not None:
        body()
    say("")
    say(f"Next: {following}")


def command_line(*parts: object) -> str:
    """Return a command that can be pasted into a shell.

    Examples
    --------
    >>> command_line("holdfast", "audit", "my table.csv", "--label", "y")
    "holdfast audit 'my table.csv' --label y"
    """
    return shlex.join(str(part) for part in parts)


def escape(text: str) -> str:
    r"""Return text in which nothing makes a terminal do something; names and values from data can hold anything.

    Examples
    --------
    >>> escape("red\x1b[31m")
    'red\\x1b[31m'
    """
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """Print a line of results to stdout."""
    print(escape(text))


def verdict_values(method: Any) -> dict[str, Any] | None:
    """Return the verdict of a fitted method for --json; None where the method gives none."""
    verdict = getattr(method, "verdict_", None)
    return None if verdict is None else dict(verdict.to_dict())


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object, NaN as null, with the warnings of the run."""
    print(json_line({**result, "warnings": list(_shown)}))


def json_line(result: Mapping[str, Any]) -> str:
    """Return one JSON object in one line, NaN as null."""
    text = json.dumps(_plain(result), ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # inside of strings, where JSON reads it back


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], *, digits: int = 3, n_keys: int = 0
) -> None:
    """Print a table under its title, text to the left and numbers to the right, no wider than the terminal.

    Where it is too wide, names are cut. With `n_keys` nothing is cut: columns that do not fit follow in parts, each of
    which begins with so many columns again; a file or pipe gets all in one.
    """
    say("")
    if title:
        print_text(title)
    header = [escape(name) for name in header]
    cells = [[escape(format_cell(value, digits)) for value in row] for row in rows]
    columns = list(zip(header, *cells, strict=True))
    is_number = [
        bool(rows) and all(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in rows)
        for place in range(len(header))
    ]
    widths = [max(map(len, column)) for column in columns] if n_keys else _fitting_widths(columns)
    for number, places in enumerate(_parts(widths, n_keys) if n_keys else [range(len(header))]):
        if number:
            say("")
        for row in [list(header), *cells]:
            fitting = [(cut_middle(row[i], widths[i]), widths[i], is_number[i]) for i in places]
            line = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in fitting]
            say("  " + "  ".join(line).rstrip())


def _parts(widths: Sequence[int], n_keys: int) -> list[list[int]]:
    """Return the columns of each part: the keys, and as many others as fit next to them."""
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


def print_stages(summary: dict[str, Any]) -> None:
    """Print a summary of the stages."""
    _print_environments(summary)
    if "partitions" in summary:
        _print_partitions(summary)
    if "groups" in summary:
        _print_groups(summary)


def _print_environments(summary: dict[str, Any]) -> None:
    environments = summary["environments"]
    classes = list(environments[0]["shares"])
    shown = classes[1:] if len(classes) == 2 else classes[:4]
    header = ["environment", "rows", *(f"share of {name}" for name in shown)]
    rows = [[e["name"], e["n_rows"], *(e["shares"][name] for name in shown)] for e in environments]
    print_table("Environments", header, rows[:MOST_ROWS])
    print_rest(rows)
    if summary["unlike_prevalence"]:
        names = ", ".join(summary["unlike_prevalence"][:5])
        print_text(f"The class frequencies of {names} differ much from those elsewhere.", indent="  ")


def _print_partitions(summary: dict[str, Any]) -> None:
    names = list(summary["accuracies"])
    if 1 < len(names) <= MOST_COLUMNS:
        rows = [[judge, *summary["accuracies"][judge].values()] for judge in names]
        title = "Stage 1: accuracy of each judge (row) in each environment (own rows out of fold)"
        print_table(title, ["judge", *names], rows)
    partitions = sorted(summary["partitions"], key=lambda p: p["accuracy"])
    rows = [[p["judge"], p["judged"], p["accuracy"], p["n_correct"], p["n_mistaken"]] for p in partitions]
    if rows:
        header = ["judge", "judged", "accuracy", "correct", "mistaken"]
        kind = "soft partitions (expected rows)" if partitions[0]["soft"] else "partitions"
        print_table(f"Stage 2: {kind}, lowest accuracy first", header, rows[:MOST_ROWS])
        print_rest(rows)


def _print_groups(summary: dict[str, Any]) -> None:
    groups = sorted(summary["groups"], key=lambda g: -g["risk"])
    rows = [[g["name"], g["n_rows"], g["risk"], g["weight"]] for g in groups]
    title = f"Stage 3 ({summary['solver']}): worst-case risk {summary['worst_case_risk']:.4f}"
    if not math.isnan(summary["gap"]):  # NaN: no certificate
        title += f", at most {summary['gap']:.1g} above the optimum"
    print_table(title, ["group", "rows", "risk", "weight"], rows[:MOST_ROWS])
    print_rest(rows)


def print_clinical(report: ClinicalReport, title: str) -> None:
    """Print calibration and net benefit of every site, and what is pooled, with its range at the next site."""
    from holdfast.diagnosis.words import MEASURE_NAMES

    print_table(
        f"{title} (event: {report.event})",
        ["site", "events", "slope", "intercept", "O:E", "Brier", "net benefit", "treat all"],
        [
            [s.name, s.n_events, s.slope.value, s.intercept.value, s.oe.value, s.brier.value]
            + [s.net_benefit.value, s.treat_all]
            for s in report.sites[:MOST_ROWS]
        ],
    )
    print_rest(report.sites)
    print_text(f"net benefit at a risk of {report.threshold:.2f}; treating nobody has 0", indent="  ")
    print_table(
        f"If rows with a risk of {report.threshold:.2f} or more are treated",
        ["site", "sensitivity", "specificity", "PPV", "NPV"],
        [
            [s.name, s.sensitivity.value, s.specificity.value, s.ppv.value, s.npv.value]
            for s in report.sites[:MOST_ROWS]
        ],
    )
    if report.pooled:
        print_table(
            "Pooled over sites (random effects, 95 % intervals)",
            ["measure", "mean", "at the next site", "tau²", "I²"],
            [
                [
                    MEASURE_NAMES[p.measure],
                    f"{p.mean.value:.2f} [{p.mean.low:.2f}, {p.mean.high:.2f}]",
                    f"{p.next_site.low:.2f} to {p.next_site.high:.2f}",
                    p.tau2,
                    f"{p.i2:.0%}",
                ]
                for p in report.pooled
                if p.measure in MEASURE_NAMES  # the others are in --json and on the page
            ],
        )


def print_regression(report: RegressionReport, title: str) -> None:
    """Print how good predictions of an amount are at every site, and what is pooled."""

    def cells(*values: Any) -> list[str]:
        return ["–" if math.isnan(v.value) else f"{v.value:.3g} [{v.low:.3g}, {v.high:.3g}]" for v in values]

    rows = [[s.name, s.n_rows, *cells(s.r2, s.rmse, s.bias)] for s in report.sites[:MOST_ROWS]]
    print_table(title, ["site", "rows", "R²", "RMSE", "mean error"], rows)
    print_rest(report.sites)
    names = {"r2": "R²", "rmse": "RMSE", "bias": "mean error"}
    print_table(
        "Pooled over sites (random effects, 95 % intervals)",
        ["measure", "mean", "at the next site", "I²"],
        [
            [names[p.measure], *cells(p.mean), f"{p.next_site.low:.3g} to {p.next_site.high:.3g}", f"{p.i2:.0%}"]
            for p in report.pooled
        ],
    )


def print_rest(rows: Sequence[Any]) -> None:
    """Say how many rows of a table were not printed."""
    if len(rows) > MOST_ROWS:
        say(f"  … and {len(rows) - MOST_ROWS:,} more; --json has them all")


def print_text(text: str, *, indent: str = "") -> None:
    """Print a paragraph, wrapped to the terminal."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    say(textwrap.fill(escape(text), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False))


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


def note(text: str) -> None:
    """Print a remark to stderr, with the options of the command in place of Python parameters."""
    print(escape(in_options(text)), file=sys.stderr)


_OPTIONS = {"random_state": "--seed", "n_jobs": "--jobs", "environments": "--environment", "checkpoints": "--out"}


def in_options(text: str) -> str:
    """Return a message of the library with options to type in place of parameters, where the command has them.

    The library writes `name=value` for a parameter that the user may pass, and `name=` for the parameter alone.
    """
    known = {parameter.name: parameter.opts[0] for command in _running for parameter in command.params}

    def option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"] or ""
        typed = known.get(name) or (_OPTIONS.get(name) if _OPTIONS.get(name) in known.values() else None)
        if typed is None or not typed.startswith("--"):
            return match[0]
        value = value.strip("'\"")
        if value == "True":
            return typed
        if value.startswith("frame["):  # a column of a frame
            value = "COL"
        return f"{typed} {shlex.quote(value)}" if value else typed

    return re.sub(r"\b(?P<name>[a-z_]+)=(?P<value>frame\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[\w.]*\w)?", option, text)


@contextmanager
def showing_warnings() -> Iterator[None]:
    """Print each different warning once, as one line on stderr, and keep it for the JSON results."""
    _shown.clear()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = in_options(" ".join(str(message).split()))
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
def showing_line(first: str) -> Iterator[Callable[[str], None]]:
    """Give a function that says on stderr what goes on: in one line on a terminal, elsewhere in a line each."""
    if not sys.stderr.isatty():
        yield note
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(escape(first))) as status:
        yield lambda text: status.update(Text(escape(text)))


@contextmanager
def showing_stages(what: str) -> Iterator[None]:
    """Show on stderr what the library logs while it works."""
    begin = time.monotonic()
    with showing_line(f"{what} …") as tell:

        def update(message: str) -> None:
            tell(f"{what}, {format_seconds(time.monotonic() - begin)} … {message}")

        with _listening(_Latest(update) if sys.stderr.isatty() else _Lines()):
            yield


@contextmanager
def counting(what: str, total: int = 1) -> Iterator[Callable[..., None]]:
    """Show how far the work has come; the block calls the given function at the start of each step.

    It may also say how many steps are done, and of how many. Where there is no terminal, a step whose name is new gets
    a line, and long work is heard of every ten seconds.
    """
    n_begun, n_all, latest = 0, total, ""
    begin = last = time.monotonic()
    with showing_line(f"{what} …") as tell:

        def update(more: str, *, now: bool) -> None:
            nonlocal last
            clock = time.monotonic()
            if now or sys.stderr.isatty() or clock - last >= EPOCHS_EVERY:
                last = clock
                tell(f"{what} {n_begun} of {n_all}{_about_left(clock - begin, n_begun, n_all)}: {more}")

        def begin_step(step: str, n_done: int | None = None, n_steps: int = total) -> None:
            nonlocal n_begun, n_all, latest
            n_begun = n_begun + 1 if n_done is None else n_done + 1
            is_new, latest, n_all = step != latest, step, n_steps
            update(step, now=is_new)

        with _listening(_Latest(lambda epoch: update(f"{latest}; {epoch}", now=False), epochs_only=True)):
            yield begin_step


@contextmanager
def showing_progress() -> Iterator[Callable[[Progress], None]]:
    """Show how far a sweep has come, as soon as there is something new."""
    shown = set()
    with showing_line("sweep …") as tell:

        def report(progress: Progress) -> None:
            news = (progress.last, progress.n_done, progress.n_failed)
            if sys.stderr.isatty() or news not in shown:  # a sweep that waits for another one looks every second
                shown.add(news)
                tell(progress_line(progress))

        yield report


def progress_line(progress: Progress) -> str:
    """Return counts, times and what happened last, in one line."""
    counts = f"done {progress.n_done} of {progress.n_runs}, running {progress.n_running}, left {progress.n_left}"
    failed = f", failed {progress.n_failed}" if progress.n_failed else ""
    times = f"{format_seconds(progress.elapsed)} gone, about {format_seconds(progress.remaining)} to go"
    return f"{counts}{failed}; {times}; {progress.last}"


def format_seconds(seconds: float) -> str:
    """Return a duration as people say it.

    Examples
    --------
    >>> [format_seconds(value) for value in (5, 150, 7320)]
    ['5 s', '2 min 30 s', '2 h 2 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _about_left(seconds: float, number: int, total: int) -> str:
    """Return how long it will take after so many seconds, in which one step less than `number` was done."""
    left = seconds / (number - 1) * (total - number + 1) if number > 1 else 0
    return f" (about {format_seconds(left)} left)" if left >= 1 else ""


class _Stages(logging.Handler):
    """Reads what the library logs: which of a stage's fits has begun, and a network's epochs."""

    fit, begin = "", 0.0

    def read(self, record: logging.LogRecord) -> str:
        """Return what to show: of an epoch, which fit of how many it belongs to, and how far it is."""
        if hasattr(record, "epoch"):
            return self.fit + record.getMessage().partition(", risk")[0]
        if hasattr(record, "fit"):
            (number, total), now = record.fit, time.monotonic()
            self.begin = now if number == 1 else self.begin
            about = _about_left(now - self.begin, number, total)
            self.fit = f"fit {number} of {total}{about}; " if total > 1 else ""
        return record.getMessage()


class _Lines(_Stages):
    """Prints each record of the stages as a line, and every ten seconds an epoch of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.last = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        text, now = self.read(record), time.monotonic()
        if record.levelno >= logging.INFO or (hasattr(record, "epoch") and now - self.last >= EPOCHS_EVERY):
            self.last = now
            note(text)


class _Latest(_Stages):
    """Passes on the latest record, or only the epochs of networks."""

    def __init__(self, update: Callable[[str], None], *, epochs_only: bool = False) -> None:
        super().__init__()
        self.update, self.epochs_only = update, epochs_only

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "epoch") or not self.epochs_only:
            self.update(self.read(record))


@contextmanager
def _listening(handler: logging.Handler) -> Iterator[None]:
    """Attach a handler to the package's logger for a while."""
    logger = logging.getLogger("holdfast")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


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
CAUTION_INSTEAD = "Use --caution: relations that change stay (0), vanish (0.5) or reverse (1) at a new environment"
RETIRED = {("fit", option): f"There is no {option} anymore. {CAUTION_INSTEAD}" for option in ("--strength", "--expect")}


class Shell(TyperGroup):
    """Commands that turn every exception into one line on stderr and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Note which command runs, so that messages can name its options."""
        found = super().resolve_command(ctx, args)
        _running[:] = [found[1]]
        return found

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and leave with its exit code."""
        extra["standalone_mode"] = False
        try:
            with showing_warnings():
                code = super().main(*args, **extra)
            if code == INTERRUPTED:  # typer has turned the exception into the code
                _say("interrupted", code)
        except (Exception, KeyboardInterrupt) as problem:
            code = _explain(problem)
        finally:
            _running.clear()
        sys.exit(code if isinstance(code, int) else 0)


def _explain(problem: BaseException) -> int:
    """Print one line about what ended a command, and return the exit code; the traceback with HOLDFAST_DEBUG set."""
    if isinstance(problem, KeyboardInterrupt | typer.Abort):
        return _say("interrupted", INTERRUPTED)
    if not isinstance(problem, HoldfastError) and hasattr(problem, "format_message"):  # an unknown option, for example
        command = getattr(getattr(problem, "ctx", None), "info_name", None)
        asked = str(command), str(getattr(problem, "option_name", None))
        said = _one_line(problem.format_message()).replace("Input should be", "it must be")
        text = RETIRED.get(asked, said.partition(", unable to parse")[0])
        stop = "" if text.endswith((".", "?")) else "."
        return _say(f"error: {text}{stop} {_help(problem)}".rstrip(), BAD_INPUT)
    if os.environ.get("HOLDFAST_DEBUG"):
        raise problem
    text, code = _one_line(str(problem)), RUN_FAILED
    if isinstance(problem, HoldfastError):
        code = RUN_FAILED if isinstance(problem, ClusterError | DivergedError | StorageError) else BAD_INPUT
    elif isinstance(problem, MemoryError):
        reason = f" ({text})" if text else ""
        text = f"There is not enough memory{reason}. Leave columns out, or take a sample of the rows."
    elif isinstance(problem, OSError) and problem.strerror:  # a disk that is gone, a folder that is read-only
        place = f"{problem.filename}: " if problem.filename else ""
        text = f"{place}{problem.strerror}. Check the path and whether it may be written."
    else:
        text = f"{type(problem).__name__}: {text}"
    return _say(f"error: {text}", code)


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Find out whether a classifier will still work at the next site, why not, and what to do.

    You need a table with a label and a site (hospital, camera, year) for each row. Start with 'holdfast diagnose'.
    'holdfast fit' trains a classifier that relies less on columns whose effect differs between sites.
    """
    if version:
        say(f"holdfast {__version__}")
    elif context.invoked_subcommand is None:
        say(context.get_help())


def _say(text: str, code: int) -> int:
    note(text)
    return code


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _help(problem: Any) -> str:
    """Return where the command's options are explained."""
    context = getattr(problem, "ctx", None)
    return f"See '{context.command_path} --help'." if context is not None else ""
