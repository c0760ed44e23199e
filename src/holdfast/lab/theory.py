"""The mathematics of the method on exact distributions over (x1, x2, y): no sampling, no training.

`Joint` is a table of probabilities of a stable feature x1, an unstable feature x2 and a label y. `partition` cuts one
environment by another one's ideal classifier (Proposition 1), `theorem1` and `theorem2_bounds` evaluate the theorems,
and `minimize_worst_case_risk` solves stage 3 with a certificate.

i is the judge and j the judged environment. Both theorems are about Cov(X2, Y) in the mistaken halves P_j^{i×} and
P_i^{j×}, with labels uniform in every environment and in every half. The optimum: with the log loss, min_f max_g R_g(f)
= max_λ H(Y | X) under the interpolation Σ λ_g·P_g, since the order of min and max may be exchanged and for given λ the
best classifier is the interpolation's own conditional. The dual is a concave function of a few weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.exceptions import ParameterError
from holdfast.reports.values import Curves, Line

Floats = NDArray[np.float64]
CELLS = (-3, -2, -1)  # the axes x1, x2, y; any axes before them count distributions


@dataclass(frozen=True, eq=False)
class Joint:
    """A distribution over (x1, x2, y), or many of the same shape at once.

    Parameters
    ----------
    array : array-like of shape (n_x1, n_x2, n_classes) or (..., n_x1, n_x2, n_classes)
        Probabilities; each table sums to one. Leading axes are for many distributions at once; every result keeps them.
    x2_values : array-like of shape (n_x2,), optional
        The number that each value of x2 stands for in a covariance; 0, 1, 2, … by default.

    Examples
    --------
    >>> Joint([[[0.4, 0.0], [0.1, 0.0]], [[0.0, 0.1], [0.0, 0.4]]]).covariance().round(3)
    np.float64(0.15)
    """

    array: Floats
    x2_values: Floats | None = None

    def __post_init__(self) -> None:
        array = np.array(self.array, dtype=np.float64)
        if array.ndim < 3 or array.shape[-1] < 2 or 0 in array.shape:
            raise ParameterError(
                "The 'array' parameter of Joint must have shape (n_x1, n_x2, n_classes) with at least two classes. "
                f"Got shape {array.shape} instead."
            )
        if not np.isfinite(array).all() or (array < 0).any():
            raise ParameterError("The 'array' parameter of Joint must be finite probabilities, not negative ones.")
        if not np.allclose(totals := array.sum(axis=CELLS), 1.0, rtol=0, atol=1e-9):
            raise ParameterError(
                f"The 'array' parameter of Joint must sum to one. Got {np.ravel(totals)[0]:.6g} instead; "
                "divide it by its sum."
            )
        values = np.arange(array.shape[-2]) if self.x2_values is None else self.x2_values
        values = np.array(values, dtype=np.float64)
        if values.shape != (array.shape[-2],):
            raise ParameterError(
                f"The 'x2_values' parameter of Joint must have one number for each of the {array.shape[-2]} values "
                f"of x2. Got shape {values.shape} instead."
            )
        self._store(array, values)

    def _store(self, array: Floats, values: Floats) -> None:
        for name, value in (("array", array), ("x2_values", values)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    def reweighted(self, weights: ArrayLike) -> tuple[Floats, Joint]:
        """Multiply each cell by a weight; return the mass that is left, and the distribution of it.

        Where no mass is left the table is all zero: the empty half, whose covariance is NaN and whose share in a
        mixture is nothing.
        """
        cells = self.array * np.asarray(weights, dtype=np.float64)
        mass: Floats = cells.sum(axis=CELLS)
        divisor = np.where(mass > 0, mass, 1.0)[..., None, None, None]
        result = object.__new__(Joint)  # past the check: an empty half sums to zero
        result._store(cells / divisor, self.values)
        return mass, result

    @property
    def values(self) -> Floats:
        """The number that each value of x2 stands for, (n_x2,)."""
        return np.arange(self.array.shape[-2], dtype=np.float64) if self.x2_values is None else self.x2_values

    @property
    def n_classes(self) -> int:
        """How many labels there are."""
        return int(self.array.shape[-1])

    def label_marginal(self) -> Floats:
        """Return P(y), (..., n_classes)."""
        marginal: Floats = self.array.sum(axis=(-3, -2))
        return marginal

    def conditional(self) -> Floats:
        """Return P(y | x1, x2), (..., n_x1, n_x2, n_classes); uniform where (x1, x2) never occurs."""
        mass = self.array.sum(axis=-1, keepdims=True)
        return np.where(mass > 0, self.array / np.where(mass > 0, mass, 1.0), 1.0 / self.n_classes)

    def covariance(self, label: int = 1) -> Floats:
        """Return Cov(X2, 1[Y = label]): for two classes and label 1 this is Cov(X2, Y)."""
        x2_and_label = self.array.sum(axis=-3)  # (..., n_x2, n_classes)
        first = np.einsum("...x,x->...", x2_and_label[..., label], self.values)
        second = np.einsum("...xy,x->...", x2_and_label, self.values) * x2_and_label[..., label].sum(axis=-1)
        covariance: Floats = np.where(self.array.sum(axis=CELLS) > 0, first - second, np.nan)[()]
        return covariance

    def correlation(self, label: int = 1) -> Floats:
        """Return the correlation of X2 and 1[Y = label]; NaN where one of them is constant."""
        x2 = self.array.sum(axis=(-3, -1))  # (..., n_x2)
        share = self.label_marginal()[..., label]
        mean = np.einsum("...x,x->...", x2, self.values)
        variance = np.einsum("...x,...x->...", x2, (self.values - mean[..., None]) ** 2) * share * (1 - share)
        correlation: Floats = np.where(
            variance > 1e-30, self.covariance(label) / np.sqrt(np.maximum(variance, 1e-30)), np.nan
        )[()]
        return correlation


def toy(eta: float, noise: float = 0.2) -> Joint:
    """Return the two-bit example: x1 is a fair coin, y flips it with probability `noise`, x2 flips y with `eta`.

    Examples
    --------
    >>> toy(0.1).covariance().round(3), toy(0.1).correlation().round(3)
    (np.float64(0.2), np.float64(0.8))
    """
    for name, value in (("eta", eta), ("noise", noise)):
        if not 0 <= value <= 1:
            raise ParameterError(f"The '{name}' parameter of toy must lie in [0, 1]. Got {value!r} instead.")
    stable = np.array([[1 - noise, noise], [noise, 1 - noise]])  # (x1, y): P(y | x1)
    unstable = np.array([[1 - eta, eta], [eta, 1 - eta]])  # (x2, y): P(x2 | y)
    return Joint(0.5 * stable[:, None, :] * unstable[None, :, :])


def independent(stable: ArrayLike, unstable: ArrayLike, x2_values: ArrayLike | None = None) -> Joint:
    """Return P(x1, y)·P(x2 | y): x1 and x2 independent given y.

    Parameters
    ----------
    stable : array-like of shape (..., n_x1, n_classes)
        P(x1, y), which environments share.
    unstable : array-like of shape (..., n_x2, n_classes)
        P(x2 | y); each column sums to one.
    """
    first, second = np.asarray(stable, dtype=np.float64), np.asarray(unstable, dtype=np.float64)
    values = None if x2_values is None else np.asarray(x2_values, dtype=np.float64)
    return Joint(first[..., :, None, :] * second[..., None, :, :], values)


def mixture(joints: Sequence[Joint], weights: ArrayLike) -> Joint:
    """Return the interpolation Σ_g λ_g·P_g; `weights` are the λ, not negative and of sum one."""
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(joints),) or (shares < 0).any() or not np.isclose(shares.sum(), 1.0, rtol=0, atol=1e-9):
        raise ParameterError(
            f"The 'weights' parameter of mixture must be {len(joints)} numbers >= 0 that sum to one. "
            f"Got {shares.tolist()} instead."
        )
    return Joint(np.tensordot(shares, np.stack([joint.array for joint in joints]), axes=1), joints[0].x2_values)


def log_odds(joint: Joint, label: int = 1, against: int = 0) -> Floats:
    """Return log P(label | x) − log P(against | x), (..., n_x1, n_x2); infinite where one of them is impossible."""
    conditional = joint.conditional()
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.log(conditional[..., label]) - np.log(conditional[..., against])
    return result


def risk(classifier: ArrayLike, joint: Joint) -> Floats:
    """Return the expected log loss −Σ P(x, y)·log f(y | x); infinite where f rules out what happens."""
    chances = np.asarray(classifier, dtype=np.float64)
    with np.errstate(divide="ignore"):
        losses = -np.log(np.where(joint.array > 0, chances, 1.0))
    total: Floats = (joint.array * losses).sum(axis=CELLS)
    return total


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
    >>> from holdfast.lab.theory import toy
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


def half_figures(curves: HalfCurves) -> tuple[Curves, Curves]:
    """Return the correlation in each half, and the oracle's interpolation weight, by the η of the judged rows."""
    at = int(abs(curves.eta - curves.judged_eta).argmin())
    kinds = ("soft", "hard")
    parts = [
        f"{kind} halves: {curves.correct[kind][at]:+.2f} where the judge is right, {curves.mistaken[kind][at]:+.2f} "
        f"where it is wrong, oracle at weight {curves.oracle[kind][at]:.2f}"
        for kind in kinds
    ]
    note = (
        f"Judge η = {curves.judge_eta:g}, judged η = {curves.judged_eta:g}, noise {curves.noise:g}: x2 and y correlate "
        f"at {curves.judged[at]:+.2f} in the whole environment. " + "; ".join(parts) + "."
    )

    def line(name: str, values: Any) -> Line:
        return Line(name, tuple(curves.eta.tolist()), tuple(values.tolist()))

    judge = f"judge's η = {curves.judge_eta:g}, label noise {curves.noise:g}"
    halves = [
        line(f"{half} half, {kind}", values[kind])
        for kind in kinds
        for half, values in (("correct", curves.correct), ("mistaken", curves.mistaken))
    ]
    whole = Line("whole environment", tuple(curves.eta.tolist()), tuple(curves.judged.tolist()), dashed=True)
    axis = "η of the judged environment, P(x2 ≠ y)"
    return (
        Curves(f"Correlation of x2 and y; {judge}", axis, "correlation", (*halves, whole), note=note),
        Curves(
            f"Weight of the correct half at the oracle; {judge}",
            axis,
            "weight",
            tuple(line(f"{kind} halves", curves.oracle[kind]) for kind in kinds),
        ),
    )


