"""The inputs of the decision's model: one number for each feature and row, and predictions from other features.

A feature is a number, a code with two values, a category, or a word. The working classifier is a linear discriminant
with intercepts for each site, squares of the numbers, and five folds: it says how much each feature adds to the
log-odds of rows that it was not fitted on. It is solved in closed form, for any number of classes.

With more than two classes, each row is asked about its label and one other class: "which of the two?" has two answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import linalg, special

from holdfast.fitting.folds import deal_evenly
from holdfast.rows.keys import row_keys
from holdfast.rows.kinds import as_dense, is_sparse
from holdfast.stable.columns import Columns

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
# Numerics: none of these is part of the model.
N_FOLDS = 5
QUANTITY = 5  # different values from which on a number gets a square and is no code
TAILS = 0.005  # share of the values at each end that are drawn in before a column is scaled
MOST_FEATURES = 120  # wider tables are screened
LEAST_ROWS, LEAST_LABELS = 30, 5  # rows, and rows of each label, that a site needs to be looked at alone
MOST_SITES = 50


class BySite:
    """Rows with a code of their site."""

    sites: Codes  # (n_rows,) small sites are pooled

    @cached_property
    def rows_of_sites(self) -> list[Codes]:
        """The rows of each site."""
        order = np.argsort(self.sites, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.sites))[:-1])

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return int(self.sites.max()) + 1


@dataclass(frozen=True, eq=False)
class Design(BySite):
    """Rows as the hypotheses see them; every array has a row for each row of the table."""

    features: tuple[tuple[int, ...], ...]  # the encoded columns of each feature
    values: Array  # (n_rows, n_features) standardized; a category is what it adds to the log-odds
    own: Array  # (n_rows, n_features) 0 and 1, or scores of ranks within the site, normal given the label
    is_code: NDArray[np.bool_]  # (n_features,) two values
    parts: Array  # (n_rows, n_features) what each feature adds to the log-odds of `label`, out of fold
    said: Array  # (n_rows, n_features) the same about the row's own class, in sample
    label: Codes  # (n_rows,) 0 or 1
    cells: Codes  # (n_rows,) number of the row's class and site
    sites: Codes  # (n_rows,) small sites are pooled
    weights: Array  # (n_rows,) how many rows each row stands for


def make_design(
    columns: Columns,
    y: Codes,
    sites: Codes,
    *,
    n_classes: int,
    weights: Array | None = None,
    subjects: Codes | None = None,
) -> Design:
    """Read a table.

    Parameters
    ----------
    columns : Columns
    y, sites : arrays of shape (n_rows,)
        Codes of class and environment.
    n_classes : int
    weights : array of shape (n_rows,), optional
        How many rows each row stands for.
    subjects : array of shape (n_rows,), optional
        Rows of one subject share a fold, and together count as one row.
    """
    order = np.lexsort((row_keys(columns.values), y, sites))  # whatever order the rows came in
    sites = pool_sites(y, sites)
    counts = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    folds = np.empty(len(y), dtype=np.intp)
    strata = y[order] + n_classes * sites[order]
    folds[order] = deal_evenly(np.argsort(strata, kind="stable"), strata, N_FOLDS)
    if subjects is not None:
        counts = counts / np.bincount(subjects)[subjects]
        firsts = np.unique(subjects[order], return_index=True)[1]
        folds = folds[order][firsts][subjects]
    cells = np.unique(y + n_classes * sites, return_inverse=True)[1]
    features = features_of(columns)
    if len(features) > MOST_FEATURES:
        features = _screen(columns.values, features, y, sites, cells, counts)
    used = [column for feature in features for column in feature]
    raw = dense(columns.values[:, used])
    feature_of = np.repeat(np.arange(len(features)), [len(feature) for feature in features])
    scaled = standardize(raw)
    n_values = np.array([_n_values(column) for column in raw.T])
    is_quantity = n_values >= QUANTITY
    squares = scaled[:, is_quantity] ** 2 - 1
    everything = np.hstack([scaled, squares])
    owners = np.concatenate([feature_of, feature_of[is_quantity]])
    label, first, second = _questions(y, n_classes, order)
    parts, said = _working_parts(everything, owners, len(features), y, sites, counts, folds, (first, second), n_classes)
    values, own, is_code = np.empty_like(parts), np.empty_like(parts), np.zeros(len(features), dtype=bool)
    for place, feature in enumerate(features):
        mine = np.flatnonzero(feature_of == place)
        single = raw[:, mine[0]]
        if len(feature) > 1:
            values[:, place] = unit_variance(said[:, place])
        else:
            values[:, place] = scaled[:, mine[0]]
        if n_classes == 2 and len(feature) == 1:
            is_code[place] = n_values[mine[0]] == 2
            own[:, place] = single > single.min() if is_code[place] else binormal_scores(single, y, sites, counts)
        else:
            own[:, place] = unit_variance(parts[:, place])
    return Design(features, values, own, is_code, parts, said, label, cells, sites, counts)


def dense(values: Any) -> Array:
    """Return an array of numbers, also of a sparse one."""
    return np.asarray(as_dense(values), dtype=np.float64)


def pool_sites(y: Codes, sites: Codes) -> Codes:
    """Return site codes with small sites pooled: one that says nothing of its own joins the next small one.

    Examples
    --------
    >>> y, sites = np.tile([0, 1], 50), np.repeat([0, 1, 2, 3], [60, 14, 20, 6])
    >>> np.bincount(pool_sites(y, sites)).tolist()
    [60, 40]
    """
    n_sites = int(sites.max()) + 1
    sizes = np.bincount(sites, minlength=n_sites)
    least = np.array([np.bincount(y[sites == site], minlength=2).min() for site in range(n_sites)])
    is_small = (sizes < LEAST_ROWS) | (least < min(LEAST_LABELS, int(np.bincount(y).min()) // 2))
    if n_sites > MOST_SITES:  # as many pools as can be looked at, each of about as many rows
        is_small |= np.argsort(np.argsort(-sizes, kind="stable"), kind="stable") >= MOST_SITES // 2
    small = np.flatnonzero(is_small)
    pooled = np.arange(n_sites)
    if len(small):
        most = max(1, min(int(sizes[small].sum()) // LEAST_ROWS, MOST_SITES - (n_sites - len(small)), len(small)))
        filled = np.cumsum(sizes[small]) - sizes[small] / 2
        pooled[small] = n_sites + (filled * most / max(sizes[small].sum(), 1)).astype(np.intp)
    return np.asarray(np.unique(pooled[sites], return_inverse=True)[1], dtype=np.intp)


def features_of(columns: Columns) -> tuple[tuple[int, ...], ...]:
    """Return the columns of each feature, in the order of their first columns."""
    grouped = {column: tuple(members) for members in columns.groups.values() for column in members}
    return tuple(dict.fromkeys(grouped.get(column, (column,)) for column in range(len(columns))))


def _screen(
    values: Any, features: Sequence[tuple[int, ...]], y: Codes, sites: Codes, cells: Codes, counts: Array
) -> tuple[tuple[int, ...], ...]:
    """Return the features that say most about the label, and those whose class means differ most between sites."""
    n_cells, n_rows = int(cells.max()) + 1, len(y)
    chosen = sp.csr_array((counts, (cells, np.arange(n_rows))), shape=(n_cells, n_rows))
    sizes: Array = np.asarray(chosen.sum(axis=1), dtype=np.float64).ravel()
    means = dense(chosen @ values) / sizes[:, None]
    squares = chosen @ (values.power(2) if is_sparse(values) else np.asarray(values) ** 2)
    total = np.asarray(squares.sum(axis=0)).ravel()
    within = np.maximum((total - sizes @ means**2) / max(n_rows - n_cells, 1), 1e-9)
    of_cell = np.unique(np.stack([cells, y, sites]), axis=1)[1:]  # class and site of each cell
    about_site = means - _group_means(means, of_cell[1], sizes)
    by_class = _group_means(about_site, of_cell[0], sizes)
    says = sizes @ by_class**2 / within
    differs = sizes @ (about_site - by_class) ** 2 / within
    score = [np.array([column[list(feature)].max() for feature in features]) for column in (says, differs)]
    half = MOST_FEATURES // 2
    kept = {int(place) for one in score for place in np.argsort(-one, kind="stable")[:half]}
    return tuple(features[place] for place in sorted(kept))


def _group_means(values: Array, groups: Codes, sizes: Array) -> Array:
    """Return for each row of `values` the weighted mean of its group."""
    sums, totals = np.zeros((int(groups.max()) + 1, values.shape[1])), np.bincount(groups, sizes)
    np.add.at(sums, groups, sizes[:, None] * values)
    return np.asarray((sums / totals[:, None])[groups])


def standardize(values: Array) -> Array:
    """Return columns with mean 0 and variance 1, their tails drawn in; constant columns are 0."""
    low, high = np.quantile(values, [TAILS, 1 - TAILS], axis=0)
    flat = low >= high
    low[flat], high[flat] = values[:, flat].min(axis=0), values[:, flat].max(axis=0)
    return unit_variance(np.clip(values, low, high))


def unit_variance(values: Array) -> Array:
    """Return columns with mean 0 and variance 1; constant columns are 0."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf))


