"""Kinds of row containers: array, sparse matrix, frame, texts, dict or Dataset."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from holdfast.exceptions import InputTypeError
from holdfast.fitting.estimators import BOOSTERS, is_network, last_step, library_of

# Settings in which scikit-learn, XGBoost and CatBoost take names of columns.
NAMING = "categorical_features", "monotonic_cst", "monotone_constraints", "interaction_constraints", "ignored_features"

FEW_ROWS = 64  # up to which the checks of an array would take longer than a network


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


def as_dense(X: Any) -> NDArray[Any]:
    """Return rows, or a product of a sparse matrix, as an array."""
    return np.asarray(X.toarray() if is_sparse(X) else X)


def count_rows(X: Any) -> int:
    """Return the number of rows, whatever holds them."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def is_few_pictures(X: Any) -> bool:
    """Return whether X is an array of a few finite pictures: other checks would take longer than a network."""
    return (
        type(X) is np.ndarray
        and X.ndim > 2
        and X.dtype in (np.float32, np.float64)
        and 0 < len(X) <= FEW_ROWS
        and bool(np.isfinite(X).all())
    )


def is_text(X: Any) -> bool:
    """Return whether X is a sequence of texts, one for each row."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], str)
    if getattr(X, "ndim", 2) == 1 or type(X).__name__ == "Series":
        return len(X) > 0 and isinstance(next(iter(X)), str)
    return False


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame of any library: its columns have names, and may have types of their own."""
    return hasattr(X, "columns")


def is_float(dtype: Any) -> bool:
    """Return whether a frame's column holds floating point numbers."""
    return str(dtype).lower().startswith(("float", "double"))


def needs_frame(estimator: Any, X: Any) -> bool:
    """Return whether a frame must reach the estimator as it is: it may choose columns by name or by type."""
    if isinstance(estimator, Pipeline):
        return True
    if is_network(estimator):  # a network reads arrays
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


def allows_nan(estimator: Any) -> bool:
    """Return whether NaN may reach the estimator: a pipeline's own steps decide, or what a calibration is around."""
    if isinstance(estimator, Pipeline) and not isinstance(estimator.steps[0][1], StandardScaler):
        return True
    inside = getattr(estimator, "estimator", None)
    return bool(get_tags(estimator).input_tags.allow_nan) or (hasattr(inside, "fit") and allows_nan(inside))
