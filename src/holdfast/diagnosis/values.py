"""The result of a diagnosis as values: scores of every site, remedies, and the recommendation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from holdfast.diagnosis import answer
from holdfast.diagnosis.advice import BREAKS, WIDER, WORTH, Action, Oddity, Recommendation, State
from holdfast.diagnosis.clinical import ClinicalReport
from holdfast.diagnosis.loss_split import LossSplit
from holdfast.diagnosis.profile import Profile
from holdfast.diagnosis.soundness import Problem
from holdfast.diagnosis.soundness.table import SMALL_SITE
from holdfast.diagnosis.words import headline, say
from holdfast.metrics import Interval
from holdfast.stable.findings import Finding
from holdfast.stable.notebook import html_card
from holdfast.stable.verdict import RARE, Verdict

AS_USUAL = 0.01  # accuracy above always predicting the most frequent class that is as good as none
SAME_RATES = 0.25  # log-odds of a class that differ by less between sites: it is as frequent everywhere


@dataclass(frozen=True)
class Quality:
    """How good answers are, with 95 % intervals."""

    accuracy: Interval
    auroc: Interval  # of one class against the rest, where there are more than two
    loss: Interval  # log loss; the share of mistakes for estimators without probabilities


@dataclass(frozen=True, eq=False)
class SiteDiagnosis:
    """One site: the model at the others, here without rows of this site, and here with them."""

    name: str
    n_rows: int
    shares: Mapping[str, float]  # of each class
    elsewhere: Quality  # at the sites it was fitted on, out of fold, this one left out
    new: Quality  # here, this one left out
    known: Quality  # here, out of fold, rows of this site among those it was fitted on
    lost: Interval  # accuracy here that not having seen this site costs, row by row
    split: LossSplit  # of the loss: new minus elsewhere

    @property
    def most_frequent(self) -> float:
        """The accuracy of always predicting this site's most frequent class."""
        return max(self.shares.values())


@dataclass(frozen=True)
class Remedy:
    """What a change brings at sites left out, compared with the ordinary model there."""

    action: Action
    name: str
    gain: Interval  # of log loss; positive is better; mean over sites
    accuracy: Interval  # gain of accuracy
    n_better: int  # sites with a smaller loss
    columns: tuple[str, ...] = ()
    n_labels: int = 0  # rows of the site that it needs; 0: half of them, or none

    @property
    def is_sure(self) -> bool:
        """Whether the gain is worth it and beyond its interval, which is wider because several changes are tried."""
        return self.gain.value - WIDER * (self.gain.value - self.gain.low) > 0 and self.gain.value >= WORTH


@dataclass(frozen=True)
class OddSite:
    """One site that stands apart from all others, by more than they differ from one another.

    Attributes
    ----------
    kind : "labels" or "rates"
        The AUROC is much lower there, even for a model that has seen the site, as wrong labels make it; or events are
        more or less frequent there than the model of the other sites expects.
    here, elsewhere : float
        The AUROC there, or the share of events, and what was to be expected.
    """

    name: str
    kind: Oddity
    here: float
    elsewhere: float
    chance: float  # of any site being as far from the others, where it is one like them


