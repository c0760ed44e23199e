"""The statistic of an audit: whether a judge errs about a column differently away than at home.

In the soft mistaken half a row of label c weighs 1 − p, any other row p (p: the judge's probability of c), so with
signs the weights are the residuals 1[y = c] − p, and the half's covariance with a column x is the score
E[x·(1[y = c] − p)]. It is 0 where the judge's conditional holds. An estimated judge is off by some error, but equally
so at home (out of fold) and away, so the contrast

    away E[x·(1[y = c] − p)] − home E[x·(1[y = c] − p)],   rows weighted to the same share of every label,

is 0 on average for *any* judge if P(x | y) is the same in both environments (label shift included), and for a good one
if P(y | x) is (covariate shift). Intercepts are fitted on both sides: prevalence is no column's fault. So are the
slopes of columns that are already named: what they explain is not counted twice. The last column of a side is the
judge's own log-odds: where labels are noisier on one side, everything is less sure, and no column alone is to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, softmax
from scipy.stats import t as student

from holdfast.audit.columns import Block, is_sparse
from holdfast.audit.judges import FLOOR, Floats

REDUNDANT = 1e-6  # share of a column's variance below which named columns are said to determine it
APART = 5  # rows on each side that must differ from a column's most common value


@dataclass(frozen=True, eq=False)
class Side:
    """One environment's rows, as one judge sees them, for one label against the rest."""

    values: Block  # (n_rows, n_columns + 1), the last one the judge's log-odds
    labels: NDArray[np.intp]  # (n_rows,) all class codes, which permutations keep
    is_label: Floats  # (n_rows,) 1 for the label in question
    log_odds: Floats  # (n_rows,) the judge's
    weights: Floats  # (n_rows,) sum one; the same share of every label on both sides
    varies: NDArray[np.bool_]  # (n_columns,) whether enough rows differ from the column's most common value
    fold_log_odds: Floats | None = None  # (n_folds, n_rows) of the judge's fold classifiers


@dataclass(frozen=True, eq=False)
class Scores:
    """A contrast for every column."""

    statistic: Floats  # (n_columns,) contrast / its standard error; NaN where a column does not vary
    p_values: Floats  # (n_columns,) two-sided, by Student's t with Welch's degrees of freedom
    standard_error: Floats  # (n_columns,)
    redundant: NDArray[np.bool_]  # (n_columns,) whether the named columns determine it


@dataclass(frozen=True, eq=False)
class FittedSide:
    """A side after its intercept and the slopes of named columns were fitted."""

    residuals: Floats  # (n_rows,) 1[y = c] − p
    noise: Floats  # (n_rows,) p·(1 − p)
    design: Floats  # (n_rows, 1 + n_named)
    projection: Floats  # (1 + n_named, n_columns): what the design explains of each column
    score: Floats  # (n_columns,) Σ weight·x·residual
    squares: Floats  # (n_columns,) Σ (weight·x·residual)², by the residuals or by p·(1 − p), whichever is more
    between: Floats  # (n_columns,) the part of it that lies between labels, which equal label shares take away
    fold_scores: Floats  # (n_folds, n_columns) of the judge's fold classifiers, no rows where unknown
    spread: Floats  # (n_columns,) weighted variance of the column beside the design


def make_sides(
    values: Block,
    y: NDArray[np.intp],
    probabilities: Floats,
    fold_probabilities: Floats | None,
    home_rows: NDArray[np.intp],
    away_rows: NDArray[np.intp],
    label: int,
) -> tuple[Side, Side]:
    """Return home and away, with the judge's probabilities moved to each side's label shares.

    `probabilities` are one judge's, of shape (n_rows, n_classes); its fold classifiers' have an axis before.
    """
    n_classes = probabilities.shape[1]
    shares = np.stack([np.bincount(y[rows], minlength=n_classes) / len(rows) for rows in (home_rows, away_rows)])
    present = np.asarray((shares > 0).all(axis=0))
    common = np.where(present, shares.mean(axis=0), 0.0)
    sides = []
    for rows, share in zip((home_rows, away_rows), shares, strict=True):
        rows = rows[present[y[rows]]]  # a label that one side lacks cannot be compared
        weights = (common / np.where(present, share, 1.0))[y[rows]]
        weights /= weights.sum()
        logs = np.log(np.clip(probabilities[rows], FLOOR, None))
        shift = _match_label_shares(logs, y[rows], weights)
        folds = None
        if fold_probabilities is not None and rows[0] in away_rows:
            folds = _one_against_rest(np.log(np.clip(fold_probabilities[:, rows], FLOOR, None)) + shift, label)
        log_odds = _one_against_rest(logs + shift, label)
        here = _with_column(values[rows], log_odds)
        is_label = (y[rows] == label).astype(np.float64)
        apart = np.append(rows_apart(values[rows]), rows_apart(log_odds[:, None]))
        sides.append(Side(here, y[rows], is_label, log_odds, weights, apart >= APART, folds))
    return sides[0], sides[1]


