"""The content of a report as plain values: sections of tables, figures and sentences.

Figures are data, not drawings: `holdfast.reports.drawings` draws them.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from holdfast.environments import listed
from holdfast.exceptions import InputError
from holdfast.metrics import Interval

MISSING = "–"


@dataclass(frozen=True)
class Spread:
    """A mean with the standard deviation of what it is the mean of."""

    value: float
    spread: float  # NaN: of a single value


Cell: TypeAlias = str | bool | int | float | Interval | Spread | None


@dataclass(frozen=True)
class Table:
    """Rows of values under column names."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 3  # after the decimal point
    n_keys: int = 0  # columns at the left that name a row
    marked: tuple[tuple[int, int], ...] = ()  # (row, column) of cells to emphasize

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise InputError(
                    f"row {number} of the table {self.title!r} has {len(row)} cells for {len(self.columns)} columns. "
                    "Pass one cell for each column."
                )

    def numeric(self) -> tuple[bool, ...]:
        """Return for each column whether it holds numbers, at least one, and nothing else."""
        columns = [[row[column] for row in self.rows] for column in range(len(self.columns))]
        return tuple(
            any(cell is not None for cell in cells) and not any(isinstance(cell, str | bool) for cell in cells)
            for cells in columns
        )


def format_cell(cell: Cell, digits: int = 3) -> str:
    """Return a cell as people read it.

    Examples
    --------
    >>> [format_cell(cell) for cell in (1797, 0.5, float("nan"), True, Spread(0.5, 0.01))]
    ['1,797', '0.500', '–', 'yes', '0.500 ± 0.010']
    """
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return clean_text(cell)
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, Interval):
        if cell.low != cell.low and cell.high != cell.high:  # one seed has no interval
            return _fixed(cell.value, digits)
        return f"{_fixed(cell.value, digits)} [{_fixed(cell.low, digits)}, {_fixed(cell.high, digits)}]"
    if isinstance(cell, Spread):
        spread = "" if math.isnan(cell.spread) else f" ± {_fixed(cell.spread, digits)}"
        return _fixed(cell.value, digits) + spread
    # Shares and accuracies get the asked digits; a tiny gap or p value keeps its size.
    return f"{cell:.1g}" if 0 < abs(cell) < 0.5 * 10**-digits else _fixed(cell, digits)


def sort_value(cell: Cell) -> float | str | None:
    """Return what a cell is sorted by; None comes last."""
    if isinstance(cell, Interval | Spread):
        cell = cell.value
    if isinstance(cell, bool | int):
        return float(cell)
    return None if isinstance(cell, float) and math.isnan(cell) else cell


@lru_cache(maxsize=10_000)  # a figure cleans the same names again and again
def clean_text(text: str) -> str:
    """Return one line of text without control characters and changes of text direction."""
    text = " ".join(text.split())
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(c) in ("Cc", "Cs")
        or unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        else c
        for c in text
    )


def _fixed(number: float, digits: int) -> str:
    """Return a number with a fixed number of digits; unknown and infinite ones as signs."""
    if math.isfinite(number):
        return f"{number:z.{digits}f}"
    return MISSING if math.isnan(number) else "∞" if number > 0 else "-∞"


