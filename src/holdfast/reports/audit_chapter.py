"""The section about the audit: its sentences, what stands behind them, and the whole ranking."""

from __future__ import annotations

from typing import Any

from holdfast.reports.story import Block, Section, Sentences
from holdfast.reports.tables import Cell, Table

MOST_FINDINGS = 300
# Column of the audit's frame -> what readers see.
COLUMNS = {
    "feature": "feature",
    "judged": "environment",
    "judge": "judge",
    "label": "label",
    "environment_correlation": "whole environment",
    "correct_soft": "correct half (soft)",
    "mistaken_soft": "mistaken half (soft)",
    "correct_hard": "correct half (hard)",
    "mistaken_hard": "mistaken half (hard)",
    "flip_score": "flip score",
    "p_value": "p",
    "q_value": "q",
    "named": "named",
    "explained_by": "explained by",
}


def audit_section(audit: Any, reliance: Any = None) -> Section | None:
    """Tell which correlations not to trust.

    Parameters
    ----------
    audit : object or None
        Anything with `sentences()`, `evidence` (sentences about what can be concluded) and `to_frame()`.
    reliance : object or None
        Anything with `to_frame()`: what classifiers rely on, a row for each feature.
    """
    blocks: list[Block] = []
    if audit is not None:
        evidence = tuple(str(line) for line in audit.evidence)
        findings = tuple(str(line) for line in audit.sentences() if str(line) not in evidence)
        tables = [table for table in (audit_table(audit),) if table is not None]
        blocks += [*([Sentences(findings, "finding")] if findings else []), Sentences(evidence), *tables]
    if reliance is not None:
        blocks.append(reliance_table(reliance))
    if not blocks:
        return None
    intro = (
        "Features, words or attributes whose correlation with the label changes between environments, judged on soft "
        "halves, calibrated and out of fold. In the soft mistaken half, a stable feature does not correlate with the "
        "label."
    )
    return Section("Audit: what not to trust", intro, tuple(blocks))


def audit_table(audit: Any) -> Table | None:
    """Return the ranking; None where there is none."""
    frame = audit.to_frame()
    columns = [name for name in COLUMNS if name in frame.columns]
    if not len(frame) or not columns:
        return None
    shown = frame[columns].head(MOST_FINDINGS)
    # A correlation of 1e-16 is rounding; a p value of that size is not.
    exact = ["p_value", "q_value"]
    rounded = shown.round(dict.fromkeys([name for name in columns if name not in exact], 9))
    rows = tuple(tuple(_cell(value) for value in row) for row in rounded.itertuples(index=False, name=None))
    left_out = len(frame) - len(shown)
    note = "p and q: of the change between environments; named: a discovery that no stronger one explains."
    if left_out:
        note += f" {left_out:,} more findings are left out."
    marked = tuple((n, 0) for n, row in enumerate(rows) if "named" in columns and row[columns.index("named")] is True)
    title = "All findings, correlations with the label"
    return Table(title, tuple(COLUMNS[name] for name in columns), rows, note, marked=marked)


def reliance_table(reliance: Any) -> Table:
    """Return how much each classifier's accuracy falls without each feature."""
    frame = reliance.to_frame()
    rows = tuple(tuple(_cell(v) for v in row) for row in frame.head(MOST_FINDINGS).itertuples(index=False, name=None))
    columns = tuple(str(name).replace("n_rows", "rows") for name in frame.columns)
    note = "Fall of accuracy, and share of predictions that change, when a column is shuffled or a word is taken out."
    return Table("What the classifiers rely on", columns, rows, note)


def _cell(value: Any) -> Cell:
    """Return a frame's value as a cell: numpy's numbers as Python's, missing as None."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)