Bools = NDArray[np.bool_]
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Theorem1:
    """Each assumption of Theorem 1, the two covariances in its conclusion, and whether it holds."""

    independent: Bools  # X1 and X2 independent given Y, in both environments
    stable: Bools  # P_i(x1, y) = P_j(x1, y)
    uniform_labels: Bools  # in both environments
    uniform_halves: Bools  # in both mistaken halves (a binary x2 does not need it)
    equal_x2: Bools  # Σ_y P_i(x2 | y) = Σ_y P_j(x2 | y)
    stronger: Bools  # Cov(X2, Y; P_i) > Cov(X2, Y; P_j)
    judged_mistaken: Floats  # Cov(X2, Y; P_j^{i×}), to be negative
    judge_mistaken: Floats  # Cov(X2, Y; P_i^{j×}), to be positive

    @property
    def assumptions(self) -> Bools:
        """Whether every assumption is met."""
        met: Bools = self.independent & self.stable & self.uniform_labels & self.uniform_halves
        return met & self.equal_x2 & self.stronger

    @property
    def conclusion(self) -> Bools:
        """Whether both covariances have the sign that the theorem gives them."""
        signs: Bools = (self.judged_mistaken < 0) & (self.judge_mistaken > 0)
        return signs

    @property
    def violated(self) -> Bools:
        """Whether the assumptions are met and the conclusion fails: never for a binary x2."""
        return self.assumptions & ~self.conclusion


