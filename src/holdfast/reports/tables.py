"""One table, written as Markdown, LaTeX or CSV: cells are values, and each form escapes them in its own way."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from holdfast.exceptions import InputError

MISSING = "–"


@dataclass(frozen=True)
class Interval:
    """A value with the limits of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """A mean with the standard deviation of what it is the mean of."""

    value: float
    spread: float


Cell: TypeAlias = str | bool | int | float | Interval | Spread | None


@dataclass(frozen=True)
class Table:
    r"""Rows of values under column names.

    Examples
    --------
    >>> print(to_markdown(Table("", ("method", "accuracy"), (("PI", Interval(0.5, 0.25, 0.75)), ("a|b", None)))))
    | method | accuracy |
    |---|--:|
    | PI | 0.500 [0.250, 0.750] |
    | a\|b | – |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 3  # behind the point
    marked: tuple[tuple[int, int], ...] = ()  # (row, column) of cells to emphasize
    kind: Literal["table"] = "table"

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


def to_markdown(table: Table) -> str:
    """Return the table in GitHub's Markdown, under its title and above its note."""
    header = [_markdown(name) for name in table.columns]
    rule = ["--:" if number else "---" for number in table.numeric()]
    lines = [_markdown_row(header), "|" + "|".join(rule) + "|"]
    for cells in _formatted(table, "**{}**", _markdown, str):
        lines.append(_markdown_row(cells))
    title = [f"**{_markdown(table.title)}**", ""] if table.title else []
    note = ["", _markdown(table.note)] if table.note else []
    return "\n".join([*title, *lines, *note])


def to_latex(table: Table) -> str:
    r"""Return the table as a LaTeX `table` with the rules of booktabs; title and note are its caption."""
    alignment = "".join("r" if number else "l" for number in table.numeric())
    rows = [[_latex(name) for name in table.columns], *_formatted(table, r"\textbf{{{}}}", _latex, _latex)]
    header, *body = (" & ".join(row) + r" \\" for row in rows)
    caption = _latex(" ".join(part for part in (table.title, table.note) if part))
    inside = [
        r"\centering",
        *([rf"\caption{{{caption}}}"] if caption else []),
        rf"\begin{{tabular}}{{{alignment}}}",
        *(f"  {line}" for line in (r"\toprule", header, r"\midrule", *body, r"\bottomrule")),
        r"\end{tabular}",
    ]
    return "\n".join([r"\begin{table}", *(f"  {line}" for line in inside), r"\end{table}"])


def to_csv(table: Table) -> str:
    """Return the table as CSV with full precision; an interval or a spread takes columns of its own."""
    parts = [_csv_parts(table, column) for column in range(len(table.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([clean_text(name + end) for name, ends in zip(table.columns, parts, strict=True) for end in ends])
    for row in table.rows:
        writer.writerow(
            [value for cell, ends in zip(row, parts, strict=True) for value in _csv_values(cell, tuple(ends))]
        )
    return text.getvalue()


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
        return f"{_fixed(cell.value, digits)} ± {_fixed(cell.spread, digits)}"
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
    """Return one line of text, without the control characters and turns of direction that garble what is around it."""
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
        return f"{number:.{digits}f}"
    return MISSING if math.isnan(number) else "∞" if number > 0 else "-∞"


_MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {character: f"\\{character}" for character in "\\`*_[]|~$#"}
)
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {character: f"{{{character}}}" for character in "[]*"}  # after \\ they would be an option of it
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "`": r"\textasciigrave{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\N{WORD JOINER}": "{}",  # between hyphens, which would become a dash
        "–": "--",
        "…": r"\ldots{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": "$-$",
        "∞": r"$\infty$",
        "α": r"$\alpha$",
        "η": r"$\eta$",
    }
)


def _markdown(text: str) -> str:
    return clean_text(text).translate(_MARKDOWN)


def _latex(text: str) -> str:
    text = re.sub(r"(?<![\w.])-(?=[\d∞])", "−", clean_text(text))
    return re.sub(r"-(?=-)", "-\N{WORD JOINER}", text).translate(_LATEX)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _formatted(
    table: Table, emphasis: str, escape_text: Callable[[str], str], escape_number: Callable[[str], str]
) -> list[list[str]]:
    """Return every row's cells escaped, the marked ones emphasized."""
    marked = set(table.marked)

    def written(cell: Cell, place: tuple[int, int]) -> str:
        text = (escape_text if isinstance(cell, str) else escape_number)(format_cell(cell, table.digits))
        return emphasis.format(text) if place in marked else text

    return [
        [written(cell, (number, column)) for column, cell in enumerate(row)] for number, row in enumerate(table.rows)
    ]


def _csv_parts(table: Table, column: int) -> list[str]:
    """Return the endings of the columns that one column of the table becomes."""
    cells = [row[column] for row in table.rows]
    if any(isinstance(cell, Interval) for cell in cells):
        return ["", " low", " high"]
    return ["", " spread"] if any(isinstance(cell, Spread) for cell in cells) else [""]


def _csv_values(cell: Cell, ends: tuple[str, ...]) -> list[str]:
    """Return one cell's values, an empty one for each that it has not."""
    if isinstance(cell, Interval):
        values: tuple[Cell, ...] = (cell.value, cell.low, cell.high)
    elif isinstance(cell, Spread):
        values = (cell.value, cell.spread)
    else:
        values = (cell,)
    return [*map(_csv_value, values), *([""] * (len(ends) - len(values)))][: len(ends)]


def _csv_value(value: Cell) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean_text(value) if isinstance(value, str) else repr(value)
