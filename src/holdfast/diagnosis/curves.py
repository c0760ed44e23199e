"""Clinical curves by site: calibration, net benefit, and the distribution of the predicted risk.

Calibration is a logistic regression of the event on a restricted cubic spline of the stated log-odds, for each site. At
each risk the sites' curves are pooled by a random-effects model, on the scale of log-odds, with a prediction band for
the next site: the two-stage approach of Barreñada et al. (2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.diagnosis.pooling import Estimate, make_estimate, pool_sites
from holdfast.environments import Environment
from holdfast.fitting.newton import fit_logistic

Floats = NDArray[np.float64]
N_RISKS, N_THRESHOLDS, N_BINS = 21, 40, 20
OUTER = 0.05  # share of rows at either end where a curve is not drawn: there it rests on few rows
KNOTS = (0.1, 0.5, 0.9)  # quantiles of the log-odds, Harrell's for three knots
LEAST_OF_EACH = 5  # events, and others, that a site needs for a calibration curve
LARGEST_ERROR = 3.0  # of log-odds: with more, the rows say nothing (events are separated from others)
BENT = 20  # events, and others, from which on it may be bent
MOST_SITES = 0.75  # share of the sites with a curve that a point of the pooled one needs
ALL_SITES = "all sites"


@dataclass(frozen=True)
class ClinicalCurves:
    """Calibration, net benefit and distribution of stated risks; NaN where a curve has no rows to rest on.

    Attributes
    ----------
    risks : tuple of float
        Stated risks at which calibration is given.
    calibration : mapping of str to tuple of float
        The observed risk at each of `risks`, by site.
    pooled, next_low, next_high : tuple of float
        The mean curve over sites, and the 95 % prediction band of the next site.
    thresholds : tuple of float
    net_benefit, treat_all : mapping of str to tuple of float
        Net benefit at each threshold by the stated risk, and of treating everybody, by site and of all rows
        ("all sites"). Treating nobody has 0.
    bins : tuple of float
        The middles of intervals of the stated risk.
    with_event, without_event : mapping of str to tuple of float
        The share of rows with the event (without it) in each interval, by site and of all rows.
    """

    risks: tuple[float, ...]
    calibration: Mapping[str, tuple[float, ...]]
    pooled: tuple[float, ...]
    next_low: tuple[float, ...]
    next_high: tuple[float, ...]
    thresholds: tuple[float, ...]
    net_benefit: Mapping[str, tuple[float, ...]]
    treat_all: Mapping[str, tuple[float, ...]]
    bins: tuple[float, ...]
    with_event: Mapping[str, tuple[float, ...]]
    without_event: Mapping[str, tuple[float, ...]]


def treatment_benefits(events: Floats, risks: Floats, threshold: float) -> Floats:
    """Return what treating from `threshold` on brings for each row: 1 with the event, minus its odds without."""
    treated = np.asarray(risks) >= threshold
    return np.asarray(treated * (events - (1 - events) * threshold / (1 - threshold)))


def clinical_curves(
    events: Floats, risks: Floats, sites: Sequence[Environment], weights: Floats | None = None
) -> ClinicalCurves:
    """Return the curves of stated risks.

    Parameters
    ----------
    events : array of shape (n_rows,)
        0 or 1.
    risks : array of shape (n_rows,)
        Above 0 and below 1.
    sites : sequence of Environment
    weights : array of shape (n_rows,), optional
    """
    lowest, highest = (float(np.quantile(risks, share)) for share in (OUTER, 1 - OUTER))
    grid = np.linspace(lowest, highest, N_RISKS)
    curves = {
        site.name: calibration_curve(
            events[site.rows], risks[site.rows], grid, None if weights is None else weights[site.rows]
        )
        for site in sites
    }
    mean, low, high = _pool_curves(list(curves.values()))
    thresholds = np.linspace(0.01, min(0.99, max(0.1, float(np.quantile(risks, 0.99)))), N_THRESHOLDS)
    parts = {ALL_SITES: np.arange(len(events)), **{site.name: site.rows for site in sites}}
    counts = np.ones(len(events)) if weights is None else weights
    edges = np.linspace(0, 1, N_BINS + 1)

    def benefits(stated: Floats) -> dict[str, tuple[float, ...]]:
        of_rows = [treatment_benefits(events, stated, float(threshold)) for threshold in thresholds]
        return {
            name: tuple(float(np.average(values[rows], weights=counts[rows])) for values in of_rows)
            for name, rows in parts.items()
        }

    def shares(event: int) -> dict[str, tuple[float, ...]]:
        found = {}
        for name, rows in parts.items():
            chosen = rows[events[rows] == event]
            sums = np.histogram(risks[chosen], edges, weights=counts[chosen])[0]
            found[name] = tuple((sums / sums.sum() if len(chosen) else np.full(N_BINS, np.nan)).tolist())
        return found

    return ClinicalCurves(
        tuple(grid.tolist()),
        {name: tuple(point.value for point in curve) for name, curve in curves.items()},
        mean,
        low,
        high,
        tuple(thresholds.tolist()),
        benefits(risks),
        benefits(np.ones(len(events))),
        tuple(((edges[1:] + edges[:-1]) / 2).tolist()),
        shares(1),
        shares(0),
    )


def calibration_curve(events: Floats, risks: Floats, grid: Floats, weights: Floats | None = None) -> list[Estimate]:
    """Return the observed risk at each stated risk of `grid`, with its error as log-odds; NaN outside of the rows.

    With few events, or few different risks, the curve is a straight line of log-odds.
    """
    unknown = [Estimate(*[float("nan")] * 4)] * len(grid)
    fewest = min(events.sum(), len(events) - events.sum())
    scores, asked = special.logit(risks), special.logit(grid)
    if fewest < LEAST_OF_EACH or np.ptp(scores) == 0:
        return unknown
    knots = np.quantile(scores, KNOTS)
    bent = fewest >= BENT and (np.diff(knots) > 1e-6 * np.ptp(scores)).all()
    design, points = (spline_basis(values, knots if bent else None) for values in (scores, asked))
    fit = fit_logistic(design, events, np.full(design.shape[1], 1e-6), weights=weights)
    covariance = np.linalg.inv(fit.information)
    if weights is not None:
        pulls = design * (weights * (events - special.expit(design @ fit.coefficients)))[:, None]
        covariance = covariance @ (pulls.T @ pulls) @ covariance
    middles, errors = points @ fit.coefficients, np.sqrt(np.einsum("ij,jk,ik->i", points, covariance, points))
    low, high = np.quantile(risks, [OUTER, 1 - OUTER])
    return [
        make_estimate(float(middle), float(error), "logit")
        if low <= risk <= high and error < LARGEST_ERROR
        else nothing
        for middle, error, risk, nothing in zip(middles, errors, grid, unknown, strict=True)
    ]


def spline_basis(values: Floats, knots: Floats | None) -> Floats:
    """Return the columns 1, x and, with three knots, Harrell's restricted cubic spline of x.

    Examples
    --------
    >>> spline_basis(np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0]))
    array([[1.  , 0.  , 0.  ],
           [1.  , 1.  , 0.25],
           [1.  , 3.  , 3.  ]])
    """
    columns = [np.ones(len(values)), values]
    if knots is not None:
        first, middle, last = (np.maximum(values - knot, 0.0) ** 3 for knot in knots)
        a, b, c = knots
        bent = first - middle * (c - a) / (c - b) + last * (b - a) / (c - b)
        columns.append(bent / (c - a) ** 2)
    return np.column_stack(columns)


def _pool_curves(
    curves: Sequence[Sequence[Estimate]],
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return the mean curve and the band of the next site, where most sites with a curve have it."""
    n_known = sum(any(np.isfinite(point.error) for point in curve) for curve in curves)
    found = []
    for place in range(N_RISKS):
        points = [curve[place] for curve in curves]
        enough = sum(np.isfinite(point.error) for point in points) >= max(2, MOST_SITES * n_known)
        pooled = pool_sites("calibration", points, "logit") if enough else None
        nothing = (float("nan"),) * 3
        found.append(nothing if pooled is None else (pooled.mean.value, pooled.next_site.low, pooled.next_site.high))
    mean, low, high = zip(*found, strict=True)
    return mean, low, high
