"""Run an audit: encode the columns, fit the model of the decision, and collect the findings."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.auditing.results import Audit
from holdfast.environments import Environment, PerRow, label_array, split_environments, unique_labels
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError
from holdfast.rows.kinds import is_text
from holdfast.stable.columns import Columns, encode_table, encode_texts
from holdfast.stable.design import make_design
from holdfast.stable.findings import find
from holdfast.stable.hypotheses import posteriors

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How an audit is made.

    Parameters
    ----------
    level : float
        Family-wise error rate of the tests of equal effects.
    min_count : int
        Rows that a category or a word must have.
    n_words : pair of int
        Words in the shortest and in the longest phrase of texts.
    groups : mapping of str to sequence of str
        Columns that are one feature together, by a name for each group.
    """

    level: float = 0.05
    min_count: int = 10
    n_words: tuple[int, int] = (1, 1)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ParameterError(
                f"The 'level' parameter of an audit must lie between 0 and 1. Got {self.level!r} instead."
            )


def audit_data(
    X: Any,
    y: Any,
    environments: PerRow,
    settings: AuditSettings | None = None,
    *,
    attributes: Any = None,
    names: Sequence[str] | None = None,
) -> Audit:
    """Name the columns, words or attributes whose effect on the label differs between environments.

    Parameters
    ----------
    X : frame, array, sparse matrix, sequence of texts, or None
        For images (arrays with three or more axes) only `attributes` are audited.
    y : labels of shape (n_rows,)
    environments : labels of shape (n_rows,)
    settings : AuditSettings, optional
    attributes : frame or array of shape (n_rows, n_attributes), optional
        Further columns to audit that are not features.
    names : sequence of str, optional
        Column names of an array.

    Examples
    --------
    >>> from holdfast.lab.theory import toy
    >>> generator = np.random.default_rng(0)
    >>> cells = [generator.choice(8, size=2000, p=toy(eta).array.ravel()) for eta in (0.05, 0.3)]
    >>> x1, x2, y = np.unravel_index(np.concatenate(cells), (2, 2, 2))
    >>> columns, sites = np.column_stack([x1, x2]), np.repeat(["Boston", "Lyon"], 2000)
    >>> audit_data(columns, y, sites, names=["lesion", "scanner"]).named
    ('scanner',)
    """
    settings = settings or AuditSettings()
    n_rows = len(y)
    classes, codes = _read_labels(y, n_rows)
    split = split_environments(environments, n_rows)
    if len(split) < 2:
        raise EnvironmentsError(
            "An audit compares environments, but environments has one label only. Pass at least two."
        )
    columns = read_columns(X, attributes, settings, names=names)
    if columns.n_rows != n_rows:
        raise FeaturesError(f"X has {columns.n_rows} rows where y has {n_rows}. Pass one label for each row.")
    return audit_columns(columns, codes, classes, split, settings)


def audit_columns(
    columns: Columns,
    y: NDArray[np.intp],
    classes: NDArray[Any],
    environments: Sequence[Environment],
    settings: AuditSettings,
    *,
    weights: NDArray[np.float64] | None = None,
    subjects: NDArray[np.intp] | None = None,
) -> Audit:
    """Audit encoded columns; `y` are class codes, `classes` their labels, the rest is that of `make_design`."""
    sites = np.empty(len(y), dtype=np.intp)
    for number, environment in enumerate(environments):
        sites[environment.rows] = number
    design = make_design(columns, y, sites, n_classes=len(classes), weights=weights, subjects=subjects)
    names = tuple(environment.name for environment in environments)
    found = tuple(find(columns, design, posteriors(design), classes, names, sites).values())
    log.info("audit: %d columns, %d named", columns.n_columns, sum(finding.named for finding in found))
    return Audit(found, names, settings.level, columns.n_columns)


def _read_labels(y: PerRow, n_rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes and each row's code."""
    labels = label_array(y, n_rows, what="y", error=LabelsError, example="frame['label']")
    classes, codes = unique_labels(labels, what="y", error=LabelsError)
    if len(classes) < 2 or len(classes) > max(20, n_rows // 10):
        raise LabelsError(
            f"y has {len(classes)} different labels in {n_rows} rows. An audit needs two or a few classes."
        )
    return classes, codes


def read_columns(X: Any, attributes: Any, settings: AuditSettings, *, names: Sequence[str] | None = None) -> Columns:
    """Return what is audited: the columns or words of X, and the attributes."""
    extra = None if attributes is None else encode_table(attributes, min_count=settings.min_count).as_attributes()
    if X is None or getattr(X, "ndim", 2) > 2:
        if extra is None:
            raise FeaturesError("Images are audited through attributes. Pass attributes= with one row for each image.")
        columns = extra
    else:
        if is_text(X):
            columns = encode_texts(list(X), n_words=settings.n_words, min_count=settings.min_count)
        else:
            columns = encode_table(X, names=names, min_count=settings.min_count)
        columns = columns if extra is None else columns.beside(extra)
    return columns.grouped(settings.groups) if settings.groups else columns
