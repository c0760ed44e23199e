"""Does an existing model hold at every site? Its predicted risks are compared with the outcomes.

Nothing is fitted. Every site is measured (`holdfast.diagnosis.clinical`), and a site is named when its ranking is
clearly worse than that of the others, or when its stated risks are clearly too high or too low. "Clearly" is a test at
5 % for all sites and questions together (Bonferroni) and a difference that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from holdfast.diagnosis.advice import Action, Facts, Recommendation, State, decide
from holdfast.diagnosis.clinical import ClinicalReport, SiteMeasures
from holdfast.diagnosis.pooling import Estimate, random_effects
from holdfast.diagnosis.profile import Profile
from holdfast.diagnosis.soundness import Problem
from holdfast.diagnosis.words import headline, say
from holdfast.environments import listed
from holdfast.stable.notebook import html_card

Question = Literal["reversed", "ranking", "level", "slope"]
LEVEL = 0.05  # of all tests together
RANK_MATTERS = 0.05  # AUROC below that of the other sites
LEVEL_MATTERS = 0.2  # events for each expected one that are too many or, by the inverse, too few
SLOPE_MATTERS = 0.2  # distance of the calibration slope from 1
UNCLEAR = 0.3  # width of the prediction interval of the AUROC from which on nothing is promised
LEAST_EVENTS = 50  # events, and others, in all


@dataclass(frozen=True)
class SiteFinding:
    """A site where the model does not do as it should.

    Attributes
    ----------
    site : str
    question : "reversed", "ranking", "level" or "slope"
        The ranking is upside down; it is worse than elsewhere; risks are too low or too high; they are too extreme or
        not extreme enough.
    value, usual : float
        What was found, and what it should be: AUROC and that of the other sites, O:E and 1, slope and 1.
    p_value : float
        Adjusted for the number of sites and questions.
    """

    site: str
    question: Question
    value: float
    usual: float
    p_value: float


@dataclass(frozen=True, eq=False)
class ScoreDiagnosis:
    """What was found about stated risks; `str()` is the answer in one or two sentences.

    Attributes
    ----------
    name : str
        The column or the model that the risks come from.
    label : str
        The name of what is predicted.
    state : "breaks", "miscalibrated", "holds" or "unclear"
    findings : tuple of SiteFinding
        The sites that stand out, the worst first.
    clinical : ClinicalReport
    profile : Profile or None
        Every column at every site, and what does not fit.
    problems : tuple of Problem
        What is wrong with the data and makes these figures wrong.
    recommendation : Recommendation
    known : tuple of str
        Sites with rows that the model was fitted on.
    """

    name: str
    label: str
    state: State
    findings: tuple[SiteFinding, ...]
    clinical: ClinicalReport
    profile: Profile | None
    problems: tuple[Problem, ...]
    recommendation: Recommendation
    known: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.finding} {self.recommendation.sentence}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.state}, {self.recommendation.action}>"

    def _repr_html_(self) -> str:
        """Return the answer and a table of the sites, for notebooks."""
        rows = [(s.name, f"{s.n_rows:,}", f"{s.n_events:,}", s.auroc, s.oe) for s in self.clinical.sites]
        return html_card(str(self), self.explanation, ("site", "rows", "events", "AUROC", "O:E"), rows)

    @property
    def finding(self) -> str:
        """What is wrong with the data; else where the model holds and where it does not."""
        if self.problems:
            return headline(self.problems, self.label)[0]
        return describe_state(self.clinical, self.findings, self.state, self.label)

    @property
    def explanation(self) -> tuple[str, ...]:
        """Why this is advised and how sure that is, a line each."""
        lines = f"Why: {self.recommendation.reason}", self.recommendation.sure, *self.notes
        return tuple(line for line in lines if line)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "text": str(self),
            "state": self.state,
            "score": self.name,
            "findings": [asdict(finding) for finding in self.findings],
            "clinical": self.clinical.to_dict(),
            "problems": [problem.to_dict() | {"text": say(problem, self.label)} for problem in self.problems],
            "data": [] if self.profile is None else list(self.profile.sentences),
            "recommendation": asdict(self.recommendation),
            "known": list(self.known),
            "notes": list(self.notes),
        }


def judge_scores(
    report: ClinicalReport,
    *,
    name: str,
    label: str,
    profile: Profile | None = None,
    problems: Sequence[Problem] = (),
    known: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> ScoreDiagnosis:
    """Say what measured risks mean; parameters as the attributes of `ScoreDiagnosis`."""
    findings = find_sites(report)
    state = _state(report, findings)
    remedy: Action | None = "recalibrate" if state == "miscalibrated" else None
    turned = any(finding.question == "reversed" for finding in findings)
    rule = decide(Facts(state=state, data_is_wrong=bool(problems) or turned, remedy=remedy))
    advice = _advise(report, findings, state, problems, label)
    assert advice.action == rule.action, (advice.action, rule.action)
    kept = tuple(site.name for site in report.sites if site.name in set(known))
    return ScoreDiagnosis(name, label, state, findings, report, profile, tuple(problems), advice, kept, tuple(notes))


def find_sites(report: ClinicalReport) -> tuple[SiteFinding, ...]:
    """Return the sites that stand out, the worst first; at most one finding about ranking, and one about level."""
    n_tests = 4 * len(report.sites)
    found: list[SiteFinding] = []
    for place, site in enumerate(report.sites):
        others = [other for number, other in enumerate(report.sites) if number != place]
        ranking = _reversed(site, n_tests) or _worse_ranking(site, others, n_tests)
        if ranking is not None:
            found.append(ranking)
        off = [
            _off(site.name, "level", site.oe, np.log(1 + LEVEL_MATTERS), n_tests),
            _off(site.name, "slope", site.slope, SLOPE_MATTERS, n_tests),
        ]
        if ranking is None or ranking.question != "reversed":  # of such labels nothing else can be right
            found += [finding for finding in off if finding is not None]
    order = ("reversed", "ranking", "level", "slope")
    return tuple(sorted(found, key=lambda finding: (order.index(finding.question), finding.p_value)))


def _reversed(site: SiteMeasures, n_tests: int) -> SiteFinding | None:
    """Return that the ranking of a site is upside down."""
    if not np.isfinite(site.auroc.error) or site.auroc.value >= 0.5:
        return None
    z = _middle(site.auroc) / site.auroc.error
    p_value = min(1.0, n_tests * float(special.ndtr(z)))
    return SiteFinding(site.name, "reversed", site.auroc.value, 0.5, p_value) if p_value < LEVEL else None


def _worse_ranking(site: SiteMeasures, others: Sequence[SiteMeasures], n_tests: int) -> SiteFinding | None:
    """Return that a site's AUROC is below what the other sites, which differ among themselves too, let expect."""
    known = [other.auroc for other in others if np.isfinite(other.auroc.error)]
    if not np.isfinite(site.auroc.error) or len(known) < 2:
        return None
    middles, variances = [_middle(found) for found in known], [found.error**2 for found in known]
    mean, error, tau2, _ = random_effects(middles, variances)
    fixed = 1 / sum(1 / (variance + tau2) for variance in variances)
    spread = np.sqrt(site.auroc.error**2 + tau2 + max(error**2, fixed))
    p_value = min(1.0, n_tests * float(special.stdtr(len(known) - 1, (_middle(site.auroc) - mean) / spread)))
    usual = float(special.expit(mean))
    matters = usual - site.auroc.value > RANK_MATTERS
    return SiteFinding(site.name, "ranking", site.auroc.value, usual, p_value) if p_value < LEVEL and matters else None


