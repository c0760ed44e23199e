"""scikit-learn estimators as skops files, which hold data and names of types but no code.

skops checks types before it builds anything. In front of it stands a check of our own that every file passes when it is
saved and when it is loaded: only types on the list (`_TRUSTED`, `_ESTIMATORS`), only plain uncompressed members whose
sizes add up, every array's header true to its bytes, nothing referred to twice, nothing left over. Numbers that
compiled code uses as memory offsets are checked once the estimator is built (`holdfast.saving.checks`).
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import HoldfastError, UntrustedFileError
from holdfast.saving.boosters import find_library
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
    *(f"CyHalf{name}" for name in ("TweedieLoss", "TweedieLossIdentity")),
    *(f"Cy{name}" for name in ("AbsoluteError", "ExponentialLoss", "HuberLoss", "PinballLoss")),
}
_OBJECTS = {
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
_UFUNCS = (
    *("abs", "absolute", "cos", "exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "sign", "sin", "sqrt"),
    *("square", "tanh"),
)
# Kind of node -> types that it may build. Public estimators are added to ObjectNode; nothing else is loaded.
_TRUSTED: dict[str, set[str]] = {
    "DTypeNode": {"numpy.dtype"},
    "DictNode": {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"},
    "FunctionNode": _FUNCTIONS
    # The functions of numpy 2.0 do not know their module, so skops finds them where they are compiled.
    | {f"{module}.{name}" for module in ("numpy", "numpy._core._multiarray_umath") for name in _UFUNCS},
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


# Public module -> its estimators that are saved and loaded. Each has been tried with changed attributes (see
# docs/reliability.md), and what its compiled code relies on is checked in checks.py. No other module is imported
# because a file names it.
_ESTIMATORS = {
    "calibration": "CalibratedClassifierCV",
    "cluster": "KMeans MiniBatchKMeans",
    "compose": "ColumnTransformer TransformedTargetRegressor",
    "cross_decomposition": "CCA PLSCanonical PLSRegression PLSSVD",
    "decomposition": "FactorAnalysis FastICA IncrementalPCA KernelPCA LatentDirichletAllocation MiniBatchNMF NMF PCA "
    "TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor ExtraTreesClassifier "
    "ExtraTreesRegressor GradientBoostingClassifier GradientBoostingRegressor HistGradientBoostingClassifier "
    "HistGradientBoostingRegressor RandomForestClassifier RandomForestRegressor RandomTreesEmbedding "
    "StackingClassifier StackingRegressor VotingClassifier VotingRegressor",
    "feature_extraction": "DictVectorizer FeatureHasher",
    "feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "feature_selection": "GenericUnivariateSelect RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe SelectKBest "
    "SelectPercentile SequentialFeatureSelector VarianceThreshold",
    "frozen": "FrozenEstimator",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "impute": "KNNImputer MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "AdditiveChi2Sampler Nystroem RBFSampler SkewedChi2Sampler",
    "kernel_ridge": "KernelRidge",
    "linear_model": "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor HuberRegressor Lars LarsCV "
    "Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression LogisticRegression LogisticRegressionCV "
    "MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV OrthogonalMatchingPursuit "
    "OrthogonalMatchingPursuitCV PassiveAggressiveClassifier PassiveAggressiveRegressor Perceptron PoissonRegressor "
    "QuantileRegressor RANSACRegressor Ridge RidgeCV RidgeClassifier RidgeClassifierCV SGDClassifier SGDOneClassSVM "
    "SGDRegressor TheilSenRegressor TweedieRegressor",
    "mixture": "BayesianGaussianMixture GaussianMixture",
    "model_selection": "FixedThresholdClassifier GridSearchCV HalvingGridSearchCV HalvingRandomSearchCV "
    "RandomizedSearchCV TunedThresholdClassifierCV",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier",
    "multioutput": "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neighbors": "KNeighborsClassifier KNeighborsRegressor NearestCentroid NearestNeighbors "
    "NeighborhoodComponentsAnalysis RadiusNeighborsClassifier RadiusNeighborsRegressor",
    "neural_network": "MLPClassifier MLPRegressor",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer LabelBinarizer LabelEncoder "
    "MaxAbsScaler MinMaxScaler MultiLabelBinarizer Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures "
    "PowerTransformer QuantileTransformer RobustScaler StandardScaler TargetEncoder",
    "random_projection": "GaussianRandomProjection SparseRandomProjection",
    "semi_supervised": "SelfTrainingClassifier",
    "svm": "LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
}
# Packages whose estimators are mostly numbers.
_SIMPLE = tuple(f"sklearn.{name}." for name in ("compose", "impute", "linear_model", "pipeline", "preprocessing"))
_PLAIN_KINDS = "biufcmMSU"
# No estimators, but what some hold that may have one of ours or a booster inside.
_INNER = ("sklearn.calibration._CalibratedClassifier", "sklearn.calibration._SigmoidCalibration")
_LISTED = {f"sklearn.{module}": set(names.split()) for module, names in _ESTIMATORS.items()}


@lru_cache(maxsize=1024)
def _public_estimator(path: str) -> type | None:
    """Return the listed scikit-learn estimator of that path, else None; only its public module is imported."""
    module, _, name = path.rpartition(".")
    if path in _INNER:
        return getattr(import_module(module), name)  # type: ignore[no-any-return]
    public = module if module in _LISTED else ".".join(module.split(".")[:2])
    if name not in _LISTED.get(public, ()):
        return None
    found = vars(import_module(public)).get(name)  # not getattr, which a module may answer with an import
    return found if isinstance(found, type) and f"{found.__module__}.{found.__name__}" == path else None


def is_inner_part(cls: type) -> bool:
    """Return whether a class of scikit-learn is no estimator, and yet walked as one."""
    return f"{cls.__module__}.{cls.__qualname__}" in _INNER


def public_name(value: Any, where: str) -> str:
    """Return the path of a public scikit-learn estimator's class; refuse every other."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if _public_estimator(name) is not type(value):
        raise UntrustedFileError(
            f"{where} holds {name}, which is not on the list of classes that load safely. "
            "If it is your own class, pass it to holdfast.saving.allow; else use another scikit-learn estimator."
        )
    return name


