"""Theorems 1 and 2 as statements that can be evaluated, with counter-examples, and the optimum of stage 3.

i is the judge and j the judged environment. Both theorems are about Cov(X2, Y) in the mistaken halves P_j^{i×} and
P_i^{j×}, with labels uniform in every environment and in every half.

The optimum: with the log loss, min_f max_g R_g(f) = max_λ H(Y | X) under the interpolation Σ λ_g·P_g: the order of min
and max may be exchanged, and for given λ the best classifier is the interpolation's own conditional. The dual is a
concave function of a few weights, so its maximum, and with it the classifier, is known up to the gap that is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import ParameterError
from holdfast.theory.halves import partition
from holdfast.theory.joints import CELLS, Floats, Joint, independent

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
    >>> from holdfast.theory import toy
    >>> upper, lower = theorem2_bounds(toy(0.1), toy(0.2))
    >>> upper.round(4), partition(toy(0.1), toy(0.2))[2].covariance().round(4)
    (np.float64(0.1351), np.float64(-0.0962))
    """
    return _derived_bound(judge, judged), _derived_bound(judged, judge)


def theorem2_bounds_as_printed(judge: Joint, judged: Joint) -> tuple[Floats, Floats]:
    """Return the bounds with the paper's printed coefficients (1 − α)/α, which are upside down and do not hold."""
    return _printed_bound(judge, judged), _printed_bound(judged, judge)


def _derived_bound(judge: Joint, judged: Joint) -> Floats:
    own_alpha, own_correct, _ = partition(judge, judge)
    alpha, correct, _ = partition(judge, judged)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = (own_alpha * own_correct.covariance() - alpha * correct.covariance()) / (1 - alpha)
    result: Floats = np.where(alpha < 1, bound, np.nan)[()]
    return result


def _printed_bound(judge: Joint, judged: Joint) -> Floats:
    own_alpha, own_correct, _ = partition(judge, judge)
    alpha, correct, _ = partition(judge, judged)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound: Floats = (1 - alpha) * (own_correct.covariance() / own_alpha - correct.covariance() / alpha)
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
    >>> from holdfast.theory import partition, toy
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
