"""`holdfast data`: get a data set's files, or say which ones to put where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import JsonOption
from holdfast.cli.terminal import note, print_json, print_table
from holdfast.exceptions import PluginError

_MEGABYTE = 1_000_000
_STEP = 25 * _MEGABYTE  # between the lines about a file of unknown size


def data(
    name: Annotated[
        str | None, typer.Argument(help="A data set, or 'vectors'. None: list them.", metavar="[NAME]")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where the files go (default: $HOLDFAST_DATA).", metavar="DIR")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only say which files are needed; download nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Download a data set and verify it, or say which files to put where."""
    from holdfast.datasets import DATASETS, data_instructions, download

    if name is None:
        rows = [_row(key) for key in sorted(DATASETS)]
        if as_json:
            print_json({"datasets": [{"name": row[0], "download": bool(row[1]), "summary": row[2]} for row in rows]})
        else:
            print_table("Data sets", ["name", "public source", "what"], rows)
        return
    entry = DATASETS.find(name)
    instructions = data_instructions(name, folder)
    if show or entry.downloader is None:
        if as_json:
            print_json({"dataset": name, "files": [], "instructions": instructions})
        else:
            print(instructions)
        return
    with showing_bytes() as progress:
        files = download(name, folder, progress=progress)
    if as_json:
        print_json({"dataset": name, "files": [str(path) for path in files], "instructions": instructions})
        return
    for path in files:
        print(path)
    note(f"{len(files)} files are there and verified.")


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
    """Show on stderr how far a download has come: a bar on a terminal, elsewhere a line for each quarter of a file."""
    if not sys.stderr.isatty():
        told: dict[str, int] = {}

        def line(file: str, done: int, total: int | None) -> None:
            step = 4 * done // total if total else done // _STEP
            if told.get(file) != step:
                told[file] = step
                size = f" of {total / _MEGABYTE:.1f}" if total else ""
                note(f"downloading {file}: {done / _MEGABYTE:.1f}{size} MB")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def advance(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)

        yield advance
