"""Does a regression model hold at every site? R², RMSE and mean error, pooled over sites.

Each site is measured on rows that the model has not seen. Measures are pooled by a random-effects model with a
prediction interval for the next site (`holdfast.diagnosis.pooling`): RMSE and the unexplained share 1 - R² as
logarithms, the mean error as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from holdfast.diagnosis.advice import Action, Facts, Recommendation, State, decide, is_unstable
from holdfast.diagnosis.answer import advise_repair
from holdfast.diagnosis.pooling import UNKNOWN, Estimate, Pooled, Scale, make_estimate, pool_sites
from holdfast.diagnosis.soundness import Problem
from holdfast.diagnosis.words import headline, say
from holdfast.environments import PerRow, listed, split_environments
from holdfast.exceptions import InputError
from holdfast.metrics import Interval
from holdfast.stable.notebook import html_card
from holdfast.stable.verdict import RegressionVerdict

Floats = NDArray[np.float64]
MEASURES: dict[str, Scale] = {"rmse": "log", "bias": "identity"}
LEVEL = 0.05  # of all tests together
RMSE_MATTERS = 0.1  # share by which the RMSE is larger where the site was not seen
BIAS_MATTERS = 0.2  # mean error, in standard deviations of the label
LEAST_R2 = 0.1  # R² at known sites below which a model is of little use
UNCLEAR = 0.5  # relative width of the interval of the pooled ratio from which on nothing is promised


@dataclass(frozen=True)
class SiteErrors:
    """How good predictions of a number are at one site; NaN where the rows cannot tell.

    Attributes
    ----------
    name : str
    n_rows : int
    r2 : Estimate
        The share of the label's variance at this site that is explained; below 0 the site's mean is better. Standard
        error of the logarithm of 1 - R².
    rmse : Estimate
        Root mean squared error; standard error of its logarithm.
    bias : Estimate
        Mean of label minus prediction; 0 is right.
    """

    name: str
    n_rows: int
    r2: Estimate
    rmse: Estimate
    bias: Estimate


@dataclass(frozen=True)
class RegressionReport:
    """The measures of every site, and pooled."""

    sites: tuple[SiteErrors, ...]
    pooled: tuple[Pooled, ...]

    def pooled_of(self, measure: str) -> Pooled | None:
        """Return a measure over sites; None where fewer than two sites have it."""
        return next((found for found in self.pooled if found.measure == measure), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def regression_report(y: ArrayLike, predicted: ArrayLike, environments: PerRow) -> RegressionReport:
    """Measure predictions of a number at every site, and pool the sites.

    Parameters
    ----------
    y, predicted : arrays of shape (n_rows,)
    environments : labels of shape (n_rows,)

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> predicted = generator.normal(size=900)
    >>> y = predicted + generator.normal(size=900)
    >>> report = regression_report(y, predicted, np.repeat(["a", "b", "c"], 300))
    >>> round(report.pooled_of("rmse").mean.value, 1), round(report.pooled_of("r2").mean.value, 1)
    (1.0, 0.5)
    """
    truth, told = np.asarray(y, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if truth.ndim != 1 or truth.shape != told.shape or not len(truth):
        raise InputError(f"y has shape {truth.shape} and predicted {told.shape}. Pass one of each for every row.")
    sites = tuple(
        _measure(site.name, truth[site.rows], told[site.rows]) for site in split_environments(environments, len(truth))
    )
    pooled = [pool_sites(name, [getattr(site, name) for site in sites], scale) for name, scale in MEASURES.items()]
    found = (_pool_r2([site.r2 for site in sites]), *pooled)
    return RegressionReport(sites, tuple(measure for measure in found if measure is not None))


def _pool_r2(estimates: Sequence[Estimate]) -> Pooled | None:
    """Pool R² by the logarithm of what is not explained, so that no limit is above 1."""
    pooled = pool_sites("r2", [replace(found, value=1 - found.value) for found in estimates], "log")
    if pooled is None:
        return None

    def turn(found: Interval) -> Interval:
        return Interval(1 - found.value, 1 - found.high, 1 - found.low)

    return replace(
        pooled,
        mean=turn(pooled.mean),
        next_site=turn(pooled.next_site),
        next_site_plain=turn(pooled.next_site_plain),
    )


def _measure(name: str, y: Floats, predicted: Floats) -> SiteErrors:
    """Return the measures of one site, with standard errors by the delta method."""
    errors = y - predicted
    squares, n_rows = errors**2, len(y)
    mse, variance = float(squares.mean()), float(y.var())
    rmse = r2 = bias = UNKNOWN
    if n_rows > 1 and mse > 0:
        rmse = make_estimate(float(np.log(mse) / 2), float(squares.std(ddof=1) / (2 * mse * np.sqrt(n_rows))), "log")
        bias = make_estimate(float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(n_rows)), "identity")
    if n_rows > 2 and variance > 0 and mse > 0:
        pulls = squares / mse - (y - y.mean()) ** 2 / variance
        rest = make_estimate(float(np.log(mse / variance)), float(pulls.std(ddof=1) / np.sqrt(n_rows)), "log")
        r2 = Estimate(1 - rest.value, 1 - rest.high, 1 - rest.low, rest.error)
    return SiteErrors(name, n_rows, r2, rmse, bias)


@dataclass(frozen=True, eq=False)
class RegressionDiagnosis:
    """What was found about a regression model; `str()` is the answer in words.

    Attributes
    ----------
    estimator, label : str
    state : "breaks", "miscalibrated", "holds" or "unclear"
    new : RegressionReport
        At every site left out.
    known : RegressionReport
        On the same rows, out of fold, with rows of the site among those that the model was fitted on.
    ratio : Pooled or None
        RMSE at a site that the model has not seen divided by that when it has, over sites.
    worse, shifted : tuple of str
        Sites where the RMSE is clearly larger when the site is new; where predictions are clearly too low or too high.
    recommendation : Recommendation
    verdict : RegressionVerdict or None
        What `StableRegressor` says about all rows.
    problems : tuple of Problem
        What is wrong with the data, the worst first. Those that are headlines come before any verdict.
    """

    estimator: str
    label: str
    state: State
    new: RegressionReport
    known: RegressionReport
    ratio: Pooled | None
    worse: tuple[str, ...]
    shifted: tuple[str, ...]
    recommendation: Recommendation
    notes: tuple[str, ...] = ()
    verdict: RegressionVerdict | None = None
    problems: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        return f"{self.finding} {self.recommendation.sentence}"

    def __repr__(self) -> str:
        n_sites = len(self.new.sites)
        return f"<RegressionDiagnosis of {n_sites} sites with {self.estimator}: {self.state}>"

    def _repr_html_(self) -> str:
        """Return the answer and a table of the sites, for notebooks."""
        rows = [(s.name, f"{s.n_rows:,}", s.r2, s.rmse, s.bias) for s in self.new.sites]
        return html_card(str(self), (self.recommendation.reason,), ("site", "rows", "R²", "RMSE", "mean error"), rows)

    @property
    def finding(self) -> str:
        """What is wrong with the data; else whether the model breaks at a new site, with its numbers."""
        return headline(self.problems, self.label)[0] or _find(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "text": str(self),
            "task": "regression",
            "state": self.state,
            "estimator": self.estimator,
            "new": self.new.to_dict(),
            "known": self.known.to_dict(),
            "ratio": None if self.ratio is None else asdict(self.ratio),
            "worse": list(self.worse),
            "shifted": list(self.shifted),
            "recommendation": asdict(self.recommendation),
            "problems": [problem.to_dict() | {"text": say(problem, self.label)} for problem in self.problems],
            "notes": list(self.notes),
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
        }


def judge_regression(
    y: Floats,
    new: Floats,
    known: Floats,
    environments: PerRow,
    *,
    estimator: str,
    label: str,
    notes: Sequence[str] = (),
    verdict: RegressionVerdict | None = None,
    problems: Sequence[Problem] = (),
) -> RegressionDiagnosis:
    """Say what predictions at sites left out (`new`), and with rows of the site (`known`), mean."""
    sites = split_environments(environments, len(y))
    at_new, at_known = (regression_report(y, predicted, environments) for predicted in (new, known))
    ratios, worse, shifted = [], [], []
    spread = float(y.std()) or 1.0
    for site, measured in zip(sites, at_new.sites, strict=True):
        ratio = _ratio((y - new)[site.rows], (y - known)[site.rows])
        ratios.append(ratio)
        n_tests = 2 * len(sites)
        if np.isfinite(ratio.error) and _is_clear(np.log(ratio.value), ratio.error, n_tests, above=True):
            worse += [site.name] if ratio.value > 1 + RMSE_MATTERS else []
        bias = measured.bias
        # One shifted site moves the models of all others; their median says what is usual.
        usual = float(np.median([other.bias.value for other in at_new.sites if other is not measured]))
        if np.isfinite(bias.error) and _is_clear(bias.value - usual, bias.error, n_tests):
            shifted += [site.name] if abs(bias.value - usual) > BIAS_MATTERS * spread else []
    pooled = pool_sites("ratio", ratios, "log")
    state = _state(pooled, worse, shifted)
    remedy: Action | None = "recalibrate" if state == "miscalibrated" else None
    facts = Facts(
        state=state,
        remedy=remedy,
        is_unstable=is_unstable(verdict),
        data_is_wrong=any(problem.is_headline for problem in problems),
        tells_nothing=_tells_nothing(at_known),
    )
    rule = decide(facts)
    if rule.key == "wrong_data":
        advice = advise_repair(problems, label)
    elif rule.key == "tells_nothing":
        advice = _advise_other_columns(at_known)
    elif rule.action == "stable" and verdict is not None:
        advice = _advise_stable(verdict)
    else:
        advice = _advise(at_new, state, worse, shifted)
    assert advice.action == rule.action
    advice = replace(advice, command=rule.command, rule=rule.key)
    sites_found = tuple(worse), tuple(shifted)
    return RegressionDiagnosis(
        estimator,
        label,
        state,
        at_new,
        at_known,
        pooled,
        *sites_found,
        advice,
        tuple(notes),
        verdict,
        tuple(problems),
    )


def _tells_nothing(known: RegressionReport) -> bool:
    """Return whether R² at sites that the model has seen is not above 0, and surely low."""
    r2 = known.pooled_of("r2")
    return r2 is not None and r2.mean.low <= 0 and r2.mean.high < LEAST_R2


def _ratio(new: Floats, known: Floats) -> Estimate:
    """Return the ratio of two RMSEs of the same rows, with the standard error of its logarithm."""
    a, b = new**2, known**2
    if len(a) < 3 or not a.mean() > 0 or not b.mean() > 0:
        return UNKNOWN
    pulls = (a / a.mean() - b / b.mean()) / 2
    error = float(pulls.std(ddof=1) / np.sqrt(len(a)))
    return make_estimate(float(np.log(a.mean() / b.mean()) / 2), error, "log") if error > 0 else UNKNOWN


def _is_clear(value: float, error: float, n_tests: int, *, above: bool = False) -> bool:
    z = value / error if above else abs(value) / error
    return bool(special.ndtr(-z) * n_tests * (1 if above else 2) < LEVEL)


def _state(ratio: Pooled | None, worse: Sequence[str], shifted: Sequence[str]) -> State:
    if shifted:  # larger errors elsewhere may come from the shifted sites among the rows fitted on
        return "miscalibrated"
    if worse or (ratio is not None and ratio.mean.low > 1 + RMSE_MATTERS / 2):
        return "breaks"
    wide = ratio is None or ratio.mean.high / ratio.mean.low - 1 > UNCLEAR
    return "unclear" if wide else "holds"


def _find(found: RegressionDiagnosis) -> str:
    new, known = found.new.pooled_of("rmse"), found.known.pooled_of("rmse")
    if new is None or known is None:
        return "Fewer than two sites can be measured."
    r2 = found.new.pooled_of("r2")
    share = "" if r2 is None else f" and R² {r2.mean.value:.2f}"
    numbers = f"RMSE {new.mean.value:.3g}{share} there, against RMSE {known.mean.value:.3g} at a site it has seen"
    both = {
        site.name: (site.rmse.value, seen.rmse.value)
        for site, seen in zip(found.new.sites, found.known.sites, strict=True)
    }
    shifts = {site.name: site.bias.value for site in found.new.sites}
    moved = [f"{abs(shifts[name]):.3g} too {'low' if shifts[name] > 0 else 'high'} in {name}" for name in found.shifted]
    if found.recommendation.rule == "tells_nothing":
        return f"The columns do not predict `{found.label}`: {numbers}."
    if found.state == "holds":
        return f"An ordinary model of `{found.label}` holds at a site it has not seen: {numbers}."
    if found.state == "miscalibrated":
        return f"Predictions of `{found.label}` are {listed(moved, most=3)}."
    if found.state == "unclear":
        return f"There are too few rows to say whether a model of `{found.label}` breaks at a new site: {numbers}."
    worst = max(found.worse, key=lambda name: both[name][0] / both[name][1], default="")
    most = f" Most is lost in {worst}: RMSE {both[worst][0]:.3g} instead of {both[worst][1]:.3g}." if worst else ""
    return f"An ordinary model of `{found.label}` breaks at a site it has not seen: {numbers}.{most}"


def _advise_other_columns(known: RegressionReport) -> Recommendation:
    r2 = known.pooled_of("r2")
    assert r2 is not None
    return Recommendation(
        "collect",
        "Check that labels and columns belong to the same rows, or collect other columns.",
        f"Even at sites that it has seen, R² is {r2.mean.value:.2f} [{r2.mean.low:.2f} to {r2.mean.high:.2f}].",
        "",
    )


def _advise_stable(verdict: RegressionVerdict) -> Recommendation:
    """Recommend the stable model, with what it costs and saves."""
    names = tuple(finding.feature for finding in verdict.acted_on)
    effects = "a column whose effect differs" if len(names) == 1 else "columns whose effects differ"
    known, gone, turned = (verdict.rmse[question] for question in ("known", "vanished", "reversed"))
    return Recommendation(
        "stable",
        f"Use the stable model, which relies less on {listed([f'`{name}`' for name in names], most=4)}, {effects} "
        "between sites.",
        f"Its RMSE is {known.fitted:.3g} instead of {known.ordinary:.3g} at sites like these, {gone.fitted:.3g} "
        f"instead of {gone.ordinary:.3g} if the effect vanishes, and {turned.fitted:.3g} instead of "
        f"{turned.ordinary:.3g} if it reverses.",
        "",
        names,
    )


def _advise(report: RegressionReport, state: State, worse: Sequence[str], shifted: Sequence[str]) -> Recommendation:
    if state == "breaks":
        return Recommendation(
            "collect",
            "Collect rows at the new site and fit with them before using the model there.",
            "Errors are larger at sites the model has not seen, and no column has an effect that clearly differs.",
            "",
            site=worse[0] if worse else "",
        )
    if state == "miscalibrated":
        shifts = {site.name: site.bias.value for site in report.sites}
        said = listed([f"{name} {shifts[name]:+.3g}" for name in shifted], most=6)
        return Recommendation(
            "recalibrate",
            f"Shift the predictions in {listed(list(shifted), most=4)}.",
            f"The mean error there is {said}; add it to the predictions.",
            "",
        )
    if state == "unclear":
        smallest = min(report.sites, key=lambda site: site.n_rows)
        return Recommendation(
            "collect",
            f"Collect more rows, first in {smallest.name}.",
            f"{smallest.name} has {smallest.n_rows:,} rows.",
            "Confidence: low, because there are few rows.",
            site=smallest.name,
        )
    return Recommendation("keep", "Keep the ordinary model.", "No site stands out.", "")
