"""Curves, and dots with intervals, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from markupsafe import Markup

from holdfast.reports.story import Curves, Dot, Dots, Line
from holdfast.reports.svg import DASHES, N_COLORS, drawing, element, label, mark, nice_ticks, shorten, text_width
from holdfast.reports.tables import Interval, format_cell

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
