"""Leave each site out in turn, and try the remedies there.

An ordinary model is fitted on the other sites. Its scores at the site left out are compared with those of a model that
has seen rows of that site too, on the same rows, and with its own scores at the sites it was fitted on, out of fold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.diagnosis.advice import Action
from holdfast.diagnosis.clinical import ClinicalReport, clinical_report
from holdfast.diagnosis.loss_split import Losses, LossSplit, split_loss
from holdfast.diagnosis.pooling import chance_of_site, random_effects
from holdfast.diagnosis.soundness.table import SMALL_CLASS, SMALL_SITE
from holdfast.diagnosis.values import Later, OddSite, Quality, Remedy, SiteDiagnosis, mean_interval
from holdfast.environments import Environment, Rows, listed, site_names
from holdfast.fitting.splitter import leave_out
from holdfast.judging.judges import deal_folds
from holdfast.metrics import Interval, auroc_interval, exact_interval
from holdfast.newsite.recalibrate import LEAST_PROBABILITY, recalibrate
from holdfast.parallel import run_each
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]  # what a fit is for, fits before it, and about how many there will be
N_FOLDS, NETWORK_FOLDS = 5, 3
TIMES_AS_MANY = 1  # rows of the sites that stay, against those of one left out, which its loss is compared with
MOST_ROUNDS = 10  # with more sites, several are left out at a time
STABLE_FITS = 10  # ordinary fits that a stable classifier takes, about
LABELS = (50, 100, 200, 400)  # labeled rows of a site that recalibration is tried with
ODD_CHANCE = 0.1  # of naming a site where sites differ at random; about 0.01 where they do not differ
ODD_AUROC, ODD_RATE = 0.08, 0.08  # differences of one site from the others that are named
MOST_TRIED_ROWS, LEAST_TRIED = 40_000, 1_000  # rows of a large table, and of each site, that remedies are tried on
MOST_OF_IT = 0.8  # share of the gain with half of a site's rows that so many labels must bring
LEAST_TIMES = 4  # sites that are times, from which on a model of earlier ones is asked about later ones
TIME = re.compile(r"(19|20)\d\d(-?Q[1-4]|-\d\d(-\d\d)?)?")  # 2024, 2024-05, 2024Q2, 2024-05-31


def no_progress(step: str, n_done: int, n_fits: int) -> None:
    """Say nothing."""


class Subject(Protocol):
    """A table, and a model that can be fitted on some of its rows and asked about others."""

    y: Rows  # (n_rows,) class codes
    classes: NDArray[Any]
    environments: tuple[Environment, ...]
    columns: Array  # (n_rows, n_columns) numbers without gaps, which the loss is split with
    weights: Array | None  # (n_rows,) how much each row counts
    subjects: NDArray[Any] | None  # (n_rows,) rows with the same label belong together
    probable: bool  # whether answers are probabilities
    is_network: bool

    def ask(self, rest: Rows, out: Rows, without: Sequence[str] = ()) -> Array:
        """Fit the model on some rows and return its probabilities for others, (n_out, n_classes)."""

    def ask_stable(self, rest: Rows, out: Rows) -> Array:
        """Return the stable classifier's probabilities for rows of sites left out, (n_out, n_classes)."""


