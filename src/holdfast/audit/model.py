"""A logistic model in which some effects are common to all environments, and others differ.

The log-odds of every class against the first are a sum of columns. A *design* has one value for each row, class but
the first, and column: with two classes it is the table itself. Each environment has intercepts of its own and effects
of its own for a few columns; the rest is common. Environments share the common effects only, so a Newton step costs no
more with many of them than with few.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

Array = NDArray[np.float64]
MOST_STEPS = 40
ENOUGH = 1e-6  # of the log-likelihood: where the step after this one will gain less, it is not made
CLOSE = 1e-4  # gain for each row, from which on the equations of the step before serve for the next one too
ROUGH, ROUGH_SITE = 1500, 50  # rows, of all environments and of each, that a fit begins with where there are more
MOST_CONTRASTS = 100  # environments up to which score tests compare them through matrices of their number
BLOCK_NUMBERS = 131_072  # of the designs of environments that are worked on together: 1 MiB stays in the cache
NARROW = 20_000  # rows of a block up to which its curvature is computed with half the digits
INTERCEPT, OWN, DEVIATION = 1e-4, 1e-2, 1.0  # penalties; deviations have a prior standard deviation of one


@dataclass(frozen=True, eq=False)
class Site:
    """The labels of one environment's rows, and how much each row counts."""

    target: Array  # (n_rows, n_classes - 1) 1 for the row's class, unless it is the first
    weights: Array  # (n_rows,)

    def probabilities(self, log_odds: Array) -> Array:
        """Return the probabilities of all classes but the first."""
        if log_odds.shape[1] == 1:
            return np.asarray(special.expit(log_odds))
        return np.asarray(np.exp(log_odds - _log_sum(log_odds)[:, None]))

    def loss(self, log_odds: Array) -> float:
        """Return the weighted sum of negative log-likelihoods."""
        own = (self.target * log_odds).sum(axis=1)
        return float(self.weights @ (_log_sum(log_odds) - own))

    def residuals(self, chances: Array) -> Array:
        """Return by how much the labels differ from their probabilities, weighted."""
        return np.asarray(self.weights[:, None] * (self.target - chances))

    def roots(self, chances: Array) -> Array:
        """Return square roots of each row's curvature: numbers for two classes, else matrices."""
        n_others = chances.shape[1]
        if n_others == 1:
            return np.asarray(np.sqrt(self.weights * chances[:, 0] * (1 - chances[:, 0])))
        spread = np.eye(n_others) * chances[:, :, None] - chances[:, :, None] * chances[:, None, :]
        roots = np.linalg.cholesky(spread + 1e-12 * np.eye(n_others)) * np.sqrt(self.weights)[:, None, None]
        return np.asarray(roots.transpose(0, 2, 1))


def whiten(roots: NDArray[Any], design: NDArray[Any]) -> NDArray[Any]:
    """Return the design as rows whose product with themselves is the information, (n_rows × classes, …)."""
    n_rows, n_others, n_columns = design.shape
    if n_others == 1:
        return np.asarray(design[:, 0] * roots[:, None])
    return np.asarray(np.matmul(roots, design).reshape(n_rows * n_others, n_columns))


@dataclass(frozen=True, eq=False)
class _Block:
    """Environments whose rows are worked on together: with many of them, one by one would take longer."""

    site: Site  # all their rows
    columns: Array  # (n_rows, n_classes - 1, n_columns)
    local: Array  # (n_rows, n_classes - 1, n_local)
    narrow: NDArray[Any]  # the columns for the curvature, which only directs the steps: with half the digits
    numbers: slice  # of the environments
    sizes: list[int]  # of the environments, in rows

    @property
    def rows(self) -> list[slice]:
        """Where each environment's rows are, a row for each class but the first."""
        stops = (np.cumsum([0, *self.sizes]) * self.columns.shape[1]).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(stops)]

    def log_odds(self, common: Array, each: Array) -> Array:
        """Return the log-odds of each row and class but the first."""
        own = np.repeat(each[self.numbers], self.sizes, axis=0)
        return np.asarray(_predicted(self.columns, common) + np.einsum("nkl,nl->nk", self.local, own))


