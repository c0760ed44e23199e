"""Draw figures: dots and bars, shares, pictures, curves, panels, heat maps."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from holdfast.reports.marks import (
    LETTER,
    WIDE,
    Place,
    element,
    label,
    mark,
    nice_ticks,
    shorten,
    text_width,
    write_tick,
)
from holdfast.reports.values import (
    MISSING,
    Band,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Line,
    Panels,
    Picture,
    Pictures,
    Shares,
    clean_text,
    format_cell,
)

N_COLORS = 12  # series colors that the style sheet defines, c0 to c11
STEPS = ("iteration", "round", "epoch", "step")  # axes along which the last value is the result
FEW = 15  # points of a curve that are all shown
DASHES = ("", "6 3", "2 3", "8 3 2 3")
STRONG = {"positive": 0.75, "share": 0.78, "negative": 0.7}  # from this strength on white text is easier to read


# --- Rows with an axis below: dots, bars, forest plots, shares ---


@dataclass(frozen=True)
class _Row:
    """One row of a figure: a heading, or shapes with a name before and a number after them."""

    name: str
    written: str = ""
    shapes: Callable[[float, Place], Markup] | None = None  # of the row's height and of the axis; None: a heading


def _draw_rows(
    rows: Sequence[_Row], axis: tuple[float, float], width: float, top: float
) -> tuple[list[Markup], Place, float]:
    """Return the rows' marks, where values stand, and the height below the last row.

    A wide drawing has names at the left and numbers at the right; a narrow one has both above the shapes.
    """
    items = [row for row in rows if row.shapes is not None]
    is_wide = width >= WIDE
    longest = 34 if is_wide else 26
    room = text_width([row.written for row in items], 60)
    left = max(text_width([row.name for row in items], longest), 50.0) + 28 if is_wide else 20.0
    right = width - room - 26 if is_wide else width - 22

    def across(value: float) -> float:
        return left + (value - axis[0]) / (axis[1] - axis[0]) * (right - left)

    marks, y = [], top
    for row in rows:
        if row.shapes is None:
            marks.append(label(row.name, 4, y + 19, longest=100 if is_wide else 40, class_="name"))
            y += 28
        elif is_wide:
            marks.append(label(row.name, left - 14, y + 16, text_anchor="end", longest=longest))
            marks.append(row.shapes(y + 12, across))
            marks.append(element("text", row.written, x=right + 14, y=y + 16, class_="number"))
            y += 24
        else:
            fits = max(8, int((width - 20) / LETTER) - len(row.written))
            marks.append(label(row.name, 4, y + 14, longest=fits))
            marks.append(element("text", row.written, x=width - 4, y=y + 14, text_anchor="end", class_="number"))
            marks.append(row.shapes(y + 28, across))
            y += 44
    return marks, across, y


def _axis(ticks: Sequence[float], written: Sequence[str], across: Place, top: float, bottom: float) -> list[Markup]:
    """Return grid lines with their numbers below; numbers that would touch are left out."""
    marks, last = [], -math.inf
    for tick, text in zip(ticks, written, strict=True):
        x = across(tick)
        marks.append(element("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom))
        half = LETTER * len(text) / 2
        if x - half > last + 6:
            marks.append(element("text", text, x=x, y=bottom + 17, text_anchor="middle", class_="tick"))
            last = x + half
    return marks


def _dots(figure: Dots, width: float) -> tuple[list[Markup], float, float]:
    """Return a value with its interval for every place and series; bars and forest plots are drawn here too."""
    limits = [limit for dot in figure.dots for limit in (dot.low, dot.high, dot.value) if math.isfinite(limit)]
    limits += [0.0] if figure.bars else []
    limits += [] if figure.reference is None else [figure.reference]
    ticks = nice_ticks(min(limits, default=0.0), max(limits, default=1.0), 6 if width >= WIDE else 4)
    order = {name: number for number, name in enumerate(figure.series)}
    single = len(order) == 1  # the only series needs no name
    rows: list[_Row] = []
    for place in figure.places:
        if not single:
            rows.append(_Row(place))
        for dot in (dot for dot in figure.dots if dot.place == place):
            rows.append(
                _Row(
                    dot.place if single else dot.series,
                    figure.write(dot),
                    lambda y, across, dot=dot: _dot(figure, dot, order[dot.series], y, across),  # type: ignore[misc]
                )
            )
    titles = textwrap.wrap(clean_text(figure.value_title), 110 if width >= WIDE else 46)[:3] or [""]
    top = 7.0 + 17 * len(titles)
    marks, across, bottom = _draw_rows(rows, (ticks[0], ticks[-1]), width, top)
    written = [f"{100 * tick:.4g}%" if figure.percent else write_tick(tick, ticks) for tick in ticks]
    under = [label(title, 4, 13 + 17 * row, class_="axis", longest=110) for row, title in enumerate(titles)]
    under += _axis(ticks, written, across, top, bottom)
    if figure.reference is not None:
        x = across(figure.reference)
        under.append(element("line", class_="reference", x1=x, x2=x, y1=top, y2=bottom))
    return [*under, *marks], width, bottom + 26


def _dot(figure: Dots, dot: Dot, order: int, y: float, across: Place) -> Markup:
    """Return a value's shape over its interval; color and shape both stand for the series."""
    text = f"{shorten(dot.place, 60)} · {shorten(dot.series, 60)}: {figure.write(dot)}"
    shapes = []
    has_interval = math.isfinite(dot.low) and math.isfinite(dot.high)
    if figure.bars and math.isfinite(dot.value):
        start, end = sorted((across(0.0), across(dot.value)))
        shapes.append(element("rect", class_="bar", x=start, y=y - 8, width=max(end - start, 1.0), height=16))
    if has_interval and dot.forecast:
        start, end = across(dot.low), across(dot.high)
        shapes.append(element("rect", class_="forecast", x=start, y=y - 7, width=max(end - start, 1.0), height=14))
    elif has_interval:
        start, end = across(dot.low), across(dot.high)
        shapes.append(element("rect", class_="reach", x=start, y=y - 9, width=max(end - start, 1.0), height=18))
        line = "whisker" if figure.bars else "curve"
        shapes.append(element("path", class_=line, d=f"M{start:.1f} {y:.1f}H{end:.1f}"))
    if math.isfinite(dot.value) and not figure.bars:
        x, r = across(dot.value), 5.0
        outlines = (
            f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
            f"M{x - 4.5:.1f} {y - 4.5:.1f}h9v9h-9z",
            f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z",
            f"M{x:.1f} {y - 6:.1f}l6 10.5h-12z",
        )
        shapes.append(element("path", class_="shape", d=outlines[2 if dot.forecast else order % len(outlines)]))
    return mark(text, *shapes, class_="mark next" if dot.forecast else f"mark c{order % N_COLORS}")


