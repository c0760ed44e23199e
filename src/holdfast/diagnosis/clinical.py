"""Clinical performance measures at each site left out, pooled over sites by random effects.

Discrimination (AUROC), calibration (slope, intercept in the large, observed to expected events), overall error (Brier
score, log loss), and at a threshold net benefit, sensitivity, specificity and predictive values, for each site. Sites
are pooled by a random-effects model (`holdfast.diagnosis.pooling`). Curves are in `holdfast.diagnosis.curves`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from holdfast.diagnosis.curves import ClinicalCurves, clinical_curves, treatment_benefits
from holdfast.diagnosis.pooling import UNKNOWN, Estimate, Pooled, Scale, make_estimate, pool_sites
from holdfast.environments import Environment, PerRow, split_environments
from holdfast.exceptions import InputError, LabelsError, ParameterError
from holdfast.fitting.newton import fit_logistic
from holdfast.rows.reading import read_weights

Floats = NDArray[np.float64]
LEAST_PROBABILITY = 1e-10  # log-odds of 0 and 1 are not finite
MEASURES: dict[str, Scale] = {  # what is pooled, and on which scale
    "auroc": "logit",
    "oe": "log",
    "slope": "identity",
    "intercept": "identity",
    "brier": "identity",
    "log_loss": "identity",
    "net_benefit": "identity",
    "sensitivity": "logit",
    "specificity": "logit",
    "ppv": "logit",
    "npv": "logit",
}


@dataclass(frozen=True)
class SiteMeasures:
    """How good stated risks are at one site; NaN where the rows cannot tell.

    Attributes
    ----------
    name : str
    n_rows, n_events : int
    auroc : Estimate
        Area under the ROC curve; standard error by DeLong, on the scale of log-odds.
    slope : Estimate
        Calibration slope: the effect of the log-odds of the stated risk in a logistic regression. 1 is right; below 1
        the risks are too extreme.
    intercept : Estimate
        Calibration in the large: the intercept of a logistic regression with the log-odds as offset. 0 is right; below
        0 the risks are too high.
    slope_intercept : float
        The intercept that belongs to the slope, as `val.prob` of the R package rms reports it.
    oe : Estimate
        Observed events divided by expected ones; standard error of its logarithm, as of a ratio of two means.
    brier, log_loss : Estimate
    net_benefit : Estimate
        At the threshold, of treating by the stated risk; treating nobody has 0.
    treat_all : float
        Net benefit of treating everybody.
    sensitivity, specificity, ppv, npv : Estimate
        Treating from the threshold on: the share of events that are treated, of others that are not; the share of those
        treated that have the event, of those not treated that do not.
    """

    name: str
    n_rows: int
    n_events: int
    auroc: Estimate
    slope: Estimate
    intercept: Estimate
    slope_intercept: float
    oe: Estimate
    brier: Estimate
    log_loss: Estimate
    net_benefit: Estimate
    treat_all: float
    sensitivity: Estimate
    specificity: Estimate
    ppv: Estimate
    npv: Estimate


@dataclass(frozen=True)
class ClinicalReport:
    """The measures of every site, and pooled.

    Attributes
    ----------
    event : str
        The label that counts as the event.
    threshold : float
        The risk from which on somebody is treated, for net benefit.
    sites : tuple of SiteMeasures
    pooled : tuple of Pooled
        The measures of `MEASURES` that at least two sites have.
    curves : ClinicalCurves
        Calibration, net benefit and distribution of the stated risk, by site and pooled.
    """

    event: str
    threshold: float
    sites: tuple[SiteMeasures, ...]
    pooled: tuple[Pooled, ...]
    curves: ClinicalCurves

    def pooled_of(self, measure: str) -> Pooled | None:
        """Return a measure over sites; None where it could not be pooled."""
        return next((found for found in self.pooled if found.measure == measure), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def clinical_report(
    events: ArrayLike,
    risks: ArrayLike,
    environments: PerRow,
    *,
    event: str = "1",
    threshold: float | None = None,
    sample_weight: PerRow = None,
) -> ClinicalReport:
    """Measure stated risks at every site, and pool the sites.

    Parameters
    ----------
    events : array of shape (n_rows,)
        1 or True where the event happened.
    risks : array of shape (n_rows,)
        Stated risks, best from a model that has not seen the row's site.
    environments : labels of shape (n_rows,)
        The site of each row.
    event : str
        What the event is called.
    threshold : float, optional
        The risk from which on somebody is treated; by default the share of events among all rows.
    sample_weight : array of shape (n_rows,), optional
        How much each row counts; only ratios matter. Standard errors are then those of weighted means (sandwich).

    Returns
    -------
    ClinicalReport

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> risks = generator.uniform(0.1, 0.9, 900)
    >>> report = clinical_report(generator.random(900) < risks, risks, np.repeat(["a", "b", "c"], 300), threshold=0.3)
    >>> [round(site.oe.value, 2) for site in report.sites]
    [0.98, 1.1, 0.99]
    >>> report.pooled_of("auroc").n_sites
    3
    """
    y, p = np.asarray(events, dtype=np.float64), np.asarray(risks, dtype=np.float64)
    if y.ndim != 1 or y.shape != p.shape or not len(y):
        raise InputError(f"events has shape {y.shape} and risks {p.shape}. Pass one of each for every row.")
    if not np.isin(y, (0.0, 1.0)).all():
        raise LabelsError("events has values other than 0 and 1. Pass 1 where the event happened and 0 elsewhere.")
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("risks has values outside 0 to 1. Pass probabilities.")
    w = read_weights(sample_weight, len(y))
    if w is not None:
        environments, y, p, w = np.asarray(environments)[w > 0], y[w > 0], p[w > 0], w[w > 0]
    cut = float(np.average(y, weights=w)) if threshold is None else threshold
    if not 0 < cut < 1:
        raise ParameterError(f"threshold must be between 0 and 1. Got {cut:g} instead.")
    split = split_environments(environments, len(y))
    sites = tuple(_measure(y, p, w, site, cut) for site in split)
    pooled = [pool_sites(name, [getattr(site, name) for site in sites], scale) for name, scale in MEASURES.items()]
    curves = clinical_curves(y, np.clip(p, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY), split, w)
    return ClinicalReport(event, cut, sites, tuple(found for found in pooled if found is not None), curves)


def net_benefit(events: ArrayLike, risks: ArrayLike, threshold: float) -> float:
    """Return the net benefit of treating those whose risk is at least `threshold`.

    It is the share of rows that are treated and have the event, minus the share that are treated without it, weighted
    by the odds of the threshold (Vickers and Elkin, 2006).

    Examples
    --------
    >>> round(net_benefit([1, 1, 0, 0], [0.9, 0.1, 0.6, 0.2], 0.5), 3)
    0.0
    """
    y, p = np.asarray(events, dtype=np.float64), np.asarray(risks, dtype=np.float64)
    return float(treatment_benefits(y, p, threshold).mean())


def _measure(y: Floats, p: Floats, w: Floats | None, site: Environment, threshold: float) -> SiteMeasures:
    """Return the measures of one site."""
    events, risks = y[site.rows], p[site.rows]
    weights = None if w is None else w[site.rows]
    clipped = np.clip(risks, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    scores = special.logit(clipped)
    slope, slope_intercept = _slope(events, scores, weights)
    losses = -(special.xlogy(events, clipped) + special.xlogy(1 - events, 1 - clipped))
    treated = risks >= threshold
    happened = events == 1

    def share(of: NDArray[np.bool_], among: NDArray[np.bool_]) -> Estimate:
        return _share(of[among], None if weights is None else weights[among])

    return SiteMeasures(
        site.name,
        len(events),
        int(events.sum()),
        _auroc(events, risks, weights),
        slope,
        _in_the_large(events, scores, weights),
        slope_intercept,
        _observed_to_expected(events, risks, weights),
        _mean((events - risks) ** 2, weights),
        _mean(np.asarray(losses, dtype=np.float64), weights),
        _mean(treatment_benefits(events, risks, threshold), weights),
        float(np.average(treatment_benefits(events, np.ones(len(events)), threshold), weights=weights)),
        share(treated, happened),
        share(~treated, ~happened),
        share(happened, treated),
        share(~happened, ~treated),
    )


def _mean(values: Floats, weights: Floats | None) -> Estimate:
    """Return a mean of rows with its standard error; unknown where all values are equal."""
    if np.ptp(values) < 1e-12:
        return Estimate(float(values[0]), *[float("nan")] * 3)
    shares = np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()
    mean = float(shares @ values)
    variance = float((shares**2) @ (values - mean) ** 2) * len(values) / (len(values) - 1)
    return make_estimate(mean, float(np.sqrt(variance)), "identity")


def _share(hits: NDArray[np.bool_], weights: Floats | None) -> Estimate:
    """Return a share of rows with its error as log-odds; half a row is added where all or none are hits."""
    n_rows = len(hits) if weights is None else float(weights.sum() ** 2 / (weights**2).sum())  # Kish
    if not len(hits):
        return UNKNOWN
    share = float(np.average(hits, weights=weights))
    inside = share if 0 < share < 1 else (share * n_rows + 0.5) / (n_rows + 1)
    found = make_estimate(float(special.logit(inside)), float(1 / np.sqrt(n_rows * inside * (1 - inside))), "logit")
    return Estimate(share, min(found.low, share), max(found.high, share), found.error)


def _auroc(events: Floats, risks: Floats, weights: Floats | None) -> Estimate:
    """Return the area under the ROC curve with DeLong's standard error, on the scale of log-odds."""
    counts = np.ones(len(events)) if weights is None else weights
    order = np.argsort(risks, kind="stable")
    y, p, w = events[order] == 1, risks[order], counts[order]
    n_1, n_0 = int(y.sum()), int((~y).sum())
    if min(n_1, n_0) < 2:
        return UNKNOWN

    def below(of: NDArray[np.bool_], asked: Floats) -> Floats:
        """Return the weighted share of some rows that each of the asked risks is above, ties one half."""
        values, sums = p[of], np.concatenate([[0.0], np.cumsum(w[of])])
        left, right = np.searchsorted(values, asked, "left"), np.searchsorted(values, asked, "right")
        return np.asarray((sums[left] + sums[right]) / (2 * sums[-1]))

    placed = (below(~y, p[y]), w[y] / w[y].sum()), (1 - below(y, p[~y]), w[~y] / w[~y].sum())
    area = round(float(placed[0][0] @ placed[0][1]), 12)  # a sum of shares: 1 up to rounding is 1
    half = 0.5 / min(n_1, n_0)
    inside = {0.0: half, 1.0: 1 - half}.get(area, area)  # a perfect order still is uncertain
    variance = sum(
        float(shares**2 @ (values - area) ** 2) * len(values) / (len(values) - 1) for values, shares in placed
    )
    variance = max(variance, inside * (1 - inside) / (n_1 * n_0))
    found = make_estimate(float(special.logit(inside)), float(np.sqrt(variance)) / (inside * (1 - inside)), "logit")
    return Estimate(area, min(found.low, area), max(found.high, area), found.error)


