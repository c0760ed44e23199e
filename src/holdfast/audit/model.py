"""A logistic model in which some effects are common to all environments, and others differ.

The log-odds of every class against the first are a sum of columns. A *design* has one value for each row, class but
the first, and column: with two classes it is the table itself. Rows stand by environment. Each environment has
intercepts of its own and effects of its own for a few columns; the rest is common. Environments share the common
effects only, so a Newton step costs no more with many of them than with few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]
MOST_STEPS = 40
ENOUGH = 1e-6  # of the log-likelihood: where the step after this one will gain less, it is not made
CLOSE = 1e-4  # gain for each row, from which on the equations of the step before serve for the next one too
FEW, FEW_SITE = 2000, 50  # rows, of all environments and of each, that a fit begins with where there are more
FAR = 50.0  # gain of a step, from which on the next one is directed by few rows too
MOST_CONTRASTS = 100  # environments up to which score tests compare them through matrices of their number
BLOCK_NUMBERS = 131_072  # of a design that are worked on together: 1 MiB stays in the cache
NARROW = 50_000  # rows up to which the curvature, which only directs the steps, is computed with half the digits
INTERCEPT, OWN, DEVIATION = 1e-4, 1e-2, 1.0  # penalties; deviations have a prior standard deviation of one
OUT = 1e9  # the penalty of an effect that is to be zero


@dataclass(frozen=True, eq=False)
class Sites:
    """The labels of rows that stand by environment, and how much each row counts."""

    target: Array  # (n_rows, n_classes - 1) 1 for the row's class, unless it is the first
    weights: Array  # (n_rows,)
    sizes: NDArray[np.intp]  # (n_sites,) rows of each environment

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where the rows of each environment begin."""
        return np.cumsum(self.sizes) - self.sizes

    def sums(self, values: Array) -> Array:
        """Return the sums over the rows of each environment."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def residuals(self, chances: Array) -> Array:
        """Return by how much the labels differ from their probabilities, weighted."""
        return np.asarray(self.weights[:, None] * (self.target - chances))

    def few(self) -> tuple[NDArray[np.intp] | slice, Sites]:
        """Return a share of the rows, and their labels; all rows where there are few, or few of each environment."""
        every = np.clip(self.sizes // FEW_SITE, 1, max(len(self.weights) // FEW, 1))
        if every.max() == 1:
            return slice(None), self
        strides = zip(self.starts, self.sizes, every, strict=True)
        rows = np.concatenate([np.arange(start, start + size, step) for start, size, step in strides])
        sizes = -(-self.sizes // every)
        return rows, Sites(self.target[rows], self.weights[rows] * np.repeat(every, sizes), sizes)

    def blocks(
        self, parts: Sequence[Array], chances: Array, dtype: Any = np.float64
    ) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any], list[tuple[int, slice]]]]:
        """Return as many rows as the cache holds: where they are, the design of all parts, whitened, and its sites.

        Rows of many environments are whitened at once, which would take longer one by one.
        """
        n_others, n_columns = self.target.shape[1], sum(part.shape[2] for part in parts)
        most = min(max(BLOCK_NUMBERS // (n_others * n_columns), 1), len(chances))
        room = np.empty((2, most, n_others, n_columns), dtype)
        pieces = [
            (number, row, min(row + most, start + size))
            for number, (start, size) in enumerate(zip(self.starts.tolist(), self.sizes.tolist(), strict=True))
            for row in range(start, start + size, most)
        ]
        while pieces:
            first = pieces[0][1]
            together = [piece for piece in pieces[:most] if piece[2] - first <= most]
            rows = slice(first, together[-1][2])
            design = room[0, : rows.stop - first]
            np.concatenate([part[rows] for part in parts], axis=2, out=design, casting="same_kind")
            white = whiten(design, chances[rows], self.weights[rows], out=room[1, : len(design)])
            inside = [(number, slice(n_others * (a - first), n_others * (b - first))) for number, a, b in together]
            yield rows, design.reshape(-1, n_columns), white.reshape(-1, n_columns), inside
            pieces = pieces[len(together) :]


def chances_of(log_odds: Array) -> tuple[Array, Array]:
    """Return the probabilities of all classes but the first, and log(1 + Σ exp(log-odds)) of each row."""
    if log_odds.shape[1] == 1:  # short rows are slow to add up
        small = np.exp(-np.abs(log_odds))
        return np.where(log_odds > 0, 1.0, small) / (1 + small), (np.maximum(log_odds, 0) + np.log1p(small))[:, 0]
    top = np.maximum(log_odds.max(axis=1, keepdims=True), 0)
    parts = np.exp(log_odds - top)
    total = np.exp(-top) + parts.sum(axis=1, keepdims=True)
    return parts / total, (top + np.log(total))[:, 0]


def whiten(design: NDArray[Any], chances: Array, weights: Array, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the design such that the product of its rows with themselves, summed over classes, is the information.

    The curvature of a row is diag(p) − ppᵀ = RᵀR with R = (1 − c·√p√pᵀ)·diag(√p) and c = 1 / (1 + √p₀).
    """
    if design.shape[1] == 1:
        roots = np.sqrt(weights * chances[:, 0] * (1 - chances[:, 0])).astype(design.dtype)
        return np.asarray(np.multiply(design, roots[:, None, None], out=out))
    first = np.maximum(1 - chances.sum(axis=1, keepdims=True), 0)
    shares = (chances / (1 + np.sqrt(first))).astype(design.dtype)
    white = np.subtract(design, np.einsum("nk,nkc->nc", shares, design)[:, None], out=out)
    white *= np.sqrt(weights[:, None] * chances).astype(design.dtype)[:, :, None]
    return np.asarray(white)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model."""

    common: Array  # (n_columns,)
    intercepts: Array  # (n_sites, n_classes - 1)
    deviations: Array  # (n_sites, n_own) from the common effect
    chances: Array  # (n_rows, n_classes - 1) probabilities of all classes but the first
    loss: float
    errors: Array  # (n_sites, n_own) of the effects, for comparing sites; empty where they were not asked for
    scales: Array  # (n_sites, n_scales) effects of the scales


def fit_model(
    sites: Sites,
    design: Array,
    ridge: float,
    own: Sequence[int] = (),
    scales: Sequence[Array] = (),
    *,
    start: Fit | None = None,
    errors: bool = False,
    out: Sequence[int] = (),
) -> Fit:
    """Fit common effects, intercepts, and deviations by environment of the columns `own`.

    `scales` are further columns, (n_rows, n_classes - 1), with an effect by environment and none in common. The columns
    `out` have no effect.
    """
    n_rows, n_others, n_columns = design.shape
    local = local_design(design, own, scales)
    penalties, local_penalties = penalties_of(n_columns, local.shape[2], n_others, ridge, own, out)
    common, each = np.zeros(n_columns), np.zeros((len(sites), len(local_penalties)))
    rows: NDArray[np.intp] | slice = slice(None)
    few, parts = sites, (design, local)  # what directs the steps
    is_near = start is not None and (start.common.size, start.deviations.shape[1]) == (n_columns, len(own))
    if not (is_near or errors):
        rows, few = sites.few()
        parts = design[rows], local[rows]
    if start is None and few is not sites:
        start = fit_model(few, parts[0], ridge, own, [scale[rows] for scale in scales], out=out)
    if start is not None:  # the columns that came since begin with the common effect everywhere
        common, each[:, :n_others] = start.common[:n_columns].copy(), start.intercepts
        common[list(out)] = 0.0
        known = min(start.deviations.shape[1], len(own))
        each[:, n_others : n_others + known] = start.deviations[:, :known]

    def value(common: Array, each: Array) -> tuple[float, Array]:
        loss, chances = loss_of(sites, design, local, common, each)
        return loss + 0.5 * float(penalties @ common**2 + (each**2 @ local_penalties).sum()), chances

    (loss, chances), gain, is_new = value(common, each), 1.0, True
    for _ in range(MOST_STEPS):
        if is_new:
            system = System(*_curvature(few, parts, chances[rows], penalties, len(local_penalties)), local_penalties)
        left = sites.residuals(chances)
        gradient = design.reshape(-1, n_columns).T @ left.ravel() - penalties * common
        gradients = sites.sums(np.einsum("nkl,nk->nl", local, left)) - local_penalties * each
        step, steps = system.solve(gradient, gradients)
        before, gain, size = gain, 0.5 * float(gradient @ step + (gradients * steps).sum()), 1.0
        next_loss, next_chances = value(common + step, each + steps)
        while next_loss > loss and size > 1e-4:
            size /= 2
            next_loss, next_chances = value(common + size * step, each + size * steps)
        gained, common, each = loss - next_loss, common + size * step, each + size * steps
        loss, chances = next_loss, next_chances
        if few is sites and gain * (gain / before) ** (2 if is_new else 1) < ENOUGH:  # that much the next would gain
            break
        is_new = errors or few is not sites or gain > CLOSE * n_rows or gain > before / 10
        if gain < FAR or size < 1:
            rows, few, parts = slice(None), sites, (design, local)
        if size < 1:  # a step that was too long promised too much
            gain = max(gained, 1e-12)
    places = n_others + np.arange(len(own))
    found = system.errors(list(own), places) if errors else np.zeros((len(sites), 0))
    return Fit(common, each[:, :n_others], each[:, places], chances, loss, found, each[:, n_others + len(own) :])


def _predicted(design: Array, effects: Array) -> Array:
    """Return the log-odds of each row and class but the first."""
    n_rows, n_others, n_columns = design.shape
    return np.asarray((design.reshape(-1, n_columns) @ effects).reshape(n_rows, n_others))


def local_design(design: Array, own: Sequence[int], scales: Sequence[Array]) -> Array:
    """Return what every environment has effects of its own for: intercepts, the columns `own`, the scales."""
    n_rows, n_others, _ = design.shape
    parts = [np.broadcast_to(np.eye(n_others), (n_rows, n_others, n_others))]
    if len(own):
        parts.append(design[:, :, list(own)])
    parts += [scale[:, :, None] for scale in scales]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def penalties_of(
    n_columns: int, n_local: int, n_others: int, ridge: float, own: Sequence[int], out: Sequence[int]
) -> tuple[Array, Array]:
    """Return the penalties of the common effects, and of each environment's own."""
    penalties, local_penalties = np.full(n_columns, ridge), np.full(n_local, DEVIATION)
    penalties[list(own)], penalties[list(out)] = OWN, OUT
    local_penalties[:n_others] = INTERCEPT
    return penalties, local_penalties


