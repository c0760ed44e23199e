"""Evaluate a classifier of a table: by environment, by attribute, and against another classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.diagnosis.clinical import ClinicalReport, clinical_report
from holdfast.environments import Group, listed, split_environments
from holdfast.exceptions import LabelsError, PrevalenceWarning, TableError, suggest, warn
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
)
from holdfast.stable.verdict import RARE
from holdfast.tables.files import TableLike, open_table
from holdfast.tables.roles import read_environments, read_known_labels

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.files import TableSource

ALL_ROWS = "all rows"
_PROBABILITY_SCORES = {
    "auroc": auroc,
    "log_loss": log_loss,
    "brier": brier_score,
    "calibration_error": calibration_error,
}


@dataclass(frozen=True)
class RowScores:
    """Scores of some rows; NaN where they do not apply."""

    name: str  # of the environment, or "all rows"
    known: bool  # whether the classifier was fitted on rows of this environment
    accuracy: Score
    sensitivity: float
    specificity: float
    shares: Mapping[str, float]  # of each class
    auroc: float
    log_loss: float
    brier: float
    calibration_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "n_rows": self.accuracy.n_rows, "accuracy": _interval(self.accuracy)}


@dataclass(frozen=True)
class AttributeScores:
    """Accuracy over the groups label × attribute."""

    name: str
    groups: tuple[Score, ...]
    worst: Score
    average: Score

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "name": self.name,
            "worst": {**_interval(self.worst), "group": self.worst.name, "n_rows": self.worst.n_rows},
            "average": _interval(self.average),
            "groups": [{"name": s.name, "n_rows": s.n_rows, **_interval(s)} for s in self.groups],
        }


@dataclass(frozen=True)
class Difference:
    """Accuracy minus the baseline's in one environment."""

    name: str
    known: bool
    accuracy: float
    baseline_accuracy: float
    difference: Score

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "difference": _interval(self.difference)}


@dataclass(frozen=True)
class BaselineComparison:
    """Accuracy minus the baseline's: by environment, at the known ones together and at the new ones together."""

    baseline: Mapping[str, str]  # names of its estimator and method
    environments: tuple[Difference, ...]
    known: Score | None  # the price; None without known environments
    new: Score | None  # the gain; None without new environments

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "baseline": dict(self.baseline),
            "environments": [difference.to_dict() for difference in self.environments],
            "known": None if self.known is None else _interval(self.known),
            "new": None if self.new is None else _interval(self.new),
        }