def _middle(found: Estimate) -> float:
    """Return an AUROC as log-odds; a perfect one as its lower limit lets expect."""
    inside = min(max(found.value, 1e-6), 1 - 1e-6)
    return float(special.logit(inside))


def _off(site: str, question: Question, found: Estimate, matters: float, n_tests: int) -> SiteFinding | None:
    """Return that O:E, as logarithm, or the slope is not 1."""
    if not np.isfinite(found.error) or found.error <= 0:
        return None
    distance = np.log(found.value) if question == "level" else found.value - 1
    p_value = min(1.0, n_tests * 2 * float(special.ndtr(-abs(distance) / found.error)))
    return (
        SiteFinding(site, question, found.value, 1.0, p_value) if p_value < LEVEL and abs(distance) > matters else None
    )


def _state(report: ClinicalReport, findings: Sequence[SiteFinding]) -> State:
    if any(finding.question in ("reversed", "ranking") for finding in findings):
        return "breaks"
    if findings:
        return "miscalibrated"
    pooled = report.pooled_of("auroc")
    n_events = sum(site.n_events for site in report.sites)
    n_others = sum(site.n_rows for site in report.sites) - n_events
    wide = pooled is None or pooled.next_site.high - pooled.next_site.low > UNCLEAR
    return "unclear" if wide or min(n_events, n_others) < LEAST_EVENTS else "holds"


def describe_state(report: ClinicalReport, findings: Sequence[SiteFinding], state: State, label: str) -> str:
    """Say where the model holds and where it does not, with the sites' names and numbers."""
    sites = {site.name: site for site in report.sites}
    lines = []
    for question in ("reversed", "ranking", "level", "slope"):
        found = [finding for finding in findings if finding.question == question]
        if found:
            lines.append(_SAID[question](found, sites, f"`{label}` = {report.event}"))
    off = {finding.site for finding in findings}
    fine = [name for name in sites if name not in off]
    if lines:
        rest = ""
        if fine:
            rest = f" {listed(fine, most=4)} {'is' if len(fine) == 1 else 'are'} fine."
        return " ".join(lines) + rest
    numbers = _pooled_words(report)
    if state == "unclear":
        return f"There are too few rows to promise anything for the next site: {numbers}."
    return f"The model holds at all {len(sites)} sites: {numbers}."


