"""Identifier columns, duplicate rows, and columns that repeat another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.diagnosis.soundness.copies import are_near_copies, nearly_copied
from holdfast.diagnosis.soundness.table import (
    COPIED,
    FEW_VALUES,
    INDICATOR,
    MOST_COLUMNS,
    CheckedTable,
    Floats,
    Problem,
    known_values,
)
from holdfast.environments import Environment

LEAST_IDENTIFIED = 100  # rows from which on distinct numbers are taken for identifiers
LEAST_TEXTS, DISTINCT_TEXTS = 50, 0.9  # rows and share of different texts of an identifier
NAMED_DISTINCT = 0.2  # share of different values of a column that is called an identifier
MOST_CELLS = 5_000_000  # rows times columns that are searched for near copies
NEARLY_SAME, SAMPLED_PAIRS = 0.999, 5_000  # correlation of columns that are nearly copies, and rows it is measured in
IDENTIFIER = re.compile(
    r"(?:.*[ _.-])?(?:id|ids|uuid|guid|mrn|nr|no|number|key|patient|subject|case|record|row|index|name)", re.IGNORECASE
)
CAMEL_ID = re.compile(r".*[a-z](?:ID|Id|Nr|No)")  # patientID


def check_identifiers(table: CheckedTable) -> Iterator[Problem]:
    """Name columns that number or name rows or people."""
    for name, values in table.numbers.items():
        if kind := _numbering(name, values, table.sites):
            evidence = {"kind": kind, "n_values": len(np.unique(values[~np.isnan(values)]))}
            yield Problem("identifier", "repair", name, (), evidence, ("--drop", name))
    for name, series in table.levels.items():
        known = series.dropna()
        n_values = int(known.nunique())
        if name in table.texts or len(known) < LEAST_TEXTS or not isinstance(known.iloc[0], str):
            continue
        if known.head(1000).str.count(r"\s+").mean() + 1 >= 4:
            continue  # prose
        is_named = _is_called_identifier(name) and n_values >= max(20, NAMED_DISTINCT * len(known))
        if n_values >= DISTINCT_TEXTS * len(known) or is_named:
            evidence = {"kind": "texts", "n_values": n_values}
            yield Problem("identifier", "repair", name, (), evidence, ("--drop", name))


def _numbering(name: str, values: Floats, sites: Sequence[Environment]) -> str:
    """Return how whole numbers identify rows: growing, distinct, by site, or by name; empty where they do not."""
    known = values[~np.isnan(values)]
    if len(known) < LEAST_IDENTIFIED or (known % 1 != 0).any():
        return ""
    n_values = len(np.unique(known))
    if n_values >= 0.995 * len(known):
        if np.mean(np.diff(known) > 0) >= 0.995:
            return "growing"
        if np.ptp(known) <= 4 * len(known) or _is_called_identifier(name):
            return "distinct"
    large = [here for site in sites if len(here := values[site.rows][~np.isnan(values[site.rows])]) >= 20]
    if len(large) > 1 and all(len(np.unique(h)) == len(h) and np.ptp(h) <= 1.5 * len(h) for h in large):
        return "by site"
    if _is_called_identifier(name) and n_values >= max(50, NAMED_DISTINCT * len(known)):
        return "by name"
    return ""


def _is_called_identifier(name: str) -> bool:
    return bool(IDENTIFIER.fullmatch(name) or CAMEL_ID.fullmatch(name))


def check_copied_rows(table: CheckedTable) -> Iterator[Problem]:
    """Say how many rows are exact copies of another one, where that is no coincidence of few values."""
    groups = table.copies
    if groups is None:
        return
    n_copies = len(groups) - len(np.unique(groups))
    sites = np.empty(len(groups), dtype=np.intp)
    for place, site in enumerate(table.sites):
        sites[site.rows] = place
    counts = np.bincount(groups)
    across = len(np.unique(groups * np.int64(len(table.sites)) + sites)) - len(counts)
    is_copied = counts[groups] > 1
    where = tuple(s.name for s in table.sites if is_copied[s.rows].mean() >= COPIED)
    named = where if len(where) < len(table.sites) else ()
    evidence = {"n_copies": n_copies, "share": n_copies / len(groups), "n_across_sites": int(across)}
    yield Problem("copied_rows", "repair", "", named, evidence)


def check_near_copied_rows(table: CheckedTable) -> Iterator[Problem]:
    """Say how many rows equal another one in all columns but one, where that is no coincidence of few values."""
    columns = table.hashes
    if columns is None or table.copies is not None or columns.shape[1] < 6 or columns.size > MOST_CELLS:
        return
    is_near = nearly_copied(columns)
    n_near = int(is_near.sum())
    if n_near // 2 < max(3, COPIED * len(columns)) or not are_near_copies(columns):
        return
    where = tuple(site.name for site in table.sites if is_near[site.rows].mean() >= COPIED)
    evidence = {"n_rows": n_near, "share": n_near / len(columns)}
    yield Problem("near_copied_rows", "repair", "", where if len(where) < len(table.sites) else (), evidence)


def check_copied_columns(table: CheckedTable) -> Iterator[Problem]:
    """Name columns that have the same values as another one."""
    import pandas as pd

    seen: dict[int, str] = {}
    for place, name in enumerate(map(str, table.features.columns[:MOST_COLUMNS])):
        values = table.features.iloc[:, place]
        if values.nunique() < 2 or INDICATOR.fullmatch(name):
            continue
        digest = hash(pd.util.hash_pandas_object(values, index=False).to_numpy().tobytes())
        if (first := seen.setdefault(digest, name)) != name:
            yield Problem("copied_column", "note", name, (), {"copy_of": first}, ("--drop", name))


def check_near_copied_columns(table: CheckedTable) -> Iterator[Problem]:
    """Name numbers that another column has too, rounded, in another unit, or but for a few rows."""
    names = [name for name, values in table.numbers.items() if not INDICATOR.fullmatch(name)]
    step = max(1, len(table.features) // SAMPLED_PAIRS)
    values = [table.numbers[name][::step] for name in names]
    many = [place for place, column in enumerate(values) if len(np.unique(known_values(column))) > FEW_VALUES]
    if len(many) < 2:
        return
    gaps = np.array([np.isnan(values[place]) for place in many])
    centered = np.array([_centered(values[place]) for place in many])
    alike = centered @ centered.T
    for second in range(1, len(many)):
        for first in range(second):
            same_gaps = np.mean(gaps[first] == gaps[second]) >= NEARLY_SAME
            is_exact = np.array_equal(values[many[first]], values[many[second]], equal_nan=True)
            if abs(alike[first, second]) >= NEARLY_SAME and same_gaps and not is_exact:
                name, evidence = names[many[second]], {"copy_of": names[many[first]]}
                yield Problem("near_copied_column", "note", name, (), evidence, ("--drop", name))
                break


def _centered(values: Floats) -> Floats:
    """Return values with mean 0 and length 1; gaps are 0."""
    centered = np.where(np.isnan(values), 0.0, values - np.nanmean(values))
    return centered / max(float(np.linalg.norm(centered)), 1e-300)
