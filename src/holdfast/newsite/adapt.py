r"""Adaptation without labels: learn at a new site what its unstable columns say about the label.

The *stable part* of a `StableClassifier`, fitted without the unstable columns, gives P(y | rest) for each row. If an
unstable column x is independent of the rest given the label, then at the site

    P(x | rest) = sum over y of P(y | rest) q(x | y),

and EM on rows without labels finds q(x | y). The weights P(y | rest) are known, so the likelihood of a discrete x is
concave in q and has one maximum. Numbers are cut at the site's own quantiles. The adapted classifier is

    P(y | rest, x) ∝ P(y | rest) · q(x | y)^t,    t = max(0, 1 - d / 2L),

where L is the log-likelihood that q gains over "x says nothing" and d its number of free parameters (James and Stein's
shrinkage): a column that says nothing there is ignored. The class shares of the stable part are kept: EM would change
them for the worse more often than not.

Two guards decide whether a classifier may be adapted, both when it is fitted. Each known site plays the new one, left
out of the fit and without its labels, with the columns as they are, shuffled, and exchanged between labels: adapting
must lower the log loss on average, and raise it nowhere. And the column must depend on the label alone within label and
site (`holdfast.stable.hypotheses`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from holdfast.environments import listed, missing_labels, take_rows
from holdfast.fitting.calibration import Calibration, class_scores, log_softmax
from holdfast.newsite.recalibrate import LEAST_PROBABILITY
from holdfast.rows.kinds import is_sparse, is_text
from holdfast.stable.removal import Removal

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

LEAST_GAIN = 0.01  # log loss, in nats for each row, that adapting must save on average, and may cost at no site
MOST_PLAYED, MOST_PLAYED_ROWS = 10, 1000  # known sites that play the new one, and rows of each
LEAST_ROWS = 30  # rows of a site that adapting needs
N_BINS = 6  # of numbers, at the site's quantiles
MOST_LEVELS = 12  # values up to which a number counts as levels; more levels of a category are pooled
PRIOR_ROWS = 2.0  # rows of each class that a column is believed to say nothing with
MOST_STEPS = 500
SCALES = tuple(np.linspace(1.0, 0.0, 11).round(1).tolist())
CONVERGED = 1e-4  # largest change of a share by a step of EM

Reason = Literal[
    "no_unstable_column",
    "mechanism",
    "no_gain",
    "loses",
    "few_rows",
    "says_nothing",
    "too_few_sites",
    "older_model",
    "done",
]
REASONS: Mapping[str, str] = {
    "no_unstable_column": "no column has an effect that differs between the known sites",
    "mechanism": "other columns predict {names} within label and site, so that EM cannot tell what it means there",
    "no_gain": "it did not help at the known sites, when each played the new one without its labels",
    "loses": "at the known site {names} it raised the log loss, when that site played the new one without its labels",
    "few_rows": "it needs at least {least} rows of the site",
    "says_nothing": "these rows do not tell what {names} means there",
    "older_model": "the model was saved by an earlier version, which did not store what adapting needs. Fit it again",
    "done": "it is adapted to a site already",
    "too_few_sites": f"no known site has the {LEAST_ROWS} rows that are needed to try it",
}


@dataclass(frozen=True, eq=False)
class Coding:
    """How the values of an unstable column at one site become codes: levels, bins of numbers, or words present."""

    columns: tuple[int, ...]  # places in X; several are words, of which any may be present
    word: str = ""  # where X is texts
    levels: tuple[str, ...] = ()  # in the order of their codes
    edges: tuple[float, ...] = ()  # of bins; with them there are no levels

    @property
    def n_codes(self) -> int:
        """How many codes there are; the last is for missing values, and levels that are pooled or unknown."""
        return (len(self.edges) + 1 if self.edges else len(self.levels)) + 1

    def encode(self, X: Any) -> Codes:
        """Return the code of each row."""
        values = _values(X, self.columns, self.word)
        missing, last = missing_labels(values), self.n_codes - 1
        if self.edges:
            codes = np.searchsorted(np.asarray(self.edges), np.asarray(values, dtype=np.float64), side="right")
        else:
            place = {level: code for code, level in enumerate(self.levels)}
            texts, places = _distinct(values)
            codes = np.array([place.get(text, last) for text in texts], dtype=np.intp)[places]
        return np.where(missing, last, codes).astype(np.intp)


@dataclass(frozen=True, eq=False)
class UnstableColumn:
    """A column that a classifier does without, and what it says about the label at the known sites."""

    name: str
    columns: tuple[int, ...]
    word: str = ""
    mechanism: float = -np.inf  # log Bayes factor of "part of a mechanism" against "depends on the label alone"
    sides: Mapping[str, int] = field(default_factory=dict)  # level or number of a bin -> class that it speaks for
    right: Mapping[str, float] = field(default_factory=dict)  # known site -> share of rows in which it is right

    def coding(self, X: Any) -> Coding:
        """Return how the values of one site become codes."""
        values = _values(X, self.columns, self.word)
        present = values[~missing_labels(values)]
        if _is_numeric(values):
            numbers = np.asarray(present, dtype=np.float64)
            if len(np.unique(numbers)) > MOST_LEVELS:
                edges = np.unique(np.quantile(numbers, np.arange(1, N_BINS) / N_BINS))
                return Coding(self.columns, self.word, edges=tuple(edges.tolist()))
        texts, places = _distinct(present)
        counts = np.bincount(places, minlength=len(texts))
        frequent = sorted(range(len(texts)), key=lambda place: (-counts[place], texts[place]))[:MOST_LEVELS]
        return Coding(self.columns, self.word, levels=tuple(sorted(texts[place] for place in frequent)))

    def sided(self, coding: Coding) -> Codes:
        """Return for each code of a site the class that it spoke for at the known sites, -1 where that is unknown."""
        names = [f"bin {i}" for i in range(coding.n_codes - 1)] if coding.edges else list(coding.levels)
        return np.array([self.sides.get(name, -1) for name in [*names, "missing"]], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Relation:
    """What a column says about the label at one site."""

    name: str
    coding: Coding
    logs: Array  # (n_codes, n_classes) logarithms of q(x | y), shrunk
    weight: float  # t: 0 where the rows do not tell, 1 where they tell for sure
    right: float = float("nan")  # share of the site's rows in which the column says what it said at the known sites
    error: float = float("nan")  # its standard error
    known: Mapping[str, float] = field(default_factory=dict)  # the same share at each known site

    @property
    def sentence(self) -> str:
        """What the column says there, in words."""
        if self.weight == 0 or not np.isfinite(self.right):
            return f"These rows do not tell what `{self.name}` means there, so it is ignored."
        known = [f"{share:.0%} in {site}" for site, share in list(self.known.items())[:3]]
        than = f"; {listed(known)}" if known else ""
        reach = f" ± {1.96 * self.error:.0%}" if np.isfinite(self.error) else ""
        return f"`{self.name}` agrees with the label in {self.right:.0%}{reach} of these rows (estimated){than}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "column": self.name,
            "weight": self.weight,
            "right": self.right,
            "error": self.error,
            "known": dict(self.known),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class SiteTrial:
    """What adapting did at a known site that played the new one, with an unstable column as it is, or changed."""

    n_rows: int
    learned: float  # log loss saved for each row, compared with the stable part
    error: float  # its standard error
    gain: float  # log loss saved, compared with the whole classifier
    accuracy: float  # adapted
    accuracy_stable: float  # of the stable part

    @property
    def loses(self) -> bool:
        """Whether adapting surely raised the log loss."""
        return self.learned < -max(LEAST_GAIN, 2 * self.error)


@dataclass(frozen=True, eq=False)
class Relearning:
    """What a fitted classifier carries so that it can be adapted; no rows."""

    columns: tuple[UnstableColumn, ...] = ()
    calibration: Calibration | None = None  # of the stable part, at sites that it was not fitted on
    scale: float = 1.0  # of what the columns add to the log-probabilities, as was best at the known sites
    trials: Mapping[str, Mapping[str, SiteTrial]] = field(default_factory=dict)  # scenario -> known site

    @property
    def refusal(self) -> tuple[Reason, tuple[str, ...]] | None:
        """Why this classifier is not adapted at any site, and what that is about; None where it may be."""
        if not self.columns:
            return "no_unstable_column", ()
        if not any(column.mechanism < 0 for column in self.columns):
            return "mechanism", tuple(column.name for column in self.columns)
        if not self.trials:
            return "too_few_sites", ()
        if np.mean([trial.gain for trial in self.trials["known"].values()]) < LEAST_GAIN:
            return "no_gain", ()
        lost = [name for trials in self.trials.values() for name, trial in trials.items() if trial.loses]
        if lost:
            return "loses", tuple(dict.fromkeys(lost))
        return None


@dataclass(frozen=True, eq=False)
class Adaptation:
    """Whether a classifier was adapted to a site, and what its unstable columns mean there; `str()` says it."""

    adapted: bool
    n_rows: int
    relations: tuple[Relation, ...] = ()
    reason: str = ""  # why it was not adapted: a key of `REASONS`
    about: tuple[str, ...] = ()  # the columns or sites that the reason names
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.answer, *(relation.sentence for relation in self.relations), *self.notes])

    @property
    def answer(self) -> str:
        """Whether it was adapted and why, in one or two sentences."""
        if self.adapted:
            learned = [f"`{relation.name}`" for relation in self.relations if relation.weight > 0]
            effect = "effect" if len(learned) == 1 else "effects"
            return (
                f"Adapted to {self.n_rows:,} rows without labels: the classifier has learned the {effect} of "
                f"{listed(learned, most=3)} there."
            )
        names = listed([f"`{name}`" if self.reason != "loses" else name for name in self.about], most=3)
        return f"Not adapted: {REASONS[self.reason].format(names=names, least=LEAST_ROWS)}. It predicts as before."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "text": str(self),
            "adapted": self.adapted,
            "n_rows": self.n_rows,
            "reason": self.reason,
            "about": list(self.about),
            "columns": [relation.to_dict() for relation in self.relations],
            "notes": list(self.notes),
        }


class AdaptedClassifier(ClassifierMixin, BaseEstimator):
    """A fitted classifier over class codes that was adapted to one site.

    Parameters
    ----------
    estimator : fitted classifier over class codes
        It was fitted without the unstable columns.
    removal : Removal
        Those columns.
    calibration : Calibration
        From its scores to P(y | rest).
    relations : tuple of Relation
        What the columns say about the label at the site.
    scale : float
        Of what the columns add, as was best at the known sites.
    correction : Calibration
        Keeps the class shares of the stable part.
    """

    def __init__(
        self,
        estimator: Any,
        removal: Removal,
        calibration: Calibration,
        relations: tuple[Relation, ...],
        scale: float,
        correction: Calibration,
    ) -> None:
        self.estimator = estimator
        self.removal = removal
        self.calibration = calibration
        self.relations = relations
        self.scale = scale
        self.correction = correction

    @property
    def classes_(self) -> Codes:
        """The codes."""
        return np.arange(len(self.calibration.offsets))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> AdaptedClassifier:
        """Return self: the parts are fitted already."""
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return adapted probabilities, (n_rows, n_classes)."""
        scores = class_scores(self.estimator, self.removal.apply(X), len(self.calibration.offsets))
        logs = self.calibration.log_probabilities(scores)
        return self.correction.probabilities(logs + self.scale * said_by(self.relations, X, logs.shape[1]))

    def predict(self, X: Any) -> Codes:
        """Return the most probable codes."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


def relearn(column: UnstableColumn, X: Any, chances: Array) -> Relation:
    """Return what a column says about the label at a site, from rows without labels.

    Parameters
    ----------
    column : UnstableColumn
    X : rows of the site
    chances : array of shape (n_rows, n_classes)
        P(y | rest) of the stable part.

    Examples
    --------
    The rest tells 95 of 100 labels, and the column is the opposite of what it was:

    >>> generator = np.random.default_rng(0)
    >>> y = generator.integers(2, size=2000)
    >>> told = np.where(generator.random(2000) < 0.95, y, 1 - y)
    >>> chances = np.where(np.eye(2)[told] == 1, 0.95, 0.05)
    >>> turned = np.where(generator.random(2000) < 0.1, y, 1 - y)
    >>> column = UnstableColumn("scanner", (0,), sides={"0.0": 0, "1.0": 1})
    >>> relation = relearn(column, turned[:, None].astype(float), chances)
    >>> round(relation.right, 2), round(relation.weight, 2)
    (0.1, 1.0)
    """
    coding = column.coding(X)
    codes, n_codes, n_classes = coding.encode(X), coding.n_codes, chances.shape[1]
    counts = np.bincount(codes, minlength=n_codes).astype(np.float64) + 1e-9
    marginal: Array = counts / counts.sum()
    q, gain = _em(codes, chances, marginal)
    n_free = (n_classes - 1) * (int((marginal > 1e-6).sum()) - 1)
    weight = max(0.0, 1 - n_free / (2 * gain)) if n_free and gain > 0 else 0.0
    logs = weight * (np.log(q) - np.log(marginal)[:, None])
    right, error = _agreement(column.sided(coding), codes, chances, q)
    return Relation(column.name, coding, logs, weight, right, error, column.right)


def _em(codes: Codes, chances: Array, marginal: Array) -> tuple[Array, float]:
    """Return q(x | y), (n_codes, n_classes), and the log-likelihood that it gains over the marginal distribution.

    Every two steps of EM are extended by a third (SQUAREM; Varadhan and Roland 2008), unless that lowers the objective.
    """
    member = np.eye(len(marginal))[codes]  # (n_rows, n_codes)
    prior = PRIOR_ROWS * marginal[:, None]

    def step(q: Array) -> tuple[Array, float]:
        """Return the next q, and the objective at this one."""
        joint = chances * q[codes]
        total = joint.sum(axis=1)
        post = joint / total[:, None]
        after = (member.T @ post + prior) / (post.sum(axis=0) + PRIOR_ROWS)
        return after, float(np.log(total).sum() + (prior * np.log(q)).sum())

    q = (member.T @ chances + prior) / (chances.sum(axis=0) + PRIOR_ROWS)
    for _ in range(MOST_STEPS):
        once, before = step(q)
        if np.abs(once - q).max() < CONVERGED:
            break
        twice, _ = step(once)
        first, bend = once - q, twice - 2 * once + q
        length = np.linalg.norm(first) / max(float(np.linalg.norm(bend)), 1e-300)
        far = q + 2 * length * first + length**2 * bend if length > 1 else twice
        q, value = step(far) if far.min() > 0 else (twice, np.inf)
        if value < before:
            q = twice
    likelihood = float(np.log((chances * q[codes]).sum(axis=1)).sum())
    return q, likelihood - float(np.log(marginal[codes]).sum())


def _agreement(sides: Codes, codes: Codes, chances: Array, q: Array) -> tuple[float, float]:
    """Return in which share of the rows a column speaks for their class, and its standard error.

    The share is the sum over classes of P(y) q(x speaks for y | y). Its error is that of a regression of "x speaks for
    the class" on P(y | rest), which the rows without labels stand for.
    """
    if (sides < 0).all():
        return float("nan"), float("nan")
    shares, n_classes = chances.mean(axis=0), chances.shape[1]
    speaks = np.stack([sides == k for k in range(n_classes)], axis=1)  # (n_codes, n_classes)
    right = float(shares @ (speaks * q).sum(axis=0))
    errors = np.zeros(n_classes)
    for k in range(n_classes):
        x, p = speaks[codes, k].astype(float), chances[:, k]
        about = p - p.mean()
        spread = float(about @ about)
        if spread < 1e-9:
            return right, float("nan")
        slope = float(about @ x) / spread
        rest = x - x.mean() - slope * about
        level = 1 - p.mean()  # at p = 1
        errors[k] = np.sqrt(float(rest @ rest) / max(len(x) - 2, 1) * (1 / len(x) + level**2 / spread))
    return right, float(np.sqrt(((shares * errors) ** 2).sum()))


def said_by(relations: Sequence[Relation], X: Any, n_classes: int) -> Array:
    """Return what columns add to the log-probabilities, (n_rows, n_classes)."""
    total = np.zeros((X.shape[0] if hasattr(X, "shape") else len(X), n_classes))
    for relation in relations:
        if relation.weight > 0:
            total += relation.logs[relation.coding.encode(X)]
    return total


def join(logs: Array, added: Array, scale: float) -> Calibration:
    """Return the offsets after which log P(y | rest) plus what columns add has the class shares of the former."""
    n_rows, n_classes = logs.shape
    shares, offsets = np.exp(logs).mean(axis=0), np.zeros(n_classes)
    total = logs + scale * added
    for _ in range(MOST_STEPS):
        chances = np.exp(log_softmax(total + offsets))
        now = chances.mean(axis=0)
        if np.abs(now - shares).max() < 1e-7:
            break
        # Newton's step; the ridge settles the sum of the offsets, which means nothing
        curvature = np.diag(now) - chances.T @ chances / n_rows + np.eye(n_classes) / 1e4
        offsets += np.clip(np.linalg.solve(curvature, shares - now), -1.0, 1.0)
    return Calibration(1.0, offsets - offsets.mean())


def adapt(
    relearning: Relearning, estimator: Any, removal: Removal, X: Any, n_classes: int
) -> tuple[AdaptedClassifier | None, Adaptation]:
    """Adapt a classifier to a site by rows without labels.

    Parameters
    ----------
    relearning : Relearning
    estimator : fitted classifier over class codes
        The stable part.
    removal : Removal
        The columns that it does without.
    X : rows of the site
    n_classes : int

    Returns
    -------
    AdaptedClassifier or None
        None where it was refused.
    Adaptation
        What was done and why.
    """
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if relearning.calibration is None or not relearning.columns:
        return None, Adaptation(False, n_rows, reason="no_unstable_column")
    relations: tuple[Relation, ...] = ()
    if n_rows >= LEAST_ROWS:
        scores = class_scores(estimator, removal.apply(X), n_classes)
        logs = relearning.calibration.log_probabilities(scores)
        relations = tuple(relearn(column, X, np.exp(logs)) for column in relearning.columns)
    refusal = relearning.refusal
    if refusal is not None:
        return None, Adaptation(False, n_rows, relations, refusal[0], refusal[1])
    if n_rows < LEAST_ROWS:
        return None, Adaptation(False, n_rows, reason="few_rows")
    used = _independent(relearning, relations)
    if all(relation.weight == 0 for relation in used):
        return None, Adaptation(False, n_rows, (), "says_nothing", tuple(relation.name for relation in used))
    correction = join(logs, said_by(used, X, n_classes), relearning.scale)
    adapted = AdaptedClassifier(estimator, removal, relearning.calibration, used, relearning.scale, correction)
    return adapted, Adaptation(True, n_rows, used)


def ask_again(adapted: AdaptedClassifier, columns: Sequence[UnstableColumn], X: Any) -> Adaptation:
    """Return what columns say about the label in further rows, compared with the rows that it was adapted to."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    scores = class_scores(adapted.estimator, adapted.removal.apply(X), len(adapted.classes_))
    chances = adapted.calibration.probabilities(scores)
    before = {relation.name: relation.right for relation in adapted.relations if relation.weight > 0}
    relations = tuple(
        replace(relearn(column, X, chances), known={"the rows that it was adapted to": before[column.name]})
        for column in columns
        if n_rows >= LEAST_ROWS and column.name in before
    )
    return Adaptation(False, n_rows, relations, "done")


