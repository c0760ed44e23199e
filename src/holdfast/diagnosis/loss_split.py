"""Why a classifier's loss is higher at a new site: covariate shift, label shift, or concept shift.

The new site's rows differ from the known ones' by a density ratio q(x, y) / p(x, y). Its logarithm is fitted as
a(x) + b(y), with a logistic regression that tells the two apart:

* b, *label shift*: classes are more or less frequent than the columns explain.
* a, *covariate shift*: rows of a class look different.
* what no such sum explains is an interaction of x and y, *concept shift*: P(y | x) changes by more than its rates.

Known rows, with their out-of-fold losses, are weighted by exp(b), by exp(a) and by both. The parts of label and
covariate shift are means over both orders; concept shift is the rest. Weights come from rows of other folds and are
clipped. Intervals are a Bayesian bootstrap over the rows of both sides, in which the ratio is fitted again by one
Newton step; they are conditional on the classifier.

Where hardly any known row resembles those of the new site, no weights make them alike in every column. Rows are then
compared by the classifier's scores alone, which are what its loss depends on: a change of a column that the classifier
takes for the same risk then counts as concept shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.fitting.newton import expit, minimize_log_loss
from holdfast.metrics import Interval
from holdfast.stable.design import QUANTITY

Array = NDArray[np.float64]
PARTS = ("covariate_shift", "label_shift", "concept_shift")
N_DRAWS = 200  # of the bootstrap
N_FOLDS = 3  # weights of a row come from rows of other folds
MOST_ROWS = 20_000  # known rows that are looked at
LARGEST_WEIGHT = 20.0  # times the mean
FREE = 5.0  # the scale of the classes' indicators: they are hardly penalized
FEW_ALIKE = 50.0  # an effective number of known rows below which they are compared by scores alone


@dataclass(frozen=True, eq=False)
class Losses:
    """Rows with what a classifier that has not seen them loses there."""

    losses: Array  # (n_rows,)
    y: NDArray[np.intp]  # (n_rows,) class codes
    scores: Array  # (n_rows, n_scores) of the classifier
    columns: Array  # (n_rows, n_columns) numbers without gaps

    def take(self, rows: NDArray[np.intp]) -> Losses:
        """Return some of the rows."""
        return Losses(self.losses[rows], self.y[rows], self.scores[rows], self.columns[rows])


@dataclass(frozen=True, eq=False)
class LossSplit:
    """The loss at a new site minus that at the known ones, in three parts that sum to it."""

    known: float  # mean loss at the known sites, out of fold
    new: float  # mean loss at the new site
    parts: Mapping[str, Interval]  # by covariate, label and concept shift
    n_alike: float  # effective number of known rows after weighting (Kish)
    by_score: bool  # whether rows were compared by scores alone, because too few are alike in their columns


def split_loss(known: Losses, new: Losses, *, generator: np.random.Generator) -> LossSplit:
    """Split the difference of two mean losses; the generator deals the folds and draws the bootstrap."""
    if len(known.y) > MOST_ROWS:
        known = known.take(generator.permutation(len(known.y))[:MOST_ROWS])
    seed = generator.integers(2**32)
    found = _split(known, new, np.random.default_rng(seed), by_score=False)
    return found if found.n_alike >= FEW_ALIKE else _split(known, new, np.random.default_rng(seed), by_score=True)


def _split(known: Losses, new: Losses, generator: np.random.Generator, *, by_score: bool) -> LossSplit:
    """Fit the ratio and weight the known rows by it."""
    n_known, n_new = len(known.y), len(new.y)
    y = np.concatenate([known.y, new.y])
    n_classes = int(y.max()) + 1
    indicators = FREE * np.eye(n_classes)[y][:, 1:]
    compared = np.vstack([known.scores, new.scores])
    if not by_score:
        compared = np.column_stack([compared, np.vstack([known.columns, new.columns])])
    design = np.column_stack([np.ones(len(y)), indicators, _columns(compared)])
    at_new = np.repeat([0.0, 1.0], [n_known, n_new])
    draws = np.ones((N_DRAWS + 1, len(y)))  # the first are the rows as they are
    draws[1:] = generator.exponential(size=(N_DRAWS, len(y)))
    for side in (at_new == 0, at_new == 1):
        draws[:, side] /= draws[:, side].mean(axis=1, keepdims=True)
    folds = np.empty(len(y), dtype=np.intp)
    order = np.lexsort((generator.random(len(y)), y, at_new))  # dealt evenly over both sides and the classes
    folds[order] = np.arange(len(y)) % N_FOLDS

    log_a = np.empty((N_DRAWS + 1, n_known))  # of every known row, up to a constant
    log_b = np.zeros((N_DRAWS + 1, n_classes))
    for fold in range(N_FOLDS):
        asked = np.flatnonzero((folds == fold) & (at_new == 0))
        rest = np.setdiff1d(np.arange(len(y)), asked)  # only known rows are asked about, so new ones are in every fit
        found = _coefficients(design[rest], at_new[rest], draws[:, rest])
        log_b[:, 1:] += FREE * found[:, 1:n_classes] / N_FOLDS
        log_a[:, asked] = found[:, n_classes:] @ design[asked, n_classes:].T
    return _parts(known, new, log_a, log_b, draws[:, :n_known], draws[:, n_known:], by_score)


def _columns(values: Array) -> Array:
    """Return the columns with unit variance, and the squares of quantities."""
    varied = values[:, values.std(axis=0) > 1e-9]
    varied = (varied - varied.mean(axis=0)) / varied.std(axis=0)
    varied = np.clip(varied, -4.0, 4.0)
    quantities = [place for place in range(varied.shape[1]) if len(np.unique(varied[:, place])) >= QUANTITY]
    squares = varied[:, quantities] ** 2
    return np.column_stack([varied, (squares - squares.mean(axis=0)) / np.maximum(squares.std(axis=0), 1e-9)])


def _coefficients(design: Array, at_new: Array, draws: Array) -> Array:
    """Return the coefficients of "this row is of the new site" for every draw, (n_draws, n_columns)."""
    precision = np.array([1e-9, *np.ones(design.shape[1] - 1)])
    first, _ = minimize_log_loss(design, at_new, precision, start=np.zeros(design.shape[1]))
    chance = expit(design @ first)
    curvature = design.T @ (design * (chance * (1 - chance))[:, None]) + np.diag(precision)
    steps = ((draws - 1.0) * (at_new - chance)) @ design  # the gradient is zero where every row counts once
    return np.asarray(first + np.linalg.solve(curvature, steps.T).T)


def _parts(
    known: Losses,
    new: Losses,
    log_a: Array,
    log_b: Array,
    known_draws: Array,
    new_draws: Array,
    by_score: bool,
) -> LossSplit:
    """Weight the known rows by both ratios, in both orders."""
    losses, y = known.losses, known.y
    n_classes = log_b.shape[1]
    present = np.array([(y == code).any() for code in range(n_classes)])
    weights = np.exp(log_a - log_a.max(axis=1, keepdims=True))
    weights = np.minimum(weights, LARGEST_WEIGHT * weights.mean(axis=1, keepdims=True)) * known_draws

    def by_class(values: Array) -> Array:
        return np.stack([values[:, y == code].sum(axis=1) for code in range(n_classes)], axis=1)

    shares = by_class(known_draws)
    plain = by_class(known_draws * losses) / np.where(present, shares, 1.0)  # mean loss of each class
    alike = by_class(weights * losses) / np.where(present, by_class(weights), 1.0)
    new_shares = np.stack([new_draws[:, new.y == code].sum(axis=1) for code in range(n_classes)], axis=1) * present
    before = _mean(plain, shares)
    only_labels = _mean(plain, shares * np.exp(log_b))
    only_covariates = _mean(alike, by_class(weights))
    both = _mean(alike, new_shares)  # the classes' shares are known exactly: no ratio is needed for them
    after = (new_draws * new.losses).mean(axis=1)
    labels = ((only_labels - before) + (both - only_covariates)) / 2
    covariates = ((only_covariates - before) + (both - only_labels)) / 2
    parts = np.column_stack([covariates, labels, after - both])
    total = weights[0] * (new_shares[0] / np.maximum(by_class(weights)[0], 1e-300))[y]
    spread = parts[1:].std(axis=0)
    intervals = {
        name: Interval(float(value), float(value - 1.96 * error), float(value + 1.96 * error))
        for name, value, error in zip(PARTS, parts[0], spread, strict=True)
    }
    n_alike = float(total.sum() ** 2 / max((total**2).sum(), 1e-300))
    return LossSplit(float(before[0]), float(after[0]), intervals, n_alike, by_score)


def _mean(values: Array, shares: Array) -> Array:
    """Return the mean over classes with these shares, for every draw."""
    return np.asarray((values * shares).sum(axis=1) / np.maximum(shares.sum(axis=1), 1e-300))
