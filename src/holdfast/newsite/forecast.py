r"""Forecast accuracy and AUROC at a new site from predicted probabilities, without labels.

For each known site the classifier is asked about rows that it was not fitted on, once with the site left out and once
out of fold. Of each the accuracy within bins of confidence (the largest probability of a row) is weighted as the new
site's rows fall into these bins. Out of fold, all known rows count the same. Of the sites left out, those count more
whose confidences are distributed like the new site's. The forecast is the mean of the two: the accuracy out of fold is
too high for most new sites, and that with sites left out is too low, because those fits have seen fewer sites.

How far it was off when each known site played the new one gives the interval. What is stored are counts for each known
site, and no rows.

The probabilities of a classifier that was adapted or recalibrated for the site are already about this site: its mean
confidence is the forecast, and the mean probability of what another classifier predicts is that one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.metrics import Interval, auroc

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
N_BINS = 10  # of confidence
USUAL_ERROR, USUAL_SITES = 0.05, 8  # error of a forecast before any site was tried, and as how many sites it counts
LEAST_ROWS = 20  # rows of a known site from which on it is tried
APART = 0.05  # share of rows in other bins of confidence at which a site counts half as much as one without


@dataclass(frozen=True, eq=False)
class Answers:
    """What a classifier answered at one site, in summary."""

    n_rows: int
    counts: Array  # (N_BINS,) rows in each bin of confidence
    expected_auroc: float  # if the probabilities are right
    accuracy: float = float("nan")
    right: Array = field(default_factory=lambda: np.zeros(N_BINS))  # (N_BINS,) rows of each bin that are right
    auroc: float = float("nan")


@dataclass(frozen=True, eq=False)
class ForecastBasis:
    """What a fitted classifier carries so that its accuracy at a new site can be forecast."""

    sites: Mapping[str, Answers] = field(default_factory=dict)  # by fits without the site
    folds: Answers | None = None  # of all known sites, out of fold

    @property
    def accuracy(self) -> float:
        """Accuracy at the known sites, out of fold."""
        return float("nan") if self.folds is None else self.folds.accuracy

    @property
    def lowest(self) -> float:
        """Accuracy at the worst known site that has some rows, by a fit without it."""
        return min((site.accuracy for site in self.sites.values() if site.n_rows >= LEAST_ROWS), default=float("nan"))


def summarize(probabilities: Array, y: Codes | None = None) -> Answers:
    """Return a summary of probabilities, (n_rows, n_classes), and of how right they are where labels are known."""
    n_rows, n_classes = probabilities.shape
    largest = probabilities.max(axis=1)
    edges = np.linspace(1 / n_classes, 1.0, N_BINS + 1)[1:-1]
    bins = np.searchsorted(edges, largest, side="right")
    counts = np.bincount(bins, minlength=N_BINS).astype(np.float64)
    found = Answers(n_rows, counts, _expected_auroc(probabilities))
    if y is None:
        return found
    right = probabilities.argmax(axis=1) == y
    area = auroc(y, probabilities) if len(np.unique(y)) == n_classes else float("nan")
    return replace(
        found,
        accuracy=float(right.mean()),
        right=np.bincount(bins, right, minlength=N_BINS).astype(np.float64),
        auroc=float(area),
    )


def forecast_accuracy(basis: ForecastBasis, new: Answers) -> Interval | None:
    """Return the accuracy to expect at a new site (95 %); None where nothing is known.

    Examples
    --------
    Rows of which the classifier is sure are right in 90 % of the cases, and others in 60 %; here all are of the latter:

    >>> sure, unsure = np.tile([0.1, 0.9], (100, 1)), np.tile([0.4, 0.6], (100, 1))
    >>> labels = np.r_[np.zeros(10, int), np.ones(90, int), np.zeros(40, int), np.ones(60, int)]
    >>> site = summarize(np.vstack([sure, unsure]), labels)
    >>> found = forecast_accuracy(ForecastBasis({"A": site, "B": site, "C": site}, site), summarize(unsure))
    >>> round(found.value, 2), round(found.high - found.low, 2)
    (0.6, 0.26)
    """
    if basis.folds is None or not basis.sites:
        return None
    value = _estimate(list(basis.sites.values()), basis.folds, new)
    large = {name: site for name, site in basis.sites.items() if site.n_rows >= LEAST_ROWS}
    tried = []
    for name, site in large.items() if len(large) > 1 else ():
        others = [other for other_name, other in basis.sites.items() if other_name != name]
        tried.append((_estimate(others, basis.folds, site), site.accuracy, site.n_rows))
    return _interval(value, new.n_rows, tried)


def forecast_adapted(probabilities: Array, tried: Sequence[tuple[float, float, int]] = ()) -> Interval:
    """Return the accuracy to expect of a classifier that was made for the site: its mean confidence there (95 %).

    `tried` has (forecast, accuracy, rows) of each known site where that was tried.
    """
    return _interval(float(probabilities.max(axis=1).mean()), len(probabilities), tried)


def _interval(value: float, n_rows: int, tried: Sequence[tuple[float, float, int]]) -> Interval:
    """Return a forecast with its 95 % interval, from forecasts at known sites, what came true there, and rows."""
    n = len(tried)
    squares = sum((forecast - accuracy) ** 2 for forecast, accuracy, _ in tried)
    variance = (squares + USUAL_SITES * USUAL_ERROR**2) / (n + USUAL_SITES)
    noise = sum(accuracy * (1 - accuracy) / rows for _, accuracy, rows in tried) / max(n, 1)
    between = max(variance - noise, variance / 4)
    own = value * (1 - value) / max(n_rows, 1)
    half = float(special.stdtrit(n + USUAL_SITES, 0.975)) * float(np.sqrt(between * (1 + 1 / max(n, 1)) + own))
    return Interval(value, max(value - half, 0.0), min(value + half, 1.0))


def forecast_auroc(basis: ForecastBasis, new: Answers) -> Interval | None:
    """Return the AUROC to expect (95 %): that of the probabilities, less what they promised too much at other sites."""
    sites = [site for site in basis.sites.values() if np.isfinite(site.auroc)]
    if not sites or not np.isfinite(new.expected_auroc) or new.n_rows < LEAST_ROWS:
        return None

    def estimate(others: Sequence[Answers], at: Answers) -> float:
        excess = np.mean([site.expected_auroc - site.auroc for site in others])
        return float(np.clip(at.expected_auroc - excess, 0.0, 1.0))

    tried = [
        (estimate([*sites[:place], *sites[place + 1 :]], site), site.auroc, site.n_rows)
        for place, site in enumerate(sites)
        if site.n_rows >= LEAST_ROWS and len(sites) > 1
    ]
    return _interval(estimate(sites, new), new.n_rows, tried)


def _estimate(sites: Sequence[Answers], folds: Answers, new: Answers) -> float:
    """Return the mean of the estimates from folds and from sites left out."""
    rows = new.counts / max(new.counts.sum(), 1.0)
    counts, right = (np.array([getattr(site, name) for site in sites]) for name in ("counts", "right"))
    own = _in_bins(right, counts, _in_bins(right.sum(axis=0), counts.sum(axis=0)))  # (n_sites, N_BINS)
    apart = np.abs(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0) - rows).sum(axis=1) / 2
    elsewhere = np.average(own @ rows, weights=1 / (APART + apart))
    return float(_in_bins(folds.right, folds.counts) @ rows + elsewhere) / 2


def _in_bins(right: Array, counts: Array, usual: Array | None = None) -> Array:
    """Return the accuracy within bins; each borrows one row of the usual accuracy, by default that of all bins."""
    usual = right.sum() / max(counts.sum(), 1.0) if usual is None else usual
    return np.asarray((right + usual) / (counts + 1.0))


def _expected_auroc(probabilities: Array) -> float:
    """Return the AUROC of two classes if the probabilities are right; NaN for more classes."""
    if probabilities.shape[1] != 2:
        return float("nan")
    p = np.sort(probabilities[:, 1])
    positive, negative = p.sum(), (1 - p).sum()
    if positive < 1e-9 or negative < 1e-9:
        return float("nan")
    below = np.concatenate([[0.0], np.cumsum(1 - p)[:-1]])
    return float((p @ (below + 0.5 * (1 - p))) / (positive * negative))


def make_basis(folds: Array, left_out: Array, y: Codes, sites: Mapping[str, Codes]) -> ForecastBasis:
    """Return the basis of forecasts.

    Parameters
    ----------
    folds, left_out : arrays of shape (n_rows, n_classes)
        Probabilities of each row, out of fold and by fits without its site.
    y : array of shape (n_rows,)
        Class codes.
    sites : mapping of name to row numbers
    """
    return ForecastBasis(
        {name: summarize(left_out[rows], y[rows]) for name, rows in sites.items()}, summarize(folds, y)
    )
