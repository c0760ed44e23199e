"""Stage 3 beyond the worst case: the classifier whose risk is the same in every environment.

Proposition 1's soft halves weight a row by P_i(y|x) or by one over it, and their arithmetic mixtures weaken the stable
feature along with the unstable one. Their *geometric* mixtures do not: rows weighted by h(x)·P_i(y|x)^a / P_j(y|x)^a
have the posterior P(y|x)·(P_i/P_j)^a, in which everything that environments i and j share is as it was. The power a,
and with more than two environments the share of each, is found by `steps.find_step`.

The final estimator is fitted once, on the rows under every label c with weight P(c|x)·(P_i/P_j)^a, and not on the
labels they came with under other weights: a learner that memorizes its rows does not care how much each weighs.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from holdfast.environments import Environment, Rows, Weights, listed, take_rows
from holdfast.exceptions import IdenticalEnvironmentsWarning, SolverWarning
from holdfast.interpolation import Solution
from holdfast.judging.calibration import Calibration, calibrate
from holdfast.judging.judgements import Evidence, environment_codes, out_of_fold_evidence
from holdfast.learners import fit_rows, sample_weight_name, seeded_clone
from holdfast.seeding import Seeding

Array = NDArray[np.float64]
SKILLED = 2.0  # standard errors by which the pooled classifier must be better than the label frequencies
ALIKE = 2.0  # standard errors between environments' risks up to which they may be the same
# Standard errors by which rows must score higher under the judge of their own environment: 5 %, one side; where joint
# judges are asked first and separate ones after them, half of that for either.
KNOWN, KNOWN_OF_TWO = 1.64, 1.96
HELPFUL = 2.0  # likelihood ratio from which on knowing the environment helps: Akaike's price of a parameter
LEAST_SKILL = 0.3  # share of the pooled classifier's skill that must be left
# In standard deviations of the direction's scores, noise included: ways to equal risks that are tried, and what a step
# may be; a direction in which judges hardly differ is no way to anything.
WAYS, LARGEST_STEP = 0.25 * 1.25 ** np.arange(20), 8.0
MOST_ROWS = 20_000  # rows that the search looks at
LEAST_ROWS = 1_000  # of them from each environment that has as many, however rare it is
Verdict = Literal["moved", "identical", "undecided", "no skill", "nothing stable"]


@dataclass(frozen=True, eq=False)
class Step:
    """A step after which environments are alike, or the reason why none is made."""

    verdict: Verdict
    size: float  # a, in standard deviations of the direction's scores
    contrast: Array  # (n_environments,) v, sum zero, length one
    risks: Array  # (n_environments,) class-balanced, out of fold, after the step
    pooled_risks: Array  # (n_environments,) before
    difference: float  # standard errors between the environments' risks before the step
    knows: float  # standard errors by which rows score higher under the judge of their own environment
    known: float  # how many of them were asked for
    gain: float  # likelihood ratio of knowing the environment
    signal: float  # share of the direction that is no noise, and of the way to equal risks that is gone
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
    known: float = KNOWN,
) -> Step:
    """Find the step toward equal risks of the environments, as far as the judges' differences can be trusted.

    Let d be what environments differ by and d + n what their judges differ by, with noise n of the judges' fits. At the
    way a, where risks are the same, a step of t·a leaves (1 − t)·a of d and adds t·a of n: the sum of their squares is
    least at t = var d/(var d + var n). That is the share of the judges' difference that is best to follow on rows that
    they were not fitted on, and is measured so. Where the skill runs out first, the last step with enough of it is
    taken if the risks may be the same there.

    Parameters
    ----------
    evidence : Evidence
        Of rows that the judges were not fitted on.
    y_codes, codes : arrays of shape (n_rows,)
        Class and environment of each row.
    sample_weight : array of shape (n_rows,), optional
    seeding : Seeding, optional
        Draws the rows to look at when there are very many.
    known : float
        Standard errors by which rows must score higher under the judge of their own environment.
    """
    weights = np.ones(len(y_codes)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    kept = np.flatnonzero(weights > 0)
    searched = weights
    if len(kept) > MOST_ROWS:
        kept, searched = _drawn(kept, codes, weights, (seeding or Seeding(0)).generator("step rows"))
    problem = _Problem(evidence, y_codes[kept], codes[kept], searched[kept], kept)
    before, errors = problem.risks(problem.pooled)
    by_risk = _unit(before - before.mean())
    best = max((_Direction(problem, v) for v in (by_risk, problem.main_contrast(before))), key=lambda way: way.gain)
    difference = _standard_errors(best.contrast, before, errors)
    chance = np.log(problem.n_classes)
    history = [{"step": 0.0, "group_risks": before.tolist(), "skill": 1.0}]
    verdict: Verdict
    size, after = 0.0, before
    if chance - before.mean() < SKILLED * np.sqrt((errors**2).sum()) / len(errors):
        verdict = "no skill"
    elif best.knows < known or best.gain < HELPFUL:
        verdict = "identical" if difference < ALIKE else "undecided"
    else:
        size, after, alike = _search(problem, best, difference, before, history)
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
        best.knows,
        known,
        best.gain,
        best.signal,
        float((chance - after.mean()) / (chance - before.mean())) if before.mean() < chance else 0.0,
        pooled_weight,
        judge_weights,
        calibrate(moved, y_codes, weights, offsets=True),
        sorted(history, key=lambda entry: entry["step"]),
    )


def _drawn(kept: Rows, codes: Rows, weights: Weights, generator: np.random.Generator) -> tuple[Rows, Weights]:
    """Draw the rows to look at; rare environments give more than their share, at less weight."""
    drawn = generator.choice(kept, MOST_ROWS, replace=False)
    weights, share, parts = weights.copy(), MOST_ROWS / len(kept), []
    environments = np.unique(codes[kept])
    least = min(LEAST_ROWS, MOST_ROWS // len(environments))
    for code in environments:
        there, part = kept[codes[kept] == code], drawn[codes[drawn] == code]
        if len(part) < min(least, len(there)):
            part = generator.choice(there, min(least, len(there)), replace=False)
            weights[part] *= share * len(there) / len(part)
        parts.append(part)
    return np.sort(np.concatenate(parts)), weights


def _search(
    problem: _Problem, direction: _Direction, difference: float, before: Array, history: list[dict[str, Any]]
) -> tuple[float, Array, bool]:
    """Return the step, the environments' risks after it, and whether they may be the same at the end of its way."""
    chance = np.log(problem.n_classes)

    def at(size: float) -> tuple[float, float, Array]:
        risks, errors = problem.risks(problem.pooled + size * direction.scores)
        left = float((chance - risks.mean()) / (chance - before.mean()))
        history.append({"step": size, "group_risks": risks.tolist(), "skill": left})
        return _standard_errors(direction.contrast, risks, errors), left, risks

    ways = WAYS[WAYS * direction.signal <= LARGEST_STEP]
    apart, too_short, too_long = difference, 0.0, float(ways[-1])
    for way in ways:
        there, left, _ = at(float(way))
        if there <= 0 or left < LEAST_SKILL:
            too_long = float(way)
            break
        too_short, apart = float(way), there
    for _ in range(4):
        middle = (too_short + too_long) / 2
        there, left, _ = at(middle)
        if there <= 0 or left < LEAST_SKILL:
            too_long = middle
        else:
            too_short, apart = middle, there
    step = direction.signal * too_short
    return step, at(step)[2], apart <= ALIKE


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
        self.mean = mean = judges.mean(axis=0)
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
        return self.means(_losses(scores, self.y, self.balanced))

    def means(self, values: Array) -> tuple[Array, Array]:
        """Return each environment's class-balanced mean of (n_rows,) values, and its standard error."""
        means, errors = np.empty(len(self.environments)), np.empty(len(self.environments))
        for code, rows in enumerate(self.environments):
            share = self.balanced[rows] / self.balanced[rows].sum()
            means[code] = share @ values[rows]
            errors[code] = np.sqrt(share**2 @ (values[rows] - means[code]) ** 2)
        return means, errors

    def follow(self, scores: Array, contrast: Array) -> tuple[float, float]:
        """Return the likelihood ratio of going from the mean judge to each environment's own, and how far is best.

        Environments have a scale of their own at either end. At share one, (mean + along)·s_e is the own judge.
        """
        along = scores * (contrast / np.maximum(self.own_scales, 0.1))[self.codes][:, None]
        effective = self.balanced.sum() ** 2 / (self.balanced**2).sum()
        shares = self.balanced / self.balanced.sum()

        def loss(share: float) -> float:
            return float(shares @ self._own_losses(self.mean + share * along))

        found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 0.02})
        gain = 2.0 * effective * (loss(0.0) - float(found.fun))
        return max(0.0, gain), float(found.x)

    def _own_losses(self, scores: Array) -> Array:
        """Return the loss of each row, every environment calibrated by itself."""
        losses = np.empty(len(self.y))
        for rows in self.environments:
            losses[rows] = _losses(scores[rows], self.y[rows], self.balanced[rows])
        return losses


