"""Losses of linear models: values, gradients, curvatures, and the dual points for the certificate.

Outputs z have shape (n_rows, n_outputs): one output for two classes and for regression, one for each of more classes.
By Fenchel's inequality ℓ(z) ≥ u·z − ℓ*(u) for any u, so a weighted mean of losses plus ½λ‖w‖² is at least
Σ ωᵢ·(−ℓ*(uᵢ)) − ‖Σ ωᵢ uᵢ xᵢ‖²/(2λ), whatever w is, once Σ ωᵢ uᵢ = 0 removes the unpenalized intercept.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.fitting.newton import expit

Array = NDArray[np.float64]
Labels = NDArray[Any]  # (n_rows,) codes, or targets for the squared loss


class LinearLoss(Protocol):
    """A convex loss of linear outputs."""

    n_outputs: int

    def values(self, z: Array, y: Labels) -> Array:
        """Return the loss of each row, of shape (n_rows,)."""

    def gradients(self, z: Array, y: Labels) -> Array:
        """Return the derivative of each row's loss, of shape (n_rows, n_outputs)."""

    def curvatures(self, z: Array) -> Array:
        """Return the second derivatives of each row's loss, of shape (n_rows, n_outputs, n_outputs)."""

    def own_curvatures(self, z: Array) -> Array:
        """Return the diagonals of `curvatures`, of shape (n_rows, n_outputs)."""

    def bend(self, z: Array, directions: Array) -> Array:
        """Return curvature @ direction for each row; directions has shape (n_rows, n_directions, n_outputs)."""

    def dual_point(self, z: Array, change: Array, y: Labels, weights: Array, *, centered: bool) -> tuple[Array, float]:
        """Return (u, Σ ωᵢ·(−ℓ*(uᵢ))) for the dual point that `z + change` suggests; `centered` makes Σ ωᵢ uᵢ = 0."""


class OneOutput:
    """What losses of one output share: their second derivatives are numbers, not matrices."""

    n_outputs = 1

    def own_curvatures(self, z: Array) -> Array:
        """Return the second derivative of each row's loss, (n_rows, 1)."""
        raise NotImplementedError

    def curvatures(self, z: Array) -> Array:
        """Return them as matrices."""
        return self.own_curvatures(z)[:, :, None]

    def bend(self, z: Array, directions: Array) -> Array:
        """Return curvature times direction."""
        return self.own_curvatures(z)[:, None, :] * directions


class BinaryLogLoss(OneOutput):
    """log(1 + exp(−z)) for class 1, log(1 + exp(z)) for class 0."""

    def values(self, z: Array, y: Labels) -> Array:
        """Return the log loss of each row."""
        margin = z[:, 0] * (1.0 - 2.0 * y)
        return np.asarray(np.log1p(np.exp(-np.abs(margin))) + np.maximum(margin, 0.0))

    def gradients(self, z: Array, y: Labels) -> Array:
        """Return P(1 | z) − y."""
        return np.asarray(expit(z) - y[:, None])

    def own_curvatures(self, z: Array) -> Array:
        """Return P(1 | z)·P(0 | z)."""
        p = expit(z)
        return p * (1.0 - p)

    def dual_point(self, z: Array, change: Array, y: Labels, weights: Array, *, centered: bool) -> tuple[Array, float]:
        """Return the two-class case of `SoftmaxLogLoss.dual_point`."""
        p = expit(z)
        p = np.clip(p + p * (1.0 - p) * change, 0.0, 1.0)
        probabilities = np.hstack([1.0 - p, p])
        if centered:
            probabilities = _match_class_shares(probabilities, y, weights)
        return probabilities[:, 1:] - y[:, None], float(weights @ _entropies(probabilities))


