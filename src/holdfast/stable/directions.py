"""Unstable combinations of columns, for logistic regressions.

Columns can be mixed so that no single one is stable, while some combinations are. With d_e the difference of the class
means at site e, in coordinates of unit variance within label and site (the effects of linear discriminant analysis),
the d_e of one law scatter with variance 1/w_e = 1/n_e0 + 1/n_e1. The matrix sum over e of w_e (d_e - d)(d_e - d)' then
is a Wishart matrix. Directions with eigenvalues beyond its largest root (Tracy and Widom) are unstable.

A logistic regression of the other directions is the candidate. Whitened, it also finds what hides in a direction of
little variance. On tables without such directions it is worse than a classifier of columns, so it must prove itself. At
sites left out, log loss and accuracy must be better by `LEAST_BETTER`, on average and at the worst site. It is compared
with the classifier so far, and with one of the columns and the products of columns and unstable coordinates: where
P(y|x) has a bend or an interaction and ranges differ, effects differ too. It is tried where no column changes, or more
than half of them do. A few that change are better given up as columns: the estimate of a direction is never exact and
leaves some of their effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from holdfast.fitting.calibration import class_scores
from holdfast.fitting.estimators import last_step
from holdfast.fitting.folds import fold_parts, rows_without
from holdfast.fitting.kinds import Estimator
from holdfast.fitting.logistic import LogisticModel, logistic_start, with_coefficients
from holdfast.rows.training import TrainingRows
from holdfast.stable.findings import Finding, summarize
from holdfast.stable.hypotheses import Posterior

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_SITES = 3  # with two, one is left when the other is left out
LEAST_BETTER = 0.01  # log loss in nats for each row, and accuracy
LARGEST_ROOT = 3.27  # of Tracy and Widom's law, exceeded by chance once in a thousand times
FLAT = 1e-9  # variance within label and site, relative to the largest, below which columns are collinear


@dataclass(frozen=True, eq=False)
class Directions:
    """Coordinates of unit variance within label and site, stable and unstable ones."""

    stable: Array  # (n_columns, n_stable)
    unstable: Array  # (n_columns, n_unstable)
    back: Array  # (n_unstable, n_columns) from the unstable coordinates to columns
    effects: Array  # (n_sites, n_unstable) log-odds of the second class for one unit, NaN where a class is missing
    errors: Array  # (n_sites,) their standard errors

    def exchange(self, X: Array, partners: Codes) -> Array:
        """Return the rows with the unstable coordinates of other rows."""
        return np.asarray(X + (X[partners] - X) @ self.unstable @ self.back)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A classifier without the unstable directions, and what it says about rows that it was not fitted on."""

    estimator: Any  # fitted on all rows, over class codes
    directions: Directions
    known: Array  # (n_rows, 2) scores out of fold
    left_out: Array  # (n_rows, 2) scores by fits without the row's site


def try_directions(
    fitted: Any, estimator: Estimator, training: TrainingRows, folds: Codes, rounds: Codes, before: Array
) -> Candidate | None:
    """Return the classifier of stable directions, where it is better at sites left out; else None.

    Parameters
    ----------
    fitted : the ordinary classifier of all rows
    estimator : the same, unfitted
    training : TrainingRows
    folds, rounds : arrays of shape (n_rows,)
        Two numberings of the rows: parts that are left out together, of all sites, and whole sites.
    before : array of shape (n_rows, 2)
        Log-probabilities of the classifier so far, by fits without the row's site.
    """
    is_logistic = logistic_start(fitted, training.X) is not None
    if not is_logistic or training.sample_weight is not None or len(training.environments) < LEAST_SITES:
        return None
    rows = training.X, training.y, training.environment_codes
    directions = find_directions(*rows)
    if not directions.unstable.shape[1]:
        return None
    left_out = _answers(estimator, training, rounds)
    if not _is_better(before, left_out, *rows[1:]):
        return None
    if not _is_better(_answers(estimator, training, rounds, bent=True), left_out, *rows[1:]):
        return None
    basis, center = directions.stable, training.X.mean(axis=0)
    model = _fit(estimator, (training.X - center) @ basis, training.y)
    coef = basis @ model.coef_[0]
    linear = LogisticModel(coef, float(model.intercept_[0] - coef @ center))
    return Candidate(with_coefficients(fitted, linear), directions, _answers(estimator, training, folds), left_out)


