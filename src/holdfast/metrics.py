"""Scores with intervals: accuracy by group, worst and average; AUROC, calibration error, Brier score, log loss.

Groups are rows by number (`Group`); a group without rows does not count. Accuracies are fractions. Class codes run from
0 and number the columns of `probabilities`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from holdfast.environments import Group, Rows, cross_groups, label_array, unique_labels
from holdfast.exceptions import InputError, LabelsError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value with the limits of its interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return {"value": self.value, "low": self.low, "high": self.high}


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


def score_groups(y_true: ArrayLike, y_pred: ArrayLike, groups: Sequence[Group], *, level: float = 0.95) -> GroupScores:
    """Return the accuracy of each group, the worst and the average one, with intervals.

    Each interval covers the true value with probability `level` or more, for any number and size of groups and any
    accuracies, if the rows are independent:

    * one group: the exact interval of a share (Clopper-Pearson);
    * the worst group: from the lowest lower limit to the lowest upper limit. The upper limits share the allowed error
      (Bonferroni), so the interval holds whichever group is truly the worst;
    * the average: see `average_interval`.

    Group weights are not used: every row counts the same.
    """
    correct = _correct(y_true, y_pred)
    present = [group for group in groups if len(group)]
    if not present:
        raise InputError("groups has no row at all. Pass at least one group with a row.")
    sizes = np.array([len(group) for group in present])
    hits = np.array([int(correct[group.rows].sum()) for group in present])
    values = hits / sizes
    low, high = exact_interval(hits, sizes, level=level)
    _, shared_high = exact_interval(hits, sizes, level=1 - (1 - level) / len(present))
    worst = int(values.argmin())
    average_low, average_high = average_interval(hits, sizes, level=level)
    return GroupScores(
        tuple(
            Score(group.name, float(value), float(lower), float(upper), len(group))
            for group, value, lower, upper in zip(present, values, low, high, strict=True)
        ),
        Score(present[worst].name, float(values[worst]), float(low.min()), float(shared_high.min()), int(sizes[worst])),
        Score("average", float(values.mean()), average_low, average_high, int(sizes.sum())),
    )


def exact_interval(hits: ArrayLike, sizes: ArrayLike, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the Clopper-Pearson limits of shares `hits / sizes`, which cover with probability `level` or more.

    Without any row the limits are 0 and 1.

    Examples
    --------
    >>> low, high = exact_interval([9, 10], [10, 10])
    >>> low.round(3), high.round(3)
    (array([0.555, 0.692]), array([0.997, 1.   ]))
    """
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    tail = (1 - level) / 2
    low = special.betaincinv(np.maximum(k, 1), n - k + 1, tail)
    high = special.betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail)
    return np.where(k == 0, 0.0, low), np.where(k == n, 1.0, high)


def average_interval(hits: ArrayLike, sizes: ArrayLike, *, level: float = 0.95) -> tuple[float, float]:
    """Return limits of the plain mean of the true shares behind `hits / sizes`, one share for each group.

    Groups of equal size are pooled and get the exact interval of one share: groups with different shares vary less
    than one share for all rows (Hoeffding, 1956). For groups of different sizes the limits come from Chernoff's bound
    at the least favorable shares. That covers for any shares and sizes, and is about 1.4 times as wide as a normal
    approximation when groups are large.

    Examples
    --------
    >>> low, high = average_interval([5, 190], [5, 200])
    >>> round(low, 3), round(high, 3)
    (0.691, 1.0)
    """
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if (n == n[0]).all():
        low, high = exact_interval(k.sum(), n.sum(), level=level)
        return float(low), float(high)
    tail = (1 - level) / 2
    return 1 - _highest_average(n - k, n, tail), _highest_average(k, n, tail)


