"""Write tables as Markdown, LaTeX and CSV, and all tables and figures of a page as files."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from holdfast.metrics import Interval
from holdfast.reports.svg import save_figure
from holdfast.reports.values import (
    Cell,
    Page,
    Sentences,
    Spread,
    Table,
    clean_text,
    figure_table,
    format_cell,
)
from holdfast.saving.files import storage_errors, write_bytes


def to_markdown(table: Table) -> str:
    r"""Return the table in GitHub's Markdown, under its title and above its note.

    Examples
    --------
    >>> print(to_markdown(Table("", ("method", "accuracy"), (("PI", Interval(0.5, 0.25, 0.75)), ("a|b", None)))))
    | method | accuracy |
    |---|--:|
    | PI | 0.500 [0.250, 0.750] |
    | a\|b | – |
    """
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


FORMS = {".md": to_markdown, ".tex": to_latex, ".csv": to_csv}


def write_assets(content: Page, folder: str | os.PathLike[str]) -> list[Path]:
    """Write every table of a page as .md, .tex and .csv, and every figure as .svg and .csv.

    Parameters
    ----------
    content : Page
    folder : path
        Created if it does not exist. Files are numbered in the order of the page: 03-label-balance.svg.

    Returns
    -------
    list of pathlib.Path
        The files, in the order of the page.
    """
    folder = Path(folder)
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    blocks = [block for block in content.blocks() if not isinstance(block, Sentences)]
    written = []
    for number, block in enumerate(blocks, start=1):
        stem = folder / f"{number:02d}-{file_name(block.title)}"
        if isinstance(block, Table):
            written += [_write(stem.with_suffix(suffix), form(block)) for suffix, form in FORMS.items()]
        else:
            written.append(save_figure(stem.with_suffix(".svg"), block))
            written.append(_write(stem.with_suffix(".csv"), to_csv(figure_table(block))))
    return written


def file_name(title: str) -> str:
    """Return a title as a part of a file name, without any special characters.

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
