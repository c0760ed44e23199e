"""Which method for my data: every applicable method under one budget, judged on environments it has not seen.

With three or more environments each is left out in turn, and a method's score is its accuracy there. With two there is
no third to leave out; rows are then held out inside both, and a method's score is its accuracy in the worst half that
the environments' classifiers cut of the held-out rows. That is a proxy: methods that minimize the risk of such halves
(PI's worst case) are at an advantage by construction, and with noisy labels the mistaken halves favor classifiers that
know little. No test data is looked at in either case.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed

from holdfast.environments import Environment, Rows, split_environments, take_rows
from holdfast.estimators.base import MethodClassifier
from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.methods import METHODS
from holdfast.exceptions import (
    EnvironmentsError,
    HoldfastError,
    HoldfastWarning,
    IdenticalEnvironmentsWarning,
    ParameterError,
    PrevalenceWarning,
    SolverWarning,
)
from holdfast.learners import last_step
from holdfast.seeding import RandomState, Seeding
from holdfast.tables.classifier import fit_preprocessor

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.schema import TableSchema


class PreparedMethod(BaseEstimator):
    """Does what `holdfast fit` does: one preprocessor for all rows it is given, then the method.

    Parameters
    ----------
    method : estimator
        One of our methods, unfitted.
    schema : TableSchema
        The columns.
    dense : bool
        Whether the estimator inside takes no sparse matrix.
    """

    def __init__(self, method: Any, schema: TableSchema, *, dense: bool = False) -> None:
        self.method = method
        self.schema = schema
        self.dense = dense

    def fit(self, X: pd.DataFrame, y: NDArray[Any], environments: Any = None) -> PreparedMethod:
        """Fit on plain features, see `TableSchema.features`."""
        self.preprocessor_, matrix = fit_preprocessor(self.schema, X, dense=self.dense)
        self.method_ = clone(self.method).fit(matrix, y, environments=environments)
        self.classes_ = self.method_.classes_
        return self

    def predict(self, X: pd.DataFrame) -> NDArray[Any]:
        """Return labels."""
        labels: NDArray[Any] = self.method_.predict(self.preprocessor_.transform(X))
        return labels

    @available_if(lambda self: hasattr(self.method_, "predict_proba"))
    def predict_proba(self, X: pd.DataFrame) -> NDArray[Any]:
        """Return probabilities of shape (n_rows, n_classes)."""
        probabilities: NDArray[Any] = self.method_.predict_proba(self.preprocessor_.transform(X))
        return probabilities


TOLD = (IdenticalEnvironmentsWarning, PrevalenceWarning, SolverWarning)  # what concerns the choice of a method
NEEDS_A_NETWORK = ("irm", "vrex", "rgm")
LEFT_OUT = "each environment left out in turn"
HELD_OUT = "rows held out in both environments, cut into halves by the other's classifier"
CAVEAT = (
    "With two environments no unseen one can be tried. The halves are cut as inside pi, which favors methods that "
    "minimize the risk of the worst half by construction: take this ranking as a hint, and rows of a third environment "
    "as the answer."
)


@dataclass(frozen=True)
class MethodScore:
    """How one method did on what it had not seen."""

    method: str
    mean: float  # mean accuracy over the parts
    worst: float  # accuracy in the worst part
    parts: Mapping[str, float]  # accuracy by environment left out, or by half
    spread: float  # largest minus smallest log loss over environments; NaN without probabilities
    gain: float  # mean accuracy above ERM's
    gain_low: float  # 95 % interval of the gain, paired by row
    gain_high: float
    problem: str | None = None  # why it could not be fitted
    remarks: tuple[str, ...] = ()  # what its fits warned of, each with the number of fits


@dataclass(frozen=True)
class Comparison:
    """Methods, best first, and what follows from them."""

    protocol: str
    ranked_by: str  # "mean" or "worst"
    scores: tuple[MethodScore, ...]
    recommended: str
    recommendation: str  # one sentence with its evidence
    caveat: str | None = None  # what the ranking cannot tell

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each method."""
        import pandas as pd

        rows = [
            {"method": s.method, "mean": s.mean, "worst": s.worst, "gain": s.gain, "gain_low": s.gain_low}
            | {"gain_high": s.gain_high, "spread": s.spread, "problem": s.problem, "remarks": " ".join(s.remarks)}
            | {f"in {part}": accuracy for part, accuracy in s.parts.items()}
            for s in self.scores
        ]
        return pd.DataFrame(rows)