@dataclass(frozen=True)
class HeatMap:
    """A number in every cell of rows × columns."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # (n_rows, n_columns); NaN: unknown
    scale: Literal["share", "correlation", "range"]  # 0 to 1 in one color, -1 to 1 in red and blue, lowest to highest
    row_title: str
    column_title: str
    note: str = ""
    breaks: tuple[int, ...] = ()  # rows above which there is a gap

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise InputError(
                f"values of the heat map {self.title!r} are not {len(self.rows)} rows of {len(self.columns)} numbers. "
                "Pass one number for each cell."
            )

    def strength(self, value: float) -> float:
        """Return how strong a cell's color is, from 0 to 1; on the scale "range" from 0.1 to 0.9.

        Examples
        --------
        >>> heat_map = HeatMap("", ("a",), ("b", "c", "d"), ((0.70, 0.75, 0.80),), "range", "", "")
        >>> [round(heat_map.strength(value), 2) for value in heat_map.values[0]]
        [0.1, 0.5, 0.9]
        """
        if math.isnan(value):
            return 0.0
        if self.scale != "range":
            return min(abs(value), 1.0)
        known = [number for row in self.values for number in row if not math.isnan(number)]
        low, high = min(known), max(known)
        return 0.5 if low == high else 0.1 + 0.8 * (value - low) / (high - low)

    def describe(self) -> str:
        """Return the figure in a sentence, for readers who cannot see it."""
        cells = [
            (value, row, column)
            for row, values in zip(self.rows, self.values, strict=True)
            for column, value in zip(self.columns, values, strict=True)
            if not math.isnan(value)
        ]
        start = (
            f"Heat map, {len(self.rows)} rows ({self.row_title}) by {len(self.columns)} columns ({self.column_title})"
        )
        if not cells:
            return f"{start}; no value is known."
        low, high = min(cells), max(cells)
        return f"{start}. Lowest {low[0]:.2f} at {low[1]}, {low[2]}; highest {high[0]:.2f} at {high[1]}, {high[2]}."


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]  # NaN: a gap
    dashed: bool = False  # a line to compare with


@dataclass(frozen=True)
class Band:
    """An area between two curves."""

    name: str
    x: tuple[float, ...]
    low: tuple[float, ...]  # NaN: a gap
    high: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """Curves over one axis, one of them marked."""

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    marked: str = ""  # name of the line to look at
    log: bool = False  # logarithmic y axis
    note: str = ""
    log_x: bool = False  # logarithmic x axis
    band: Band | None = None  # behind the curves

    def describe(self) -> str:
        """Return the figure in a sentence, for readers who cannot see it."""
        ends = [f"{line.name} ends at {format_cell(line.y[-1])}" for line in self.lines[:6] if line.y]
        more = f" and {len(self.lines) - 6} more" if len(self.lines) > 6 else ""
        marked = f" Marked: {self.marked}." if self.marked else ""
        return f"{self.y_title} by {self.x_title}, {len(self.lines)} curves. {'; '.join(ends)}{more}.{marked}"


@dataclass(frozen=True)
class Panels:
    """The same few curves for each of several sites, in small drawings with the same axes."""

    title: str
    x_title: str
    y_title: str
    panels: tuple[tuple[str, tuple[Line, ...]], ...]  # name of each drawing, and its lines
    note: str = ""
    lowest: float = -math.inf  # what lies below is cut off

    def describe(self) -> str:
        """Return the figure in a sentence, for readers who cannot see it."""
        lines = ", ".join(line.name for line in self.panels[0][1]) if self.panels else ""
        names = listed([name for name, _ in self.panels], most=8)
        return f"{self.y_title} by {self.x_title} ({lines}), in {len(self.panels)} drawings: {names}."


@dataclass(frozen=True)
class Dot:
    """The value of one series (a method, a site) in one place (an environment, a column), with its interval."""

    place: str
    series: str
    value: float
    low: float
    high: float
    forecast: bool = False  # the interval is where a new value is expected


@dataclass(frozen=True)
class Dots:
    """Values with intervals, by place and series: methods by environment, or effects by column and site."""

    title: str
    value_title: str
    dots: tuple[Dot, ...]
    note: str = ""
    place_title: str = "where"
    reference: float | None = None  # a value to compare with, drawn as a line
    percent: bool = False
    bars: bool = False  # drawn as bars from zero
    best: bool = False  # the highest value of each place is emphasized in the table of numbers

    @property
    def places(self) -> tuple[str, ...]:
        """The places, in the order of their first dots."""
        return tuple(dict.fromkeys(dot.place for dot in self.dots))

    @property
    def series(self) -> tuple[str, ...]:
        """The series, in the order of their first dots."""
        return tuple(dict.fromkeys(dot.series for dot in self.dots))

    def write(self, dot: Dot) -> str:
        """Return a value and its interval as text.

        Examples
        --------
        >>> Dots("", "accuracy", (), percent=True).write(Dot("a", "b", 0.5, 0.25, 0.75))
        '50% [25, 75]'
        """
        if not self.percent:
            return format_cell(Interval(dot.value, dot.low, dot.high), 2)
        largest = max((abs(other.value) for other in self.dots if not math.isnan(other.value)), default=1.0)
        digits = 0 if largest >= 0.05 else 1 if largest >= 0.005 else 2
        value = MISSING if math.isnan(dot.value) else f"{dot.value:.{digits}%}"
        return value if math.isnan(dot.low) else f"{value} [{100 * dot.low:.0f}, {100 * dot.high:.0f}]"

    def describe(self) -> str:
        """Return the figure in a sentence, for readers who cannot see it."""
        shown = [f"{dot.place}, {dot.series}: {self.write(dot)}" for dot in self.dots[:8]]
        more = f"; and {len(self.dots) - 8} more" if len(self.dots) > 8 else ""
        return f"{self.value_title} with intervals. {'; '.join(shown)}{more}."


@dataclass(frozen=True)
class Shares:
    """How each whole is made up of parts."""

    title: str
    wholes: tuple[str, ...]
    parts: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]  # (n_wholes, n_parts), rows sum to one
    sizes: tuple[int, ...]  # (n_wholes,)
    note: str = ""

    def describe(self) -> str:
        """Return the figure in a sentence, for readers who cannot see it."""
        shown = [
            f"{whole} ({size:,}): "
            + ", ".join(f"{part} {share:.0%}" for part, share in zip(self.parts[:4], shares[:4], strict=True))
            for whole, size, shares in zip(self.wholes[:6], self.sizes[:6], self.shares[:6], strict=True)
        ]
        return f"Bars of shares. {'; '.join(shown)}{'; …' if len(self.wholes) > 6 else ''}."


@dataclass(frozen=True)
class Picture:
    """A small picture in one color."""

    pixels: tuple[tuple[float, ...], ...]  # from 0 to 1
    color: int  # number of a series color
    caption: str


@dataclass(frozen=True)
class Pictures:
    """Groups of small pictures, each group under its name."""

    title: str
    groups: tuple[tuple[str, tuple[Picture, ...]], ...]
    note: str = ""

    def describe(self) -> str:
        """Return the figure in a sentence, for readers who cannot see it."""
        shown = [f"{name}: {', '.join(picture.caption for picture in found)}" for name, found in self.groups]
        return f"Pictures. {'; '.join(shown)}."


@dataclass(frozen=True)
class Sentences:
    """A list of sentences; text between backticks is shown as `code`, between stars as *emphasis*."""

    lines: tuple[str, ...]
    tone: Literal["plain", "finding", "warning"] = "plain"


Figure: TypeAlias = HeatMap | Curves | Panels | Dots | Shares | Pictures
Block: TypeAlias = Table | HeatMap | Curves | Panels | Dots | Shares | Pictures | Sentences


@dataclass(frozen=True)
class Section:
    """A part of the report under its own heading."""

    title: str
    intro: str
    blocks: tuple[Block, ...]
    folded: bool = False  # closed until the reader opens it


@dataclass(frozen=True)
class Answer:
    """What the reader came for: one sentence, a signal, and the few numbers behind it."""

    sentence: str
    signal: Literal["good", "protected", "caution", "bad", "unknown"]
    signal_text: str  # the signal in a few words
    numbers: Table | None = None  # situations by classifier
    advice: tuple[str, ...] = ()  # what to do next
    figure: Dots | None = None  # the picture that shows it, a site in each row


@dataclass(frozen=True)
class Highlight:
    """One number for the top of the page."""

    value: str
    label: str


@dataclass(frozen=True)
class Page:
    """A whole report: the answer first, then the sections."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    highlights: tuple[Highlight, ...] = ()
    answer: Answer | None = None

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks of all sections, the figure and the numbers of the answer before them."""
        first = () if self.answer is None else (self.answer.figure, self.answer.numbers)
        return (
            *(block for block in first if block is not None),
            *(block for section in self.sections for block in section.blocks),
        )


MOST_CELLS_DOWN, MOST_CELLS_ACROSS = 48, 40  # of a heat map
MOST_LINES, MOST_POINTS = 16, 50  # of curves
MOST_DOTS, MOST_WHOLES, MOST_PARTS, MOST_PICTURES, MOST_PANELS = 120, 40, 12, 24, 12


def figure_table(figure: Figure) -> Table:
    """Return the numbers of a figure as a table.

    Examples
    --------
    >>> from holdfast.reports.values import Shares
    >>> figure_table(Shares("", ("a",), ("no", "yes"), ((0.25, 0.75),), (8,))).rows
    (('a', 8, 0.25, 0.75),)
    """
    if isinstance(figure, HeatMap):
        pairs = zip(figure.rows, figure.values, strict=True)
        rows: list[tuple[Cell, ...]] = [(name, *values) for name, values in pairs]
        return Table(figure.title, (figure.row_title, *figure.columns), tuple(rows))
    if isinstance(figure, Curves):
        at = [dict(zip(line.x, line.y, strict=True)) for line in figure.lines]
        xs = sorted({x for line in figure.lines for x in line.x})
        columns = (figure.x_title, *(line.name for line in figure.lines))
        if figure.band is not None:
            columns += (f"{figure.band.name}: from", "to")
            at += [dict(zip(figure.band.x, limit, strict=True)) for limit in (figure.band.low, figure.band.high)]
        body = [(int(x) if float(x).is_integer() else x, *(values.get(x) for values in at)) for x in xs]
        return Table(figure.title, columns, tuple(body), digits=4)
    if isinstance(figure, Panels):
        names = [line.name for line in figure.panels[0][1]] if figure.panels else []
        points = [
            (name, x, *values)
            for name, lines in figure.panels
            for x, *values in zip(lines[0].x, *(line.y for line in lines), strict=True)
        ]
        return Table(figure.title, ("where", figure.x_title, *names), tuple(points), n_keys=1)
    if isinstance(figure, Dots):
        return _dots_table(figure)
    if isinstance(figure, Pictures):
        captions = [(name, picture.caption) for name, found in figure.groups for picture in found]
        return Table(figure.title, ("group", "picture"), tuple(captions))
    triples = zip(figure.wholes, figure.sizes, figure.shares, strict=True)
    rows = [(whole, size, *shares) for whole, size, shares in triples]
    return Table(figure.title, ("environment", "rows", *figure.parts), tuple(rows))


def _dots_table(figure: Dots) -> Table:
    """Return places by series."""
    cells = {(dot.place, dot.series): Interval(dot.value, dot.low, dot.high) for dot in figure.dots}
    rows: list[tuple[Cell, ...]] = []
    marked = []
    for number, place in enumerate(figure.places):
        found = [cells.get((place, series)) for series in figure.series]
        best = max((cell.value for cell in found if cell is not None and cell.value == cell.value), default=math.nan)
        winners = [column for column, cell in enumerate(found) if cell is not None and cell.value == best]
        if figure.best and len(winners) < len(figure.series):
            marked += [(number, 1 + column) for column in winners]
        rows.append((place, *found))
    return Table(figure.title, (figure.place_title, *figure.series), tuple(rows), marked=tuple(marked))


def crop_figure(figure: Figure, share: float = 1.0) -> Figure:
    """Return as much of a figure as a page can show, or a share of that; `write_assets` writes the whole table."""

    def most(number: int) -> int:
        return max(1, int(share * number))

    if isinstance(figure, HeatMap):
        rows, columns = figure.rows[: most(MOST_CELLS_DOWN)], figure.columns[: most(MOST_CELLS_ACROSS)]
        values = tuple(row[: len(columns)] for row in figure.values[: len(rows)])
        return replace(figure, rows=rows, columns=columns, values=values)
    if isinstance(figure, Curves):
        marked = [line for line in figure.lines if line.name == figure.marked]
        kept = [*marked, *(line for line in figure.lines if line.name != figure.marked)][: most(MOST_LINES)]
        return replace(figure, lines=tuple(_thin(line, most(MOST_POINTS)) for line in figure.lines if line in kept))
    if isinstance(figure, Panels):
        return replace(figure, panels=figure.panels[: most(MOST_PANELS)])
    if isinstance(figure, Dots):
        shown = figure.dots[: most(MOST_DOTS)]
        if len(shown) < len(figure.dots) and len(figure.places) > 1:  # no place is cut in two
            whole = tuple(dot for dot in shown if dot.place != figure.dots[len(shown)].place)
            shown = whole or shown
        return replace(figure, dots=shown)
    if isinstance(figure, Pictures):
        return replace(figure, groups=tuple((name, found[: most(MOST_PICTURES)]) for name, found in figure.groups))
    n_wholes = min(len(figure.wholes), most(MOST_WHOLES))
    return replace(
        figure,
        wholes=figure.wholes[:n_wholes],
        sizes=figure.sizes[:n_wholes],
        parts=figure.parts[:MOST_PARTS],
        shares=tuple(shares[:MOST_PARTS] for shares in figure.shares[:n_wholes]),
    )


def _thin(line: Line, most: int) -> Line:
    """Return a line with at most so many points, the first and the last among them."""
    n = len(line.x)
    if n <= most:
        return line
    numbers = sorted({round(place * (n - 1) / max(most - 1, 1)) for place in range(most)})
    return replace(line, x=tuple(line.x[i] for i in numbers), y=tuple(line.y[i] for i in numbers))