class _Direction:
    """A contrast v of environments with its scores sum_e v_e z_e, and the evidence for it, out of fold."""

    def __init__(self, problem: _Problem, contrast: Array) -> None:
        self.contrast = contrast
        scores = np.einsum("e,enk->nk", contrast, problem.judges)
        self.spread = float(np.sqrt(problem.balanced @ (scores**2).sum(axis=1) / problem.balanced.sum()))
        self.scores = scores / max(self.spread, 1e-12)
        differs = self.spread > 1e-9
        self.gain, self.signal = problem.follow(scores, contrast) if differs else (0.0, 0.0)
        own = self.scores[np.arange(len(problem.y)), problem.y]
        self.knows = _standard_errors(contrast, *problem.means(own)) if differs else 0.0


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


log = logging.getLogger(__name__)

LEAST_TARGET = 0.02  # labels that are less probable are left out: many rows, little weight
PAPER = "PIClassifier(halves='hard', interpolation='worst_case')"  # takes what differs to be unstable
N_DRAWS = 5  # labels drawn for each row when the estimator takes no weights


def solve_invariant(
    estimator: Any,
    X: Any,
    y_codes: NDArray[np.intp],
    environments: Sequence[Environment],
    *,
    n_classes: int,
    seeding: Seeding,
    sample_weight: Weights | None = None,
    folds: int | Rows | None = None,
    repeats: int | None = None,
    n_jobs: int | None = None,
) -> Solution:
    """Fit the estimator where its risk is the same in every environment; where nothing differs, plain ERM.

    Parameters
    ----------
    estimator : classifier
        Cloned. It is fitted folds × repeats times for the judges (each environment's, where they are not joint), and
        once in the end.
    X, y_codes : rows and class codes
    environments : sequence of Environment
        They hold every row once.
    n_classes : int
    seeding : Seeding
    sample_weight : array of shape (n_rows,), optional
    folds : int or array of shape (n_rows,), optional
        Number of folds for the judges, or the fold of each row; None: see `out_of_fold_evidence`.
    repeats : int, optional
        Times that folds are dealt anew.
    n_jobs : int, optional
        Judges fitted at the same time.

    Returns
    -------
    Solution
        `group_risks` are the environments' (class-balanced, out of fold, by the judges' scores that the final estimator
        is fitted to), `gap` is the largest less the smallest of them, `group_weights` is the contrast of the
        environments times the size of the step, and `history` has an entry for each step tried.
    """
    codes, known = environment_codes(environments, len(y_codes)), KNOWN
    for joint in (True, False):
        evidence = out_of_fold_evidence(
            estimator,
            X,
            y_codes,
            environments,
            n_classes=n_classes,
            seeding=seeding,
            sample_weight=sample_weight,
            folds=folds,
            repeats=repeats,
            joint=joint,
            n_jobs=n_jobs,
        )
        known = KNOWN_OF_TWO if evidence.joint else known
        step = find_step(evidence, y_codes, codes, sample_weight=sample_weight, seeding=seeding, known=known)
        log.info(
            "invariant: %s, step %.2f, risks differ by %.1f and own scores by %.1f standard errors, gain %.1f, "
            "signal %.0f%%, skill left %.0f%%, %s judges",
            step.verdict,
            step.size,
            step.difference,
            step.knows,
            step.gain,
            100 * step.signal,
            100 * step.skill,
            "joint" if evidence.joint else "separate",
        )
        # Joint judges differ little where rows hardly tell, or where the estimator knows no interactions; judges of
        # their own are the second opinion.
        if step.verdict in ("moved", "no skill") or not evidence.joint:
            break
    if step.verdict == "moved":
        targets = step.probabilities(evidence.pooled, evidence.judges)
        fitted = fit_relabeled(seeded_clone(estimator, seeding, "erm"), X, targets, sample_weight, seeding)
        risks = step.risks
    else:
        warn_of_verdict(step, environments)
        weights = sample_weight if sample_weight_name(estimator) is not None else None
        fitted = fit_rows(seeded_clone(estimator, seeding, "erm"), X, y_codes, np.arange(len(y_codes)), weights)
        risks = step.pooled_risks
    moved = step.size * step.contrast if step.verdict == "moved" else np.zeros(len(environments))
    return Solution(fitted, risks, float(np.ptp(risks)), moved, "invariant", step.history)