def theorem1(judge: Joint, judged: Joint) -> Theorem1:
    """Evaluate Theorem 1 for one pair of two-class environments, or for many at once."""
    _, _, judged_mistaken = partition(judge, judged)
    _, _, judge_mistaken = partition(judged, judge)
    return Theorem1(
        independent=is_independent(judge) & is_independent(judged),
        stable=_same(judge.array.sum(axis=-2), judged.array.sum(axis=-2), axes=(-2, -1)),
        uniform_labels=has_uniform_labels(judge) & has_uniform_labels(judged),
        uniform_halves=has_uniform_labels(judged_mistaken) & has_uniform_labels(judge_mistaken),
        equal_x2=_same(_x2_given_y(judge).sum(axis=-1), _x2_given_y(judged).sum(axis=-1), axes=(-1,)),
        stronger=np.asarray(judge.covariance() > judged.covariance() + TOLERANCE),
        judged_mistaken=judged_mistaken.covariance(),
        judge_mistaken=judge_mistaken.covariance(),
    )


def theorem2_bounds(judge: Joint, judged: Joint) -> tuple[Floats, Floats]:
    """Return the upper bound of Cov(X2, Y; P_j^{i×}) and the lower bound of Cov(X2, Y; P_i^{j×}), as derived.

    upper = (α_i^i·Cov(P_i^{i✓}) − α_j^i·Cov(P_j^{i✓})) / (1 − α_j^i), and lower is its mirror image with i and j
    exchanged. Both need Cov(X2, Y; P_i) > Cov(X2, Y; P_j), and labels uniform in the environments and in the halves
    (`has_uniform_labels`). The distance to the bound is then (Cov_i − Cov_j)/(1 − α): the more
    similar the environments, the sharper the bound. NaN where the half in question is empty.

    Parameters
    ----------
    judge, judged : Joint
        Two-class environments i and j.

    Examples
    --------
    >>> from holdfast.lab.theory import toy
    >>> upper, lower = theorem2_bounds(toy(0.1), toy(0.2))
    >>> upper.round(4), partition(toy(0.1), toy(0.2))[2].covariance().round(4)
    (np.float64(0.1351), np.float64(-0.0962))
    """
    return _bound(judge, judged), _bound(judged, judge)


