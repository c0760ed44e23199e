"""Figures of a story as files, drawn with matplotlib: SVG for papers, PNG for slides. No window, no global state."""

from __future__ import annotations

import math
import os
import re
import unicodedata
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from holdfast.exceptions import ParameterError
from holdfast.reports.svg import shorten
from holdfast.reports.tables import to_csv, to_latex, to_markdown
from holdfast.reports.values import (
    MISSING,
    Curves,
    Dots,
    Figure,
    HeatMap,
    Sentences,
    Shares,
    Story,
    Table,
    crop_figure,
    figure_table,
)
from holdfast.saving.files import storage_errors, write_bytes
from holdfast.theory import HalfCurves

# Red against blue as in the paper's pictures; both ends are told apart by color-blind readers.
CORRELATION = LinearSegmentedColormap.from_list("correlation", ["#b2182b", "#f7f7f7", "#2166ac"])
SHARE = LinearSegmentedColormap.from_list("share", ["#f7f7f7", "#1f6f6b"])
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#555f69", "#6a4c93", "#3d6b35", "#8c3b2e")
MARKERS = ("o", "s", "D", "^")
STYLES = ("-", "--", ":", "-.")
WORST = "#c1121f"
# Same bytes for the same figure, letters as letters, and a minus that every font has.
STYLE: Any = {"svg.hashsalt": "holdfast", "svg.fonttype": "none", "axes.unicode_minus": False}


def draw_figure(figure: Figure) -> Canvas:
    """Return a figure drawn by matplotlib, free of any window.

    Parameters
    ----------
    figure : HeatMap, Curves, Dots or Shares

    Returns
    -------
    matplotlib.figure.Figure
    """
    if isinstance(figure, HeatMap):
        return _heat_map(figure)
    if isinstance(figure, Curves):
        return _curves(figure)
    return _dots(figure) if isinstance(figure, Dots) else _shares(figure)


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> Path:
    """Write a figure as SVG or PNG, by the ending of the path; its words are in the SVG's metadata.

    Parameters
    ----------
    figure : HeatMap, Curves, Dots or Shares
    path : path ending in .svg or .png
    dpi : int
        Dots per inch of a PNG.
    """
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("svg", "png"):
        raise ParameterError(f"Figures are written as .svg or .png. Got {path.name!r} instead.")
    title, words = shorten(figure.title, 300), shorten(figure.describe(), 2000)
    data = BytesIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A letter that the font has not is drawn as a box; that is no reason to warn whoever wanted a file.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        metadata: dict[str, Any] = {"Title": title, "Description": words}
        if kind == "svg":
            metadata["Date"] = None
        draw_figure(figure).savefig(data, format=kind, dpi=dpi, metadata=metadata)
    write_bytes(path, data.getvalue())
    return path


