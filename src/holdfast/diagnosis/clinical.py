"""The measures that clinical studies report at each site left out, pooled over sites, with what to expect at the next.

Discrimination (AUROC), calibration (slope, intercept in the large, observed to expected events), overall error (Brier
score, log loss) and net benefit at a threshold, for each site. Sites are pooled by a random-effects model: between-site
variance by restricted maximum likelihood, intervals by Hartung and Knapp, and a prediction interval for the next site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

from holdfast.environments import Environment, split_environments
from holdfast.exceptions import InputError, LabelsError, ParameterError
from holdfast.fitting.newton import fit_logistic
from holdfast.metrics import Interval

Floats = NDArray[np.float64]
Scale = Literal["logit", "log", "identity"]
LEAST_PROBABILITY = 1e-10  # log-odds of 0 and 1 are not finite
LEVEL = 0.95
N_POINTS = 200  # of the distribution of the variance between sites
MEASURES: dict[str, Scale] = {"auroc": "logit", "oe": "log", "slope": "identity", "intercept": "identity"}


@dataclass(frozen=True)
class Estimate:
    """A measure of one site, with its 95 % interval; `error` is the standard error on the scale of pooling."""

    value: float
    low: float
    high: float
    error: float

    @property
    def interval(self) -> Interval:
        """The value with its limits."""
        return Interval(self.value, self.low, self.high)


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
        Observed events divided by expected ones; standard error of its logarithm.
    brier, log_loss : float
    net_benefit, treat_all : float
        Net benefit at the threshold, of treating by the stated risk and of treating everybody; treating nobody has 0.
    """

    name: str
    n_rows: int
    n_events: int
    auroc: Estimate
    slope: Estimate
    intercept: Estimate
    slope_intercept: float
    oe: Estimate
    brier: float
    log_loss: float
    net_benefit: float
    treat_all: float


