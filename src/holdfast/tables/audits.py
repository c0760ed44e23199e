"""Audit a table, and measure what classifiers of it rely on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from holdfast.auditing import (
    Audit,
    AuditSettings,
    Columns,
    Reliance,
    audit_columns,
    encode_table,
    encode_texts,
    relied_on,
)
from holdfast.environments import unique_labels
from holdfast.exceptions import FeaturesError, LabelsError, ParameterError, TableError
from holdfast.seeding import Seeding
from holdfast.tables.stages import split_rows

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.roles import TableRows

MIN_COUNT = 10  # rows that a word needs
MOST_WORDS = 20  # of a text column that are taken out
MOST_RELIED_ROWS = 20_000  # enough to see what a classifier relies on


def audit_rows(rows: TableRows, *, level: float) -> Audit:
    """Audit columns, words and attributes."""
    classes, codes = unique_labels(rows.y, what="labels", error=LabelsError)
    split = split_rows(rows, because="so no effects can be compared")
    inputs = _encode(rows.features, rows.roles.schema.names("text"))
    columns = inputs
    if rows.attributes is not None:
        columns = inputs.beside(encode_table(rows.attributes, min_count=1).as_attributes())
    subjects = None if rows.subjects is None else np.unique(rows.subjects, return_inverse=True)[1]
    return audit_columns(
        columns, codes, classes, split, AuditSettings(level=level), weights=rows.sample_weight, subjects=subjects
    )


def _encode(features: pd.DataFrame, texts: Sequence[str]) -> Columns:
    """Return plain columns as numbers, and a column `text: word` for each frequent word."""
    plain = [name for name in features.columns if name not in set(texts)]
    parts = [encode_table(features[plain], min_count=1)] if plain else []
    if not texts:
        return parts[0]
    blocks = [sp.csr_array(part.values) for part in parts]
    names = [name for part in parts for name in part.names]
    for text in texts:
        words = _encode_words(features, text)
        names += [f"{text}: {word}" for word in words.names]
        blocks.append(sp.csr_array(words.values))
    inputs = np.ones(len(names), dtype=bool)
    groups, sources = (parts[0].groups, parts[0].sources) if parts else ({}, ())  # plain columns come first
    return Columns(tuple(names), sp.csr_array(sp.hstack(blocks)), inputs, groups=groups, sources=sources)


def _encode_words(features: pd.DataFrame, text: str) -> Columns:
    """Return the words of one text column."""
    try:
        return encode_texts(features[text].tolist(), n_words=(1, 1), min_count=MIN_COUNT)
    except FeaturesError as problem:
        raise TableError(
            f"Text column {text!r} has no word that at least {MIN_COUNT} rows have and as many have not. "
            "Leave it out with drop=, or do not name it in text=."
        ) from problem


def reliance_of(
    classifiers: Mapping[str, TableClassifier], rows: TableRows, *, seed: int, audit: Audit | None = None
) -> Reliance:
    """Say how much each classifier's accuracy falls when a column is shuffled, or a word taken out.

    Words are those that the audit names, and the most frequent ones.
    """
    for fitted in classifiers.values():
        if fitted.roles_.schema.columns != rows.roles.schema.columns:
            raise ParameterError(
                "The classifiers were fitted with different columns, so what they rely on cannot be compared. "
                "Fit both with the same options."
            )
    chosen = np.arange(len(rows.y))
    if len(chosen) > MOST_RELIED_ROWS:
        chosen = np.sort(Seeding(seed).generator("relied on").permutation(chosen)[:MOST_RELIED_ROWS])
    pipelines = {name: fitted.pipeline_ for name, fitted in classifiers.items()}
    features = rows.features.iloc[chosen]
    words = {text: _words_to_try(features, text, audit) for text in rows.roles.schema.names("text")}
    return relied_on(pipelines, features, rows.y[chosen], words=words, random_state=seed)


def _words_to_try(features: pd.DataFrame, text: str, audit: Audit | None) -> list[str]:
    """Return the words of a text column that the audit found, then the most frequent ones."""
    named = [f for f in audit.findings if f.named] if audit is not None else []
    found = [f.feature.removeprefix(f"{text}: ") for f in named if f.feature.startswith(f"{text}: ")]
    words = encode_texts(features[text].tolist(), n_words=(1, 1), min_count=1)
    order = np.argsort(-np.asarray(words.values.sum(axis=0)).ravel(), kind="stable")
    frequent = [words.names[column] for column in order[:MOST_WORDS]]
    return list(dict.fromkeys([*(word for word in found if " " not in word), *frequent]))[:MOST_WORDS]


def source_column(feature: str, columns: Sequence[str]) -> str | None:
    """Return the table's column behind an audited one.

    Examples
    --------
    >>> source_column("scanner=B", ["scan", "scanner"]), source_column("note: pain", ["note"])
    ('scanner', 'note')
    """
    marks = ("=", " is missing", ": ")
    behind = [name for name in columns if feature == name or feature.startswith(tuple(name + mark for mark in marks))]
    return max(behind, key=len, default=None)
