"""Checks of loaded and saved objects: numbers and parameters that could do harm are refused.

The compiled code of scikit-learn trusts the numbers of a fitted estimator: the branches of a tree, the counts of
support vectors, the labels of neighbors, the columns of a one-hot matrix. Some parameters make an estimator read files
or start processes. `check_value` runs on everything that is loaded. It also runs on everything that is saved, so that a
model that cannot be loaded is refused when it is saved.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from holdfast.exceptions import HoldfastError, UntrustedFileError
from holdfast.saving.boosters import MAX_COLUMNS, booster_state, find_library

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
# Arrays that answers are computed from: a NaN here is a NaN in every answer.
_WEIGHTS = frozenset(
    {
        *("coef_", "intercept_", "coefs_", "intercepts_", "dual_coef_", "_dual_coef_", "_intercept_", "alpha_"),
        *("support_vectors_", "_probA", "_probB", "components_", "cluster_centers_", "centroids_", "theta_", "idf_"),
        *("estimator_weights_", "_baseline_prediction", "class_prior_", "priors_", "rotations_", "scalings_", "xbar_"),
        *("weights_", "a_", "b_", "weights", "scale", "offsets"),
    }
)
# How a text vectorizer finds words. Repetitions are not nested, so that no text takes forever.
_TOKEN_PATTERN = re.compile(r"(?:\(\?u\))?(?:\\.|\[(?:[^\]\\]|\\.)+\]|[^()|{}\\\[\]])+")
_TOKEN = re.compile(r"\\.|\[(?:[^\]\\]|\\.)+\]|.", re.DOTALL)  # one sign of it: escaped, a class, or plain
MOST_WORDS = 100  # of an n-gram: longer ones take memory with the cube of a text's length
MOST_PATHS = 1_000  # to each object on average: estimators that share parts are asked once on each path
_DISPATCH = re.compile(r"all|(?:\d{1,6}\s*\*\s*)?n_jobs")
# Parts that refuse rows unlike those of their fit, or take rows that are neither numbers nor texts.
_PARTICULAR = {"ColumnTransformer", "DictVectorizer", "FeatureHasher", "NativeColumns", "RadiusNeighborsClassifier"}
_PARTICULAR |= {"OneHotEncoder", "OrdinalEncoder", "TargetEncoder"}
N_ASKED = 7  # rows: a number that parts of wrong shape hardly ever have, too
# Boosters take frames, with categories.
_KNOWN_PACKAGES = {"builtins", "collections", "numpy", "scipy", "sklearn", "torch", "holdfast"}


def check_value(value: Any, where: str, *, loaded: bool = False) -> None:
    """Refuse an object whose numbers or parameters could do harm when it is used.

    Parameters
    ----------
    value : object
        An estimator, or anything that `holdfast.saving.codec` lists.
    where : str
        What the object is called in errors.
    loaded : bool
        The object comes from a file, which does not decide how many processes run: each `n_jobs` becomes None.

    Raises
    ------
    UntrustedFileError
        The message names the part.
    """
    seen: set[tuple[int, float]] = set()
    types: set[type] = set()
    inside: dict[int, list[int]] = {}
    queue: list[tuple[Any, str, float]] = [(value, where, np.inf)]
    while queue:
        item, name, n_columns = queue.pop()  # an ensemble hands its rows to its trees unchecked: n_columns of them
        if (id(item), n_columns) in seen:
            continue
        seen.add((id(item), n_columns))
        types.add(type(item))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # rows without column names
                inner = _check_one(item, name, n_columns)
        except HoldfastError:
            raise
        except Exception as problem:  # foreign code on values that somebody else chose
            raise UntrustedFileError(f"{name} is not a valid fitted {type(item).__name__}: {problem!r}.") from problem
        if loaded:
            _take_threads(_state(item))
        parts = [(part, f"{name}{label}", inner) for label, part in _parts(item)]
        inside[id(item)] = [id(part) for part, _, _ in parts]
        queue.extend(parts)
    _require(_count_paths(inside, id(value)) <= MOST_PATHS * len(inside), where, "parts inside each other without end")
    particular = any(t.__name__ in _PARTICULAR or t.__module__.partition(".")[0] not in _KNOWN_PACKAGES for t in types)
    if loaded and not particular:
        _check_answers(value, where)


def _check_answers(model: Any, where: str) -> None:
    """Refuse a model that raises an error of Python's, or answers with NaN, when it is asked about rows."""
    able = not hasattr(type(model), "predict") or hasattr(model, "predict") or hasattr(model, "transform")
    _require(able, where, "a model without what it answers by")  # a pipeline without steps
    first = getattr(model, "estimator_", model)
    first = first.steps[0][1] if hasattr(first, "steps") else first
    is_text = hasattr(first, "build_analyzer")  # a text vectorizer
    if not is_text and not hasattr(model, "n_features_in_"):
        return  # not fitted
    try:
        rows: Any = ["a text"] * N_ASKED if is_text else np.ones((N_ASKED, model.n_features_in_))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = [getattr(model, name)(rows) for name in ("predict", "predict_proba") if hasattr(model, name)]
    except HoldfastError:
        return
    except Exception as problem:
        raise UntrustedFileError(f"{where} cannot predict rows: {problem!r:.200}.") from problem
    for answer in answers:
        usual = isinstance(answer, np.ndarray | list) and (isinstance(answer, list) or len(answer) == N_ASKED)
        _require(usual, where, "a model that does not answer every row")
        _check_finite(answer, where)