class SoftmaxLogLoss:
    """Minus the log probability of the row's class under a softmax of the outputs."""

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes

    def values(self, z: Array, y: Labels) -> Array:
        """Return the log loss of each row."""
        shifted = z - z.max(axis=1, keepdims=True)
        own = shifted[np.arange(len(z)), y.astype(np.intp)]
        return np.asarray(np.log(np.exp(shifted).sum(axis=1)) - own)

    def gradients(self, z: Array, y: Labels) -> Array:
        """Return the probabilities minus the row's class."""
        result = _softmax(z)
        result[np.arange(len(z)), y.astype(np.intp)] -= 1.0
        return result

    def curvatures(self, z: Array) -> Array:
        """Return diag(p) − p pᵀ."""
        p = _softmax(z)
        result = -p[:, :, None] * p[:, None, :]
        result[:, np.arange(self.n_outputs), np.arange(self.n_outputs)] += p
        return result

    def own_curvatures(self, z: Array) -> Array:
        """Return p·(1 − p)."""
        p = _softmax(z)
        return p * (1.0 - p)

    def bend(self, z: Array, directions: Array) -> Array:
        """Return (diag(p) − p pᵀ) @ directions."""
        p = _softmax(z)[:, None, :]
        weighted = p * directions
        weighted -= p * weighted.sum(axis=2, keepdims=True)
        return weighted

    def dual_point(self, z: Array, change: Array, y: Labels, weights: Array, *, centered: bool) -> tuple[Array, float]:
        """Return u = α − class and Σ ωᵢ·entropy(αᵢ), where α are the probabilities after a linear `change` of z."""
        probabilities = _softmax(z) + self.bend(z, change[:, None, :])[:, 0]
        probabilities = np.maximum(probabilities, 0.0)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        if centered:
            probabilities = _match_class_shares(probabilities, y, weights)
        value = float(weights @ _entropies(probabilities))
        probabilities[np.arange(len(z)), y.astype(np.intp)] -= 1.0
        return probabilities, value


class SquaredLoss(OneOutput):
    """(z − y)²."""

    def values(self, z: Array, y: Labels) -> Array:
        """Return the squared error of each row."""
        return np.asarray((z[:, 0] - y) ** 2)

    def gradients(self, z: Array, y: Labels) -> Array:
        """Return 2·(z − y)."""
        return np.asarray(2.0 * (z - y[:, None]))

    def own_curvatures(self, z: Array) -> Array:
        """Return 2."""
        return np.full((len(z), 1), 2.0)

    def dual_point(self, z: Array, change: Array, y: Labels, weights: Array, *, centered: bool) -> tuple[Array, float]:
        """Return u = 2·(z + change − y) and Σ ωᵢ·(−uᵢ·yᵢ − uᵢ²/4)."""
        u = self.gradients(z + change, y)
        if centered:
            u -= weights @ u / weights.sum()
        return u, float(-weights @ (u[:, 0] * y + u[:, 0] ** 2 / 4.0))


def _softmax(z: Array) -> Array:
    """Return probabilities of shape (n_rows, n_classes)."""
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _entropies(probabilities: Array) -> Array:
    """Return the entropy of each row in nats."""
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return -np.asarray((probabilities * logs).sum(axis=1))


def _match_class_shares(probabilities: Array, y: Labels, weights: Array) -> Array:
    """Return probabilities with y's weighted class shares, by mixing in as little of a constant as needed."""
    n_classes = probabilities.shape[1]
    wanted = np.bincount(y.astype(np.intp), weights=weights, minlength=n_classes) / weights.sum()
    unseen = wanted == 0
    if unseen.any():
        probabilities = np.where(unseen, 0.0, np.maximum(probabilities, np.finfo(float).tiny))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    shares = weights @ probabilities / weights.sum()
    amount = float(np.max(1.0 - wanted[~unseen] / np.maximum(shares[~unseen], np.finfo(float).tiny), initial=0.0))
    if amount <= 1e-15:
        return probabilities
    return np.asarray((1.0 - amount) * probabilities + (wanted - (1.0 - amount) * shares))
