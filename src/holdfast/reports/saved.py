"""The page about a saved classifier of a table, alone or compared with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.datasets.values import Split
from holdfast.diagnosis.answer import lead
from holdfast.reports.chapters import Evidence, estimator_page
from holdfast.reports.comparisons import compare_on_rows
from holdfast.reports.sections import run_next
from holdfast.stable.verdict import verdict_of
from holdfast.tables.audits import audit_rows
from holdfast.tables.evaluation import predict_labeled, read_labeled

if TYPE_CHECKING:
    from holdfast.auditing import Reliance
    from holdfast.diagnosis.clinical import ClinicalReport
    from holdfast.reports.values import Dots, Page
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.roles import TableRows


def table_page(
    fitted: TableClassifier,
    *,
    title: str,
    rows: TableRows | None = None,
    comparison: Dots | None = None,
    clinical: ClinicalReport | None = None,
    reliance: Reliance | None = None,
    audit: bool = True,
    settings: Mapping[str, Any] | None = None,
    following: str = "",
) -> Page:
    """Return the page about a classifier fitted on a table; with its training rows, also what changes in them."""
    told: dict[str, Any] = {**fitted.names, "label": fitted.roles_.label, **(settings or {})}
    told["environment columns"] = ", ".join(fitted.roles_.environments)
    training = found = None
    if rows is not None:
        frame = rows.attributes
        attributes = {} if frame is None else {str(name): frame[name].to_numpy() for name in frame}
        training = Split(rows.features, rows.y, rows.environments, attributes)
        # A verdict has already looked at every feature; an audit then adds the attributes.
        if (
            audit
            and len(fitted.method_.environments_) > 1
            and (frame is not None or verdict_of(fitted.method_) is None)
        ):
            found = audit_rows(rows, level=0.05)
    evidence = Evidence(
        training=training,
        comparison=comparison,
        clinical=clinical,
        audit=found,
        reliance=reliance,
        settings=told,
        warnings=None if fitted.warnings_ is None else (*fitted.notes_, *fitted.warnings_),
    )
    page = estimator_page(fitted.method_, evidence, title=title, advice=run_next(following))
    if rows is None or page.answer is None or not any(problem.is_headline for problem in rows.problems):
        return page
    said = lead(rows.problems, rows.roles.label, page.answer.sentence)
    return replace(page, answer=replace(page.answer, sentence=said, signal="bad", signal_text="Correct the data first"))


def compare_saved(classifiers: Mapping[str, TableClassifier], table: str, *, attributes: Sequence[str]) -> Dots:
    """Compare saved classifiers on the same labeled rows, by environment and by attribute."""
    first, *others = classifiers.values()
    for other in others:
        first.check_same_label(other)
    labeled = read_labeled(first, table, attributes=attributes)
    answers = {name: predict_labeled(labeled, fitted).labels for name, fitted in classifiers.items()}
    rows = Split(labeled.y, labeled.y, labeled.environments, labeled.attributes)
    return compare_on_rows(answers, rows, known=sorted(labeled.known))


def short_names(folders: Sequence[Path], classifiers: Sequence[TableClassifier]) -> list[str]:
    """Return a name for each classifier: its method, with the folder where two have the same."""
    methods = [fitted.names["method"] for fitted in classifiers]
    return [
        method if methods.count(method) == 1 else f"{method} ({folder})"
        for method, folder in zip(methods, folders, strict=True)
    ]
