"""Remove, shuffle or exchange columns, and mix classifiers that see different columns.

A removed column is held constant, so that any estimator, also one that chooses columns by name, still finds it. Words
are taken out of texts. The same columns can be shuffled, for the question what happens when their relation with the
label vanishes, or exchanged between labels, for when it reverses. Classifiers that see different columns are mixed: how
much of an effect is used is a weight, for any estimator.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from holdfast.environments import Rows, take_rows
from holdfast.fitting.calibration import Calibration, class_scores
from holdfast.fitting.estimators import FittedClassifier, FittedParts
from holdfast.rows.kinds import is_frame, is_sparse, is_text
from holdfast.rows.training import TrainingRows

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Removal:
    """Columns that a classifier does not see, by their numbers, or words of texts."""

    columns: tuple[int, ...] = ()
    stand_ins: tuple[Any, ...] = ()  # the value that each column has instead
    words: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns) + len(self.words)

    def covers(self, other: Removal) -> bool:
        """Return whether all that the other removes is removed."""
        return {*other.columns, *other.words} <= {*self.columns, *self.words}

    def apply(self, X: Any) -> Any:
        """Return X with the columns held constant, or without the words; X itself where nothing is removed."""
        if not len(self):
            return X
        if self.words:
            return [_without_words(text, self.words) for text in X]
        if is_sparse(X):
            kept = np.ones(X.shape[1])
            kept[list(self.columns)] = 0.0
            return sp.csr_array(X @ sp.diags_array(kept))
        if is_frame(X):
            pairs = zip(self.columns, self.stand_ins, strict=True)
            return _with_columns(X, [_constant(X, X.columns[column], value) for column, value in pairs])
        result = np.array(X, copy=True)
        result[:, list(self.columns)] = self.stand_ins
        return result

    def exchange(self, X: Any, rows: Rows, partners: Rows) -> Any:
        """Return the rows of X, with the removed columns (or words) of other rows, one partner for each."""
        own = take_rows(X, rows)
        if not len(self):
            return own
        columns = list(self.columns)
        if isinstance(own, np.ndarray):
            own[:, columns] = X[partners[:, None], columns]
            return own
        other = take_rows(X, partners)
        if self.words:
            return [
                " ".join([_without_words(text, self.words), *_words_in(partner, self.words)])
                for text, partner in zip(own, other, strict=True)
            ]
        if is_sparse(own):
            chosen = np.zeros(own.shape[1])
            chosen[columns] = 1.0
            return sp.csr_array(own @ sp.diags_array(1.0 - chosen) + other @ sp.diags_array(chosen))
        return _with_columns(own, [other[other.columns[column]] for column in columns])


def plan_removal(X: Any, columns: list[int], names: list[str]) -> Removal:
    """Return the removal of columns of X, by their numbers; `names` are the words where X is texts."""
    if is_text(X):
        return Removal(words=tuple(names))
    if is_sparse(X):
        return Removal(tuple(columns), (0.0,) * len(columns))
    if is_frame(X):
        found = [nw.from_native(X[X.columns[c]], series_only=True).drop_nulls() for c in columns]
        values = [_typical(column.to_numpy(), whole=column.dtype.is_integer()) for column in found]
    else:
        values = [_typical(X[:, c], whole=X.dtype.kind in "iu") for c in columns]
    return Removal(tuple(columns), tuple(values))


def join_removals(removals: list[Removal]) -> Removal:
    """Return one removal of all columns."""
    columns = [pair for removal in removals for pair in zip(removal.columns, removal.stand_ins, strict=True)]
    words = tuple(word for removal in removals for word in removal.words)
    return Removal(tuple(c for c, _ in columns), tuple(value for _, value in columns), words)


def shuffled_partners(training: TrainingRows, *, other_label: bool, draw: int = 0) -> Rows:
    """Return for each row another row of its environment: any one, or one with another label.

    The draw depends on what rows contain and not on their order, so that it is the same whenever the rows are.
    """
    partners, ends = np.arange(training.n_rows), np.cumsum([len(environment) for environment in training.environments])
    for rows in np.split(training.content_order, ends[:-1]):
        generator = np.random.default_rng(draw)
        if not other_label:
            partners[rows] = generator.permutation(rows)
            continue
        for code in np.unique(training.y[rows]):
            own, others = rows[training.y[rows] == code], rows[training.y[rows] != code]
            if len(others):
                partners[own] = generator.choice(others, len(own))
    return partners


def _typical(values: NDArray[Any], *, whole: bool) -> Any:
    """Return the median of numbers, rounded down where they are whole, else the most frequent value."""
    if values.dtype.kind in "fiu":
        known = values[~np.isnan(values)]
        median = float(np.median(known)) if len(known) else 0.0
        return math.floor(median) if whole else median
    counts = Counter(value for value in values.tolist() if value is not None)
    return max(sorted(counts, key=str), key=counts.__getitem__) if counts else None


def _constant(X: Any, name: Any, value: Any) -> Any:
    """Return a column of a frame with the same value in every row, of the type that it has."""
    column = X[name]
    if nw.dependencies.is_pandas_dataframe(X):
        return type(column)([value] * len(X), index=X.index, dtype=column.dtype, name=name)
    known = nw.from_native(column, series_only=True)
    return nw.new_series(name, [value] * len(X), known.dtype, backend=known.implementation).to_native()


def _with_columns(X: Any, columns: list[Any]) -> Any:
    """Return a frame with other columns in the place of those of the same names."""
    if nw.dependencies.is_pandas_dataframe(X):
        changed = X.copy()
        for column in columns:
            changed[column.name] = column.set_axis(X.index)
        return changed
    frame = nw.from_native(X, eager_only=True)
    return frame.with_columns(*(nw.from_native(column, series_only=True) for column in columns)).to_native()


def _without_words(text: str, words: tuple[str, ...]) -> str:
    """Return the text without some of its words."""
    from holdfast.stable.columns import WORD

    return WORD.sub(lambda match: "" if match.group(0).lower() in words else match.group(0), text)


def _words_in(text: str, words: tuple[str, ...]) -> list[str]:
    from holdfast.stable.columns import split_words

    return [word for word in split_words(text) if word in words]


@dataclass(eq=False, repr=False)
class MixedClassifier(FittedClassifier):
    """Fitted classifiers over class codes whose log-odds are added with weights.

    The first sees all columns; each of the others does without some. A weight of one on the first is that classifier.
    """

    estimators: list[Any]  # fitted
    removals: list[Removal]  # what each of them does not see
    weights: Sequence[float]  # they sum to one
    calibration: Calibration  # from the mixed scores to probabilities

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The codes."""
        return np.arange(len(self.calibration.offsets))

    def predict_proba(self, X: Any) -> Array:
        """Return calibrated probabilities, (n_rows, n_classes)."""
        n_classes = len(self.calibration.offsets)
        parts = [
            class_scores(estimator, removal.apply(X), n_classes)
            for estimator, removal in zip(self.estimators, self.removals, strict=True)
        ]
        return self.calibration.probabilities(mix_scores(parts, self.weights))


