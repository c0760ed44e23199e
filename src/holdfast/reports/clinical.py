"""Sections on clinical measures: by site, pooled, with curves and a table for TRIPOD-Cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.diagnosis.clinical import ClinicalReport, SiteMeasures
from holdfast.diagnosis.curves import ALL_SITES
from holdfast.diagnosis.pooling import Pooled
from holdfast.diagnosis.words import MEASURE_NAMES
from holdfast.metrics import Interval
from holdfast.reports.values import Band, Block, Cell, Curves, Dot, Dots, Line, Panels, Section, Table

MOST_SITES = 12  # curves of a figure; tables have all
NAMES = {
    **MEASURE_NAMES,
    "brier": "Brier score",
    "log_loss": "log loss",
    "net_benefit": "net benefit",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "ppv": "positive predictive value",
    "npv": "negative predictive value",
}
TRIPOD_MEASURES = ("auroc", "slope", "intercept", "oe", "net_benefit")
POOLED, NEXT = "mean over sites", "the next site (95%)"


def clinical_section(
    report: ClinicalReport, title: str, *, where: str = "at every left-out site", shown: str = ""
) -> Section:
    """Return the section of a page with measures, curves and the table for TRIPOD-Cluster.

    `where` says which rows of the sites these are, and `shown` which measure has a picture on the page already.
    """
    intro = (
        f"An event is *{report.event}*. Discrimination, calibration and net benefit {where}, pooled over sites, with "
        "what to expect at the next one."
    )
    return Section(title, intro, tuple(clinical_blocks(report, where, shown)))


def clinical_blocks(report: ClinicalReport, where: str, shown: str = "") -> list[Block]:
    """Return measures of every site, the curves, and what is pooled over sites; parameters as in the section."""
    blocks: list[Block] = [measure_dots(report, name) for name in ("auroc", "oe") if name != shown]
    blocks += [calibration_figure(report), _calibration_table(report, where)]
    blocks += [decision_figure(report), *_threshold_tables(report, where), distribution_figure(report)]
    if report.pooled:
        blocks.append(_pooled_table(report))
    return [*blocks, tripod_table(report)]


def measure_dots(report: ClinicalReport, measure: str) -> Dots:
    """Return one measure at every site, its mean over sites, and where the next site's is expected."""
    pooled = report.pooled_of(measure)
    shown = _shown(report)
    values = [(site.name, getattr(site, measure)) for site in shown]
    dots = [Dot(name, "site", found.value, found.low, found.high) for name, found in values]
    if pooled is not None:
        dots.append(Dot(POOLED, "site", pooled.mean.value, pooled.mean.low, pooled.mean.high))
        dots.append(Dot(NEXT, "site", pooled.mean.value, pooled.next_site.low, pooled.next_site.high, forecast=True))
    meaning = {"auroc": "0.5 is chance", "oe": "1 is right; above 1 more events happen than the model expects"}
    return Dots(
        f"{NAMES[measure]} by site",
        f"{NAMES[measure]}, with 95% intervals; {meaning[measure]}",
        tuple(dots),
        _left_out(report, shown),
        place_title="site",
        reference={"auroc": 0.5, "oe": 1.0}[measure],
    )


def calibration_figure(report: ClinicalReport) -> Curves:
    """Return the observed risk by the stated one: a curve for each site, the pooled one, and the next site's band."""
    curves, shown = report.curves, _shown(report)
    lines = [Line(site.name, curves.risks, curves.calibration[site.name]) for site in shown]
    lines = [line for line in lines if any(map(math.isfinite, line.y))]
    ends = curves.risks[0], curves.risks[-1]
    ideal = Line("ideal: observed = predicted", ends, ends, dashed=True)
    band = None
    if any(map(math.isfinite, curves.pooled)):
        lines.append(Line(POOLED, curves.risks, curves.pooled))
        band = Band(NEXT, curves.risks, curves.next_low, curves.next_high)
    return Curves(
        "Calibration by site",
        "predicted risk",
        f"observed risk of {report.event}",
        (*lines, ideal),
        POOLED if band is not None else "",
        note="Below the dashed line the predicted risk is too high. Logistic regression on a restricted cubic spline "
        "of the predicted log-odds, pooled by random effects at each risk. Curves leave out 5% of the rows at each end."
        + _left_out(report, shown),
        band=band,
    )


def decision_figure(report: ClinicalReport) -> Panels:
    """Return net benefit by threshold, in all and by site: by the predicted risk, treating all, treating nobody."""
    curves, shown = report.curves, _shown(report)
    names = [ALL_SITES, *(site.name for site in shown)]
    nobody = tuple(0.0 for _ in curves.thresholds)
    panels = tuple(
        (
            name,
            (
                Line("treat by the predicted risk", curves.thresholds, curves.net_benefit[name]),
                Line("treat everybody", curves.thresholds, curves.treat_all[name], dashed=True),
                Line("treat nobody", curves.thresholds, nobody, dashed=True),
            ),
        )
        for name in names
    )
    highest = max(max(curves.treat_all[name]) for name in names)
    return Panels(
        "Decision curves",
        "threshold: rows with this risk or more are treated",
        "net benefit",
        panels,
        "The model is useful at the thresholds where its line is the highest of the three. Net benefit: events "
        "treated, minus others treated, weighted by the odds of the threshold, for each row."
        + _left_out(report, shown),
        lowest=-0.25 * highest,
    )


