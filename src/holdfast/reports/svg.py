"""The few SVG elements that figures are made of; every string that reaches them is escaped."""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from holdfast.reports.tables import clean_text

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
