"""Save XGBoost, LightGBM and CatBoost models as text, which is checked before their loaders read it.

The compiled loaders of these libraries trust the numbers in a file: branches, columns, categories and sizes. A changed
number can make them read outside of their memory. So we parse each file first and check every such number. The loader
then gets a file that is written anew from what was checked. Binary formats (UBJSON, cbm) cannot be checked in this way
and are not used. Parameters must be on a list, too; none of them reads or writes files, opens connections or runs code.
The same checks run when a model is saved.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import CorruptFileError, HoldfastError, UntrustedFileError
from holdfast.extras import require

MAX_COLUMNS = 1 << 24
MOST_CATEGORIES = 1 << 20
_LARGEST = 3.5e38  # of float32, which XGBoost and CatBoost compute in
_WORD = re.compile(r"[\w.:,;+\-]*")  # LightGBM's parameters are one text: a space in a value would begin another one
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"  # with re.ASCII: Python knows further digits and 1_000

# Parameters beyond those that the constructors name.
_XGBOOST = "alpha eta huber_slope lambda max_cached_hist_node normalize_type one_drop quantile_alpha rate_drop "
_XGBOOST += "sample_type seed seed_per_iteration skip_drop tweedie_variance_power"
_LIGHTGBM = "alpha bagging_fraction bagging_freq bagging_seed boost_from_average boosting cat_l2 cat_smooth "
_LIGHTGBM += "categorical_feature data_random_seed deterministic drop_rate early_stopping_min_delta "
_LIGHTGBM += "early_stopping_round early_stopping_rounds extra_seed extra_trees feature_fraction "
_LIGHTGBM += "feature_fraction_bynode feature_fraction_seed first_metric_only force_col_wise force_row_wise "
_LIGHTGBM += "is_unbalance lambda_l1 lambda_l2 max_bin max_cat_threshold max_cat_to_onehot max_delta_step max_drop "
_LIGHTGBM += "metric min_data_in_bin min_data_in_leaf min_data_per_group min_gain_to_split min_sum_hessian_in_leaf "
_LIGHTGBM += "monotone_constraints neg_bagging_fraction other_rate path_smooth pos_bagging_fraction scale_pos_weight "
_LIGHTGBM += "seed sigmoid skip_drop top_rate use_missing verbose verbosity zero_as_missing"
_CATBOOST = "allow_writing_files auto_class_weights bagging_temperature boost_from_average boosting_type "
_CATBOOST += "bootstrap_type border_count cat_features class_names class_weights classes_count colsample_bylevel "
_CATBOOST += "combinations_ctr counter_calc_method depth early_stopping_rounds eta eval_metric feature_border_type "
_CATBOOST += "feature_weights fold_len_multiplier fold_permutation_block grow_policy has_time ignored_features "
_CATBOOST += "iterations l2_leaf_reg langevin leaf_estimation_backtracking leaf_estimation_iterations "
_CATBOOST += "leaf_estimation_method learning_rate logging_level loss_function max_bin max_ctr_complexity max_depth "
_CATBOOST += "max_leaves metric_period min_child_samples min_data_in_leaf model_shrink_mode model_shrink_rate "
_CATBOOST += "model_size_reg monotone_constraints mvs_reg n_estimators nan_mode num_boost_round num_leaves "
_CATBOOST += "num_trees objective od_pval od_type od_wait one_hot_max_size penalties_coefficient permutation_count "
_CATBOOST += "random_seed random_state random_strength reg_lambda rsm sampling_frequency scale_pos_weight "
_CATBOOST += "score_function silent simple_ctr subsample target_border thread_count use_best_model verbose"


@dataclass(frozen=True)
class Library:
    """How one library's models are saved."""

    module: str
    classes: str  # their names, in `module`
    suffix: str
    native: str  # attribute of the compiled model
    more: str  # parameters that may be saved, beyond those of the constructor
    fitted: str  # attributes that a fit leaves and that are saved as they are
    write: Callable[[Any], str]
    check: Callable[[str], str]  # refuses, or returns the text that is handed to the library
    read: Callable[[Any, str], None]


def find_library(cls: type) -> Library | None:
    """Return the library of a booster class that can be saved, else None."""
    for library in LIBRARIES:
        if cls.__module__ == library.module and cls.__name__ in library.classes.split():
            found = getattr(sys.modules.get(library.module), cls.__name__, None)
            return library if found is cls else None
    return None