def fit_relabeled(
    estimator: Any, X: Any, targets: NDArray[np.float64], sample_weight: Weights | None, seeding: Seeding
) -> Any:
    """Fit `estimator` itself on rows that carry every label with its probability, (n_rows, n_classes)."""
    if sample_weight_name(estimator) is None:
        chances = targets.cumsum(axis=1)
        draws = seeding.generator("labels").random((len(targets), N_DRAWS))
        labels = (draws[:, :, None] > chances[:, None, :-1]).sum(axis=2).ravel()
        rows = np.repeat(np.arange(len(targets)), N_DRAWS)
        return fit_rows(estimator, take_rows(X, rows), labels, np.arange(len(rows)))
    shares = np.where(targets < LEAST_TARGET, 0.0, targets)
    shares /= shares.sum(axis=1, keepdims=True)
    if sample_weight is not None:
        shares *= sample_weight[:, None]
    rows, labels = np.nonzero(shares)
    return fit_rows(estimator, take_rows(X, rows), labels, np.arange(len(rows)), shares[rows, labels])


def warn_of_verdict(step: Step, environments: Sequence[Environment], *, stacklevel: int = 4) -> None:
    """Say why plain ERM is fitted, and what to do about it."""
    names = [f"{e.name} {risk:.2f}" for e, risk in zip(environments, step.pooled_risks, strict=True)]
    evidence = (
        f"rows score higher under the classifier of their own environment by {step.knows:.1f} standard errors "
        f"({step.known:g} are needed), and knowing the environment improves predictions with a likelihood ratio of "
        f"{step.gain:.1f} ({HELPFUL:g} is needed)"
    )
    if step.verdict == "nothing stable":
        text = (
            f"the environments' risks differ ({listed(names)}), but a classifier with the same risk in all of them "
            f"would keep {max(step.skill, 0):.0%} of the skill or less: labels may be noisier, or all features weaker, "
            f"in some environments. Plain ERM is fitted. Look at the audit; if a feature is unstable, use {PAPER}."
        )
        warnings.warn(text, SolverWarning, stacklevel=stacklevel)
    elif step.verdict == "undecided":
        text = (
            f"the environments' risks differ ({listed(names)}), but the rows do not tell whether a feature is unstable "
            f"or everything is weaker, as with noisier labels, in some of them: {evidence}. Plain ERM is fitted. More "
            f"rows would tell; if you know that a feature is unstable, use {PAPER}."
        )
        warnings.warn(text, SolverWarning, stacklevel=stacklevel)
    elif step.verdict == "no skill":
        text = (
            "out of fold the estimator predicts no better than the label frequencies, so there is nothing to compare. "
            "Plain ERM is fitted. More rows, other features or another estimator would help."
        )
        warnings.warn(text, IdenticalEnvironmentsWarning, stacklevel=stacklevel)
    else:
        text = (
            f"{evidence}: there is no evidence that what predicts the label changes between them. Plain ERM is fitted. "
            "More rows, or environments that differ more, would help."
        )
        warnings.warn(text, IdenticalEnvironmentsWarning, stacklevel=stacklevel)
