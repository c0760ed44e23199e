"""How far to move a classifier, along the way in which environments differ, for the same risk in all of them.

Let B be the pooled classifier's scores and z_e those of environment e's judge. A step a along the contrast v gives
L_a = B + a·sum_e v_e z_e. With p(x1|y) shared and p_e(x2|y) not, the sum is a function of x2 alone: some a takes x2
out, and there the risk is the same in every environment (`docs/beyond-the-worst-case.md`). Three things are guarded:

* a classifier without skill has the same risk everywhere, too: some of the skill must be left;
* environments whose labels are noisier, or whose features are all weaker, differ by the *scale* of their scores: what
  is proportional to the mean judge is taken out of every judge first;
* judges differ by noise: knowing the environment must help out of fold, beyond a scale for each environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.calibration import Calibration, calibrate
from holdfast.environments import Rows, Weights
from holdfast.seeding import Seeding
from holdfast.solvers.judges import Evidence

Array = NDArray[np.float64]
DIFFERENT = 2.0  # standard errors between environments' risks from which on they differ
HELPFUL = 4.0  # likelihood ratio from which on knowing the environment helps: chi-squared, one degree, below 5 %
LEAST_SKILL = 0.3  # share of the pooled classifier's skill that must be left
LARGEST_STEP, STRIDE = 8.0, 0.25  # in standard deviations of the direction's scores
MOST_ROWS = 20_000  # rows that the search looks at
Verdict = Literal["moved", "identical", "no skill", "nothing stable"]


@dataclass(frozen=True, eq=False)
class Step:
    """A step after which environments are alike, or the reason why none is made."""

    verdict: Verdict
    size: float  # a, in standard deviations of the direction's scores
    contrast: Array  # (n_environments,) v, sum zero, length one
    risks: Array  # (n_environments,) class-balanced, out of fold, after the step
    pooled_risks: Array  # (n_environments,) before
    difference: float  # standard errors between the environments' risks before the step
    gain: float  # likelihood ratio of knowing the environment
    skill: float  # share of the pooled classifier's skill that is left
    pooled_weight: float  # what the pooled classifier's scores count for in L_a
    judge_weights: Array  # (n_environments,) what the judges' scores count for
    calibration: Calibration  # L_a -> probabilities at the label frequencies of all rows
    history: list[dict[str, Any]] = field(default_factory=list)  # step, risks and skill of each step tried

    def probabilities(self, pooled: Array, judges: Array) -> Array:
        """Return (n_rows, n_classes) probabilities from scores as in `Evidence`, of these or any other rows."""
        return self.calibration.probabilities(_moved(pooled, judges, self.pooled_weight, self.judge_weights))


def find_step(
    evidence: Evidence,
    y_codes: NDArray[np.intp],
    codes: Rows,
    *,
    sample_weight: Weights | None = None,
    seeding: Seeding | None = None,
) -> Step:
    """Find the smallest step after which the environments' risks differ by no more than two standard errors.

    Parameters
    ----------
    evidence : Evidence
        Of rows that the judges were not fitted on.
    y_codes, codes : arrays of shape (n_rows,)
        Class and environment of each row.
    sample_weight : array of shape (n_rows,), optional
    seeding : Seeding, optional
        Draws the rows to look at when there are very many.
    """
    weights = np.ones(len(y_codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    kept = np.flatnonzero(weights > 0)
    if len(kept) > MOST_ROWS:
        kept = np.sort((seeding or Seeding(0)).generator("step rows").choice(kept, MOST_ROWS, replace=False))
    problem = _Problem(evidence, y_codes[kept], codes[kept], weights[kept], kept)
    before, errors = problem.risks(problem.pooled)
    by_risk = _unit(before - before.mean())
    difference = _standard_errors(by_risk, before, errors)
    best = max((_Direction(problem, v) for v in (by_risk, problem.main_contrast(before))), key=lambda way: way.gain)
    chance = np.log(problem.n_classes)
    history = [{"step": 0.0, "risks": before.tolist(), "skill": 1.0}]
    verdict: Verdict
    size, after = 0.0, before
    if before.mean() >= chance:
        verdict = "no skill"
    elif difference < DIFFERENT or best.gain < HELPFUL:
        verdict = "identical"
    else:
        size, after, alike = _search(problem, best, by_risk, chance - float(before.mean()), history)
        verdict = "moved" if alike else "nothing stable"
    pooled_weight, judge_weights = problem.raw_weights(size, best)
    moved = _moved(evidence.pooled, evidence.judges, pooled_weight, judge_weights)
    return Step(
        verdict,
        size,
        best.contrast,
        after,
        before,
        difference,
        best.gain,
        float((chance - after.mean()) / (chance - before.mean())) if before.mean() < chance else 0.0,
        pooled_weight,
        judge_weights,
        calibrate(moved, y_codes, weights, offsets=True),
        sorted(history, key=lambda entry: entry["step"]),
    )


def _search(
    problem: _Problem, direction: _Direction, by_risk: Array, skill: float, history: list[dict[str, Any]]
) -> tuple[float, Array, bool]:
    """Return the smallest step that makes environments alike, their risks there, and whether enough skill is left."""

    def at(size: float) -> tuple[bool, bool, Array]:
        risks, errors = problem.risks(problem.pooled + size * direction.scores)
        left = float((np.log(problem.n_classes) - risks.mean()) / skill)
        history.append({"step": size, "risks": risks.tolist(), "skill": left})
        return _standard_errors(by_risk, risks, errors) <= DIFFERENT, left >= LEAST_SKILL, risks

    too_small = 0.0
    for size in np.arange(STRIDE, LARGEST_STEP + STRIDE, STRIDE):
        alike, skilled, risks = at(float(size))
        if alike or not skilled:
            break
        too_small = float(size)
    enough = float(size)
    for _ in range(3):
        middle = (too_small + enough) / 2
        alike_there, skilled_there, risks_there = at(middle)
        if alike_there or not skilled_there:
            enough, alike, skilled, risks = middle, alike_there, skilled_there, risks_there
        else:
            too_small = middle
    return enough, risks, alike and skilled


class _Problem:
    """Scores prepared for the search: calibrated, centered, free of each judge's own scale."""

    def __init__(self, evidence: Evidence, y: NDArray[np.intp], codes: Rows, weights: Weights, kept: Rows) -> None:
        n_environments, _, self.n_classes = evidence.judges.shape
        self.y, self.codes, self.natural = y, codes, weights
        self.environments = [np.flatnonzero(codes == code) for code in range(n_environments)]
        self.balanced = balanced_weights(y, codes, weights, self.n_classes)
        offsets = not evidence.are_probabilities
        self.pooled_scale = calibrate(evidence.pooled[kept], y, weights, offsets=offsets).scale
        self.judge_scales = np.array(
            [
                calibrate(evidence.judges[code, kept[rows]], y[rows], weights[rows], offsets=offsets).scale
                for code, rows in enumerate(self.environments)
            ]
        )
        self.pooled = self._centered(self.pooled_scale * evidence.pooled[kept])
        judges = np.stack(
            [self._centered(self.judge_scales[e] * evidence.judges[e, kept]) for e in range(n_environments)]
        )
        mean = judges.mean(axis=0)
        size = float(np.einsum("nk,nk,n->", mean, mean, self.balanced))
        self.own_scales = np.einsum("enk,nk,n->e", judges, mean, self.balanced) / max(size, 1e-12)
        self.judges = judges - (self.own_scales - 1.0)[:, None, None] * mean

    def _centered(self, scores: Array) -> Array:
        """Take out the mean over classes, and each class's mean over rows: offsets are fitted anew wherever needed."""
        scores = scores - scores.mean(axis=1, keepdims=True)
        return np.asarray(scores - (self.natural / self.natural.sum()) @ scores)

    def main_contrast(self, risks: Array) -> Array:
        """Return the contrast in which the judges differ most, pointing to larger risks."""
        apart = self.judges - self.judges.mean(axis=0)
        main = np.linalg.eigh(np.einsum("enk,fnk,n->ef", apart, apart, self.balanced))[1][:, -1]
        return _unit((main - main.mean()) * (1.0 if main @ (risks - risks.mean()) >= 0 else -1.0))

    def raw_weights(self, size: float, direction: _Direction) -> tuple[float, Array]:
        """Return what the raw scores, pooled and of each judge, count for after a step."""
        contrast = direction.contrast
        if size == 0:
            return self.pooled_scale, np.zeros(len(contrast))
        mean_share = float(contrast @ (self.own_scales - 1.0)) / len(contrast)
        return self.pooled_scale, size / direction.spread * (contrast - mean_share) * self.judge_scales

    def risks(self, scores: Array) -> tuple[Array, Array]:
        """Return each environment's class-balanced risk under one common calibration, and its standard error."""
        losses = _losses(scores, self.y, self.balanced)
        risks, errors = np.empty(len(self.environments)), np.empty(len(self.environments))
        for code, rows in enumerate(self.environments):
            share = self.balanced[rows] / self.balanced[rows].sum()
            risks[code] = share @ losses[rows]
            errors[code] = np.sqrt(share**2 @ (losses[rows] - risks[code]) ** 2)
        return risks, errors

    def gain(self, direction: Array, contrast: Array) -> float:
        """Return the likelihood ratio of following each environment along the direction, beyond a scale of its own."""
        along = direction * contrast[self.codes][:, None]
        effective = self.balanced.sum() ** 2 / (self.balanced**2).sum()
        share = self.balanced / self.balanced.sum()
        without = share @ self._own_losses(self.pooled)
        sizes = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
        gains = [float(without - share @ self._own_losses(self.pooled + size * along)) for size in sizes]
        return float(2.0 * effective * max(0.0, *gains))

    def _own_losses(self, scores: Array) -> Array:
        """Return the loss of each row, every environment calibrated by itself."""
        losses = np.empty(len(self.y))
        for rows in self.environments:
            losses[rows] = _losses(scores[rows], self.y[rows], self.balanced[rows])
        return losses


