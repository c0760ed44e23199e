"""Exact joint distributions of a stable feature x1, an unstable feature x2 and a label y: tables of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.exceptions import ParameterError

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

    def one_against_rest(self, label: int) -> Joint:
        """Return the two-class distribution of 1[Y = label]: the reduction of several classes to two.

        Independence of x1 and x2 given y does not survive it: "not this label" mixes the others.
        """
        rest = np.delete(self.array, label, axis=-1).sum(axis=-1)
        return Joint(np.stack([rest, self.array[..., label]], axis=-1), self.x2_values)


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
