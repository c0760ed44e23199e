"""`holdfast data`: download a data set's files, or say which files to put where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import JsonOption, option
from holdfast.cli.terminal import command_line, print_table, say, showing_line
from holdfast.cli.terminal import show as print_result
from holdfast.exceptions import PluginError

_MEGABYTE = 1_000_000
_STEP = 25 * _MEGABYTE  # between the lines about a file of unknown size


def data(
    name: Annotated[
        str | None, typer.Argument(help="A data set, or 'vectors'. Without a name all are listed.", metavar="[NAME]")
    ] = None,
    folder: Annotated[Path | None, option("--folder", "Where the files go (default: $HOLDFAST_DATA).", "DIR")] = None,
    show: Annotated[bool, option("--show", "Only say which files are needed; download nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Download a data set, or list the files that it needs."""
    from holdfast.datasets import DATASETS, data_instructions, download

    if name is None:
        rows = [_row(key) for key in sorted(DATASETS)]
        listed = [{"name": row[0], "download": bool(row[1]), "summary": row[2]} for row in rows]
        first = next((row[0] for row in rows if row[1]), rows[0][0])
        answer = f"There are {len(rows)} data sets; {sum(bool(row[1]) for row in rows)} of them can be downloaded."
        following = command_line("holdfast", "data", first)

        def table() -> None:
            print_table("", ["name", "public source", "what"], rows)

        print_result(answer, {"datasets": listed}, following=following, as_json=as_json, body=table)
        return
    entry = DATASETS.find(name)
    instructions = data_instructions(name, folder)
    place = ("--folder", folder) if folder is not None else ()
    if show or entry.downloader is None:
        found: dict[str, Any] = {"dataset": name, "files": [], "instructions": instructions}
        answer = f"{name} needs these files{', which can be downloaded' if entry.downloader else ''}."
        following = command_line("holdfast", "data", name, *place)
        if entry.downloader is None:
            following = command_line("holdfast", "data")
        print_result(answer, found, following=following, as_json=as_json, body=lambda: say(instructions))
        return
    with showing_bytes() as progress:
        files = [str(path) for path in download(name, folder, progress=progress)]
    found = {"dataset": name, "files": files, "instructions": instructions}
    answer = f"The {len(files)} files of {name} are there and verified." if files[1:] else f"{files[0]} is verified."
    following = command_line("holdfast", "data", name, *place, "--show")
    print_result(answer, found, following=following, as_json=as_json, body=lambda: say("\n".join(files)))


def _row(name: str) -> list[str]:
    """Return the line of a data set: its name, whether it can be downloaded, and what it is."""
    from holdfast.datasets import DATASETS

    try:
        entry = DATASETS[name]
    except PluginError:  # of another package
        return [name, "", "Cannot be imported: see 'holdfast doctor'."]
    return [name, "download" if entry.downloader else "", entry.summary]


@contextmanager
def showing_bytes() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show on stderr how far a download has come; where there is no terminal, for each quarter of a file."""
    shown: dict[str, int] = {}
    with showing_line("downloading …") as tell:

        def report(file: str, done: int, total: int | None) -> None:
            step = 4 * done // total if total else done // _STEP
            if sys.stderr.isatty() or shown.get(file) != step:
                shown[file] = step
                size = f" of {total / _MEGABYTE:.1f}" if total else ""
                tell(f"downloading {file}: {done / _MEGABYTE:.1f}{size} MB")

        yield report
