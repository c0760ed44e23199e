"""What `holdfast audit` reads and finds: columns of a table, words of its texts, attributes beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from holdfast.audit import Audit, AuditSettings, Columns, Reliance, audit_columns, encode_table, encode_texts, relied_on
from holdfast.environments import check_pairs, merge_small_environments, split_environments, unique_labels
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError, TableError
from holdfast.seeding import Seeding
from holdfast.tables.files import TableFile
from holdfast.tables.inputs import read_environments, read_labels
from holdfast.tables.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.inputs import TableRoles

MIN_COUNT = 10  # rows that a level or word needs
MIN_ROWS = 5  # smaller environments are merged, as in PIClassifier
MOST_WORDS = 20  # of a text column that are taken out
MOST_RELIED_ROWS = 20_000  # enough to see what a classifier relies on


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to audit."""

    schema: TableSchema
    features: pd.DataFrame  # plain features, see `TableSchema.features`
    y: NDArray[Any]
    environments: NDArray[Any]
    attributes: pd.DataFrame | None  # columns that judges do not see


def read_rows_of_model(
    table: TableFile, fitted: TableClassifier, *, environments: Sequence[str], attributes: Sequence[str]
) -> Rows:
    """Read the columns that a saved classifier was fitted with, and the attributes."""
    roles: TableRoles = fitted.roles
    names = list(environments) or list(roles.environments)
    table.require([roles.label, *names])
    roles.schema.require(table.columns)
    columns = list(dict.fromkeys([roles.label, *names, *roles.schema.names()]))
    frame = table.read(columns, {**roles.schema.types, **roles.types(names)})
    return Rows(
        roles.schema,
        roles.schema.features(frame),
        read_labels(frame[roles.label], roles.label, fitted.classifier.classes_),
        read_environments(frame, names, roles.period, roles.environment_storages),
        read_attributes(table, attributes, taken=[roles.label, *names]),
    )


def read_attributes(table: TableFile, names: Sequence[str], *, taken: Sequence[str]) -> pd.DataFrame | None:
    """Read columns that are audited but no inputs."""
    for name in names:
        if name in taken:
            raise TableError(f"Column {name!r} is the label or an environment; it cannot be an attribute.")
    if not names:
        return None
    frame = table.read(list(names))
    return TableSchema.infer(frame).features(frame)


def audit_rows(rows: Rows, *, level: float) -> Audit:
    """Audit columns, words and attributes."""
    classes, codes = unique_labels(rows.y, what="labels", error=LabelsError)
    split = merge_small_environments(split_environments(rows.environments, len(codes)), MIN_ROWS)
    check_pairs(split)
    if len(split) < 2:
        raise EnvironmentsError("There is one environment only, so nothing can change. Pass rows of at least two.")
    inputs = _encode(rows.features, rows.schema.names("text"))
    columns = inputs
    if rows.attributes is not None:
        columns = inputs.beside(encode_table(rows.attributes, min_count=MIN_COUNT).as_attributes())
    return audit_columns(columns, codes, classes, split, AuditSettings(level=level, min_count=MIN_COUNT))


def _encode(features: pd.DataFrame, texts: Sequence[str]) -> Columns:
    """Return plain columns as numbers, and a column `text: word` for each frequent word."""
    plain = [name for name in features.columns if name not in texts]
    parts = [encode_table(features[plain], min_count=MIN_COUNT)] if plain else []
    if not texts:
        return parts[0]
    blocks = [sp.csr_array(part.values) for part in parts]
    names = [name for part in parts for name in part.names]
    for text in texts:
        words = _encode_words(features, text)
        names += [f"{text}: {word}" for word in words.names]
        blocks.append(sp.csr_array(words.values))
    inputs = np.ones(len(names), dtype=bool)
    groups = parts[0].groups if parts else {}  # the plain columns come first, so that their numbers stay
    return Columns(tuple(names), sp.csr_array(sp.hstack(blocks)), inputs, groups=groups)


def _encode_words(features: pd.DataFrame, text: str) -> Columns:
    """Return the words of one text column."""
    try:
        return encode_texts(features[text].tolist(), min_count=MIN_COUNT)
    except FeaturesError as problem:
        raise TableError(
            f"Text column {text!r} has no word that at least {MIN_COUNT} rows have and as many have not. "
            "Drop it, or leave out --text."
        ) from problem


def reliance_of(
    classifiers: Mapping[str, TableClassifier], rows: Rows, *, seed: int, audit: Audit | None = None
) -> Reliance:
    """Say how much each classifier's accuracy falls when a column is shuffled, or a word taken out.

    Words are those that the audit names, and the most frequent ones.
    """
    for fitted in classifiers.values():
        if fitted.roles.schema.columns != rows.schema.columns:
            raise ParameterError(
                "The --baseline was fitted with other columns, so the two cannot stand side by side. "
                "Fit both with the same options."
            )
    chosen = np.arange(len(rows.y))
    if len(chosen) > MOST_RELIED_ROWS:
        chosen = np.sort(Seeding(seed).generator("relied on").permutation(chosen)[:MOST_RELIED_ROWS])
    pipelines = {name: fitted.pipeline for name, fitted in classifiers.items()}
    features = rows.features.iloc[chosen]
    words = {text: _words_to_try(features, text, audit) for text in rows.schema.names("text")}
    return relied_on(pipelines, features, rows.y[chosen], words=words, random_state=seed)


def _words_to_try(features: pd.DataFrame, text: str, audit: Audit | None) -> list[str]:
    """Return the words of a text column that the audit found, then the most frequent ones."""
    told = [f for f in audit.findings if f.named] if audit is not None else []
    found = [f.feature.removeprefix(f"{text}: ") for f in told if f.feature.startswith(f"{text}: ")]
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