def _pooled_words(report: ClinicalReport) -> str:
    auroc, oe = report.pooled_of("auroc"), report.pooled_of("oe")
    if auroc is None or oe is None:
        return "fewer than two sites can be measured"
    return (
        f"AUROC {auroc.mean.value:.2f}, {oe.mean.value:.2f} events for each expected one; at the next site expect an "
        f"AUROC of {auroc.next_site.low:.2f} to {auroc.next_site.high:.2f}"
    )


def _say_reversed(found: Sequence[SiteFinding], sites: dict[str, SiteMeasures], event: str) -> str:
    areas = listed([f"{finding.value:.2f}" for finding in found], most=4)
    names = listed([finding.site for finding in found], most=4)
    return f"In {names} the ranking is reversed (AUROC {areas}): are the two labels exchanged?"


def _say_ranking(found: Sequence[SiteFinding], sites: dict[str, SiteMeasures], event: str) -> str:
    parts = [f"in {finding.site} (AUROC {finding.value:.2f}, elsewhere {finding.usual:.2f})" for finding in found]
    return f"The model ranks rows worse {listed(parts, most=3)}."


def _say_level(found: Sequence[SiteFinding], sites: dict[str, SiteMeasures], event: str) -> str:
    parts = []
    for finding in found[:3]:
        site = sites[finding.site]
        share = site.n_events / site.n_rows
        expected = share / finding.value
        stated, seen = f"{100 * expected:.0f}", f"{100 * share:.0f}"
        parts.append(f"in {finding.site} the model predicts {event} for {stated} of 100 rows, and it occurs in {seen}")
    more = f"; {len(found) - 3} more sites are miscalibrated" if len(found) > 3 else ""
    text = "; ".join(parts) + more
    return f"{text[:1].upper()}{text[1:]}."


def _say_slope(found: Sequence[SiteFinding], sites: dict[str, SiteMeasures], event: str) -> str:
    parts = [
        f"{finding.site} (too {'extreme' if finding.value < 1 else 'cautious'}, slope {finding.value:.2f})"
        for finding in found
    ]
    return f"The calibration slope is wrong in {listed(parts, most=3)}."


_SAID = {"reversed": _say_reversed, "ranking": _say_ranking, "level": _say_level, "slope": _say_slope}


def _advise(
    report: ClinicalReport, findings: Sequence[SiteFinding], state: State, problems: Sequence[Problem], label: str
) -> Recommendation:
    """Return what to do, in words; `decide` has the rule."""
    sure = f"Sites are named by a test at {LEVEL:.0%} for all {len(report.sites)} sites together."
    if problems:
        return Recommendation("repair", headline(problems, label)[1], "The figures include this error.", "")
    turned = [finding.site for finding in findings if finding.question == "reversed"]
    if turned:
        sentence = f"Check how `{label}` is coded in {listed(turned, most=4)} before anything else."
        return Recommendation("repair", sentence, "An AUROC below 0.5 is seldom a property of patients.", sure)
    off = list(dict.fromkeys(finding.site for finding in findings))
    if state == "breaks":
        where = listed([finding.site for finding in findings if finding.question == "ranking"], most=4)
        return Recommendation(
            "collect",
            f"Do not use the model in {where} until it has been fitted with rows of such a site.",
            "Recalibration cannot correct a wrong ranking.",
            sure,
            site=off[0],
        )
    if state == "miscalibrated":
        corrections = [site for site in report.sites if site.name in off]
        shifts = [
            f"{site.name} {site.intercept.value:+.2f}" for site in corrections if np.isfinite(site.intercept.value)
        ]
        return Recommendation(
            "recalibrate",
            f"Recalibrate the model in {listed(off, most=4)}.",
            "The ranking is good there, but the predicted risks are wrong. Change of the intercept (log-odds) that "
            f"corrects the level: {listed(shifts, most=6)}.",
            sure,
        )
    if state == "unclear":
        smallest = min(report.sites, key=lambda site: min(site.n_events, site.n_rows - site.n_events))
        return Recommendation(
            "collect",
            f"Collect more rows, first in {smallest.name}.",
            f"{smallest.name} has {smallest.n_events} events in {smallest.n_rows:,} rows.",
            "Confidence: low, because there are few rows.",
            site=smallest.name,
        )
    return Recommendation("keep", "Keep the model.", "No site stands out in ranking or calibration.", sure)