def theorem2_bounds_as_printed(judge: Joint, judged: Joint) -> tuple[Floats, Floats]:
    """Return the bounds with the paper's printed coefficients (1 − α)/α, which are upside down and do not hold."""
    return _bound(judge, judged, printed=True), _bound(judged, judge, printed=True)


def _bound(judge: Joint, judged: Joint, *, printed: bool = False) -> Floats:
    own_alpha, own_correct, _ = partition(judge, judge)
    alpha, correct, _ = partition(judge, judged)
    own, other = own_correct.covariance(), correct.covariance()
    with np.errstate(divide="ignore", invalid="ignore"):
        derived = np.where(alpha < 1, (own_alpha * own - alpha * other) / (1 - alpha), np.nan)[()]
        bound: Floats = (1 - alpha) * (own / own_alpha - other / alpha) if printed else derived
    return bound


def is_independent(joint: Joint) -> Bools:
    """Return whether X1 and X2 are independent given Y: P(x1, x2, y)·P(y) = P(x1, y)·P(x2, y)."""
    product = joint.array.sum(axis=-2)[..., :, None, :] * joint.array.sum(axis=-3)[..., None, :, :]
    return _same(joint.array * joint.label_marginal()[..., None, None, :], product, axes=CELLS)


def has_uniform_labels(joint: Joint) -> Bools:
    """Return whether every label has the same probability (an empty half passes)."""
    marginal = joint.label_marginal()
    return _same(marginal, marginal.mean(axis=-1, keepdims=True), axes=(-1,))


def theorem1_counterexample() -> tuple[Joint, Joint]:
    """Return judge and judged that meet every assumption of Theorem 1 but a binary x2, and break it.

    x2 has four values, and exchanging both labels and the order of all values changes nothing, so that every half has
    uniform labels. Cov(X2, Y) is 0.075 and 0.05, yet +0.0135 in the judged environment's mistaken half.
    """
    stable = [[0.45, 0.05], [0.05, 0.45]]  # P(x1, y): x1 agrees with y nine times in ten
    judge = [0.125, 0.475, 0.025, 0.375]  # P_i(x2 | y = 1); reversed for y = 0
    judged = [0.175, 0.375, 0.125, 0.325]  # P_j(x2 | y = 1)
    first, second = (independent(stable, np.stack([column[::-1], column], axis=1)) for column in (judge, judged))
    return first, second


def theorem2_counterexample() -> tuple[Joint, Joint]:
    """Return judge and judged that meet the assumptions of Theorem 2 and break its printed form.

    Exchanging both values of x1, x2 and y changes nothing, so that every half has uniform labels. Cov(X2, Y) is 0.1 and
    0.05. In the judged environment's mistaken half it is 3/134 = +0.0224, above the printed bound −0.0420 and below
    the derived one, 27/268 = +0.1007.
    """
    judge = [[[1, 2], [1, 6]], [[6, 1], [2, 1]]]  # twentieths
    judged = [[[5, 1], [3, 1]], [[1, 3], [1, 5]]]
    return Joint(np.array(judge) / 20), Joint(np.array(judged) / 20)


