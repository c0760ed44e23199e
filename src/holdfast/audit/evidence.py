"""How much a partition can tell: sizes of the halves, what stands in the way, and the smallest change it would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from holdfast.audit.columns import Block, is_sparse
from holdfast.audit.correlations import effective_size
from holdfast.audit.judges import Floats
from holdfast.audit.naming import Naming
from holdfast.audit.results import PartitionEvidence
from holdfast.environments import Environment, listed

LABEL_ROWS = 5  # rows of a label, and rows without it, that both environments must have
NEARLY = 0.02  # alpha this close to 0 or 1 gets a remark


def weigh_partition(
    probabilities: Floats, y: NDArray[np.intp], home: Environment, away: Environment, min_group_size: int
) -> PartitionEvidence:
    """Say how much the judge `home` can tell about `away`.

    `probabilities` are the judge's, of shape (n_rows, n_classes), NaN where it has none.
    """
    right = probabilities[away.rows, y[away.rows]]
    alpha = float(right.mean())
    sizes = effective_size(np.nan_to_num(right)), effective_size(np.nan_to_num(1 - right, nan=0.0))
    problem = remark = None
    small = [environment for environment in (home, away) if len(environment) < min_group_size]
    if small:
        problem = f"no evidence: {small[0].name} has {len(small[0])} rows, and {min_group_size} are needed."
    elif np.isnan(probabilities[home.rows]).any():
        problem = f"no evidence: {home.name}'s classifier has no out-of-fold probabilities of its own rows."
    elif np.isnan(right).any():
        problem = f"no evidence: {home.name}'s classifier has no probabilities of {away.name}'s rows."
    elif not labels_to_test(y, (home, away), probabilities.shape[1]):
        problem = f"no evidence: no label has {LABEL_ROWS} rows with it and without it in both environments."
    elif sizes[1] < min_group_size:
        problem = (
            f"no evidence: {home.name}'s classifier is hardly ever wrong (alpha = {alpha:.3f}); the mistaken half has "
            f"{sizes[1]:.0f} effective rows, and {min_group_size} are needed."
        )
    elif alpha < NEARLY:
        remark = (
            f"{home.name}'s classifier is hardly ever right (alpha = {alpha:.3f}): the halves tell no more than the "
            "two environments themselves, between which the correlation is reversed."
        )
    elif alpha > 1 - NEARLY:
        remark = f"{home.name}'s classifier is hardly ever wrong (alpha = {alpha:.3f}): the evidence is thin."
    return PartitionEvidence(home.name, away.name, alpha, *sizes, float("nan"), problem, remark)


def labels_to_test(y: NDArray[np.intp], pair: tuple[Environment, Environment], n_classes: int) -> list[int]:
    """Return the labels that both environments show often enough; of two classes the second says it all."""
    counts = np.stack([np.bincount(y[environment.rows], minlength=n_classes) for environment in pair])
    sizes = np.array([[len(environment)] for environment in pair])
    enough = np.asarray(((counts >= LABEL_ROWS) & (sizes - counts >= LABEL_ROWS)).all(axis=0))
    return [label for label in ([1] if n_classes == 2 else range(n_classes)) if enough[label]]


def with_reach(
    evidence: PartitionEvidence,
    naming: Naming,
    pair: tuple[int, int],
    values: Block,
    names: Sequence[str],
    level: float,
) -> PartitionEvidence:
    """Add the change of correlation that a typical column would have been named for, and columns left out."""
    if evidence.problem is not None or pair not in naming.scores:
        return evidence
    spread = _spread(values)
    scores = naming.scores[pair]
    tested = np.isfinite(next(iter(scores.by_label.values())).statistic[:-1])  # the last column is the log-odds
    remark = evidence.remark
    if left_out := [names[column] for column in np.flatnonzero(~tested & (spread > 0)).tolist()]:
        text = f"not compared, because they hardly vary in one of the two: {listed(left_out)}."
        remark = text if remark is None else f"{remark} {text[0].upper()}{text[1:]}"
    if not tested.any():
        return replace(evidence, problem="no evidence: no column varies in both environments.", remark=None)
    cutoff = norm.isf(max(naming.threshold, level / max(naming.n_tests, 1)) / 2)
    errors = np.stack([part.standard_error[:-1] for part in scores.by_label.values()])
    # In the mistaken half, of mass 1 − alpha, correlation = score / ((1 − alpha)·sd): labels there are about balanced.
    reach = cutoff * np.median(errors[:, tested] / spread[tested]) / max(1 - evidence.alpha, 1e-9)
    return replace(evidence, detectable=min(float(reach), 1.0), remark=remark)


def _spread(values: Block) -> Floats:
    """Return every column's standard deviation."""
    if not is_sparse(values):
        return np.asarray(values.std(axis=0))
    mean = np.asarray(values.mean(axis=0)).ravel()
    mean_square = np.asarray(values.multiply(values).mean(axis=0)).ravel()
    return np.asarray(np.sqrt(np.maximum(mean_square - mean**2, 0.0)))