def difference_interval(
    y_true: ArrayLike, y_pred: ArrayLike, y_pred_other: ArrayLike, *, level: float = 0.95
) -> tuple[float, float, float]:
    """Return accuracy minus another classifier's on the same rows, and its interval.

    Only rows that one of the two gets right and the other wrong matter. The difference is d = s(2f - 1): s is the share
    of such rows, f the share of them that the first classifier gets right. Exact limits of s and f, at half of the
    allowed error each, give limits of d that cover with probability `level` or more.
    """
    first, second = _correct(y_true, y_pred), _correct(y_true, y_pred_other)
    gained, lost = int((first & ~second).sum()), int((second & ~first).sum())
    shared = 1 - (1 - level) / 2
    s_low, s_high = (float(limit) for limit in exact_interval(gained + lost, len(first), level=shared))
    f_low, f_high = (2 * float(limit) - 1 for limit in exact_interval(gained, gained + lost, level=shared))
    low = f_low * (s_low if f_low > 0 else s_high)
    high = f_high * (s_high if f_high > 0 else s_low)
    return float(first.mean() - second.mean()), low, high


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


def auroc(codes: ArrayLike, probabilities: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Return the area under the ROC curve: two classes, or the plain mean of one class against the rest.

    Ties count one half. Classes that are absent (or alone) are left out; nan when none is left. `weights` are of rows.

    Examples
    --------
    >>> auroc([0, 0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]])
    0.75
    """
    y, p = _coded(codes, probabilities)
    columns = [1] if p.shape[1] == 2 else range(p.shape[1])
    counts = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    areas = [binary_auroc(y == column, p[:, column], counts) for column in columns]
    present = [area for area in areas if not np.isnan(area)]
    return float(np.mean(present)) if present else float("nan")


def auroc_interval(codes: ArrayLike, probabilities: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Interval:
    """Return the area under the ROC curve with its 95 % interval (Hanley and McNeil, on the scale of log-odds).

    With more than two classes the errors of their areas are averaged, as if they all went the same way. Weighted rows
    count as many as are worth as much (Kish).

    Examples
    --------
    >>> found = auroc_interval([0] * 20 + [1] * 20, [[1 - p, p] for p in np.linspace(0.1, 0.9, 40)])
    >>> found.value, round(found.low, 2)
    (1.0, 0.83)
    """
    y, p = _coded(codes, probabilities)
    w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    value, errors = auroc(y, p, w), []
    for column in [1] if p.shape[1] == 2 else range(p.shape[1]):
        area = binary_auroc(y == column, p[:, column], w)
        if not np.isnan(area):
            n_1, n_0 = (float(part.sum() ** 2 / (part**2).sum()) for part in (w[y == column], w[y != column]))
            area = min(max(area, 0.5 / n_1 / n_0), 1 - 0.5 / min(n_1, n_0))  # a perfect order still is uncertain
            first, second = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
            variance = (area * (1 - area) + (n_1 - 1) * first + (n_0 - 1) * second) / (n_1 * n_0)
            errors.append((area, np.sqrt(variance) / (area * (1 - area))))
    if not errors:
        return Interval(float("nan"), float("nan"), float("nan"))
    middle = float(special.logit(np.mean([area for area, _ in errors])))
    half = 1.96 * float(np.mean([error for _, error in errors]))
    low, high = special.expit(middle - half), special.expit(middle + half)
    return Interval(value, float(low), max(value, float(high)))


def calibration_error(codes: ArrayLike, probabilities: ArrayLike, *, n_bins: int = 15) -> float:
    """Return the expected calibration error of the stated risk, over bins of equal width.

    With two classes it is that of the second one's probability; with more, the mean over the classes, each against the
    rest.

    Examples
    --------
    >>> round(calibration_error([0, 1], [[0.8, 0.2], [0.8, 0.2]]), 3)
    0.3
    """
    y, p = _coded(codes, probabilities)
    errors = []
    for column in [1] if p.shape[1] == 2 else range(p.shape[1]):
        risks = p[:, column]
        bins = np.minimum((risks * n_bins).astype(np.intp), n_bins - 1)
        gaps = np.bincount(bins, weights=risks - (y == column), minlength=n_bins)  # per bin: its size × its gap
        errors.append(np.abs(gaps).sum() / len(y))
    return float(np.mean(errors))


def brier_score(codes: ArrayLike, probabilities: ArrayLike) -> float:
    """Return half the mean squared distance to the true class's corner: 0 to 1, the usual score for two classes."""
    from sklearn.metrics import brier_score_loss

    y, p = _coded(codes, probabilities)
    return float(brier_score_loss(y, p, labels=range(p.shape[1]), scale_by_half=True))


