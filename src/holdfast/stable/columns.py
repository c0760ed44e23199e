"""Encode tables and texts as named columns of numbers for the audit and the decision.

Numbers stay as they are, a category becomes one column `name=value` for each value (of two, for the rarer one), a text
one column for each word and phrase (1 where it occurs). Attributes are columns that no judge saw.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from holdfast.environments import missing_labels
from holdfast.exceptions import FeaturesError
from holdfast.rows.kinds import is_sparse

Block: TypeAlias = Any  # NDArray[np.float64] or scipy.sparse.csr_array, of shape (n_rows, n_columns)

# Words with inner apostrophes and hyphens, and markers such as <art_positive> as one word.
WORD = re.compile(r"<[^<>\s]+>|\w+(?:['’-]\w+)*")
MOST_VALUES = 50  # of a categorical column; the rarer ones are counted together


Coder: TypeAlias = tuple[str, Any]  # ("number", mean), ("missing", None), ("level", it) or ("other", all levels)


@dataclass(frozen=True, eq=False)
class Columns:
    """Named columns of numbers; those of one group (the values of a category) are tested together first."""

    names: tuple[str, ...]
    values: Block  # (n_rows, n_columns)
    inputs: NDArray[np.bool_]  # (n_columns,) whether the judges see the column; False for attributes
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # name -> columns; the others stand alone
    sources: tuple[int, ...] = ()  # of each column: the column of X that it was made of; the last may have none
    coders: tuple[Coder, ...] = ()  # of each column of a table's: how it is made of other rows

    def __post_init__(self) -> None:
        if self.values.shape[1] != len(self.names) or self.inputs.shape != (len(self.names),):
            raise FeaturesError(
                f"Columns was given {len(self.names)} names for {self.values.shape[1]} columns. Pass one for each."
            )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.values.shape[0])

    def beside(self, other: Columns) -> Columns:
        """Return both sets of columns; a name that both have is marked as an attribute's."""
        if self.n_rows != other.n_rows:
            raise FeaturesError(f"attributes has {other.n_rows} rows where X has {self.n_rows}. Pass one for each row.")
        taken = set(self.names)
        names = tuple(f"{name} (attribute)" if name in taken else name for name in other.names)
        if is_sparse(self.values) or is_sparse(other.values):
            values: Block = sp.csr_array(sp.hstack([sp.csr_array(self.values), sp.csr_array(other.values)]))
        else:
            values = np.hstack([self.values, other.values])
        moved = {
            f"{name} (attribute)" if name in self.groups else name: tuple(column + len(self) for column in members)
            for name, members in other.groups.items()
        }
        inputs = np.concatenate([self.inputs, other.inputs])
        return Columns(self.names + names, values, inputs, {**self.groups, **moved}, self.sources)

    def as_attributes(self) -> Columns:
        """Return the columns, marked as not seen by the judges."""
        return replace(self, inputs=np.zeros(len(self.names), dtype=bool))

    def grouped(self, groups: Mapping[str, Sequence[str]]) -> Columns:
        """Return the columns with more of them grouped, each group given by its columns' names.

        A name that stands for a category means all of its values.
        """
        place = {name: (number,) for number, name in enumerate(self.names)} | dict(self.groups)
        taken: dict[int, str] = {}
        made: dict[str, tuple[int, ...]] = {}
        for name, members in groups.items():
            if unknown := [member for member in members if member not in place]:
                raise FeaturesError(f"group {name!r} names {unknown[0]!r}, which is no column. Pass names of columns.")
            made[name] = tuple(dict.fromkeys(column for member in members for column in place[member]))
            for column in made[name]:
                if taken.setdefault(column, name) != name:
                    raise FeaturesError(
                        f"column {self.names[column]!r} is in the groups {taken[column]!r} and {name!r}. "
                        "Put every column into one group at most."
                    )
        kept = {name: members for name, members in self.groups.items() if not set(members) & set(taken)}
        return replace(self, groups={**kept, **made})

    @property
    def n_columns(self) -> int:
        """How many columns of the table, words and attributes there are: `age` and `age is missing` count once."""
        made_of: dict[str, int | str] = {}
        for place, feature in enumerate(self.features()):
            made_of.setdefault(feature, self.sources[place] if place < len(self.sources) else feature)
        return len(set(made_of.values()))

    def features(self) -> tuple[str, ...]:
        """Return the feature of each column: its group, or the column itself."""
        names = list(self.names)
        for group, members in self.groups.items():
            for column in members:
                names[column] = group
        return tuple(names)

    def encode(self, frame: Any) -> NDArray[np.float64]:
        """Return the same columns of other rows of the table."""
        values, found, known = nw.from_native(frame, eager_only=True), [], -1
        for source, (kind, what) in zip(self.sources, self.coders, strict=True):
            if source != known:  # the columns of a source stand together
                known, column = source, values[:, source].to_numpy()
                missing = missing_labels(column)
                texts = None if kind in ("number", "missing") else _texts(column, missing)
            if texts is not None:
                made: Any = np.isin(texts, what, invert=kind == "other")
            else:
                made = missing if kind == "missing" else np.where(missing, what, _as_numbers(column, missing))
            found.append(np.asarray(made, dtype=np.float64))
        return np.column_stack(found)


