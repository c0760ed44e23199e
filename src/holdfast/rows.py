"""Reading what `fit` was handed: rows, weights, groups and folds, each checked with a message that says what to do."""

from __future__ import annotations

import contextlib
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets

from holdfast.environments import (
    Environment,
    Group,
    Rows,
    Weights,
    as_labels,
    is_lazy,
    label_array,
    listed,
    missing_labels,
    take_rows,
    unique_labels,
)
from holdfast.exceptions import (
    EnvironmentsError,
    FeaturesError,
    HoldfastError,
    InputTypeError,
    LabelsError,
    ParameterError,
)
from holdfast.learners import BOOSTERS, fit_error, last_step, library_of, weighted_steps
from holdfast.seeding import Seeding

# Settings in which scikit-learn, XGBoost and CatBoost take names of columns.
NAMING = "categorical_features", "monotonic_cst", "monotone_constraints", "interaction_constraints", "ignored_features"
BLOCK_NUMBERS = 1 << 21  # numbers that are read at once: 16 MiB of float64


class MappedRows:
    """Some rows of a memory map as a whole of their own, read only where they are asked for."""

    def __init__(self, array: NDArray[Any], rows: Rows) -> None:
        self._array, self._rows = array, rows
        self.shape: tuple[int, ...] = (len(rows), *array.shape[1:])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: Rows | slice) -> NDArray[Any]:
        taken: NDArray[Any] = self._array[self._rows[rows]]
        return taken

    dense = __getitem__  # networks take rows that have it a batch at a time


class TransformedRows:
    """Rows of a memory map that fitted transformers transform as they are read."""

    def __init__(self, X: Any, transform: Callable[[Any], Any]) -> None:
        self._X, self._transform = X, transform
        self.shape: tuple[int, ...] = (X.shape[0], *transform(X[:1]).shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Rows | slice) -> Any:
        return self._transform(self._X[rows])

    def dense(self, rows: Rows | slice) -> NDArray[Any]:
        """Return rows, transformed, as an array."""
        taken = self[rows]
        return np.asarray(taken.toarray() if hasattr(taken, "toarray") else taken)


def is_mapped(X: Any) -> bool:
    """Return whether rows lie in a memory map, also where numpy or scikit-learn made a plain view of it.

    Examples
    --------
    >>> is_mapped(np.zeros((2, 2)))
    False
    """
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, MappedRows)


