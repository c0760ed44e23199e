"""What each environment's classifier says about every row, asked only about rows it was not fitted on.

Judges are joint where the rows allow it: one classifier of all rows, with the environment as further columns, is asked
what it would say in each environment. Whatever the environments share is then fitted once, from all rows, and cancels
in their differences instead of adding two errors. Where such columns can only shift the answers (linear models) or
cannot be added (texts, frames, images), one classifier is fitted for each environment, and one for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from holdfast.environments import Environment, Rows, Weights, take_rows
from holdfast.exceptions import ParameterError
from holdfast.judging.calibration import PROBABILITY_FLOOR, class_scores
from holdfast.learners import (
    code_probabilities,
    fit_rows,
    has_probabilities,
    last_step,
    sample_weight_name,
    seeded_clone,
)
from holdfast.rows import is_mapped
from holdfast.seeding import Seeding

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Scores of every row, out of fold: log-probabilities, or decision scores of classifiers without them."""

    pooled: Array  # (n_rows, n_classes) by a classifier of all environments
    judges: Array  # (n_environments, n_rows, n_classes) by, or as if in, each environment
    joint: bool
    are_probabilities: bool


def out_of_fold_evidence(
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
    joint: bool = True,
    n_jobs: int | None = None,
) -> Evidence:
    """Ask judges about all rows, each row by judges that were fitted without it.

    Parameters
    ----------
    estimator : classifier
        Cloned for every fit.
    X, y_codes : rows and class codes
    environments : sequence of Environment
        They hold every row once.
    n_classes : int
    seeding : Seeding
    sample_weight : array of shape (n_rows,), optional
    folds : int or array of shape (n_rows,), optional
        Number of folds, stratified by environment and label, or the fold of each row. None: two for joint judges, five
        for separate ones, which have fewer rows to learn from.
    repeats : int, optional
        Times that the folds are dealt anew; the answers are averaged, which takes out much of the judges' noise. Folds
        that are given are used once. None: six for joint judges, one for separate ones.
    joint : bool
        Whether judges may be joint, where rows and estimator allow it.
    n_jobs : int, optional
    """
    codes = environment_codes(environments, len(y_codes))
    joint = joint and _can_add_columns(estimator, X)
    usual_folds, usual_repeats = (2, 6) if joint else (5, 1)
    folds, repeats = usual_folds if folds is None else folds, usual_repeats if repeats is None else repeats
    deals = _deal(folds, repeats, y_codes, codes, seeding)
    weights = sample_weight if sample_weight_name(estimator) is not None else None
    settings = (estimator, X, y_codes, codes, weights, deals, n_classes, seeding, n_jobs)
    if joint:
        answers, probable = _ask(*settings, joint=True)
        scores, pooled = _as_scores(answers, probable), _as_scores(answers.mean(axis=0), probable)
        _forget_unseen(scores, pooled, y_codes, codes)
        return Evidence(pooled, scores, joint=True, are_probabilities=probable)
    answers, probable = _ask(*settings, joint=False)
    scores = _as_scores(answers, probable)
    _forget_unseen(scores[:-1], scores[-1], y_codes, codes)
    return Evidence(scores[-1], scores[:-1], joint=False, are_probabilities=probable)


def environment_codes(environments: Sequence[Environment], n_rows: int) -> Rows:
    """Return the number of each row's environment."""
    codes = np.full(n_rows, -1, dtype=np.intp)
    for code, environment in enumerate(environments):
        codes[environment.rows] = code
    if (codes < 0).any():
        raise ParameterError(f"{int((codes < 0).sum())} of {n_rows} rows are in no environment. Leave them out of X.")
    return codes


def with_environment(X: Any, codes: Rows, n_environments: int) -> Any:
    """Return the rows with one 0/1 column for each environment behind their own columns."""
    columns = np.eye(n_environments)[codes]
    if sp.issparse(X):
        parts: Any = [X, sp.csr_array(columns)]
        return sp.hstack(parts, format="csr")
    return np.hstack([X, columns])


def _can_add_columns(estimator: Any, X: Any) -> bool:
    """Whether X is a table of numbers, and the estimator not one whose answers are plainly linear in the columns."""
    table = sp.issparse(X) or (isinstance(X, np.ndarray) and not is_mapped(X) and X.dtype.kind in "fiub")
    network = hasattr(last_step(estimator), "fit_groups")  # its fits are long: judges of their own are what it has
    linear = hasattr(type(last_step(estimator)), "sparsify")
    return bool(table) and X.ndim == 2 and not network and not linear and not _counts_columns(estimator)


