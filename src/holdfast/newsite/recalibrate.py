r"""Recalibration: correct a classifier's probabilities for one site with a few labeled rows of that site.

The log-probabilities z of the fitted classifier are mapped to softmax(s·z + b). There are three models of the site:

- *none*: s = 1, b = 0. The probabilities hold there.
- *intercept*: s = 1. The classes are more or less frequent than the features explain.
- *slope and intercept*: the classifier is too sure of itself there, or not sure enough.

The coefficients have normal priors around "nothing changes", s ~ N(1, 0.5²) and b ~ N(0, 1), which shrink them where
rows are few. They are averaged over the models, with weights by the evidence (Laplace approximation of the marginal
likelihood): Bayesian model averaging.

No such map changes the order of the rows. So a ranking that is upside down at the site is said, and not mended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from holdfast.fitting.calibration import LEAST, Calibration, log_softmax
from holdfast.fitting.estimators import FittedClassifier, code_probabilities
from holdfast.fitting.kinds import Predictor
from holdfast.metrics import Interval, auroc_interval

Array = NDArray[np.float64]
Kind = Literal["none", "intercept", "slope and intercept"]
KINDS: tuple[Kind, ...] = ("none", "intercept", "slope and intercept")

SLOPE_SPREAD = 0.5  # standard deviation between sites of the slope, about 1
INTERCEPT_SPREAD = 1.0  # of the intercept of a class, in log-odds, about 0
OPEN = 0.1  # probability from which on more labels are called for to decide about a model
EXCESS = 0.01  # log loss, in nats for each row, that coefficients estimated from enough rows cost on average
ROWS_OF_RAREST = 10  # labeled rows of the rarest class that are enough
LEAST_PROBABILITY = 1e-6  # what is taken for 0 where logarithms are needed
MOST_STEPS = 50


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A correction of probabilities for one site; `str()` says what was done."""

    kind: Kind  # the most probable model
    calibration: Calibration
    n_labels: int  # labeled rows that it was made of
    n_enough: int  # labeled rows that are enough; never more than the site is known to have
    probabilities: Mapping[str, float] = field(default_factory=dict)  # of the three models, given the rows
    auroc: Interval | None = None  # of the labeled rows

    @property
    def is_reversed(self) -> bool:
        """Whether the classifier surely ranks the rows upside down, which no recalibration mends."""
        return self.auroc is not None and self.auroc.high < 0.5

    def __str__(self) -> str:
        rows = f"{self.n_labels:,} labeled row{'s' * (self.n_labels != 1)}"
        if self.auroc is not None and self.is_reversed:
            return (
                f"The ranking is reversed at this site (AUROC {self.auroc.value:.2f}, {rows}). Recalibration cannot "
                "correct this: labels are exchanged there, or the effect of a column is reversed. Check the site, and "
                "adapt the model."
            )
        done = f"Recalibrated with {rows}"
        if self.kind == "none":
            done += "; hardly any correction is needed"
        enough = "This is" if self.n_labels >= self.n_enough else f"About {self.n_enough:,} labeled rows would be"
        return f"{done}. {self.ranking}{enough} enough."

    @property
    def ranking(self) -> str:
        """How well the classifier ranks the labeled rows, in a sentence and a space."""
        if self.auroc is None:
            return ""
        value = f"Their AUROC is {self.auroc.value:.2f} [{self.auroc.low:.2f} to {self.auroc.high:.2f}]"
        if self.auroc.low > 0.5:
            return f"{value}. "
        return f"{value}: the ranking may be no better than chance, which recalibration cannot correct. "

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "kind": self.kind,
            "slope": self.calibration.scale,
            "intercepts": self.calibration.offsets.tolist(),
            "n_labels": self.n_labels,
            "n_enough": self.n_enough,
            "probabilities": dict(self.probabilities),
            "auroc": None if self.auroc is None else self.auroc.to_dict(),
            "is_reversed": self.is_reversed,
        }


def recalibrate(scores: Array, y_codes: NDArray[np.intp], *, n_rows_of_site: int | None = None) -> Recalibration:
    """Return the correction that labeled rows of a site ask for.

    Parameters
    ----------
    scores : array of shape (n_rows, n_classes)
        Log-probabilities of a fitted classifier.
    y_codes : array of shape (n_rows,)
        Class codes.
    n_rows_of_site : int, optional
        How many rows the site has, with or without a label. No more labels than that are called for.

    Examples
    --------
    One row in two is positive where the classifier expects one in five:

    >>> scores = np.log([[0.8, 0.2]] * 100)
    >>> found = recalibrate(scores, np.arange(100) % 2)
    >>> found.kind, found.calibration.probabilities(scores)[0].round(2).tolist()
    ('intercept', [0.51, 0.49])
    """
    n_rows, n_classes = scores.shape
    fits = {kind: _fit(scores, y_codes, kind) for kind in KINDS}
    evidence = np.array([fit.log_evidence for fit in fits.values()])
    shares = np.exp(evidence - evidence.max())
    shares /= shares.sum()
    kind = KINDS[int(np.argmax(shares > shares.max() - 1e-6))]  # the simplest of equals
    calibrations = [fit.calibration for fit in fits.values()]
    offsets = shares @ np.stack([calibration.offsets for calibration in calibrations])
    mean = Calibration(float(shares @ [calibration.scale for calibration in calibrations]), offsets)
    counts = np.bincount(y_codes, minlength=n_classes)
    largest = [name for name, share in zip(KINDS, shares, strict=True) if share >= OPEN][-1]
    n_enough = enough_labels(largest, n_classes, float(counts[counts > 0].min() / n_rows))
    if n_rows_of_site is not None:
        n_enough = min(n_enough, n_rows_of_site)
    probabilities: dict[str, float] = dict(zip(KINDS, shares.tolist(), strict=True))
    area = auroc_interval(y_codes, np.exp(log_softmax(scores))) if (counts > 0).all() else None
    return Recalibration(kind, mean, n_rows, n_enough, probabilities, area)


