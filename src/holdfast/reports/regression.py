"""The page of `holdfast diagnose` for regression: the answer, RMSE by site, and pooled measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.diagnosis.regression import RegressionDiagnosis
from holdfast.environments import listed
from holdfast.reports.sections import OF_RULES, Signal, made_section, run_next
from holdfast.reports.values import Answer, Cell, Dot, Dots, Page, Section, Sentences, Table

SIGNALS: Mapping[str, Signal] = {
    "breaks": ("bad", "The model breaks at a new site"),
    "miscalibrated": ("caution", "Predictions are shifted at some sites"),
    "holds": ("good", "The model holds at a new site"),
    "unclear": ("unknown", "Too few rows to tell"),
}
NAMES = {"r2": "R²", "rmse": "RMSE", "bias": "mean error"}
MOST_AT_TOP = 10  # sites in the picture of the answer: those with the largest RMSE


def regression_page(
    found: RegressionDiagnosis,
    *,
    title: str = "Diagnosis",
    following: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Page:
    """Return a report about what `diagnose_regression` returned; parameters as for `diagnosis_page`."""
    sites = [site.name for site in found.new.sites]
    n_rows = sum(site.n_rows for site in found.new.sites)
    return Page(
        title,
        f"{n_rows:,} rows of {len(sites)} sites: {listed(sites)}. The ordinary model is {found.estimator}.",
        (_sites_section(found), *_columns_section(found), made_section({"estimator": found.estimator}, settings)),
        answer=_answer(found, following),
    )


def _answer(found: RegressionDiagnosis, following: str) -> Answer:
    signal, text = OF_RULES.get(found.recommendation.rule, SIGNALS[found.state])
    rows: list[tuple[Cell, ...]] = [
        (NAMES[p.measure], f"{p.mean.value:.3g}", f"{p.next_site.low:.3g} to {p.next_site.high:.3g}")
        for p in found.new.pooled
    ]
    numbers = Table("Pooled over sites", ("measure", "mean over sites", "the next site (95%)"), tuple(rows))
    sentence = f"{found.finding} *{found.recommendation.sentence}*"
    lines = (f"Why: {found.recommendation.reason}", *run_next(following))
    return Answer(sentence, signal, text, numbers if rows else None, lines, _figure(found))


def _figure(found: RegressionDiagnosis) -> Dots:
    """Return the RMSE at every site left out, and what to expect at the next one."""
    shown = sorted(found.new.sites, key=lambda site: -site.rmse.value)[:MOST_AT_TOP]
    dots = [Dot(site.name, "RMSE", site.rmse.value, site.rmse.low, site.rmse.high) for site in shown]
    pooled = found.new.pooled_of("rmse")
    if pooled is not None:
        next_site = pooled.next_site
        dots.append(Dot("the next site (95%)", "RMSE", pooled.mean.value, next_site.low, next_site.high, forecast=True))
    rest = len(found.new.sites) - len(shown)
    note = f"The {len(shown)} largest of {len(found.new.sites)} sites." if rest else ""
    title = "RMSE at each site when it is left out"
    return Dots(title, "with 95% intervals", tuple(dots), note, place_title="site")


def _sites_section(found: RegressionDiagnosis) -> Section:
    known = {site.name: site for site in found.known.sites}
    table = Table(
        "Every site",
        ("site", "rows", "R², new", "R², seen", "RMSE, new", "RMSE, seen", "mean error, new"),
        tuple(
            (s.name, s.n_rows, s.r2.interval, known[s.name].r2.interval, s.rmse.interval)
            + (known[s.name].rmse.interval, s.bias.interval)
            for s in found.new.sites
        ),
        "New: the site is left out of the fit. Seen: out of fold, with rows of the site among those fitted on. Mean "
        "error: label minus prediction. 95% intervals.",
        digits=2,
        n_keys=1,
    )
    pooled = Table(
        "Pooled over sites",
        ("measure", "sites", "mean", "at the next site", "τ²", "I²"),
        tuple(
            (NAMES[p.measure], p.n_sites, p.mean, f"{p.next_site.low:.3g} to {p.next_site.high:.3g}", p.tau2)
            + (f"{p.i2:.0%}",)
            for p in found.new.pooled
        ),
        "Random effects: REML, Hartung and Knapp, 95% prediction interval. RMSE is pooled as logarithm.",
        n_keys=1,
    )
    return Section("Does the model break at a new site?", "Each site is left out in turn.", (table, pooled))


def _columns_section(found: RegressionDiagnosis) -> tuple[Section, ...]:
    """Return what the stable model says about columns."""
    if (verdict := found.verdict) is None:
        return ()
    said = Sentences((verdict.answer, *verdict.remarks, *(finding.sentence for finding in verdict.columns)))
    effects = Table(
        "Effects by site",
        ("column", "kept", "probability of a change", *verdict.by_environment),
        tuple(
            (f.feature, f"{verdict.kept[f.feature]:.0%}", f"{f.probability:.2f}", *f.effects.values())
            for f in verdict.columns
        ),
        f"How much larger `{found.label}` is where the column is larger by one standard deviation.",
        n_keys=1,
    )
    lead = "A column whose effect differs between sites may mislead the model at the next one."
    return (Section("Which columns?", lead, (said, *((effects,) if verdict.columns else ()))),)
