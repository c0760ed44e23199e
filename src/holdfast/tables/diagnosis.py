"""Does a model break at a site it has not seen, why, because of which columns, is the data sound, and what to do.

Each site is left out in turn, and an ordinary model is fitted on the others. Its scores at the site left out are
compared with those of a model that has seen rows of that site too, on the same rows, and with its own scores at the
sites it was fitted on, out of fold. Remedies are tried in the same way, and one is recommended by what it gained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD

from holdfast.diagnosis.advice import Action, Facts, State, decide
from holdfast.diagnosis.clinical import ClinicalReport, clinical_report
from holdfast.diagnosis.soundness import Problem, check_table
from holdfast.diagnosis.words import check_line, headline, say
from holdfast.environments import Environment, Rows, listed, split_environments, take_rows, unique_labels
from holdfast.estimators.named import find_estimator
from holdfast.exceptions import FeaturesError, HoldfastError, LabelsError
from holdfast.fitting.calibration import calibrate
from holdfast.fitting.estimators import (
    code_probabilities,
    fit_rows,
    has_probabilities,
    over_codes,
    require_classifier,
    seeded_clone,
)
from holdfast.judging.judges import deal_folds
from holdfast.metrics import Interval, auroc_interval, exact_interval
from holdfast.parallel import run_each
from holdfast.rows.kinds import is_sparse
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding
from holdfast.stable.findings import Finding
from holdfast.stable.verdict import RARE
from holdfast.tables.audits import audit_rows
from holdfast.tables.classifier import LEAST_PROBABILITY, TableClassifier, fit_stable
from holdfast.tables.files import open_table
from holdfast.tables.loss_split import Losses, LossSplit, split_loss
from holdfast.tables.preprocessing import make_preprocessor, with_preprocessing
from holdfast.tables.profile import Profile, describe_columns
from holdfast.tables.roles import DATE_FEATURES, TableRoles, TableRows, TableSchema, odd_tokens, table_notes
from holdfast.tables.stages import split_rows

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]
N_FOLDS, NETWORK_FOLDS = 5, 3
MOST_ROUNDS = 10  # with more sites, several are left out at a time
MOST_ODD, NETWORK_ODD = 5, 1  # columns that do not fit of which each is left out alone; fits of networks take long
STABLE_FITS = 10  # ordinary fits that a stable classifier takes, about
MOST_ENCODED = 100  # columns of the matrix that the loss is split with; wider ones are condensed
BREAKS, BREAKS_ONE = 0.01, 0.03  # accuracy lost for sure, over all sites or at one, from which on a model breaks
MATTERS = 0.05  # a loss of accuracy that nobody would overlook
WORTH = 0.02  # gain of log loss from which on a remedy is worth its trouble
LABELS = (50, 100, 200, 400)  # labeled rows of a site that recalibration is tried with
MOST_OF_IT = 0.8  # share of the gain with half of a site's rows that so many labels must bring
REASONS = {  # parts of the loss in words
    "other patients": "the rows (patients) there are different",
    "other rates": "classes are more or less frequent there",
    "other relations": "effects of columns differ there",
}
ADD_ROWS = "First add labeled rows of the new site to the table."
LEAST_TIMES = 4  # sites that are times, from which on a model of earlier ones is asked about later ones
TIME = re.compile(r"(19|20)\d\d(-?Q[1-4]|-\d\d(-\d\d)?)?")  # 2024, 2024-05, 2024Q2, 2024-05-31
SAME_RATES = 0.25  # log-odds of a class that differ by less between sites: it is as frequent everywhere
SAVES = 0.005  # accuracy that the stable classifier must save before it is advised
RATES_DIFFER = 0.1  # difference of a class's frequency between sites that is mentioned


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
        """Whether the gain is worth it and beyond its interval."""
        return self.gain.low > 0 and self.gain.value >= WORTH


@dataclass(frozen=True)
class Recommendation:
    """What to do, why, and how sure that is."""

    action: Action
    sentence: str
    reason: str
    sure: str
    columns: tuple[str, ...] = ()  # to repair or drop
    missing: tuple[str, ...] = ()  # words of the table that mean "missing"
    site: str = ""  # where rows are needed
    how: str = ""  # what to do besides the command that follows
    command: tuple[str, ...] = ()  # to run next, with its method


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
        new, known = self.new.accuracy.value, self.known.accuracy.value
        return (
            f"fitted on the time before {self.first}, it is right for {new:.0%} of the later rows, and for {known:.0%} "
            "when it has seen such rows"
        )


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
        The loss at new sites minus that at known ones: other patients, other rates, other relations; mean over sites.
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
    verdict: Any = None
    notes: tuple[str, ...] = ()
    label: str = "label"  # the name of what is predicted
    later: Later | None = None
    clinical: ClinicalReport | None = None

    def __str__(self) -> str:
        return f"{self.finding} {self.recommendation.sentence}"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the data, the worst first."""
        return () if self.profile is None else self.profile.problems

    @property
    def blocking(self) -> tuple[Problem, ...]:
        """What has to be mended before any verdict counts."""
        return tuple(problem for problem in self.problems if problem.is_headline)

    def mean(self, which: Literal["elsewhere", "new", "known"]) -> float:
        """Return the mean accuracy over sites."""
        return float(np.mean([getattr(site, which).accuracy.value for site in self.sites]))

    @property
    def worst(self) -> SiteDiagnosis:
        """The site at which a model that has not seen it is worst: by accuracy, or by AUROC where that tells more."""
        if self.by_rank:
            return min(_ranked(self.sites), key=lambda site: site.new.auroc.value)
        return min(self.sites, key=lambda site: site.new.accuracy.value)

    @property
    def areas(self) -> tuple[float, float]:
        """Mean AUROC over sites, where the site is new and where it has been seen; NaN where there is none."""
        both = np.array([(site.new.auroc.value, site.known.auroc.value) for site in _ranked(self.sites)])
        return (float(both[:, 0].mean()), float(both[:, 1].mean())) if len(both) else (np.nan, np.nan)

    @property
    def by_rank(self) -> bool:
        """Whether the AUROC tells more than accuracy: nine rows in ten or more have the same label."""
        counts = np.sum([site.n_rows * np.array(list(site.shares.values())) for site in self.sites], axis=0)
        return bool(counts.max() >= RARE * counts.sum() and _ranked(self.sites))

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
        names = [name for name in self.parts if not (alike and name == "other rates")]
        name = max(names, key=lambda part: self.parts[part].value)
        return name if self.parts[name].low > 0 else None

    @property
    def finding(self) -> str:
        """What is wrong with the data; else whether the model breaks and why."""
        if self.blocking:
            return headline(self.blocking, self.label)[0]
        return self._finding

    @property
    def _finding(self) -> str:
        """Whether the model breaks and why, in one sentence."""
        new, known = self.mean("new"), self.mean("known")
        numbers = f"it is right for {new:.0%} of rows, and for {known:.0%} when it has seen the site"
        often = "about as often" if known - new < WORTH else "perhaps less often"
        as_good = f"is right {often} ({new:.0%} of rows, {known:.0%}"
        worst = max(self.sites, key=lambda site: site.lost.value)
        there = f"{worst.new.accuracy.value:.0%} instead of {worst.known.accuracy.value:.0%}"
        if self.by_rank:
            new, known = self.areas
            numbers = f"its AUROC is {new:.2f} there, and {known:.2f} when it has seen the site"
            well = "about as well" if known - new < WORTH else "perhaps worse"
            as_good = f"ranks rows {well} (AUROC {new:.2f}, {known:.2f}"
            worst = max(_ranked(self.sites), key=lambda site: site.known.auroc.value - site.new.auroc.value)
            there = f"{worst.new.auroc.value:.2f} instead of {worst.known.auroc.value:.2f}"
        if self.state == "holds":
            return f"An ordinary model holds at a site it has not seen: {numbers}."
        if self.state == "unclear":
            return f"There are too few rows to say whether an ordinary model breaks at a new site: {numbers}."
        if self.later is not None and self.later.breaks:
            return f"An ordinary model breaks as time goes on: {self.later.sentence}."
        why = f", mostly because {REASONS[self.cause]}" if self.cause else ""
        if self.state == "miscalibrated":
            return (
                f"At a site it has not seen, an ordinary model {as_good} when it has seen the site), but its "
                f"probabilities are off{why}."
            )
        most = f"most is lost in {worst.name}: {there}"
        return f"An ordinary model breaks at a site it has not seen{why}: {numbers} ({most})."

    @property
    def explanation(self) -> tuple[str, ...]:
        """Why this is advised, how sure that is, and what to check first; a line each."""
        advice = self.recommendation
        notes = [
            problem for problem in self.problems if not problem.is_headline and problem.column not in advice.columns
        ]
        check = check_line(notes, self.label)
        dropped = [remedy for remedy in self.remedies if remedy.is_sure and remedy.action == "repair"]
        if check and dropped:
            enough = 0.5 * max(remedy.gain.value for remedy in dropped)
            best = min(dropped, key=lambda remedy: (remedy.gain.value < enough, len(remedy.columns)))
            check += f" Without {_quoted(best.columns)}, the model does better at sites it has not seen."
        lines = f"Why: {advice.reason}", advice.sure, check
        return tuple(line for line in lines if line)

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