def log_loss(codes: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the mean negative log probability of the true class (probabilities clipped at 1e-15)."""
    from sklearn import metrics

    y, p = _coded(codes, probabilities)
    return float(metrics.log_loss(y, np.clip(p, 1e-15, 1.0), labels=range(p.shape[1])))


def prevalence(y: ArrayLike, environments: ArrayLike) -> Prevalence:
    """Count each class in each environment."""
    n_rows = len(np.asarray(y))
    classes, codes = _labels(y, n_rows, "labels")
    names, places = _labels(environments, n_rows, "environments")
    cells = np.bincount(places * len(classes) + codes, minlength=len(names) * len(classes))
    return Prevalence(tuple(map(str, names)), tuple(map(str, classes)), cells.reshape(len(names), len(classes)))


def _highest_average(hits: Floats, sizes: Floats, tail: float) -> float:
    """Return the upper limit of the mean share of groups of different sizes, exceeded with probability `tail` or less.

    With S the sum of the observed shares and t > 0, Chernoff's bound on so small an S is
    exp(t*S) * prod_g (1 - p_g + p_g*exp(-t/n_g))^n_g. For every t the mean of the p that make this bound equal `tail`,
    at its largest, is a valid limit; the smallest limit over t is returned.
    """
    n, counts = np.unique(sizes, return_counts=True)  # the least favorable shares are equal in groups of equal size
    n_groups, observed = int(counts.sum()), float((hits / sizes).sum())
    if observed == n_groups:
        return 1.0

    def limit(log_t: float) -> float:
        # Maximizing sum_g n_g*log(1 - p_g/a_g) for a given sum of p makes p_g = a_g - n_g*x, clipped to [0, 1].
        t = float(np.exp(log_t))
        a = -1 / np.expm1(-t / n)

        def excess(x: float) -> float:
            rest = np.maximum(1 - np.clip(a - n * x, 0, 1) / a, 1e-300)
            return float((counts * n) @ np.log(rest)) + t * observed - float(np.log(tail))

        lowest, highest = float(((a - 1) / n).min()), float((a / n).max())
        if excess(lowest) >= 0:  # even shares of 1 are not excluded
            return 1.0
        x = optimize.brentq(excess, lowest, highest, rtol=1e-14)
        return float(counts @ np.clip(a - n * x, 0, 1)) / n_groups

    # Below the first t shares of 1 are not excluded; at the last exp(-t/n) is 0 up to rounding for every group. Any t
    # gives a valid limit, so the search need not be exact.
    first = -np.log(tail) / (n_groups - observed)
    bounds = (float(np.log(first)), float(np.log(first + 40 * n[-1])))
    return float(optimize.minimize_scalar(limit, bounds=bounds, method="bounded", options={"xatol": 1e-2}).fun)


def _standardized(values: Floats, shares: Floats) -> Floats:
    """Return the values with (weighted) mean 0 and variance 1; nan when they are constant up to rounding."""
    scale = float(np.abs(values).max())
    if scale == 0:
        return np.full(len(values), np.nan)
    values = values / scale
    centered = values - shares @ values
    deviation = float(np.sqrt(shares @ centered**2))
    return centered / deviation if deviation > 1e-14 else np.full(len(values), np.nan)


def binary_auroc(positive: NDArray[np.bool_], scores: Floats, weights: Floats) -> float:
    """Return the share of positive-negative pairs in the right order."""
    values, places = np.unique(scores, return_inverse=True)
    right = np.bincount(places, weights * positive, len(values))
    wrong = np.bincount(places, weights * ~positive, len(values))
    pairs = right.sum() * wrong.sum()
    return float(right @ (np.cumsum(wrong) - wrong / 2) / pairs) if pairs > 0 else float("nan")


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