def booster_class(name: Any) -> tuple[type, Library]:
    """Return the class of that path and its library; refuse every other name."""
    module, _, cls = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    for library in LIBRARIES:
        if module == library.module and cls in library.classes.split():
            package = module.partition(".")[0]
            require(package, extra="boosters", what=f"Models of {package}")
            return getattr(require(module, extra="boosters", what=f"Models of {package}"), cls), library
    raise UntrustedFileError(f"tree.json asks for {name!r:.200}, which is not a booster that may be loaded.")


def booster_state(value: Any, where: str) -> dict[str, Any]:
    """Return what is saved of a booster beside its trees; refuse parameters that are not on the list."""
    library = find_library(type(value))
    assert library is not None
    state = {name: item for name, item in vars(value).items() if name != library.native}
    if library.native == "_object":
        state = {"_init_params": dict(state["_init_params"])}
        state |= {"_n_features_in": value.n_features_in_} if value.is_fitted() else {}
    for name in ("_le", "_class_map", "_best_score"):  # made again from the classes; a record of the fit
        state.pop(name, None)
    check_parameters(value, state, where)
    return state


def check_parameters(value: Any, state: dict[str, Any], where: str) -> None:
    """Refuse attributes of a booster that are neither on the list of parameters nor left by a fit."""
    library = find_library(type(value))
    assert library is not None
    given = state.get("_init_params", {}) | state.get("kwargs", {}) | state.get("_other_params", {})
    own = {name for cls in type(value).__mro__ for name in inspect.signature(cls).parameters} - {"callbacks", "kwargs"}
    more = set(library.more.split())
    plain = given.keys() if library.native == "_object" else state.keys()
    known = more if library.native == "_object" else own | more | {*library.fitted.split(), "kwargs", "_other_params"}
    strange = sorted({*(given.keys() - more - own), *(set(plain) - known)} - {"callbacks"})
    if strange or state.get("callbacks") is not None:
        raise UntrustedFileError(
            f"{where} holds {type(value).__name__} with {(strange or ['callbacks'])[0]!r:.60}, which is not on the "
            "list of settings that load safely. Leave it out, or save the model with its own library."
        )
    for name, item in {**state, **given}.items():
        if library.module == "lightgbm.sklearn" and isinstance(item, str) and not _WORD.fullmatch(item):
            raise UntrustedFileError(f"{where} holds {item!r:.60} for {name!r}, which LightGBM would read as several.")


def pack_booster(value: Any, where: str) -> tuple[str, bytes] | None:
    """Return suffix and bytes of a fitted booster's file, None for one that is not fitted."""
    library = find_library(type(value))
    assert library is not None
    if not (value.is_fitted() if library.native == "_object" else getattr(value, library.native, None) is not None):
        return None
    try:
        return library.suffix, library.check(library.write(value)).encode()
    except UntrustedFileError as problem:
        raise UntrustedFileError(f"{where} ({type(value).__name__}) cannot be saved: {problem}") from problem
    except HoldfastError:
        raise
    except Exception as problem:  # what the library raises, or a model in a form that it has not had before
        raise UntrustedFileError(f"{where} ({type(value).__name__}) cannot be saved: {problem!r}") from problem


def unpack_booster(name: str, state: dict[str, Any], data: bytes | None, file: str) -> Any:
    """Return the booster of a class's path, the attributes and the checked content of its file."""
    cls, library = booster_class(name)
    if library.native == "_object":
        parameters = state["_init_params"]
        check_parameters(cls(), {"_init_params": parameters}, file)
        parameters.pop("thread_count", None)  # a file does not decide how many threads run
        if "allow_writing_files" in parameters:
            parameters["allow_writing_files"] = False
        value = cls(**parameters)
    else:
        value = cls()
        check_parameters(value, state, file)
        state["n_jobs"] = 0 if state.get("n_jobs") == 0 else None  # the same; 0 leaves it to OpenMP
        vars(value).update(state)
    if data is None:
        return value
    try:
        library.read(value, library.check(data.decode()))
    except HoldfastError as problem:
        raise type(problem)(f"{file} was not loaded: {problem}") from problem
    except Exception as problem:  # a foreign parser on foreign bytes, or a structure that ours does not expect
        raise CorruptFileError(
            f"{file} is not a model of {cls.__name__} that can be read: {problem!r:.300}"
        ) from problem
    vars(value).update(state)
    return value