def diagnose(
    X: Any,
    y: Any,
    environments: Any,
    *,
    estimator: Any = "logistic",
    threshold: float | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: Progress = lambda step, n_done, n_fits: None,
) -> Diagnosis:
    """Say whether an ordinary model breaks at a site it has not seen, why, and what to do.

    Parameters
    ----------
    X : data frame or array of shape (n_rows, n_columns)
        Numbers, texts (levels) and dates; numbers may be missing.
    y : labels of shape (n_rows,)
    environments : labels of shape (n_rows,)
        The site of each row; at least two different ones.
    estimator : str or scikit-learn classifier
        A name such as "boosting" (see `holdfast fit --help`), or a classifier of numbers.
    threshold : float, optional
        Risk from which on somebody is treated, for the net benefit; by default the share of events.
    n_jobs : int, optional
        Fits that run at the same time.
    random_state : int or None
    progress : callable
        Called when a fit begins: with what it is for, the number of fits before it, and about how many there will be.

    Returns
    -------
    Diagnosis
        `str()` is the answer in words.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> y, sites = generator.integers(2, size=900), np.repeat(["Boston", "Chicago", "Denver"], 300)
    >>> marker = np.where(generator.random(900) < 0.8, y, 1 - y)
    >>> found = diagnose(marker[:, None], y, sites)
    >>> found.state, found.recommendation.action
    ('holds', 'keep')
    """
    import pandas as pd

    if not hasattr(X, "columns"):
        if getattr(X, "ndim", 0) != 2 or hasattr(X, "toarray"):
            raise FeaturesError(
                f"diagnose looks at the columns of a table. Got {type(X).__name__} instead. Pass a data frame, or an "
                "array with a row for each example."
            )
        X = pd.DataFrame(np.asarray(X), columns=[f"x{place}" for place in range(X.shape[1])])
    frame = open_table(X).read()
    labels, sites = np.asarray(y), _site_names(split_environments(environments, len(frame)))
    if len(labels) != len(frame):
        raise LabelsError(f"y has {len(labels)} labels for {len(frame)} rows. Pass one label for each row.")
    schema = TableSchema.infer(frame)
    roles = TableRoles(str(getattr(y, "name", None) or "label"), "string", ("environments",), None, schema)
    rows = TableRows(roles, schema.features(frame), labels, sites, notes=table_notes(frame, schema))
    return diagnose_rows(
        rows, estimator=estimator, threshold=threshold, n_jobs=n_jobs, random_state=random_state, progress=progress
    )


