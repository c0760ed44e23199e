"""Figures as tables, for files and for those who do not see them; and figures cut to what a page can carry."""

from __future__ import annotations

from dataclasses import replace

from holdfast.reports.story import Curves, Dots, Figure, HeatMap, Line
from holdfast.reports.tables import Cell, Interval, Table

MOST_CELLS_DOWN, MOST_CELLS_ACROSS = 48, 40  # of a heat map
MOST_LINES, MOST_POINTS = 16, 50  # of curves
MOST_DOTS, MOST_WHOLES, MOST_PARTS = 120, 40, 12


def figure_table(figure: Figure) -> Table:
    """Return the numbers of a figure as a table.

    Examples
    --------
    >>> from holdfast.reports.story import Shares
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
        body = [(int(x) if float(x).is_integer() else x, *(values.get(x) for values in at)) for x in xs]
        return Table(figure.title, columns, tuple(body), digits=4)
    if isinstance(figure, Dots):
        rows = [(dot.place, dot.series, Interval(dot.value, dot.low, dot.high)) for dot in figure.dots]
        return Table(figure.title, ("where", "method", figure.value_title), tuple(rows))
    triples = zip(figure.wholes, figure.sizes, figure.shares, strict=True)
    rows = [(whole, size, *shares) for whole, size, shares in triples]
    return Table(figure.title, ("environment", "rows", *figure.parts), tuple(rows))


def crop_figure(figure: Figure, share: float = 1.0) -> Figure:
    """Return as much of a figure as a page can carry, or a share of that; `write_assets` keeps the whole table."""

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
    if isinstance(figure, Dots):
        return replace(figure, dots=figure.dots[: most(MOST_DOTS)])
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
