"""How well labels are predicted: by group, at worst and on average, with intervals that survive small groups.

Groups are rows by number (`Group`); a group without rows does not count. Accuracies are fractions. Class codes run from
0 and number the columns of `probabilities`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.environments import Group, Rows, cross_groups, label_array, unique_labels
from holdfast.exceptions import InputError, LabelsError
from holdfast.seeding import RandomState, Seeding

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A value with its interval; `n_rows` is the number of rows behind it."""

    name: str
    value: float
    low: float
    high: float
    n_rows: int


@dataclass(frozen=True)
class GroupScores:
    """Accuracy in each non-empty group, the lowest of them and their plain mean."""

    groups: tuple[Score, ...]
    worst: Score
    average: Score


@dataclass(frozen=True, eq=False)
class Prevalence:
    """Share of each class in each environment."""

    environments: tuple[str, ...]
    classes: tuple[str, ...]
    counts: NDArray[np.intp]  # (n_environments, n_classes)

    @property
    def shares(self) -> Floats:
        """Return the shares, each row summing to one."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True), dtype=np.float64)

    def unlike(self, threshold: float = 0.1, z: float = 3.0) -> tuple[str, ...]:
        """Return the environments with a class share off the pooled one by `threshold` and by `z` standard errors."""
        pooled = self.counts.sum(axis=0) / self.counts.sum()
        noise = np.sqrt(pooled * (1 - pooled) / self.counts.sum(axis=1, keepdims=True))
        off = np.abs(self.shares - pooled)
        apart = ((off > threshold) & (off > z * noise)).any(axis=1)
        return tuple(name for name, unlike in zip(self.environments, apart, strict=True) if unlike)


def accuracy_by_group(y_true: ArrayLike, y_pred: ArrayLike, groups: Sequence[Group]) -> Floats:
    """Return the (weighted) accuracy in each group; nan for a group without rows.

    Examples
    --------
    >>> groups = (Group("a", np.array([0, 1])), Group("b", np.array([2])))
    >>> accuracy_by_group([1, 0, 1], [1, 1, 1], groups)
    array([0.5, 1. ])
    """
    correct = _correct(y_true, y_pred)
    return np.array([float(correct[g.rows] @ g.probabilities()) if len(g) else np.nan for g in groups])


def label_attribute_groups(y: ArrayLike, attribute: ArrayLike, name: str = "attribute") -> tuple[Group, ...]:
    """Return the non-empty cells of label × attribute, each a group named `label=…, name=…`."""
    n_rows = len(np.asarray(y))
    columns = [_labels(y, n_rows, "labels"), _labels(attribute, n_rows, name)]
    return cross_groups(["label", name], [codes for _, codes in columns], [list(map(str, v)) for v, _ in columns])


def worst_group_accuracy(y_true: ArrayLike, y_pred: ArrayLike, attribute: ArrayLike) -> float:
    """Return the lowest accuracy over the non-empty label × attribute groups."""
    return float(accuracy_by_group(y_true, y_pred, label_attribute_groups(y_true, attribute)).min())


def average_group_accuracy(y_true: ArrayLike, y_pred: ArrayLike, attribute: ArrayLike) -> float:
    """Return the plain mean of the accuracies of the non-empty label × attribute groups."""
    return float(accuracy_by_group(y_true, y_pred, label_attribute_groups(y_true, attribute)).mean())


def natural_test_score(
    y_true: ArrayLike, y_pred: ArrayLike, attributes: Mapping[str, ArrayLike]
) -> tuple[float, float]:
    """Return the paper's two scores of natural data: worst and average group accuracy, averaged over attributes."""
    if not attributes:
        raise InputError("attributes is empty. Pass at least one column, for example {'gender': frame['gender']}.")
    worst = [worst_group_accuracy(y_true, y_pred, attribute) for attribute in attributes.values()]
    average = [average_group_accuracy(y_true, y_pred, attribute) for attribute in attributes.values()]
    return float(np.mean(worst)), float(np.mean(average))