def _shares(figure: Shares, width: float) -> tuple[list[Markup], float, float]:
    """Return a bar for each whole, and a legend."""
    rows = [
        _Row(whole, f"{size:,} rows", lambda y, across, row=row: _stack(figure, row, y, across))  # type: ignore[misc]
        for row, (whole, size) in enumerate(zip(figure.wholes, figure.sizes, strict=True))
    ]
    marks, across, bottom = _draw_rows(rows, (0.0, 1.0), width, 4.0)
    x, y = across(0.0), bottom + 18
    for part, name in enumerate(figure.parts):
        reach = LETTER * len(shorten(name, 26)) + 34
        if x + reach > width and x > across(0.0):
            x, y = across(0.0), y + 21
        marks.append(element("rect", class_=f"bar c{part % N_COLORS}", x=x, y=y - 11, width=12, height=12))
        marks.append(label(name, x + 18, y, longest=26))
        x += reach
    return marks, width, y + 10


def _stack(figure: Shares, row: int, y: float, across: Place) -> Markup:
    """Return the parts of one whole side by side."""
    marks, start = [], 0.0
    for part, share in enumerate(figure.shares[row]):
        x, width = across(start), across(start + share) - across(start)
        bar = element("rect", class_=f"bar c{part % N_COLORS}", x=x, y=y - 10, width=max(width - 1, 0.0), height=20)
        inside = element("text", f"{share:.0%}", x=x + width / 2, y=y + 5, text_anchor="middle", class_="on-bar")
        text = f"{shorten(figure.wholes[row], 60)} · {shorten(figure.parts[part], 60)}: {share:.1%}"
        marks.append(mark(text, bar, *([inside] if width > 36 else [])))
        start += share
    return Markup("").join(marks)