def encode_table(X: Any, *, names: Sequence[str] | None = None, min_count: int = 10) -> Columns:
    """Return the columns of a frame or a 2-d array (sparse too) as numbers.

    Parameters
    ----------
    X : frame (pandas, polars, …), array of shape (n_rows, n_columns) or sparse matrix
    names : sequence of str, optional
        Column names of an array; x0, x1, … by default.
    min_count : int
        A category needs that many rows, and as many rows without it, for a column of its own.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [30, 40, None], "scanner": ["A", "B", "A"]})
    >>> encode_table(table, min_count=1).names
    ('age', 'age is missing', 'scanner=B')
    """
    if is_sparse(X):
        sparse = sp.csr_array(X, dtype=np.float64)
        return _all_inputs(_array_names(names, sparse.shape[1]), sparse)
    pairs: list[tuple[str, NDArray[Any]]]
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise FeaturesError(
                f"X has shape {X.shape}; an audit needs columns. Pass attributes= with one row for each picture, "
                "or a 2-d array."
            )
        pairs = list(zip(_array_names(names, X.shape[1]), X.T, strict=True))
    else:
        frame = nw.from_native(X, eager_only=True)
        pairs = [(str(column.name), column.to_numpy()) for column in frame.iter_columns()]
    if not pairs:
        raise FeaturesError("X has no columns; an audit needs at least one.")
    encoded: list[tuple[str, NDArray[np.float64], Coder]] = []
    groups: dict[str, tuple[int, ...]] = {}
    sources: list[int] = []
    for number, (name, values) in enumerate(pairs):
        made = _encode_column(name, values, min_count)
        is_category = len(made) > 1 and made[0][0] != name
        if is_category and len(made) == 2 and (made[0][1] + made[1][1] == 1).all():
            made = made[1:]  # the other of two values says the same
        sources += [number] * len(made)
        if is_category:
            groups[name] = tuple(range(len(encoded), len(encoded) + len(made)))
        encoded += made
    if not encoded:
        raise FeaturesError(
            f"X has nothing to audit: no number, and no category that at least {min_count} rows have and as many have "
            "not. Leave identifiers out, and pass other columns."
        )
    columns = _all_inputs([name for name, *_ in encoded], np.column_stack([values for _, values, _ in encoded]))
    return replace(columns, groups=groups, sources=tuple(sources), coders=tuple(coder for *_, coder in encoded))


def encode_texts(
    texts: Sequence[str], *, n_words: tuple[int, int] = (1, 2), min_count: int = 10, max_columns: int = 20_000
) -> Columns:
    """Return one column for each word or phrase: 1 where a text has it.

    Parameters
    ----------
    texts : sequence of str
    n_words : (int, int)
        Shortest and longest phrase, in words.
    min_count : int
        A phrase must occur in that many texts, and be absent from as many.
    max_columns : int
        The most frequent phrases are kept.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        token_pattern=None, tokenizer=split_words, lowercase=False, ngram_range=n_words, binary=True, dtype=np.float64
    )
    try:
        counts = sp.csr_array(vectorizer.fit_transform(texts))
    except ValueError as problem:
        raise FeaturesError(f"no words were found in X: {problem}") from problem
    occurrences = np.asarray(counts.sum(axis=0)).ravel()
    kept = np.flatnonzero((occurrences >= min_count) & (len(texts) - occurrences >= min_count))
    if not len(kept):
        raise FeaturesError(f"no word occurs in at least min_count={min_count} texts. Lower min_count.")
    if len(kept) > max_columns:
        kept = np.sort(kept[np.argsort(-occurrences[kept], kind="stable")[:max_columns]])
    names = vectorizer.get_feature_names_out()
    return _all_inputs([str(names[column]) for column in kept], sp.csr_array(counts[:, kept]))


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case.

    Examples
    --------
    >>> split_words("<art_positive> A well-poured head, isn't it?")
    ['<art_positive>', 'a', 'well-poured', 'head', "isn't", 'it']
    """
    return [word.lower() for word in WORD.findall(text)]


