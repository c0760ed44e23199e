"""Read the arguments of `fit`: labels, weights, groups, folds and validation rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from holdfast.environments import PerRow, Rows, Weights, as_labels, label_array, listed, missing_labels, unique_labels
from holdfast.exceptions import (
    EnvironmentsError,
    FeaturesError,
    HoldfastError,
    HoldfastWarning,
    InputTypeError,
    LabelsError,
    ParameterError,
    warn,
)
from holdfast.seeding import Seeding

MOST_MEAN_WEIGHT = 1.5  # mean above which weights that are not whole numbers are probably those of a survey


def read_column(y: PerRow) -> NDArray[Any]:
    """Return y as one column; NaN and numbers next to texts in a list stay what they are."""
    with as_ours(LabelsError):
        return np.asarray(column_or_1d(as_labels(y) if isinstance(y, list | tuple) else y, warn=True))


def no_labels(estimator: object, X: Any) -> LabelsError:
    """Return the error about labels that are neither passed nor in the items of X."""
    first, names = None, ""
    if type(X).__name__ == "ItemRows":
        first = X.items if isinstance(X.items, Mapping) else X.items[0]
    if isinstance(first, Mapping):
        names = f" The items have {', '.join(map(repr, first))}: rename the label to 'label'."
    return LabelsError(f"{type(estimator).__name__}.fit requires y to be passed, but the target y is None.{names}")


def read_labels(y: PerRow, n_rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
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


def known_codes(y: PerRow, classes: NDArray[Any]) -> NDArray[np.intp]:
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


def read_weights(sample_weight: PerRow, n_rows: int) -> Weights | None:
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
    counted = weights[weights > 0]
    if (counted != np.round(counted)).any() and counted.mean() > MOST_MEAN_WEIGHT:
        warn(
            f"Weights say how many rows each row stands for, so these {n_rows:,} rows count as {weights.sum():,.0f}. "
            "Divide weights of a survey by their mean.",
            HoldfastWarning,
        )
    return weights


def warn_of_other_order(X: Any, **others: Any) -> None:
    """Say which labels have the index of X in another order: rows are read by position."""
    index: Any = getattr(X, "index", None)
    for name, values in others.items():
        own: Any = getattr(values, "index", None)
        if not all(getattr(one, "is_unique", False) for one in (index, own)):
            continue  # no index of pandas, or one that does not tell rows apart
        if len(index) == len(own) and not index.equals(own) and index.isin(own).all():
            warn(
                f"{name} has the index of X in another order. Rows are read by position. If the index tells which rows "
                f"belong together, pass {name}.loc[X.index].",
                HoldfastWarning,
            )


def read_groups(group_labels: PerRow, n_rows: int) -> tuple[NDArray[np.intp], tuple[str, ...]] | None:
    """Return the codes of the given groups and their names."""
    if group_labels is None:
        return None
    labels = label_array(group_labels, n_rows, what="group_labels", error=EnvironmentsError, example="frame['scanner']")
    values, codes = unique_labels(labels, what="group_labels", error=EnvironmentsError)
    return codes, tuple(f"group {value}" for value in values)


def read_folds(folds: PerRow, n_rows: int) -> NDArray[np.intp] | None:
    """Return the fold number of each row."""
    if folds is None:
        return None
    labels = label_array(folds, n_rows, what="folds", error=EnvironmentsError, example="frame['patient'] % 3")
    values, codes = unique_labels(labels, what="folds", error=EnvironmentsError)
    if len(values) < 2:
        raise EnvironmentsError("folds puts every row into one fold. Pass at least two different fold numbers.")
    return codes


@contextlib.contextmanager
def as_ours(error: type[HoldfastError], rows: Any = None) -> Iterator[None]:
    """Turn scikit-learn's complaints about input into ours, with the same words; name the first bad one of `rows`."""
    try:
        yield
    except HoldfastError:
        raise
    except TypeError as problem:
        raise InputTypeError(str(problem)) from problem
    except ValueError as problem:
        raise error(_first_bad_row(rows) or str(problem)) from problem


def _first_bad_row(rows: Any) -> str | None:
    """Return the sentence about the first row of an array that has NaN or infinity, if there is one."""
    try:
        values = np.asarray(rows)
    except (TypeError, ValueError):  # what is no array at all
        return None
    if values.dtype.kind != "f" or values.ndim < 2 or not values.size:
        return None
    found = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if not len(found):
        return None
    what = "NaN" if np.isnan(values[found[0]]).any() else "infinity"
    return f"Row {found[0]} of X contains {what}. Drop the row, or replace the value."