def _ask(value: Any, row: NDArray[Any]) -> None:
    """Ask a booster about one row: the libraries read some parameters only when they answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a row without names
        for name in ("predict", "predict_proba"):
            if hasattr(value, name):
                getattr(value, name)(row)


def _write_xgboost(value: Any) -> str:
    return bytes(value.get_booster().save_raw(raw_format="json")).decode()


def _read_xgboost(value: Any, text: str) -> None:
    import xgboost

    value._Booster = xgboost.Booster()
    value._Booster.load_model(bytearray(text.encode()))
    _ask(value, np.ones((1, value._Booster.num_features())))


def _check_xgboost(text: str) -> str:
    """Check XGBoost's JSON: every branch, column and category inside of its tree, sizes that add up, finite numbers."""
    document = _parse(text)
    learner = document["learner"]
    part, sizes = learner["gradient_booster"], learner["learner_model_param"]
    n_columns, n_classes = _count(sizes["num_feature"], 0, MAX_COLUMNS), _count(sizes["num_class"], 0, MAX_COLUMNS)
    _require(_count(sizes["num_target"], 1, 1) == 1, "it predicts several targets, which is not saved")
    start = [float(part) for part in re.fullmatch(r"\[?(.*?)\]?", str(sizes["base_score"]))[1].split(",")]  # type: ignore[index]
    _require(len(start) in (1, max(n_classes, 1)) and bool(np.isfinite(start).all()), "its base score is not a number")
    _require(part["name"] in ("gbtree", "dart"), f"booster={part['name']!r:.40} is not saved; use gbtree or dart")
    model = part["model"] if part["name"] == "gbtree" else part["gbtree"]["model"]
    trees, n_groups = model["trees"], max(n_classes, 1)
    _require(_count(model["gbtree_model_param"]["num_trees"], 0, MAX_COLUMNS) == len(trees), "its trees do not add up")
    _require(_count(model["gbtree_model_param"]["num_parallel_tree"], 1, MAX_COLUMNS) >= 1, "no tree in a round")
    _require(len(_whole(model["tree_info"], 0, n_groups - 1)) == len(trees), "its trees belong to no class")
    ends = _whole(model["iteration_indptr"], 0, len(trees)) if "iteration_indptr" in model else np.array([len(trees)])
    _require(bool((np.diff(ends) >= 0).all()) and ends[-1:].tolist() in ([], [len(trees)]), "its rounds do not add up")
    if part["name"] == "dart":
        _require(len(_finite(part["weight_drop"])) == len(trees), "its trees have no weights")
    for number, tree in enumerate(trees):
        _check_xgboost_tree(tree, number, n_columns)
    for name in ("feature_names", "feature_types"):
        texts = learner.get(name, [])
        _require(all(isinstance(item, str) for item in texts) and len(texts) in (0, n_columns), f"its {name} differ")
    _check_xgboost_categories(model.get("cats"), n_columns)
    for item in (learner["attributes"], *(item for name, item in learner["objective"].items() if name != "name")):
        _require(all(isinstance(value, str) for value in item.values()), "it has attributes that are not text")
    return json.dumps(document, allow_nan=False, ensure_ascii=False)


