"""Reading what `fit` was handed: rows, weights, groups and folds, each checked with a message that says what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import column_or_1d, get_tags

from holdfast.environments import Environment, Weights, as_labels, label_array, unique_labels
from holdfast.exceptions import EnvironmentsError, FeaturesError, HoldfastError, InputTypeError, LabelsError


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """All that `fit` was handed, checked."""

    X: Any
    y: NDArray[Any]  # (n_rows,) class codes, or targets
    environments: tuple[Environment, ...]
    sample_weight: Weights | None
    group_labels: tuple[NDArray[np.intp], tuple[str, ...]] | None  # codes (n_rows,) and their names
    folds: NDArray[np.intp] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

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
    by_name = getattr(estimator, "categorical_features", None), getattr(estimator, "monotonic_cst", None)
    named = any(value is not None and not isinstance(value, str) and _has_text(value) for value in by_name)
    inner = getattr(estimator, "estimator", None)  # of a search, or of a calibration
    if inner is not None and needs_frame(inner, X):
        return True
    return named or any(str(kind) == "category" for kind in X.dtypes)


def _has_text(values: Any) -> bool:
    return any(isinstance(value, str) for value in values)


def read_column(y: Any) -> NDArray[Any]:
    """Return y as one column; what is no text beside texts in a list stays what it is."""
    with as_ours(LabelsError):
        return np.asarray(column_or_1d(as_labels(y) if isinstance(y, list | tuple) else y, warn=True))


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
    """Return whether NaN may reach the estimator; a pipeline's own steps decide."""
    return (
        isinstance(estimator, Pipeline)
        and not isinstance(estimator.steps[0][1], StandardScaler)
        or bool(get_tags(estimator).input_tags.allow_nan)
    )


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