def enough_labels(kind: Kind, n_classes: int, rarest: float) -> int:
    """Return how many labeled rows are enough, rounded up to tens.

    d coefficients estimated from n rows cost d / 2n of log loss on average, which is to be at most `EXCESS`; and ten
    rows of the rarest class are needed, whose share is `rarest`.

    Examples
    --------
    >>> enough_labels("intercept", 2, 0.4), enough_labels("slope and intercept", 2, 0.4), enough_labels("none", 2, 0.1)
    (50, 100, 100)
    """
    n_coefficients = n_classes - 1 + (kind == "slope and intercept")
    n_rows = max(n_coefficients / (2 * EXCESS), ROWS_OF_RAREST / max(rarest, 1e-9))
    return 10 * math.ceil(round(n_rows / 10, 6))


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fitted model of the site."""

    calibration: Calibration
    log_evidence: float


def _fit(scores: Array, y_codes: NDArray[np.intp], kind: Kind) -> _Fit:
    """Maximize log-likelihood plus log-prior by Newton's steps; the problem is concave."""
    n_rows, n_classes = scores.shape
    centered = scores - scores.mean(axis=1, keepdims=True)
    truth = np.eye(n_classes)[y_codes]
    precision = np.r_[1 / SLOPE_SPREAD**2, np.full(n_classes, 1 / INTERCEPT_SPREAD**2)]
    free = {"none": 0, "intercept": n_classes, "slope and intercept": n_classes + 1}[kind]
    chosen = np.arange(n_classes + 1)[n_classes + 1 - free :]  # the slope comes first
    start = np.r_[1.0, np.zeros(n_classes)]

    def objective(at: Array) -> tuple[float, Array]:
        logs = log_softmax(at[0] * centered + at[1:])
        return float((truth * logs).sum() - 0.5 * precision @ (at - start) ** 2), np.exp(logs)

    at = start.copy()
    value, chances = objective(at)
    information = np.zeros((0, 0))
    for _ in range(MOST_STEPS if free else 0):
        information = _information(centered, chances, precision)[np.ix_(chosen, chosen)]
        rest = truth - chances
        slope = np.r_[(rest * centered).sum(), rest.sum(axis=0)] - precision * (at - start)
        step = np.zeros(n_classes + 1)
        step[chosen] = linalg.solve(information, slope[chosen], assume_a="pos")
        before, length = value, 1.0
        while True:
            value, chances = objective(at + length * step)
            if value >= before - 1e-9 or length < 1e-4:
                break
            length /= 2
        at = at + length * step
        if value - before < 1e-8:
            break
    if free:
        information = _information(centered, chances, precision)[np.ix_(chosen, chosen)]
    evidence = value + 0.5 * float(np.log(precision[chosen]).sum()) - 0.5 * float(np.linalg.slogdet(information)[1])
    offsets = at[1:] - at[1:].mean()
    return _Fit(Calibration(float(max(at[0], LEAST)), offsets), evidence)


def _information(scores: Array, chances: Array, precision: Array) -> Array:
    """Return the negative second derivative by slope and intercepts, (1 + n_classes, 1 + n_classes)."""
    weighted = chances * scores
    means = weighted.sum(axis=1, keepdims=True)
    corner = float((weighted * (scores - means)).sum())
    side = (chances * (scores - means)).sum(axis=0)
    inner = np.diag(chances.sum(axis=0)) - chances.T @ chances
    return np.block([[np.array([[corner]]), side[None, :]], [side[:, None], inner]]) + np.diag(precision)


@dataclass(eq=False, repr=False)
class RecalibratedClassifier(FittedClassifier):
    """A fitted classifier over class codes with probabilities that are corrected for one site."""

    estimator: Predictor
    recalibration: Recalibration

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(len(self.recalibration.calibration.offsets))

    def predict_proba(self, X: Any) -> Array:
        """Return corrected probabilities, (n_rows, n_classes)."""
        calibration = self.recalibration.calibration
        return calibration.probabilities(log_probabilities(self.estimator, X, len(calibration.offsets)))


def log_probabilities(estimator: Predictor, X: Any, n_classes: int) -> Array:
    """Return (n_rows, n_classes) log-probabilities of a fitted classifier over class codes, none below a floor."""
    return np.asarray(np.log(np.maximum(code_probabilities(estimator, X, n_classes), LEAST_PROBABILITY)))