# --- Small pictures ---


def _pictures(figure: Pictures, width: float) -> tuple[list[Markup], float, float]:
    """Return groups of pictures, each group under its name, in as many lines as it needs."""
    size, step = 44.0, 58.0
    marks, y = [], 0.0
    for name, found in figure.groups:
        marks.append(label(name, 4, y + 17, longest=100 if width >= WIDE else 40, class_="name"))
        y += 26
        n_across = int((width - 8) / step)
        for number, picture in enumerate(found):
            x, line = 4 + step * (number % n_across), number // n_across
            marks.append(_picture(picture, x, y + line * (size + 24), size))
        y += (size + 24) * math.ceil(len(found) / n_across) + 4
    return marks, width, y


def _picture(picture: Picture, x: float, y: float, size: float) -> Markup:
    """Return one picture with its caption; pixels of about the same strength are one path."""
    scale = size / max(len(picture.pixels), 1)
    shapes = [element("rect", class_="cell", x=x, y=y, width=size, height=size, rx=3)]
    for level in (1, 2, 3, 4):
        path = "".join(
            f"M{column} {row}h1v1h-1z"
            for row, pixels in enumerate(picture.pixels)
            for column, value in enumerate(pixels)
            if round(4 * value) == level
        )
        turn = f"translate({x:.1f} {y:.1f}) scale({scale:.2f})"
        shapes += [element("path", class_="shape", d=path, fill_opacity=level / 4, transform=turn)] if path else []
    words = label(picture.caption, x + size / 2, y + size + 14, longest=8, text_anchor="middle", class_="tick")
    return mark(picture.caption, *shapes, words, class_=f"mark c{picture.color % N_COLORS}")


# --- Curves ---


def _curves(figure: Curves, width: float) -> tuple[list[Markup], float, float]:
    """Return curves over a grid, and a legend that says where each one ends."""
    left, top, bottom = 64.0, 26.0, 270.0
    known = [
        (x, y) for line in figure.lines for x, y in zip(line.x, line.y, strict=True) if _is_drawn(x, y, figure)
    ] or [(0.1, 0.1), (1.0, 1.0)]
    xs, ys = zip(*known, strict=True)
    if figure.band is not None:
        ys = (*ys, *(y for y in (*figure.band.low, *figure.band.high) if math.isfinite(y)))
    up = _powers(ys) if figure.log else nice_ticks(min(ys), max(ys))
    along = _powers(xs) if figure.log_x else _counts(min(xs), max(xs), 6 if width >= WIDE else 4)
    span = (along[0], along[-1]) if figure.log_x else (min(xs), max(xs))
    across = _scale(span, (left + 10, width - 24), log=figure.log_x)
    upward = _scale((up[0], up[-1]), (bottom, top), log=figure.log)
    marks = [label(figure.y_title, 4, 13, class_="axis", longest=80)]
    for tick in up:
        y = upward(tick)
        marks.append(element("line", class_="grid", x1=left, x2=width - 12, y1=y, y2=y))
        text = _write_power(tick) if figure.log else write_tick(tick, up)
        marks.append(element("text", text, x=left - 8, y=y + 4, text_anchor="end"))
    for tick in along:
        text = _write_power(tick) if figure.log_x else f"{tick:,.0f}" if float(tick).is_integer() else f"{tick:.2g}"
        marks.append(element("text", text, x=across(tick), y=bottom + 19, text_anchor="middle"))
    marks.append(label(figure.x_title, width - 12, bottom + 38, class_="axis", text_anchor="end", longest=46))
    if figure.band is not None:
        marks.append(_band(figure.band, across, upward))
    numbered = sorted(enumerate(figure.lines), key=lambda item: item[1].name == figure.marked)
    for order, line in numbered:  # the marked one last, on top
        marks += _curve(figure, line, _look(figure, line, order), across, upward)
    for row, (order, line) in enumerate(reversed(numbered) if figure.marked else numbered):
        y = bottom + 60 + 22 * row
        ends = bool(line.y) and figure.x_title in STEPS
        ending = f"{line.name}: {format_cell(line.y[-1], 4)} at the end" if ends else line.name
        marks.append(element("path", d=f"M{left if width >= WIDE else 4:g} {y - 4:g}h28", **_look(figure, line, order)))
        at = left + 36 if width >= WIDE else 40
        longest = int((width - at) / LETTER)
        marks.append(label(ending, at, y, longest=longest, class_="name" if line.name == figure.marked else ""))
    n_named = len(figure.lines)
    if figure.band is not None:
        x, y = left if width >= WIDE else 4.0, bottom + 60 + 22 * n_named
        marks.append(element("rect", class_="next forecast", x=x, y=y - 11, width=28, height=13))
        marks.append(label(figure.band.name, x + 36, y, longest=int((width - x - 36) / LETTER)))
        n_named += 1
    return marks, width, bottom + 50 + 22 * n_named


