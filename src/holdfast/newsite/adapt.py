"""Adaptation to a new site by its rows without labels.

1. The stable part, a classifier without the columns whose effects may differ, predicts the rows (`adapt`).
2. EM learns from these predictions what each such column says about the label there (`holdfast.newsite.relation`).
3. Guards decide whether that may be used: adapting must have helped at the known sites (`holdfast.newsite.trials`).
4. What the columns say is added to the stable part's log-probabilities, with its class shares (`AdaptedClassifier`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import listed
from holdfast.fitting.calibration import Calibration, class_scores
from holdfast.fitting.estimators import FittedClassifier
from holdfast.fitting.kinds import Estimator, Predictor
from holdfast.newsite.codes import UnstableColumn
from holdfast.newsite.relation import Relation, join, relearn, said_by
from holdfast.newsite.trials import LEAST_ROWS, Relearning, independent
from holdfast.rows.kinds import count_rows
from holdfast.stable.removal import Removal

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

REASONS: Mapping[str, str] = {
    "no_unstable_column": "the model uses no column whose effect may differ much and that the others do not predict",
    "mechanism": "other columns predict {names} within label and site, so EM cannot estimate its effect there",
    "no_gain": "it did not help when each known site was treated as a new one, without its labels",
    "as_known": "these rows do not show that the effect of {names} differs from the known sites",
    "loses": "it raised the log loss in {names} when that known site was treated as a new one, without its labels",
    "few_rows": "it needs at least {least} rows of the site",
    "says_nothing": "the effect of {names} cannot be estimated from these rows",
    "older_model": "the model was saved by an earlier version, which did not store what adapting needs. Fit it again",
    "done": "it is already adapted to a site",
    "too_few_sites": f"no known site has the {LEAST_ROWS} rows that are needed to test it",
}


@dataclass(frozen=True, eq=False)
class Adaptation:
    """Whether a classifier was adapted to a site, and what its unstable columns say there; `str()` says it."""

    adapted: bool
    n_rows: int
    relations: tuple[Relation, ...] = ()
    reason: str = ""  # why it was not adapted: a key of `REASONS`
    about: tuple[str, ...] = ()  # the columns or sites that the reason names
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.answer, *self.sentences, *self.notes])

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the columns say there, where the answer does not say that the rows do not tell it."""
        return tuple(r.sentence for r in self.relations if r.is_told or self.reason != "says_nothing")

    @property
    def answer(self) -> str:
        """Whether it was adapted and why, in one or two sentences."""
        if self.adapted:
            learned = [f"`{relation.name}`" for relation in self.relations if relation.weight > 0]
            if not learned:
                names = listed([f"`{relation.name}`" for relation in self.relations if relation.differs], most=3)
                return f"Adapted to {self.n_rows:,} rows without labels: the classifier now ignores {names}."
            effect = "effect" if len(learned) == 1 else "effects"
            return (
                f"Adapted to {self.n_rows:,} rows without labels: the classifier has learned the {effect} of "
                f"{listed(learned, most=3)} there."
            )
        names = listed([f"`{name}`" if self.reason != "loses" else name for name in self.about], most=3)
        return f"Not adapted: {REASONS[self.reason].format(names=names, least=LEAST_ROWS)}. The model is unchanged."

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


@dataclass(eq=False, repr=False)
class AdaptedClassifier(FittedClassifier):
    """A fitted classifier over class codes that was adapted to one site."""

    estimator: Predictor  # the stable part over class codes: it was fitted without the unstable columns
    removal: Removal  # of those columns
    calibration: Calibration  # from its scores to P(y | rest)
    relations: tuple[Relation, ...]  # what the columns say about the label at the site
    scale: float  # of what the columns add, as was best at the known sites
    correction: Calibration  # keeps the class shares of the stable part

    @property
    def classes_(self) -> Codes:
        """The codes."""
        return np.arange(len(self.calibration.offsets))

    def predict_proba(self, X: Any) -> Array:
        """Return adapted probabilities, (n_rows, n_classes)."""
        scores = class_scores(self.estimator, self.removal.apply(X), len(self.calibration.offsets))
        logs = self.calibration.log_probabilities(scores)
        return self.correction.probabilities(logs + self.scale * said_by(self.relations, X, logs.shape[1]))


def adapt(
    relearning: Relearning, estimator: Estimator, removal: Removal, X: Any, n_classes: int
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
    n_rows, calibration = count_rows(X), relearning.calibration
    if calibration is None or not relearning.columns:
        return None, Adaptation(False, n_rows, reason="no_unstable_column")
    if n_rows < LEAST_ROWS:
        return None, Adaptation(False, n_rows, reason="few_rows")
    logs = calibration.log_probabilities(class_scores(estimator, removal.apply(X), n_classes))
    found, correction = learn(relearning, logs, X)
    if correction is None:
        return None, found
    return AdaptedClassifier(estimator, removal, calibration, found.relations, relearning.scale, correction), found


def learn(relearning: Relearning, logs: Array, X: Any) -> tuple[Adaptation, Calibration | None]:
    """Return what columns say at a site, and the offsets that keep the class shares; None where it was refused.

    Parameters
    ----------
    relearning : Relearning
    logs : array of shape (n_rows, n_classes)
        log P(y | rest) of the stable part.
    X : rows of the site
        With the unstable columns.
    """
    found = tuple(relearn(column, X, np.exp(logs)) for column in relearning.columns)
    relations = independent(relearning, found)
    refusal = relearning.refusal(relations)
    if refusal is not None:
        pairs = zip(relearning.columns, found, strict=True)
        said = tuple(relation for column, relation in pairs if relation.is_told or not column.in_doubt)
        return Adaptation(False, len(logs), said, *refusal), None
    correction = join(logs, said_by(relations, X, logs.shape[1]), relearning.scale)
    return Adaptation(True, len(logs), relations), correction


def ask_again(adapted: AdaptedClassifier, columns: Sequence[UnstableColumn], X: Any) -> Adaptation:
    """Return what columns say about the label in further rows, compared with the rows that it was adapted to."""
    n_rows = count_rows(X)
    scores = class_scores(adapted.estimator, adapted.removal.apply(X), len(adapted.classes_))
    chances = adapted.calibration.probabilities(scores)
    before = {relation.name: relation.right for relation in adapted.relations if relation.weight > 0}
    relations = tuple(
        replace(relearn(column, X, chances), known={"the rows that it was adapted to": before[column.name]})
        for column in columns
        if n_rows >= LEAST_ROWS and column.name in before
    )
    return Adaptation(False, n_rows, relations, "done")
