"""Sides made alike in a named feature, so that others are not blamed for it.

Where a feature's relation to the label has changed, the rows a judge gets wrong are other rows, and among them stable
features look different too. Rows are therefore weighted until the feature says the same about the labels on both sides.
If nothing else changed, the rows are then alike in everything, and no judge, however badly fitted, errs differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit

from holdfast.audit.columns import is_sparse
from holdfast.audit.contrasts import Side
from holdfast.audit.judges import Floats

MOST = 0.9  # chance of being on one side up to which rows are weighted: no row counts for more than five
PULL = 1e-3  # of the coefficients to zero, so that a separable feature has an answer


def match_sides(
    sides: Mapping[int, tuple[Side, Side]], features: Sequence[Sequence[int]], said: Mapping[int, Floats]
) -> dict[int, tuple[Side, Side]]:
    """Return the sides with rows weighted so that what `features` say about the labels is alike.

    Parameters
    ----------
    sides : mapping of label to home and away
    features : sequence of sequences of int
        Columns of each named feature.
    said : mapping of label to array of shape (n_columns,)
        What home teaches about the label: a row is told by the sum over a feature's columns for its own label.
    """
    if not features:
        return dict(sides)
    home, away = next(iter(sides.values()))
    spoken = [
        np.column_stack([_own_label(side, sides, place, members, said) for members in features])
        for place, side in enumerate((home, away))
    ]
    both = np.vstack(spoken)
    both = (both - both.mean(axis=0)) / np.where(both.std(axis=0) > 0, both.std(axis=0), 1.0)
    labels = np.concatenate([home.labels, away.labels])
    present = np.unique(labels)
    dummies = (labels[:, None] == present).astype(np.float64)
    crossed = [dummies[:, [1]] * both] if len(present) == 2 else []
    chance = _chance_of_away(
        np.column_stack([dummies, both, both**2, *crossed]),
        np.repeat([0.0, 1.0], [len(home.weights), len(away.weights)]),
        np.concatenate([home.weights, away.weights]) / 2,
    )
    chance = np.clip(chance, 1 - MOST, MOST)
    weights = [
        home.weights / (1 - chance[: len(home.weights)]),
        away.weights / chance[len(home.weights) :],
    ]
    shares = {label: home.weights[home.labels == label].sum() for label in present}
    for side, weight in zip((home, away), weights, strict=True):
        for label in present:
            inside = side.labels == label
            weight[inside] *= shares[label] / weight[inside].sum()
    return {
        label: (replace(pair[0], weights=weights[0]), replace(pair[1], weights=weights[1]))
        for label, pair in sides.items()
    }


def _own_label(
    side: Side, sides: Mapping[int, tuple[Side, Side]], place: int, members: Sequence[int], said: Mapping[int, Floats]
) -> Floats:
    """Return what a feature says about each row's own label, (n_rows,); with one tested label, for it or against it."""
    chosen = side.values[:, list(members)]
    values = np.asarray(chosen.toarray() if is_sparse(chosen) else chosen)
    total = np.zeros(len(side.weights))
    for label, pair in sides.items():
        spoken = values @ said[label][list(members)]
        is_label = pair[place].is_label == 1
        total = np.where(is_label, spoken, -spoken if len(sides) == 1 else total)
    return total


def _chance_of_away(design: Floats, is_away: Floats, weights: Floats) -> Floats:
    """Return each row's chance to be on the away side, by logistic regression."""
    coefficients = np.zeros(design.shape[1])
    for _ in range(30):
        p = expit(design @ coefficients)
        gradient = design.T @ (weights * (is_away - p)) - PULL * coefficients
        information = (design * (weights * p * (1 - p))[:, None]).T @ design + PULL * np.eye(len(coefficients))
        step = np.linalg.solve(information, gradient)
        coefficients += np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(expit(design @ coefficients))