def _counts_columns(estimator: Any) -> bool:
    """Whether a setting of the estimator, or a step before it, is about columns by their number."""
    last, steps = last_step(estimator), getattr(estimator, "steps", ())
    categorical = getattr(last, "categorical_features", None)
    by_column = categorical is not None and not isinstance(categorical, str)
    return (
        by_column
        or getattr(last, "monotonic_cst", None) is not None
        or any(hasattr(s, "transformers") for _, s in steps)
    )


def _ask(
    estimator: Any,
    X: Any,
    y: NDArray[np.intp],
    codes: Rows,
    weights: Weights | None,
    deals: list[Rows],
    n_classes: int,
    seeding: Seeding,
    n_jobs: int | None,
    *,
    joint: bool,
) -> tuple[Array, bool]:
    """Return mean answers (n_judges, n_rows, n_classes), and whether they are probabilities.

    Separate judges are those of the environments and, last, that of all rows.
    """
    n_environments = int(codes.max()) + 1
    if joint:
        X = with_environment(X, codes, n_environments)
    judges: list[int | None] = [None] if joint else [*range(n_environments), None]
    tasks = [
        (number, fold, judge)
        for number, deal in enumerate(deals)
        for fold, judge in itertools.product(np.unique(deal), judges)
    ]
    replies = Parallel(n_jobs=n_jobs)(
        delayed(_ask_one)(
            seeded_clone(estimator, seeding, "evidence", joint, judge, number, int(fold)),
            X,
            y,
            codes,
            weights,
            deals[number] == fold,
            judge,
            n_classes,
            n_environments if joint else 0,
        )
        for number, fold, judge in tasks
    )
    answers = np.zeros((n_environments if joint else len(judges), len(y), n_classes))
    for (number, fold, judge), (reply, _) in zip(tasks, replies, strict=True):
        held_out = np.flatnonzero(deals[number] == fold)
        place = slice(None) if joint else (-1 if judge is None else judge)
        answers[place, held_out] += reply / len(deals)
    return answers, all(probable for _, probable in replies)


def _ask_one(
    estimator: Any,
    X: Any,
    y: NDArray[np.intp],
    codes: Rows,
    weights: Weights | None,
    held_out: NDArray[np.bool_],
    judge: int | None,
    n_classes: int,
    n_what_if: int,
) -> tuple[Array, bool]:
    """Fit one judge without the held-out rows, and ask it about them (with `n_what_if`, as if in each environment)."""
    rows = np.flatnonzero(~held_out if judge is None else ~held_out & (codes == judge))
    if len(rows) == 0:
        rows = np.flatnonzero(~held_out)
    model = fit_rows(estimator, X, y, rows, None if weights is None else weights[rows])
    asked = take_rows(X, np.flatnonzero(held_out))
    answer = code_probabilities if has_probabilities(model) else class_scores
    if not n_what_if:
        return answer(model, asked, n_classes), has_probabilities(model)
    plain = asked[:, : asked.shape[1] - n_what_if]
    what_if = [with_environment(plain, np.full(plain.shape[0], code), n_what_if) for code in range(n_what_if)]
    return np.stack([answer(model, rows, n_classes) for rows in what_if]), has_probabilities(model)


def _forget_unseen(judges: Array, pooled: Array, y: NDArray[np.intp], codes: Rows) -> None:
    """Give a judge that never saw a class the pooled classifier's scores of it: it knows nothing of it."""
    for code, scores in enumerate(judges):
        unseen = np.bincount(y[codes == code], minlength=pooled.shape[1]) == 0
        scores[:, unseen] = pooled[:, unseen]


def _as_scores(answers: Array, are_probabilities: bool) -> Array:
    """Return log-probabilities, or decision scores as they are."""
    return np.asarray(np.log(np.maximum(answers, PROBABILITY_FLOOR))) if are_probabilities else answers


def _deal(folds: int | Rows, repeats: int, y: NDArray[np.intp], codes: Rows, seeding: Seeding) -> list[Rows]:
    """Return the fold of each row, for every repeat."""
    if not isinstance(folds, int | np.integer):
        given = np.asarray(folds)
        if given.shape != y.shape or len(np.unique(given)) < 2:
            raise ParameterError(
                f"folds must be a number of folds or one fold number for each of the {len(y)} rows, with at least two "
                f"different ones. Got an array of shape {given.shape} with {len(np.unique(given))} different values."
            )
        return [given]
    if folds < 2 or repeats < 1:
        raise ParameterError(
            f"Judges are asked out of fold: at least 2 folds and 1 repeat are needed. Got {folds!r} and {repeats!r}."
        )
    deals = []
    for number in range(repeats):
        shuffle = seeding.generator("evidence folds", number).permutation(len(y))
        order = shuffle[np.lexsort((y[shuffle], codes[shuffle]))]
        deal = np.empty(len(y), dtype=np.intp)
        deal[order] = np.arange(len(y)) % folds
        deals.append(deal)
    return deals
