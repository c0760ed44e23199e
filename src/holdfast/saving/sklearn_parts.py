"""scikit-learn estimators as skops files, which hold data and names of types but no code.

skops checks types before it builds anything. In front of it stands a check of our own that every file passes when it is
saved and when it is loaded: only types on the list (`sklearn_types`), only plain uncompressed members whose sizes add
up, every array's header true to its bytes, nothing referred to twice, nothing left over. Numbers that compiled code
uses as memory offsets are checked too (`sklearn_numbers`).
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import warnings
import zipfile
from functools import lru_cache
from importlib import import_module
from inspect import isabstract
from typing import Any

import numpy as np

from holdfast.exceptions import HoldfastError, UntrustedFileError
from holdfast.saving.codec import check_text, saved_name

_SCALARS = {
    *(
        f"numpy.{name}"
        for name in ("bool", "bool_", "str_", "float16", "float32", "float64", "datetime64", "timedelta64")
    ),
    *(f"numpy.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}
_LOSSES = {
    *(f"CyHalf{name}" for name in ("BinomialLoss", "MultinomialLoss", "SquaredError", "PoissonLoss", "GammaLoss")),
    *(f"Cy{name}" for name in ("AbsoluteError", "ExponentialLoss", "HuberLoss", "PinballLoss")),
}
_OBJECTS = {
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.multiclass._ConstantPredictor",
    *(f"sklearn._loss.link.{name}" for name in ("HalfLogitLink", "IdentityLink", "Interval", "LogLink", "LogitLink")),
    "sklearn._loss.link.MultinomialLogit",
    *(f"sklearn._loss.loss.{name.removeprefix('Cy')}" for name in _LOSSES),
    *(
        f"sklearn.gaussian_process.kernels.{name}"
        for name in (
            "ConstantKernel",
            "DotProduct",
            "Matern",
            "Product",
            "RBF",
            "RationalQuadratic",
            "Sum",
            "WhiteKernel",
        )
    ),
    *(f"sklearn.model_selection._split.{name}" for name in ("KFold", "StratifiedKFold", "GroupKFold")),
    *(f"sklearn.neural_network._stochastic_optimizers.{name}Optimizer" for name in ("Adam", "SGD")),
}
_FUNCTIONS = {
    f"sklearn.feature_selection._{module}.{name}"
    for module, name in (
        ("univariate_selection", "f_classif"),
        ("univariate_selection", "f_regression"),
        ("univariate_selection", "chi2"),
        ("mutual_info", "mutual_info_classif"),
    )
} | {"sklearn.utils.validation.check_array"}
# Kind of node -> types that it may build. Public estimators are added to ObjectNode; nothing else is loaded.
_TRUSTED: dict[str, set[str]] = {
    "DTypeNode": {"numpy.dtype"},
    "DictNode": {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"},
    "FunctionNode": _FUNCTIONS
    | {f"numpy.{name}" for name in ("abs", "absolute", "exp", "expm1", "log", "log10", "log1p")}
    | {f"numpy.{name}" for name in ("log2", "sqrt", "square", "sin", "cos", "tanh", "sign", "reciprocal")},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "LossNode": {
        *(f"sklearn._loss._loss.{name}" for name in _LOSSES),
        *(f"sklearn.linear_model._sgd_fast.{name}" for name in ("Hinge", "ModifiedHuber", "SquaredHinge")),
        *(f"sklearn.linear_model._sgd_fast.{name}" for name in ("EpsilonInsensitive", "SquaredEpsilonInsensitive")),
    },
    "MaskedArrayNode": {"numpy.ma.MaskedArray"},
    "NdArrayNode": {"numpy.ndarray"} | _SCALARS,
    "ObjectNode": _OBJECTS,
    "PartialNode": {"functools.partial"},  # of the functions above: boosting with categories holds one
    "RandomGeneratorNode": {"numpy.random._generator.Generator"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "SparseMatrixNode": {
        f"scipy.sparse._{kind}.{kind}_{form}" for kind in ("csr", "csc") for form in ("matrix", "array")
    },
    "TreeNode": {"sklearn.tree._tree.Tree"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {f"builtins.{name}" for name in ("str", "int", "float", "bool")} | _SCALARS,
}


# The public modules that hold estimators. No other module is imported because a file names it.
_MODULES = {
    f"sklearn.{name}"
    for name in (
        *("calibration", "cluster", "compose", "covariance", "cross_decomposition", "decomposition"),
        *("discriminant_analysis", "dummy", "ensemble", "feature_extraction", "feature_extraction.image"),
        *("feature_extraction.text", "feature_selection", "frozen", "gaussian_process", "impute", "isotonic"),
        *("kernel_approximation", "kernel_ridge", "linear_model", "manifold", "mixture", "model_selection"),
        *("multiclass", "multioutput", "naive_bayes", "neighbors", "neural_network", "pipeline", "preprocessing"),
        *("random_projection", "semi_supervised", "svm", "tree"),
    )
}
# An isolation forest hands rows to its trees in a way that sklearn_numbers does not follow.
_REFUSED = {"sklearn.ensemble._iforest.IsolationForest"}


@lru_cache(maxsize=1024)
def _public_estimator(path: str) -> type | None:
    """Return the public scikit-learn estimator of that path, else None; only its public module is imported."""
    from sklearn.base import BaseEstimator

    module, _, name = path.rpartition(".")
    public = module if module in _MODULES else ".".join(module.split(".")[:2])
    if public not in _MODULES or name.startswith("_") or path in _REFUSED:
        return None
    found = vars(import_module(public)).get(name)  # not getattr, which a module may answer with an import
    if not isinstance(found, type) or not issubclass(found, BaseEstimator) or found is BaseEstimator:
        return None
    return found if f"{found.__module__}.{found.__name__}" == path and not isabstract(found) else None


def public_name(value: Any, where: str) -> str:
    """Return the path of a public scikit-learn estimator's class; refuse every other."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if _public_estimator(name) is not type(value):
        raise UntrustedFileError(
            f"{where} holds {name}, which is neither scikit-learn's nor on the list of classes that load safely. "
            "If it is your own class, pass it to holdfast.saving.allow; else use a scikit-learn estimator."
        )
    return name


