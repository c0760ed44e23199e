"""Label leakage: columns that predict the label too well by their values, gaps or single levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.diagnosis.soundness.table import (
    FEW_VALUES,
    LEAST_LABELED,
    CheckedTable,
    Problem,
)
from holdfast.environments import Rows
from holdfast.seeding import Seeding

if TYPE_CHECKING:
    import pandas as pd

MOST_VALUES, MOST_LEAKS = 2_000_000, 2_000  # rows times columns, and columns, that are searched for leaks
LEAST_RARE = 20  # rows outside the most frequent class that a leak needs
TELLS, NEARLY_TELLS = 0.999, 0.97  # share of rows whose label one column tells
REPEATED = 0.75  # share of rows whose level others share too, from which on the rest is not judged
TIMES_BETTER = 2.5  # errors of the best other column, against those of a near leak
PURE, PURE_ROWS, PURE_SHARE = 0.995, 30, 0.1  # of one class: a level's rows, how many, and their share of the class


def check_leaks(table: CheckedTable) -> Iterator[Problem]:
    """Name columns that predict the label too well to be true."""
    codes, classes = table.codes
    totals = np.bincount(codes, minlength=len(classes))
    n_rows = len(codes)
    if n_rows < LEAST_LABELED or len(classes) > FEW_VALUES or n_rows - totals.max() < LEAST_RARE:
        return
    features = table.features.iloc[:, :MOST_LEAKS]
    if table.copies is not None:  # a copy tells the label of its twin
        _, first = np.unique(table.copies, return_index=True)
        features, codes, n_rows = features.iloc[first], codes[first], len(first)
    n_sampled = max(MOST_VALUES // max(features.shape[1], 1), 10 * LEAST_LABELED)
    if n_sampled < n_rows:
        rows = np.sort(Seeding(0).generator("leaks").choice(n_rows, n_sampled, replace=False))
        features, codes, n_rows = features.iloc[rows], codes[rows], n_sampled
    baseline = 1 - np.bincount(codes).max() / n_rows
    names = [str(name) for name in features.columns]
    errors = {
        name: _error_alone(features.iloc[:, place], codes, len(classes))
        for place, name in enumerate(names)
        if name not in table.texts
    }
    usual = min((error for error in errors.values() if error > 1 - NEARLY_TELLS), default=0.0)
    for place, name in enumerate(names):
        if name not in errors:
            continue
        error, values = errors[name], features.iloc[:, place]
        n_wrong = error * n_rows
        at_most = (n_wrong + 1.64 * np.sqrt(n_wrong + 1) + 1) / n_rows
        is_near = error <= 1 - NEARLY_TELLS and at_most <= min(baseline / 4, usual / TIMES_BETTER)
        if error <= min(1 - TELLS, baseline / 4) or is_near:
            by_gaps = _error_alone(values.isna(), codes, len(classes)) <= 1.5 * error + 1 / n_rows
            evidence = {"share": 1 - error, "best_other_column": 1 - usual, "most_frequent_class": 1 - baseline}
            yield Problem("leak_by_gaps" if by_gaps else "leak", "stop", name, (), evidence, ("--drop", name))
        elif pure := _pure_level(values, codes, len(classes)):
            level, code, n_level, share = pure
            what = {"level": level, "label": str(classes[code]), "n_rows": n_level, "share_of_label": share}
            yield Problem("leak_by_level", "stop", name, (), what, ("--drop", name))


def _error_alone(values: pd.Series[Any], codes: Rows, n_classes: int) -> float:
    """Return the share of rows whose class a column does not tell: by its values, or by one limit."""
    import pandas as pd

    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    places, levels = pd.factorize(values, sort=is_number)  # -1, the last, for missing values
    cells = (places % (len(levels) + 1)) * n_classes + codes
    table = np.bincount(cells, minlength=(len(levels) + 1) * n_classes).reshape(-1, n_classes)
    repeated = table[table.sum(axis=1) > 1]
    judged = repeated if repeated.sum() >= REPEATED * len(codes) else table
    right = _told_by_others(judged, int(table.sum(axis=0).argmax())) / judged.sum()
    if is_number and len(levels):
        below = table[:-1].cumsum(axis=0)
        by_limit = (below.max(axis=1) + (below[-1] - below).max(axis=1)).max()
        right = max(right, (by_limit + table[-1].max()) / len(codes))
    return float(1 - right)


def _told_by_others(table: NDArray[np.intp], usual: int) -> int:
    """Return how many rows have the most frequent class of the *other* rows of their level, (n_levels, n_classes)."""
    top = np.sort(table, axis=1)[:, -2:]
    others = np.where(table == top[:, -1:], top[:, :1], top[:, -1:])  # the largest count of another class
    right = table - 1 > others
    right[:, usual] |= (table[:, usual] == 1) & (others[:, usual] == 0)  # alone in its level
    return int(table[right].sum())


def _pure_level(values: pd.Series[Any], codes: Rows, n_classes: int) -> tuple[str, int, int, float] | None:
    """Return a level, a gap or a filled cell whose rows are all of one class: name, class, rows, share of the class."""
    import pandas as pd

    totals = np.bincount(codes, minlength=n_classes)
    is_missing = values.isna().to_numpy()
    groups = [("missing", is_missing), ("not missing", ~is_missing)] if is_missing.any() else []
    if not pd.api.types.is_numeric_dtype(values):
        frequent = values.value_counts()
        groups += [(str(level), (values == level).to_numpy()) for level in frequent.index[:50]]
    for name, rows in groups:
        counts = np.bincount(codes[rows], minlength=n_classes)
        code, n_level = int(counts.argmax()), int(counts.sum())
        rare = totals[code] <= 0.5 * len(codes) and n_level >= PURE_ROWS
        if rare and counts[code] >= PURE * n_level and counts[code] >= PURE_SHARE * totals[code]:
            return name, code, n_level, float(counts[code] / totals[code])
    return None