def _count_paths(inside: dict[int, list[int]], start: int) -> int:
    """Return on how many paths objects are reached from the first, where none leads in a circle."""
    n_paths: dict[int, int] = {}
    stack = [start]
    while stack:
        item = stack[-1]
        if item not in n_paths:
            n_paths[item] = 0  # it is being counted: a circle adds nothing
            stack.extend(part for part in inside.get(item, ()) if part not in n_paths)
        else:
            stack.pop()
            n_paths[item] = 1 + sum(n_paths.get(part, 0) for part in inside.get(item, ()))
    return n_paths[start]


def _take_threads(state: dict[str, Any]) -> None:
    """Leave it to this machine how many processes and threads run."""
    if "n_jobs" in state:
        state["n_jobs"] = None
    if "_n_threads" in state:  # of k-means
        state["_n_threads"] = 1
    for name in ("n_workers", "data__n_workers"):  # that read a network's rows
        if name in state:
            state[name] = 0


def _parts(item: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is inside of an object, but for numbers and text, and how it is reached."""
    if isinstance(item, dict):
        parts: Any = ((f"[{key!r:.40}]", part) for key, part in item.items())
    elif isinstance(item, list | tuple | set | frozenset):
        parts = ((f"[{i}]", part) for i, part in enumerate(item))
    elif isinstance(item, np.ndarray):
        parts = ((f"[{i}]", part) for i, part in enumerate(item.ravel())) if item.dtype == object else ()
    else:
        parts = ((f".{key}", part) for key, part in _state(item).items())
    return ((label, part) for label, part in parts if not isinstance(part, _PLAIN))


def _state(item: Any) -> dict[str, Any]:
    """Return the attributes of an object; none of classes, functions and networks, which are not looked into."""
    if isinstance(item, type) or inspect.isroutine(item) or inspect.ismodule(item) or _is_network(item):
        return {}
    library = find_library(type(item))
    if library is not None:  # the compiled model is checked in its file
        return {name: part for name, part in vars(item).items() if name != library.native}
    return getattr(item, "__dict__", {})


def _is_network(item: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(item, torch.nn.Module)


def _check_one(item: Any, where: str, n_columns: float) -> float:
    """Check one object, and return how many columns the rows have that it hands on unchecked."""
    if isinstance(item, dict | list | tuple | set | frozenset | np.ndarray):
        return n_columns
    state = _state(item)
    if find_library(type(item)) is not None:
        booster_state(item, where)
    for name in _WEIGHTS & state.keys():
        _check_finite(state[name], f"{where}.{name}")
    if _is_network(item):
        tensors = [tensor for tensor in (*item.parameters(), *item.buffers()) if tensor.is_floating_point()]
        _require(all(bool(tensor.isfinite().all()) for tensor in tensors), where, "weights that are not finite")
    if hasattr(item, "check_format"):  # a sparse matrix; scipy does not look at the rows of one that says it is empty
        ends = np.asarray(item.indptr)
        fits = ends[0] == 0 and bool((np.diff(ends) >= 0).all()) and ends[-1] <= len(item.indices) == len(item.data)
        _require(fits, where, "a sparse matrix whose rows do not add up")
        item.check_format(full_check=True)
    if {"classes_", "estimator_"} <= state.keys() and type(item).__module__.startswith("holdfast."):
        codes = np.asarray(getattr(item.estimator_, "classes_", ()))
        _require(set(codes.tolist()) <= set(range(len(item.classes_))), where, "codes of classes that are not there")
    inner = np.inf
    if type(item).__module__.startswith("sklearn."):
        if hasattr(item, "get_params"):
            _check_parameters(item, state, where)
        for cls in type(item).__mro__:
            if cls.__name__ in _CHECKS:
                inner = min(inner, _CHECKS[cls.__name__](item, state, where, n_columns) or np.inf)
    return inner


def _check_parameters(item: Any, state: dict[str, Any], where: str) -> None:
    """Refuse attributes that replace methods, and parameters that read files or could take forever."""
    # Kernels have no names of their own; what they hold is not asked, since one may hold another many times.
    names = getattr(type(item), "_get_param_names", None)
    parameters = item.get_params(deep=False) if names is None else names()
    for name in state:
        usual = name in parameters or not hasattr(type(item), name)
        _require(usual, where, f"a value in the place of {name!r}, which belongs to the class")
    _require(state.get("memory") is None, where, "a 'memory', which would read and write files elsewhere")
    _require(state.get("input", "content") == "content", where, "an 'input' other than 'content', which reads files")
    pattern = state.get("token_pattern")
    if isinstance(pattern, str):
        signs = _TOKEN.findall(pattern.removeprefix("(?u)"))
        plain = _TOKEN_PATTERN.fullmatch(pattern) is not None and signs.count("?") <= 4
        plain = plain and signs.count("*") + signs.count("+") <= 2
        _require(plain, where, "a 'token_pattern' with groups or more than two repetitions, which could take forever")
    lengths = np.asarray(state.get("ngram_range", (1, 1)))
    _require(lengths.dtype.kind == "i" and lengths.max() <= MOST_WORDS, where, f"n-grams of over {MOST_WORDS} words")
    dispatch = state.get("pre_dispatch", "all")
    _require(type(dispatch) is int or _matches(_DISPATCH, dispatch), where, "a 'pre_dispatch' that is a program")
    n_columns = state.get("n_features_in_", 0)
    _require(_is_count(n_columns, 0, MAX_COLUMNS), where, f"{n_columns!r:.40} columns")
    if isinstance(state.get("n_classes_"), int | np.integer) and isinstance(state.get("classes_"), np.ndarray):
        _require(state["n_classes_"] == len(state["classes_"]), where, "another number of classes than classes")


def _check_tree(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "tree_" not in state:
        return
    tree, own = state["tree_"], state.get("n_features_in_", 0)
    _require(type(tree).__name__ == "Tree" and type(tree).__module__ == "sklearn.tree._tree", where, "no tree")
    _require(tree.n_features == own, where, "a tree for other columns")
    _require(0 < tree.node_count <= tree.capacity, where, "a tree of impossible size")
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    leaf = left == -1  # exactly: any other negative number is followed
    _require(bool((right[leaf] == -1).all()), where, "a tree with half a leaf")
    depth = _check_nodes(left, right, leaf, np.asarray(tree.feature), min(n_columns, own), where)
    _require(depth <= tree.max_depth <= tree.node_count, where, "a tree of another depth than it says")
    _check_finite(tree.value, where)


def _check_nodes(left: Any, right: Any, leaf: Any, feature: Any, n_columns: float, where: str) -> int:
    """Check that each node but the first is one node's child, and comes after it; return the depth."""
    here = np.arange(len(left))[~leaf]
    children = np.stack([left[~leaf], right[~leaf]], axis=1).astype(np.int64)  # (n_branches, 2)
    after = bool((children > here[:, None]).all()) and np.array_equal(np.sort(children, None), np.arange(1, len(left)))
    _require(after, where, "a tree whose branches lead outside of it")
    columns = feature[~leaf].astype(np.int64)
    inside = bool(((columns >= 0) & (columns < n_columns)).all())
    _require(inside, where, "a tree that asks for a column that is not there")
    branch = np.full(len(left), -1)
    branch[here] = np.arange(len(here))
    level, depth = np.array([0]), -1
    while len(level):
        level, depth = children[branch[level][branch[level] >= 0]].ravel(), depth + 1
    return depth


def _check_forest(item: Any, state: dict[str, Any], where: str, n_columns: float) -> float:
    """Forests and gradient boosting hand their rows to their trees unchecked."""
    return float(state.get("n_features_in_", 0)) if "estimators_" in state else np.inf


def _check_stages(item: Any, state: dict[str, Any], where: str, n_columns: float) -> float:
    """Every stage of gradient boosting writes one column for each of its trees into an array that others size."""
    if "estimators_" not in state:
        return np.inf
    start, stages = item.init_, item.estimators_
    usual = type(start).__name__ in ("DummyClassifier", "DummyRegressor") or (type(start) is str and start == "zero")
    _require(usual, where, "gradient boosting whose 'init' is neither None nor 'zero', which is not saved")
    first = item._raw_predict_init(np.zeros((1, item.n_features_in_), dtype=np.float32))
    _require(stages.ndim == 2 and first.shape == (1, stages.shape[1]), where, "gradient boosting of impossible shape")
    trees = all(type(tree).__name__ == "DecisionTreeRegressor" for tree in stages.ravel())
    _require(trees, where, "gradient boosting of something else than trees")
    return float(item.n_features_in_)


def _check_boosting(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    _require(not state.get("_in_fit"), where, "boosting in the middle of its fit")
    if "_predictors" not in state:
        return
    n_columns = state.get("n_features_in_", 0)
    if state.get("_preprocessor") is not None:
        row = np.zeros((1, int(n_columns)), dtype=object)
        levels = item._preprocessor.named_transformers_["encoder"].categories_
        row[0, np.flatnonzero(item.is_categorical_)] = [next(iter(known), np.nan) for known in levels]
        n_columns = item._preprocess_X(row, reset=False).shape[1]
    n_trees = state["n_trees_per_iteration_"]
    for predictor in (predictor for stage in state["_predictors"] for predictor in stage):
        nodes = predictor.nodes
        leaf = nodes["is_leaf"].astype(bool)
        _require(len(nodes) > 0, where, "a tree of impossible size")
        _check_nodes(nodes["left"], nodes["right"], leaf, nodes["feature_idx"], n_columns, where)
        _check_finite(nodes["value"], where)
        split = nodes[~leaf & nodes["is_categorical"].astype(bool)]
        if len(split):
            known = np.flatnonzero(np.asarray(item._bin_mapper.is_categorical_))
            bitsets = predictor.raw_left_cat_bitsets
            fits = np.isin(split["feature_idx"], known).all() and (split["bitset_idx"] < len(bitsets)).all()
            _require(bool(fits) and bitsets.shape[1:] == (8,), where, "a tree whose categories are out of range")
    fits = all(len(stage) == n_trees for stage in state["_predictors"])
    _require(fits and _is_count(n_trees, 1, MAX_COLUMNS), where, "boosting of impossible shape")


def _check_support_vectors(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "support_" not in state:
        return
    usual = item.kernel != "precomputed" and isinstance(item.kernel, str) and not item._sparse
    _require(usual, where, "a support vector machine with a precomputed kernel or sparse rows, which is not saved")
    n_vectors, counts = len(item.support_), item._n_support
    n_classes = len(item.classes_) if "classes_" in state else 2  # what libsvm counts for regression
    n_pairs = n_classes * (n_classes - 1) // 2
    fits = (
        item.support_vectors_.shape == (n_vectors, item.n_features_in_)
        and item._dual_coef_.shape == (n_classes - 1, n_vectors)
        and item._intercept_.shape == (n_pairs,)
        and item._probA.shape == item._probB.shape
        and item._probA.shape in ((0,), (n_pairs,))
        and counts.shape == (n_classes,)
        and ("classes_" not in state or ((counts >= 0).all() and counts.sum() == n_vectors))
    )
    _require(bool(fits), where, "support vectors whose counts do not add up")


def _check_neighbors(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "_fit_method" not in state and "_fit_X" not in state:
        return
    rows = item._fit_X
    _require(
        item._fit_method == "brute" and item._tree is None and isinstance(rows, np.ndarray),
        where,
        "a search for neighbors that is not saved: use algorithm='brute' and dense rows",
    )
    fits = rows.ndim == 2 and rows.shape == (item.n_samples_fit_, item.n_features_in_) and rows.size > 0
    fits = fits and rows.dtype.kind == "f"
    if state.get("n_neighbors") is not None:
        fits = fits and _is_count(state["n_neighbors"], 1, len(rows))
    _require(bool(fits), where, "neighbors whose rows do not add up")
    _check_finite(rows, where)
    if "_y" not in state:
        return
    labels = np.asarray(item._y)
    _require(len(labels) == len(rows), where, "neighbors without labels")
    if "classes_" not in state:
        _check_finite(labels, where)
        return
    columns = labels.reshape(len(rows), -1).T
    classes = item.classes_ if item.outputs_2d_ else [item.classes_]
    fits = labels.dtype == np.intp and len(classes) == len(columns)
    fits = fits and all(y.min() >= 0 and y.max() < len(known) for y, known in zip(columns, classes, strict=True))
    _require(bool(fits), where, "neighbors with labels that are no class")


def _check_one_hot(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    """Each column's categories, after grouping and dropping, are numbered from zero to the width of its block."""
    if "categories_" not in state:
        return
    widths = []
    dropped = item._drop_idx_after_grouping
    dropped = [None] * len(item.categories_) if dropped is None else list(dropped)
    _require(len(item.categories_) == item.n_features_in_ == len(dropped), where, "categories of other columns")
    for i, (categories, drop) in enumerate(zip(item.categories_, dropped, strict=True)):
        width = len(categories)
        if categories.dtype.kind not in "OUS":  # these are searched by bisection
            numbers = categories[~np.isnan(categories)] if categories.dtype.kind == "f" else categories
            ordered = len(numbers) >= width - 1 and bool((numbers[1:] > numbers[:-1]).all())
            _require(ordered and np.array_equal(numbers, categories[: len(numbers)]), where, "categories in disorder")
        if item._infrequent_enabled and item._infrequent_indices[i] is not None:
            width += 1 - len(item._infrequent_indices[i])
            mapping = np.asarray(item._default_to_infrequent_mappings[i])
            fits = mapping.shape == (len(categories),) and mapping.dtype.kind == "i"
            _require(fits and bool((mapping >= 0).all() and (mapping < width).all()), where, "categories out of range")
        elif item._infrequent_enabled:
            _require(item._default_to_infrequent_mappings[i] is None, where, "categories out of range")
        _require(drop is None or _is_count(drop, 0, width - 1), where, "a dropped category that is not there")
        widths.append(width - (drop is not None))
    _require(list(item._n_features_outs) == widths, where, "categories that do not add up")


def _check_vocabulary(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "vocabulary_" not in state:
        return
    numbers = list(item.vocabulary_.values())
    fits = all(isinstance(number, int | np.integer) for number in numbers)
    _require(fits and sorted(numbers) == list(range(len(numbers))), where, "a vocabulary that is not numbered")


def _check_hashing(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    n_features = item.n_features
    _require(_is_count(n_features, 1, MAX_COLUMNS), where, f"{n_features!r:.40} hashed features (1 to {MAX_COLUMNS})")


def _check_linear(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "coef_" not in state or not hasattr(item, "n_features_in_"):
        return
    shape = np.shape(item.coef_)
    _require(shape[-1:] == (item.n_features_in_,), where, "coefficients for other columns")
    if isinstance(state.get("classes_"), np.ndarray):
        n_classes = len(item.classes_)
        _require(shape[:-1] in ((1 if n_classes == 2 else n_classes,), ()), where, "coefficients of other classes")


def _check_centers(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "cluster_centers_" in state:
        centers = item.cluster_centers_
        fits = centers.ndim == 2 and centers.dtype.kind == "f" and centers.flags.c_contiguous
        _require(
            fits and centers.shape[1] == item.n_features_in_ and len(centers) > 0, where, "centers of other columns"
        )


def _check_factors(item: Any, state: dict[str, Any], where: str, n_columns: float) -> None:
    if "components_" in state:
        fits = item.components_.shape == (item._n_components, item.n_features_in_)
        _require(fits, where, "components of other columns")


# Name of a class of scikit-learn, or of one that others derive from -> the check of what its compiled code relies on.
_CHECKS: dict[str, Callable[[Any, dict[str, Any], str, float], float | None]] = {
    "BaseDecisionTree": _check_tree,
    "BaseForest": _check_forest,
    "BaseGradientBoosting": _check_stages,
    "BaseHistGradientBoosting": _check_boosting,
    "BaseLibSVM": _check_support_vectors,
    "NeighborsBase": _check_neighbors,
    "OneHotEncoder": _check_one_hot,
    "CountVectorizer": _check_vocabulary,
    "DictVectorizer": _check_vocabulary,
    "FeatureHasher": _check_hashing,
    "HashingVectorizer": _check_hashing,
    "LinearClassifierMixin": _check_linear,
    "LinearModel": _check_linear,
    "_BaseKMeans": _check_centers,
    "_BaseNMF": _check_factors,
}


def _check_finite(values: Any, where: str) -> None:
    """Refuse NaN and infinity in arrays, and in lists of them."""
    if isinstance(values, list | tuple):
        for part in values:
            _check_finite(part, where)
    elif hasattr(values, "check_format"):
        _check_finite(values.data, where)
    elif isinstance(values, np.ndarray | float | np.floating) and np.asarray(values).dtype.kind == "f":
        _require(bool(np.isfinite(values).all()), where, "weights that are not finite")


def _is_count(value: Any, least: int, most: float) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and least <= value <= most


def _matches(pattern: re.Pattern[str], text: Any) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise UntrustedFileError(f"{where} holds {what}.")
