"""Scores of compared methods on rows that they were not fitted on, and their gain over ERM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows
from holdfast.metrics import auroc

METRICS: Mapping[str, str] = {  # name -> in words
    "accuracy": "mean accuracy",
    "worst": "lowest accuracy",
    "balanced_accuracy": "mean balanced accuracy",
    "auroc": "mean AUROC",
    "log_loss": "mean log loss",
    "brier": "mean Brier score",
}
LOWER_IS_BETTER = ("log_loss", "brier")


@dataclass(frozen=True)
class MethodScore:
    """How one method did on what it had not seen."""

    method: str
    mean: float  # mean accuracy over the parts
    worst: float  # accuracy in the worst part
    parts: Mapping[str, float]  # accuracy by environment left out, or by half
    spread: float  # largest minus smallest log loss over environments; NaN without probabilities
    gain: float  # how much better than ERM, in the metric that ranks
    gain_low: float  # 95 % interval of the gain
    gain_high: float
    problem: str | None = None  # why it could not be fitted
    remarks: tuple[str, ...] = ()  # what its fits warned of, each with the number of fits
    metrics: Mapping[str, float] = field(default_factory=dict)  # every metric in METRICS


@dataclass(frozen=True, eq=False)
class Answers:
    """What all fits of one method said about the rows that they had not seen."""

    right: NDArray[np.bool_]  # (n_rows,)
    probabilities: NDArray[np.float64] | None  # (n_rows, n_classes)
    remarks: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Parts:
    """Class and environment of every row, and the part in which its accuracy counts: environment, or half."""

    codes: NDArray[np.intp]  # (n_rows,)
    environments: NDArray[np.intp]  # (n_rows,)
    parts: NDArray[np.intp]  # (n_rows,)
    names: tuple[str, ...]  # of the parts

    def rows(self, metric: str) -> list[Rows]:
        """Return the rows over which a metric is computed, a list for each part."""
        of_row = self.parts if metric in ("accuracy", "worst") else self.environments
        return [np.flatnonzero(of_row == number) for number in np.unique(of_row)]


def collect(
    outcomes: list[Any], held_out: Sequence[Rows], classes: NDArray[Any], labels: NDArray[Any]
) -> Answers | str:
    """Join the held-out rows of all fits and what they warned of first, or return the first problem."""
    right = np.zeros(len(labels), dtype=bool)
    probabilities: NDArray[np.float64] | None = np.zeros((len(labels), len(classes)))
    remarks: dict[str, list[str]] = {}
    for outcome, rows in zip(outcomes, held_out, strict=True):
        if isinstance(outcome, str):
            return outcome
        right[rows], answers, known, warned = outcome
        if answers is None or probabilities is None:
            probabilities = None
        else:
            probabilities[np.ix_(rows, np.searchsorted(classes, known))] = answers
        for kind, text in warned:
            remarks.setdefault(kind, []).append(text)
    lines = (f"in {len(texts)} of {len(held_out)} fits: {texts[0]}" for texts in remarks.values())
    return Answers(right, probabilities, tuple(lines))


def _row_values(metric: str, answers: Answers, codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return what each row adds to a metric that is a mean over rows; NaN without probabilities."""
    if metric in ("accuracy", "worst", "balanced_accuracy"):
        return answers.right.astype(np.float64)
    if answers.probabilities is None:
        return np.full(len(codes), np.nan)
    if metric == "log_loss":
        return np.asarray(-np.log(np.maximum(answers.probabilities[np.arange(len(codes)), codes], 1e-6)))
    truth = np.eye(answers.probabilities.shape[1])[codes]
    squares = ((answers.probabilities - truth) ** 2).sum(axis=1)
    return np.asarray(squares / 2 if truth.shape[1] == 2 else squares)


def _mean(metric: str, values: NDArray[np.float64], codes: NDArray[np.intp]) -> tuple[float, float]:
    """Return the mean over the rows of one part and its variance; classes count alike for balanced accuracy."""
    balanced = metric == "balanced_accuracy"
    by_class = [values[codes == code] for code in np.unique(codes)] if balanced else [values]
    # n equal values still are uncertain: one more row of the other kind is added to each side.
    variances = [(part.var() + 1.0 / (len(part) + 1)) / len(part) for part in by_class]
    return float(np.mean([part.mean() for part in by_class])), float(np.sum(variances)) / len(by_class) ** 2


def score_method(name: str, table: Mapping[str, Answers | str], parts: Parts, ranked_by: str) -> MethodScore:
    """Score one method, with its gain over ERM in the metric that ranks, paired by row."""
    answers, nan = table[name], float("nan")
    if isinstance(answers, str):
        return MethodScore(name, nan, nan, {}, nan, nan, nan, nan, problem=answers)
    accuracies = [float(answers.right[rows].mean()) for rows in parts.rows("accuracy")]
    found = np.unique(parts.parts)
    metrics = {"accuracy": float(np.mean(accuracies)), "worst": min(accuracies)}
    losses: list[float] = []
    for metric in ("balanced_accuracy", "log_loss", "brier"):
        values = _row_values(metric, answers, parts.codes)
        means = [_mean(metric, values[rows], parts.codes[rows])[0] for rows in parts.rows(metric)]
        metrics[metric] = float(np.mean(means))
        losses = means if metric == "log_loss" else losses
    areas = _areas(answers, parts)
    metrics["auroc"] = float(np.nanmean(areas)) if not np.isnan(areas).all() else nan
    gain, error = _gain(answers, table["erm"], parts, ranked_by)
    return MethodScore(
        name,
        metrics["accuracy"],
        metrics["worst"],
        {parts.names[part]: accuracy for part, accuracy in zip(found, accuracies, strict=True)},
        float(max(losses) - min(losses)),
        gain,
        gain - 1.96 * error,
        gain + 1.96 * error,
        remarks=answers.remarks,
        metrics={metric: metrics[metric] for metric in METRICS},
    )


def _areas(answers: Answers, parts: Parts) -> NDArray[np.float64]:
    """Return the AUROC in each environment; NaN without probabilities or with one class only."""
    probabilities = answers.probabilities
    return np.array(
        [
            float("nan") if probabilities is None else auroc(parts.codes[rows], probabilities[rows])
            for rows in parts.rows("auroc")
        ]
    )


def _gain(answers: Answers, erm: Answers | str, parts: Parts, metric: str) -> tuple[float, float]:
    """Return how much better than ERM a method is, and the standard error."""
    nan = float("nan")
    if isinstance(erm, str):
        return nan, nan
    if metric == "auroc":  # not a mean over rows: the environments' differences show how sure it is
        differences = _areas(answers, parts) - _areas(erm, parts)
        present = differences[~np.isnan(differences)]
        if len(present) < 2:
            return float(present.mean()) if len(present) else nan, nan
        return float(present.mean()), float(present.std(ddof=1) / np.sqrt(len(present)))
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    difference = sign * (_row_values(metric, answers, parts.codes) - _row_values(metric, erm, parts.codes))
    pairs = [_mean(metric, difference[rows], parts.codes[rows]) for rows in parts.rows(metric)]
    means, variances = np.array(pairs).T
    return float(means.mean()), float(np.sqrt(variances.sum())) / len(pairs)
