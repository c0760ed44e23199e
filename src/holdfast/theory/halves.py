"""The two halves of a judged environment, exactly: Proposition 1, its hard form, and what the soft halves isolate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from holdfast.exceptions import ParameterError
from holdfast.theory.joints import Floats, Joint, log_odds, toy

Halves = Literal["soft", "hard", "complement"]


def partition(judge: Joint, judged: Joint, *, halves: Halves = "soft") -> tuple[Floats, Joint, Joint]:
    """Cut `judged` by what `judge`'s ideal classifier P_i(y | x) gets right and wrong.

    Parameters
    ----------
    judge, judged : Joint
        Two environments over the same values.
    halves : {"soft", "hard", "complement"}
        "soft" is Proposition 1: a row is correct with weight P_i(y | x) and mistaken with weight 1 − P_i(y | x); for
        more than two classes the mistaken weight is h(x)/P_i(y | x) (`inverse_weights`), as in stage 2, which keeps
        the cancellation of log-odds. "complement" has 1 − P_i(y | x) for any number of classes, which keeps
        α·correct + (1 − α)·mistaken = judged instead. "hard" predicts the most probable label (equally probable ones
        share).

    Returns
    -------
    alpha : float64 (or one for each distribution)
        Share of the judged environment that is correct.
    correct, mistaken : Joint
        The halves. An empty half is all zero.

    Examples
    --------
    >>> from holdfast.theory import toy
    >>> alpha, correct, mistaken = partition(toy(0.0), toy(0.1))
    >>> alpha.round(3), correct.correlation().round(3), mistaken.correlation().round(3)
    (np.float64(0.9), np.float64(1.0), np.float64(-1.0))
    """
    if halves not in get_args(Halves):
        raise ParameterError(f"The 'halves' parameter of partition must be one of {get_args(Halves)}. Got {halves!r}.")
    if judge.array.shape[-3:] != judged.array.shape[-3:]:
        raise ParameterError(
            f"judge and judged must be distributions over the same values. "
            f"Got shapes {judge.array.shape[-3:]} and {judged.array.shape[-3:]}."
        )
    right = judge.conditional()
    if halves == "hard":
        best = np.isclose(right, right.max(axis=-1, keepdims=True), rtol=0, atol=1e-12)
        right = best / best.sum(axis=-1, keepdims=True)
    alpha, correct = judged.reweighted(right)
    several = halves == "soft" and judged.n_classes > 2
    _, mistaken = judged.reweighted(inverse_weights(right) if several else 1.0 - right)
    return alpha, correct, mistaken


def inverse_weights(chances: ArrayLike) -> Floats:
    """Return h(x)/P(y | x) with h(x) = 1/Σ_c 1/P(c | x), along the last axis; for two classes this is 1 − P(y | x).

    A label of probability 0 takes all the weight (several share it), which is the limit.

    Examples
    --------
    >>> inverse_weights([0.2, 0.8])
    array([0.8, 0.2])
    >>> inverse_weights([0.5, 0.25, 0.25])
    array([0.2, 0.4, 0.4])
    >>> inverse_weights([1.0, 0.0, 0.0])
    array([0. , 0.5, 0.5])
    """
    given = np.asarray(chances, dtype=np.float64)
    impossible = given == 0
    reciprocal = np.where(impossible.any(axis=-1, keepdims=True), impossible, 1.0 / np.where(impossible, 1.0, given))
    weights: Floats = reciprocal / reciprocal.sum(axis=-1, keepdims=True)
    return weights


def mistaken_log_odds(judge: Joint, judged: Joint, label: int = 1, against: int = 0) -> Floats:
    """Return the log-odds inside the mistaken half without building it: those of judged minus those of judge.

    Whatever the two environments share cancels. If x1 and x2 are independent given y and P(x1, y) is shared, what is
    left depends on x2 alone; if P(y | x) is shared, it is 0 everywhere and every covariance in the half is 0.
    """
    difference: Floats = log_odds(judged, label, against) - log_odds(judge, label, against)
    return difference


def extrapolate(judge: Joint, judged: Joint, strength: float) -> Floats:
    """Return the classifier f_a(y | x) ∝ P_j(y | x)·(P_j(y | x)/P_i(y | x))^a, (..., n_x1, n_x2, n_classes).

    Stage 1 is all it needs: a = 0 is the judged environment's own classifier, and growing a walks from it away from
    the judge's. Both conditionals must be positive.
    """
    ours, theirs = judged.conditional(), judge.conditional()
    if (ours == 0).any() or (theirs == 0).any():
        raise ParameterError(
            "extrapolate needs P(y | x) > 0 in both environments, but some label is impossible for some x."
        )
    scores = (1 + strength) * np.log(ours) - strength * np.log(theirs)
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    classifier: Floats = odds / odds.sum(axis=-1, keepdims=True)
    return classifier


def log_odds_ratio(joint: Joint) -> Floats:
    """Return log P(x2=1|y=1)P(x2=0|y=0) / P(x2=0|y=1)P(x2=1|y=0), for a binary x2 and two classes."""
    table = joint.array.sum(axis=-3)  # (..., x2, y)
    if table.shape[-2:] != (2, 2):
        raise ParameterError(f"log_odds_ratio needs a binary x2 and two classes. Got a table of {table.shape[-2:]}.")
    with np.errstate(divide="ignore"):
        logs = np.log(table)
    ratio: Floats = logs[..., 1, 1] + logs[..., 0, 0] - logs[..., 0, 1] - logs[..., 1, 0]
    return ratio


def vanishing_strength(judge: Joint, judged: Joint) -> Floats:
    """Return the a at which `extrapolate` no longer depends on x2: a = ω_j/(ω_i − ω_j), ω the log odds ratio of x2.

    For a binary x2, two classes, and x1 independent of x2 given y. It is not negative exactly when the judge has the
    stronger correlation of the same sign; NaN when both have the same one (there is nothing to extrapolate).
    """
    judge_ratio, judged_ratio = log_odds_ratio(judge), log_odds_ratio(judged)
    difference = judge_ratio - judged_ratio
    strength: Floats = np.where(difference != 0, judged_ratio / np.where(difference != 0, difference, 1.0), np.nan)[()]
    return strength


def oracle_weight(correct: Joint, mistaken: Joint, label: int = 1) -> Floats:
    """Return the λ in [0, 1] at which λ·correct + (1 − λ)·mistaken has no correlation between x2 and the label.

    The covariance of the interpolation is a quadratic in λ, linear when both halves have the same label marginal; its
    root is found to the last bit. NaN where both halves have the same sign: they do not enclose the oracle.
    """
    at_mistaken, at_correct = mistaken.covariance(label), correct.covariance(label)
    means = [np.einsum("...xzy,z->...", half.array, half.values) for half in (correct, mistaken)]
    shares = [half.label_marginal()[..., label] for half in (correct, mistaken)]
    # Cov(λ) = λ·Cov✓ + (1 − λ)·Cov× + λ(1 − λ)·bend: the two halves' centers differ.
    bend = (means[0] - means[1]) * (shares[0] - shares[1])
    low, high = np.zeros(np.shape(at_correct)), np.ones(np.shape(at_correct))

    def covariance(weight: Floats) -> Floats:
        value: Floats = weight * at_correct + (1 - weight) * at_mistaken + weight * (1 - weight) * bend
        return value

    with np.errstate(invalid="ignore"):
        bracketed = at_correct * at_mistaken <= 0
        rising = at_correct >= at_mistaken
        for _ in range(60):  # bisection to the last bit, for all distributions at once
            middle = (low + high) / 2
            left = (covariance(middle) >= 0) == rising
            low, high = np.where(left, low, middle), np.where(left, middle, high)
    weight: Floats = np.where(bracketed, (low + high) / 2, np.nan)[()]
    return weight


@dataclass(frozen=True, eq=False)
class HalfCurves:
    """Correlation of x2 and y in each half, and the oracle's interpolation weight, for a range of η.

    Every array has an entry for each η; NaN where a half is empty or no interpolation is the oracle.
    """

    judge_eta: float  # η1 of the judge
    judged_eta: float  # the chosen η2, among `eta`
    noise: float
    eta: Floats  # η of the judged environment
    alpha: dict[str, Floats]  # "soft", "hard": share that the judge gets right
    judged: Floats  # correlation in the whole judged environment
    correct: dict[str, Floats]  # "soft", "hard"
    mistaken: dict[str, Floats]  # "soft", "hard"
    oracle: dict[str, Floats]  # "soft", "hard": the λ of λ·correct + (1 − λ)·mistaken

    def rows(self) -> list[dict[str, float]]:
        """Return one flat row for each η, for a table or a CSV file."""
        columns: dict[str, Floats] = {"eta": self.eta, "judged": self.judged}
        for name in ("alpha", "correct", "mistaken", "oracle"):
            columns |= {f"{name}_{kind}": values for kind, values in getattr(self, name).items()}
        return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def half_curves(eta1: float, eta2: float, noise: float = 0.2, *, etas: ArrayLike | None = None) -> HalfCurves:
    """Return what the judge E1 does to a judged environment, for η from 0 to 1.

    Parameters
    ----------
    eta1 : float
        Probability that x2 differs from y in the judge's environment.
    eta2 : float
        The same in the judged environment of interest; it is put among the η of the curves.
    noise : float
        Probability that y differs from the stable feature x1.
    etas : array-like, optional
        Where the curves are evaluated; 201 equal steps by default.
    """
    grid = np.linspace(0.0, 1.0, 201) if etas is None else np.atleast_1d(np.asarray(etas, dtype=np.float64))
    if grid.ndim != 1 or not ((grid >= 0) & (grid <= 1)).all():
        raise ParameterError("The 'etas' parameter of half_curves must be a list of numbers in [0, 1].")
    grid = np.union1d(grid, [float(eta2)])
    judge = toy(eta1, noise)
    judged = Joint(np.stack([toy(float(eta), noise).array for eta in grid]))
    cut = {"soft": partition(judge, judged, halves="soft"), "hard": partition(judge, judged, halves="hard")}
    return HalfCurves(
        judge_eta=float(eta1),
        judged_eta=float(eta2),
        noise=float(noise),
        eta=grid,
        alpha={kind: alpha for kind, (alpha, _, _) in cut.items()},
        judged=judged.correlation(),
        correct={kind: correct.correlation() for kind, (_, correct, _) in cut.items()},
        mistaken={kind: mistaken.correlation() for kind, (_, _, mistaken) in cut.items()},
        oracle={kind: oracle_weight(correct, mistaken) for kind, (_, correct, mistaken) in cut.items()},
    )