@dataclass(eq=False, repr=False)
class MixedRegressor(RegressorMixin, FittedParts):
    """Fitted regressors whose predictions are added with weights; each but the first does without some columns."""

    estimators: list[Any]  # fitted
    removals: list[Removal]  # what each of them does not see
    weights: Sequence[float]  # they sum to one

    def predict(self, X: Any) -> Array:
        """Return predictions, (n_rows,)."""
        parts = zip(self.estimators, self.removals, self.weights, strict=True)
        found = [weight * np.asarray(model.predict(removal.apply(X))) for model, removal, weight in parts]
        return np.asarray(np.sum(found, axis=0))


def mix_scores(parts: Sequence[Array] | Array, weights: Sequence[float]) -> Array:
    """Return the weighted sum of (n_rows, n_classes) scores, each centered over the classes.

    Examples
    --------
    >>> mix_scores([np.array([[0.0, 2.0]]), np.array([[0.0, 0.0]])], [0.5, 0.5]).tolist()
    [[-0.5, 0.5]]
    """
    return np.asarray(sum(weight * centered(part) for part, weight in zip(parts, weights, strict=True) if weight))


def centered(scores: Array) -> Array:
    """Return scores that sum to zero over the classes, which are the last axis."""
    n_classes = scores.shape[-1]
    return np.asarray(scores - (scores @ np.ones(n_classes) / n_classes)[..., None])  # short rows are slow to add up