def diagnose_rows(
    rows: TableRows,
    *,
    estimator: Any = "logistic",
    threshold: float | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: Progress = lambda step, n_done, n_fits: None,
) -> Diagnosis:
    """Diagnose the rows of a table; parameters as in `diagnose`."""
    work = _Work(rows, estimator, n_jobs, random_state)
    categorical = rows.roles.schema.names("categorical")
    tokens = {name: words for name in categorical if (words := odd_tokens(rows.features[name]))}
    profile = _profile(rows, tokens, _site_names(work.environments))
    odd = _odd_columns(profile, rows.roles.schema, NETWORK_ODD if work.is_network else MOST_ODD)
    known, new, elsewhere, without = work.ask_all(odd, progress)
    verdict, findings, notes = work.verdict(progress)
    tried = [work.remedy(new, "repair", _without(columns), answers, columns) for columns, answers in without.items()]
    if verdict is not None and verdict.fitted != "ordinary" and len(work.environments) > 2:
        stable = work.ask_all_stable(known, progress)
        tried.append(work.remedy(new, "stable", "the stable classifier", stable, tuple(f.feature for f in findings)))
    if work.probable:
        tried.append(work.try_recalibration(new))
    tried.append(work.remedy(new, "collect", "fitted with rows of the site", known))
    remedies = tuple(sorted(tried, key=lambda remedy: -remedy.gain.value))
    sites = tuple(_site_diagnoses(work, new, known, elsewhere, Seeding(random_state)))
    lost = _mean_interval([site.lost for site in sites])
    parts = {
        name: _mean_interval([site.split.parts[name] for site in sites])
        for name in ("other patients", "other rates", "other relations")
    }
    found = Diagnosis(
        estimator if isinstance(estimator, str) else type(estimator).__name__,
        "log loss" if work.probable else "share of mistakes",
        "unclear",
        sites,
        lost,
        parts,
        findings,
        profile,
        tokens,
        remedies,
        Recommendation("keep", "", "", ""),
        verdict,
        (*(note for note in rows.notes if note not in profile.sentences), *notes, *work.notes()),
        rows.roles.label,
        work.later(known, with_stable=verdict is not None and verdict.fitted != "ordinary"),
        work.clinical(new, threshold),
    )
    found = replace(found, state=_state(found, next(remedy for remedy in remedies if remedy.action == "collect")))
    return replace(found, recommendation=_recommend(found))


