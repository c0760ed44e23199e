"""Numbers that scikit-learn's compiled code follows without looking: indices of children and columns, and counts.

A file can be of trusted types throughout and still send a tree's search outside of memory, or round in circles.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from holdfast.exceptions import UntrustedFileError


def check_numbers(estimator: Any, file: str) -> None:
    """Refuse trees, support vector machines and sparse matrices that would reach outside of their arrays."""
    from scipy.sparse import issparse
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.svm._base import BaseLibSVM
    from sklearn.tree import BaseDecisionTree

    seen: set[tuple[int, float]] = set()
    queue: list[tuple[Any, float]] = [(estimator, np.inf)]
    while queue:
        item, n_columns = queue.pop()  # an ensemble hands its rows to its trees unchecked: n_columns of them
        if (id(item), n_columns) in seen:
            continue
        seen.add((id(item), n_columns))
        if isinstance(item, dict):
            queue.extend((value, n_columns) for value in item.values())
        elif isinstance(item, np.ndarray):
            queue.extend((value, n_columns) for value in item.ravel() if item.dtype == object)
        elif isinstance(item, list | tuple | set):
            queue.extend((value, n_columns) for value in item)
        elif issparse(item):
            item.check_format()  # type: ignore[attr-defined]
        elif hasattr(item, "__dict__"):
            state = vars(item)
            inner: float = np.inf
            if isinstance(item, BaseDecisionTree) and "tree_" in state:
                _check_tree(item.tree_, min(n_columns, state.get("n_features_in_", 0)), file)
                _require(item.tree_.n_features == state.get("n_features_in_", 0), file, "a tree for other columns")
            elif isinstance(item, BaseForest | BaseGradientBoosting) and "estimators_" in state:
                inner = state.get("n_features_in_", 0)
                if isinstance(item, BaseGradientBoosting):
                    _check_stages(item, file)
            elif isinstance(item, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
                _check_boosting(item, file)
            elif isinstance(item, BaseLibSVM) and "support_" in state:
                _check_support_vectors(item, file)
            queue.extend((value, inner) for value in state.values())


def _check_tree(tree: Any, n_columns: float, file: str) -> None:
    _require(0 < tree.node_count <= tree.capacity, file, "a tree of impossible size")
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    leaf = left == -1  # exactly: any other negative number is followed
    _require(bool((right[leaf] == -1).all()), file, "a tree with half a leaf")
    _check_nodes(left, right, leaf, np.asarray(tree.feature), n_columns, file)


def _check_nodes(left: Any, right: Any, leaf: Any, feature: Any, n_columns: float, file: str) -> None:
    """Children come after their parent, so that a search ends, and inside the tree; features inside the row."""
    n_nodes, here = len(left), np.arange(len(left))[~leaf]
    for child in (left[~leaf].astype(np.int64), right[~leaf].astype(np.int64)):
        _require(bool(((child > here) & (child < n_nodes)).all()), file, "a tree whose branches lead outside of it")
    columns = feature[~leaf].astype(np.int64)
    _require(
        bool(((columns >= 0) & (columns < n_columns)).all()), file, "a tree that asks for a column that is not there"
    )


def _check_stages(estimator: Any, file: str) -> None:
    """Every stage of gradient boosting writes one column for each of its trees into an array that others size."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    stages, start = estimator.estimators_, estimator.init_
    usual = type(start) in (DummyClassifier, DummyRegressor) or (type(start) is str and start == "zero")
    _require(usual, file, "gradient boosting whose 'init' is neither None nor 'zero', which is not saved")
    first = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), dtype=np.float32))
    _require(stages.ndim == 2 and first.shape == (1, stages.shape[1]), file, "gradient boosting of impossible shape")


def _check_boosting(estimator: Any, file: str) -> None:
    state = vars(estimator)
    n_columns = state.get("n_features_in_", 0)
    if state.get("_preprocessor") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has no column names
            n_columns = estimator._preprocess_X(np.zeros((1, n_columns)), reset=False).shape[1]
    for predictor in (predictor for stage in state.get("_predictors", []) for predictor in stage):
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        _require(len(nodes) > 0, file, "a tree of impossible size")
        _check_nodes(nodes["left"], nodes["right"], leaf, nodes["feature_idx"], n_columns, file)
        split = nodes[~leaf & nodes["is_categorical"].astype(bool)]
        if len(split):
            known = np.flatnonzero(np.asarray(estimator._bin_mapper.is_categorical_))
            bitsets = predictor.raw_left_cat_bitsets
            fits = np.isin(split["feature_idx"], known).all() and (split["bitset_idx"] < len(bitsets)).all()
            _require(bool(fits) and bitsets.shape[1:] == (8,), file, "a tree whose categories are out of range")


def _check_support_vectors(estimator: Any, file: str) -> None:
    usual = estimator.kernel != "precomputed" and not estimator._sparse and "_impl" not in vars(estimator)
    _require(usual, file, "a support vector machine with a precomputed kernel or sparse rows, which is not saved")
    counts, n_vectors = np.asarray(estimator._n_support), len(estimator.support_)
    n_classes = len(counts)
    n_pairs = max(1, n_classes * (n_classes - 1) // 2)
    fits = (
        len(estimator.support_vectors_) == n_vectors
        and estimator._dual_coef_.shape == (max(1, n_classes - 1), n_vectors)
        and len(estimator._intercept_) == n_pairs
        and all(len(values) in (0, n_pairs) for values in (estimator._probA, estimator._probB))
    )
    if hasattr(estimator, "classes_"):
        fits = fits and len(estimator.classes_) == n_classes and (counts >= 0).all() and counts.sum() == n_vectors
    _require(bool(fits), file, "support vectors whose counts do not add up")


def _require(holds: bool, file: str, what: str) -> None:
    if not holds:
        raise UntrustedFileError(f"{file} holds {what}.")