def _n_values(column: Array) -> int:
    """Return how many different values a column has, as far as that matters."""
    some = np.unique(column[:2000])
    return len(some) if len(some) >= QUANTITY else len(np.unique(column))


def binormal_scores(column: Array, y: Codes, sites: Codes, weights: Array) -> Array:
    """Return scores that depend on ranks within the site alone, and are normal with variance 1 given the label.

    The distance of the two means is that of the AUROC, as for a binormal ROC curve. Scores that are normal over both
    labels together would make strong effects seem alike.

    Examples
    --------
    >>> column, y, one = np.array([1.0, 5.0, 5.0, 90.0]), np.array([0, 0, 1, 1]), np.ones(4)
    >>> binormal_scores(column, y, np.zeros(4, dtype=int), one).round(2).tolist()
    [-1.52, 0.0, 0.0, 1.52]
    """
    scores = np.empty(len(column))
    for site in range(int(sites.max()) + 1):
        rows = np.flatnonzero(sites == site)
        places = np.unique(column[rows], return_inverse=True)[1]
        counts = np.bincount(places, weights[rows])
        ones, total = np.bincount(places, weights[rows] * y[rows]), max(float(counts.sum()), 1e-9)
        ranks = (np.cumsum(counts) - counts / 2) / total
        share = float(np.clip(ones.sum() / total, 1e-9, 1 - 1e-9))
        area = (float(ones @ ranks) / total / share - share / 2) / (1 - share)  # AUROC
        edge = 0.5 / max(total, 2.0)
        distance = float(np.sqrt(2.0) * special.ndtri(np.clip(area, edge, 1 - edge)))
        grid = np.linspace(-5.0 - abs(distance), 5.0 + abs(distance), 301)
        first, second = (special.ndtr(grid - mean) for mean in (distance * (1 - share), -distance * share))
        scores[rows] = np.interp(ranks, share * first + (1 - share) * second, grid)[places]
    return scores


