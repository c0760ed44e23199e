"""What fitted classifiers rely on: permutation importance of columns and words, and average pictures of halves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast.environments import Group, Partition, PerRow
from holdfast.exceptions import FeaturesError, ParameterError
from holdfast.rows.kinds import is_frame, is_sparse, is_text
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.columns import WORD, encode_texts, split_words

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
ROWS_AT_ONCE = 256  # of a memory map of pictures


@dataclass(frozen=True, eq=False)
class Reliance:
    """How much each classifier's accuracy falls without each feature.

    Rows are in the order of the largest fall in any classifier.
    """

    features: tuple[str, ...]
    estimators: tuple[str, ...]
    falls: Floats  # (n_features, n_estimators) accuracy with the feature − accuracy without it
    changed: Floats  # (n_features, n_estimators) share of rows whose prediction changes
    accuracies: Floats  # (n_estimators,) with everything in place
    n_rows: NDArray[np.intp]  # (n_features,) rows that have the feature: all of them for columns

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each feature and, for each classifier, its fall and its share of changed predictions."""
        import pandas as pd

        columns: dict[str, Any] = {"feature": self.features, "n_rows": self.n_rows}
        for number, name in enumerate(self.estimators):
            columns[f"{name}: fall"] = self.falls[:, number]
            columns[f"{name}: changed"] = self.changed[:, number]
        return pd.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class WordImportance:
    """How much each word of one text carries each classifier's prediction."""

    words: tuple[str, ...]  # in the order of the text
    estimators: tuple[str, ...]
    predictions: tuple[str, ...]  # of each classifier for the whole text
    drops: Floats  # (n_words, n_estimators) probability of that prediction − its probability without the word


def relied_on(
    estimators: Mapping[str, Any],
    X: Any,
    y: PerRow,
    *,
    features: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    words: Mapping[str, Sequence[str]] | None = None,
    n_repeats: int = 5,
    max_features: int = 100,
    min_count: int = 10,
    random_state: RandomState = 0,
) -> Reliance:
    """Compare what fitted classifiers rely on.

    Columns of a table are shuffled, `n_repeats` times; words of texts are taken out wherever they occur.

    Parameters
    ----------
    estimators : mapping of name to fitted classifier
        For example {"ERM": erm, "PI": pi}.
    X, y : rows that the classifiers were not fitted on, and their labels
    features : sequence of str, optional
        Which columns or words to try; by default every column, or the most frequent words.
    groups : mapping of str to sequence of str, optional
        Columns of a table that are one feature and are shuffled together; with them, `features` may be theirs.
    words : mapping of str to sequence of str, optional
        Words to take out of a frame's text columns, by column; each becomes the feature `column: word`.
    n_repeats : int
    max_features : int
        Words to try when none are given.
    min_count : int
        Texts that a word must occur in.
    random_state : int, RandomState, Generator or None
    """
    if not estimators:
        raise ParameterError("The 'estimators' parameter of relied_on must name at least one fitted classifier.")
    labels = np.asarray(y)
    before = [np.asarray(estimator.predict(X)) for estimator in estimators.values()]
    if any(answer.shape != labels.shape for answer in before):
        raise FeaturesError(f"X has {before[0].shape[0]} rows where y has {len(labels)}. Pass one label for each row.")
    if is_text(X):
        tried = _without_words(list(X), features, max_features, min_count)
    else:
        generator = Seeding(random_state).generator("shuffles")
        tried = _shuffled_columns(X, features, groups or {}, n_repeats, generator)
        tried += [part for column, chosen in (words or {}).items() for part in _words_of_column(X, column, chosen)]
    falls, changed = np.zeros((2, len(tried), len(estimators)))
    for row, (_, rows, versions) in enumerate(tried):
        for column, (estimator, old) in enumerate(zip(estimators.values(), before, strict=True)):
            answers = [np.asarray(estimator.predict(version())) for version in versions]
            hits = [float((old[rows] == labels[rows]).sum() - (new == labels[rows]).sum()) for new in answers]
            falls[row, column] = np.mean(hits) / len(labels)
            changed[row, column] = np.mean([(new != old[rows]).sum() for new in answers]) / len(labels)
    order = np.argsort(-np.abs(falls).max(axis=1), kind="stable")
    return Reliance(
        tuple(tried[row][0] for row in order),
        tuple(estimators),
        falls[order],
        changed[order],
        np.array([(answer == labels).mean() for answer in before]),
        np.array([len(tried[row][1]) for row in order], dtype=np.intp),
    )