def contrast(home: Side, away: Side, named: Sequence[int] = ()) -> Scores:
    """Compare both sides, beside what the `named` columns explain."""
    return compare_fitted(home, away, fit_side(home, named), fit_side(away, named))


def compare_fitted(home: Side, away: Side, at_home: FittedSide, abroad: FittedSide) -> Scores:
    """Compare two sides after their intercepts and named columns were fitted."""
    total = _column_variance(home) + _column_variance(away)
    redundant = (at_home.spread + abroad.spread <= REDUNDANT * total) & (total > 0)
    return welch(
        abroad.score - at_home.score,
        within_labels(at_home.squares, at_home.between),
        within_labels(abroad.squares, abroad.between),
        abroad.fold_scores,
        (len(home.weights), len(away.weights)),
        ~redundant & home.varies & away.varies,
        redundant,
    )


def welch(
    difference: Floats,
    variance_home: Floats,
    variance_away: Floats,
    fold_scores: Floats,
    sizes: tuple[int, int],
    usable: NDArray[np.bool_],
    redundant: NDArray[np.bool_],
) -> Scores:
    """Return differences in standard errors, and their p values; the judge's own uncertainty takes the place of home's.

    Out of fold the home score is nearly 0 whatever its rows: their noise comes in through the judge, which was fitted
    on them. So it counts once, by the rows' spread or the judge's jackknife, whichever is more.
    """
    n_folds = max(len(fold_scores), 1)
    judge = (n_folds - 1) / n_folds * ((fold_scores - fold_scores.sum(axis=0) / n_folds) ** 2).sum(axis=0)
    # A variance that a few folds told is known no better than they can tell it.
    freedom_home = np.where(judge > variance_home, n_folds - 1, sizes[0] - 1)
    variance_home = np.maximum(variance_home, judge)
    variance = variance_home + variance_away
    usable = usable & (variance > 0)
    safe = np.where(usable, variance, 1.0)
    statistic = np.where(usable, difference / np.sqrt(safe), np.nan)
    denominators = variance_home**2 / freedom_home + variance_away**2 / (sizes[1] - 1)
    freedom = safe**2 / np.where(usable, denominators, 1.0)
    p_values = np.asarray(2 * student.sf(np.abs(statistic), freedom))
    return Scores(statistic, p_values, np.sqrt(variance), redundant)


def permuted_statistics(home: Side, away: Side, n_permutations: int, generator: np.random.Generator) -> Floats:
    """Return |statistic| after exchanging rows of the same label between the sides, (n_permutations, n_columns).

    Judges are not fitted again: both sides are rows they have not seen, so exchanging them is fair.
    """
    sides = [(side, fit_side(side, ())) for side in (home, away)]
    moves = exchanges(home, away, n_permutations, generator)  # (n_home + n_away, n_permutations), signed weights
    score, empirical, model = np.zeros((3, n_permutations, home.values.shape[1]))
    start = 0
    for side, fitted in sides:
        part = moves[start : start + len(side.weights)]
        start += len(side.weights)
        center = fitted.projection[0]  # (n_columns,)
        signed = part * fitted.residuals[:, None]
        score = score + _products(side.values, signed) - np.outer(signed.sum(axis=0), center)
        empirical = empirical + _squares(side.values, part**2 * fitted.residuals[:, None] ** 2, center)
        model = model + _squares(side.values, part**2 * fitted.noise[:, None], center)
    variance = within_labels(np.maximum(empirical, model), sides[0][1].between + sides[1][1].between)
    result: Floats = np.abs(score) / np.sqrt(np.where(variance > 0, variance, np.inf))
    return result


def rows_apart(values: Block) -> NDArray[np.intp]:
    """Return how many rows differ from each column's median, which for 0/1 columns is the most common value."""
    if is_sparse(values):
        filled = np.asarray((values != 0).sum(axis=0)).ravel()
        return np.asarray(np.minimum(filled, values.shape[0] - filled), dtype=np.intp)
    return np.asarray((values != np.median(values, axis=0)).sum(axis=0), dtype=np.intp)


def fit_side(side: Side, named: Sequence[int]) -> FittedSide:
    """Fit the intercept and the named columns' slopes, the judge's log-odds as offset."""
    design = np.column_stack([np.ones(len(side.weights)), *(_dense_column(side.values, column) for column in named)])
    coefficients = np.zeros(design.shape[1])
    for _ in range(50):
        p = expit(side.log_odds + design @ coefficients)
        information = (design * (side.weights * p * (1 - p))[:, None]).T @ design
        step = np.linalg.lstsq(information, design.T @ (side.weights * (side.is_label - p)), rcond=1e-10)[0]
        coefficients += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-10:
            break
    p = expit(side.log_odds + design @ coefficients)
    residuals, noise = side.is_label - p, p * (1 - p)
    information = (design * (side.weights * noise)[:, None]).T @ design
    explained = _products(side.values, design * (side.weights * noise)[:, None])  # (1 + n_named, n_columns)
    projection = np.linalg.lstsq(information, explained, rcond=1e-10)[0]
    fold_scores = np.zeros((0, side.values.shape[1]))
    if side.fold_log_odds is not None:
        by_fold = expit(side.fold_log_odds + design @ coefficients)  # (n_folds, n_rows)
        by_fold = side.weights * (side.is_label - by_fold)
        fold_scores = _products(side.values, by_fold.T) - (by_fold @ design) @ projection
    weighted = side.weights * residuals
    return FittedSide(
        residuals,
        noise,
        design,
        projection,
        _products(side.values, weighted[:, None])[0] - (weighted @ design) @ projection,
        np.maximum(
            _residual_squares(side.values, side.weights**2 * residuals**2, design, projection),
            _residual_squares(side.values, side.weights**2 * noise, design, projection),
        ),
        _between_labels(side, weighted, design, projection),
        fold_scores,
        _residual_squares(side.values, side.weights * noise, design, projection) / max(side.weights @ noise, 1e-300),
    )