def score_groups(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    groups: Sequence[Group],
    *,
    level: float = 0.95,
    n_draws: int = 2000,
    random_state: RandomState = 0,
) -> GroupScores:
    """Return the accuracy of each group, the worst and the average one, with intervals.

    A plain bootstrap has no width where a group is perfect and misses the worst group's accuracy by far (a minimum of
    noisy values is too low already, and each draw lowers it again). Hence:

    * one group: the Wilson interval;
    * the worst group: from the lowest lower limit to the lowest upper limit, the latter with `level` shared by all
      groups (Bonferroni), so that it holds whichever group is truly the worst;
    * the average: a bootstrap stratified by group, run plainly and with half a correct and half a mistaken row added to
      each group (Jeffreys); from the lower of the two lower limits to the higher of the two upper ones.

    Group weights are not used here: rows count alike.
    """
    correct = _correct(y_true, y_pred)
    present = [group for group in groups if len(group)]
    if not present:
        raise InputError("groups has no row at all. Pass at least one group with a row.")
    sizes = np.array([len(group) for group in present])
    hits = np.array([int(correct[group.rows].sum()) for group in present])
    values = hits / sizes
    low, high = wilson_interval(hits, sizes, level=level)
    _, shared_high = wilson_interval(hits, sizes, level=1 - (1 - level) / len(present))
    worst = int(values.argmin())
    n_rows = int(sizes.sum())
    bounds = _average_interval(hits, sizes, level, n_draws, Seeding(random_state).generator("intervals"))
    return GroupScores(
        tuple(
            Score(group.name, float(value), float(lower), float(upper), len(group))
            for group, value, lower, upper in zip(present, values, low, high, strict=True)
        ),
        Score(present[worst].name, float(values[worst]), float(low.min()), float(shared_high.min()), int(sizes[worst])),
        Score("average", float(values.mean()), bounds[0], bounds[1], n_rows),
    )


