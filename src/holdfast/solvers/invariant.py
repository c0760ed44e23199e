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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Environment, Rows, Weights, listed, take_rows
from holdfast.exceptions import IdenticalEnvironmentsWarning, SolverWarning
from holdfast.fitting import fit_rows, sample_weight_name, seeded_clone
from holdfast.seeding import Seeding
from holdfast.solvers import Solution
from holdfast.solvers.judges import environment_codes, out_of_fold_evidence
from holdfast.solvers.steps import HELPFUL, KNOWN, KNOWN_OF_TWO, Step, find_step

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
