"""The few SVG elements that figures are made of; every string that reaches them is escaped."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from holdfast.reports.values import (
    MISSING,
    Curves,
    Dot,
    Dots,
    Figure,
    HeatMap,
    Interval,
    Line,
    Shares,
    clean_text,
    format_cell,
)

LETTER = 7.0  # mean width of a letter at 12 px, in px
LONGEST = 40  # letters of a name in a figure; tooltips have more
LONGEST_TIP = 160
N_COLORS = 12  # series colors that the style sheet defines, c0 to c11
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return one element; `class_` and `text_anchor` become class and text-anchor, text is cleaned and escaped.

    Examples
    --------
    >>> print(element("text", "a < b", class_="n", x=1.0))
    <text class="n" x="1">a &lt; b</text>
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    inside = "".join(child if isinstance(child, Markup) else escape(clean_text(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")


def drawing(width: float, height: float, title: str, description: str, *marks: Markup, number: int) -> Markup:
    """Return a whole figure with its text alternative; `number` keeps the ids of several figures apart."""
    names = f"figure-{number}-title", f"figure-{number}-text"
    return element(
        "svg",
        element("title", tip(title), id=names[0]),
        element("desc", description, id=names[1]),
        *marks,
        class_="figure",
        viewBox=f"0 0 {math.ceil(width)} {math.ceil(height)}",
        width=math.ceil(width),
        height=math.ceil(height),
        role="img",
        aria_labelledby=" ".join(names),
    )


def mark(text: str, *shapes: Markup, class_: str = "mark") -> Markup:
    """Return shapes that show `text` to the pointer."""
    return element("g", element("title", tip(text)), *shapes, class_=class_)


def label(text: str, x: float, y: float, *, longest: int = LONGEST, **attributes: object) -> Markup:
    """Return a line of text, cut to `longest` letters with the whole one to the pointer."""
    short = shorten(text, longest)
    whole = [element("title", tip(text))] if short != clean_text(text) else []
    return element("text", *whole, short, x=x, y=y, **attributes)


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text, its middle left out where it is too long: names often differ at their ends.

    Examples
    --------
    >>> shorten("Boston judged by Chicago: mistaken", 20)
    'Boston judg…mistaken'
    """
    text = clean_text(text)
    if len(text) <= longest:
        return text
    end = (longest - 1) * 2 // 5 + 1
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def tip(text: str) -> str:
    """Return what the pointer is shown."""
    return shorten(text, LONGEST_TIP)


def text_width(names: tuple[str, ...], longest: int = LONGEST) -> float:
    """Return about how wide the widest name is drawn."""
    return LETTER * max((min(len(name), longest) for name in names), default=0)


def nice_ticks(low: float, high: float, n_ticks: int = 5) -> list[float]:
    """Return round numbers that cover a range.

    Examples
    --------
    >>> [round(tick, 3) for tick in nice_ticks(0.13, 0.62)]
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    """
    if not math.isfinite(low) or not math.isfinite(high):
        return [0.0, 1.0]
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    raw = (high - low) / n_ticks
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _value(value: object) -> object:
    """Return numbers as short as a figure needs them, text clean."""
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return clean_text(value) if isinstance(value, str) else value


WIDTH = 720.0
LEFT, TOP, BOTTOM = 64.0, 26.0, 250.0  # of the field that curves are drawn in
ROW = 20.0

Place = Callable[[float, float], tuple[float, float]]


def draw_curves(figure: Curves, number: int) -> Markup:
    """Return curves over a grid, with a legend that says where each ends."""
    known = [y for line in figure.lines for y in line.y if _is_drawn(y, figure)]
    ticks = _powers(known) if figure.log else nice_ticks(min(known, default=0.0), max(known, default=1.0))
    xs = [x for line in figure.lines for x in line.x] or [0.0, 1.0]
    place = _place(figure, (min(xs), max(xs)), (ticks[0], ticks[-1]))
    marks = [label(figure.y_title, 4, 13, class_="axis", longest=80)]
    for tick in ticks:
        y = place(xs[0], tick)[1]
        marks.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - 12, y1=y, y2=y))
        text = f"{tick:g}" if figure.log else write_tick(tick, ticks)
        marks.append(element("text", text, x=LEFT - 8, y=y + 4, text_anchor="end"))
    for tick in _counts(min(xs), max(xs)):
        text = f"{tick:g}" if float(tick).is_integer() else f"{tick:.2g}"
        marks.append(element("text", text, x=place(tick, ticks[0])[0], y=BOTTOM + 18, text_anchor="middle"))
    marks.append(element("text", figure.x_title, class_="axis", x=WIDTH - 12, y=BOTTOM + 36, text_anchor="end"))
    numbered = sorted(enumerate(figure.lines), key=lambda item: item[1].name == figure.marked)
    for order, line in numbered:  # the marked one last, on top
        marks += _curve(figure, line, _look(figure, line, order), place)
    for row, (order, line) in enumerate(reversed(numbered) if figure.marked else numbered):
        y = BOTTOM + 56 + ROW * row
        ending = f"{line.name}: {format_cell(line.y[-1], 4)} at the end" if line.y else line.name
        marks.append(element("path", d=f"M{LEFT:g} {y - 4:g}h28", **_look(figure, line, order)))
        marks.append(label(ending, LEFT + 36, y, longest=90, class_="name" if line.name == figure.marked else ""))
    return drawing(WIDTH, BOTTOM + 46 + ROW * len(figure.lines), figure.title, figure.describe(), *marks, number=number)