def loss_of(sites: Sites, design: Array, local: Array, common: Array, each: Array) -> tuple[float, Array]:
    """Return the log loss, summed over the rows, and the probabilities of all classes but the first."""
    log_odds = _predicted(design, common)
    log_odds += np.einsum("nkl,nl->nk", local, np.repeat(each, sites.sizes, axis=0))
    chances, log_sums = chances_of(log_odds)
    likely = sites.weights @ (sites.target * log_odds) @ np.ones(design.shape[1])
    return float(sites.weights @ log_sums - likely), chances


def _curvature(
    sites: Sites, parts: tuple[Array, Array], chances: Array, penalties: Array, n_local: int
) -> tuple[Array, Array]:
    """Return the curvature of the common effects, penalized, and that of each environment's own with all effects."""
    n_columns, common = len(penalties), np.diag(penalties + 1e-8)
    mine = np.zeros((len(sites), n_columns + n_local, n_local))
    dtype = np.float32 if len(chances) <= NARROW else np.float64
    for _, _, white, pieces in sites.blocks(parts, chances, dtype):
        common += white[:, :n_columns].T @ white[:, :n_columns]
        for number, rows in pieces:
            mine[number] += white[rows].T @ white[rows, n_columns:]
    return common, mine


class System:
    """The equations of one Newton step: a block of common effects, and one for each environment."""

    def __init__(self, common: Array, mine: Array, local_penalties: Array) -> None:
        n_columns, self.common = len(common), common
        self.mixed, self.own = mine[:, :n_columns], mine[:, n_columns:] + np.diag(local_penalties + 1e-8)
        self.shares = np.linalg.solve(self.own, self.mixed.transpose(0, 2, 1))  # (n_sites, n_local, n_columns)
        sites_first = self.mixed.transpose(1, 0, 2).reshape(n_columns, -1)
        self.reduced = self.common - sites_first @ self.shares.reshape(-1, n_columns)

    def solve(self, gradient: Array, gradients: Array) -> tuple[Array, Array]:
        """Return the step of the common effects and of each environment's own."""
        right = gradient - gradients.ravel() @ self.shares.reshape(-1, len(gradient))
        step: Array = np.asarray(np.linalg.solve(self.reduced, right), dtype=np.float64)
        return step, np.asarray(np.linalg.solve(self.own, gradients[:, :, None])[:, :, 0] - self.shares @ step)

    def errors(self, own: list[int], places: NDArray[np.intp]) -> Array:
        """Return the standard errors of the effects of the columns `own` in each environment.

        What is uncertain about all environments alike is left out, such as which of two columns that say the same has
        the effect: these errors are for comparing environments.
        """
        inverse, n_sites = np.linalg.inv(self.reduced), len(self.own)
        result = np.zeros((n_sites, len(own)))
        alone = np.diagonal(np.linalg.inv(self.own), axis1=1, axis2=2)
        for number, (column, place) in enumerate(zip(own, places, strict=True)):
            lean = np.eye(len(inverse))[column] - self.shares[:, place]  # of each effect on the common ones
            covariance = lean @ inverse @ lean.T
            alike = (covariance.sum() - np.trace(covariance)) / max(n_sites * (n_sites - 1), 1)
            variance = np.diag(covariance) + alone[:, place] - max(float(alike), 0.0)
            result[:, number] = np.sqrt(np.maximum(variance, alone[:, place]))
        return result