def split_categories(columns: Columns) -> list[tuple[str, str]]:
    """Return the first and the last column of each category of three or more values that came as columns of 0 and 1.

    They stand side by side, and one of them is 1 in every row.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30, 40, 50], "red": [1, 0, 0], "green": [0, 1, 0], "blue": [0, 0, 1]})
    >>> split_categories(encode_table(frame))
    [('red', 'blue')]
    """
    if is_sparse(columns.values) or not columns.n_rows:
        return []
    grouped = {column for members in columns.groups.values() for column in members}
    found, n_columns, start = [], len(columns), 0
    while start < n_columns:
        total, end = np.zeros(columns.n_rows), start
        while end < n_columns and end not in grouped and total.min() == 0:
            values = columns.values[:, end]
            if not ((values == 0) | (values == 1)).all() or (total + values).max() > 1:
                break
            total, end = total + values, end + 1
        is_split = end - start > 2 and total.min() == 1
        if is_split:
            found.append((columns.names[start], columns.names[end - 1]))
        start = end if is_split else start + 1
    return found


def _all_inputs(names: Sequence[str], values: Block) -> Columns:
    return Columns(tuple(names), values, np.ones(len(names), dtype=bool))


def _array_names(names: Sequence[str] | None, n_columns: int) -> list[str]:
    """Return the given names, or else x0, x1 and so on."""
    if names is None:
        return [f"x{column}" for column in range(n_columns)]
    if len(names) != n_columns:
        raise FeaturesError(f"{len(names)} names were given for {n_columns} columns of X. Pass one for each.")
    return [str(name) for name in names]


def _encode_column(name: str, values: NDArray[Any], min_count: int) -> list[tuple[str, NDArray[np.float64], Coder]]:
    """Return one column of a table as one or several columns of numbers."""
    missing = missing_labels(values)
    numbers = _as_numbers(values, missing)
    if numbers is None:
        return _encode_categories(name, values, missing, min_count)
    if np.isinf(numbers).any():
        raise FeaturesError(f"column {name!r} of X holds infinite values. Replace them, for example by missing ones.")
    if missing.all():
        return []
    mean = numbers[~missing].mean()
    if not missing.any():
        return [(name, numbers, ("number", mean))]
    filled = np.where(missing, mean, numbers)
    return [(name, filled, ("number", mean)), (f"{name} is missing", missing.astype(float), ("missing", None))]


def _as_numbers(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return the values as numbers where that is what they are; None for categories."""
    if values.dtype.kind in "mM":
        return np.where(
            missing, 0.0, values.astype("datetime64[s]" if values.dtype.kind == "M" else "i8").astype(float)
        )
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if all(isinstance(value, int | float | np.number | np.bool_) for value in values[~missing]):
        return np.where(missing, 0.0, np.where(missing, 0.0, values).astype(float))
    return None


def _encode_categories(
    name: str, values: NDArray[Any], missing: NDArray[np.bool_], min_count: int
) -> list[tuple[str, NDArray[np.float64], Coder]]:
    """Return `name=value` for each frequent value, the most frequent first; rare ones together."""
    found, codes, counts = np.unique(_texts(values, missing), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    frequent = [value for value in order if counts[value] >= min_count][:MOST_VALUES]
    columns: list[tuple[str, NDArray[np.float64], Coder]] = [
        (f"{name}={found[value]}", (codes == value).astype(float), ("level", found[[value]])) for value in frequent
    ]
    rare = ~np.isin(codes, frequent)
    if rare.sum() >= min_count:
        columns.append((f"{name}=(any other)", rare.astype(float), ("other", found[frequent])))
    return [column for column in columns if len(column[1]) - column[1].sum() >= min_count]


def _texts(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Return categories as texts."""
    texts = np.array([str(value) for value in values], dtype=object)
    texts[missing] = "(missing)"
    return texts.astype(str)