def compare_methods(
    X: Any,
    y: Any,
    environments: Any,
    *,
    estimator: Any = None,
    methods: Mapping[str, MethodClassifier] | Sequence[str] | None = None,
    n_folds: int = 2,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
    progress: Callable[[str], None] = lambda step: None,
) -> Comparison:
    """Fit every applicable method and rank them by environments (or halves) that they have not seen.

    Parameters
    ----------
    X, y : rows and labels
    environments : labels of shape (n_rows,)
        At least two different ones.
    estimator : scikit-learn classifier, NeuralClassifier or None
        Inside every method, so that all have the same budget.
    methods : mapping of name to estimator, sequence of names, or None
        None: all that the estimator allows; IRM, V-REx and RGM need a network, the oracle an attribute.
    n_folds : int
        With two environments: how often rows are held out.
    n_jobs : int, optional
        Fits that run at the same time.
    random_state : int or None
    progress : callable
        Called with a line for each fit that begins.

    Returns
    -------
    Comparison
    """
    candidates = candidate_methods(methods, estimator, random_state)
    labels = np.asarray(y)
    split = split_environments(environments, len(labels))
    if len(split) < 2:
        raise EnvironmentsError("comparing methods needs at least two environments. Got one label only.")
    names = np.array([environment.name for environment in split], dtype=object)
    of_row = np.empty(len(labels), dtype=np.intp)
    for number, environment in enumerate(split):
        of_row[environment.rows] = number
    seeding = Seeding(random_state)
    leave_out = len(split) > 2
    held_out = _left_out(split) if leave_out else _held_out(split, labels, n_folds, seeding)
    tasks = [(name, number) for name in candidates for number in range(len(held_out))]
    outcomes = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_ask)(
            _announced(clone(candidates[name]), progress, f"{name}, {number + 1} of {len(held_out)}"),
            X,
            labels,
            names[of_row],
            held_out[number],
        )
        for name, number in tasks
    )
    parts = of_row if leave_out else _halves(candidates["erm"], X, labels, names, of_row, held_out)
    part_names = list(names) if leave_out else _half_names(names)
    answers: dict[str, list[Any]] = {name: [] for name in candidates}
    for (name, _), outcome in zip(tasks, outcomes, strict=True):
        answers[name].append(outcome)
    table = {name: _collect(outcome, held_out, len(labels)) for name, outcome in answers.items()}
    scores = [_score(name, table, parts, part_names, of_row) for name in candidates]
    ranked_by = "mean" if leave_out else "worst"
    scores.sort(key=lambda score: (-np.nan_to_num(getattr(score, ranked_by), nan=-1.0), score.spread))
    recommended, sentence = _recommend(scores, ranked_by, len(split))
    protocol, caveat = (LEFT_OUT, None) if leave_out else (HELD_OUT, CAVEAT)
    return Comparison(protocol, ranked_by, tuple(scores), recommended, sentence, caveat)


def candidate_methods(methods: Any, estimator: Any, random_state: RandomState) -> dict[str, MethodClassifier]:
    """Return the methods to compare, ERM among them; parameters as in `compare_methods`."""
    if isinstance(methods, Mapping):
        return {"erm": ERMClassifier(estimator, random_state=random_state)} | dict(methods)
    network = estimator is not None and hasattr(last_step(estimator), "fit_groups")
    applicable = [name for name in METHODS if name != "oracle" and (network or name not in NEEDS_A_NETWORK)]
    chosen = applicable if methods is None else list(dict.fromkeys(["erm", *methods]))
    unknown = [name for name in chosen if name not in applicable]
    if unknown:
        raise ParameterError(
            f"methods {', '.join(unknown)} cannot be compared here. Choose among {', '.join(applicable)}; IRM, V-REx "
            "and RGM need estimator=NeuralClassifier(…), and the oracle needs an attribute."
        )
    return {name: METHODS[name](estimator, random_state=random_state) for name in chosen}


def _left_out(split: Sequence[Environment]) -> list[Rows]:
    return [environment.rows for environment in split]


def _held_out(split: Sequence[Environment], y: NDArray[Any], n_folds: int, seeding: Seeding) -> list[Rows]:
    """Deal the rows of both environments to folds, every label spread evenly."""
    folds: list[list[Rows]] = [[] for _ in range(n_folds)]
    for environment in split:
        shuffled = seeding.generator("compare", environment.name).permutation(environment.rows)
        by_label = shuffled[np.argsort(y[shuffled], kind="stable")]
        for number in range(n_folds):
            folds[number].append(by_label[number::n_folds])
    return [np.sort(np.concatenate(parts)) for parts in folds]


def _announced(estimator: Any, progress: Callable[[str], None], line: str) -> Any:
    progress(line)
    return estimator


def _fit_and_ask(
    estimator: Any, X: Any, y: NDArray[Any], environments: NDArray[Any], held_out: Rows
) -> tuple[NDArray[np.bool_], NDArray[np.float64], list[str]] | str:
    """Return which held-out rows are right, their log losses and what was warned of, or why nothing could be fitted."""
    kept = np.setdiff1d(np.arange(len(y)), held_out, assume_unique=True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HoldfastWarning)
            estimator.fit(take_rows(X, kept), y[kept], environments=environments[kept])
        remarks = _remarks(caught)
        rows = take_rows(X, held_out)
        right = np.asarray(estimator.predict(rows)) == y[held_out]
        if not hasattr(estimator, "predict_proba"):
            return right, np.full(len(right), np.nan), remarks
        probabilities = estimator.predict_proba(rows)
        columns = np.searchsorted(estimator.classes_, y[held_out]).clip(max=len(estimator.classes_) - 1)
        known = estimator.classes_[columns] == y[held_out]
        truth = np.where(known, probabilities[np.arange(len(rows)), columns], 0.0)
        return right, -np.log(np.maximum(truth, 1e-6)), remarks
    except HoldfastError as problem:
        return str(problem)