def score_tests(sites: Sites, design: Array, local: Array, fit: Fit, ridge: float, further: Sequence[Array]) -> Array:
    """Return for each column of the design, and for each further one, the score statistic of its interaction.

    The penalty leaves a part of every common effect in the residuals, more of it where more rows are. It is taken out
    of the scores, so that it does not look like a change of the effect where environments differ in size. Statistics
    are smaller by the share of the rows that the fit has used up.
    """
    parts = [design, *(column[:, :, None] for column in further), local]
    sums, n_columns = sums_by_site(sites, parts, fit.chances), design.shape[2]
    return score_statistics(*sums, n_columns, n_columns + len(further), ridge, sites.target.size)


def sums_by_site(sites: Sites, parts: Sequence[Array], chances: Array) -> tuple[Array, Array]:
    """Return the gradient of the log-likelihood in each environment, and its information, for the columns of all parts.

    They can be added up over blocks of rows.
    """
    n_all, left = sum(part.shape[2] for part in parts), sites.residuals(chances)
    gradients, information = np.zeros((len(sites), n_all)), np.zeros((len(sites), n_all, n_all))
    for block, flat, white, pieces in sites.blocks(parts, chances):
        mine = left[block].ravel()
        for number, rows in pieces:
            gradients[number] += mine[rows] @ flat[rows]
            information[number] += white[rows].T @ white[rows]
    return gradients, information