def wilson_interval(hits: ArrayLike, sizes: ArrayLike, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return Wilson's limits for shares `hits / sizes`; they have width for 0 of n and n of n too.

    Examples
    --------
    >>> low, high = wilson_interval([9, 10], [10, 10])
    >>> low.round(3), high.round(3)
    (array([0.596, 0.722]), array([0.982, 1.   ]))
    """
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    center = (k + z**2 / 2) / (n + z**2)
    half = z * np.sqrt(k * (n - k) / n + z**2 / 4) / (n + z**2)
    return np.where(k == 0, 0.0, center - half), np.where(k == n, 1.0, center + half)


def difference_interval(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    y_pred_other: ArrayLike,
    *,
    level: float = 0.95,
    n_draws: int = 2000,
    random_state: RandomState = 0,
) -> tuple[float, float, float]:
    """Return accuracy minus another classifier's on the same rows, and its interval.

    Rows where both are right or both wrong cancel, so the rows are drawn in pairs (bootstrap over the four outcomes,
    with a quarter of a row added to each so that it has width when the two never disagree).
    """
    first, second = _correct(y_true, y_pred), _correct(y_true, y_pred_other)
    counts = np.bincount(2 * first.astype(np.intp) + second, minlength=4)
    generator = Seeding(random_state).generator("differences")
    shares = generator.dirichlet(counts + 0.25, size=n_draws)  # (n_draws, 4): neither, other only, this only, both
    low, high = np.quantile(shares[:, 2] - shares[:, 1], [0.5 - level / 2, 0.5 + level / 2])
    value = float(first.mean() - second.mean())
    return value, min(float(low), value), max(float(high), value)


def correlation(x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the (weighted) Pearson correlation; nan when either is constant.

    Examples
    --------
    >>> round(correlation([0, 1, 1], [0, 1, 0]), 12)
    0.5
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    w = np.ones(len(a)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(a) == len(b) == len(w):
        raise InputError(f"correlation was given {len(a)}, {len(b)} and {len(w)} values. Pass equally many.")
    if not w.sum() > 0:
        return float("nan")
    a, b = _standardized(a, w / w.sum()), _standardized(b, w / w.sum())
    return float(np.clip((w / w.sum() * a) @ b, -1.0, 1.0))


def group_correlation(x: ArrayLike, y: ArrayLike, group: Group) -> float:
    """Return the correlation of `x` and `y` over a group's rows, with its weights if it has any."""
    return correlation(np.asarray(x)[group.rows], np.asarray(y)[group.rows], group.weights)


def auroc(codes: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the area under the ROC curve: two classes, or the plain mean of one class against the rest.

    Ties count one half. Classes that are absent (or alone) are left out; nan when none is left.

    Examples
    --------
    >>> auroc([0, 0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]])
    0.75
    """
    y, p = _coded(codes, probabilities)
    columns = [1] if p.shape[1] == 2 else range(p.shape[1])
    areas = [_binary_auroc(y == column, p[:, column]) for column in columns]
    present = [area for area in areas if not np.isnan(area)]
    return float(np.mean(present)) if present else float("nan")


def sensitivity_specificity(y_true: ArrayLike, y_pred: ArrayLike, positive: Any) -> tuple[float, float]:
    """Return the share of `positive` rows found and of other rows left alone; nan where there is no such row."""
    truth, found = np.asarray(y_true) == positive, np.asarray(y_pred) == positive
    sensitivity = float(found[truth].mean()) if truth.any() else float("nan")
    return sensitivity, float((~found[~truth]).mean()) if (~truth).any() else float("nan")


def calibration_error(codes: ArrayLike, probabilities: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the expected calibration error of the predicted class, over bins of equal width.

    Examples
    --------
    >>> round(calibration_error([0, 1], [[0.8, 0.2], [0.8, 0.2]]), 3)
    0.3
    """
    y, p = _coded(codes, probabilities)
    confidence = p.max(axis=1)
    correct = p.argmax(axis=1) == y
    bins = np.minimum((confidence * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(bins, weights=confidence - correct, minlength=n_bins)  # per bin: its size × its gap
    return float(np.abs(gaps).sum() / len(y))


def brier_score(codes: ArrayLike, probabilities: ArrayLike) -> float:
    """Return half the mean squared distance to the true class's corner: 0 to 1, the usual score for two classes."""
    y, p = _coded(codes, probabilities)
    distance = (p**2).sum(axis=1) - 2 * p[np.arange(len(y)), y] + 1
    return float(distance.mean() / 2)


def log_loss(codes: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean negative log probability of the true class (probabilities clipped at 1e-15)."""
    y, p = _coded(codes, probabilities)
    return float(-np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1.0)).mean())


def prevalence(y: ArrayLike, environments: ArrayLike) -> Prevalence:
    """Count each class in each environment."""
    n_rows = len(np.asarray(y))
    classes, codes = _labels(y, n_rows, "labels")
    names, places = _labels(environments, n_rows, "environments")
    cells = np.bincount(places * len(classes) + codes, minlength=len(names) * len(classes))
    return Prevalence(tuple(map(str, names)), tuple(map(str, classes)), cells.reshape(len(names), len(classes)))


def _average_interval(
    hits: NDArray[np.intp], sizes: NDArray[np.intp], level: float, n_draws: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the interval of the mean share: the wider of a plain and a smoothed bootstrap on either side."""
    chunk = max(1, 2_000_000 // len(sizes))  # a million groups must not take a million × n_draws numbers at once
    plain, smooth = [], []
    for start in range(0, n_draws, chunk):
        shape = (min(chunk, n_draws - start), len(sizes))
        plain.append((generator.binomial(sizes, hits / sizes, shape) / sizes).mean(axis=1))
        smooth.append(generator.beta(hits + 0.5, sizes - hits + 0.5, shape).mean(axis=1))
    tails = [0.5 - level / 2, 0.5 + level / 2]
    limits = np.array([np.quantile(np.concatenate(draws), tails) for draws in (plain, smooth)])
    return float(limits[:, 0].min()), float(limits[:, 1].max())


def _standardized(values: Floats, shares: Floats) -> Floats:
    """Return the values with (weighted) mean 0 and variance 1; nan when they are constant up to rounding."""
    scale = float(np.abs(values).max())
    if scale == 0:
        return np.full(len(values), np.nan)
    values = values / scale
    centered = values - shares @ values
    deviation = float(np.sqrt(shares @ centered**2))
    return centered / deviation if deviation > 1e-14 else np.full(len(values), np.nan)


def _binary_auroc(positive: NDArray[np.bool_], scores: Floats) -> float:
    """Return the share of positive-negative pairs in the right order."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if not n_positive or not n_negative:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # mean rank of the tied rows
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def _correct(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows are predicted correctly."""
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim != 1 or truth.shape != predicted.shape:
        raise LabelsError(
            f"y_true has shape {truth.shape} and y_pred {predicted.shape}. "
            "Pass one true and one predicted label for each row."
        )
    return np.asarray(truth == predicted, dtype=bool)


def _coded(codes: ArrayLike, probabilities: ArrayLike) -> tuple[Rows, Floats]:
    """Return codes and probabilities as arrays that fit each other."""
    y, p = np.asarray(codes, dtype=np.intp), np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or y.shape != p.shape[:1] or not len(y):
        raise InputError(
            f"codes has shape {y.shape} and probabilities {p.shape}. "
            "Pass one code for each row and one column for each class."
        )
    if y.min() < 0 or y.max() >= p.shape[1]:
        raise LabelsError(
            f"codes run from {y.min()} to {y.max()}, but probabilities has {p.shape[1]} columns. "
            "Pass codes that number the columns."
        )
    return y, p


def _labels(values: ArrayLike, n_rows: int, what: str) -> tuple[NDArray[Any], Rows]:
    """Return the sorted distinct labels and each row's code, refusing missing ones."""
    labels = label_array(values, n_rows, what=what, error=LabelsError, example="frame['column']")
    return unique_labels(labels, what=what, error=LabelsError)
