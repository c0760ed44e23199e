"""How results look in notebooks: a sentence, its reasons, and a small table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

MOST_ROWS = 12


def html_card(
    answer: str, lines: Sequence[str] = (), header: Sequence[str] = (), rows: Sequence[Sequence[Any]] = ()
) -> str:
    """Return an answer as HTML.

    Parameters
    ----------
    answer : str
        Text between backticks is shown as code.
    lines : sequence of str
        Sentences below it.
    header : sequence of str
    rows : sequence of cells
        Texts, numbers, and values with `low` and `high`.

    Examples
    --------
    >>> html_card("`<b>` is fine.")
    '<div><p><strong><code>&lt;b&gt;</code> is fine.</strong></p></div>'
    """
    parts = [Markup("<p><strong>{}</strong></p>").format(_coded(answer))]
    parts += [Markup("<p>{}</p>").format(_coded(line)) for line in lines]
    if rows:
        heads = Markup("").join(Markup("<th>{}</th>").format(name) for name in header)
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(_cell(cell)) for cell in row))
            for row in rows[:MOST_ROWS]
        )
        parts.append(Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(heads, body))
        if len(rows) > MOST_ROWS:
            parts.append(Markup("<p>… and {} more</p>").format(len(rows) - MOST_ROWS))
    return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def _coded(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _cell(cell: Any) -> str:
    """Return a value with its limits, a number with three digits, or a text."""
    if hasattr(cell, "low"):
        if math.isnan(cell.value):
            return "–"
        return f"{cell.value:.2f} [{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
