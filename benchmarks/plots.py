"""Growth as a picture: curves over logarithmic axes, as SVG text that depends on nothing but the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.reports.svg import element, label

WIDTH, HEIGHT = 460.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 14.0, 30.0, 46.0
COLORS = ("#1f6fb4", "#d1731a", "#2f8f4e", "#8a4fb0")


@dataclass(frozen=True)
class Curve:
    """Points that belong together."""

    name: str
    points: Sequence[tuple[float, float]]  # (x, y), all positive
    dashed: bool = False  # a line to compare with, without marks


def draw(title: str, x_title: str, y_title: str, curves: Sequence[Curve]) -> str:
    """Return the curves as an SVG file."""
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    across, up = _Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT), _Axis(min(ys), max(ys), HEIGHT - BOTTOM, TOP)
    marks = [
        element("rect", x=0.0, y=0.0, width=WIDTH, height=HEIGHT, fill="#ffffff"),
        label(title, LEFT, 17.0, longest=70, font_weight="bold"),
        label(x_title, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, text_anchor="middle"),
    ]
    for power in across.powers:
        x = across.place(10.0**power)
        marks.append(element("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, stroke="#dddddd"))
        marks.append(label(_power(power), x, HEIGHT - BOTTOM + 15, text_anchor="middle"))
    for power in up.powers:
        y = up.place(10.0**power)
        marks.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, stroke="#dddddd"))
        marks.append(label(_power(power), LEFT - 6, y + 4, text_anchor="end"))
    marks.append(
        label(
            y_title,
            14.0,
            (TOP + HEIGHT - BOTTOM) / 2,
            text_anchor="middle",
            transform=f"rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2:.0f})",
        )
    )
    for number, curve in enumerate(curves):
        color = "#888888" if curve.dashed else COLORS[number % len(COLORS)]
        places = [(across.place(x), up.place(y)) for x, y in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dash = {"stroke_dasharray": "4 3"} if curve.dashed else {}
        marks.append(element("polyline", points=path, fill="none", stroke=color, stroke_width=1.6, **dash))
        if not curve.dashed:
            marks += [element("circle", cx=x, cy=y, r=3.0, fill=color) for x, y in places]
        y = TOP + 14 + 15 * number
        stroke = {"stroke": color, "stroke_width": 1.6, **dash}
        marks.append(element("line", x1=LEFT + 8, x2=LEFT + 26, y1=y - 4, y2=y - 4, **stroke))
        marks.append(label(curve.name, LEFT + 31, y, longest=52))
    drawing = element(
        "svg",
        *marks,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        width=WIDTH,
        height=HEIGHT,
        font_family="system-ui, sans-serif",
        font_size=11,
        role="img",
    )
    return f"{drawing}\n"


class _Axis:
    """A logarithmic axis from a whole power of ten to another."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        self.powers = range(first, max(last, first + 1) + 1)
        self._start, self._scale = start, (end - start) / (len(self.powers) - 1)

    def place(self, value: float) -> float:
        """Return where a value stands."""
        return self._start + (math.log10(value) - self.powers[0]) * self._scale


def _power(power: int) -> str:
    """Return a power of ten as people write it: 0.01, 1,000, then 10⁴."""
    if -3 <= power <= 3:
        return f"{10.0**power:,.3f}".rstrip("0").rstrip(".")
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
