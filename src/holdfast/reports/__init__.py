"""Reports about fitted estimators and finished runs: one HTML file, or tables and figures in files of their own.

`tell_story` makes a `Story` of a fitted estimator, `write_report` one HTML file of a story, `write_assets` its tables
(Markdown, LaTeX, CSV) and figures (SVG). Stories can be put together by hand: they are plain values.
"""

from __future__ import annotations

from holdfast.metrics import Interval
from holdfast.reports.chapters import audit_story, compare_on_rows, comparison_dots, seeds_interval, tell_story
from holdfast.reports.html import render_report, write_report
from holdfast.reports.tables import to_csv, to_latex, to_markdown, write_assets
from holdfast.reports.values import (
    Answer,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Highlight,
    Line,
    Section,
    Sentences,
    Shares,
    Spread,
    Story,
    Table,
)

__all__ = [
    "Answer",
    "Curves",
    "Dot",
    "Dots",
    "HeatMap",
    "Highlight",
    "Interval",
    "Line",
    "Section",
    "Sentences",
    "Shares",
    "Spread",
    "Story",
    "Table",
    "audit_story",
    "compare_on_rows",
    "comparison_dots",
    "render_report",
    "seeds_interval",
    "tell_story",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_assets",
    "write_report",
]
