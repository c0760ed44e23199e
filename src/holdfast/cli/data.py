"""`holdfast data`: get a data set's files, or say which ones to put where."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import JsonOption
from holdfast.cli.output import counting, note, print_json, print_table


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
    from holdfast.datasets import DATASETS, FILES, data_instructions, download, find_entry

    entries = {**DATASETS, **FILES}
    if name is None:
        rows = [[key, "download" if entry.downloader else "", entry.summary] for key, entry in sorted(entries.items())]
        if as_json:
            print_json({"datasets": [{"name": row[0], "download": bool(row[1]), "summary": row[2]} for row in rows]})
        else:
            print_table("Data sets", ["name", "public source", "what"], rows)
        return
    entry = find_entry(name, entries)
    instructions = data_instructions(name, folder)
    if show or entry.downloader is None:
        if as_json:
            print_json({"dataset": name, "files": [], "instructions": instructions})
        else:
            print(instructions)
        return
    with counting("downloading", 1) as step:
        step(name)
        files = download(name, folder)
    if as_json:
        print_json({"dataset": name, "files": [str(path) for path in files], "instructions": instructions})
        return
    for path in files:
        print(path)
    note(f"{len(files)} files are there and verified.")