def blocks_of(X: Any) -> Iterator[slice]:
    """Yield slices that together cover the rows of X, each of at most `BLOCK_NUMBERS` numbers."""
    n_rows = max(1, BLOCK_NUMBERS // max(1, math.prod(X.shape[1:])))
    for start in range(0, X.shape[0], n_rows):
        yield slice(start, min(start + n_rows, X.shape[0]))


def fit_transformers(
    estimator: Any, X: Any, y: NDArray[Any], weights: Weights | None = None
) -> tuple[Any, Callable[[Any], Any]]:
    """Fit all steps of a pipeline but the last; return what the last step sees of X, and how to transform other rows.

    Steps that take weights get them. Rows of a memory map stay on disk: a single transformer learns them in blocks
    where it can, and they are transformed as they are read. An estimator that is not a pipeline sees X itself.
    """
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return X, lambda other: other
    head = estimator[:-1]
    keywords = {} if weights is None else dict.fromkeys(weighted_steps(head), weights)
    with sklearn.config_context(enable_metadata_routing=False):  # a keyword goes straight to the step it names
        if not is_mapped(X):
            try:
                rows = head.fit_transform(X, y, **keywords)
            except (ValueError, TypeError) as problem:
                raise fit_error(estimator, X, problem) from problem
        elif len(head.steps) == 1 and hasattr(head.steps[0][1], "partial_fit"):
            for block in blocks_of(X):
                own = {} if not keywords or weights is None else {"sample_weight": weights[block]}
                head.steps[0][1].partial_fit(X[block], y[block], **own)
            rows = TransformedRows(X, head.transform)
        else:
            head.fit(X[:], y, **keywords)
            rows = TransformedRows(X, head.transform)
    estimator.steps[:-1] = head.steps  # a pipeline with a cache fits copies
    return rows, head.transform


def answers(answer: Callable[[Any], Any], X: Any, rows: Rows) -> NDArray[Any]:
    """Return what a function says about rows of X; a memory map is read and answered block by block."""
    if not is_mapped(X):
        return np.asarray(answer(take_rows(X, rows)))
    own = MappedRows(X, rows)
    return np.concatenate([np.asarray(answer(own[block])) for block in blocks_of(own)])


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """All that `fit` was handed, checked."""

    X: Any
    y: NDArray[Any]  # (n_rows,) class codes, or targets
    environments: tuple[Environment, ...]
    sample_weight: Weights | None = None
    group_labels: tuple[NDArray[np.intp], tuple[str, ...]] | None = None  # codes (n_rows,) and their names
    folds: NDArray[np.intp] | None = None
    names: NDArray[Any] | None = None  # of the columns, where X was a frame

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def environment_codes(self) -> NDArray[np.intp]:
        """Number of each row's environment, shape (n_rows,)."""
        codes = np.empty(self.n_rows, dtype=np.intp)
        for number, environment in enumerate(self.environments):
            codes[environment.rows] = number
        return codes

    @cached_property
    def row_keys(self) -> NDArray[np.uint64]:
        """A number for each row that depends on what it contains."""
        return row_keys(self.X)

    @cached_property
    def content_order(self) -> Rows:
        """The rows by environment, label and what they contain: the same whatever order they came in."""
        return np.lexsort((self.row_keys, self.y, self.environment_codes))

    def environment_groups(self) -> tuple[Group, ...]:
        """Return the environments as groups, with the sample weights."""
        return tuple(Group(e.name, e.rows).weighted(self.sample_weight) for e in self.environments)

    @property
    def weights(self) -> Weights:
        """Weight of each row; ones where none were given."""
        return np.ones(self.n_rows) if self.sample_weight is None else self.sample_weight

    def take(self, rows: Rows) -> TrainingRows:
        """Return some of the rows, renumbered; environments without a row are left out."""
        place = np.full(self.n_rows, -1)
        place[rows] = np.arange(len(rows))
        parts = [Environment(e.label, np.sort(place[e.rows][place[e.rows] >= 0])) for e in self.environments]
        weights, folds = self.sample_weight, self.folds
        labels = self.group_labels
        return TrainingRows(
            take_rows(self.X, rows),
            self.y[rows],
            tuple(part for part in parts if len(part)),
            None if weights is None else weights[rows],
            None if labels is None else (labels[0][rows], labels[1]),
            None if folds is None else folds[rows],
            self.names,
        )

    def check_folds(self) -> None:
        """Refuse folds that leave no rows of an environment to ask its own classifier about, out of fold."""
        if self.folds is None:
            return
        for environment in self.environments:
            if len(np.unique(self.folds[environment.rows])) < 2:
                raise EnvironmentsError(
                    f"folds puts all rows of environment {environment.name!r} into one fold, but its classifier is "
                    "calibrated on rows of its own that it was not fitted on. Spread the rows of every environment "
                    "over at least two folds."
                )


def row_keys(X: Any) -> NDArray[np.uint64]:
    """Return a number for each row that depends on what the row contains and on nothing else.

    Equal rows have equal keys. Rows that are read from disk or decoded when they are asked for keep their place as key.
    """
    if is_text(X):
        return _mixed(_text_bits(np.asarray(list(X), dtype=object)))
    if hasattr(X, "columns"):
        columns = [np.asarray(X[name]) for name in X.columns]
        return _combined([_text_bits(c) if c.dtype.kind not in "fiub" else _number_bits(c) for c in columns])
    if is_sparse(X):
        rows = sp.coo_array(X)
        keys = np.zeros(X.shape[0], dtype=np.uint64)
        np.add.at(keys, rows.coords[0], _mixed(_number_bits(rows.data)) * _multipliers(X.shape[1])[rows.coords[1]])
        return keys
    if is_mapped(X) or is_lazy(X) or not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub":
        return np.arange(len(X), dtype=np.uint64)
    flat = X.reshape(len(X), -1)
    return _combined([_number_bits(flat[:, column]) for column in range(flat.shape[1])])


def deal_evenly(order: Rows, codes: NDArray[np.intp], n_folds: int) -> NDArray[np.intp]:
    """Return a fold for each row, evenly over each environment and label; `order` is `TrainingRows.content_order`.

    Rows are dealt by what they contain, not by their place in the table or by a seed, so that neither the order of the
    rows nor the seed changes an answer that is made out of fold.
    """
    sizes = np.unique(codes, return_counts=True)[1]
    folds = np.empty(len(codes), dtype=np.intp)
    folds[order] = np.concatenate([np.arange(size) for size in sizes]) % n_folds
    return folds


def _number_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bits of numbers, the same for 0 and -0."""
    return (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def _text_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bits of a checksum of each value's text."""
    return np.array([zlib.crc32(str(value).encode()) + 1 for value in values], dtype=np.uint64)


def _combined(columns: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return one key for each row of several columns."""
    total = np.zeros(len(columns[0]) if columns else 0, dtype=np.uint64)
    for bits, multiplier in zip(columns, _multipliers(len(columns)), strict=True):
        total += _mixed(bits) * multiplier
    return total


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of each number over all its bits; 0 stays 0."""
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    return np.asarray((bits ^ (bits >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53))


def _multipliers(n_columns: int) -> NDArray[np.uint64]:
    """Return an odd number for each column, always the same ones."""
    numbers = np.random.default_rng(20210721).integers(2**63, size=n_columns, dtype=np.int64)
    return numbers.astype(np.uint64) * np.uint64(2) + np.uint64(1)


def holds_items(X: Any) -> bool:
    """Return whether X is what only networks read: a dict of arrays, a torch Dataset, a DataLoader, or rows of one.

    Examples
    --------
    >>> holds_items({"tokens": [[1, 2], [3]]}), holds_items([[1.0, 2.0]])
    (True, False)
    """
    if (isinstance(X, Mapping) and not is_sparse(X)) or type(X).__name__ == "ItemRows":  # a sparse matrix can be a dict
        return True
    data: Any = sys.modules.get("torch.utils.data")
    return data is not None and (isinstance(X, data.Dataset | data.DataLoader) or hasattr(X, "__getitems__"))


def takes_items(estimator: Any) -> bool:
    """Return whether an estimator, or the first step of a pipeline, reads a dict or a Dataset."""
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    return bool(getattr(first, "takes_items", False))


def refuse_items(estimator: Any, X: Any) -> None:
    """Say that an estimator cannot read a dict or Dataset, and what can."""
    kind = "a dict" if isinstance(X, Mapping) else f"a {type(X).__name__}"
    raise InputTypeError(
        f"X is {kind}, which {type(last_step(estimator)).__name__} cannot read. Use a NeuralClassifier, or put "
        "FrozenFeatures before it in a Pipeline; for the columns of a table pass pandas.DataFrame(X)."
    )


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse matrix of any kind."""
    return bool(sp.issparse(X))


def is_text(X: Any) -> bool:
    """Return whether X is a sequence of texts, one for each row."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], str)
    if getattr(X, "ndim", 2) == 1 or type(X).__name__ == "Series":
        return len(X) > 0 and isinstance(next(iter(X)), str)
    return False


def needs_frame(estimator: Any, X: Any) -> bool:
    """Return whether a frame must reach the estimator as it is: it may choose columns by name or by type."""
    if isinstance(estimator, Pipeline):
        return True
    if hasattr(estimator, "fit_groups"):  # a network reads arrays
        return False
    given = estimator.get_params(deep=False)
    if any(_names_columns(given.get(name)) for name in NAMING):
        return True
    if library_of(estimator) in BOOSTERS and any(given.get(name) for name in ("cat_features", "categorical_feature")):
        return True
    voters = [part for pair in given.get("estimators") or () for part in (pair if isinstance(pair, tuple) else [pair])]
    inside = [part for part in [given.get("estimator"), *voters] if hasattr(part, "fit")]
    if any(needs_frame(part, X) for part in inside):
        return True
    return any(str(kind).lower().startswith(("categor", "enum")) for kind in X.dtypes)


def _names_columns(value: Any) -> bool:
    """Return whether a setting holds names of columns: a word other than "from_dtype", at any depth."""
    if isinstance(value, str):
        return value != "from_dtype" and any(letter.isalpha() for letter in value)
    return isinstance(value, Iterable) and any(map(_names_columns, value))


def read_column(y: Any) -> NDArray[Any]:
    """Return y as one column; NaN and numbers next to texts in a list stay what they are."""
    with as_ours(LabelsError):
        return np.asarray(column_or_1d(as_labels(y) if isinstance(y, list | tuple) else y, warn=True))


def read_labels(y: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the classes and each row's class code; at least two classes, and a label for each row."""
    labels = read_column(y)
    if len(labels) != n_rows:
        raise LabelsError(f"y has {len(labels)} labels for {n_rows} rows. Pass one label for each row of X.")
    n_missing = int(missing_labels(labels).sum())
    if n_missing:
        raise LabelsError(
            f"y is missing in {n_missing} of {n_rows} rows: Input y contains NaN or None. "
            "Drop those rows before fitting."
        )
    with as_ours(LabelsError), np.errstate(invalid="ignore"):  # infinity has no integer; the check refuses it
        check_classification_targets(labels)
    classes, codes = unique_labels(labels, what="y", error=LabelsError)
    if len(classes) < 2:
        raise LabelsError(
            f"y has one class only ({classes.tolist()[0]!r}), but a classifier needs at least two classes. "
            "Check that the label column is the right one."
        )
    return classes, codes


def known_codes(y: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the class codes of validation rows, whose labels must be among the classes."""
    labels = np.asarray(y)
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise LabelsError(
            f"validation has labels that do not occur in the training rows: {listed([str(u) for u in unknown])}."
        )
    return np.searchsorted(classes, labels)


def read_held_out(validation: Any) -> tuple[Any, Any, Any]:
    """Return rows, labels and group labels (or None) of what was passed as `validation`."""
    if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
        raise InputTypeError(
            "validation must be (X, y), (X, y, group_labels), a Dataset or a share of the rows such as 0.2. "
            f"Got {type(validation).__name__} instead."
        )
    X, y, *groups = validation
    return X, y, groups[0] if groups else None


def is_share(validation: Any) -> bool:
    """Return whether `validation` is the share of the rows to hold out; a share outside of (0, 1) is refused."""
    if not isinstance(validation, int | float | np.integer | np.floating) or isinstance(validation, bool):
        return False
    if not 0 < validation < 1:
        raise ParameterError(f"validation as a share of the rows must be between 0 and 1. Got {validation!r} instead.")
    return True


def hold_out(share: float, strata: Sequence[NDArray[np.intp]], seeding: Seeding) -> tuple[Rows, Rows]:
    """Return the rows to keep and the rows to hold out, the same share of every stratum; small strata are kept.

    Examples
    --------
    >>> site, label = np.array([0] * 10 + [1] * 10), np.array([0, 1] * 10)
    >>> kept, held = hold_out(0.2, [site, label], Seeding(0))
    >>> len(kept), np.bincount(2 * site[held] + label[held]).tolist()
    (16, [1, 1, 1, 1])
    """
    _, cells = np.unique(np.stack(strata), axis=1, return_inverse=True)
    cells = cells.ravel()
    order = seeding.generator("validation").permutation(len(cells))
    held = [part[: int(share * len(part) + 0.5)] for part in (order[cells[order] == c] for c in range(cells.max() + 1))]
    is_held = np.zeros(len(cells), dtype=bool)
    is_held[np.concatenate(held)] = True
    if not is_held.any() or is_held.all():
        raise ParameterError(
            f"validation={share:g} of {len(cells)} rows leaves no rows to validate on or to train on. Pass another "
            "share, or rows: validation=(X, y)."
        )
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def read_weights(sample_weight: Any, n_rows: int) -> Weights | None:
    """Return one finite weight for each row, at least some positive."""
    if sample_weight is None:
        return None
    with as_ours(FeaturesError):
        weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise FeaturesError(
            f"sample_weight.shape == {weights.shape}, expected {(n_rows,)}! Pass one weight for each row of X."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise FeaturesError(
            "sample_weight holds negative, NaN or infinite values. Weights must be finite and at least 0."
        )
    if weights.sum() <= 0:
        raise FeaturesError("sample_weight is zero in every row. Give at least some rows a positive weight.")
    return weights


def read_groups(group_labels: Any, n_rows: int) -> tuple[NDArray[np.intp], tuple[str, ...]] | None:
    """Return the codes of the given groups and their names."""
    if group_labels is None:
        return None
    labels = label_array(group_labels, n_rows, what="group_labels", error=EnvironmentsError, example="frame['scanner']")
    values, codes = unique_labels(labels, what="group_labels", error=EnvironmentsError)
    return codes, tuple(f"group {value}" for value in values)


def read_folds(folds: Any, n_rows: int) -> NDArray[np.intp] | None:
    """Return the fold number of each row."""
    if folds is None:
        return None
    labels = label_array(folds, n_rows, what="folds", error=EnvironmentsError, example="frame['patient'] % 3")
    values, codes = unique_labels(labels, what="folds", error=EnvironmentsError)
    if len(values) < 2:
        raise EnvironmentsError("folds puts every row into one fold. Pass at least two different fold numbers.")
    return codes


def allows_nan(estimator: Any) -> bool:
    """Return whether NaN may reach the estimator: a pipeline's own steps decide, or what a calibration is around."""
    if isinstance(estimator, Pipeline) and not isinstance(estimator.steps[0][1], StandardScaler):
        return True
    inside = getattr(estimator, "estimator", None)
    return bool(get_tags(estimator).input_tags.allow_nan) or (hasattr(inside, "fit") and allows_nan(inside))


def is_float(dtype: Any) -> bool:
    """Return whether a frame's column holds floating point numbers."""
    return str(dtype).lower().startswith(("float", "double"))


@contextlib.contextmanager
def as_ours(error: type[HoldfastError]) -> Iterator[None]:
    """Turn scikit-learn's complaints about input into ours, with the same words."""
    try:
        yield
    except HoldfastError:
        raise
    except TypeError as problem:
        raise InputTypeError(str(problem)) from problem
    except ValueError as problem:
        raise error(str(problem)) from problem