def cell_means(values: Array, cells: Codes, weights: Array) -> Array:
    """Return for each row the means of its cell."""
    n_rows, n_cells = len(values), int(cells.max()) + 1
    sums = sp.csr_array((weights, (cells, np.arange(n_rows))), shape=(n_cells, n_rows)) @ values
    return np.asarray(sums / np.maximum(np.bincount(cells, weights), 1e-12)[:, None])[cells]


def _questions(y: Codes, n_classes: int, order: Codes) -> tuple[Codes, Codes, Codes]:
    """Return for each row two classes, one of them its own, and which of them it is (1: the second).

    The other class is that of another row, so that it is asked about as often as it occurs.
    """
    if n_classes == 2:
        return y.astype(np.intp), np.zeros(len(y), dtype=np.intp), np.ones(len(y), dtype=np.intp)
    n_rows, place = len(y), np.arange(len(y))
    own = y[order]
    other = own[(place * 7919 + n_rows // 2) % n_rows]  # far apart in an order that is sorted by class
    same = other == own
    other[same] = (own[same] + 1 + place[same] % (n_classes - 1)) % n_classes
    asked = place % 2
    label, first, second = (np.empty(n_rows, dtype=np.intp) for _ in range(3))
    label[order] = asked
    first[order], second[order] = np.where(asked, other, own), np.where(asked, own, other)
    return label, first, second


def _working_parts(
    columns: Array,
    owners: Codes,
    n_features: int,
    y: Codes,
    sites: Codes,
    counts: Array,
    folds: Codes,
    asked: tuple[Codes, Codes],
    n_classes: int,
) -> tuple[Array, Array]:
    """Return what each feature adds to the log-odds of the second class asked about, out of fold, and of the own class.

    The discriminant: columns are explained by site and class; the class effects over the scatter that is left are the
    weights of the log-odds. The ridge stands for an effect of no column.
    """
    n_rows, n_columns = columns.shape
    target = np.eye(n_classes)[y]
    both = np.hstack([target, columns])  # (n_rows, n_classes + n_columns)
    both -= cell_means(both, sites, counts)
    n_folds = int(folds.max()) + 1
    rows_of = [np.flatnonzero(folds == fold) for fold in range(n_folds)]
    by_fold = np.stack([(both[rows] * counts[rows, None]).T @ both[rows] for rows in rows_of])
    total, size = by_fold.sum(axis=0), float(counts.sum())
    shares = np.bincount(y, counts, n_classes) / size
    uncertainty = float(1 - (shares**2).sum()) / 2  # p(1 - p) with two classes
    ridge = max(n_features / 2, 1.0) / max(size * uncertainty, 1e-9)

    def weights(products: Array, n: float) -> Array:
        labels, across, scatter = (
            products[:n_classes, :n_classes],
            products[:n_classes, n_classes:],
            products[n_classes:, n_classes:],
        )
        effects = linalg.lstsq(labels + 1e-9 * np.eye(n_classes), across, lapack_driver="gelsy")[0]
        left = (scatter - effects.T @ across) / max(n, 1.0)
        left[np.diag_indices_from(left)] += ridge + 1e-9
        return np.asarray(linalg.solve(left, effects.T, assume_a="sym").T)  # (n_classes, n_columns)

    membership = np.zeros((n_columns, n_features))
    membership[np.arange(n_columns), owners] = 1.0
    first, second = asked
    parts = np.empty((n_rows, n_features))
    for rows, own in zip(rows_of, by_fold, strict=True):
        found = weights(total - own, size - float(counts[rows].sum()))
        parts[rows] = (columns[rows] * (found[second[rows]] - found[first[rows]])) @ membership
    found = weights(total, size)
    against = found - shares @ found if n_classes > 2 else np.stack([found[1] - found[0]] * 2)
    return parts, (columns * against[y]) @ membership
