"""Figures of a story as inline SVG: colors come from the page's style sheet, so that they follow its theme."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from holdfast.reports.charts import WIDTH, draw_curves, draw_dots
from holdfast.reports.story import Curves, Dots, Figure, HeatMap, Shares
from holdfast.reports.svg import LETTER, N_COLORS, drawing, element, label, mark, shorten, text_width
from holdfast.reports.tables import MISSING

CELL_WIDTH, CELL_HEIGHT, GAP = 44.0, 26.0, 10.0
COLUMN_LETTERS = 26
STRONG = {"positive": 0.75, "share": 0.78, "negative": 0.7}  # from this strength on white is easier to read than black


def draw(figure: Figure, number: int) -> Markup:
    """Return a figure as an SVG element.

    Parameters
    ----------
    figure : HeatMap, Curves, Dots or Shares
    number : int
        Of the figure on its page; ids are made of it.
    """
    if isinstance(figure, HeatMap):
        return _heat_map(figure, number)
    if isinstance(figure, Curves):
        return draw_curves(figure, number)
    if isinstance(figure, Dots):
        return draw_dots(figure, number)
    return _shares(figure, number)


def _heat_map(figure: HeatMap, number: int) -> Markup:
    left = text_width(figure.rows) + 14
    widest = text_width(figure.columns, COLUMN_LETTERS)
    tilted = widest > CELL_WIDTH - 4
    top = 24 + (widest * 0.71 + 12 if tilted else 18)
    marks = [label(f"{figure.row_title} ↓  {figure.column_title} →", left, 13, class_="axis", longest=80)]
    for column, name in enumerate(figure.columns):
        x = left + (column + 0.5) * CELL_WIDTH
        turn: dict[str, Any] = (
            {"transform": f"rotate(-45 {x:.1f} {top - 7:.1f})"} if tilted else {"text_anchor": "middle"}
        )
        marks.append(label(name, x, top - 7, longest=COLUMN_LETTERS, **turn))
    y = top
    for row, name in enumerate(figure.rows):
        y += GAP if row in figure.breaks else 0
        marks.append(label(name, left - 8, y + CELL_HEIGHT / 2 + 4, text_anchor="end"))
        for column, value in enumerate(figure.values[row]):
            marks.append(_cell(figure, name, figure.columns[column], value, left + column * CELL_WIDTH, y))
        y += CELL_HEIGHT
    # Tilted names of the last columns reach beyond the cells.
    cells = left + len(figure.columns) * CELL_WIDTH + (0.71 * widest if tilted else 4)
    title = left + LETTER * (len(figure.row_title) + len(figure.column_title) + 6)
    return drawing(max(cells, title), y + 4, figure.title, figure.describe(), *marks, number=number)


def _cell(figure: HeatMap, row: str, column: str, value: float, x: float, y: float) -> Markup:
    """Return one cell: its color is as strong as its number is large."""
    known = not math.isnan(value)
    written = MISSING if not known else f"{value:+z.2f}" if figure.scale == "correlation" else f"{value:.2f}"
    strength = min(abs(value), 1.0) if known else 0.0
    side = "share" if figure.scale == "share" else "positive" if value >= 0 else "negative"
    box: dict[str, object] = {"x": x + 1, "y": y + 1, "width": CELL_WIDTH - 2, "height": CELL_HEIGHT - 2, "rx": 3}
    shapes = [element("rect", class_="cell", **box)]
    if strength:
        shapes.append(element("rect", class_=side, fill_opacity=f"{strength:.2f}", **box))
    shade = "strong" if strength > STRONG[side] else "weak"
    place: dict[str, object] = {"x": x + CELL_WIDTH / 2, "y": y + CELL_HEIGHT / 2 + 4, "text_anchor": "middle"}
    number = element("text", written, class_=shade, **place)
    return mark(f"{shorten(row, 60)} · {shorten(column, 60)}: {written}", *shapes, number)


def _shares(figure: Shares, number: int) -> Markup:
    left, right = text_width(figure.wholes, 26) + 14, WIDTH - 100
    marks: list[Markup] = []
    for row, (whole, size) in enumerate(zip(figure.wholes, figure.sizes, strict=True)):
        y, x = 8.0 + 28 * row, left
        marks.append(label(whole, left - 8, y + 15, text_anchor="end", longest=26))
        for part, share in enumerate(figure.shares[row]):
            width = share * (right - left)
            bar = element("rect", class_=f"bar c{part % N_COLORS}", x=x, y=y, width=max(width - 1, 0.0), height=22)
            inside = element("text", f"{share:.0%}", x=x + width / 2, y=y + 15, text_anchor="middle", class_="on-bar")
            text = f"{shorten(whole, 60)} · {shorten(figure.parts[part], 60)}: {share:.1%}"
            marks.append(mark(text, bar, *([inside] if width > 34 else [])))
            x += width
        marks.append(element("text", f"{size:,} rows", x=right + 8, y=y + 15))
    legend, bottom = _parts(figure, left, 8.0 + 28 * len(figure.wholes) + 16)
    return drawing(WIDTH, bottom + 10, figure.title, figure.describe(), *marks, *legend, number=number)


def _parts(figure: Shares, left: float, top: float) -> tuple[list[Markup], float]:
    """Return the names of the parts beside their colors, and where the last line stands."""
    marks, x, y = [], left, top
    for part, name in enumerate(figure.parts):
        width = LETTER * len(shorten(name, 26)) + 32
        if x + width > WIDTH and x > left:
            x, y = left, y + 20
        marks.append(element("rect", class_=f"bar c{part % N_COLORS}", x=x, y=y - 10, width=12, height=12))
        marks.append(label(name, x + 18, y, longest=26))
        x += width
    return marks, y