def find_directions(X: Array, y: Codes, sites: Codes) -> Directions:
    """Return the stable and the unstable directions of two classes.

    Examples
    --------
    The effect of the second column turns, that of the first does not:

    >>> rng = np.random.default_rng(0)
    >>> y, sites = rng.integers(2, size=3000), np.repeat([0, 1, 2], 1000)
    >>> effects = np.stack([np.ones(3000), np.array([1.0, 0.0, -1.0])[sites]], axis=1)
    >>> found = find_directions(rng.normal(size=(3000, 2)) + effects * y[:, None], y, sites)
    >>> abs(found.stable).round().tolist(), abs(found.unstable).round().tolist()
    ([[1.0], [0.0]], [[0.0], [1.0]])
    """
    spreads = X.std(axis=0)
    scale, cells = np.where(spreads > 0, spreads, 1.0), 2 * sites + y
    n = np.bincount(cells, minlength=2 * (int(sites.max()) + 1))
    sums = np.stack([np.bincount(cells, column, minlength=len(n)) for column in (X / scale).T], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        means, errors = sums / n[:, None], np.sqrt(1 / n[::2] + 1 / n[1::2])
    within = X / scale - means[cells]
    variances, axes = np.linalg.eigh(within.T @ within / max(len(y) - np.count_nonzero(n), 1))
    used = variances > FLAT * variances[-1]
    whitening = axes[:, used] / np.sqrt(variances[used])  # (n_columns, n_used)
    effects = (means[1::2] - means[::2]) @ whitening  # (n_sites, n_used)
    weights, known = 1 / errors**2, np.isfinite(errors)
    apart = effects[known] - np.average(effects[known], axis=0, weights=weights[known])
    roots, turn = np.linalg.eigh((apart.T * weights[known]) @ apart)
    a, b = np.sqrt(max(known.sum() - 1.5, 0.5)), np.sqrt(max(whitening.shape[1] - 0.5, 0.5))
    unstable = roots > (a + b) ** 2 + LARGEST_ROOT * (a + b) * (1 / a + 1 / b) ** (1 / 3)
    coordinates = whitening @ turn / scale[:, None]
    back = np.linalg.pinv(whitening @ turn) * scale
    return Directions(
        coordinates[:, ~unstable],
        coordinates[:, unstable][:, ::-1],  # the most unstable first
        back[unstable][::-1],
        (effects @ turn)[:, unstable][:, ::-1],
        errors,
    )


def describe(directions: Directions, training: TrainingRows, names: Sequence[str], label: str) -> tuple[Finding, ...]:
    """Return a finding for each unstable direction, which is named after the two columns that matter most in it."""
    known = np.isfinite(directions.errors)
    sites = [e.name for e, has_both in zip(training.environments, known, strict=True) if has_both]
    errors, found = directions.errors[known], []
    weights = np.abs(directions.unstable) * training.X.std(axis=0)[:, None]
    for number, effects in enumerate(directions.effects[known].T):
        mean, spread, p_value = summarize(Posterior(1.0, by_site=effects, errors=errors))
        most = [names[column] for column in np.argsort(-weights[:, number], kind="stable")[:2]]
        half = float(special.stdtrit(max(len(sites) - 1, 1), 0.975)) * spread * np.sqrt(1 + 1 / len(sites))
        by_site = dict(zip(sites, effects.tolist(), strict=True)), dict(zip(sites, errors.tolist(), strict=True))
        name = f"combination {number + 1} of columns, mostly {' and '.join(most)}"
        p_value = min(p_value * len(names), 1.0)
        found.append(
            Finding(name, 1 - p_value, p_value, "", True, label, *by_site, mean, spread, mean - half, mean + half)
        )
    return tuple(found)


def _fit(estimator: Estimator, coordinates: Array, y: Codes) -> Any:
    """Fit the logistic regression; where it does not converge, its answers show whether it is good enough."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(last_step(estimator)).fit(coordinates, y)


def _answers(estimator: Estimator, training: TrainingRows, parts: Codes, *, bent: bool = False) -> Array:
    """Return the scores of every row by fits to the other parts: to stable directions, or to columns and products."""
    scores = np.empty((training.n_rows, 2))
    for rows in fold_parts(np.arange(training.n_rows), parts):
        rest = rows_without(rows, training.n_rows)
        found = find_directions(training.X[rest], training.y[rest], training.environment_codes[rest])
        centered = training.X - training.X[rest].mean(axis=0)
        coordinates = centered @ found.stable
        if bent:
            products = (centered @ found.unstable)[:, :, None] * centered[:, None]
            coordinates = np.hstack([centered, products.reshape(len(centered), -1)])
            coordinates /= np.maximum(coordinates[rest].std(axis=0), 1e-12)
        model = _fit(estimator, coordinates[rest], training.y[rest])
        scores[rows] = class_scores(model, coordinates[rows], 2)
    return scores


def _is_better(before: Array, after: Array, y: Codes, sites: Codes) -> bool:
    """Return whether log loss and accuracy are better, on average over sites and at the worst one."""

    def by_site(logs: Array) -> Array:
        right = logs.argmax(axis=1) == y
        return np.stack([np.bincount(sites, part) / np.bincount(sites) for part in (logs[np.arange(len(y)), y], right)])

    old, new = by_site(before), by_site(after)  # (2, n_sites) each
    gains = *(new.mean(axis=1) - old.mean(axis=1)), *(new.min(axis=1) - old.min(axis=1))
    return bool(min(gains) >= LEAST_BETTER)