def distribution_figure(report: ClinicalReport) -> Panels:
    """Return how the predicted risk is distributed among rows with the event and among others."""
    curves, shown = report.curves, _shown(report)
    panels = tuple(
        (
            name,
            (
                Line(f"with {report.event}", curves.bins, curves.with_event[name]),
                Line("others", curves.bins, curves.without_event[name]),
            ),
        )
        for name in (ALL_SITES, *(site.name for site in shown))
    )
    return Panels(
        "Predicted risk by outcome",
        "predicted risk",
        "share of rows",
        panels,
        "Rows with the event and others, each summing to one. The less they overlap, the better the model ranks."
        + _left_out(report, shown),
    )


def _shown(report: ClinicalReport) -> list[SiteMeasures]:
    """Return the sites that figures show: all, or the largest."""
    if len(report.sites) <= MOST_SITES + 3:
        return list(report.sites)
    return sorted(report.sites, key=lambda site: -site.n_rows)[: MOST_SITES - 1]


def _left_out(report: ClinicalReport, shown: Sequence[SiteMeasures]) -> str:
    rest = len(report.sites) - len(shown)
    return f" The {len(shown)} largest of {len(report.sites)} sites are shown." if rest else ""


def _calibration_table(report: ClinicalReport, where: str) -> Table:
    return Table(
        f"Discrimination and calibration {where}",
        ("site", "rows", "events", "AUROC", "slope", "intercept", "O:E"),
        tuple(
            (s.name, s.n_rows, s.n_events, s.auroc.interval, s.slope.interval, s.intercept.interval, s.oe.interval)
            for s in report.sites
        ),
        "Slope: 1 is right, below 1 risks are too extreme. Intercept: 0 is right, below 0 risks are too high. O:E: "
        "observed events for each expected one. 95% intervals.",
        digits=2,
        n_keys=1,
    )


def _threshold_tables(report: ClinicalReport, where: str) -> list[Block]:
    names = ("sensitivity", "specificity", "ppv", "npv")
    shares = Table(
        f"If rows with a risk of {report.threshold:.2f} or more are treated, {where}",
        ("site", "sensitivity", "specificity", "PPV", "NPV"),
        tuple((s.name, *(getattr(s, name).interval for name in names)) for s in report.sites),
        "PPV, NPV: positive and negative predictive value. 95% intervals. `--threshold` sets the risk.",
        digits=2,
        n_keys=1,
    )
    scores = Table(
        f"Overall error and net benefit {where}",
        ("site", "Brier score", "log loss", "net benefit", "of treating all"),
        tuple(
            (s.name, s.brier.interval, s.log_loss.interval, s.net_benefit.interval, s.treat_all) for s in report.sites
        ),
        f"Net benefit of treating from a risk of {report.threshold:.2f} on. Treating nobody has 0.",
        n_keys=1,
    )
    return [shares, scores]


def _pooled_table(report: ClinicalReport) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (NAMES[p.measure], p.n_sites, p.mean, _range(p.next_site), p.tau2, f"{p.i2:.0%}") for p in report.pooled
    ]
    return Table(
        "Pooled over sites",
        ("measure", "sites", "mean", "at the next site", "τ²", "I²"),
        tuple(rows),
        "Random effects: variance between sites τ² by REML, intervals of the mean by Hartung and Knapp, 95% prediction "
        "interval for the next site. AUROC and shares are pooled as log-odds and O:E as logarithm. I²: the share of "
        "the variance that is between sites.",
        digits=2,
        n_keys=1,
    )


def tripod_table(report: ClinicalReport) -> Table:
    """Return what TRIPOD-Cluster asks for in the results, with the numbers that are known here."""
    n_rows, n_events = (sum(getattr(site, name) for site in report.sites) for name in ("n_rows", "n_events"))
    smallest, largest = (pick(report.sites, key=lambda site: site.n_rows) for pick in (min, max))
    rates = [site.n_events / site.n_rows for site in report.sites]
    few = [site.name for site in report.sites if min(site.n_events, site.n_rows - site.n_events) < 10]

    def pooled(name: str) -> str:
        found = report.pooled_of(name)
        if found is None:
            return "not pooled: fewer than two sites have it"
        return _said(found)

    sizes = f"{smallest.n_rows:,} ({smallest.name}) to {largest.n_rows:,} ({largest.name}) rows"
    open_items = "source of data, eligibility, outcome, predictors, missing data, sample size, limitations, use"
    rows: list[tuple[Cell, ...]] = [
        ("clusters", "number and size", f"{len(report.sites)} sites, {sizes}"),
        ("participants and events", "in all", f"{n_rows:,} rows, {n_events:,} with {report.event}"),
        ("participants and events", "by cluster", f"{min(rates):.1%} to {max(rates):.1%} with {report.event}"),
        ("clusters with few events", "fewer than 10 events or others", ", ".join(few[:8]) or "none"),
        *(("performance and heterogeneity", NAMES[name], pooled(name)) for name in TRIPOD_MEASURES),
        ("method of pooling", "", "random effects, REML, Hartung and Knapp; 95% prediction interval"),
        ("to be filled in", open_items, ""),
    ]
    return Table(
        "For TRIPOD-Cluster",
        ("topic", "what", "in this analysis"),
        tuple(rows),
        "Results that the checklist of Debray et al. (BMJ 2023;380:e071018) asks for and that this analysis knows. The "
        "last row lists what only the authors know.",
    )


def _said(found: Pooled) -> str:
    mean = f"{found.mean.value:.2f} [{found.mean.low:.2f}, {found.mean.high:.2f}]"
    return f"{mean}; next site {_range(found.next_site)}; τ² {found.tau2:.3f}, I² {found.i2:.0%}, {found.n_sites} sites"


def _range(value: Interval) -> str:
    return f"{value.low:.2f} to {value.high:.2f}"
