"""What `holdfast report` and `fit --report` tell: saved classifiers with their tables, and folders of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.exceptions import ParameterError, SavedModelError

if TYPE_CHECKING:
    from holdfast.audit import Reliance
    from holdfast.reports import Dots, Story
    from holdfast.tables.audits import Rows
    from holdfast.tables.classifier import TableClassifier

PAGES = (".html", ".htm")


def check_page(file: Path, *, option: str, overwrite: bool) -> None:
    """Refuse a page of another type, in a folder that is not there, or that exists (without `overwrite`)."""
    from holdfast.tables.outputs import refuse_inside_model

    if file.suffix.lower() not in PAGES:
        raise ParameterError(f"{option} {file} is of the unknown type {file.suffix!r}. Use one of {', '.join(PAGES)}.")
    if not file.parent.is_dir():
        raise ParameterError(f"{option} {file} lies in a folder that does not exist. Create it first.")
    refuse_inside_model(file, option)
    if file.is_dir() or (file.exists() and not overwrite):
        raise ParameterError(f"{option} {file} exists. Choose another file, or pass --overwrite.")


def story_of_runs(folder: Path) -> Story:
    """Tell the runs of a sweep or a reproduction."""
    from holdfast.lab.pages import runs_story
    from holdfast.lab.store import RunStore

    return runs_story(RunStore(folder).records(), title=f"Runs in {folder.name or folder}")


def story_of_estimator(folder: Path, fitted: Any) -> Story:
    """Tell an estimator that was saved without a table."""
    from holdfast.reports import tell_story

    if not hasattr(fitted, "environments_"):
        raise SavedModelError(
            f"{folder} holds a {type(fitted).__name__}, which knows no environments. Pass a folder that 'fit', 'demo', "
            "'sweep' or 'reproduce' wrote."
        )
    return tell_story(fitted, title=f"{type(fitted).__name__} in {folder.name or folder}")


def story_of_table(
    fitted: TableClassifier,
    *,
    title: str,
    rows: Rows | None = None,
    comparison: Dots | None = None,
    reliance: Reliance | None = None,
    audit: bool = True,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    jobs: int = 1,
    warnings: Sequence[str] | None = None,
) -> Story:
    """Tell a classifier that was fitted on a table; with the rows it was fitted on, also what changes in them."""
    from holdfast.datasets import Split
    from holdfast.reports import tell_story
    from holdfast.tables.audits import audit_rows

    told: dict[str, Any] = {**fitted.names, "label": fitted.roles.label, **(settings or {})}
    told["environment columns"] = ", ".join(fitted.roles.environments)
    training = found = None
    if rows is not None:
        frame = rows.attributes
        attributes = {} if frame is None else {str(name): frame[name].to_numpy() for name in frame}
        training = Split(rows.features, rows.y, rows.environments, attributes)
        if audit and len(fitted.classifier.environments_) > 1:
            found = audit_rows(rows, level=0.05)
    return tell_story(
        fitted.classifier,
        title=title,
        training=training,
        comparison=comparison,
        audit=found,
        reliance=reliance,
        settings=told,
        warnings=fitted.warnings if warnings is None else warnings,
    )


def compare_saved(classifiers: Mapping[str, TableClassifier], table: Path, *, attributes: Sequence[str]) -> Dots:
    """Compare saved classifiers on the same labeled rows, by environment and by attribute."""
    from holdfast.datasets import Split
    from holdfast.reports import compare_on_rows
    from holdfast.tables.evaluation import predict_labeled, read_labeled
    from holdfast.tables.files import TableFile

    first, *others = classifiers.values()
    for other in others:
        first.check_same_label(other)
    file = TableFile(table)
    labeled = read_labeled(file, first, environments=(), attributes=attributes)
    answers = {name: predict_labeled(file, fitted).labels for name, fitted in classifiers.items()}
    rows = Split(labeled.y, labeled.y, labeled.environments, labeled.attributes)
    return compare_on_rows(answers, rows, known=sorted(labeled.known))


def short_names(folders: Sequence[Path], classifiers: Sequence[TableClassifier]) -> list[str]:
    """Return a name for each classifier: its method, with the folder where two have the same."""
    methods = [fitted.names.get("method", "classifier") for fitted in classifiers]
    return [
        method if methods.count(method) == 1 else f"{method} ({folder})"
        for method, folder in zip(methods, folders, strict=True)
    ]
