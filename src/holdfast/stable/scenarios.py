"""What if: accuracy as it is, if the effects of unstable columns vanish, and if they reverse.

Every answer is out of fold. For "vanishes" the columns are shuffled inside each environment; for "reverses" every row
gets the columns of a row with another label of its environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.environments import Rows
from holdfast.fitting.calibration import class_scores
from holdfast.metrics import Interval, auroc
from holdfast.rows.mapped import parts_of
from holdfast.rows.training import TrainingRows
from holdfast.stable.removal import Removal, centered, join_removals, shuffled_partners
from holdfast.stable.verdict import Accuracy

Array = NDArray[np.float64]
USUAL_SPREAD = 0.05  # of accuracies between environments; counts like two environments
WHOLE_SITE, WHOLE_RANKING = 20, 10  # rows, and rows of the rarest label, from which on an environment counts in full


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a mixture: what it does not see, the fits for each fold, and the rows of each fold."""

    removal: Removal
    estimators: Sequence[Any]
    fold_rows: Sequence[Rows]


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Centered scores of every row by every part, out of fold, (n_parts, n_rows, n_classes): as it is, and drawn.

    `doubted` is as `vanished`, with further columns shuffled: those whose effects seem to differ although they are
    kept, and those that nothing shows to be part of a mechanism.
    """

    known: Array
    vanished: tuple[Array, ...]
    reversed: tuple[Array, ...]
    training: TrainingRows
    doubted: tuple[Array, ...] = ()
    asked: dict[tuple[Any, ...], Array] = field(default_factory=dict)  # what was answered already

    def accuracies(self, question: str, weights: Sequence[float]) -> Array:
        """Return the accuracy of a mixture in each environment, (n_environments,)."""
        key = ("accuracies", question, *weights)
        if key not in self.asked:
            self.asked[key] = self._means(self.right(question, weights))
        return self.asked[key]

    def _means(self, values: Array) -> Array:
        """Return the weighted mean of a value for each row in each environment."""
        codes, shares, n = self.training.environment_codes, self.training.weights, len(self.training.environments)
        return np.asarray(np.bincount(codes, shares * values, n) / np.maximum(np.bincount(codes, shares, n), 1e-12))

    def right(self, question: str, weights: Sequence[float]) -> Array:
        """Return for each row in which share of the draws a mixture predicts its label."""
        key = (question, *weights)
        if key not in self.asked:
            predicted = [_largest(scores) for scores in self._mixed(question, weights)]
            self.asked[key] = np.mean([labels == self.training.y for labels in predicted], axis=0)
        return self.asked[key]

    def _mixed(self, question: str, weights: Sequence[float]) -> Iterator[Array]:
        """Return the scores of a mixture, (n_rows, n_classes), for every draw."""
        draws = {
            "known": (self.known,),
            "vanished": self.vanished,
            "reversed": self.reversed,
            "doubted": self.doubted or self.vanished,
        }[question]
        return (np.tensordot(np.asarray(weights), scores, 1) for scores in draws)

    @property
    def _ordinary(self) -> list[float]:
        """The weights of the ordinary classifier, which is the first part."""
        return [1.0] + [0.0] * (len(self.known) - 1)

    def compare(self, question: str, weights: Sequence[float]) -> Accuracy:
        """Return the accuracy of the ordinary classifier and of the mixture."""
        return Accuracy(*(self._average(self.accuracies(question, w)) for w in (self._ordinary, weights)))

    @property
    def _counts(self) -> Array:
        """How much each environment counts: the accuracy of a few rows is luck."""
        sizes = np.array([len(environment) for environment in self.training.environments])
        return np.asarray(np.minimum(sizes / WHOLE_SITE, 1.0))

    def _average(self, values: Array) -> float:
        """Return the mean over environments, small ones counting less."""
        return float(self._counts @ values / self._counts.sum())

    def ranks(self, weights: Sequence[float]) -> dict[str, Accuracy]:
        """Return the AUROC of the ordinary classifier and of the mixture for each question.

        It is the mean over environments with several labels; nothing where there is none.
        """
        rows, y, shares = [e.rows for e in self.training.environments], self.training.y, self.training.weights
        rows = [own for own in rows if len(np.unique(y[own])) > 1]
        rarest = [np.unique(y[own], return_counts=True)[1].min() for own in rows]
        counts = np.minimum(np.array(rarest) / WHOLE_RANKING, 1.0)

        def area(question: str, weights: Sequence[float]) -> float:
            draws = [special.softmax(scores, axis=1) for scores in self._mixed(question, weights)]
            areas = [np.mean([auroc(y[own], p[own], shares[own]) for p in draws]) for own in rows]
            return float(counts @ areas / counts.sum())

        questions = ("known", "vanished", "reversed") if rows else ()
        return {question: Accuracy(area(question, self._ordinary), area(question, weights)) for question in questions}

    def price(self, weights: Sequence[float]) -> Interval:
        """Return the accuracy that a mixture loses at the known environments."""
        lost = self.right("known", self._ordinary) - self.right("known", weights)
        means, codes, shares = self._means(lost), self.training.environment_codes, self.training.weights
        sums = np.maximum(np.bincount(codes, shares), 1e-12)[codes]
        counts = self._counts / self._counts.sum()
        variances = (counts[codes] * shares / sums) ** 2 * (lost - means[codes]) ** 2
        value, error = self._average(means), float(np.sqrt(np.sum(variances)))
        return Interval(value, value - 1.96 * error, value + 1.96 * error)

    def forecast(self, weights: Sequence[float], left_out: Array) -> Interval:
        """Return the accuracy to expect at the next environment (95 %).

        `left_out` are the accuracies in each environment of a classifier that was fitted on the others. The next one
        is drawn like them. There, what is kept of columns whose effects differ may reverse, and what is kept of those
        whose effects seem to differ may be worth nothing.
        """
        questions = ("known", "doubted", "reversed")
        known, *changed = (self._average(self.accuracies(question, weights)) for question in questions)
        elsewhere = self._average(left_out)
        half = next_reach(left_out, self._counts, shift=_shift(self.training, self._counts))
        low, high = min(elsewhere, min(changed) - max(known - elsewhere, 0.0)), max(elsewhere, known)
        return Interval(elsewhere, float(max(low - half, 0.0)), float(min(high + half, 1.0)))


def next_reach(accuracies: Array, counts: Array, *, shift: float = 0.0) -> float:
    """Return how far the next environment's accuracy may lie from the mean of the known ones' (95 %).

    The spread is that of the known environments; before any is seen it is `USUAL_SPREAD`, or as much as the label rates
    differ, and that counts like two environments. `counts` says how much each environment counts; 1 is in full.
    """
    n = float(counts.sum())
    squares = float(counts @ (accuracies - counts @ accuracies / n) ** 2)
    spread = np.sqrt((squares + 2 * (USUAL_SPREAD**2 + shift**2)) / (n + 1))
    return float(float(special.stdtrit(n + 1, 0.975)) * spread * np.sqrt(1 + 1 / n))


def _shift(training: TrainingRows, counts: Array) -> float:
    """Return the standard deviation between environments of the share of the most frequent label."""
    label = np.bincount(training.y, training.weights).argmax()
    shares = np.array(
        [
            np.average(training.y[e.rows] == label, weights=training.weights[e.rows] + 1e-12)
            for e in training.environments
        ]
    )
    mean = counts @ shares / counts.sum()
    return float(np.sqrt(counts @ (shares - mean) ** 2 / counts.sum()))


def try_scenarios(
    parts: Sequence[Part], training: TrainingRows, n_classes: int, *, n_draws: int, doubts: Removal | None = None
) -> Scenarios:
    """Ask every part about every row out of fold: as it is, with the removed columns shuffled, and exchanged.

    `doubts` are columns that are kept, and that may change at the next site.
    """
    removed = join_removals([part.removal for part in parts[-1:]])  # levels are nested: the last removes all
    known = np.stack([ask_out_of_fold(part, training, n_classes) for part in parts])

    def draws(changed: Removal, *, other_label: bool) -> tuple[Array, ...]:
        found = []
        for draw in range(n_draws if len(changed) else 0):
            partners = shuffled_partners(training, other_label=other_label, draw=draw)
            asked = [
                same
                if part.removal.covers(changed)
                else ask_out_of_fold(part, training, n_classes, changed=changed, partners=partners)
                for part, same in zip(parts, known, strict=True)
            ]
            found.append(np.stack(asked))
        return tuple(found) or (known,)

    vanished = draws(removed, other_label=False)
    doubted = draws(join_removals([removed, doubts]), other_label=False) if doubts else ()
    return Scenarios(known, vanished, draws(removed, other_label=True), training, doubted)


def ask_out_of_fold(
    part: Part, training: TrainingRows, n_classes: int, *, changed: Removal | None = None, partners: Rows | None = None
) -> Array:
    """Return the centered scores of one part, some columns exchanged with those of other rows where asked for."""
    scores = np.empty((training.n_rows, n_classes))
    for estimator, rows in zip(part.estimators, part.fold_rows, strict=True):
        if changed is None or partners is None:
            for own, taken in parts_of(training.X, rows):
                scores[own] = class_scores(estimator, part.removal.apply(taken), n_classes)
        else:
            exchanged = changed.exchange(training.X, rows, partners[rows])
            scores[rows] = class_scores(estimator, part.removal.apply(exchanged), n_classes)
    return centered(scores)


def _largest(scores: Array) -> NDArray[np.intp]:
    """Return the class with the largest score; of two, the first where they are equal."""
    return (scores[:, 1] > scores[:, 0]).astype(np.intp) if scores.shape[1] == 2 else scores.argmax(axis=1)