@dataclass(frozen=True)
class Evaluation:
    """What `TableClassifier.evaluate` found; `str()` is the answer in one sentence."""

    names: Mapping[str, str]  # of estimator and method
    classes: tuple[str, ...]
    positive: str | None
    labels_never_fitted: tuple[str, ...]
    overall: RowScores
    environments: tuple[RowScores, ...]
    unlike_prevalence: tuple[str, ...]  # environments whose class shares are far from the others'
    attributes: tuple[AttributeScores, ...]
    comparison: BaselineComparison | None = None
    notes: tuple[str, ...] = ()
    clinical: ClinicalReport | None = None  # calibration and net benefit by environment; two classes only

    def mean_over_attributes(self) -> dict[str, float]:
        """Return worst and average group accuracy, averaged over the attributes; the paper scores natural data so."""
        return {
            "worst": float(np.mean([a.worst.value for a in self.attributes])) if self.attributes else float("nan"),
            "average": float(np.mean([a.average.value for a in self.attributes])) if self.attributes else float("nan"),
        }

    def __str__(self) -> str:
        accuracy, n_rows = self.overall.accuracy, self.overall.accuracy.n_rows
        answer = f"The accuracy is {accuracy.value:.1%} on {n_rows:,} rows"
        most = max(self.overall.shares.values(), default=0.0)
        if (most >= RARE or accuracy.value <= most) and not np.isnan(self.overall.auroc):
            answer += f", where {most:.1%} have the same label; its AUROC is {self.overall.auroc:.3f}"
        if len(self.environments) > 1:
            worst = min(self.environments, key=lambda scores: scores.accuracy.value)
            place = f"{worst.name} ({'known' if worst.known else 'new'})"
            answer += f"; it is lowest in {place}, {worst.accuracy.value:.1%}"
        if self.comparison is not None:
            answer += f". Compared with {self.comparison.baseline['method']}, the classifier "
            parts = [
                f"{_more(score.value)} at {kind} environments"
                for kind, score in (("known", self.comparison.known), ("new", self.comparison.new))
                if score is not None
            ]
            answer += " and ".join(parts)
        reversed_ = [] if self.clinical is None else [site for site in self.clinical.sites if site.auroc.high < 0.5]
        if reversed_:
            where = listed([site.name for site in reversed_], most=3)
            ranking = f"the ranking is reversed (AUROC {reversed_[0].auroc.value:.2f})"
            answer += f". In {where} {ranking}: labels are exchanged there, or the effect of a column is reversed"
        return answer + "."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        comparison = {} if self.comparison is None else {"comparison": self.comparison.to_dict()}
        return {
            **self.names,
            "classes": list(self.classes),
            "positive": self.positive,
            "labels_never_fitted": list(self.labels_never_fitted),
            "overall": self.overall.to_dict(),
            "environments": [scores.to_dict() for scores in self.environments],
            "unlike_prevalence": list(self.unlike_prevalence),
            "attributes": [attribute.to_dict() for attribute in self.attributes],
            "mean_over_attributes": self.mean_over_attributes(),
            "clinical": None if self.clinical is None else self.clinical.to_dict(),
            **comparison,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each environment, and one for all rows."""
        import pandas as pd

        rows = []
        for scores in (*self.environments, self.overall):
            row = asdict(scores)
            accuracy, shares = row.pop("accuracy"), row.pop("shares")
            row |= {"n_rows": accuracy["n_rows"], "accuracy": accuracy["value"]}
            row |= {"accuracy_low": accuracy["low"], "accuracy_high": accuracy["high"]}
            rows.append(row | {f"share of {name}": share for name, share in shares.items()})
        return pd.DataFrame(rows)


def _more(value: float) -> str:
    points = f"{abs(value) * 100:.1f} points"
    return f"gains {points}" if value > 0 else f"loses {points}" if value < 0 else "is equal"


@dataclass(frozen=True, eq=False)
class LabeledRows:
    """Labels, environments and attributes of the rows of a table; the features are read a chunk at a time."""

    source: TableSource
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
    classes: list[Any]


def evaluate(
    fitted: TableClassifier,
    table: TableLike,
    *,
    attributes: Sequence[str] = (),
    environment: Sequence[str] = (),
    positive: str | None = None,
    baseline: TableClassifier | None = None,
    threshold: float | None = None,
) -> Evaluation:
    """Score a classifier on a table; parameters as in `TableClassifier.evaluate`."""
    if baseline is not None:
        fitted.check_same_label(baseline)
    rows = read_labeled(fitted, table, environment=environment, attributes=attributes)
    answers = predict_labeled(rows, fitted)
    chosen = _positive(answers.classes, positive)
    shares = prevalence(rows.y, rows.environments)
    pooled = (shares.counts.sum(axis=0) / shares.counts.sum()).tolist()
    of_all = dict(zip(shares.classes, pooled, strict=True))
    unseen = sorted({str(label) for label in rows.y} - {str(label) for label in answers.classes})
    unlike = shares.unlike()
    if unlike:
        warn(
            f"The class frequencies of {listed(unlike)} differ much from those elsewhere, so the accuracies of these "
            "environments cannot be compared with one another.",
            PrevalenceWarning,
        )
    return Evaluation(
        fitted.names,
        tuple(str(label) for label in answers.classes),
        None if chosen is None else str(chosen),
        tuple(unseen),
        _score(rows, answers, Group(ALL_ROWS, np.arange(len(rows.y))), chosen, of_all),
        tuple(
            _score(rows, answers, Group(e.name, e.rows), chosen, dict(zip(shares.classes, row, strict=True)))
            for e, row in zip(split_environments(rows.environments, len(rows.y)), shares.shares.tolist(), strict=True)
        ),
        unlike,
        tuple(_attribute(rows, answers, name, column) for name, column in rows.attributes.items()),
        None if baseline is None else compare(rows, answers, baseline),
        (
            *rows.notes,
            *(f"the classifier was not fitted on the label {label!r}: its rows count as errors" for label in unseen),
        ),
        _clinical(rows, answers, chosen, threshold),
    )


def _clinical(rows: LabeledRows, answers: Answers, positive: Any, threshold: float | None) -> ClinicalReport | None:
    """Return calibration and net benefit by environment; None without probabilities of two classes."""
    codes = _codes(rows.y, answers)
    known = codes >= 0
    if answers.probabilities is None or len(answers.classes) != 2 or not known.any():
        return None
    place = answers.classes.index(positive)
    events = codes[known] == place
    if threshold is None and (events.all() or not events.any()):
        return None
    risks = np.clip(answers.probabilities[known, place], 0.0, 1.0)
    return clinical_report(events, risks, rows.environments[known], event=str(positive), threshold=threshold)


def read_labeled(
    fitted: TableClassifier, table: TableLike, *, environment: Sequence[str] = (), attributes: Sequence[str] = ()
) -> LabeledRows:
    """Read label, environment and attribute columns."""
    source, roles, notes = open_table(table, fitted.roles_.missing), fitted.roles_, []
    names = list(environment) or [name for name in roles.environments if name in source]
    source.require([roles.label, *names, *attributes])
    if not environment and len(names) < len(roles.environments):
        missing = [name for name in roles.environments if name not in names]
        names = []
        notes.append(f"there is no environment column {missing[0]!r}: all rows count as one environment")
    frame = source.read(list(dict.fromkeys([roles.label, *names, *attributes])), roles.types(names))
    where = np.full(len(frame), ALL_ROWS, dtype=object)
    if names:
        labels = read_environments(frame, names, roles.period, roles.environment_storages)
        where = np.array([str(label) for label in labels], dtype=object)
    return LabeledRows(
        source,
        read_known_labels(frame[roles.label], roles.label, fitted.classes_),
        where,
        frozenset(roles.known or map(str, fitted.method_.environments_)),
        {name: _written(frame[name]) for name in attributes},
        tuple(notes),
    )


def _written(series: pd.Series[Any]) -> NDArray[Any]:
    """Return an attribute's values as text, missing as a value of its own."""
    return series.astype(object).where(series.notna(), "missing").astype(str).to_numpy(dtype=object)


def predict_labeled(rows: LabeledRows, fitted: TableClassifier) -> Answers:
    """Predict all rows of a table, chunk by chunk."""
    parts = list(fitted.predict_chunks(rows.source))
    if not parts:
        raise TableError(f"{rows.source.name} has a header but no rows. Pass a file with rows.")
    probabilities = [part.probabilities for part in parts if part.probabilities is not None]
    return Answers(
        np.concatenate([part.labels for part in parts]),
        np.concatenate(probabilities) if probabilities else None,
        list(fitted.classes_),
    )


def compare(rows: LabeledRows, answers: Answers, baseline: TableClassifier) -> BaselineComparison:
    """Compare a classifier's answers with another one's."""
    others = predict_labeled(rows, baseline)
    rows_of = {e.name: e.rows for e in split_environments(rows.environments, len(rows.y))}

    def difference(name: str, chosen: NDArray[np.intp]) -> Score:
        value, low, high = difference_interval(rows.y[chosen], answers.labels[chosen], others.labels[chosen])
        return Score(name, value, low, high, len(chosen))

    together = {
        kind: [part for name, part in rows_of.items() if (name in rows.known) == (kind == "known")]
        for kind in ("known", "new")
    }
    return BaselineComparison(
        baseline.names,
        tuple(
            Difference(
                name,
                name in rows.known,
                float(np.mean(rows.y[part] == answers.labels[part])),
                float(np.mean(rows.y[part] == others.labels[part])),
                difference(name, part),
            )
            for name, part in rows_of.items()
        ),
        *(difference(kind, np.concatenate(parts)) if parts else None for kind, parts in together.items()),
    )


def _score(rows: LabeledRows, answers: Answers, group: Group, positive: Any, shares: Mapping[str, float]) -> RowScores:
    """Return the scores of some rows."""
    y, predicted = rows.y[group.rows], answers.labels[group.rows]
    accuracy = score_groups(rows.y, answers.labels, [group]).groups[0]
    pair = _sensitivity_specificity(_codes(y, answers), _codes(predicted, answers), len(answers.classes))
    chosen = slice(None) if positive is None else [answers.classes.index(positive)]
    sensitivity, specificity = (_mean_of_known(column[chosen]) for column in pair)
    known = group.name in rows.known or (group.name == ALL_ROWS and set(rows.environments) <= rows.known)
    probabilities = _score_probabilities(y, answers, group)
    return RowScores(group.name, known, accuracy, sensitivity, specificity, shares, **probabilities)


def _codes(labels: NDArray[Any], answers: Answers) -> NDArray[np.intp]:
    """Return the place of each label among the classes, -1 for labels that were not fitted."""
    place = {str(label): code for code, label in enumerate(answers.classes)}
    return np.array([place.get(str(label), -1) for label in labels], dtype=np.intp)


def _sensitivity_specificity(
    y: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of each class's rows, and of all other rows, that are told right; NaN without such rows."""
    n_rows = np.bincount(y[y >= 0], minlength=n_classes)
    n_predicted = np.bincount(predicted, minlength=n_classes)
    hits = np.bincount(y[(y == predicted) & (y >= 0)], minlength=n_classes)
    with np.errstate(invalid="ignore"):
        return hits / n_rows, (len(y) - n_rows - n_predicted + hits) / (len(y) - n_rows)


def _mean_of_known(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _score_probabilities(y: NDArray[Any], answers: Answers, group: Group) -> dict[str, float]:
    """Return scores of probabilities, over rows whose label was fitted; NaN where there are none."""
    codes = _codes(y, answers)
    if answers.probabilities is None or not (codes >= 0).any():
        return dict.fromkeys(_PROBABILITY_SCORES, float("nan"))
    probabilities = answers.probabilities[group.rows][codes >= 0]
    return {name: function(codes[codes >= 0], probabilities) for name, function in _PROBABILITY_SCORES.items()}


def _attribute(rows: LabeledRows, answers: Answers, name: str, column: NDArray[Any]) -> AttributeScores:
    """Return worst and average accuracy over the label × attribute groups."""
    scores = score_groups(rows.y, answers.labels, label_attribute_groups(rows.y, column, name))
    return AttributeScores(name, scores.groups, scores.worst, scores.average)


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
