"""Adapt `PIClassifier` to a new site without labels: for networks and other inputs without columns.

The judges, which were each fitted on one environment, read what is unstable; the final classifier does without it. So
the class that the judges vote for is treated like an unstable column, and the final classifier like the stable part
(`holdfast.newsite.adapt`). The stable part is calibrated where the judges are right by chance: rows of known sites are
weighted so that the votes say nothing about the label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from holdfast.environments import PerRow, listed, split_environments
from holdfast.exceptions import LabelsError, ParameterError
from holdfast.fitting.calibration import Calibration, calibrate
from holdfast.fitting.estimators import FittedParts, code_probabilities
from holdfast.fitting.kinds import Predictor
from holdfast.newsite.adapt import Adaptation, learn
from holdfast.newsite.codes import UnstableColumn
from holdfast.newsite.recalibrate import LEAST_PROBABILITY
from holdfast.newsite.relation import Relation, said_by
from holdfast.newsite.trials import LEAST_ROWS, play_partners, try_known_sites

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
MOST_SHARED = 0.1  # R² within label and site between votes and the stable part, from which on they are not independent
VOTES = "the judges' vote"


class Judged(Protocol):
    """What `PIClassifier` has once it is fitted."""

    classes_: NDArray[Any]
    environment_classifiers_: dict[Any, Any]

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of shape (n_rows, n_classes)."""