def _blocks(sites: Sequence[Site], designs: Sequence[Array], local: Sequence[Array]) -> list[_Block]:
    """Return blocks of environments, as many in each as the cache holds."""
    sizes, most = [len(design) for design in designs], BLOCK_NUMBERS // max(designs[0][0].size, 1)
    blocks, first, n_rows = [], 0, 0
    for number in range(1, len(sites) + 1):
        n_rows += sizes[number - 1]
        if number < len(sites) and n_rows + sizes[number] <= most:
            continue
        site = Site(*(_joined([getattr(s, n) for s in sites[first:number]]) for n in ("target", "weights")))
        columns, own = _joined(designs[first:number]), _joined(local[first:number])
        narrow = columns.astype(np.float32) if columns.shape[1] == 1 and len(columns) <= NARROW else columns
        blocks.append(_Block(site, columns, own, narrow, slice(first, number), sizes[first:number]))
        first, n_rows = number, 0
    return blocks


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model."""

    common: Array  # (n_columns,)
    intercepts: Array  # (n_sites, n_classes - 1)
    deviations: Array  # (n_sites, n_own) from the common effect
    log_odds: tuple[Array, ...]  # for each site (n_rows, n_classes - 1)
    loss: float
    errors: Array  # (n_sites, n_own) of the effects, for comparing sites; empty where they were not asked for


def fit_model(
    sites: Sequence[Site],
    designs: Sequence[Array],
    ridge: float,
    own: Sequence[int] = (),
    scales: Sequence[Sequence[Array]] = (),
    *,
    start: Fit | None = None,
    errors: bool = False,
) -> Fit:
    """Fit common effects, intercepts, and deviations by environment of the columns `own`.

    `scales` are further columns with an effect by environment and none in common, each a list of arrays, one for each
    site, of shape (n_rows, n_classes - 1).
    """
    n_others, n_columns = designs[0].shape[1:]
    local = local_designs(sites, designs, own, scales)
    blocks = _blocks(sites, designs, local)
    penalties = np.full(n_columns, ridge)
    penalties[list(own)] = OWN
    local_penalties = np.full(local[0].shape[2], DEVIATION)
    local_penalties[:n_others] = INTERCEPT
    common, each = np.zeros(n_columns), np.zeros((len(sites), len(local_penalties)))
    if start is None:
        start = _rough_fit(sites, designs, ridge, own, scales)
    if start is not None:  # the columns that came since begin with the common effect everywhere
        common, each[:, :n_others] = start.common[:n_columns].copy(), start.intercepts
        known = min(start.deviations.shape[1], len(own))
        each[:, n_others : n_others + known] = start.deviations[:, :known]

    def value(common: Array, each: Array) -> tuple[float, list[Array]]:
        odds = [block.log_odds(common, each) for block in blocks]
        loss = sum(block.site.loss(part) for block, part in zip(blocks, odds, strict=True))
        return loss + 0.5 * float(penalties @ common**2 + (each**2 @ local_penalties).sum()), odds

    loss, odds = value(common, each)
    system, gain, is_new = _System(blocks, odds, penalties, local_penalties), 1.0, True
    n_rows = sum(len(site.weights) for site in sites)
    for _ in range(MOST_STEPS):
        step, steps = system.solve(blocks, odds, -penalties * common, -local_penalties * each)
        before, gain, size = gain, 0.5 * system.gain, 1.0
        next_loss, next_odds = value(common + step, each + steps)
        while next_loss > loss and size > 1e-4:
            size /= 2
            next_loss, next_odds = value(common + size * step, each + size * steps)
        common, each, loss, odds = common + size * step, each + size * steps, next_loss, next_odds
        if gain * (gain / before) ** (2 if is_new else 1) < ENOUGH:  # Newton's steps gain the square of the one before
            break
        is_new = errors or gain > CLOSE * n_rows or gain > before / 10
        if is_new:
            system = _System(blocks, odds, penalties, local_penalties)
    places = n_others + np.arange(len(own))
    found = system.errors(list(own), places) if errors else np.zeros((len(sites), 0))
    by_site = np.split(_joined(odds), np.cumsum([len(site.weights) for site in sites])[:-1])
    return Fit(common, each[:, :n_others], each[:, places], tuple(by_site), loss, found)


def _rough_fit(
    sites: Sequence[Site],
    designs: Sequence[Array],
    ridge: float,
    own: Sequence[int],
    scales: Sequence[Sequence[Array]],
) -> Fit | None:
    """Fit a share of the rows, where there are many: the fit of all of them then begins near its end."""
    stride = sum(len(site.weights) for site in sites) // ROUGH
    steps = [max(1, min(stride, len(site.weights) // ROUGH_SITE)) for site in sites]
    if max(steps) == 1:  # few rows, or many environments with few rows each
        return None
    fewer = [Site(site.target[::k], site.weights[::k] * k) for site, k in zip(sites, steps, strict=True)]
    thin = [design[::k] for design, k in zip(designs, steps, strict=True)]
    thin_scales = [[scale[::k] for scale, k in zip(column, steps, strict=True)] for column in scales]
    return fit_model(fewer, thin, ridge, own, thin_scales)


def _predicted(columns: Array, effects: Array) -> Array:
    """Return the log-odds of each row and class but the first."""
    n_rows, n_others, n_columns = columns.shape
    return np.asarray((columns.reshape(-1, n_columns) @ effects).reshape(n_rows, n_others))


def local_designs(
    sites: Sequence[Site], designs: Sequence[Array], own: Sequence[int], scales: Sequence[Sequence[Array]]
) -> list[Array]:
    """Return what every environment has effects of its own for: intercepts, the columns `own`, the scales."""
    result, n_others = [], designs[0].shape[1]
    one = np.eye(n_others)
    for number, design in enumerate(designs):
        parts = [np.broadcast_to(one, (len(design), n_others, n_others))]
        if len(own):
            parts.append(design[:, :, list(own)])
        parts += [scale[number][:, :, None] for scale in scales]
        result.append(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2))
    return result


class _System:
    """The equations of one Newton step: a block of common effects, and one for each environment."""

    def __init__(
        self, blocks: Sequence[_Block], log_odds: Sequence[Array], penalties: Array, local_penalties: Array
    ) -> None:
        n_columns, n_local, n_sites = len(penalties), len(local_penalties), blocks[-1].numbers.stop
        self.common = np.diag(penalties + 1e-8)
        self.mixed, self.own = np.zeros((n_sites, n_columns, n_local)), np.zeros((n_sites, n_local, n_local))
        for block, odds in zip(blocks, log_odds, strict=True):
            chances = block.site.probabilities(odds)
            roots = block.site.roots(chances)
            both = whiten(roots.astype(block.narrow.dtype), block.narrow)
            mine = whiten(roots, block.local).astype(both.dtype)
            self.common += both.T @ both
            for number, rows in enumerate(block.rows, start=block.numbers.start):
                self.mixed[number] = both[rows].T @ mine[rows]
                self.own[number] = mine[rows].T @ mine[rows]
        self.own += np.diag(local_penalties + 1e-8)
        self.shares = np.linalg.solve(self.own, self.mixed.transpose(0, 2, 1))  # (n_sites, n_local, n_columns)
        self.reduced = self.common - np.einsum("eij,ejk->ik", self.mixed, self.shares)
        self.factor = linalg.cho_factor(self.reduced)
        self.gain = 0.0

    def solve(
        self, blocks: Sequence[_Block], log_odds: Sequence[Array], prior: Array, priors: Array
    ) -> tuple[Array, Array]:
        """Return the step of the common effects and of each environment's own, from some log-odds."""
        gradient, gradients = prior.copy(), priors.copy()
        for block, odds in zip(blocks, log_odds, strict=True):
            left = block.site.residuals(block.site.probabilities(odds)).ravel()
            gradient += block.columns.reshape(len(left), -1).T @ left
            own = block.local.reshape(len(left), -1)
            gradients[block.numbers] += [left[rows] @ own[rows] for rows in block.rows]
        right = gradient - np.einsum("elk,el->k", self.shares, gradients)
        step = linalg.cho_solve(self.factor, right)
        steps = np.linalg.solve(self.own, gradients[:, :, None])[:, :, 0] - self.shares @ step
        self.gain = float(gradient @ step + (gradients * steps).sum())
        return step, steps

    def errors(self, own: list[int], places: NDArray[np.intp]) -> Array:
        """Return the standard errors of the effects of the columns `own` in each environment.

        What is uncertain about all environments alike is left out, such as which of two columns that say the same has
        the effect: these errors are for comparing environments.
        """
        inverse, n_sites = linalg.inv(self.reduced), len(self.own)
        result = np.zeros((n_sites, len(own)))
        alone = np.array([np.diag(linalg.inv(block)) for block in self.own])
        for number, (column, place) in enumerate(zip(own, places, strict=True)):
            lean = np.eye(len(inverse))[column] - self.shares[:, place]  # of each effect on the common ones
            covariance = lean @ inverse @ lean.T
            alike = (covariance.sum() - np.trace(covariance)) / max(n_sites * (n_sites - 1), 1)
            variance = np.diag(covariance) + alone[:, place] - max(float(alike), 0.0)
            result[:, number] = np.sqrt(np.maximum(variance, alone[:, place]))
        return result