class _Work:
    """The rows, the unfitted model, and how it is asked."""

    def __init__(self, rows: TableRows, estimator: Any, n_jobs: int | None, random_state: int | None) -> None:
        self.rows, self.estimator, self.n_jobs, self.random_state = rows, estimator, n_jobs, random_state
        self.seeding = Seeding(random_state)
        self.inner = find_estimator(estimator).make() if isinstance(estimator, str) else clone(estimator)
        require_classifier(self.inner, asked_by="diagnose")
        self.probable, self.is_network = has_probabilities(self.inner), hasattr(self.inner, "fit_groups")
        self.classes, self.y = unique_labels(rows.y, what="labels", error=LabelsError)
        self.inner = over_codes(self.inner, self.classes)
        self.environments = split_rows(rows, because="so nothing can be tried at a site that the model has not seen")
        encoded = make_preprocessor(rows.roles.schema).fit_transform(rows.features)
        if encoded.shape[1] > MOST_ENCODED:
            encoded = TruncatedSVD(20, random_state=0).fit_transform(encoded)
        self.encoded: Array = np.asarray(encoded.toarray() if is_sparse(encoded) else encoded, dtype=np.float64)
        self.n_folds = NETWORK_FOLDS if self.is_network else N_FOLDS
        folds = deal_folds(TrainingRows(self.encoded, self.y, self.environments), self.n_folds)
        assert folds is not None
        self.folds = folds
        n_rounds = min(len(self.environments), MOST_ROUNDS)
        together = [self.environments[number::n_rounds] for number in range(n_rounds)]
        self.rounds = [([e.name for e in group], np.concatenate([e.rows for e in group])) for group in together]
        self.n_done = self.n_fits = 0

    def notes(self) -> list[str]:
        """Say where several sites were left out at a time."""
        if len(self.rounds) == len(self.environments):
            return []
        return [f"{len(self.environments)} sites were left out in {len(self.rounds)} rounds, several at a time."]

    def ask(self, rest: Rows, out: Rows, without: Sequence[str] = ()) -> Array:
        """Fit the model on some rows and return its probabilities for others, (n_out, n_classes)."""
        schema, features = self.rows.roles.schema, self.rows.features
        if without:
            schema = replace(schema, columns=tuple(c for c in schema.columns if c.name not in without))
            features = features[schema.feature_names()]
        model = with_preprocessing(schema, self.inner)
        fitted = fit_rows(seeded_clone(model, self.seeding, "diagnose"), features, self.y, rest)
        return code_probabilities(fitted, take_rows(features, out), len(self.classes))

    def ask_all(
        self, odd: Sequence[tuple[str, ...]], progress: Progress
    ) -> tuple[Array, Array, list[Array], dict[tuple[str, ...], Array]]:
        """Return the probabilities of all rows: at known sites, at sites left out, and there without odd columns.

        Those in a list are, for each round, of the rows that were not left out. At known sites, and in the list, rows
        are answered by models of the other folds.
        """
        everything = np.arange(len(self.y))
        kept = [everything, *(np.setdiff1d(everything, out) for _, out in self.rounds)]
        tasks: list[tuple[Array, Rows, Rows, tuple[str, ...]]] = []  # into which array, fitted on which rows, asked …
        empty = np.full((len(self.y), len(self.classes)), np.nan)
        known, new, elsewhere = empty.copy(), empty.copy(), [empty.copy() for _ in self.rounds]
        without = {columns: empty.copy() for columns in odd}
        steps: list[str] = []  # what each task is for
        for number, rest in enumerate(kept):
            if number:
                names, out = self.rounds[number - 1]
                tasks.append((new, rest, out, ()))
                tasks += [(answers, rest, out, columns) for columns, answers in without.items()]
            answers = elsewhere[number - 1] if number else known
            parts = [rest[self.folds[rest] == fold] for fold in range(self.n_folds)]
            tasks += [(answers, np.setdiff1d(rest, part), part, ()) for part in parts if len(part)]
            step = f"without {listed(names, most=3)}" if number else "the model at known sites, out of fold"
            steps += [step] * (len(tasks) - len(steps))
        n_stable = 1 + len(self.rounds) * (len(self.environments) > 2)
        self.n_fits = len(tasks) + STABLE_FITS * n_stable
        asked = self._ask_each(_Work.ask, [task[1:] for task in tasks], steps, progress)
        for (answers, _, rows, _), found in zip(tasks, asked, strict=True):
            answers[rows] = found
        return known, new, [answers[rest] for answers, rest in zip(elsewhere, kept[1:], strict=True)], without

    def ask_all_stable(self, known: Array, progress: Progress) -> Array:
        """Return the stable classifier's probabilities of the rows of all sites, each left out."""
        answers, everything = known.copy(), np.arange(len(self.y))
        steps = [f"the stable classifier without {listed(names, most=3)}" for names, _ in self.rounds]
        tasks = [(np.setdiff1d(everything, out), out) for _, out in self.rounds]
        asked = self._ask_each(_Work.ask_stable, tasks, steps, progress, STABLE_FITS)
        for (_, out), found in zip(tasks, asked, strict=True):
            answers[out] = found
        return answers

    def _ask_each(
        self,
        ask: Callable[..., Array],
        tasks: Sequence[tuple[Any, ...]],
        steps: Sequence[str],
        progress: Progress,
        n_fits: int = 1,
    ) -> list[Array]:
        """Run independent tasks of so many fits each; `progress` is called when one begins."""

        def announced() -> Iterator[tuple[Any, ...]]:
            for step, task in zip(steps, tasks, strict=True):
                progress(step, self.n_done, self.n_fits)
                yield task
                self.n_done += n_fits

        return run_each(ask, self, announced(), self.n_jobs)

    def _stable(self, rows: TableRows) -> TableClassifier:
        return fit_stable(rows, estimator=self.estimator, random_state=self.random_state, n_jobs=self.n_jobs)

    def verdict(self, progress: Progress) -> tuple[Any, tuple[Finding, ...], tuple[str, ...]]:
        """Return what the stable classifier says about all rows, and the columns that change."""
        progress("columns whose effects differ, and the stable classifier", self.n_done, self.n_fits)
        self.n_done += STABLE_FITS
        try:
            verdict = self._stable(self.rows).verdict_
            return verdict, verdict.columns, ()
        except HoldfastError as problem:
            found = audit_rows(self.rows, level=0.05).findings
            return None, tuple(f for f in found if f.named), (f"the stable classifier was not tried: {problem}",)

    def ask_stable(self, rest: Rows, out: Rows) -> Array:
        """Return the stable classifier's probabilities for rows of sites left out."""
        rows = self.rows
        part = replace(
            rows, features=rows.features.iloc[rest], y=rows.y[rest], environments=rows.environments[rest], notes=()
        )
        fitted, answers = self._stable(part), np.zeros((len(out), len(self.classes)))
        places = np.searchsorted(self.classes.astype(fitted.classes_.dtype), fitted.classes_)
        if hasattr(fitted.pipeline_, "predict_proba"):
            answers[:, places] = fitted.pipeline_.predict_proba(rows.features.iloc[out])
        else:
            predicted = np.searchsorted(self.classes, fitted.pipeline_.predict(rows.features.iloc[out]))
            answers[np.arange(len(out)), predicted] = 1.0
        return answers

    def try_recalibration(self, new: Array) -> Remedy:
        """Return what recalibrating brings with the fewest labels that bring most of what half of the rows do."""
        whole = self.remedy(new, "recalibrate", "recalibrated with half of its rows", self.recalibrate(new))
        for n_labels in LABELS:
            if 2 * n_labels > max(map(len, self.environments)):
                break
            answers = self.recalibrate(new, n_labels)
            found = self.remedy(new, "recalibrate", f"recalibrated with {n_labels} rows", answers)
            if found.is_sure and found.gain.value >= MOST_OF_IT * whole.gain.value:
                return replace(found, n_labels=n_labels)
        return whole

    def recalibrate(self, answers: Array, n_labels: int | None = None) -> Array:
        """Return answers at each site left out, with temperature and rates from half of its rows, for the other."""
        found, scores = answers.copy(), np.log(np.maximum(answers, LEAST_PROBABILITY))
        for site in self.environments:
            generator = self.seeding.generator("recalibrate", site.name)
            half = self.folds[site.rows] % 2 == 0
            for labeled, asked in ((site.rows[half], site.rows[~half]), (site.rows[~half], site.rows[half])):
                if len(labeled) and len(asked):
                    rows = generator.permutation(labeled)[:n_labels]
                    found[asked] = calibrate(scores[rows], self.y[rows], offsets=True).probabilities(scores[asked])
        return found

    def losses(self, answers: Array, rows: Rows) -> Array:
        """Return the loss of each row."""
        of_label = answers[np.arange(len(rows)), self.y[rows]]
        if self.probable:
            return np.asarray(-np.log(np.maximum(of_label, LEAST_PROBABILITY)))
        return 1.0 - of_label

    def correct(self, answers: Array, rows: Rows) -> Array:
        """Return 1 for each row that is right and 0 for others."""
        return np.asarray(answers.argmax(axis=1) == self.y[rows], dtype=np.float64)

    def later(self, known: Array, *, with_stable: bool) -> Later | None:
        """Fit on earlier times and ask about the last quarter of them; None where sites are no times, or too few."""
        times = sorted(self.environments, key=lambda environment: environment.name)
        names = [environment.name for environment in times]
        if len(names) < LEAST_TIMES or len(set(map(len, names))) > 1 or not all(map(TIME.fullmatch, names)):
            return None
        late = times[-(len(times) // 4) :]
        out = np.sort(np.concatenate([environment.rows for environment in late]))
        rest = np.setdiff1d(np.arange(len(self.y)), out)
        if len(np.unique(self.y[rest])) < len(self.classes):
            return None
        new, right = self.ask(rest, out), self.correct(known[out], out)
        right_now = self.correct(new, out)
        stable = _interval(self.correct(self.ask_stable(rest, out), out) - right_now) if with_stable else None
        lost = _interval(right - right_now)
        return Later(late[0].name, self.quality(new, out), self.quality(known[out], out), lost, stable)

    def clinical(self, new: Array, threshold: float | None) -> ClinicalReport | None:
        """Return what clinical studies report about the answers at sites left out."""
        if not self.probable or len(self.classes) != 2:
            return None
        risks, sites = np.clip(new[:, 1], 0.0, 1.0), _site_names(self.environments)
        return clinical_report(self.y, risks, sites, event=str(self.classes[1]), threshold=threshold)

    def quality(self, answers: Array, rows: Rows) -> Quality:
        """Return how good the answers about some rows are."""
        right = self.correct(answers, rows)
        accuracy = Interval(float(right.mean()), *map(float, exact_interval(right.sum(), len(rows))))
        area = auroc_interval(self.y[rows], answers) if self.probable else Interval(*[float("nan")] * 3)
        return Quality(accuracy, area, _interval(self.losses(answers, rows)))

    def remedy(self, new: Array, action: Action, name: str, answers: Array, columns: tuple[str, ...] = ()) -> Remedy:
        """Compare answers at sites left out with the ordinary model's, row by row."""
        sites = [(new[site.rows], answers[site.rows], site.rows) for site in self.environments]
        gains = [_interval(self.losses(old, rows) - self.losses(other, rows)) for old, other, rows in sites]
        right = [_interval(self.correct(other, rows) - self.correct(old, rows)) for old, other, rows in sites]
        n_better = sum(gain.value > 0 for gain in gains)
        return Remedy(action, name, _mean_interval(gains), _mean_interval(right), n_better, columns)


def _site_names(sites: Sequence[Environment]) -> NDArray[Any]:
    """Return the name of each row's site."""
    names = np.empty(sum(map(len, sites)), dtype=object)
    for site in sites:
        names[site.rows] = site.name
    return names


def _interval(values: Array) -> Interval:
    """Return the mean of rows with its 95 % interval; equal values still are uncertain, so one more row is added."""
    mean, reach = float(values.mean()), 1.96 * float(np.sqrt((values.var() + 1.0 / (len(values) + 1)) / len(values)))
    return Interval(mean, mean - reach, mean + reach)


def _mean_interval(parts: Sequence[Interval]) -> Interval:
    """Return the mean over sites with its interval: these sites, other rows."""
    value = float(np.mean([part.value for part in parts]))
    half = float(np.sqrt(np.sum([((part.high - part.low) / 2) ** 2 for part in parts]))) / len(parts)
    return Interval(value, value - half, value + half)


def _site_diagnoses(
    work: _Work, new: Array, known: Array, elsewhere: Sequence[Array], seeding: Seeding
) -> list[SiteDiagnosis]:
    """Return every site's scores and the split of its loss."""
    found: dict[str, SiteDiagnosis] = {}
    by_name: dict[str, Environment] = {site.name: site for site in work.environments}
    for (names, out), answers in zip(work.rounds, elsewhere, strict=True):
        rest = np.setdiff1d(np.arange(len(work.y)), out)
        there = Losses(work.losses(answers, rest), work.y[rest], _scores(answers), work.encoded[rest])
        quality = work.quality(answers, rest)
        for name in names:
            rows = by_name[name].rows
            here = Losses(work.losses(new[rows], rows), work.y[rows], _scores(new[rows]), work.encoded[rows])
            shares = np.bincount(work.y[rows], minlength=len(work.classes)) / len(rows)
            found[name] = SiteDiagnosis(
                name,
                len(rows),
                dict(zip(map(str, work.classes), map(float, shares), strict=True)),
                quality,
                work.quality(new[rows], rows),
                work.quality(known[rows], rows),
                _interval(work.correct(known[rows], rows) - work.correct(new[rows], rows)),
                split_loss(there, here, generator=seeding.generator("split", name)),
            )
    return [found[site.name] for site in work.environments]


def _scores(answers: Array) -> Array:
    """Return the log-odds of every class against the first, (n_rows, n_classes - 1)."""
    logs = np.log(np.clip(answers, 1e-3, 1.0))
    return np.asarray(logs[:, 1:] - logs[:, :1])


def _profile(rows: TableRows, tokens: Mapping[str, tuple[str, ...]], sites: NDArray[Any]) -> Profile:
    """Return every column at every site, and what is wrong with the data; problems name the columns of the table."""
    schema, features = rows.roles.schema, _without_words(rows.features, tokens)
    source = {f"{c.name} ({part})": c.name for c in schema.columns if c.kind == "date" for part in DATE_FEATURES}
    found = [
        Problem("words_among_numbers", "stop", name, (), {"words": list(words)}, _repeated("--missing", words))
        for name, words in tokens.items()
    ]
    for problem in check_table(features, rows.y, sites, texts=schema.names("text")):
        name = source.get(problem.column, problem.column)
        if name != problem.column:
            problem = replace(problem, column=name, options=("--drop", name) if problem.options else ())
        if name in tokens or (name in source.values() and name in {p.column for p in found}):
            continue  # of several parts of a date, the worst is told
        found.append(problem)
    return describe_columns(features, sites, found, rows.roles.label)


def _repeated(option: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return an option once for each value, as words of a command."""
    return tuple(word for value in values for word in (option, value))


def _odd_columns(profile: Profile | None, schema: TableSchema, most: int) -> list[tuple[str, ...]]:
    """Return sets of columns to try without: each that does not fit at some site, and all of them."""
    if profile is None:
        return []
    known = set(schema.names())
    odd = [name for name in profile.odd if name in known]
    sets = [(name,) for name in odd[:most]] + ([tuple(odd)] if len(odd) > 1 else [])
    return [columns for columns in sets if len(columns) < len(known)]


def _state(found: Diagnosis, collect: Remedy) -> State:
    """Return whether the model breaks at new sites."""
    wider = 1.3  # so many standard errors more, because the worst of several sites is looked at
    lost, at_one = found.lost, max(s.lost.value - wider * (s.lost.value - s.lost.low) for s in found.sites)
    areas = [(site.known.auroc, site.new.auroc) for site in _ranked(found.sites) if found.by_rank]
    lost_rank = any(known.low > new.high and known.value - new.value > MATTERS for known, new in areas)
    if lost.low > BREAKS or at_one > BREAKS_ONE or lost_rank or (found.later is not None and found.later.breaks):
        return "breaks"
    if collect.is_sure:
        return "miscalibrated"
    score = _new_score(found)
    return "unclear" if lost.high > MATTERS or score.high - score.value > MATTERS else "holds"


def _ranked(sites: Sequence[SiteDiagnosis]) -> list[SiteDiagnosis]:
    """Return the sites that have an AUROC: those with several labels."""
    return [site for site in sites if not np.isnan(site.new.auroc.value + site.known.auroc.value)]


def _new_score(found: Diagnosis) -> Interval:
    """Return the accuracy at a new site, or the AUROC where that tells more."""
    if found.by_rank:
        return _mean_interval([site.new.auroc for site in _ranked(found.sites)])
    return _mean_interval([site.new.accuracy for site in found.sites])


def _facts(found: Diagnosis) -> Facts:
    """Return what the advice depends on."""
    best = _best_remedy(found)
    return Facts(
        state=found.state,
        data_is_wrong=bool(found.blocking),
        is_unstable=_saves(found.verdict) >= SAVES,
        drifts=found.later is not None and found.later.breaks,
        remedy=None if best is None else best.action,
    )


def _saves(verdict: Any) -> float:
    """Return the accuracy, or AUROC, that the stable classifier saves where relations vanish or reverse."""
    if verdict is None or verdict.fitted == "ordinary":
        return 0.0
    if verdict.auroc:
        _, gone, turned = verdict.auroc.values()
        return float(max(gone.fitted - gone.ordinary, turned.fitted - turned.ordinary))
    return float(max(verdict.gain))


def _best_remedy(found: Diagnosis) -> Remedy | None:
    """Return the change of least effort that brings at least half of what the best one brings, if it is sure."""
    new, known = found.areas
    ranks = not known - new > MATTERS  # a lost ranking is not mended by other probabilities
    sure = [remedy for remedy in found.remedies if remedy.is_sure and (ranks or remedy.action != "recalibrate")]
    good = [remedy for remedy in sure if remedy.gain.value >= 0.5 * max(other.gain.value for other in sure)]
    effort = ("repair", "stable", "recalibrate", "collect")
    return min(good, key=lambda remedy: (effort.index(remedy.action), -remedy.gain.value), default=None)


def _recommend(found: Diagnosis) -> Recommendation:
    """Return the advice of the first rule that applies, in words."""
    rule = decide(_facts(found))
    return replace(_WORDED[rule.key](found), command=rule.command)


def _advise_recent(found: Diagnosis) -> Recommendation:
    later = found.later
    assert later is not None
    return Recommendation(
        "collect",
        "Fit it again with recent rows before you use it, and check it regularly.",
        f"What was learned before {later.first} costs {in_points(later.lost)} of accuracy afterwards.",
        "Fairly sure, if the change goes on as it did.",
        site=later.first,
        how="First add recent rows to the table.",
    )


def _advise_more_rows(found: Diagnosis) -> Recommendation:
    smallest, score = min(found.sites, key=lambda site: site.n_rows), _new_score(found)
    within = f"known only to within {50 * (score.high - score.low):.0f} points"
    reason = f"The accuracy lost at a new site is {in_points(found.lost)}, and that there is {within}."
    if found.by_rank:
        reason = f"The AUROC at a new site is {score.value:.2f}, {within}."
    return Recommendation(
        "collect",
        f"Collect more rows, first in {smallest.name}.",
        f"{reason} {smallest.name} has {smallest.n_rows:,} rows.",
        "Confidence: low, because there are few rows.",
        site=smallest.name,
        how="First add the new rows to the table.",
    )


def _advise_new_rows(found: Diagnosis) -> Recommendation:
    worst = max(found.sites, key=lambda site: site.lost.value)
    lower = f"Accuracy at a new site is {in_points(found.lost)}"
    if found.by_rank:
        new, known = found.areas
        lower = f"The AUROC at a new site is {known - new:.2f}"
    return Recommendation(
        "collect",
        f"Collect rows at the new site before using a model there, as many as in {worst.name} or more.",
        f"{lower} lower, and nothing that was tried helps for sure.",
        "Fairly sure that the model breaks; not sure that rows will mend it.",
        site=worst.name,
        how=ADD_ROWS,
    )


def _advise_keep(found: Diagnosis) -> Recommendation:
    names = [finding.feature for finding in found.findings]
    unstable = f" {_quoted(names)} {_verb(names, 'changes', 'change')} between sites, without harm so far."
    kept, at_most = f"The accuracy lost at a site it has not seen is {in_points(found.lost)}", found.lost.high
    if found.by_rank:
        new, known = found.areas
        kept, at_most = f"The AUROC at a site it has not seen is {new:.2f}, and {known:.2f} when it has", known - new
    return Recommendation(
        "keep",
        "Keep the ordinary model.",
        f"{kept}, and nothing that was tried is better for sure.{unstable * bool(names)}",
        f"{'Quite' if at_most <= MATTERS / 2 else 'Fairly'} sure, for sites that differ from these as much as "
        "these differ from one another.",
    )


def _advise_repair(found: Diagnosis) -> Recommendation:
    """Recommend to mend the data first."""
    options = [pair for p in found.blocking for pair in zip(p.options[::2], p.options[1::2], strict=True)]
    return Recommendation(
        "repair",
        headline(found.blocking, found.label)[1],
        "The figures below include this error and may change once it is mended.",
        "",
        tuple(dict.fromkeys(value for option, value in options if option == "--drop")),
        missing=tuple(dict.fromkeys(value for option, value in options if option == "--missing")),
    )


def _sureness(found: Diagnosis, remedy: Remedy) -> str:
    """Say at how many sites left out a change was better."""
    n_sites = len(found.sites)
    level = "Fairly" if 2 * remedy.n_better >= n_sites else "Less"
    level = "Quite" if remedy.n_better == n_sites else level
    return f"{level} sure: it is better at {remedy.n_better} of {n_sites} sites left out."


def _advise(found: Diagnosis) -> Recommendation:
    """Recommend the remedy that gained at sites left out."""
    remedy = _best_remedy(found)
    assert remedy is not None
    sure, gained = _sureness(found, remedy), _gained(found, remedy)
    if remedy.action == "repair":
        it = _verb(remedy.columns, "it", "them")
        odd = () if found.profile is None else found.profile.about(remedy.columns)
        return Recommendation(
            "repair",
            f"Repair {_quoted(remedy.columns)}, or fit without {it}.",
            f"{' '.join(odd)} Without {it}, the model does better at sites it has not seen. {gained}",
            sure,
            remedy.columns,
        )
    if remedy.action == "recalibrate":
        sizes = [site.n_rows // 2 for site in found.sites]
        several = f"{min(sizes):,} to {max(sizes):,}" if min(sizes) < max(sizes) else f"about {min(sizes):,}"
        labels = f"about {remedy.n_labels}" if remedy.n_labels else several
        return Recommendation(
            "recalibrate",
            f"Before you use it at a new site, label {labels} rows there and adjust its probabilities (recalibrate it) "
            "with them.",
            f"{_ranking(found)}{_rates(found)}. {gained}",
            sure,
            how="With the fitted model, at the new site (labeled rows in LABELED.csv, the others in NEW.csv): "
            "`holdfast predict model NEW.csv --recalibrate LABELED.csv --out predictions.csv`",
        )
    worst = max(found.sites, key=lambda site: site.new.loss.value - site.known.loss.value)
    return Recommendation(
        "collect",
        "Collect labeled rows at the new site and fit with them before using the model there.",
        f"Rows of the site itself help more than anything else that was tried, most in {worst.name}. {gained}",
        sure,
        site=worst.name,
        how=ADD_ROWS,
    )


def _ranking(found: Diagnosis) -> str:
    """Say what of the model's scores carries over."""
    new, known = found.areas
    off = "are off everywhere" if found.state == "holds" else "do not"
    areas = f"AUROC {new:.2f} at a site it has not seen, {known:.2f} when it has"
    return f"Its ranking of rows carries over ({areas}), its probabilities {off}"


def _rates(found: Diagnosis) -> str:
    """Say how far the frequency of a class goes apart, if it does."""
    shares = {label: [site.shares[label] for site in found.sites] for label in found.sites[0].shares}
    label = max(reversed(shares), key=lambda name: round(max(shares[name]) - min(shares[name]), 9))
    low, high = (pick(found.sites, key=lambda site: site.shares[label]) for pick in (min, max))
    if high.shares[label] - low.shares[label] < RATES_DIFFER:
        return ""
    few, many = (f"{site.shares[label]:.0%}" for site in (low, high))
    return f": `{found.label}` is {label} in {few} of rows in {low.name}, and in {many} in {high.name}"


def _gained(found: Diagnosis, remedy: Remedy) -> str:
    """Say what a change brought at the sites left out."""
    gain = remedy.gain
    return (
        f"Tried at the sites left out, this changes the accuracy by {in_points(remedy.accuracy)} and lowers the "
        f"{found.loss_name} by {gain.value:.3f} [{gain.low:.3f} to {gain.high:.3f}]."
    )


def _advise_stable(found: Diagnosis) -> Recommendation:
    """Recommend the stable classifier, with what it costs and saves, and what it gained where it was tried."""
    names = tuple(finding.feature for finding in found.verdict.acted_on)
    effects = _verb(names, "a column whose effect differs", "columns whose effects differ")
    tried = next((remedy for remedy in found.remedies if remedy.action == "stable"), None)
    gained = _gained(found, tried) if tried is not None and tried.is_sure else ""
    later = found.later
    if later is not None and later.breaks and later.stable is not None and later.stable.low > 0:
        sure = f"Fairly sure: on the later rows its accuracy is higher by {in_points(later.stable)}."
    elif tried is None:
        sure = "Less sure: with two sites it cannot be tried at one left out."
    elif tried.is_sure:
        sure = _sureness(found, tried)
    else:
        sure = "Less sure: leaving sites out does not show a gain; it is an insurance."
    return Recommendation(
        "stable",
        f"Use the stable classifier, which relies less on {_quoted(names)}, {effects} between sites.",
        f"It {_price(found.verdict)}. {gained}".rstrip(),
        sure,
        names,
    )


def _price(verdict: Any) -> str:
    """Say what the stable classifier costs and saves, as a predicate."""
    if verdict.auroc:
        known, gone, turned = verdict.auroc.values()
        return (
            f"has an AUROC of {known.fitted:.2f} instead of {known.ordinary:.2f} at sites like these, of "
            f"{gone.fitted:.2f} instead of {gone.ordinary:.2f} where the relation vanishes, and of {turned.fitted:.2f} "
            f"instead of {turned.ordinary:.2f} where it reverses"
        )
    vanished, turned = (_points(gain) for gain in verdict.gain)
    costs = f"costs {in_points(verdict.price)} of accuracy" if verdict.price.value >= 0.0005 else "costs no accuracy"
    return (
        f"{costs} at sites like these, and saves {vanished} where the relation vanishes and {turned} where it reverses"
    )


def _points(value: float) -> str:
    """Return an accuracy as whole points.

    Examples
    --------
    >>> _points(0.012), _points(0.05)
    ('1 point', '5 points')
    """
    return f"{100 * value:.0f} point{'s' * (round(100 * value) != 1)}"


_WORDED: Mapping[str, Callable[[Diagnosis], Recommendation]] = {  # the words of each rule of `advice.RULES`
    "wrong_data": _advise_repair,
    "unstable": _advise_stable,
    "drift": _advise_recent,
    "few_rows": _advise_more_rows,
    "odd_column": _advise,
    "calibration": _advise,
    "site_rows": _advise,
    "breaks": _advise_new_rows,
    "holds": _advise_keep,
}


def _without(columns: Sequence[str]) -> str:
    return f"without {columns[0]}" if len(columns) == 1 else f"without all {len(columns)} odd columns"


def _without_words(features: Any, columns: Iterable[str]) -> Any:
    """Return a frame in which columns of numbers and a few words have numbers and gaps."""
    import pandas as pd

    def numbers(column: Any) -> Any:
        return pd.to_numeric(column.astype(object).str.replace(",", "."), errors="coerce")

    return features.assign(**{name: numbers(features[name]) for name in columns})


def _quoted(columns: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in columns], most=4)


def _verb(things: Sequence[Any], one: str, several: str) -> str:
    return one if len(things) == 1 else several


def in_points(value: Interval) -> str:
    """Return accuracies as points.

    Examples
    --------
    >>> in_points(Interval(0.05, 0.02, 0.08))
    '5.0 points [2.0 to 8.0]'
    """
    return f"{100 * value.value:.1f} points [{100 * value.low:.1f} to {100 * value.high:.1f}]"