class Experiment:
    """Leaves sites of a subject out, and compares answers."""

    def __init__(
        self, subject: Subject, *, n_jobs: int | None, random_state: int | None, progress: Progress = no_progress
    ) -> None:
        self.subject, self.n_jobs, self.progress = subject, n_jobs, progress
        self.y, self.classes, self.environments = subject.y, subject.classes, subject.environments
        self.seeding = Seeding(random_state)
        self.n_folds = NETWORK_FOLDS if subject.is_network else N_FOLDS
        self.order = TrainingRows(subject.columns, subject.y, subject.environments).content_order
        self.folds = self._deal(self.n_folds)
        # Where the site was seen, as many rows are fitted on as where it is left out: more rows help by themselves.
        self.n_known_folds = min(max(len(self.environments), 2), self.n_folds)
        self.known_folds = self._deal(self.n_known_folds)
        self.rounds = leave_out(self.environments, most=MOST_ROUNDS)
        large = tuple(site for site in self.environments if len(site) >= SMALL_SITE)
        self.large = large if len(large) > 1 else self.environments
        self.n_done = self.n_fits = 0

    def _deal(self, n_folds: int) -> Rows:
        """Return the fold of each row; rows of one subject share a fold."""
        subjects, folds = self.subject.subjects, None
        if subjects is not None:
            folds = np.unique(subjects, return_inverse=True)[1] % n_folds
        dealt = deal_folds(TrainingRows(self.subject.columns, self.y, self.environments, folds=folds), n_folds)
        assert dealt is not None
        return dealt

    def notes(self) -> list[str]:
        """Say where several sites were left out at a time."""
        if len(self.rounds) == len(self.environments):
            return []
        return [f"{len(self.environments)} sites were left out in {len(self.rounds)} rounds, several at a time."]

    def sample(self) -> Rows | None:
        """Return the rows of a large table that remedies are tried on; None: all of them."""
        if len(self.y) <= MOST_TRIED_ROWS:
            return None
        share = MOST_TRIED_ROWS / len(self.y)
        generator = self.seeding.generator("tried rows")
        parts = [
            generator.choice(site.rows, min(len(site), max(LEAST_TRIED, round(share * len(site)))), replace=False)
            for site in self.environments
        ]
        return np.sort(np.concatenate(parts))

    def ask_all(
        self, odd: Sequence[tuple[str, ...]], *, elsewhere_too: bool = True
    ) -> tuple[Array, Array, list[Array], dict[tuple[str, ...], Array]]:
        """Return the probabilities of all rows: at known sites, at sites left out, and there without odd columns.

        Those in a list are, for each round, of some of the rows that were not left out; of the others they are NaN. At
        known sites, and in the list, rows are answered by models of the other folds.
        """
        everything = np.arange(len(self.y))
        kept = [everything, *(part.rest for part in self.rounds)]
        tasks: list[tuple[Array, Rows, Rows, tuple[str, ...]]] = []  # into which array, fitted on which rows, asked …
        empty = np.full((len(self.y), len(self.classes)), np.nan)
        known, new, elsewhere = empty.copy(), empty.copy(), [empty.copy() for _ in self.rounds]
        without = {columns: empty.copy() for columns in odd}
        steps: list[str] = []  # what each task is for
        for number, rest in enumerate(kept):
            if number:
                names, out = self.rounds[number - 1].names, self.rounds[number - 1].out
                tasks.append((new, rest, out, ()))
                tasks += [(answers, rest, out, columns) for columns, answers in without.items()]
                if not elsewhere_too:
                    steps.append(f"without {listed(names, most=3)}")
                    continue
            answers = elsewhere[number - 1] if number else known
            asked = self._folds_elsewhere(number) if number else range(self.n_known_folds)
            folds = self.folds if number else self.known_folds
            pairs = [(rest[folds[rest] != fold], rest[folds[rest] == fold]) for fold in asked]
            pairs = pairs if number else [pair for whole in pairs for pair in self._as_many(*whole)]
            tasks += [(answers, fitted, part, ()) for fitted, part in pairs if len(part)]
            step = f"without {listed(names, most=3)}" if number else "the model at known sites, out of fold"
            steps += [step] * (len(tasks) - len(steps))
        n_stable = 1 + len(self.rounds) * (len(self.environments) > 2)
        self.n_fits = self.n_done + len(tasks) + STABLE_FITS * n_stable * elsewhere_too
        answered = self._ask_each(type(self.subject).ask, [task[1:] for task in tasks], steps)
        for (answers, _, rows, _), found in zip(tasks, answered, strict=True):
            answers[rows] = found
        return known, new, elsewhere, without

    def _as_many(self, fitted: Rows, asked: Rows) -> list[tuple[Rows, Rows]]:
        """Return rows to fit on and rows to ask about, apart for a site that has more than half of all rows.

        The model that has not seen this site has few rows. So the one that has seen it gets as many, from all sites.
        """
        largest = max(self.environments, key=len).rows
        n_others = len(self.y) - len(largest)
        if len(largest) <= len(self.y) / 2 or n_others >= len(fitted):
            return [(fitted, asked)]
        ordered = self.order[np.isin(self.order, fitted)]  # by site and label
        few = np.sort(ordered[np.linspace(0, len(ordered) - 1, n_others).astype(np.intp)])
        return [(fitted, np.setdiff1d(asked, largest)), (few, np.intersect1d(asked, largest))]

    def _folds_elsewhere(self, number: int) -> list[int]:
        """Return the folds of the sites that stay, of which rows are asked about."""
        n_folds = round(self.n_folds * TIMES_AS_MANY / max(len(self.rounds) - 1, 1))
        return [(number + fold) % self.n_folds for fold in range(min(max(n_folds, 1), self.n_folds))]

    def ask_all_stable(self, known: Array) -> Array:
        """Return the stable classifier's probabilities of the rows of all sites, each left out."""
        answers = known.copy()
        steps = [f"the stable classifier without {listed(part.names, most=3)}" for part in self.rounds]
        tasks = [(part.rest, part.out) for part in self.rounds]
        asked = self._ask_each(type(self.subject).ask_stable, tasks, steps, STABLE_FITS)
        for (_, out), found in zip(tasks, asked, strict=True):
            answers[out] = found
        return answers

    def _ask_each(
        self,
        ask: Callable[..., Array],
        tasks: Sequence[tuple[Any, ...]],
        steps: Sequence[str],
        n_fits: int = 1,
    ) -> list[Array]:
        """Run independent tasks of so many fits each; `progress` is called when one begins."""

        def announced() -> Iterator[tuple[Any, ...]]:
            for step, task in zip(steps, tasks, strict=True):
                self.progress(step, self.n_done, self.n_fits)
                yield task
                self.n_done += n_fits

        return run_each(ask, self.subject, announced(), self.n_jobs)

    def announce_verdict(self) -> None:
        """Say that the stable classifier is fitted on all rows."""
        self.progress("columns whose effects differ, and the stable classifier", self.n_done, self.n_fits)
        self.n_done += STABLE_FITS

    def try_remedies(
        self, known: Array, new: Array, without: Mapping[tuple[str, ...], Array], unstable: tuple[str, ...]
    ) -> tuple[Remedy, ...]:
        """Try every change at the sites left out; the largest gain comes first.

        `without` has the answers without odd columns; `unstable` are columns that the stable classifier uses less.
        """
        tried = [self.remedy(new, "repair", _without(names), answers, names) for names, answers in without.items()]
        if unstable and len(self.environments) > 2:
            stable = self.ask_all_stable(known)
            tried.append(self.remedy(new, "stable", "the stable classifier", stable, unstable))
        if self.subject.probable:
            tried.append(self.try_recalibration(new))
        tried.append(self.remedy(new, "collect", "fitted with rows of the site", known))
        return tuple(sorted(tried, key=lambda remedy: -remedy.gain.value))

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
        """Return answers at each site left out, recalibrated with half of its rows for the other half."""
        found, scores = answers.copy(), np.log(np.maximum(answers, LEAST_PROBABILITY))
        for site in self.environments:
            generator = self.seeding.generator("recalibrate", site.name)
            half = self.folds[site.rows] % 2 == 0
            for labeled, asked in ((site.rows[half], site.rows[~half]), (site.rows[~half], site.rows[half])):
                if len(labeled) and len(asked):
                    rows = generator.permutation(labeled)[:n_labels]
                    found[asked] = recalibrate(scores[rows], self.y[rows]).calibration.probabilities(scores[asked])
        return found

    def losses(self, answers: Array, rows: Rows) -> Array:
        """Return the loss of each row."""
        of_label = answers[np.arange(len(rows)), self.y[rows]]
        if self.subject.probable:
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
        new, right = self.subject.ask(rest, out), self.correct(known[out], out)
        right_now = self.correct(new, out)
        weights, stable = self._weights(out), None
        if with_stable:
            stable = _interval(self.correct(self.subject.ask_stable(rest, out), out) - right_now, weights)
        lost = _interval(right - right_now, weights)
        return Later(late[0].name, self.quality(new, out), self.quality(known[out], out), lost, stable)

    def clinical(self, new: Array, threshold: float | None) -> ClinicalReport | None:
        """Return what clinical studies report about the answers at sites left out."""
        if not self.subject.probable or len(self.classes) != 2:
            return None
        risks, sites = np.clip(new[:, 1], 0.0, 1.0), site_names(self.environments)
        return clinical_report(
            self.y,
            risks,
            sites,
            event=str(self.classes[1]),
            threshold=threshold,
            sample_weight=self.subject.weights,
        )

    def quality(self, answers: Array, rows: Rows) -> Quality:
        """Return how good the answers about some rows are."""
        right, weights = self.correct(answers, rows), self._weights(rows)
        share, n_rows = float(np.average(right, weights=weights)), effective_rows(weights, len(rows))
        accuracy = Interval(share, *map(float, exact_interval(share * n_rows, n_rows)))
        area = Interval(*[float("nan")] * 3)
        if self.subject.probable:
            area = auroc_interval(self.y[rows], answers, sample_weight=weights)
        return Quality(accuracy, area, _interval(self.losses(answers, rows), weights))

    def _weights(self, rows: Rows) -> Array | None:
        return None if self.subject.weights is None else self.subject.weights[rows]

    def remedy(self, new: Array, action: Action, name: str, answers: Array, columns: tuple[str, ...] = ()) -> Remedy:
        """Compare answers at sites left out with the ordinary model's, row by row."""
        sites = [(new[site.rows], answers[site.rows], site.rows) for site in self.large]
        gains, right = [], []
        for old, other, rows in sites:
            weights = self._weights(rows)
            gains.append(_interval(self.losses(old, rows) - self.losses(other, rows), weights))
            right.append(_interval(self.correct(other, rows) - self.correct(old, rows), weights))
        n_better = sum(gain.value > 0 for gain in gains)
        return Remedy(action, name, mean_interval(gains), mean_interval(right), n_better, columns)

    def odd_sites(self, new: Array, known: Array) -> tuple[OddSite, ...]:
        """Return the sites that stand apart from all others, the least likely first; () with fewer than four sites.

        Where sites differ from one another at random, one is named in about `ODD_CHANCE` of the tables at most.
        """
        counts = {site.name: np.bincount(self.y[site.rows], minlength=len(self.classes)) for site in self.environments}
        sites = [site for site in self.large if counts[site.name].min() >= SMALL_CLASS]
        if not self.subject.probable or len(self.classes) != 2 or len(sites) < 4:
            return ()
        areas, seen = ([self._area_missed(answers[s.rows], s.rows) for s in sites] for answers in (new, known))
        # An event more here is one less expected there: the models of k sites exaggerate differences by k / (k - 1).
        share = 1 - 1 / len(self.environments)
        raw = [auroc_interval(self.y[s.rows], new[s.rows]).value for s in sites]
        excess = [_interval(share * (self.y[s.rows] - new[s.rows, 1])) for s in sites]
        found = []
        for place, site in enumerate(sites):
            (lower, chance), (lower_seen, _) = _apart(areas, place), _apart(seen, place)
            here, usual, chance = raw[place], min(raw[place] - lower, max(raw)), chance * len(sites)
            if chance / 2 < ODD_CHANCE and max(lower, lower_seen) <= -ODD_AUROC:  # a half: only lower ones are odd
                found.append(OddSite(site.name, "labels", here, usual, chance / 2))
                continue
            more, chance = _apart(excess, place)
            if chance * len(sites) < ODD_CHANCE and abs(more) >= ODD_RATE:
                observed = float(self.y[site.rows].mean())
                expected = float(new[site.rows, 1].mean())
                found.append(OddSite(site.name, "rates", observed, expected, chance * len(sites)))
        ordered = sorted(found, key=lambda odd: (odd.kind != "labels", odd.chance))
        return tuple(ordered) if 2 * len(ordered) < len(sites) else ()

    def _area_missed(self, answers: Array, rows: Rows) -> Interval:
        """Return the AUROC in some rows minus the one to expect of such risks: people who are alike have a low one."""
        found, expected = auroc_interval(self.y[rows], answers), expected_auroc(answers[:, 1])
        return Interval(found.value - expected, found.low - expected, found.high - expected)

    def split_sites(self, new: Array, elsewhere: Sequence[Array]) -> dict[str, tuple[Quality, LossSplit]]:
        """Return, for every site, the model at the others, out of fold, and why its loss differs."""
        columns = self.subject.columns
        found: dict[str, tuple[Quality, LossSplit]] = {}
        by_name = {site.name: site for site in self.environments}
        for part, answers in zip(self.rounds, elsewhere, strict=True):
            rest = np.flatnonzero(~np.isnan(answers[:, 0]))
            there = Losses(self.losses(answers[rest], rest), self.y[rest], _scores(answers[rest]), columns[rest])
            quality = self.quality(answers[rest], rest)
            for name in part.names:
                rows = by_name[name].rows
                here = Losses(self.losses(new[rows], rows), self.y[rows], _scores(new[rows]), columns[rows])
                found[name] = quality, split_loss(there, here, generator=self.seeding.generator("split", name))
        return found

    def describe_sites(
        self, new: Array, known: Array, split: Mapping[str, tuple[Quality, LossSplit]]
    ) -> list[SiteDiagnosis]:
        """Return every site's scores and the split of its loss."""
        found = []
        for site in self.environments:
            rows, (elsewhere, parts) = site.rows, split[site.name]
            weights = self._weights(rows)
            shares = np.bincount(self.y[rows], weights, minlength=len(self.classes))
            shares = shares / shares.sum()
            found.append(
                SiteDiagnosis(
                    site.name,
                    len(rows),
                    dict(zip(map(str, self.classes), map(float, shares), strict=True)),
                    elsewhere,
                    self.quality(new[rows], rows),
                    self.quality(known[rows], rows),
                    _interval(self.correct(known[rows], rows) - self.correct(new[rows], rows), weights),
                    parts,
                )
            )
        return found