def public_class(name: Any) -> type:
    """Return the class of a public scikit-learn estimator by its path."""
    found = _public_estimator(name) if isinstance(name, str) else None
    if found is None:
        raise UntrustedFileError(
            f"tree.json asks for {name!r:.200}, which is not on the list of estimators that may be loaded."
        )
    return found


def is_trusted(loader: str, name: str) -> bool:
    """Return whether a node of that kind may build that type."""
    return name in _TRUSTED.get(loader, ()) or (loader == "ObjectNode" and _public_estimator(name) is not None)


_MAX_SCHEMA = 1 << 27
_MAX_MEMBERS = 1_000_000
_MEMBER = re.compile(r"schema\.json|\d{1,20}\.np[yz]")
_PROTOCOL = 2  # older ones have other loaders
_AT_SAVE_TIME = "Replace that part: functions cannot be saved, and a search for neighbors only with algorithm='brute'."


def holds_ours(value: Any) -> bool:
    """Return whether an estimator of ours, a booster or a scorer is inside, so that skops alone could not hold it."""
    seen: set[int] = set()
    queue = [value]
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if saved_name(type(item)) is not None or find_library(type(item)) is not None or hasattr(item, "_curve_scorer"):
            return True
        if isinstance(item, dict):
            queue.extend(item.values())
        elif isinstance(item, list | tuple) or (isinstance(item, np.ndarray) and item.dtype == object):
            queue.extend(item)
        elif (hasattr(item, "get_params") or is_inner_part(type(item))) and hasattr(item, "__dict__"):
            queue.extend(vars(item).values())
    return False