@dataclass(frozen=True)
class Later:
    """Where sites are times: a model of the earlier ones, asked about the last quarter of them."""

    first: str  # of the later times
    new: Quality  # of the model of earlier times
    known: Quality  # of a model that has seen rows of the later times, too
    lost: Interval  # accuracy
    stable: Interval | None  # accuracy that the stable classifier gains there; None where it is the ordinary one

    @property
    def breaks(self) -> bool:
        """Whether accuracy is lost for sure."""
        return self.lost.low > BREAKS

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        return answer.say_later(self)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What `diagnose` found; `str()` is the answer in one sentence.

    Attributes
    ----------
    state : "breaks", "miscalibrated", "holds" or "unclear"
    sites : tuple of SiteDiagnosis
    lost : Interval
        Accuracy at a site that the model has not seen, below that at the same site when it has; mean over sites.
    forecast : Interval or None
        Accuracy to expect at the next site (95 %) of the classifier that `fit` makes by default: that of the verdict.
    parts : mapping of str to Interval
        The loss at new sites minus that at known ones, by covariate, label and concept shift; mean over sites.
    findings : tuple of Finding
        The columns whose relation with the label changes between sites.
    profile : Profile
        Every column at every site, and what does not fit.
    problems : tuple of Problem
        What is wrong with the data, the worst first. Those that are headlines come before any verdict.
    tokens : mapping of str to tuple of str
        Columns of numbers that a few words turned into categories, and these words.
    remedies : tuple of Remedy
    recommendation : Recommendation
    verdict : Verdict or None
        What `StableClassifier` says about all rows; None where it does not take the estimator.
    odd_sites : tuple of OddSite
        Sites that stand apart from all others, the farthest first.
    later : Later or None
        Whether a model of the past holds in the future, where the sites are years, months or days.
    clinical : ClinicalReport or None
        AUROC, calibration and net benefit at every site left out, and pooled; only for probabilities of two classes.
    """

    estimator: str
    loss_name: str
    state: State
    sites: tuple[SiteDiagnosis, ...]
    lost: Interval
    parts: Mapping[str, Interval]
    findings: tuple[Finding, ...]
    profile: Profile | None
    tokens: Mapping[str, tuple[str, ...]]
    remedies: tuple[Remedy, ...]
    recommendation: Recommendation
    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()
    label: str = "label"  # the name of what is predicted
    later: Later | None = None
    odd_sites: tuple[OddSite, ...] = ()
    clinical: ClinicalReport | None = None

    def __str__(self) -> str:
        return f"{self.finding} {self.recommendation.sentence}"

    def __repr__(self) -> str:
        return (
            f"<Diagnosis of {len(self.sites)} sites with {self.estimator}: {self.state}, {self.recommendation.action}>"
        )

    def _repr_html_(self) -> str:
        """Return the answer and a table of the sites, for notebooks."""
        header = ("site", "rows", "accuracy, new", "accuracy, seen", "AUROC, new", "AUROC, seen")
        rows = [
            (s.name, f"{s.n_rows:,}", s.new.accuracy, s.known.accuracy, s.new.auroc, s.known.auroc) for s in self.sites
        ]
        return html_card(str(self), self.explanation, header, rows)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the data, the worst first."""
        return () if self.profile is None else self.profile.problems

    @property
    def blocking(self) -> tuple[Problem, ...]:
        """What has to be mended before any verdict counts."""
        return tuple(problem for problem in self.problems if problem.is_headline)

    def mean(self, which: Literal["elsewhere", "new", "known"]) -> float:
        """Return the accuracy over all rows."""
        scores = [getattr(site, which).accuracy.value for site in self.sites]
        return round(float(np.average(scores, weights=[site.n_rows for site in self.sites])), 9)  # in any order of rows

    @property
    def large(self) -> tuple[SiteDiagnosis, ...]:
        """The sites with enough rows to say something alone; all, where fewer than two have."""
        found = tuple(site for site in self.sites if site.n_rows >= SMALL_SITE)
        return found if len(found) > 1 else self.sites

    @property
    def usual(self) -> tuple[str, float]:
        """The most frequent class, and the accuracy of always predicting it."""
        names = list(self.sites[0].shares)
        counts = np.sum([site.n_rows * np.array(list(site.shares.values())) for site in self.sites], axis=0)
        return names[int(counts.argmax())], float(counts.max() / counts.sum())

    @property
    def worst(self) -> SiteDiagnosis:
        """The site at which a model that has not seen it is worst: by accuracy, or by AUROC where that tells more."""
        if self.by_rank:
            return min(self.ranked, key=lambda site: site.new.auroc.value)
        return min(self.large, key=lambda site: site.new.accuracy.value)

    @property
    def areas(self) -> tuple[float, float]:
        """Mean AUROC over sites, where the site is new and where it has been seen; NaN where there is none."""
        both = np.array([(site.new.auroc.value, site.known.auroc.value) for site in self.ranked])
        return (float(both[:, 0].mean()), float(both[:, 1].mean())) if len(both) else (np.nan, np.nan)

    @property
    def known_area(self) -> Interval | None:
        """Mean AUROC at sites that the model has seen, with its interval; None where there is none."""
        return mean_interval([site.known.auroc for site in self.ranked]) if self.ranked else None

    @property
    def by_rank(self) -> bool:
        """Whether the AUROC tells more than accuracy, because a model that says the same of all rows is as often right.

        Or because nine rows in ten or more have the same label.
        """
        _, share = self.usual
        return bool((share >= RARE or self.mean("known") <= share + AS_USUAL) and self.ranked)

    @property
    def forecast(self) -> Interval | None:
        """The verdict's forecast, so that `diagnose` and `fit` say the same."""
        return None if self.verdict is None else self.verdict.forecast

    @property
    def forecast_of(self) -> str:
        """The classifier that the forecast is about, in words; empty for the ordinary model."""
        return "" if self.verdict is None or self.verdict.fitted == "ordinary" else ", with the stable classifier"

    @property
    def cause(self) -> str | None:
        """The largest part of the loss, where it is beyond its interval; not rates, where classes are as frequent."""
        shares = np.array([list(site.shares.values()) for site in self.sites])
        odds = np.log(np.clip(shares, 1e-4, None) / np.clip(1 - shares, 1e-4, None))
        alike = bool((np.ptp(odds, axis=0) < SAME_RATES).all())
        names = [name for name in self.parts if not (alike and name == "label_shift")]
        name = max(names, key=lambda part: self.parts[part].value)
        return name if self.parts[name].low > 0 else None

    @property
    def finding(self) -> str:
        """What is wrong with the data; else whether the model breaks and why."""
        if self.blocking:
            return headline(self.blocking, self.label)[0]
        return answer.find(self)

    @property
    def explanation(self) -> tuple[str, ...]:
        """Why this is advised, how sure that is, and what to check first; a line each."""
        return answer.explain(self)

    @property
    def ranked(self) -> list[SiteDiagnosis]:
        """The sites that have an AUROC: those with several labels."""
        return [site for site in self.large if not np.isnan(site.new.auroc.value + site.known.auroc.value)]

    @property
    def new_score(self) -> Interval:
        """The accuracy at a new site, or the AUROC where that tells more; mean over sites."""
        if self.by_rank:
            return mean_interval([site.new.auroc for site in self.ranked])
        return mean_interval([site.new.accuracy for site in self.large])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "text": str(self),
            "state": self.state,
            "estimator": self.estimator,
            "loss": self.loss_name,
            "accuracy": {which: self.mean(which) for which in ("elsewhere", "new", "known")},
            "lost": self.lost.to_dict(),
            "forecast": None if self.forecast is None else self.forecast.to_dict(),
            "odd_sites": [asdict(site) for site in self.odd_sites],
            "later": None if self.later is None else asdict(self.later),
            "clinical": None if self.clinical is None else self.clinical.to_dict(),
            "cause": self.cause,
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
            "sites": [asdict(site) for site in self.sites],
            "columns": [finding.to_dict() for finding in self.findings],
            "data": [] if self.profile is None else list(self.profile.sentences),
            "problems": [problem.to_dict() | {"text": say(problem, self.label)} for problem in self.problems],
            "tokens": dict(self.tokens),
            "remedies": [asdict(remedy) for remedy in self.remedies],
            "recommendation": asdict(self.recommendation),
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "notes": list(self.notes),
        }


def mean_interval(parts: Sequence[Interval]) -> Interval:
    """Return the mean over sites with its interval: these sites, other rows."""
    value = float(np.mean([part.value for part in parts]))
    half = float(np.sqrt(np.sum([((part.high - part.low) / 2) ** 2 for part in parts]))) / len(parts)
    return Interval(value, value - half, value + half)