def public_class(name: Any) -> type:
    """Return the class of a public scikit-learn estimator by its path."""
    found = _public_estimator(name) if isinstance(name, str) else None
    if found is None:
        raise UntrustedFileError(f"tree.json asks for {name!r:.200}, which is not a public scikit-learn estimator.")
    return found


def is_trusted(loader: str, name: str) -> bool:
    """Return whether a node of that kind may build that type."""
    return name in _TRUSTED.get(loader, ()) or (loader == "ObjectNode" and _public_estimator(name) is not None)


def refused_name(loader: str, name: str) -> str:
    """Return how a refused node is called in a message."""
    return name if loader in _TRUSTED else f"{name} ({loader})"


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


_MAX_SCHEMA = 1 << 27
_MAX_MEMBERS = 1_000_000
_MEMBER = re.compile(r"schema\.json|\d{1,20}\.np[yz]")
_PROTOCOL = 2  # older ones have other loaders
_AT_SAVE_TIME = "Replace that part: functions cannot be saved, and a search for neighbors only with algorithm='brute'."


def holds_ours(value: Any) -> bool:
    """Return whether an estimator of ours is inside, so that skops alone could not hold it."""
    seen: set[int] = set()
    queue = list(vars(value).values())
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if saved_name(type(item)) is not None:
            return True
        if isinstance(item, dict):
            queue.extend(item.values())
        elif isinstance(item, list | tuple) or (isinstance(item, np.ndarray) and item.dtype == object):
            queue.extend(item)
        elif hasattr(item, "get_params") and hasattr(item, "__dict__"):
            queue.extend(vars(item).values())
    return False


def pack_estimator(estimator: Any, where: str) -> bytes:
    """Return the bytes of a skops file; refuse now what loading would refuse later."""
    skops_io = _import_skops()
    try:
        check_numbers(estimator, where)
        data = _without_compression(skops_io.dumps(estimator))
    except HoldfastError:
        raise
    except Exception as problem:  # skops raises what the estimator's own methods raise
        raise UntrustedFileError(f"{where} ({type(estimator).__name__}) cannot be saved: {problem}") from problem
    _audit(data, where, advice=_AT_SAVE_TIME)
    return data