def is_plain(value: Any) -> bool:
    """Return whether a simple estimator holds text, numbers, arrays and other simple estimators only.

    Such a one is saved without skops, whose import takes longer than most predictions.
    """
    if isinstance(value, dict):
        return all(map(is_plain, (*value.keys(), *value.values())))
    if isinstance(value, list | tuple) or (type(value) is np.ndarray and value.dtype.kind == "O" and value.ndim == 1):
        return all(map(is_plain, value))
    if type(value) is np.ndarray or isinstance(value, np.generic):
        return value.dtype.kind in _PLAIN_KINDS
    if isinstance(value, np.dtype):
        return value.kind in _PLAIN_KINDS + "O"
    if isinstance(value, type):
        return issubclass(value, np.number)
    if value is None or type(value) in (bool, int, float, str, slice):
        return True
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    simple = name.startswith(_SIMPLE) and _public_estimator(name) is not None
    return simple and all(map(is_plain, vars(value).values()))


def pack_estimator(estimator: Any, where: str) -> bytes:
    """Return the bytes of a skops file; refuse now what loading would refuse later."""
    skops_io = _import_skops()
    try:
        data = _canonical(skops_io.dumps(estimator))
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


def _canonical(data: bytes) -> bytes:
    """Return the same file without what differs from run to run, and with sparse matrices unpacked.

    skops numbers objects by their places in memory, and zip files carry the time. Unpacked, no member is larger inside
    than outside.
    """
    from scipy.sparse import load_npz, save_npz

    source = zipfile.ZipFile(io.BytesIO(data))
    schema = json.loads(source.read("schema.json"))
    files: dict[str, str] = {}
    _renumber(schema, {}, files)
    members = {}
    for before, after in files.items():
        member, plain = io.BytesIO(source.read(before)), io.BytesIO()
        if after.endswith(".npz"):
            save_npz(plain, load_npz(member), compressed=False)
        else:
            np.save(plain, _without_padding(np.load(member, allow_pickle=False)), allow_pickle=False)
        members[after] = plain.getvalue()
    # Not sorted: a dictionary's keys stand in the order of their types.
    members["schema.json"] = json.dumps(schema, separators=(",", ":")).encode()
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as target:
        for name, content in members.items():
            target.writestr(zipfile.ZipInfo(name), content)  # without the time of day
    return result.getvalue()


def _without_padding(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of records with zeros between their fields, where memory holds anything."""
    if array.dtype.names is None:
        return array
    clean = np.zeros(array.nbytes, np.uint8).view(array.dtype).reshape(array.shape)
    for name in array.dtype.names:
        clean[name] = array[name]
    return clean


def _renumber(item: Any, numbers: dict[Any, int], files: dict[str, str]) -> None:
    """Number the nodes of a schema, and the files that they name, in the order in which they stand."""
    if isinstance(item, list):
        for part in item:
            _renumber(part, numbers, files)
    elif isinstance(item, dict):
        loader = item.get("__loader__")
        if loader == "SetNode":  # the order of a set differs between processes
            item["content"].sort(key=lambda part: (part["__class__"], str(part.get("content"))))
        if "__id__" in item:
            # Which equal numbers and texts are one object is chance.
            key = len(numbers) if loader in ("JsonNode", "TypeNode", "FunctionNode") else ("object", item["__id__"])
            item["__id__"] = numbers.setdefault(key, len(numbers) + 1)
        if "file" in item:
            kind = item["file"].rpartition(".")[2]
            item["file"] = files.setdefault(item["file"], f"{item['__id__']}.{kind}")
        for name, part in item.items():
            if name == "_stop_words_id" and isinstance(part, dict):
                part["content"] = "0"  # a place in memory, too
            _renumber(part, numbers, files)


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
                    refused.add(name if loader in _TRUSTED else f"{name} ({loader})")
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