def _remarks(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Return our own warnings as texts, and pass the others on."""
    ours = [entry for entry in caught if issubclass(entry.category, HoldfastWarning)]
    for entry in caught:
        if entry not in ours:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    return list(dict.fromkeys(str(entry.message) for entry in ours if issubclass(entry.category, TOLD)))


def _halves(
    erm: Any, X: Any, y: NDArray[Any], names: NDArray[Any], of_row: Rows, held_out: Sequence[Rows]
) -> NDArray[np.intp]:
    """Return the half of each row: 2·environment + (the other environment's classifier is right), out of fold."""
    parts = np.empty(len(y), dtype=np.intp)
    for rows in held_out:
        kept = np.setdiff1d(np.arange(len(y)), rows, assume_unique=True)
        for judge in range(len(names)):
            own, judged = kept[of_row[kept] == judge], rows[of_row[rows] != judge]
            classifier = clone(erm).fit(take_rows(X, own), y[own])
            right = np.asarray(classifier.predict(take_rows(X, judged))) == y[judged]
            parts[judged] = 2 * of_row[judged] + right
    return parts


def _half_names(names: NDArray[Any]) -> list[str]:
    return [f"{name}, {half}" for name in names for half in ("mistaken", "correct")]


def _collect(outcomes: list[Any], held_out: Sequence[Rows], n_rows: int) -> tuple[Any, Any, tuple[str, ...]] | str:
    """Join the held-out rows of all fits and what they warned of first, or return the first problem."""
    right, loss = np.zeros(n_rows, dtype=bool), np.zeros(n_rows)
    remarks: list[str] = []
    for outcome, rows in zip(outcomes, held_out, strict=True):
        if isinstance(outcome, str):
            return outcome
        right[rows], loss[rows], warned = outcome
        remarks += warned[:1]
    n_fits = f"in {len(remarks)} of {len(held_out)} fits: "
    return right, loss, (n_fits + remarks[0],) if remarks else ()


def _score(
    name: str, table: dict[str, Any], parts: NDArray[np.intp], part_names: Sequence[str], of_row: Rows
) -> MethodScore:
    """Score one method, with its gain over ERM paired by row."""
    if isinstance(table[name], str):
        nan = float("nan")
        return MethodScore(name, nan, nan, {}, nan, nan, nan, nan, problem=table[name])
    right, loss, remarks = table[name]
    present = [part for part in range(len(part_names)) if (parts == part).any()]
    accuracies = {part_names[part]: float(right[parts == part].mean()) for part in present}
    losses = [loss[of_row == number].mean() for number in np.unique(of_row)]
    gain = error = float("nan")
    if not isinstance(table["erm"], str):
        difference = right.astype(float) - table["erm"][0]
        cells = [difference[parts == part] for part in present]
        gain = float(np.mean([cell.mean() for cell in cells]))
        # A cell of n equal differences still is uncertain: one more row of the other kind is added to each side.
        error = float(np.sqrt(sum((cell.var() + 1.0 / (len(cell) + 1)) / len(cell) for cell in cells)) / len(cells))
    return MethodScore(
        name,
        float(np.mean(list(accuracies.values()))),
        min(accuracies.values()),
        accuracies,
        float(max(losses) - min(losses)),
        gain,
        gain - 1.96 * error,
        gain + 1.96 * error,
        remarks=remarks,
    )


def _recommend(scores: Sequence[MethodScore], ranked_by: str, n_environments: int) -> tuple[str, str]:
    """Return the recommended method and one sentence that says why."""
    best, where = scores[0], "unseen environments" if ranked_by == "mean" else "the worst held-out half"
    by_name = {score.method: score for score in scores}
    erm = by_name["erm"]
    if best.method == "erm" or (ranked_by == "mean" and not best.gain_low > 0):
        others = [score for score in scores if score.method != "erm" and score.problem is None]
        rival = f"; the best other method, {others[0].method}, gains {others[0].gain:+.3f} " if others else ""
        interval = f"(95 % interval {others[0].gain_low:+.3f} to {others[0].gain_high:+.3f})" if others else ""
        reason = f"no method is better beyond its interval over {n_environments} environments"
        return "erm", f"Stay with erm: {reason}{rival}{interval}."
    return best.method, (
        f"Use {best.method}: its accuracy in {where} is {getattr(best, ranked_by):.3f} where erm has "
        f"{getattr(erm, ranked_by):.3f} (mean gain {best.gain:+.3f}, 95 % interval {best.gain_low:+.3f} to "
        f"{best.gain_high:+.3f}, {n_environments} environments)."
    )