@dataclass(frozen=True)
class Pooled:
    """A measure over sites, by a random-effects model.

    Attributes
    ----------
    measure : str
    scale : "logit", "log" or "identity"
        Where it was pooled; the other numbers are on the measure's own scale, except `tau2`.
    n_sites : int
        Sites that have the measure.
    mean : Interval
        The mean over sites like these, with its 95 % interval (Hartung and Knapp).
    next_site : Interval
        The same mean, with a 95 % prediction interval for a new site, see `prediction_interval`.
    next_site_plain : Interval
        The prediction interval of Higgins, Thompson and Spiegelhalter with Hartung and Knapp's error, as `metafor`
        computes it. It takes the estimated variance between sites for the true one and is often too narrow.
    tau2 : float
        Variance between sites (restricted maximum likelihood), on `scale`.
    i2 : float
        Share of the variance of the sites' estimates that is between sites, 0 to 1.
    """

    measure: str
    scale: Scale
    n_sites: int
    mean: Interval
    next_site: Interval
    next_site_plain: Interval
    tau2: float
    i2: float


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
        AUROC, O:E, slope and intercept; those that at least two sites have.
    """

    event: str
    threshold: float
    sites: tuple[SiteMeasures, ...]
    pooled: tuple[Pooled, ...]

    def pooled_of(self, measure: str) -> Pooled | None:
        """Return a measure over sites; None where it could not be pooled."""
        return next((found for found in self.pooled if found.measure == measure), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def clinical_report(
    events: ArrayLike, risks: ArrayLike, environments: Any, *, event: str = "1", threshold: float | None = None
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
    cut = float(y.mean()) if threshold is None else threshold
    if not 0 < cut < 1:
        raise ParameterError(f"threshold must be between 0 and 1. Got {cut:g} instead.")
    sites = tuple(_measure(y, p, site, cut) for site in split_environments(environments, len(y)))
    pooled = [pool_sites(measure, [getattr(site, measure) for site in sites]) for measure in MEASURES]
    return ClinicalReport(event, cut, sites, tuple(found for found in pooled if found is not None))


def net_benefit(events: ArrayLike, risks: ArrayLike, threshold: float) -> float:
    """Return the net benefit of treating those whose risk is at least `threshold`.

    It is the share of rows that are treated and have the event, minus the share that are treated without it, weighted
    by the odds of the threshold (Vickers and Elkin, 2006).

    Examples
    --------
    >>> round(net_benefit([1, 1, 0, 0], [0.9, 0.1, 0.6, 0.2], 0.5), 3)
    0.0
    """
    y, treated = np.asarray(events, dtype=np.float64), np.asarray(risks) >= threshold
    return float((y * treated).mean() - ((1 - y) * treated).mean() * threshold / (1 - threshold))


def _measure(y: Floats, p: Floats, site: Environment, threshold: float) -> SiteMeasures:
    """Return the measures of one site."""
    events, risks = y[site.rows], p[site.rows]
    clipped = np.clip(risks, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    scores = special.logit(clipped)
    slope, slope_intercept = _slope(events, scores)
    return SiteMeasures(
        site.name,
        len(events),
        int(events.sum()),
        _auroc(events, risks),
        slope,
        _in_the_large(events, scores),
        slope_intercept,
        _observed_to_expected(events, risks),
        float(((events - risks) ** 2).mean()),
        float(-(special.xlogy(events, clipped) + special.xlogy(1 - events, 1 - clipped)).mean()),
        net_benefit(events, risks, threshold),
        net_benefit(events, np.ones(len(events)), threshold),
    )


UNKNOWN = Estimate(*[float("nan")] * 4)


def _estimate(middle: float, error: float, scale: Scale) -> Estimate:
    """Return an estimate from its value and standard error on a scale."""
    reach = stats.norm.ppf(0.5 + LEVEL / 2) * error
    value, low, high = (_from_scale(point, scale) for point in (middle, middle - reach, middle + reach))
    return Estimate(value, low, high, float(error))


def _from_scale(value: float, scale: Scale) -> float:
    if scale == "logit":
        return float(special.expit(value))
    return float(np.exp(value)) if scale == "log" else float(value)


def _to_scale(value: float, scale: Scale) -> float:
    if scale == "logit":
        return float(special.logit(value))
    return float(np.log(value)) if scale == "log" else float(value)


def _auroc(events: Floats, risks: Floats) -> Estimate:
    """Return the area under the ROC curve with DeLong's standard error, on the scale of log-odds."""
    positive, negative = np.sort(risks[events == 1]), np.sort(risks[events == 0])
    n_1, n_0 = len(positive), len(negative)
    if min(n_1, n_0) < 2:
        return UNKNOWN
    # The share of the other class that each row is ranked above (below), ties one half.
    above = (np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")) / (2 * n_0)
    below = 1 - (np.searchsorted(positive, negative, "left") + np.searchsorted(positive, negative, "right")) / (2 * n_1)
    area = float(above.mean())
    half = 0.5 / min(n_1, n_0)
    inside = {0.0: half, 1.0: 1 - half}.get(area, area)  # a perfect order still is uncertain
    variance = above.var(ddof=1) / n_1 + below.var(ddof=1) / n_0
    variance = max(float(variance), inside * (1 - inside) / (n_1 * n_0))
    found = _estimate(float(special.logit(inside)), float(np.sqrt(variance)) / (inside * (1 - inside)), "logit")
    return Estimate(area, min(found.low, area), max(found.high, area), found.error)


def _slope(events: Floats, scores: Floats) -> tuple[Estimate, float]:
    """Return the calibration slope and its intercept, by maximum likelihood; NaN where they do not exist."""
    if min(events.sum(), len(events) - events.sum()) < 2 or np.ptp(scores) == 0:
        return UNKNOWN, float("nan")
    separated = scores[events == 1].min() > scores[events == 0].max()
    separated |= scores[events == 1].max() < scores[events == 0].min()
    if separated:
        return UNKNOWN, float("nan")
    design = np.column_stack([np.ones(len(scores)), scores])
    fit = fit_logistic(design, events, np.full(2, 1e-10))
    error = float(np.sqrt(np.linalg.inv(fit.information)[1, 1]))
    return _estimate(float(fit.coefficients[1]), error, "identity"), float(fit.coefficients[0])


def _in_the_large(events: Floats, scores: Floats) -> Estimate:
    """Return the calibration intercept with the slope held at one; NaN without events, or with nothing else."""
    if not 0 < events.sum() < len(events):
        return UNKNOWN
    reach = float(np.abs(scores).max()) + abs(float(special.logit(events.mean())))

    def excess(intercept: float) -> float:
        return float(special.expit(scores + intercept).sum() - events.sum())

    found = float(optimize.brentq(excess, -reach - 1, reach + 1, xtol=1e-10))
    risks = special.expit(scores + found)
    return _estimate(found, float(1 / np.sqrt((risks * (1 - risks)).sum())), "identity")


def _observed_to_expected(events: Floats, risks: Floats) -> Estimate:
    """Return O:E with the standard error of its logarithm, (1 - share of events) / events; NaN without events."""
    n_events, expected = float(events.sum()), float(risks.sum())
    if not 0 < n_events < len(events) or not expected:
        return UNKNOWN
    error = float(np.sqrt((1 - n_events / len(events)) / n_events))
    return _estimate(float(np.log(n_events / expected)), error, "log")


def pool_sites(measure: str, estimates: Sequence[Estimate]) -> Pooled | None:
    """Pool a measure over sites by a random-effects model; None with fewer than two sites that have it.

    Between-site variance by restricted maximum likelihood, the mean's interval by Hartung and Knapp with k - 1 degrees
    of freedom, and the plain prediction interval are those of `rma` and `predict` of the R package metafor.

    Parameters
    ----------
    measure : str
        One of `MEASURES`, which says the scale.
    estimates : sequence of Estimate
        One for each site; those that are NaN are left out.
    """
    scale = MEASURES[measure]
    known = [found for found in estimates if np.isfinite(found.error) and found.error > 0]
    if len(known) < 2:
        return None
    middles = [_inside(found, scale) for found in known]
    variances = [found.error**2 for found in known]
    mean, error, tau2, i2 = random_effects(middles, variances)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, len(known) - 1))
    spread = float(np.sqrt(error**2 + tau2))

    def interval(low: float, high: float) -> Interval:
        return Interval(*(_from_scale(point, scale) for point in (mean, low, high)))

    return Pooled(
        measure,
        scale,
        len(known),
        interval(mean - reach * error, mean + reach * error),
        interval(*prediction_interval(middles, variances)),
        interval(mean - reach * spread, mean + reach * spread),
        tau2,
        i2,
    )