def _band(band: Band, across: Place, upward: Place) -> Markup:
    """Return the area between two curves, in as many pieces as there are without gaps."""
    pieces: list[list[tuple[float, float, float]]] = [[]]
    for x, low, high in zip(band.x, band.low, band.high, strict=True):
        if math.isfinite(low + high):
            pieces[-1].append((across(x), upward(low), upward(high)))
        elif pieces[-1]:
            pieces.append([])
    paths = []
    for piece in pieces:
        corners = [(x, high) for x, _, high in piece] + [(x, low) for x, low, _ in reversed(piece)]
        paths += ["M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z"] if piece else []
    return mark(band.name, element("path", class_="forecast", d="".join(paths)), class_="mark next")


def _panels(figure: Panels, width: float) -> tuple[list[Markup], float, float]:
    """Return small drawings side by side, and one legend below them."""
    n_across = min(3 if width >= WIDE else 1, max(len(figure.panels), 1))
    gap, left, height, head = 18.0, 46.0, 150.0, 40.0
    size = (width - 4 - left * n_across - gap * (n_across - 1)) / n_across
    lines = [line for _, found in figure.panels for line in found]
    known = [(x, y) for line in lines for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    xs, ys = zip(*(known or [(0.0, 0.0), (1.0, 1.0)]), strict=True)
    up = nice_ticks(max(min(ys), figure.lowest), max(ys), 4)
    along = [tick for tick in nice_ticks(min(xs), max(xs), 4) if min(xs) - 1e-9 <= tick <= max(xs) + 1e-9]
    marks = [
        label(f"{figure.y_title}, by {figure.x_title}", 4, 13, class_="axis", longest=110 if width >= WIDE else 46)
    ]
    y = 0.0
    for number, (name, found) in enumerate(figure.panels):
        x = left + (number % n_across) * (size + left + gap)
        y = 22.0 + (number // n_across) * (height + head + 26)
        across = _scale((min(xs), max(xs)), (x, x + size), log=False)
        upward = _scale((up[0], up[-1]), (y + head + height - 12, y + 30), log=False)
        marks.append(label(name, x, y + 18, class_="name", longest=int(size / LETTER)))
        for tick in up:
            at = upward(tick)
            marks.append(element("line", class_="grid", x1=x, x2=x + size, y1=at, y2=at))
            marks.append(element("text", write_tick(tick, up), x=x - 6, y=at + 4, text_anchor="end"))
        marks += [
            element("text", write_tick(t, along), x=across(t), y=y + head + height + 6, text_anchor="middle")
            for t in along
        ]
        for order, line in enumerate(found):
            marks += _panel_line(figure, name, line, order, across, upward)
    top = y + head + height + 32
    x = left
    for order, line in enumerate(figure.panels[0][1] if figure.panels else ()):
        reach = LETTER * len(shorten(line.name, 40)) + 60
        if x + reach > width and x > left:
            x, top = left, top + 22
        marks.append(element("path", d=f"M{x:g} {top - 4:g}h28", **_panel_look(line, order)))
        marks.append(label(line.name, x + 36, top, longest=40))
        x += reach
    return marks, width, top + 12


def _panel_look(line: Line, order: int) -> dict[str, object]:
    if line.dashed:
        return {"class_": "curve compared", "stroke_dasharray": DASHES[1 + order % 2]}
    return {"class_": f"curve c{order % N_COLORS}"}


def _panel_line(figure: Panels, name: str, line: Line, order: int, across: Place, upward: Place) -> list[Markup]:
    """Return a line of a small drawing, without what lies below the drawing."""
    drawn = [
        (across(x), upward(y)) if math.isfinite(y) and y >= figure.lowest else None
        for x, y in zip(line.x, line.y, strict=True)
    ]
    path = _path(drawn)
    shape = element("path", d=path, **_panel_look(line, order))
    return [mark(f"{shorten(name, 60)} · {line.name}", shape)] if path else []


def _path(spots: Sequence[tuple[float, float] | None]) -> str:
    """Return the path along spots, with gaps where one is None."""
    return "".join(
        f"{'M' if before is None else 'L'}{spot[0]:.1f} {spot[1]:.1f}"
        for before, spot in pairwise([None, *spots])
        if spot is not None
    )


def _scale(values: tuple[float, float], places: tuple[float, float], *, log: bool) -> Place:
    """Return the function from values to places on the drawing."""
    change = math.log10 if log else float
    low, high = change(values[0]), change(values[1])

    def place(value: float) -> float:
        share = (change(value) - low) / (high - low) if high > low else 0.5
        return places[0] + share * (places[1] - places[0])

    return place


def _is_drawn(x: float, y: float, figure: Curves) -> bool:
    return math.isfinite(y) and (y > 0 or not figure.log) and (x > 0 or not figure.log_x)


def _look(figure: Curves, line: Line, order: int) -> dict[str, object]:
    """Return how a line looks: the marked one is red and thick, the others differ in color and dashes."""
    if line.name == figure.marked:
        return {"class_": "curve marked"}
    if line.dashed:
        return {"class_": "curve compared", "stroke_dasharray": "4 3"}
    return {"class_": f"curve c{order % N_COLORS}", "stroke_dasharray": DASHES[order // N_COLORS % len(DASHES)]}


def _curve(figure: Curves, line: Line, look: dict[str, object], across: Place, upward: Place) -> list[Markup]:
    """Return a line with gaps at unknown values, and what its points show to the pointer."""
    points = list(zip(line.x, line.y, strict=True))
    spots = [(across(x), upward(y)) if _is_drawn(x, y, figure) else None for x, y in points]
    path = _path(spots)
    marks = [element("path", d=path, **look)] if path else []
    if line.dashed:
        return marks
    for (x, y), spot in zip(points, spots, strict=True):
        if spot is not None:
            text = f"{shorten(line.name, 90)}, {figure.x_title} {x:.4g}: {format_cell(y, 4)}"
            dot = element("circle", cx=spot[0], cy=spot[1], r=3.5)
            shown = "point shown" if len(points) <= FEW else "point"
            marks.append(mark(text, dot, class_=f"{shown} {str(look['class_']).split()[1]}"))
    return marks


def _powers(values: Sequence[float]) -> list[float]:
    """Return at most eight powers of ten that cover the values."""
    first, last = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
    step = max(1, math.ceil((last - first) / 7))
    return [10.0**power for power in range(first, max(last, first + 1) + step, step)]


def _write_power(value: float) -> str:
    """Return a power of ten: 0.01, 1,000, then 10⁴."""
    power = round(math.log10(value))
    if -3 <= power <= 3:
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _counts(first: float, last: float, n_ticks: int) -> list[float]:
    """Return whole numbers inside a range, or round numbers where there are too few."""
    ticks = [tick for tick in nice_ticks(first, last, n_ticks) if first - 1e-9 <= tick <= last + 1e-9]
    whole = [tick for tick in ticks if float(tick).is_integer()]
    return whole if len(whole) > 1 else ticks if len(ticks) > 1 else sorted({first, last})


# --- Heat maps ---


def _heat_map(figure: HeatMap, width: float) -> tuple[list[Markup], float, float]:
    """Return a colored cell with its number for every row and column."""
    is_wide, height, longest = width >= WIDE, 27.0, 26
    left = text_width(figure.rows) + 14 if is_wide else 2.0
    n_columns, widest = max(len(figure.columns), 1), text_width(figure.columns, longest)
    cell = min(max(46.0, (width - left - 4) / n_columns), 110.0)
    turned = widest > cell - 6
    # Tilted names reach beyond the last column; a narrow drawing has no room for them and sets them upright.
    angle, beyond = (-45, 0.71 * widest) if is_wide else (-90, 4.0)
    if turned:
        cell = min(max(46.0, (width - left - beyond) / n_columns), 110.0)
    top = 24 + (18 if not turned else widest * (0.71 if is_wide else 1.0) + 12)
    marks = [label(f"{figure.row_title} ↓  {figure.column_title} →", left, 13, class_="axis", longest=80)]
    for column, name in enumerate(figure.columns):
        x = left + (column + 0.5) * cell + (0 if is_wide or not turned else 4)
        turn = {"transform": f"rotate({angle} {x:.1f} {top - 7:.1f})"} if turned else {"text_anchor": "middle"}
        marks.append(label(name, x, top - 7, longest=longest, **turn))
    y = top
    for row, name in enumerate(figure.rows):
        y += 10 if row in figure.breaks else 0
        if is_wide:
            marks.append(label(name, left - 8, y + height / 2 + 4, text_anchor="end"))
        else:
            marks.append(label(name, left, y + 14, longest=46))
            y += 19
        for column, value in enumerate(figure.values[row]):
            box = (left + column * cell, y, cell, height)
            marks.append(_cell(figure, name, figure.columns[column], value, box))
        y += height
    cells = left + len(figure.columns) * cell + (beyond if turned else 4)
    title = left + LETTER * (len(figure.row_title) + len(figure.column_title) + 6)
    return marks, max(cells, title if is_wide else 0.0), y + 4


def _cell(figure: HeatMap, row: str, column: str, value: float, box: tuple[float, float, float, float]) -> Markup:
    """Return one cell, the stronger in color the larger its number."""
    known = not math.isnan(value)
    written = MISSING if not known else f"{value:+z.2f}" if figure.scale == "correlation" else f"{value:.2f}"
    strength = figure.strength(value)
    side = "share" if figure.scale != "correlation" else "positive" if value >= 0 else "negative"
    x, y, width, height = box
    inside: dict[str, object] = {"x": x + 1, "y": y + 1, "width": width - 2, "height": height - 2, "rx": 3}
    shapes = [element("rect", class_="cell", **inside)]
    if strength:
        shapes.append(element("rect", class_=side, fill_opacity=f"{strength:.2f}", **inside))
    shade = "strong" if strength > STRONG[side] else "weak"
    number = element("text", written, class_=shade, x=x + width / 2, y=y + height / 2 + 4, text_anchor="middle")
    return mark(f"{shorten(row, 60)} · {shorten(column, 60)}: {written}", *shapes, number)


# The marks of a figure of some width, how far they reach, and their height.
DRAWINGS: Mapping[type, Callable[[Any, float], tuple[list[Markup], float, float]]] = {
    HeatMap: _heat_map,
    Curves: _curves,
    Panels: _panels,
    Dots: _dots,
    Pictures: _pictures,
    Shares: _shares,
}
