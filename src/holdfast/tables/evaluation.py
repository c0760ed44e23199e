"""The numbers behind `holdfast evaluate`, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.environments import Group, split_environments
from holdfast.exceptions import LabelsError, TableError
from holdfast.metrics import (
    Score,
    auroc,
    brier_score,
    calibration_error,
    difference_interval,
    label_attribute_groups,
    log_loss,
    prevalence,
    score_groups,
    sensitivity_specificity,
)
from holdfast.tables.files import suggest
from holdfast.tables.inputs import read_environments, read_labels

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.files import TableFile


@dataclass(frozen=True, eq=False)
class Labeled:
    """What is known about the rows of a table."""

    y: NDArray[Any]  # (n_rows,)
    environments: NDArray[Any]  # (n_rows,) text
    known: frozenset[str]  # environments the classifier was fitted on
    attributes: Mapping[str, NDArray[Any]]  # each (n_rows,) text, missing as its own value
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answers:
    """A classifier's predictions for all rows."""

    labels: NDArray[Any]  # (n_rows,)
    probabilities: NDArray[np.float64] | None  # (n_rows, n_classes)
    classes: list[Any] = field(default_factory=list)


def read_labeled(
    table: TableFile, fitted: TableClassifier, *, environments: Sequence[str], attributes: Sequence[str]
) -> Labeled:
    """Read label, environment and attribute columns."""
    roles = fitted.roles
    notes = []
    names = list(environments) or [name for name in roles.environments if name in table.columns]
    table.require([roles.label, *names, *attributes])
    if not environments and len(names) < len(roles.environments):
        missing = [name for name in roles.environments if name not in names]
        names = []
        notes.append(f"there is no environment column {missing[0]!r}: all rows count as one environment")
    columns = list(dict.fromkeys([roles.label, *names, *attributes]))
    frame = table.read(columns, roles.types(names))
    where = np.full(len(frame), "all rows", dtype=object)
    if names:
        labels = read_environments(frame, names, roles.period, roles.environment_storages)
        where = np.array([str(label) for label in labels], dtype=object)
    return Labeled(
        read_labels(frame[roles.label], roles.label, fitted.classifier.classes_),
        where,
        frozenset(roles.known or map(str, fitted.classifier.environments_)),
        {name: _written(frame[name]) for name in attributes},
        tuple(notes),
    )


def _written(series: pd.Series[Any]) -> NDArray[Any]:
    """Return an attribute's values as text, missing as a value of its own."""
    return series.astype(object).where(series.notna(), "missing").astype(str).to_numpy(dtype=object)


def predict_labeled(table: TableFile, fitted: TableClassifier) -> Answers:
    """Predict all rows of a table, chunk by chunk."""
    parts = list(fitted.predictions(table))
    if not parts:
        raise TableError(f"{table.path} has a header but no rows. Pass a file with rows.")
    probabilities = [part.probabilities for part in parts if part.probabilities is not None]
    return Answers(
        np.concatenate([part.labels for part in parts]),
        np.concatenate(probabilities) if probabilities else None,
        list(fitted.classifier.classes_),
    )


def score(labeled: Labeled, answers: Answers, fitted: TableClassifier, *, positive: str | None) -> dict[str, Any]:
    """Return all scores of one classifier."""
    classes = answers.classes
    chosen = _positive(classes, positive)
    everything = Group("all rows", np.arange(len(labeled.y)))
    shares = prevalence(labeled.y, labeled.environments)
    environments = split_environments(labeled.environments, len(labeled.y))
    attributes = [_attribute(labeled, answers, name, column) for name, column in labeled.attributes.items()]
    unseen = sorted({str(label) for label in labeled.y} - {str(label) for label in classes})
    return {
        **fitted.names,
        "classes": [str(label) for label in classes],
        "positive": None if chosen is None else str(chosen),
        "labels_never_fitted": unseen,
        "overall": _rows(labeled, answers, everything, chosen),
        "environments": [
            {
                "name": environment.name,
                "known": environment.name in labeled.known,
                **_rows(labeled, answers, Group(environment.name, environment.rows), chosen),
                "shares": dict(zip(shares.classes, row, strict=True)),
            }
            for environment, row in zip(environments, shares.shares.tolist(), strict=True)
        ],
        "unlike_prevalence": list(shares.unlike()),
        "attributes": attributes,
        "mean_over_attributes": {
            key: float(np.mean([a[key]["value"] for a in attributes])) if attributes else float("nan")
            for key in ("worst", "average")
        },
    }