def word_importance(estimators: Mapping[str, Any], text: str) -> WordImportance:
    """Take out one word at a time, and see how much less sure each classifier is of its prediction."""
    spans = [match.span() for match in WORD.finditer(text)]
    if not spans:
        raise FeaturesError("the text has no words to take out.")
    versions = [text, *(text[:start] + text[end:] for start, end in spans)]
    predictions, drops = [], []
    for estimator in estimators.values():
        chances = np.asarray(estimator.predict_proba(versions), dtype=np.float64)  # (1 + n_words, n_classes)
        best = int(chances[0].argmax())
        predictions.append(str(estimator.classes_[best]))
        drops.append(chances[0, best] - chances[1:, best])
    words = tuple(text[start:end] for start, end in spans)
    return WordImportance(words, tuple(estimators), tuple(predictions), np.stack(drops, axis=1))


Tried = tuple[str, NDArray[np.intp], list[Callable[[], Any]]]  # a feature, the rows that have it, X without it


def _without_words(texts: list[str], words: Sequence[str] | None, max_features: int, min_count: int) -> list[Tried]:
    """Return each word with the texts that have it, and those texts without it."""
    columns = encode_texts(texts, n_words=(1, 1), min_count=1 if words is not None else min_count)
    place = {name: column for column, name in enumerate(columns.names)}
    if words is None:
        frequency = np.asarray(columns.values.sum(axis=0)).ravel()
        chosen = [columns.names[column] for column in np.argsort(-frequency, kind="stable")[:max_features]]
    else:
        chosen = [str(word).lower() for word in words]
    by_column = sp.csc_array(columns.values)
    tried: list[Tried] = []
    for word in chosen:
        column = place.get(word)
        if column is None:
            found = np.array([row for row, text in enumerate(texts) if word in split_words(text)], dtype=np.intp)
        else:
            found = by_column.indices[by_column.indptr[column] : by_column.indptr[column + 1]].astype(np.intp)
        if len(found):
            rows = np.sort(found)
            cut = [_cut_word(texts[row], word) for row in rows]
            tried.append((word, rows, [partial(list, cut)]))
    if not tried:
        raise FeaturesError("none of the words occurs in X.")
    return tried


def _words_of_column(X: Any, column: str, words: Sequence[str]) -> list[Tried]:
    """Return each word of a text column with the rows that have it, and those rows without it."""
    texts = [str(text) for text in nw.from_native(X, eager_only=True)[column].to_list()]
    split = [set(split_words(text)) for text in texts]
    tried: list[Tried] = []
    for word in dict.fromkeys(str(word).lower() for word in words):
        rows = np.array([row for row, found in enumerate(split) if word in found], dtype=np.intp)
        if len(rows):
            cut = [_cut_word(texts[row], word) for row in rows]
            tried.append((f"{column}: {word}", rows, [partial(_replaced, X, column, rows, cut)]))
    return tried


def _replaced(X: Any, column: str, rows: NDArray[np.intp], texts: list[str]) -> Any:
    """Return some rows of a frame with other texts."""
    frame = nw.from_native(X, eager_only=True)[rows.tolist()]
    return frame.with_columns(nw.new_series(column, texts, backend=frame.implementation)).to_native()


def _cut_word(text: str, word: str) -> str:
    """Return the text without the word."""
    return WORD.sub(lambda match: "" if match.group().lower() == word else match.group(), text)


