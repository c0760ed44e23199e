"""An audit from beginning to end: columns, judges, comparisons, findings."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast.audit.columns import Block, Columns, encode_table, encode_texts, is_sparse
from holdfast.audit.contrasts import make_sides
from holdfast.audit.evidence import labels_to_test, weigh_partition, with_reach
from holdfast.audit.findings import make_findings, sharpness
from holdfast.audit.judges import Judges, default_judge, fit_judges, given_judges
from holdfast.audit.naming import CORRECTIONS, name_features
from holdfast.audit.results import Audit, sort_findings
from holdfast.environments import Environment, label_array, split_environments, unique_labels
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError
from holdfast.rows import is_text
from holdfast.seeding import RandomState, Seeding

log = logging.getLogger(__name__)

EXACT_FROM = 50_000_000  # rows × columns × comparisons from which on "auto" makes no permutations


def audit_data(
    X: Any,
    y: Any,
    environments: Any,
    *,
    attributes: Any = None,
    judge: Any = None,
    probabilities: Any = None,
    names: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    level: float = 0.05,
    correction: Literal["holm", "yekutieli", "hochberg"] = "holm",
    n_permutations: int | Literal["auto"] = "auto",
    n_folds: int = 20,
    min_group_size: int = 30,
    min_count: int = 10,
    n_words: tuple[int, int] = (1, 2),
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> Audit:
    """Rank the columns, words or attributes whose correlation with the label changes between environments.

    Parameters
    ----------
    X : frame, array, sparse matrix, sequence of texts, or None
        What judges see. Images (arrays of three or more axes) are not audited themselves: pass `attributes`. With
        `probabilities`, X may be None.
    y : labels of shape (n_rows,)
    environments : labels of shape (n_rows,)
    attributes : frame or array of shape (n_rows, n_attributes), optional
        Columns to audit that judges do not see.
    judge : scikit-learn classifier, optional
        Fitted on folds of each environment, on X as it is. By default a regularized logistic regression on the
        encoded columns.
    probabilities : array of shape (n_environments, n_rows, n_classes), optional
        Instead of `judge`: calibrated, a judge's own rows out of fold; environments and classes in sorted order.
    names : sequence of str, optional
        Column names of an array.
    groups : mapping of str to sequence of str, optional
        Columns that are one feature, by their names (the pixels of a picture, the values of a code that is spread over
        columns). Each group is one hypothesis, and so are the values of a categorical column without being told.
    level : float
        Chance that anything is named wrongly (with "holm"), or the expected share of wrong names.
    correction : {"holm", "yekutieli", "hochberg"}
        "holm" and "yekutieli" hold for tests that depend on one another in any way, "hochberg" if only positively.
    n_permutations : int or "auto"
        Exchanges of rows for the p values, made where Welch's test alone would name something; 0: none. "auto": 500,
        or 0 for very many rows.
    n_folds : int
        Folds that keep a judge from predicting rows it has seen, and tell how sure it is of itself.
    min_group_size : int
        Effective rows that an environment and a mistaken half must have.
    min_count : int
        Rows that a category or word must have.
    n_words : (int, int)
        Shortest and longest phrase of texts.
    n_jobs : int, optional
        Fits that run at the same time.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    Audit

    Examples
    --------
    >>> from holdfast.theory import toy
    >>> generator = np.random.default_rng(0)
    >>> cells = [generator.choice(8, size=2000, p=toy(eta).array.ravel()) for eta in (0.05, 0.3)]
    >>> x1, x2, y = np.unravel_index(np.concatenate(cells), (2, 2, 2))
    >>> columns, sites = np.column_stack([x1, x2]), np.repeat(["Boston", "Lyon"], 2000)
    >>> audit_data(columns, y, sites, names=["lesion", "scanner"]).named
    ('scanner',)
    """
    n_rows = len(y)
    classes, codes = _read_labels(y, n_rows)
    split = split_environments(environments, n_rows)
    if len(split) < 2:
        raise EnvironmentsError(
            "an audit compares environments, but environments has one label only. Pass at least two."
        )
    columns = _read_columns(X, attributes, names=names, min_count=min_count, n_words=n_words)
    if columns.n_rows != n_rows:
        raise FeaturesError(f"X has {columns.n_rows} rows where y has {n_rows}. Pass one label for each row.")
    if groups:
        columns = columns.grouped(groups)
    seeding = Seeding(random_state)
    if probabilities is not None:
        judges = given_judges(probabilities, len(split), n_rows, len(classes))
    else:
        inputs = _judge_inputs(X, columns) if judge is None else X
        estimator = default_judge(inputs) if judge is None else judge
        judges = fit_judges(
            estimator, inputs, codes, split, classes=classes, n_folds=n_folds, seeding=seeding, n_jobs=n_jobs
        )
    return audit_partitions(
        columns,
        codes,
        classes,
        split,
        judges,
        level=level,
        correction=correction,
        n_permutations=n_permutations,
        min_group_size=min_group_size,
        random_state=random_state,
    )


def audit_partitions(
    columns: Columns,
    y: NDArray[np.intp],
    classes: NDArray[Any],
    environments: Sequence[Environment],
    judges: Judges,
    *,
    level: float = 0.05,
    correction: Literal["holm", "yekutieli", "hochberg"] = "holm",
    n_permutations: int | Literal["auto"] = "auto",
    min_group_size: int = 30,
    random_state: RandomState = 0,
) -> Audit:
    """Audit encoded columns with judges that are already there; parameters as in `audit_data`.

    Parameters
    ----------
    columns : Columns
        From `encode_table` or `encode_texts`.
    y : array of shape (n_rows,)
        Class codes.
    classes : array of shape (n_classes,)
        The label behind each code.
    environments : sequence of Environment
    judges : Judges
        From `fit_judges`, or `given_judges` with probabilities made elsewhere.
    """
    if not 0 < level < 1:
        raise ParameterError(f"The 'level' parameter of an audit must lie between 0 and 1. Got {level!r} instead.")
    if correction not in CORRECTIONS:
        choices = ", ".join(map(repr, CORRECTIONS))
        raise ParameterError(
            f"The 'correction' parameter of an audit must be one of {choices}. Got {correction!r} instead."
        )
    values = standardized(columns.values)
    evidence, sides = {}, {}
    for home, away in itertools.permutations(range(len(environments)), 2):
        pair = (environments[home], environments[away])
        evidence[home, away] = weigh_partition(judges.probabilities[home], y, *pair, min_group_size)
        if evidence[home, away].problem is None:
            seen = judges.probabilities[home], judges.fold_probabilities[home], pair[0].rows, pair[1].rows
            sides[home, away] = {
                label: make_sides(values, y, *seen, label) for label in labels_to_test(y, pair, len(classes))
            }
    if n_permutations == "auto":
        n_permutations = 500 if len(y) * len(columns) * sum(map(len, sides.values())) <= EXACT_FROM else 0
    hypotheses = columns.hypotheses()
    naming = name_features(
        sides,
        [members for _, members in hypotheses],
        level=level,
        correction=correction,
        n_permutations=n_permutations,
        generator=Seeding(random_state).generator("permutations"),
    )
    log.info("audit: %d columns, %d comparisons, %d named", len(columns), len(sides), len(naming.named))
    findings = make_findings(columns, values, y, classes, environments, judges.probabilities, naming, level)
    partitions = tuple(with_reach(item, naming, pair, values, columns.names, level) for pair, item in evidence.items())
    return Audit(sort_findings(findings), partitions, level, naming.n_tests, sharpness(naming, environments))


def standardized(values: Block) -> Block:
    """Return columns of mean 0 and variance 1 (sparse ones only scaled): correlations do not notice, rounding does."""
    if is_sparse(values):
        scale = np.abs(values).max(axis=0).toarray().ravel()
        return sp.csr_array(values @ sp.diags_array(1.0 / np.where(scale > 0, scale, 1.0)))
    centered = values - values.mean(axis=0)
    scale = centered.std(axis=0)
    # What is left of a constant column is rounding; it must not be blown up to variance one.
    varies = scale > 1e-12 * np.maximum(np.abs(values).max(axis=0), 1e-300)
    return np.where(varies, centered / np.where(varies, scale, 1.0), 0.0)


def _read_labels(y: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes and each row's code."""
    labels = label_array(y, n_rows, what="y", error=LabelsError, example="frame['label']")
    classes, codes = unique_labels(labels, what="y", error=LabelsError)
    if len(classes) < 2 or len(classes) > max(20, n_rows // 10):
        raise LabelsError(
            f"y has {len(classes)} different labels in {n_rows} rows. An audit needs two or a few classes."
        )
    return classes, codes


def _read_columns(
    X: Any, attributes: Any, *, names: Sequence[str] | None, min_count: int, n_words: tuple[int, int]
) -> Columns:
    """Return what is audited: the columns or words of X, and the attributes."""
    extra = None if attributes is None else encode_table(attributes, min_count=min_count).as_attributes()
    if X is None or getattr(X, "ndim", 2) > 2:
        if extra is None:
            raise FeaturesError("images are audited through attributes. Pass attributes= with one row for each image.")
        return extra
    if is_text(X):
        columns = encode_texts(list(X), n_words=n_words, min_count=min_count)
    else:
        columns = encode_table(X, names=names, min_count=min_count)
    return columns if extra is None else columns.beside(extra)


def _judge_inputs(X: Any, columns: Columns) -> Block:
    """Return what the default judge is fitted on: encoded inputs, or an image's pixels in a row."""
    if columns.inputs.any():
        return columns.values[:, np.flatnonzero(columns.inputs)]
    if X is None:
        raise FeaturesError("without X there is nothing to fit judges on. Pass X, or probabilities= made elsewhere.")
    return np.asarray(X).reshape(len(X), -1)