def score_tests(
    sites: Sequence[Site],
    designs: Sequence[Array],
    local: Sequence[Array],
    fit: Fit,
    ridge: float,
    further: Sequence[Sequence[Array]],
) -> Array:
    """Return for each column of the designs, and for each further one, the score statistic of its interaction.

    The penalty leaves a part of every common effect in the residuals, more of it where more rows are. It is taken out
    of the scores, so that it does not look like a change of the effect where environments differ in size. Statistics
    are smaller by the share of the rows that the fit has used up.
    """
    n_sites, n_columns = len(sites), designs[0].shape[2]
    n_tested = n_columns + len(further)
    parts: list[tuple[Array, Array]] = []
    for block in _blocks(sites, designs, local):
        chances = block.site.probabilities(_joined(fit.log_odds[block.numbers]))
        more = [_joined(column[block.numbers])[:, :, None] for column in further]
        columns = np.concatenate([block.columns, *more, block.local], axis=2)
        left, white = block.site.residuals(chances).ravel(), whiten(block.site.roots(chances), columns)
        flat = columns.reshape(white.shape)
        parts += [(left[rows] @ flat[rows], white[rows].T @ white[rows]) for rows in block.rows]
    gradients, information = (np.stack(part) for part in zip(*parts, strict=True))
    own = information[:, n_tested:, n_tested:].copy()
    sizes = 1e-6 * np.maximum(np.trace(own, axis1=1, axis2=2), 1e-9)
    own += sizes[:, None, None] * np.eye(own.shape[1])
    shares = np.linalg.solve(own, information[:, n_tested:])[:, :, :n_tested]
    reduced = information[:, :n_tested, :n_tested] - information[:, :n_tested, n_tested:] @ shares
    scores = gradients[:, :n_tested] - np.einsum("elt,el->et", shares, gradients[:, n_tested:])
    cross, spread = reduced[:, :, :n_columns], np.diagonal(reduced, axis1=1, axis2=2)
    total = ridge * np.eye(n_columns) + cross[:, :n_columns].sum(axis=0)
    left_over = scores[:, :n_columns].sum(axis=0)
    n_used, n_rows = n_columns + local[0].shape[2] * n_sites, sum(len(site.weights) for site in sites)
    factor = linalg.cho_factor(total + 1e-8 * np.eye(n_columns))
    scores -= cross @ linalg.cho_solve(factor, left_over)
    share_left = max(1 - n_used / (n_rows * designs[0].shape[1]), 0.5)
    if n_sites > MOST_CONTRASTS:
        found = [_between_many(scores[:, j], spread[:, j], cross[:, j], total) for j in range(n_tested)]
        return np.asarray(found, dtype=np.float64) * float(share_left)
    contrasts = linalg.null_space(np.ones((1, n_sites)))
    shared = cross.transpose(1, 0, 2)  # (n_tested, n_sites, n_columns)
    solved = linalg.cho_solve(factor, cross.reshape(-1, n_columns).T).reshape(n_columns, n_sites, n_tested)
    variances = spread.T[:, :, None] * np.eye(n_sites) - shared @ solved.transpose(2, 0, 1)
    variances = contrasts.T @ variances @ contrasts
    sizes = np.trace(variances, axis1=1, axis2=2) / (n_sites - 1)
    some = np.flatnonzero(sizes > 1e-9)
    variances = variances[some] + 1e-6 * sizes[some, None, None] * np.eye(n_sites - 1)
    leads = (contrasts.T @ scores[:, some]).T[:, :, None]
    statistics = np.zeros(n_tested)
    statistics[some] = (leads * np.linalg.solve(variances, leads)).sum(axis=(1, 2))
    return np.asarray(statistics * share_left)


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


def _log_sum(log_odds: Array) -> Array:
    """Return log(1 + Σ exp(log-odds)) of each row; scipy's logsumexp costs more than the sum on few rows."""
    if log_odds.shape[1] == 1:
        return np.asarray(np.logaddexp(0, log_odds[:, 0]))
    top = np.maximum(log_odds.max(axis=1), 0)
    return np.asarray(top + np.log(np.exp(-top) + np.exp(log_odds - top[:, None]).sum(axis=1)))
