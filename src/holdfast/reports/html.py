"""Write a page as one HTML file that loads nothing and escapes all text of users."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from dataclasses import dataclass, replace
from importlib import resources
from itertools import count
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from holdfast import __version__
from holdfast.exceptions import InputError
from holdfast.metrics import Interval
from holdfast.reports.marks import NARROW, shorten
from holdfast.reports.svg import draw
from holdfast.reports.values import (
    Cell,
    Figure,
    Page,
    Table,
    clean_text,
    crop_figure,
    figure_table,
    format_cell,
    sort_value,
)
from holdfast.saving.files import storage_errors, write_bytes

MAX_BYTES = 2_000_000  # small enough to mail
MOST_COLUMNS = 40  # of a table on the page


@dataclass(frozen=True)
class Limits:
    """How much of its content a page shows; one that is too large is written again with tighter limits."""

    rows: int = 400  # of a table
    letters: int = 400  # of a string
    figures: float = 1.0  # share of what figures may show


def write_report(content: Page, path: str | os.PathLike[str]) -> Path:
    """Write a page as one HTML file that opens offline.

    Parameters
    ----------
    content : Page
        From `holdfast.reports.estimator_page`, or put together by hand.
    path : path
        The file; an older one is replaced in one step. Missing folders are made.

    Returns
    -------
    pathlib.Path
        The file.
    """
    path = Path(path)
    for limits in (Limits(), Limits(100, 100, 0.6), Limits(25, 60, 0.3)):
        data = render_report(content, limits).encode("utf-8")
        if len(data) <= MAX_BYTES:
            break
    else:
        raise InputError(
            f"The report would have {len(data):,} bytes, more than the {MAX_BYTES:,} that can be mailed. "
            "Leave out sections or rows of tables."
        )
    with storage_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, data)
    return path


def render_report(content: Page, limits: Limits | None = None) -> str:
    """Return the page as text."""
    limits = limits or Limits()
    style, script = _asset("report.css") + _asset("figure.css"), _asset("report.js")
    numbers = count(1)
    page = _environment(limits.letters).from_string(_asset("report.html.j2"))
    return page.render(
        content=content,
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        policy=Markup(_policy(style, script)),
        draw=lambda figure: _draw_both(figure, next(numbers)),
        kind=lambda block: type(block).__name__,
        crop=lambda figure: crop_figure(figure, limits.figures),
        figure_table=figure_table,
        fit_table=lambda table: _fit_table(table, limits.rows),
        inline=lambda text: inline_markup(text, 4 * limits.letters),
        advice=lambda text: inline_markup(re.sub(r"^([A-Z][a-z ]+:)(?= )", r"*\1*", text), 4 * limits.letters),
        cell_text=_cell_text,
        share_text=_share_text,
        data_value=_data_value,
    )


def inline_markup(text: str, longest: int = 1600) -> Markup:
    """Return a sentence with `code` and *emphasis* set as such, everything in it escaped.

    Examples
    --------
    >>> print(inline_markup("`<b>` predicts *ill*"))
    <code>&lt;b&gt;</code> predicts <em>ill</em>
    """
    parts = shorten(text, longest).split("`")
    if len(parts) % 2 == 0:  # one backtick is alone: it is a letter
        return escape("`".join(parts))
    codes = []
    for part in parts[1::2]:  # words of a command are not cut at their hyphens
        words = [f"<span>{word}</span>" if "-" in word else word for word in str(escape(part)).split(" ")]
        codes.append(f"<code>{' '.join(words)}</code>")
    # Emphasis may reach over code, whose stars are letters: a backtick stands for each code until the stars are gone.
    texts = re.sub(r"\*([^*]+)\*", r"<em>\1</em>", "`".join(str(escape(part)) for part in parts[::2])).split("`")
    return Markup("".join(piece for pair in zip(texts, [*codes, ""], strict=True) for piece in pair))


def _draw_both(figure: Figure, number: int) -> Markup:
    """Return a figure drawn wide and narrow; the style sheet shows the one that fits."""
    return draw(figure, number) + draw(figure, number, NARROW)


def _environment(longest: int) -> Environment:
    """Return jinja with escaping, which also cuts every string and drops its control characters."""
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: shorten(value, longest) if type(value) is str else value,
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


def _fit_table(table: Table, most_rows: int) -> Table:
    """Return as much of a table as a page can carry, saying what is left out."""
    rows, columns = len(table.rows), len(table.columns)
    if rows <= most_rows and columns <= MOST_COLUMNS:
        return table
    left_out = f"The first {min(rows, most_rows):,} of {rows:,} rows"
    if columns > MOST_COLUMNS:
        left_out += f" and {MOST_COLUMNS} of {columns:,} columns"
    return replace(
        table,
        columns=table.columns[:MOST_COLUMNS],
        rows=tuple(row[:MOST_COLUMNS] for row in table.rows[:most_rows]),
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


def _share_text(cell: Cell) -> Markup:
    """Return an accuracy as a percentage, its interval smaller; other cells as they are."""
    value = cell.value if isinstance(cell, Interval) else cell
    if not isinstance(value, float) or math.isnan(value):
        return escape(_cell_text(cell, 3))
    if not isinstance(cell, Interval) or math.isnan(cell.low):
        return escape(f"{value:.1%}")
    return Markup("{:.1%}<small>[{:.1f}, {:.1f}]</small>").format(value, 100 * cell.low, 100 * cell.high)