def _heat_map(figure: HeatMap) -> Canvas:
    n_rows, n_columns = len(figure.rows), len(figure.columns)
    size = max(4.0, 0.6 + _reach(figure.rows) + 0.5 * n_columns), 0.6 + 0.75 * _reach(figure.columns) + 0.3 * n_rows
    canvas = Canvas(figsize=size, layout="constrained")
    axes = canvas.subplots()
    values = np.array(figure.values, dtype=np.float64).reshape(n_rows, n_columns)
    colors, low = (SHARE, 0.0) if figure.scale == "share" else (CORRELATION, -1.0)
    axes.imshow(values, cmap=colors, vmin=low, vmax=1.0, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        number = MISSING if math.isnan(value) else f"{value:.2f}" if low == 0 else f"{value:+z.2f}"
        light = not math.isnan(value) and abs(value) > 0.75
        axes.text(column, row, number, ha="center", va="center", fontsize=7, color="white" if light else "black")
    _name(axes, "x", figure.columns, rotation=45, ha="right")
    _name(axes, "y", figure.rows)
    for row in figure.breaks:
        axes.axhline(row - 0.5, color="white", linewidth=4)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _title(axes, figure)
    return canvas


def _curves(figure: Curves) -> Canvas:
    canvas = Canvas(figsize=(6.4, 3.4 + 0.2 * len(figure.lines)), layout="constrained")
    axes = canvas.subplots()
    handles, names = [], []
    for number, line in enumerate(figure.lines):
        marked = line.name == figure.marked
        color = WORST if marked else COLORS[number % len(COLORS)]
        style = "-" if marked else STYLES[number // len(COLORS) % len(STYLES)]
        handles += axes.plot(line.x, line.y, style, color=color, linewidth=2.6 if marked else 1.2, zorder=2 + marked)
        names.append(shorten(line.name, 60) + (" (marked)" if marked else ""))
    axes.set(yscale="log" if figure.log else "linear")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _plain(axes.set_xlabel(shorten(figure.x_title)), axes.set_ylabel(shorten(figure.y_title)))
    axes.grid(visible=True, axis="y", color="#dddddd")
    _legend(canvas, handles, names)
    _title(axes, figure)
    return canvas


def _dots(figure: Dots) -> Canvas:
    places, series = figure.places, figure.series
    height = 0.22 * len(figure.dots) + 0.12 * len(places)
    canvas = Canvas(figsize=(5 + _reach(places), 1.5 + height + 0.2 * len(series)), layout="constrained")
    axes = canvas.subplots()
    step = 1.0 / (len(series) + 1)
    handles: dict[str, Any] = {}
    for dot in figure.dots:
        order = series.index(dot.series)
        y = places.index(dot.place) + (order + 1) * step - 0.5
        color = COLORS[order % len(COLORS)]
        axes.plot([dot.low, dot.high], [y, y], color=color, linewidth=1.4)
        (handles[dot.series],) = axes.plot(dot.value, y, MARKERS[order % len(MARKERS)], color=color, markersize=5)
    _name(axes, "y", places)
    axes.set(ylim=(len(places) - 0.5, -0.5))
    for place in range(1, len(places)):
        axes.axhline(place - 0.5, color="#dddddd", linewidth=0.8)
    _plain(axes.set_xlabel(shorten(figure.value_title)))
    _legend(canvas, list(handles.values()), [shorten(name, 60) for name in handles])
    _title(axes, figure)
    return canvas


def _shares(figure: Shares) -> Canvas:
    columns = max(1, 70 // (6 + max((len(shorten(part)) for part in figure.parts), default=0)))
    height = 1.4 + 0.32 * len(figure.wholes) + 0.2 * math.ceil(len(figure.parts) / columns)
    canvas = Canvas(figsize=(5 + _reach(figure.wholes), height), layout="constrained")
    axes = canvas.subplots()
    left = np.zeros(len(figure.wholes))
    shares = np.array(figure.shares, dtype=np.float64).reshape(len(figure.wholes), len(figure.parts))
    bars = []
    for part in range(len(figure.parts)):
        color = COLORS[part % len(COLORS)]
        bars.append(axes.barh(range(len(left)), shares[:, part], left=left, color=color, edgecolor="white"))
        left = left + shares[:, part]
    _name(axes, "y", tuple(f"{shorten(w)} ({n:,})" for w, n in zip(figure.wholes, figure.sizes, strict=True)))
    axes.set(ylim=(len(left) - 0.5, -0.5), xlim=(0, 1), xlabel="share")
    _legend(canvas, bars, [shorten(part) for part in figure.parts], columns=columns)
    _title(axes, figure)
    return canvas


def _reach(names: tuple[str, ...]) -> float:
    """Return about how far names reach, in inches."""
    return 0.085 * max((len(shorten(name)) for name in names), default=0)


def _name(axes: Axes, side: str, names: tuple[str, ...], **look: Any) -> None:
    """Put names at whole numbers of an axis; a dollar in a name is a dollar, not a formula."""
    ticks = axes.set_xticks if side == "x" else axes.set_yticks
    ticks(range(len(names)), [shorten(name) for name in names], fontsize=8, parse_math=False, **look)


def _legend(canvas: Canvas, handles: list[Any], names: list[str], *, columns: int = 1) -> None:
    """Put a legend under the axes."""
    if not handles:
        return
    blank = [""] * len(names)  # the legend would skip names that begin with an underscore
    legend = canvas.legend(handles, blank, fontsize=8, frameon=False, loc="outside lower left", ncols=columns)
    for text, name in zip(legend.get_texts(), names, strict=True):
        _plain(text)
        text.set_text(name)


def _plain(*texts: Any) -> None:
    """Let texts be taken letter by letter."""
    for text in texts:
        text.set_parse_math(False)


def _title(axes: Axes, figure: Figure) -> None:
    _plain(axes.set_title(shorten(figure.title, 80), fontsize=10, loc="left"))


FORMS = {".md": to_markdown, ".tex": to_latex, ".csv": to_csv}


def write_assets(story: Story, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every table of a story as .md, .tex and .csv, and every figure as .svg, .png and .csv.

    Parameters
    ----------
    story : Story
    folder : path
        Made where it is missing. Files are numbered in the order of the story: 03-label-balance.svg.

    Returns
    -------
    list of pathlib.Path
        The files, in the order of the story.
    """
    folder = Path(folder)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    blocks = [block for block in story.blocks() if not isinstance(block, Sentences)]
    written = []
    for number, block in enumerate(blocks, start=1):
        stem = folder / f"{number:02d}-{file_name(block.title)}"
        if isinstance(block, Table):
            written += [_write(stem.with_suffix(suffix), form(block)) for suffix, form in FORMS.items()]
        else:
            written += [save_figure(crop_figure(block), stem.with_suffix(suffix)) for suffix in (".svg", ".png")]
            written.append(_write(stem.with_suffix(".csv"), to_csv(figure_table(block))))
    return written


def file_name(title: str) -> str:
    """Return a title as a harmless part of a file name.

    Examples
    --------
    >>> file_name("Accuracy: ../é <b>"), file_name("…")
    ('accuracy-e-b', 'untitled')
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60].strip("-") or "untitled"


def _write(path: Path, text: str) -> Path:
    write_bytes(path, (text.rstrip("\n") + "\n").encode("utf-8"))
    return path


# Okabe and Ito's colors: told apart by color-blind readers, and in gray by their line styles.
CORRECT, MISTAKEN, ENVIRONMENT = "#0072B2", "#D55E00", "#555555"
CURVE_STYLES = {"soft": "-", "hard": "--"}


def draw_half_curves(curves: HalfCurves) -> Canvas:
    """Return a figure of two panels: the correlation in each half, and the oracle's interpolation weight.

    Parameters
    ----------
    curves : HalfCurves
        From `holdfast.theory.half_curves`.

    Returns
    -------
    matplotlib.figure.Figure
        Free of any window: save it with `figure.savefig("halves.svg")`.
    """
    figure = Canvas(figsize=(9.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(curves.eta, curves.judged, color=ENVIRONMENT, linestyle=":", label="whole environment")
    for kind, style in CURVE_STYLES.items():
        left.plot(curves.eta, curves.correct[kind], style, color=CORRECT, label=f"correct half, {kind}")
        left.plot(curves.eta, curves.mistaken[kind], style, color=MISTAKEN, label=f"mistaken half, {kind}")
        right.plot(curves.eta, curves.oracle[kind], style, color=CORRECT, label=f"{kind} halves")
    _finish(left, curves, "correlation of x2 and y", (-1.08, 1.08))
    left.axhline(0.0, color="#999999", linewidth=0.8)
    _finish(right, curves, "weight of the correct half at the oracle", (-0.04, 1.04))
    figure.suptitle(
        f"An environment judged by one with η = {curves.judge_eta:g}; label noise {curves.noise:g}", fontsize="medium"
    )
    return figure


def describe_half_curves(curves: HalfCurves) -> str:
    """Return the picture in words, for those who cannot see it: the numbers at the chosen η."""
    at = int(abs(curves.eta - curves.judged_eta).argmin())
    parts = [
        f"{kind} halves: {curves.correct[kind][at]:+.2f} where the judge is right, {curves.mistaken[kind][at]:+.2f} "
        f"where it is wrong, oracle at weight {curves.oracle[kind][at]:.2f}"
        for kind in CURVE_STYLES
    ]
    return (
        f"Judge η = {curves.judge_eta:g}, judged η = {curves.judged_eta:g}, noise {curves.noise:g}: x2 and y correlate "
        f"at {curves.judged[at]:+.2f} in the whole environment. " + "; ".join(parts) + "."
    )


def _finish(axes: Axes, curves: HalfCurves, ylabel: str, limits: tuple[float, float]) -> None:
    """Label one panel, put the legend under it and mark the chosen η."""
    axes.axvline(curves.judged_eta, color=ENVIRONMENT, linewidth=0.8, alpha=0.6)
    place = (curves.judged_eta, limits[0] + 0.1 * (limits[1] - limits[0]))
    axes.annotate(f"η2 = {curves.judged_eta:g}", place, fontsize="small", xytext=(4, 0), textcoords="offset points")
    axes.set(xlabel="η of the judged environment, P(x2 ≠ y)", ylabel=ylabel, ylim=limits)
    axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