def effective_rows(weights: Array | None, n_rows: int) -> float:
    """Return the number of equal rows that are worth as much as weighted ones (Kish).

    Examples
    --------
    >>> effective_rows(np.array([1.0, 1.0, 2.0, 0.0]), 4)
    2.6666666666666665
    """
    return float(n_rows) if weights is None else float(weights.sum() ** 2 / (weights**2).sum())


def expected_auroc(risks: Array) -> float:
    """Return the AUROC that risks have where events are as likely as they say (van Klaveren and others, 2016).

    Examples
    --------
    >>> expected_auroc(np.array([0.5, 0.5])), round(expected_auroc(np.array([0.1, 0.9, 0.1, 0.9])), 3)
    (0.5, 0.9)
    """
    levels, places = np.unique(risks, return_inverse=True)
    events = np.bincount(places, risks, minlength=len(levels))
    others = np.bincount(places, 1 - risks, minlength=len(levels))
    pairs = events.sum() * others.sum()
    return float(events @ (np.cumsum(others) - others / 2) / pairs) if pairs else 0.5


def _interval(values: Array, weights: Array | None = None) -> Interval:
    """Return the mean of rows with its 95 % interval; equal values still are uncertain, so one more row is added."""
    mean, n_rows = float(np.average(values, weights=weights)), effective_rows(weights, len(values))
    variance = float(np.average((values - mean) ** 2, weights=weights))
    reach = 1.96 * float(np.sqrt((variance + 1.0 / (n_rows + 1)) / n_rows))
    return Interval(mean, mean - reach, mean + reach)


def _apart(values: Sequence[Interval], place: int) -> tuple[float, float]:
    """Return how far one value is from the mean of the others, and the probability of that or more for one like them.

    The others may differ from one another, so that one of many different ones is not apart.
    """
    means = np.array([value.value for value in values])
    variances = np.maximum([((value.high - value.low) / 3.92) ** 2 for value in values], 1e-12)
    others = np.arange(len(means)) != place
    usual = random_effects(means[others], variances[others])[0]
    chance = chance_of_site(means[place], variances[place], means[others], variances[others])
    return float(means[place] - usual), chance


def _scores(answers: Array) -> Array:
    """Return the log-odds of every class against the first, (n_rows, n_classes - 1)."""
    logs = np.log(np.clip(answers, 1e-3, 1.0))
    return np.asarray(logs[:, 1:] - logs[:, :1])


def _without(columns: Sequence[str]) -> str:
    return f"without {columns[0]}" if len(columns) == 1 else f"without all {len(columns)} odd columns"
