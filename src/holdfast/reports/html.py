"""A story as one HTML file: styles, script and figures are inside, nothing is loaded, what users wrote is text."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import replace
from importlib import resources
from itertools import count
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from holdfast import __version__
from holdfast.exceptions import InputError
from holdfast.reports.drawing import draw
from holdfast.reports.figure_tables import crop_figure, figure_table
from holdfast.reports.story import Figure, Story
from holdfast.reports.svg import shorten
from holdfast.reports.tables import Cell, Table, clean_text, format_cell, sort_value
from holdfast.storage import storage_errors, write_bytes

MAX_BYTES = 2_000_000  # small enough to mail
MOST_ROWS, MOST_COLUMNS = 400, 40  # of a table on the page
LONGEST = 400  # letters of one string


def write_report(story: Story, path: str | os.PathLike[str]) -> Path:
    """Write a story as one HTML file that opens offline.

    Parameters
    ----------
    story : Story
        From `holdfast.reports.tell_story`, or put together by hand.
    path : path
        The file; an older one is replaced in one step. Missing folders are made.

    Returns
    -------
    pathlib.Path
        The file.
    """
    path = Path(path)
    data = render_report(story).encode("utf-8")
    if len(data) > MAX_BYTES:
        raise InputError(
            f"The report would have {len(data):,} bytes, more than the {MAX_BYTES:,} that can be mailed. "
            "Leave out sections or rows of tables."
        )
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data)
    return path


def render_report(story: Story) -> str:
    """Return the page as text."""
    style, script = _asset("report.css"), _asset("report.js")
    numbers = count(1)

    def draw_next(figure: Figure) -> Markup:
        return draw(crop_figure(figure), next(numbers))

    page = _environment().from_string(_asset("report.html.j2"))
    return page.render(
        story=story,
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        policy=Markup(_policy(style, script)),
        draw=draw_next,
        figure_table=figure_table,
        fit_table=_fit_table,
        inline=inline_markup,
        cell_text=_cell_text,
        data_value=_data_value,
    )


def inline_markup(text: str) -> Markup:
    """Return a sentence with `code` and *emphasis* set as such, everything in it escaped.

    Examples
    --------
    >>> print(inline_markup("`<b>` predicts *ill*"))
    <code>&lt;b&gt;</code> predicts <em>ill</em>
    """
    parts = shorten(text, 4 * LONGEST).split("`")
    if len(parts) % 2 == 0:  # one backtick is alone: it is a letter
        return escape("`".join(parts))
    pieces = []
    for number, part in enumerate(parts):
        safe = str(escape(part))
        pieces.append(f"<code>{safe}</code>" if number % 2 else re.sub(r"\*([^*]+)\*", r"<em>\1</em>", safe))
    return Markup("".join(pieces))


def _environment() -> Environment:
    """Return jinja with escaping, which also drops control characters from every string."""
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: shorten(value, LONGEST) if type(value) is str else value,
    )


def _asset(name: str) -> str:
    return resources.files("holdfast.reports").joinpath("page", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return the rule that browsers enforce: this style, this script, and nothing from anywhere."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in (style, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _fit_table(table: Table) -> Table:
    """Return as much of a table as a page can carry, saying what is left out."""
    rows, columns = len(table.rows), len(table.columns)
    if rows <= MOST_ROWS and columns <= MOST_COLUMNS:
        return table
    left_out = f"The first {min(rows, MOST_ROWS):,} of {rows:,} rows"
    if columns > MOST_COLUMNS:
        left_out += f" and {MOST_COLUMNS} of {columns:,} columns"
    return replace(
        table,
        columns=table.columns[:MOST_COLUMNS],
        rows=tuple(row[:MOST_COLUMNS] for row in table.rows[:MOST_ROWS]),
        note=f"{table.note} {left_out} are shown.".strip(),
    )


def _data_value(cell: Cell) -> str | None:
    """Return a number as the page's script sorts and saves it; None for text and for what is unknown."""
    value = sort_value(cell)
    if value is None or isinstance(value, str):
        return None
    return repr(value).replace("inf", "Infinity")


def _cell_text(cell: Cell, digits: int) -> str:
    return clean_text(format_cell(cell, digits))