def _slope(events: Floats, scores: Floats, weights: Floats | None) -> tuple[Estimate, float]:
    """Return the calibration slope and its intercept, by maximum likelihood; NaN where they do not exist."""
    if min(events.sum(), len(events) - events.sum()) < 2 or np.ptp(scores) == 0:
        return UNKNOWN, float("nan")
    separated = scores[events == 1].min() > scores[events == 0].max()
    separated |= scores[events == 1].max() < scores[events == 0].min()
    if separated:
        return UNKNOWN, float("nan")
    design = np.column_stack([np.ones(len(scores)), scores])
    fit = fit_logistic(design, events, np.full(2, 1e-10), weights=weights)
    covariance = np.linalg.inv(fit.information)
    if weights is not None:
        pulls = design * (weights * (events - special.expit(design @ fit.coefficients)))[:, None]
        covariance = covariance @ (pulls.T @ pulls) @ covariance
    slope = make_estimate(float(fit.coefficients[1]), float(np.sqrt(covariance[1, 1])), "identity")
    return slope, float(fit.coefficients[0])


def _in_the_large(events: Floats, scores: Floats, weights: Floats | None) -> Estimate:
    """Return the calibration intercept with the slope held at one; NaN without events, or with nothing else."""
    if not 0 < events.sum() < len(events):
        return UNKNOWN
    counts = np.ones(len(events)) if weights is None else weights
    reach = float(np.abs(scores).max()) + abs(float(special.logit(np.average(events, weights=counts))))

    def excess(intercept: float) -> float:
        return float(counts @ (special.expit(scores + intercept) - events))

    found = float(optimize.brentq(excess, -reach - 1, reach + 1, xtol=1e-10))
    risks = special.expit(scores + found)
    information = float(counts @ (risks * (1 - risks)))
    error = 1 / np.sqrt(information) if weights is None else np.linalg.norm(counts * (events - risks)) / information
    return make_estimate(found, float(error), "identity")


def _observed_to_expected(events: Floats, risks: Floats, weights: Floats | None) -> Estimate:
    """Return O:E with the standard error of its logarithm, that of a ratio of two means; NaN without events.

    Patients of higher risk raise both observed and expected events, so only what the risks do not explain counts.
    """
    shares = np.full(len(events), 1 / len(events)) if weights is None else weights / weights.sum()
    observed, expected = float(shares @ events), float(shares @ risks)
    if not 0 < observed < 1 or not expected:
        return UNKNOWN
    unexplained = shares * (events - observed / expected * risks)
    error = np.linalg.norm(unexplained) * np.sqrt(len(events) / (len(events) - 1)) / observed
    return make_estimate(float(np.log(observed / expected)), float(error), "log")
