"""Write figures as SVG, for pages and as files."""

from __future__ import annotations

import math
import os
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from holdfast.exceptions import ParameterError
from holdfast.reports.drawings import DRAWINGS
from holdfast.reports.marks import WIDE, element, label, tip
from holdfast.reports.values import Figure, crop_figure
from holdfast.saving.files import write_bytes


def draw(figure: Figure, number: int, width: float = WIDE) -> Markup:
    """Return a figure as an SVG element, whose ids contain its number on the page.

    The width is `WIDE` or `NARROW`; a heat map of many columns is wider.
    """
    marks, reach, height = DRAWINGS[type(figure)](figure, width)
    shape = "narrow" if width < WIDE else "wide"
    names = f"figure-{number}-{shape}-title", f"figure-{number}-{shape}-text"
    return element(
        "svg",
        element("title", tip(figure.title), id=names[0]),
        element("desc", figure.describe(), id=names[1]),
        *marks,
        class_=f"figure {shape}{_fit(reach, width)}",
        viewBox=f"0 0 {math.ceil(reach)} {math.ceil(height)}",
        width=math.ceil(reach),
        height=math.ceil(height),
        role="img",
        aria_labelledby=" ".join(names),
    )


def _fit(reach: float, width: float) -> str:
    """Return the class of a drawing that keeps its own size because it is wider or narrower than others."""
    return " scrolled" if reach > width + 1 else " small" if reach < width - 1 else ""


def write_svg(*figures: Figure) -> str:
    """Return figures as the text of one SVG file, one below the other, each under its title."""
    parts, notes, top, reach = [], [], 0.0, WIDE
    for number, figure in enumerate(figures, start=1):
        drawn = draw(crop_figure(figure), number)
        width, height = (float(size) for size in re.findall(r' (?:width|height)="(\d+)"', str(drawn))[:2])
        parts.append(label(figure.title, 8, top + 24, class_="title", longest=110))
        parts.append(Markup(str(drawn).replace("<svg", f'<svg x="8" y="{top + 36:g}"', 1)))
        notes.append(figure.note)
        top, reach = top + 36 + height + 16, max(reach, width)
    page = element(
        "svg",
        element("title", " · ".join(figure.title for figure in figures)),
        element("desc", " ".join(filter(None, notes))),
        element("style", Markup(_file_style())),
        element("rect", x=0, y=0, width="100%", height="100%", fill="#ffffff"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {reach + 16:g} {top:g}",
        width=reach + 16,
        height=top,
        font_family="system-ui, sans-serif",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{page}\n'


def save_figure(path: str | os.PathLike[str], *figures: Figure) -> Path:
    """Write figures to one SVG file, one below the other."""
    path = Path(path)
    if path.suffix.lower() != ".svg":
        raise ParameterError(f"Figures are written as .svg. Got {path.name!r} instead.")
    write_bytes(path, write_svg(*figures).encode("utf-8"))
    return path


@lru_cache
def _file_style() -> str:
    """Return the figures' style with the light theme's colors filled in: not every program knows variables."""
    page = resources.files("holdfast.reports").joinpath("page")
    light = page.joinpath("report.css").read_text(encoding="utf-8").partition("}")[0]
    colors = dict(re.findall(r"--([\w-]+): (#\w+)", light))
    style = page.joinpath("figure.css").read_text(encoding="utf-8")
    style = re.sub(r"var\(--([\w-]+)\)", lambda found: colors[found[1]], style)
    return f"{style}.title {{ font-size: 15px; font-weight: 650; }}\n"
