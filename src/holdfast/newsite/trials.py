"""Try adaptation at each known site in turn, as if it were new.

Each known site is left out of the fit. Its unstable columns are taken as they are (*known*), shuffled (*vanished*), and
exchanged between labels (*reversed*), and the classifier is adapted to it. What that saves or costs in log loss is
weighted like the decision does it: with the probability P that the effect changes, half of it vanishes and half of it
reverses,

    expected = (1 - P) · known + P · (vanished + reversed) / 2.

Compared with the classifier as it is, adapting must be expected to save on average, and to lose at no site. The same
holds compared with the stable part, with the columns as they are: else EM does not find what they say. And the columns
must depend on the label alone within label and site (`holdfast.stable.hypotheses`). At a new site whose rows say that
the effect differs from every known site, P is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.environments import take_rows
from holdfast.fitting.calibration import Calibration
from holdfast.fitting.kinds import Predictor
from holdfast.newsite.codes import UnstableColumn
from holdfast.newsite.recalibrate import LEAST_PROBABILITY
from holdfast.newsite.relation import Relation, join, relearn, said_by
from holdfast.stable.removal import Removal

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Reason = Literal[
    "no_unstable_column",
    "mechanism",
    "no_gain",
    "as_known",
    "loses",
    "few_rows",
    "says_nothing",
    "too_few_sites",
    "older_model",
    "done",
]

LEAST_SAVED = 0.01  # log loss, in nats for each row, that adapting must save on average, and may cost at no site
MECHANISM = 3.0  # log Bayes factor (20 to 1) from which on a column is believed to be part of a mechanism
MOST_PLAYED, MOST_PLAYED_ROWS = 10, 1000  # known sites that play the new one, and rows of each
LEAST_ROWS = 30  # rows of a site that adapting needs
SCALES = tuple(np.linspace(1.0, 0.0, 11).round(1).tolist())


def is_doubtful(probability: float, effect: float) -> bool:
    """Return whether a column that is used may cost so much at a new site that adapting is worth a try.

    That is the log loss which it costs where its effect vanishes or reverses, times the probability of a change.

    Examples
    --------
    >>> is_doubtful(0.05, effect=2.0), is_doubtful(0.05, effect=0.5), is_doubtful(0.001, effect=2.0)
    (True, False, False)
    """
    p = float(special.expit(min(abs(effect), 20.0)))
    lost = [-right * np.log(p) - (1 - right) * np.log1p(-p) - np.log(2) for right in (0.5, 1 - p)]
    return bool(probability * np.mean(lost) >= LEAST_SAVED)


@dataclass(frozen=True)
class SiteTrial:
    """What adapting did at a known site that played the new one, in one scenario."""

    n_rows: int
    learned: float  # log loss saved for each row, compared with the stable part
    error: float  # its standard error
    gain: float  # log loss saved for each row, compared with the whole classifier
    accuracy: float  # adapted
    accuracy_stable: float  # of the stable part
    confidence: float = float("nan")  # adapted: the mean of the largest probability
    gain_error: float = 0.0  # standard error of the gain


@dataclass(frozen=True, eq=False)
class Relearning:
    """What a fitted classifier carries so that it can be adapted; no rows."""

    columns: tuple[UnstableColumn, ...] = ()
    calibration: Calibration | None = None  # of the stable part, at sites that it was not fitted on
    scale: float = 1.0  # of what the columns add to the log-probabilities, as was best at the known sites
    trials: Mapping[str, Mapping[str, SiteTrial]] = field(default_factory=dict)  # scenario -> known site
    estimator: Predictor | None = None  # the stable part; None: it is the last part of the mixture
    removal: Removal = field(default_factory=Removal)  # of the stable part

    @property
    def expected(self) -> dict[str, float]:
        """The scenarios of a new site of which nothing is known, each with its probability."""
        change = 1.0 - float(np.prod([1.0 - column.change for column in self.columns]))
        return {"known": 1 - change, "vanished": change / 2, "reversed": change / 2}

    @property
    def forecasts(self) -> list[tuple[float, float, int]]:
        """For each known site and scenario the forecast of the adapted accuracy, the accuracy, and the rows."""
        tried = [trial for of in self.trials.values() for trial in of.values() if np.isfinite(trial.confidence)]
        return [(trial.confidence, trial.accuracy, trial.n_rows) for trial in tried]

    def refusal(self, relations: Sequence[Relation] = ()) -> tuple[Reason, tuple[str, ...]] | None:
        """Return why this classifier is not adapted to a site, and what that is about; None where it may be."""
        names = tuple(column.name for column in self.columns)
        if not self.columns:
            return "no_unstable_column", ()
        if all(column.mechanism >= MECHANISM for column in self.columns):
            return "mechanism", names
        if not self.trials:
            return "too_few_sites", ()
        vanished = not any(relation.weight > 0 for relation in relations)
        changed = {"vanished": 1.0} if vanished else {"vanished": 0.5, "reversed": 0.5}
        differs = any(relation.differs for relation in relations)
        refused = self._refusal(changed if differs else self.expected)
        if relations and vanished and (refused is not None or not differs):
            return "says_nothing", names
        if refused is not None and not differs and self._refusal(changed) is None:
            return "as_known", names
        return refused

    def _refusal(self, scenarios: Mapping[str, float]) -> tuple[Reason, tuple[str, ...]] | None:
        """Return whether adapting loses at a known site, or does not gain, in scenarios with their probabilities."""
        known = self.trials["known"]
        tried = [(share, self.trials[name]) for name, share in scenarios.items() if name in self.trials]
        gains = {site: sum(share * of[site].gain for share, of in tried) for site in known}
        errors = {site: np.sqrt(sum((share * of[site].gain_error) ** 2 for share, of in tried)) for site in known}
        lost = [
            site
            for site, trial in known.items()
            if trial.learned < -max(LEAST_SAVED, 2 * trial.error) or gains[site] < -max(LEAST_SAVED, 2 * errors[site])
        ]
        if lost:
            return "loses", tuple(lost)
        least = min(np.mean([trial.learned for trial in known.values()]), np.mean(list(gains.values())))
        return ("no_gain", ()) if least < LEAST_SAVED else None


def independent(relearning: Relearning, relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """Return the relations of the columns that depend on the label alone."""
    pairs = zip(relearning.columns, relations, strict=True)
    return tuple(relation for column, relation in pairs if column.mechanism < MECHANISM)


def try_known_sites(
    columns: Sequence[UnstableColumn],
    X: Any,
    y: Codes,
    sites: Mapping[str, Codes],
    stable: Array,
    before: Mapping[str, Array],
    calibration: Calibration,
    partners: Mapping[str, Codes],
) -> Relearning:
    """Let each known site play the new one, without its labels, and measure what adapting does there.

    Parameters
    ----------
    columns : sequence of UnstableColumn
    X : all rows
    y : array of shape (n_rows,)
        Class codes.
    sites : mapping of name to row numbers
    stable : array of shape (n_rows, n_classes)
        Log-probabilities of each row, by the stable part fitted without its site.
    before : mapping of scenario to arrays of shape (n_rows, n_classes)
        The same by the whole classifier.
    calibration : Calibration
        Of the stable part, to be carried along.
    partners : mapping of scenario to row numbers
        For each row the row whose unstable columns it gets: in "known" itself, in "vanished" any other of its site, in
        "reversed" one with another label.
    """
    n_classes = stable.shape[1]
    bare = Relearning(tuple(column.described(X, y, sites, n_classes) for column in columns), calibration)
    by_size = sorted(sites.items(), key=lambda site: -len(site[1]))[:MOST_PLAYED]
    large = {name: spread_rows(rows, MOST_PLAYED_ROWS) for name, rows in by_size if len(rows) >= LEAST_ROWS}
    if not large or all(column.mechanism >= MECHANISM for column in columns):
        return bare
    added = {
        scenario: {name: _play(bare, X, rows_of[rows], stable[rows]) for name, rows in large.items()}
        for scenario, rows_of in partners.items()
    }

    def answers(scenario: str, name: str, scale: float) -> Array:
        logs, more = stable[large[name]], added[scenario][name]
        return join(logs, more, scale).log_probabilities(logs + scale * more)

    def loss(scale: float) -> float:
        return -sum(float(answers("known", n, scale)[np.arange(len(r)), y[r]].sum()) for n, r in large.items())

    scale, least = SCALES[0], loss(SCALES[0])
    for smaller in SCALES[1:]:
        if (found := loss(smaller)) >= least:
            break
        scale, least = smaller, found
    trials = {
        scenario: {
            name: _trial(y[rows], answers(scenario, name, scale), before[scenario][rows], stable[rows])
            for name, rows in large.items()
        }
        for scenario in partners
    }
    return replace(bare, scale=scale, trials=trials)


def play_partners(y: Codes, sites: Mapping[str, Codes]) -> dict[str, Codes]:
    """Return for each row the row whose unstable columns it gets when its site plays a new one, for each scenario."""
    generator = np.random.default_rng(0)
    vanished, reversed_ = np.arange(len(y)), np.arange(len(y))
    for rows in sites.values():
        vanished[rows] = generator.permutation(rows)
        for code in np.unique(y[rows]):
            own, others = rows[y[rows] == code], rows[y[rows] != code]
            if len(others):
                reversed_[own] = generator.choice(others, len(own))
    return {"known": np.arange(len(y)), "vanished": vanished, "reversed": reversed_}


def spread_rows(rows: Codes, most: int) -> Codes:
    """Return at most so many rows of a site, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.intp))]


def _play(relearning: Relearning, X: Any, partners: Codes, logs: Array) -> Array:
    """Return what the columns add at a site, (n_rows, n_classes), whose rows get the columns of their partners."""
    exchanged = take_rows(X, partners)
    relations = [relearn(column, exchanged, np.exp(logs)) for column in relearning.columns]
    return said_by(independent(relearning, relations), exchanged, logs.shape[1])


def _trial(y: Codes, after: Array, before: Array, stable: Array) -> SiteTrial:
    """Return what adapting did to the rows of one site."""
    rows, floor = np.arange(len(y)), np.log(LEAST_PROBABILITY)
    losses = [-np.maximum(logs[rows, y], floor) for logs in (after, before, stable)]
    learned, gain = losses[2] - losses[0], losses[1] - losses[0]
    return SiteTrial(
        len(y),
        float(learned.mean()),
        float(learned.std() / np.sqrt(len(y))),
        float(gain.mean()),
        float((after.argmax(axis=1) == y).mean()),
        float((stable.argmax(axis=1) == y).mean()),
        float(np.exp(after.max(axis=1)).mean()),
        float(gain.std() / np.sqrt(len(y))),
    )