class SiteAdapter(BaseEstimator):
    """Prepare a fitted `PIClassifier` so that it can be adapted to new sites by rows without labels.

    Parameters
    ----------
    classifier : fitted PIClassifier
        Around a network, or any other estimator.

    Attributes
    ----------
    relearning_ : Relearning
        The guards, and the calibration of the final classifier.

    Examples
    --------
    >>> from holdfast import PIClassifier
    >>> generator = np.random.default_rng(0)
    >>> def site(n, agreement):
    ...     y = generator.integers(2, size=n)
    ...     stable, color = (np.where(generator.random(n) < p, y, 1 - y) for p in (0.75, agreement))
    ...     return np.column_stack([stable, color]), y
    >>> parts = [site(2000, 0.95), site(2000, 0.8)]
    >>> X, y = np.vstack([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    >>> sites = np.repeat(["A", "B"], 2000)
    >>> model = PIClassifier().fit(X[::2], y[::2], environments=sites[::2])
    >>> adapter = SiteAdapter(model).fit(X[1::2], y[1::2], environments=sites[1::2])
    >>> rows, truth = site(1000, 0.1)
    >>> adapted = adapter.adapt(rows)
    >>> float(np.mean(model.predict(rows) == truth)) < 0.78, float(np.mean(adapted.predict(rows) == truth)) > 0.87
    (True, True)
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: PerRow, *, environments: PerRow) -> SiteAdapter:
        """Calibrate the final classifier, and try adapting at each known site.

        Parameters
        ----------
        X : rows of the known sites
            Best those that the classifier was not trained on: on its own rows a network is too sure of itself.
        y : labels of shape (n_rows,)
        environments : labels of shape (n_rows,)
        """
        model = self._judged()
        labels = np.asarray(y)
        unknown = sorted(set(labels.tolist()) - set(model.classes_.tolist()), key=str)
        if unknown:
            raise LabelsError(
                f"y has the label {unknown[0]!r}, which the classifier does not know. It knows "
                f"{listed(list(map(str, model.classes_)))}."
            )
        codes = np.searchsorted(model.classes_, labels).astype(np.intp)
        sites = {site.name: site.rows for site in split_environments(environments, len(codes))}
        scores, votes = _scores(model, X), np.empty(len(codes), dtype=np.intp)
        chances = {name: judge_chances(judge, X, len(model.classes_)) for name, judge in self._judges().items()}
        weights = np.ones(len(codes))
        for name, rows in sites.items():  # a site's own judge has seen it
            others = [found for judge, found in chances.items() if str(judge) != name or len(chances) == 1]
            votes[rows] = np.mean(others, axis=0)[rows].argmax(axis=1)
            weights[rows] = _chance_weights(votes[rows], codes[rows], len(model.classes_))
        calibration = calibrate(scores, codes, weights)
        logs = calibration.log_probabilities(scores)
        shared = _shared(votes, logs, codes, sites)
        column = UnstableColumn(VOTES, (0,), mechanism=np.inf if shared >= MOST_SHARED else -np.inf)
        partners, table = play_partners(codes, sites), votes[:, None].astype(float)
        before = dict.fromkeys(partners, logs)
        self.relearning_ = try_known_sites([column], table, codes, sites, logs, before, calibration, partners)
        return self

    def adapt(self, X: Any) -> JudgedClassifier:
        """Return a classifier for one site, from rows of it without labels; 300 or more are a good number.

        Where the guards refuse, it predicts as before. Its `adaptation_` says what was done and why.
        """
        check_is_fitted(self)
        model, relearning = self._judged(), self.relearning_
        calibration = relearning.calibration
        assert calibration is not None
        logs = calibration.log_probabilities(_scores(model, X))
        n_rows, n_classes = logs.shape
        found, correction = Adaptation(False, n_rows, reason="few_rows"), None
        if n_rows >= LEAST_ROWS:
            votes = judge_votes(list(self._judges().values()), X, n_classes)[:, None].astype(float)
            found, correction = learn(relearning, logs, votes)
        if correction is None:
            return JudgedClassifier(model, calibration, (), 1.0, Calibration(1.0, np.zeros(n_classes)), found)
        return JudgedClassifier(model, calibration, found.relations, relearning.scale, correction, found)

    def _judged(self) -> Judged:
        """Return the classifier; refuse one without judges."""
        if not getattr(self.classifier, "environment_classifiers_", None):
            raise ParameterError(
                "SiteAdapter needs a fitted PIClassifier with one judge for each environment. Got "
                f"{type(self.classifier).__name__}. Fit PIClassifier with environments=; a StableClassifier has its "
                "own adapt."
            )
        model: Judged = self.classifier
        return model

    def _judges(self) -> dict[Any, Any]:
        return dict(self._judged().environment_classifiers_)


@dataclass(eq=False, repr=False)
class JudgedClassifier(ClassifierMixin, FittedParts):
    """A `PIClassifier` that was adapted to one site."""

    classifier: Judged
    calibration: Calibration  # from its scores to probabilities
    relations: tuple[Relation, ...]  # what the judges' vote says about the label at the site; empty: not adapted
    scale: float  # of what the vote adds, as was best at the known sites
    correction: Calibration  # keeps the class shares of the classifier
    adaptation_: Adaptation  # what was done and why

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        return np.asarray(self.classifier.classes_)

    def predict_proba(self, X: Any) -> Array:
        """Return adapted probabilities, (n_rows, n_classes)."""
        if not self.relations:
            return np.asarray(self.classifier.predict_proba(X))
        logs = self.calibration.log_probabilities(_scores(self.classifier, X))
        votes = judge_votes(list(self.classifier.environment_classifiers_.values()), X, logs.shape[1])
        added = said_by(self.relations, votes[:, None].astype(float), logs.shape[1])
        return self.correction.probabilities(logs + self.scale * added)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable labels."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


def judge_chances(judge: Predictor, X: Any, n_classes: int) -> Array:
    """Return the probabilities that a judge gives, (n_rows, n_classes)."""
    return np.asarray(code_probabilities(judge, X, n_classes))


def judge_votes(judges: list[Predictor], X: Any, n_classes: int) -> Codes:
    """Return for each row the class that the judges vote for."""
    return np.asarray(np.mean([judge_chances(judge, X, n_classes) for judge in judges], axis=0).argmax(axis=1))


def _scores(model: Judged, X: Any) -> Array:
    """Return log-probabilities of the final classifier."""
    return np.asarray(np.log(np.maximum(model.predict_proba(X), LEAST_PROBABILITY)))


def _chance_weights(votes: Codes, codes: Codes, n_classes: int) -> Array:
    """Return weights of a site's rows with which the votes are right by chance, 1 / n_classes, in every class."""
    weights = np.zeros(len(codes))
    for code in np.unique(codes):
        own = codes == code
        for right, share in ((True, 1 / n_classes), (False, 1 - 1 / n_classes)):
            chosen = own & ((votes == code) == right)
            if chosen.any():
                weights[chosen] = share * own.sum() / chosen.sum()
    return weights


def _shared(votes: Codes, logs: Array, codes: Codes, sites: dict[str, Codes]) -> float:
    """Return the share of the votes' variance within label and site that the stable part explains."""
    explained = total = 0.0
    for rows in sites.values():
        for code in np.unique(codes[rows]):
            own = rows[codes[rows] == code]
            right = (votes[own] == code).astype(float)
            about = right - right.mean()
            score = logs[own, code] - logs[own, code].mean()
            total += float(about @ about)
            if (spread := float(score @ score)) > 0:
                explained += float(about @ score) ** 2 / spread
    return explained / total if total > 0 else 0.0