def draw_dots(figure: Dots, number: int) -> Markup:
    """Return a dot with its interval for every method, under a line for each place."""
    left, right = max(text_width(figure.series, 30), 60.0) + 40, WIDTH - 150
    limits = [limit for dot in figure.dots for limit in (dot.low, dot.high, dot.value) if math.isfinite(limit)]
    ticks = nice_ticks(min(limits, default=0.0), max(limits, default=1.0), 6)
    bottom = 22 + sum(30 + ROW * sum(dot.place == place for dot in figure.dots) for place in figure.places)

    def across(value: float) -> float:
        return left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (right - left)

    marks = [label(figure.value_title, 4, 13, class_="axis", longest=80)]
    for tick in ticks:
        x = across(tick)
        marks.append(element("line", class_="grid", x1=x, x2=x, y1=22, y2=bottom))
        marks.append(element("text", write_tick(tick, ticks), x=x, y=bottom + 16, text_anchor="middle"))
    order = {name: place for place, name in enumerate(figure.series)}
    y = 22.0
    for place in figure.places:
        marks.append(label(place, 4, y + 16, longest=90, class_="name"))
        y += 34
        for dot in (dot for dot in figure.dots if dot.place == place):
            marks.append(label(dot.series, left - 12, y + 4, text_anchor="end", longest=30))
            marks.append(_dot(dot, order[dot.series], y, across))
            written = format_cell(Interval(dot.value, dot.low, dot.high), 2)
            marks.append(element("text", written, x=right + 14, y=y + 4, class_="number"))
            y += ROW
        y -= 4
    return drawing(WIDTH, bottom + 26, figure.title, figure.describe(), *marks, number=number)


def write_tick(tick: float, ticks: list[float]) -> str:
    """Return a tick with as many digits as tell it from the next one.

    Examples
    --------
    >>> write_tick(0.25, [0.0, 0.25, 0.5]), write_tick(0.5, [0.0, 0.5])
    ('0.25', '0.5')
    """
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if digits and not math.isclose(round(step, digits), step, rel_tol=1e-6):
        digits += 1
    return f"{tick:.{digits}f}"


def _place(figure: Curves, across: tuple[float, float], up: tuple[float, float]) -> Place:
    """Return the function from values to places on the drawing."""
    scale = math.log10 if figure.log else float
    low, high = scale(up[0]), scale(up[1])

    def place(x: float, y: float) -> tuple[float, float]:
        share = (x - across[0]) / (across[1] - across[0]) if across[1] > across[0] else 0.5
        return LEFT + 10 + share * (WIDTH - LEFT - 34), BOTTOM - (scale(y) - low) / (high - low) * (BOTTOM - TOP)

    return place


def _is_drawn(y: float, figure: Curves) -> bool:
    return math.isfinite(y) and (y > 0 or not figure.log)


def _look(figure: Curves, line: Line, order: int) -> dict[str, object]:
    """Return how a line looks: the marked one in red, the others told apart by color and dashes."""
    if line.name == figure.marked:
        return {"class_": "curve marked"}
    return {"class_": f"curve c{order % N_COLORS}", "stroke_dasharray": DASHES[order // N_COLORS % len(DASHES)]}


def _curve(figure: Curves, line: Line, look: dict[str, object], place: Place) -> list[Markup]:
    """Return a line broken at unknown values, and what its points show to the pointer."""
    points = list(zip(line.x, line.y, strict=True))
    spots = [place(x, y) if _is_drawn(y, figure) else None for x, y in points]
    path = "".join(
        f"{'M' if before is None else 'L'}{spot[0]:.1f} {spot[1]:.1f}"
        for before, spot in pairwise([None, *spots])
        if spot is not None
    )
    marks = [element("path", d=path, **look)] if path else []
    for (x, y), spot in zip(points, spots, strict=True):
        if spot is not None:
            text = f"{shorten(line.name, 90)}, {figure.x_title} {x:.4g}: {format_cell(y, 4)}"
            dot = element("circle", cx=spot[0], cy=spot[1], r=5)
            marks.append(mark(text, dot, class_=f"point {str(look['class_']).split()[1]}"))
    return marks


def _dot(dot: Dot, order: int, y: float, across: Callable[[float], float]) -> Markup:
    """Return a value's shape on the line of its interval; color and shape both tell the method."""
    text = (
        f"{shorten(dot.place, 60)} · {shorten(dot.series, 60)}: {format_cell(Interval(dot.value, dot.low, dot.high))}"
    )
    color = f"c{order % N_COLORS}"
    shapes = []
    if math.isfinite(dot.low) and math.isfinite(dot.high):
        ends = across(dot.low), across(dot.high)
        shapes.append(element("rect", class_="reach", x=ends[0], y=y - 9, width=max(ends[1] - ends[0], 1.0), height=18))
        shapes.append(element("path", class_="curve", d=f"M{ends[0]:.1f} {y:.1f}H{ends[1]:.1f}"))
    if math.isfinite(dot.value):
        x, r = across(dot.value), 5.0
        outlines = (
            f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
            f"M{x - 4.5:.1f} {y - 4.5:.1f}h9v9h-9z",
            f"M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z",
            f"M{x:.1f} {y - 6:.1f}l6 10.5h-12z",
        )
        shapes.append(element("path", class_="shape", d=outlines[order % len(outlines)]))
    return mark(text, *shapes, class_=f"mark {color}")


def _powers(values: list[float]) -> list[float]:
    """Return powers of ten that cover the values, at most eight."""
    if not values:
        return [0.1, 1.0]
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    step = max(1, math.ceil((last - first) / 7))
    return [10.0**power for power in range(first, max(last, first + 1) + step, step)]


def _counts(first: float, last: float) -> list[float]:
    """Return whole numbers inside a range of epochs, rounds or iterations."""
    ticks = [tick for tick in nice_ticks(first, last, 6) if first <= tick <= last and float(tick).is_integer()]
    return ticks if len(ticks) > 1 else sorted({first, last})


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