def _check_xgboost_tree(tree: dict[str, Any], number: int, n_columns: int) -> None:
    sizes = tree["tree_param"]
    n_nodes = _count(sizes["num_nodes"], 1, 1 << 28)
    _require(_count(sizes["num_feature"], 0, MAX_COLUMNS) == n_columns and tree["id"] == number, "trees differ")
    _require(sizes["size_leaf_vector"] in ("0", "1"), "multi_strategy='multi_output_tree' is not saved")
    left, right = (_whole(tree[name], -1, n_nodes - 1) for name in ("left_children", "right_children"))
    leaf = left == -1
    children = np.concatenate([left[~leaf], right[~leaf]])
    # Each node is reached once at most and the first never: there is no way in a circle.
    once = len(np.unique(children)) == len(children) and bool((children > 0).all())
    _require(once and bool((right[leaf] == -1).all()), "a tree whose branches lead outside of it")
    parents = np.asarray(tree["parents"])
    here = np.concatenate([np.flatnonzero(~leaf)] * 2)
    inside = parents.dtype.kind == "i" and bool(((parents >= -1) & (parents <= 2**31 - 1)).all())
    _require(inside and np.array_equal(parents[children], here), "a tree whose branches lead outside of it")
    columns, kinds = np.asarray(tree["split_indices"]), _whole(tree["split_type"], 0, 1)
    inside = columns.dtype.kind == "i" and bool(((columns >= 0) & ((columns < n_columns) | leaf)).all())
    _require(inside, "a tree that asks for a column that is not there")
    arrays = [left, right, parents, columns, kinds, _whole(tree["default_left"], 0, 1)]
    arrays += [_finite(tree[name]) for name in ("base_weights", "split_conditions", "loss_changes", "sum_hessian")]
    _require({array.shape for array in arrays} == {(n_nodes,)}, "a tree of impossible size")
    nodes = _whole(tree["categories_nodes"], 0, n_nodes - 1)
    starts, counts = (np.asarray(tree[f"categories_{name}"]) for name in ("segments", "sizes"))
    values = _whole(tree["categories"], 0, MOST_CATEGORIES)
    _require(np.array_equal(nodes, np.flatnonzero(kinds)), "a tree whose categories are out of range")
    ends = np.cumsum(counts) if len(counts) else np.array([0])
    fits = len(starts) == len(counts) == len(nodes) and bool((np.asarray(counts) > 0).all())
    fits = fits and np.array_equal(starts, ends - counts if len(counts) else starts) and ends[-1] == len(values)
    _require(fits, "a tree whose categories are out of range")


def _check_xgboost_categories(cats: Any, n_columns: int) -> None:
    """Check the names of the categories that the rows of a frame are compared with."""
    if cats is None:
        return
    ends = _whole(cats["feature_segments"], 0, MOST_CATEGORIES * 16)
    _require(len(cats["enc"]) in (0, n_columns), "categories of other columns")
    if not cats["enc"]:
        _require(len(cats["sorted_idx"]) == 0, "categories of other columns")
        return
    places = _whole(cats["sorted_idx"], 0, MOST_CATEGORIES)
    _require(len(ends) == n_columns + 1 and ends[0] == 0 and ends[-1] == len(places), "categories of other columns")
    for column, known in enumerate(cats["enc"]):
        own = places[ends[column] : ends[column + 1]]
        values = np.asarray(known["values"])
        n_known = len(values)
        if "offsets" in known:  # texts, one after the other
            starts = _whole(known["offsets"], 0, len(values))
            fits = bool((np.diff(starts) >= 0).all()) and starts[-1:].tolist() in ([], [len(values)])
            _require(fits and (len(starts) == 0 or starts[0] == 0), "categories out of range")
            _require(values.dtype.kind == "i" or not len(values), "categories that are not text")
            _require(bool(((values >= -128) & (values <= 255)).all()), "categories that are not text")
            n_known = max(len(starts) - 1, 0)
        else:
            _finite(known["values"])
        _require(ends[column + 1] >= ends[column] and sorted(own) == list(range(n_known)), "categories in disorder")


_HEADER = {
    "version": r"v[34]",
    "num_class": r"\d{1,6}",
    "num_tree_per_iteration": r"\d{1,6}",
    "label_index": r"\d{1,6}",
    "max_feature_idx": r"\d{1,8}",
    "objective": rf"[a-z_\d]+(?: [a-z_\d]+(?::(?:{_NUMBER}|[a-z_]+))?)*",
    "feature_names": r".+",
    "monotone_constraints": rf"{_NUMBER}(?: {_NUMBER})*",
    "feature_infos": r".+",
}
# A tree's lines, in order, and of what each has a number; those in `_WHOLE` are whole.
_NODES = "split_feature split_gain threshold decision_type left_child right_child"
_INSIDE, _LEAVES = "internal_value internal_weight internal_count", "leaf_value leaf_weight leaf_count"
_OF = {_NODES: "nodes", _LEAVES: "leaves", _INSIDE: "nodes", "cat_boundaries": "ends", "cat_threshold": "bits"}
_LINES = {name: size for names, size in [*_OF.items(), ("shrinkage", "one")] for name in names.split()}
_WHOLE = "split_feature decision_type left_child right_child leaf_count internal_count cat_boundaries cat_threshold"