def _shuffled_columns(
    X: Any,
    names: Sequence[str] | None,
    groups: Mapping[str, Sequence[str]],
    n_repeats: int,
    generator: np.random.Generator,
) -> list[Tried]:
    """Return each column, or group of columns, with X in which it is shuffled."""
    if is_frame(X):
        known = [str(name) for name in X.columns]
    else:
        if getattr(X, "ndim", 0) != 2:
            raise FeaturesError("relied_on shuffles columns or takes out words. Pass a table, a 2-d array or texts.")
        known = [f"x{column}" for column in range(X.shape[1])]
    grouped = {str(member) for members in groups.values() for member in members}
    parts = {name: [name] for name in known if name not in grouped}
    parts |= {name: [str(member) for member in members] for name, members in groups.items()}
    chosen = list(parts) if names is None else [str(name) for name in names]
    parts = {name: [name] for name in known} | parts
    for name in chosen:
        if missing := [member for member in parts.get(name, [name]) if member not in known]:
            raise FeaturesError(f"X has no column {missing[0]!r}. Its columns are {', '.join(known[:10])}.")
    n_rows = X.shape[0]
    rows = np.arange(n_rows)
    orders = [generator.permutation(n_rows) for _ in range(n_repeats)]
    places = {name: [known.index(member) for member in parts[name]] for name in chosen}
    return [(name, rows, [partial(_shuffle, X, places[name], order) for order in orders]) for name in chosen]


def _shuffle(X: Any, columns: Sequence[int], order: NDArray[np.intp]) -> Any:
    """Return a copy of X with some columns in another order."""
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        names = [frame.columns[column] for column in columns]
        return frame.with_columns(*(frame[name][order.tolist()] for name in names)).to_native()
    if is_sparse(X):
        by_column = sp.csc_array(X)
        parts: list[Any] = [by_column[:, [number]] for number in range(by_column.shape[1])]
        for column in columns:
            parts[column] = parts[column].tocsr()[order]
        return type(X)(sp.hstack(parts))
    changed = X.copy()
    changed[:, list(columns)] = X[order][:, list(columns)]
    return changed


@dataclass(frozen=True, eq=False)
class AveragePicture:
    """The weighted mean of a half's pictures, for one label."""

    half: str  # "correct" or "mistaken"
    label: str
    size: float  # effective number of pictures
    picture: Floats  # of the pictures' shape


def average_pictures(
    images: Any, y: NDArray[np.intp], classes: NDArray[Any], partition: Partition
) -> tuple[AveragePicture, ...]:
    """Return the average picture of both halves for every label they hold.

    What belongs to a label shows in both halves. What only a judge takes for the label (a background, a color) changes
    places between them.

    Parameters
    ----------
    images : array or memory map of shape (n_rows, ...)
    y : array of shape (n_rows,)
        Class codes.
    classes : array of shape (n_classes,)
    partition : Partition
        Hard or soft, from stage 2.
    """
    if getattr(images, "ndim", 0) < 3:
        raise FeaturesError("average_pictures needs images of shape (n_rows, height, width) or with channels.")
    pictures = []
    for half, group in zip(("correct", "mistaken"), partition.groups(), strict=True):
        for code, label in enumerate(classes):
            inside = y[group.rows] == code
            part = Group(half, group.rows[inside], None if group.weights is None else group.weights[inside])
            if part.effective_size() > 0:
                pictures.append(AveragePicture(half, str(label), part.effective_size(), _mean_picture(images, part)))
    return tuple(pictures)


def _mean_picture(images: Any, group: Group) -> Floats:
    """Return the weighted mean picture, a few rows at a time."""
    total = np.zeros(images.shape[1:])
    shares = group.probabilities()
    for start in range(0, len(group), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        total += np.tensordot(shares[part], np.asarray(images[group.rows[part]], dtype=np.float64), axes=1)
    return total