def _x2_given_y(joint: Joint) -> Floats:
    marginal = joint.label_marginal()[..., None, :]
    conditional: Floats = joint.array.sum(axis=-3) / np.where(marginal > 0, marginal, 1.0)
    return conditional


def _same(first: Floats, second: Floats, axes: tuple[int, ...]) -> Bools:
    return np.asarray(np.all(np.abs(first - second) <= TOLERANCE, axis=axes))


@dataclass(frozen=True, eq=False)
class Optimum:
    """The classifier of least worst-case risk, with its certificate."""

    classifier: Floats  # (n_x1, n_x2, n_classes): f(y | x1, x2)
    weights: Floats  # (n_groups,) the worst interpolation λ
    group_risks: Floats  # (n_groups,)
    worst_case_risk: float  # max_g R_g(f): no classifier's is lower by more than `gap`
    gap: float  # worst_case_risk − Σ λ_g·R_g(f)


def minimize_worst_case_risk(groups: Sequence[Joint], *, tolerance: float = 1e-12, max_steps: int = 2000) -> Optimum:
    """Return argmin_f max_g R_g(f) over all classifiers f(y | x1, x2), for the log loss.

    Parameters
    ----------
    groups : sequence of Joint
        For example the halves of `partition`; drop empty ones.
    tolerance : float
        Largest gap to stop at.
    max_steps : int
        Each step moves weight from the group of least risk to the one of most, exactly far enough to make them equal.

    Examples
    --------
    >>> from holdfast.lab.theory import partition, toy
    >>> _, correct, mistaken = partition(toy(0.0), toy(0.1))
    >>> optimum = minimize_worst_case_risk([correct, mistaken])
    >>> optimum.weights, optimum.classifier[1, :, 1].round(12)  # P(y = 1 | x1 = 1, x2): the same for both x2
    (array([0.5, 0.5]), array([0.8, 0.8]))
    """
    if not groups or any(group.array.ndim != 3 or group.array.sum() == 0 for group in groups):
        raise ParameterError(
            "The 'groups' parameter must be one or more single distributions that are not empty. "
            "Drop the empty half where alpha is 0 or 1."
        )
    cells = np.stack([group.array for group in groups])  # (n_groups, n_x1, n_x2, n_classes)
    weights = np.full(len(groups), 1.0 / len(groups))
    for _ in range(max_steps):
        group_risks = _risks(cells, weights)
        most = int(group_risks.argmax())
        least = int(np.where(weights > 0, group_risks, np.inf).argmin())
        if group_risks[most] - weights @ group_risks <= tolerance or most == least:
            break
        weights = _equalize(cells, weights, least, most)
    group_risks = _risks(cells, weights)
    worst = float(group_risks.max())
    return Optimum(_best_classifier(cells, weights), weights, group_risks, worst, worst - float(weights @ group_risks))


def _best_classifier(cells: Floats, weights: Floats) -> Floats:
    """Return the interpolation's conditional, uniform where it has no mass."""
    blend = np.tensordot(weights, cells, axes=1)
    mass = blend.sum(axis=-1, keepdims=True)
    return np.where(mass > 0, blend / np.where(mass > 0, mass, 1.0), 1.0 / blend.shape[-1])


def _risks(cells: Floats, weights: Floats) -> Floats:
    """Return each group's risk under the interpolation's best classifier (huge where that rules out what happens)."""
    classifier = _best_classifier(cells, weights)
    losses = np.where(classifier > 0, -np.log(np.where(classifier > 0, classifier, 1.0)), 1e300)
    return np.tensordot(cells, losses, axes=3)


def _equalize(cells: Floats, weights: Floats, source: int, target: int) -> Floats:
    """Move weight from source to target until their risks are equal, or source has none left."""
    direction = np.zeros(len(weights))
    direction[source], direction[target] = -1.0, 1.0
    drained = _clean(weights + weights[source] * direction)
    risks = _risks(cells, drained)
    if risks[target] >= risks[source]:
        return drained
    low, high = 0.0, float(weights[source])
    for _ in range(60):
        middle = (low + high) / 2
        risks = _risks(cells, _clean(weights + middle * direction))
        low, high = (middle, high) if risks[target] > risks[source] else (low, middle)
    return _clean(weights + low * direction)


def _clean(weights: Floats) -> Floats:
    """Return the weights without rounding below zero, summing to one."""
    clipped = np.where(weights > 1e-15, weights, 0.0)
    shares: Floats = clipped / clipped.sum()
    return shares