def _write_lightgbm(value: Any) -> str:
    return str(value.booster_.model_to_string(num_iteration=-1))


def _read_lightgbm(value: Any, text: str) -> None:
    import lightgbm
    from sklearn.preprocessing import LabelEncoder

    value._Booster = lightgbm.Booster(model_str=text)
    if getattr(value, "_classes", None) is not None:
        value._le = LabelEncoder()
        value._le.classes_ = value._classes
        value._class_map = dict(zip(value._classes, range(len(value._classes)), strict=True))
    _ask(value, np.ones((1, value._Booster.num_feature())))


def _check_lightgbm(text: str) -> str:
    """Check LightGBM's text, and write it anew: the header, the trees, and the categories of a frame's columns."""
    start, _, rest = text.partition("\n\nTree=0\n")
    if not rest:
        start, _, rest = text.partition("\n\nend of trees\n")
        body, rest = [], f"end of trees\n{rest}"
    else:
        found, _, rest = rest.partition("\nend of trees\n")
        body, rest = re.split(r"\n+Tree=\d+\n", found.rstrip("\n")), f"end of trees\n{rest}"
    lines = start.split("\n")
    _require(lines[0] == "tree", "it does not begin as a model of trees")
    header = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
    averages = "average_output" in lines
    for name, pattern in _HEADER.items():
        known = name in header or name in ("monotone_constraints", "objective")
        _require(
            known and (name not in header or bool(re.fullmatch(pattern, header[name], re.ASCII))),
            f"its {name} is not one",
        )
    n_columns, per_round = int(header["max_feature_idx"]) + 1, int(header["num_tree_per_iteration"])
    _require(1 <= per_round == int(header["num_class"]) and len(body) % per_round == 0, "its rounds do not add up")
    for name in ("feature_names", "feature_infos"):
        _require(len(header[name].split(" ")) == n_columns, f"its {name} are not one for each column")
    trees = [f"Tree={number}\n{_check_lightgbm_tree(tree, n_columns)}\n\n\n" for number, tree in enumerate(body)]
    sizes = " ".join(str(len(tree.encode())) for tree in trees)  # the loader jumps by them
    kept = [f"{name}={header[name]}" for name in _HEADER if name in header]
    kept = [*kept[:5], *(["average_output"] * averages), *kept[5:], f"tree_sizes={sizes}"]
    categories = re.search(r"\npandas_categorical:(.*)\n?\Z", rest)
    names = json.loads(categories[1]) if categories else None
    plain = names is None or all(
        isinstance(levels, list) and all(isinstance(level, str | int | float | bool) for level in levels)
        for levels in names
    )
    _require(plain and (names is None or len(names) <= n_columns), "its categories are not lists of names")
    end = f"end of trees\n\npandas_categorical:{json.dumps(names)}\n"
    return "".join(["\n".join(["tree", *kept, "", ""]), *trees, end])


