"""The least worst-case risk over exact groups, with its certificate.

With the log loss, min_f max_g R_g(f) = max_λ H(Y | X) under the interpolation Σ λ_g·P_g: the order of min and max may
be exchanged, and for given λ the best classifier is the interpolation's own conditional. The dual is a concave function
of a few weights, so its maximum, and with it the classifier, is known up to the gap that is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.exceptions import ParameterError
from holdfast.theory.joints import Floats, Joint


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