def score_statistics(
    gradients: Array, information: Array, n_columns: int, n_tested: int, ridge: float, n_values: int
) -> Array:
    """Return the score statistics of `score_tests`, of sums over all rows; `n_values` are the labels they are of."""
    n_sites, n_local = len(gradients), gradients.shape[1] - n_tested
    own = information[:, n_tested:, n_tested:].copy()
    sizes = 1e-6 * np.maximum(np.trace(own, axis1=1, axis2=2), 1e-9)
    own += sizes[:, None, None] * np.eye(own.shape[1])
    shares = np.linalg.solve(own, information[:, n_tested:])[:, :, :n_tested]
    reduced = information[:, :n_tested, :n_tested] - information[:, :n_tested, n_tested:] @ shares
    scores = gradients[:, :n_tested] - np.einsum("elt,el->et", shares, gradients[:, n_tested:])
    cross, spread = reduced[:, :, :n_columns], np.diagonal(reduced, axis1=1, axis2=2)
    total = ridge * np.eye(n_columns) + cross[:, :n_columns].sum(axis=0)
    left_over = scores[:, :n_columns].sum(axis=0)
    n_used = n_columns + n_local * n_sites
    inverse = np.linalg.inv(total + 1e-8 * np.eye(n_columns))
    scores -= cross @ (inverse @ left_over)
    share_left = max(1 - n_used / n_values, 0.5)
    if n_sites > MOST_CONTRASTS:
        found = [_between_many(scores[:, j], spread[:, j], cross[:, j], total) for j in range(n_tested)]
        return np.asarray(found, dtype=np.float64) * float(share_left)
    shared = np.ascontiguousarray(cross.transpose(1, 0, 2))  # (n_tested, n_sites, n_columns)
    variances = spread.T[:, :, None] * np.eye(n_sites) - shared @ inverse @ shared.transpose(0, 2, 1)
    sizes = (np.trace(variances, axis1=1, axis2=2) - variances.sum(axis=(1, 2)) / n_sites) / (n_sites - 1)
    some = np.flatnonzero(sizes > 1e-9)
    variances = variances[some] + sizes[some, None, None] * (1 + 1e-6 * np.eye(n_sites))  # W of `_between_many`
    both = np.stack([scores.T[some], np.ones((len(some), n_sites))], axis=2)
    products = both.transpose(0, 2, 1) @ np.linalg.solve(variances, both)
    statistics = np.zeros(n_tested)
    statistics[some] = products[:, 0, 0] - products[:, 0, 1] ** 2 / products[:, 1, 1]
    return np.asarray(np.maximum(statistics * share_left, 0.0))  # rounding may leave less than nothing


