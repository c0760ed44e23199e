"""Reports about fitted estimators and finished runs: HTML files, and tables and figures as single files.

`estimator_page` makes a `Page` about a fitted estimator, `write_report` an HTML file of it, `write_assets` its tables
(Markdown, LaTeX, CSV) and figures (SVG). Pages can be put together by hand: they are plain values.
"""

from __future__ import annotations

from holdfast.metrics import Interval
from holdfast.reports.chapters import Evidence, estimator_page
from holdfast.reports.clinical import clinical_section
from holdfast.reports.comparisons import compare_on_rows, comparison_dots, seeds_interval
from holdfast.reports.diagnosis import diagnosis_page
from holdfast.reports.findings import audit_page
from holdfast.reports.html import render_report, write_report
from holdfast.reports.regression import regression_page
from holdfast.reports.scores import score_page
from holdfast.reports.tables import to_csv, to_latex, to_markdown, write_assets
from holdfast.reports.values import (
    Answer,
    Band,
    Curves,
    Dot,
    Dots,
    HeatMap,
    Highlight,
    Line,
    Page,
    Panels,
    Section,
    Sentences,
    Shares,
    Spread,
    Table,
)

__all__ = [
    "Answer",
    "Band",
    "Curves",
    "Dot",
    "Dots",
    "Evidence",
    "HeatMap",
    "Highlight",
    "Interval",
    "Line",
    "Page",
    "Panels",
    "Section",
    "Sentences",
    "Shares",
    "Spread",
    "Table",
    "audit_page",
    "clinical_section",
    "compare_on_rows",
    "comparison_dots",
    "diagnosis_page",
    "estimator_page",
    "regression_page",
    "render_report",
    "score_page",
    "seeds_interval",
    "to_csv",
    "to_latex",
    "to_markdown",
    "write_assets",
    "write_report",
]