def _check_lightgbm_tree(text: str, n_columns: int) -> str:
    lines = dict(line.split("=", 1) for line in text.split("\n"))
    n_leaves, n_categories = _count(lines["num_leaves"], 1, 1 << 28), _count(lines["num_cat"], 0, 1 << 28)
    _require(lines.get("is_linear", "0") == "0", "linear_tree=True is not saved")
    n_nodes = n_leaves - 1
    sizes = {"nodes": n_nodes, "leaves": n_leaves, "ends": n_categories + 1, "bits": None, "one": 1}
    numbers: dict[str, Any] = {}
    for name, size in _LINES.items():
        if name in lines:
            texts = lines[name].split()
            whole = name in _WHOLE.split()
            plain = re.compile(r"-?\d+" if whole else rf"{_NUMBER}|-?inf|-?nan", re.ASCII)
            _require(all(map(plain.fullmatch, texts)), f"a tree with numbers that are none ({name})")
            numbers[name] = np.array([int(part) if whole else float(part) for part in texts])
            optional = name in ("leaf_weight", "leaf_count") and not texts  # of a tree with one leaf
            _require(optional or sizes[size] in (None, len(texts)), f"a tree of impossible size ({name})")
            finite = name == "threshold" or np.isfinite(numbers[name]).all()  # all known values are below infinity
            _require(bool(finite), f"a tree with numbers that are not finite ({name})")
    kept = [f"num_leaves={n_leaves}", f"num_cat={n_categories}", *(f"{n}={lines[n]}" for n in _LINES if n in lines)]
    kept.insert(-1, "is_linear=0")
    _require("leaf_value" in numbers and "shrinkage" in numbers, "a tree without leaves")
    if n_nodes:
        kinds = numbers["decision_type"]
        children = np.concatenate([numbers["left_child"], numbers["right_child"]])
        expected = [*range(-n_leaves, 0), *range(1, n_nodes)]  # -1 is the first leaf
        _require(np.array_equal(np.sort(children), expected), "a tree whose branches lead outside of it")
        after = children > np.tile(np.arange(n_nodes), 2)
        _require(bool((after | (children < 0)).all()), "a tree whose branches lead in a circle")
        columns = numbers["split_feature"]
        _require(bool(((columns >= 0) & (columns < n_columns)).all()), "a tree that asks for a column not there")
        _require(bool(((kinds >= 0) & (kinds < 12)).all()), "a tree with an unknown kind of branch")
        ends = numbers.get("cat_boundaries", np.array([0]))
        bits = numbers.get("cat_threshold", np.array([], dtype=int))
        fits = (
            ends[0] == 0 and bool((np.diff(ends) > 0).all()) and ends[-1] == len(bits) and len(ends) == n_categories + 1
        )
        fits = fits and bool(((bits >= 0) & (bits < 2**32)).all())
        places = numbers["threshold"][kinds % 2 == 1]
        fits = fits and bool(((places >= 0) & (places < n_categories) & (places % 1 == 0)).all())
        _require(fits, "a tree whose categories are out of range")
    else:
        _require(n_categories == 0, "a tree whose categories are out of range")
    return "\n".join(kept)


_NO_HASH = str(2**64 - 1)
_LOSSES = "Logloss CrossEntropy MultiClass MultiClassOneVsAll RMSE MAE Quantile Poisson Huber LogCosh Tweedie"


