"""Elements of SVG figures: text, ticks and scales; every string is escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from holdfast.exceptions import cut_middle
from holdfast.reports.values import clean_text

WIDE, NARROW = 860.0, 350.0  # px; a page shows the narrow drawing on phones, so that letters keep their size
LETTER = 7.2  # mean width of a letter, in px
LONGEST = 40  # letters of a name in a figure; tooltips have more
LONGEST_TIP = 160

Place = Callable[[float], float]


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return one element; `class_` and `text_anchor` become class and text-anchor, text is cleaned and escaped.

    Examples
    --------
    >>> print(element("text", "a < b", class_="n", x=1.0))
    <text class="n" x="1">a &lt; b</text>
    """
    written = "".join(
        f' {key if key == "viewBox" else key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    inside = "".join(child if isinstance(child, Markup) else escape(clean_text(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")


def mark(text: str, *shapes: Markup, class_: str = "mark") -> Markup:
    """Return shapes with the text that the pointer shows."""
    return element("g", element("title", tip(text)), *shapes, class_=class_)


def label(text: str, x: float, y: float, *, longest: int = LONGEST, **attributes: object) -> Markup:
    """Return a line of text; a longer one is shortened, and the pointer shows all of it."""
    short = shorten(text, longest)
    whole = [element("title", tip(text))] if short != clean_text(text) else []
    return element("text", *whole, short, x=x, y=y, **attributes)


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return one line of clean text, without its middle where it is too long."""
    return cut_middle(clean_text(text), longest)


def tip(text: str) -> str:
    """Return the text that the pointer shows."""
    return shorten(text, LONGEST_TIP)


def text_width(names: Sequence[str], longest: int = LONGEST) -> float:
    """Return the approximate width of the widest name."""
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


def write_tick(tick: float, ticks: Sequence[float]) -> str:
    """Return a tick with as many digits as distinguish it from the next one.

    Examples
    --------
    >>> write_tick(0.25, [0.0, 0.25, 0.5]), write_tick(0.5, [0.0, 0.5]), write_tick(7.5, [5.0, 7.5])
    ('0.25', '0.5', '7.5')
    """
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if not math.isclose(round(step, digits), step, rel_tol=1e-6):
        digits += 1
    return f"{tick:z.{digits}f}"


def _value(value: object) -> object:
    """Return numbers as short as a figure needs them, and text clean."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.1f}".removesuffix(".0")
    return clean_text(value) if isinstance(value, str) else value