def _between_labels(side: Side, weighted: Floats, design: Floats, projection: Floats) -> Floats:
    """Return Σ_labels n·mean² of weight·x·residual: what labels explain of its squares."""
    part = np.zeros(side.values.shape[1])
    for label in np.unique(side.labels):
        inside = np.where(side.labels == label, weighted, 0.0)
        total = _products(side.values, inside[:, None])[0] - (inside @ design) @ projection
        part += total**2 / (side.labels == label).sum()
    return part


def within_labels(squares: Floats, between: Floats) -> Floats:
    """Return the variance that equal label shares leave; a third of the squares at least, for rare words."""
    return np.asarray(np.maximum(squares - between, squares / 3))


def _match_label_shares(logs: Floats, y: NDArray[np.intp], weights: Floats) -> Floats:
    """Return the shift b for which softmax(log p + b) predicts every label as often as it occurs (weighted)."""
    shift = np.zeros(logs.shape[1])
    target = np.bincount(y, weights, minlength=logs.shape[1])
    for _ in range(200):
        predicted = weights @ softmax(logs + shift, axis=1)
        change = np.log(np.where(target > 0, target / predicted, 1e-9))
        shift = np.clip(shift + change, -30.0, 30.0)
        if np.abs(change[target > 0]).max() < 1e-9:
            break
    return shift


def _one_against_rest(scores: Floats, label: int) -> Floats:
    """Return log-odds of one label against all others from unnormalized log-probabilities on the last axis."""
    p: Floats = np.clip(softmax(scores, axis=-1)[..., label], FLOOR, 1 - FLOOR)
    odds: Floats = np.log(p) - np.log1p(-p)
    return odds


def exchanges(home: Side, away: Side, n_permutations: int, generator: np.random.Generator) -> Floats:
    """Return the sides' signed weights with rows of the same label exchanged, a column for each permutation."""
    signed = np.concatenate([-home.weights, away.weights])
    labels = np.concatenate([home.labels, away.labels])
    moves = np.empty((len(signed), n_permutations))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        moves[rows] = generator.permuted(np.broadcast_to(signed[rows, None], (len(rows), n_permutations)), axis=0)
    return moves


def _products(values: Block, weights: Floats) -> Floats:
    """Return Σ_rows weight·x for each column of weights, (n_weights, n_columns)."""
    product: Floats = np.asarray(values.T @ weights).T
    return product


def _squares(values: Block, weights: Floats, center: Floats) -> Floats:
    """Return Σ_rows weight·(x − center)², (n_weights, n_columns)."""
    squared = values.multiply(values).tocsr() if is_sparse(values) else values**2
    around = 2 * center * _products(values, weights) - np.outer(weights.sum(axis=0), center**2)
    return np.asarray(np.maximum(_products(squared, weights) - around, 0.0))


def _residual_squares(values: Block, weights: Floats, design: Floats, projection: Floats) -> Floats:
    """Return Σ_rows weight·(x − design·projection)² for every column."""
    squared = values.multiply(values).tocsr() if is_sparse(values) else values**2
    crossed = _products(values, design * weights[:, None])  # (1 + n_named, n_columns)
    inner = (design * weights[:, None]).T @ design
    explained = 2 * (projection * crossed).sum(axis=0) - (projection * (inner @ projection)).sum(axis=0)
    return np.asarray(np.maximum(_products(squared, weights[:, None])[0] - explained, 0.0))


def _column_variance(side: Side) -> Floats:
    """Return the weighted variance of every column."""
    center = _products(side.values, side.weights[:, None])[0]
    return np.asarray(_squares(side.values, side.weights[:, None], center)[0])


def _with_column(values: Block, column: Floats) -> Block:
    """Return the columns and one more."""
    if is_sparse(values):
        return sp.csr_array(sp.hstack([values, sp.csr_array(column[:, None])]))
    return np.column_stack([values, column])


def _dense_column(values: Block, column: int) -> Floats:
    """Return one column as an array."""
    return np.asarray(values[:, [column]].toarray()[:, 0] if is_sparse(values) else values[:, column])