def unpack_estimator(data: bytes, name: str, file: str) -> Any:
    """Return the estimator in a skops file, after every check."""
    from sklearn.exceptions import InconsistentVersionWarning

    skops_io = _import_skops()
    expected = public_class(name)
    trusted = _audit(data, file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # the manifest's versions are compared once
            estimator = skops_io.loads(data, trusted=trusted)
        if type(estimator) is not expected:
            raise UntrustedFileError(f"{file} holds {type(estimator).__name__}, not the {name} that tree.json gives.")
        check_numbers(estimator, file)
    except HoldfastError:
        raise
    except Exception as problem:  # a foreign parser on foreign bytes
        raise UntrustedFileError(f"{file} cannot be read as a scikit-learn estimator: {problem}") from problem
    return estimator


def _import_skops() -> Any:
    """Import skops, which imports all of scikit-learn, but not the libraries that scikit-learn has adapters to."""
    loaded: dict[str, Any] = sys.modules
    hidden = [f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch")]
    hidden = [] if "skops.io" in loaded else [name for name in hidden if name not in loaded]
    try:
        loaded |= dict.fromkeys(hidden)  # None: whoever imports it is told that it is not there
        return import_module("skops.io")
    finally:
        for name in hidden:
            loaded.pop(name, None)


def _without_compression(data: bytes) -> bytes:
    """Return the file with sparse matrices unpacked, so that no member is larger inside than outside."""
    from scipy.sparse import load_npz, save_npz

    source = zipfile.ZipFile(io.BytesIO(data))
    if not any(name.endswith(".npz") for name in source.namelist()):
        return data
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as target:
        for name in source.namelist():
            member = source.read(name)
            if name.endswith(".npz"):
                plain = io.BytesIO()
                save_npz(plain, load_npz(io.BytesIO(member)), compressed=False)
                member = plain.getvalue()
            target.writestr(name, member)
    return result.getvalue()


def _audit(data: bytes, file: str, *, advice: str = "Nothing was loaded.") -> list[str]:
    """Check a skops file without building anything, and return the types in it that skops itself has to be told of."""
    try:
        members = _members(data, file)
        if any(not _MEMBER.fullmatch(name) for name in members) or len(members.get("schema.json", b"")) > _MAX_SCHEMA:
            raise UntrustedFileError(
                f"{file} holds members that a skops file of ours does not have. It was not loaded."
            )
        schema = json.loads(members.pop("schema.json"))
        types, used = _walk(schema, file, advice)
        if schema.get("protocol") != _PROTOCOL:
            raise UntrustedFileError(f"{file} is in skops protocol {schema.get('protocol')!r:.20}, not {_PROTOCOL}.")
        if used != sorted(members):
            raise UntrustedFileError(
                f"{file} refers to a member twice, to none, or leaves one unused. It was not loaded."
            )
        for name, member in members.items():
            for array in _members(member, file).values() if name.endswith(".npz") else [member]:
                _check_array(array, f"{name} in {file}")
    except HoldfastError:
        raise
    except Exception as problem:  # zipfile, json and numpy's header parser on foreign bytes
        raise UntrustedFileError(f"{file} is not a skops file that can be read: {problem}") from problem
    return sorted(types)


def _members(data: bytes, file: str) -> dict[str, bytes]:
    """Return the members of an uncompressed zip file whose sizes add up to no more than the file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        plain = all(i.compress_type == zipfile.ZIP_STORED and i.file_size == i.compress_size for i in infos)
        if not plain or sum(info.file_size for info in infos) > len(data) or len(infos) > _MAX_MEMBERS:
            raise UntrustedFileError(f"{file} would grow when unpacked (compressed or overlapping members). Refused.")
        if len({info.filename for info in infos}) < len(infos):
            raise UntrustedFileError(f"{file} holds two members of the same name. It was not loaded.")
        return {info.filename: archive.read(info) for info in infos}


def _walk(schema: Any, file: str, advice: str) -> tuple[set[str], list[str]]:
    """Return the types and the members that a schema asks for; refuse all kinds of nodes but those listed."""
    types: set[str] = set()
    members: dict[Any, str] = {}  # a node that is met again, under its id, is not read again
    refused: set[str] = set()
    queue = [schema]
    while queue:
        item = queue.pop()
        if isinstance(item, list):
            queue.extend(item)
        elif isinstance(item, dict):
            queue.extend(item.values())
            if isinstance(item.get("__loader__"), str):
                loader, name = item["__loader__"], f"{item['__module__']}.{item['__class__']}"
                if not is_trusted(loader, name):
                    refused.add(refused_name(loader, name))
                types.add(name)
                if loader == "DictNode" and any("bool" in key["__class__"] for key in item["key_types"]["content"]):
                    refused.add("a dictionary with True and False as keys")  # skops would read "False" as True
                if "file" in item:
                    if type(item["__id__"]) is not int or item["__id__"] <= 0:
                        raise UntrustedFileError(f"{file} refers to a member without an identity. It was not loaded.")
                    members[item["__id__"]] = item["file"]
    if refused:
        raise UntrustedFileError(f"{file} holds types that are not trusted: {', '.join(sorted(refused))}. {advice}")
    return types, sorted(members.values())


def _check_array(data: bytes, name: str) -> None:
    """Refuse an .npy member that holds objects, or whose header claims another size than it has."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # headers that numpy can only guess at
        shape, _, dtype = read_header(stream)
    if dtype.hasobject or any(size < 0 for size in shape):
        raise UntrustedFileError(f"{name} holds Python objects. It was not loaded.")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise UntrustedFileError(f"{name} claims another size than it has. It was not loaded.")
    check_text(dtype, memoryview(data)[stream.tell() :], name)