class _Direction:
    """A contrast v of environments with its scores sum_e v_e z_e, and the evidence for it."""

    def __init__(self, problem: _Problem, contrast: Array) -> None:
        self.contrast = contrast
        scores = np.einsum("e,enk->nk", contrast, problem.judges)
        self.spread = float(np.sqrt(problem.balanced @ (scores**2).sum(axis=1) / problem.balanced.sum()))
        self.scores = scores / max(self.spread, 1e-12)
        self.gain = problem.gain(self.scores, contrast) if self.spread > 1e-9 else 0.0


def balanced_weights(y: NDArray[np.intp], codes: Rows, weights: Weights, n_classes: int) -> Weights:
    """Return row weights under which all environments, and all classes in each, count the same; their mean is one."""
    cells = codes * n_classes + y
    totals = np.bincount(cells, weights, minlength=(int(codes.max()) + 1) * n_classes)
    n_seen = (totals.reshape(-1, n_classes) > 0).sum(axis=1)  # classes of each environment
    result = weights / totals[cells] / n_seen[codes]
    return np.asarray(result * len(y) / result.sum())


def _losses(scores: Array, y: NDArray[np.intp], weights: Weights) -> Array:
    """Return the log loss of each row after the calibration of least weighted mean loss."""
    probabilities = calibrate(scores, y, weights, offsets=True).probabilities(scores)
    return np.asarray(-np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-12)))


def _unit(contrast: Array) -> Array:
    """Return the contrast with length one."""
    return np.asarray(contrast / max(float(np.linalg.norm(contrast)), 1e-12))


def _standard_errors(contrast: Array, risks: Array, errors: Array) -> float:
    """Return how many standard errors the contrast of the risks is above zero."""
    error = float(np.sqrt(contrast**2 @ errors**2))
    return float(contrast @ risks) / max(error, 1e-12)


def _moved(pooled: Array, judges: Array, pooled_weight: float, judge_weights: Array) -> Array:
    """Return L_a, without its offsets."""
    moved = pooled_weight * pooled + np.einsum("e,enk->nk", judge_weights, judges)
    return np.asarray(moved - moved.mean(axis=1, keepdims=True))