def _independent(relearning: Relearning, relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """Return the relations of columns that depend on the label alone; the others are given no weight."""
    return tuple(
        relation if column.mechanism < 0 else replace(relation, weight=0.0)
        for column, relation in zip(relearning.columns, relations, strict=True)
    )


def describe_column(
    column: UnstableColumn, X: Any, y: Codes, sites: Mapping[str, Codes], n_classes: int
) -> UnstableColumn:
    """Return a column with what it says about the label at known sites: for each code the class that it speaks for.

    `sites` are the rows of each. A code speaks for the class that is most frequent with it, compared with the class's
    share, over all sites; each site counts the same.
    """
    lifts: dict[str, Array] = {}
    coded = {}
    for site, rows in sites.items():
        own = take_rows(X, rows)
        coding = column.coding(own)
        codes = coding.encode(own)
        names = [f"bin {i}" for i in range(coding.n_codes - 1)] if coding.edges else list(coding.levels)
        table = np.zeros((coding.n_codes, n_classes))
        np.add.at(table, (codes, y[rows]), 1.0)
        q = (table + 0.5) / (table.sum(axis=0) + 0.5 * coding.n_codes)
        coded[site] = ([*names, "missing"], table)
        for name, row, count in zip(coded[site][0], q, table.sum(axis=1), strict=True):
            lifts[name] = lifts.get(name, np.zeros(n_classes)) + np.log(row / row.mean()) * (count > 0)
    sides = {name: int(lift.argmax()) for name, lift in lifts.items() if lift.any()}
    right = {}
    for site, (names, table) in coded.items():
        side = np.array([sides.get(name, 0) for name in names])
        right[site] = float(table[np.arange(len(names)), side].sum() / max(table.sum(), 1.0))
    return replace(column, sides=sides, right=right)


def try_known_sites(
    columns: Sequence[UnstableColumn],
    X: Any,
    y: Codes,
    sites: Mapping[str, Codes],
    stable: Array,
    before: Array,
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
    stable, before : arrays of shape (n_rows, n_classes)
        Log-probabilities of each row by fits without its site: of the stable part, and of the whole classifier.
    calibration : Calibration
        Of the stable part, to be carried along.
    partners : mapping of scenario to row numbers
        For each row the row whose unstable columns it gets: in "known" itself, in "vanished" any other of its site, in
        "reversed" one with another label.
    """
    n_classes = stable.shape[1]
    described = tuple(describe_column(column, X, y, sites, n_classes) for column in columns)
    bare = Relearning(described, calibration)
    by_size = sorted(sites.items(), key=lambda site: -len(site[1]))[:MOST_PLAYED]
    large = {name: spread_rows(rows, MOST_PLAYED_ROWS) for name, rows in by_size if len(rows) >= LEAST_ROWS}
    if not large or all(column.mechanism >= 0 for column in columns):
        return bare

    def play(scenario: str) -> dict[str, Array]:
        return {name: _play(bare, X, partners[scenario][rows], stable[rows]) for name, rows in large.items()}

    def answers(name: str, added: Array, scale: float) -> Array:
        logs = stable[large[name]]
        return join(logs, added, scale).log_probabilities(logs + scale * added)

    def loss(scale: float) -> float:
        return -sum(float(answers(n, known[n], scale)[np.arange(len(r)), y[r]].sum()) for n, r in large.items())

    known = play("known")
    scale, least = SCALES[0], loss(SCALES[0])
    for smaller in SCALES[1:]:
        if (found := loss(smaller)) >= least:
            break
        scale, least = smaller, found
    tried = replace(bare, scale=scale)
    for scenario in partners:  # "known" comes first; once adapting is refused, no more is tried
        added = known if scenario == "known" else play(scenario)
        trials = {
            name: _trial(y[rows], answers(name, added[name], scale), before[rows], stable[rows])
            for name, rows in large.items()
        }
        tried = replace(tried, trials={**tried.trials, scenario: trials})
        if tried.refusal is not None:
            break
    return tried


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
    return said_by(_independent(relearning, relations), exchanged, logs.shape[1])


def _trial(y: Codes, after: Array, before: Array, stable: Array) -> SiteTrial:
    """Return what adapting did to the rows of one site."""
    rows, floor = np.arange(len(y)), np.log(LEAST_PROBABILITY)
    losses = [-np.maximum(logs[rows, y], floor) for logs in (after, before, stable)]
    learned = losses[2] - losses[0]
    return SiteTrial(
        len(y),
        float(learned.mean()),
        float(learned.std() / np.sqrt(len(y))),
        float((losses[1] - losses[0]).mean()),
        float((after.argmax(axis=1) == y).mean()),
        float((stable.argmax(axis=1) == y).mean()),
    )


def _values(X: Any, columns: tuple[int, ...], word: str) -> NDArray[Any]:
    """Return the values of a column, (n_rows,); of several, or of a word in texts, whether any is present."""
    if is_text(X):
        from holdfast.stable.columns import split_words

        return np.array([float(word in split_words(text)) for text in X])
    if is_sparse(X):
        return np.asarray((abs(X[:, list(columns)]).sum(axis=1) > 0), dtype=np.float64).ravel()
    if len(columns) > 1:
        return np.asarray((np.asarray(X[:, list(columns)]) != 0).any(axis=1), dtype=np.float64)
    if hasattr(X, "columns"):
        return np.asarray(X[X.columns[columns[0]]].to_numpy())
    return np.asarray(X)[:, columns[0]]


def _is_numeric(values: NDArray[Any]) -> bool:
    """Return whether values are numbers."""
    return values.dtype.kind in "fiu"


def _distinct(values: NDArray[Any]) -> tuple[list[str], Codes]:
    """Return the distinct values as texts, numbers in one way of writing, and the place of each row's value in them."""
    if values.dtype.kind in "fiub":
        numbers, places = np.unique(values, return_inverse=True)
        return [str(float(number)) for number in numbers.tolist()], places.astype(np.intp)
    texts = [str(value) for value in values.tolist()]
    found = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return list(found), np.array([found[text] for text in texts], dtype=np.intp)
