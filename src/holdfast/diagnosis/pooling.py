"""Random-effects meta-analysis: the mean of a measure over sites, and a prediction interval for the next site.

A random-effects model: the variance between sites by restricted maximum likelihood, the interval of the mean by Hartung
and Knapp, and a prediction interval for the next site.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from holdfast.metrics import Interval

Floats = NDArray[np.float64]
Scale = Literal["logit", "log", "identity"]
LEVEL = 0.95
N_POINTS = 200  # of the distribution of the variance between sites


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


UNKNOWN = Estimate(*[float("nan")] * 4)


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


def make_estimate(middle: float, error: float, scale: Scale) -> Estimate:
    """Return an estimate from its value and standard error on a scale."""
    reach = special.ndtri(0.5 + LEVEL / 2) * error
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


def pool_sites(measure: str, estimates: Sequence[Estimate], scale: Scale = "identity") -> Pooled | None:
    """Pool a measure over sites by a random-effects model; None with fewer than two sites that have it.

    Between-site variance by restricted maximum likelihood, the mean's interval by Hartung and Knapp with k - 1 degrees
    of freedom, and the plain prediction interval are those of `rma` and `predict` of the R package metafor.

    Parameters
    ----------
    measure : str
        Its name.
    estimates : sequence of Estimate
        One for each site; those that are NaN are left out.
    scale : "logit", "log" or "identity"
        On which values are about normal; standard errors are on this scale.
    """
    known = [found for found in estimates if np.isfinite(found.error) and found.error > 0]
    if len(known) < 2:
        return None
    middles = [_inside(found, scale) for found in known]
    variances = [found.error**2 for found in known]
    mean, error, tau2, i2 = random_effects(middles, variances)
    reach = float(special.stdtrit(len(known) - 1, 0.5 + LEVEL / 2))
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
        reach = float(special.ndtri(0.5 + LEVEL / 2)) * found.error
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

    def deviance(tau2: ArrayLike) -> Floats:
        """Minus twice the restricted log likelihood, up to a constant, for one or several variances."""
        weights = 1 / np.add.outer(tau2, v)
        total = weights.sum(axis=-1, keepdims=True)
        squares = (weights * (y - (weights @ y)[..., None] / total) ** 2).sum(axis=-1)
        return np.asarray(squares - np.log(weights).sum(axis=-1) + np.log(total[..., 0]))

    largest = 10 * float(y.var(ddof=1)) + 10 * float(v.max())
    grid = np.concatenate([[0.0], np.geomspace(1e-8 * largest, largest, 60)])
    best = int(np.argmin(deviance(grid)))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(
        lambda tau2: float(deviance(tau2)), bounds=(float(low), float(high)), method="bounded", options={"xatol": 1e-12}
    )
    tau2 = float(found.x) if found.fun < deviance(0.0) else 0.0
    weights = 1 / (v + tau2)
    mean = float(weights @ y / weights.sum())
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
    means, spreads = _next_site(values, variances)
    reach = 40 * float(spreads.max()) + float(np.ptp(means))

    def limit(share: float) -> float:
        def excess(x: float) -> float:
            return float(special.ndtr((x - means) / spreads).mean()) - share

        return float(optimize.brentq(excess, means.min() - reach, means.max() + reach, xtol=1e-10))

    return limit((1 - level) / 2), limit((1 + level) / 2)


def chance_of_site(value: float, variance: float, values: ArrayLike, variances: ArrayLike) -> float:
    """Return the probability that a site like others has an estimate that far from them, or farther, either way.

    Parameters
    ----------
    value, variance : float
        The estimate of the site, and its squared standard error.
    values, variances : arrays of shape (n_sites,)
        Those of the others, at least two. The variance between sites is as uncertain as in `prediction_interval`.

    Examples
    --------
    >>> round(chance_of_site(0.6, 0.0004, [0.8, 0.82, 0.79, 0.8], [0.0004] * 4), 4)
    0.0005
    """
    means, spreads = _next_site(values, variances)
    below = float(special.ndtr((value - means) / np.sqrt(spreads**2 + variance)).mean())
    return 2 * min(below, 1 - below)


def _next_site(values: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    """Return means and standard deviations of a new site's true value, for each of many variances between sites."""
    y, v = np.asarray(values, dtype=np.float64), np.asarray(variances, dtype=np.float64)

    def means_and_q(tau2: Floats) -> tuple[Floats, Floats, Floats]:
        weights = 1 / (v[:, None] + tau2)  # (n_sites, n_points)
        total = weights.sum(axis=0)
        means = (weights * y[:, None]).sum(axis=0) / total
        return means, 1 / total, (weights * (y[:, None] - means) ** 2).sum(axis=0)

    points = 2 * special.gammaincinv((len(y) - 1) / 2, (np.arange(N_POINTS) + 0.5) / N_POINTS)  # of chi-squared
    largest = float(v.max())
    while means_and_q(np.array([largest]))[2][0] > points[0]:
        largest *= 4
    grid = np.concatenate([[0.0], np.geomspace(1e-6 * largest, largest, 400)])
    tau2 = np.interp(-points, -means_and_q(grid)[2], grid)  # Q falls as tau² grows; 0 where even Q(0) is smaller
    means, errors, _ = means_and_q(tau2)
    return means, np.sqrt(tau2 + errors)