def _between_many(scores: Array, spread: Array, cross: Array, total: Array) -> float:
    """Return the statistic of one column over many environments, without a matrix of all pairs of them.

    The variance of the scores is V = diag(spread) − cross total⁻¹ crossᵀ. For the contrasts K between environments,
    sᵀK (KᵀVK)⁻¹ Kᵀs = sᵀW⁻¹s − (1ᵀW⁻¹s)² / 1ᵀW⁻¹1 with any W = V + c·11ᵀ, whose inverse Woodbury's identity gives.
    """
    n = len(scores)
    total = total + 1e-8 * np.eye(len(total))
    weights = np.linalg.solve(total, cross.T)  # (n_columns, n_sites)
    trace = float(spread.sum() - (cross.T * weights).sum())
    together = float(spread.sum() - cross.sum(axis=0) @ weights.sum(axis=1))
    size = (trace - together / n) / (n - 1)
    if size <= 1e-9:
        return 0.0
    inverse = 1 / (spread + 1e-6 * size)
    low_rank = np.column_stack([cross, np.ones(n)])
    core = linalg.block_diag(-total, np.array([[1 / size]])) + low_rank.T @ (low_rank * inverse[:, None])
    both = np.column_stack([scores, np.ones(n)]) * inverse[:, None]
    solved = both - inverse[:, None] * (low_rank @ np.linalg.solve(core, low_rank.T @ both))
    (own, mixed), (_, ones) = np.vstack([scores, np.ones(n)]) @ solved
    return float(own - mixed**2 / ones)