def _inside(found: Estimate, scale: Scale) -> float:
    """Return a value on its scale: of a perfect AUROC, the one that its interval is built around."""
    if scale == "logit" and found.value in (0.0, 1.0):
        reach = float(stats.norm.ppf(0.5 + LEVEL / 2)) * found.error
        return float(special.logit(found.low)) + reach if found.value else float(special.logit(found.high)) - reach
    return _to_scale(found.value, scale)


def random_effects(values: ArrayLike, variances: ArrayLike) -> tuple[float, float, float, float]:
    """Return mean, standard error (Hartung and Knapp), between-site variance (REML) and I² of some estimates.

    Parameters
    ----------
    values, variances : arrays of shape (n_sites,)

    Examples
    --------
    >>> mean, error, tau2, i2 = random_effects([0.0, 1.0, 2.0], [0.01, 0.01, 0.01])
    >>> round(mean, 6), round(error, 3), round(tau2, 3), round(i2, 3)
    (1.0, 0.577, 0.99, 0.99)
    """
    y, v = np.asarray(values, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    k = len(y)

    def mean_at(tau2: float) -> tuple[float, Floats]:
        weights = 1 / (v + tau2)
        return float(weights @ y / weights.sum()), weights

    def deviance(tau2: float) -> float:
        """Minus twice the restricted log likelihood, up to a constant."""
        mean, weights = mean_at(tau2)
        return float(-np.log(weights).sum() + np.log(weights.sum()) + weights @ (y - mean) ** 2)

    largest = 10 * float(y.var(ddof=1)) + 10 * float(v.max())
    grid = np.concatenate([[0.0], np.geomspace(1e-8 * largest, largest, 60)])
    best = int(np.argmin([deviance(point) for point in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(
        deviance, bounds=(float(low), float(high)), method="bounded", options={"xatol": 1e-12}
    )
    tau2 = float(found.x) if found.fun < deviance(0.0) else 0.0
    mean, weights = mean_at(tau2)
    error = float(np.sqrt(weights @ (y - mean) ** 2 / ((k - 1) * weights.sum())))
    # I² of Higgins and Thompson: tau² against the typical variance within sites.
    fixed = 1 / v
    typical = (k - 1) * fixed.sum() / (fixed.sum() ** 2 - (fixed**2).sum())
    return mean, error, tau2, float(tau2 / (tau2 + typical))


def prediction_interval(values: ArrayLike, variances: ArrayLike, *, level: float = LEVEL) -> tuple[float, float]:
    """Return limits for the true value at a new site, the variance between sites being uncertain.

    For a given variance between sites tau², Cochran's Q with weights 1 / (variance + tau²) is chi-squared with k - 1
    degrees of freedom. Solving for tau² at each quantile of that distribution gives a confidence distribution of tau²
    (the Q profile of Viechtbauer, 2007). The new site's value is normal given tau²; the limits are quantiles of the
    mixture. The idea is that of Nagashima, Noma and Furukawa (2019), without simulation.

    Parameters
    ----------
    values, variances : arrays of shape (n_sites,)
        Estimates and their squared standard errors, at least two.
    level : float

    Examples
    --------
    >>> low, high = prediction_interval([0.8, 1.3, 1.05, 0.4, 1.6], [0.02, 0.05, 0.03, 0.04, 0.1])
    >>> round(low, 2), round(high, 2)
    (-0.31, 2.34)
    """
    y, v = np.asarray(values, dtype=np.float64), np.asarray(variances, dtype=np.float64)

    def means_and_q(tau2: Floats) -> tuple[Floats, Floats, Floats]:
        weights = 1 / (v[:, None] + tau2)  # (n_sites, n_points)
        total = weights.sum(axis=0)
        means = (weights * y[:, None]).sum(axis=0) / total
        return means, 1 / total, (weights * (y[:, None] - means) ** 2).sum(axis=0)

    points = stats.chi2.ppf((np.arange(N_POINTS) + 0.5) / N_POINTS, len(y) - 1)
    largest = float(v.max())
    while means_and_q(np.array([largest]))[2][0] > points[0]:
        largest *= 4
    grid = np.concatenate([[0.0], np.geomspace(1e-6 * largest, largest, 400)])
    tau2 = np.interp(-points, -means_and_q(grid)[2], grid)  # Q falls as tau² grows; 0 where even Q(0) is smaller
    means, errors, _ = means_and_q(tau2)
    spreads = np.sqrt(tau2 + errors)
    reach = 40 * float(spreads.max()) + float(np.ptp(means))

    def limit(share: float) -> float:
        def excess(x: float) -> float:
            return float(special.ndtr((x - means) / spreads).mean()) - share

        return float(optimize.brentq(excess, means.min() - reach, means.max() + reach, xtol=1e-10))

    return limit((1 - level) / 2), limit((1 + level) / 2)