def _write_catboost(value: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        value.save_model(str(file), format="json")
        document = json.loads(file.read_text(encoding="utf-8"))
    _require("oblivious_trees" in document, "grow_policy other than 'SymmetricTree' is not saved")
    for table in (document.get("ctr_data") or {}).values():  # a place of the hash table without a category is no row
        rows = np.array(table["hash_map"], dtype=object).reshape(-1, table["hash_stride"]).tolist()
        rows = sorted((row for row in rows if row[0] != _NO_HASH), key=lambda row: int(row[0]))
        table["hash_map"] = [item for row in rows for item in row]
    exact, at = value.get_leaf_values().tolist(), 0  # the file rounds them
    for tree in document["oblivious_trees"]:
        n_leaves = len(tree["leaf_values"])
        tree["leaf_values"], at = exact[at : at + n_leaves], at + n_leaves
    scale, bias = value.get_scale_and_bias()
    document["scale_and_bias"] = [scale, np.atleast_1d(bias).tolist()]
    return json.dumps(document)


def _read_catboost(value: Any, text: str) -> None:
    document = json.loads(text)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        file.write_text(text, encoding="utf-8")
        value.load_model(str(file), format="json")
    # CatBoost's own parser is wrong in the last bit of some numbers.
    value.set_leaf_values(np.array([leaf for tree in document["oblivious_trees"] for leaf in tree["leaf_values"]]))
    scale, bias = document["scale_and_bias"]
    value.set_scale_and_bias(scale, bias if len(bias) > 1 else bias[0])
    numbers, levels = (document["features_info"].get(f"{kind}_features") or [] for kind in ("float", "categorical"))
    row = np.ones((1, len(numbers) + len(levels)), dtype=object)
    row[0, [level["flat_feature_index"] for level in levels]] = "1"
    _ask(value, row)


def _check_catboost(text: str) -> str:
    """Check CatBoost's JSON, and keep what predictions need: features, trees, categories' tables and class names."""
    document = _parse(text)
    features, trees = document["features_info"], document["oblivious_trees"]
    floats, levels = features.get("float_features") or [], features.get("categorical_features") or []
    ctrs, tables = features.get("ctrs") or [], document.get("ctr_data") or {}
    _require(not {"text_features", "embedding_features"} & set(features), "text and embedding features are not saved")
    places = [item["flat_feature_index"] for item in (*floats, *levels)]
    _require(sorted(places) == list(range(len(places))), "its columns do not add up")
    for part in (floats, levels):
        _require([item["feature_index"] for item in part] == list(range(len(part))), "its columns do not add up")
    n_splits = 0
    for item in floats:
        borders = _finite(item.get("borders") or [])
        _require(bool((np.diff(borders) >= 0).all()), "borders in disorder")
        _require(item.get("nan_value_treatment", "AsIs") in ("AsIs", "AsFalse", "AsTrue"), "an unknown nan_mode")
        n_splits += len(borders)
    n_splits += sum(len(_whole(item.get("values") or [], -(2**31), 2**32)) for item in levels)
    for name, table in tables.items():
        _check_table(name, table)
    for ctr in ctrs:
        n_splits += len(_finite(ctr["borders"]))
        _check_ctr(ctr, tables, len(floats), len(levels))
    scale, bias = document["scale_and_bias"]
    _finite([scale])
    n_outputs = len(_finite(bias))
    _require(n_outputs >= 1, "no output")
    for tree in trees:
        splits = tree["splits"] or []
        _require(len(splits) <= 16, "a tree of impossible size")
        _whole([split["split_index"] for split in splits], 0, n_splits - 1)
        n_leaves = 1 << len(splits)
        _require(len(_finite(tree["leaf_values"])) == n_leaves * n_outputs, "a tree of impossible size")
        _require(len(_finite(tree.get("leaf_weights", []))) in (0, n_leaves), "a tree of impossible size")
    information = document["model_info"]
    loss = information.get("params", {}).get("loss_function", {})
    plain = all(isinstance(item, str) for item in loss.get("params", {}).values())
    _require(loss.get("type", "RMSE") in _LOSSES.split() and plain, f"the loss {loss.get('type')!r:.40} is not saved")
    kept: dict[str, Any] = {"params": {"flat_params": {}, "loss_function": loss}}
    if "class_params" in information:
        classes = information["class_params"]
        kind, names, codes = (classes[name] for name in ("class_label_type", "class_names", "class_to_label"))
        types = {"Integer": int, "Float": int | float, "String": str, "Boolean": bool}
        _require(kind in types and all(isinstance(name, types[kind]) for name in names), "classes without names")
        fits = sorted(codes) == list(range(len(names))) and len(names) >= 2 and n_outputs in (1, len(names))
        _require(fits and _count(classes["classes_count"], 0, len(names)) <= len(names), "other classes")
        known = ("class_label_type", "class_names", "class_to_label", "classes_count")
        kept["class_params"] = {name: classes[name] for name in known}
    parts = {"features_info": features, "oblivious_trees": trees, "scale_and_bias": [scale, bias], "ctr_data": tables}
    return json.dumps({**parts, "model_info": kept}, allow_nan=False, ensure_ascii=False)


def _check_table(name: str, table: dict[str, Any]) -> None:
    """Check what CatBoost has counted for each category: rows of a hash and some numbers."""
    stride = _count(table["hash_stride"], 2, 1 << 16)
    _require(isinstance(json.loads(name), dict), "a table without a name")
    _count(table["counter_denominator"], 0, 2**31 - 1)
    rows, rest = divmod(len(table["hash_map"]), stride)
    _require(rest == 0 and rows >= 1, "a table of impossible size")
    hashes, numbers = table["hash_map"][::stride], [x for i, x in enumerate(table["hash_map"]) if i % stride]
    known = all(
        isinstance(item, str) and re.fullmatch(r"[0-9]{1,20}", item) and int(item) < 2**64 - 1 for item in hashes
    )
    _require(known and len(set(hashes)) == len(hashes), "a table of impossible hashes")
    plain = not any(isinstance(number, float) for number in numbers)
    _require(plain, "fractions in a table of categories (BinarizedTargetMeanValue of several classes) are not saved")
    _whole(numbers, 0, 2**31 - 1)


def _check_ctr(ctr: dict[str, Any], tables: dict[str, Any], n_floats: int, n_levels: int) -> None:
    """Check one feature that CatBoost computes from categories."""
    own = tables.get(ctr["identifier"])
    _require(own is not None, "a table that is not there")
    assert own is not None
    kind, stride = ctr["ctr_type"], own["hash_stride"]
    _require(json.loads(ctr["identifier"]).get("type") == kind, "a table of another kind")
    strides = {"Counter": 2, "FeatureFreq": 2, "BinarizedTargetMeanValue": 3, "FloatTargetMeanValue": 3}
    _require(kind in strides or kind in ("Borders", "Buckets"), "a table of an unknown kind")
    _require(stride == strides.get(kind, stride) and stride >= (3 if kind == "Borders" else 2), "a table of other size")
    last = stride - 3 if kind == "Borders" else stride - 2 if kind == "Buckets" else 1 << 16
    _count(ctr["target_border_idx"], 0, last)
    _finite([ctr[name] for name in ("prior_denomerator", "prior_numerator", "scale", "shift")])
    _require(json.loads(ctr["identifier"])["identifier"] == ctr["elements"], "a table of other features")
    for element in ctr["elements"]:
        what = element["combination_element"]
        if what == "float_feature":
            _count(element["float_feature_index"], 0, n_floats - 1)
            _finite([element["border"]])
        else:
            _require(what in ("cat_feature_value", "cat_feature_exact_value"), "a feature of an unknown kind")
            _count(element["cat_feature_index"], 0, n_levels - 1)


_XGBOOST_FITTED = "n_classes_ evals_result_ n_features_in_ feature_names_in_ _estimator_type"
_LIGHTGBM_FITTED = "_evals_result _best_iteration _objective class_weight _class_weight _fitted_with_feature_names "
_LIGHTGBM_FITTED += "_n_features _n_features_in _classes _n_classes fitted_ _Booster"
_XGBOOST_CLASSES = "XGBClassifier XGBRegressor XGBRFClassifier XGBRFRegressor"
_XGBOOST_STEPS = (_write_xgboost, _check_xgboost, _read_xgboost)
_LIGHTGBM_STEPS = (_write_lightgbm, _check_lightgbm, _read_lightgbm)
_CATBOOST_STEPS = (_write_catboost, _check_catboost, _read_catboost)
_LIGHTGBM_CLASSES, _CATBOOST_CLASSES = "LGBMClassifier LGBMRegressor", "CatBoostClassifier CatBoostRegressor"
LIBRARIES = (
    Library("xgboost.sklearn", _XGBOOST_CLASSES, "json", "_Booster", _XGBOOST, _XGBOOST_FITTED, *_XGBOOST_STEPS),
    Library("lightgbm.sklearn", _LIGHTGBM_CLASSES, "txt", "_Booster", _LIGHTGBM, _LIGHTGBM_FITTED, *_LIGHTGBM_STEPS),
    Library("catboost.core", _CATBOOST_CLASSES, "json", "_object", _CATBOOST, "", *_CATBOOST_STEPS),
)


def _parse(text: str) -> dict[str, Any]:
    """Parse JSON without the numbers and repeated names that parsers read differently."""

    def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        _require(len(found) == len(pairs), "a name stands twice in it")
        return found

    def refuse(constant: str) -> float:
        raise UntrustedFileError(f"it holds {constant}, which is not a finite number.")

    document = json.loads(text, object_pairs_hook=only_once, parse_constant=refuse)
    _require(isinstance(document, dict), "it is not a model")
    return document  # type: ignore[no-any-return]


def _count(value: Any, least: int, most: int) -> int:
    """Return a whole number, also one that is written as text; refuse it outside of a range."""
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value) else value
    _require(type(number) is int and least <= number <= most, f"{value!r:.40} is not between {least} and {most}")
    return int(number)


def _whole(values: Any, least: int, most: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a list of whole numbers as an array; refuse any outside of a range."""
    found = _numbers(values, "i").astype(np.int64)
    _require(bool(((found >= least) & (found <= most)).all()), f"numbers that are not between {least} and {most}")
    return found


def _finite(values: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a list of numbers as an array; refuse any that is not finite as float32."""
    found = _numbers(values, "if").astype(np.float64)
    _require(bool((np.abs(found) < _LARGEST).all()), "numbers that are not finite")
    return found


def _numbers(values: Any, kinds: str) -> np.ndarray[Any, np.dtype[Any]]:
    found = np.asarray(values)
    _require(
        isinstance(values, list) and found.ndim == 1 and (found.dtype.kind in kinds or not len(found)), "no numbers"
    )
    return found


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise UntrustedFileError(f"{what}.")