def compare(labeled: Labeled, answers: Answers, baseline: Answers) -> dict[str, Any]:
    """Return accuracy minus the baseline's: by environment, at the known ones together and at the new ones together."""
    rows_of = {e.name: e.rows for e in split_environments(labeled.environments, len(labeled.y))}
    known = [rows for name, rows in rows_of.items() if name in labeled.known]
    new = [rows for name, rows in rows_of.items() if name not in labeled.known]

    def difference(rows: NDArray[np.intp]) -> dict[str, float]:
        value, low, high = difference_interval(labeled.y[rows], answers.labels[rows], baseline.labels[rows])
        return {"value": value, "low": low, "high": high}

    return {
        "environments": [
            {
                "name": name,
                "known": name in labeled.known,
                "accuracy": float(np.mean(labeled.y[rows] == answers.labels[rows])),
                "baseline_accuracy": float(np.mean(labeled.y[rows] == baseline.labels[rows])),
                "difference": difference(rows),
            }
            for name, rows in rows_of.items()
        ],
        "known": difference(np.concatenate(known)) if known else None,
        "new": difference(np.concatenate(new)) if new else None,
    }


def _rows(labeled: Labeled, answers: Answers, group: Group, positive: Any) -> dict[str, Any]:
    """Return the scores of some rows."""
    y, predicted = labeled.y[group.rows], answers.labels[group.rows]
    accuracy = score_groups(labeled.y, answers.labels, [group]).groups[0]
    targets = [positive] if positive is not None else answers.classes
    pairs = np.array([sensitivity_specificity(y, predicted, target) for target in targets])
    with np.errstate(all="ignore"):
        sensitivity, specificity = (
            float(np.mean(column[~np.isnan(column)])) if not np.isnan(column).all() else float("nan")
            for column in pairs.T
        )
    return {
        "n_rows": len(group),
        "accuracy": _interval(accuracy),
        "sensitivity": sensitivity,
        "specificity": specificity,
        **_probability_scores(y, answers, group),
    }


def _probability_scores(y: NDArray[Any], answers: Answers, group: Group) -> dict[str, float]:
    """Return scores of probabilities, over rows whose label was fitted; NaN where there are none."""
    place = {str(label): code for code, label in enumerate(answers.classes)}
    codes = np.array([place.get(str(label), -1) for label in y])
    names = {"auroc": auroc, "log_loss": log_loss, "brier": brier_score, "calibration_error": calibration_error}
    if answers.probabilities is None or not (codes >= 0).any():
        return dict.fromkeys(names, float("nan"))
    probabilities = answers.probabilities[group.rows][codes >= 0]
    return {name: function(codes[codes >= 0], probabilities) for name, function in names.items()}


def _attribute(labeled: Labeled, answers: Answers, name: str, column: NDArray[Any]) -> dict[str, Any]:
    """Return worst and average accuracy over the label × attribute groups."""
    scores = score_groups(labeled.y, answers.labels, label_attribute_groups(labeled.y, column, name))
    return {
        "name": name,
        "worst": {**_interval(scores.worst), "group": scores.worst.name, "n_rows": scores.worst.n_rows},
        "average": _interval(scores.average),
        "groups": [{"name": s.name, "n_rows": s.n_rows, **_interval(s)} for s in scores.groups],
    }


def _interval(score: Score) -> dict[str, float]:
    return {"value": score.value, "low": score.low, "high": score.high}


def _positive(classes: list[Any], asked: str | None) -> Any:
    """Return the label that counts as positive: as asked, the second of two, or None for several classes."""
    if asked is None:
        return classes[1] if len(classes) == 2 else None
    by_name = {str(label): label for label in classes}
    if asked not in by_name:
        raise LabelsError(f"There is no label {asked!r}. {suggest(asked, list(by_name))}")
    return by_name[asked]
