"""The list of scikit-learn, scipy and numpy classes that may be saved, and how they are encoded.

An estimator is written as the name of its class and its attributes. Compiled parts, such as trees and losses, are
written as the arguments and the state that `copy` would use. A name in a file reaches a class or function only if it is
on a list here. Numbers that compiled code trusts are checked in `checks`, once the object is built.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.exceptions import CorruptFileError, UntrustedFileError

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
# No estimators, but what some hold that may have one of ours or a booster inside
_OBJECTS |= {"sklearn.calibration._CalibratedClassifier", "sklearn.calibration._SigmoidCalibration"}
_TREE = "sklearn.tree._tree.Tree"
_COMPILED = {
    _TREE,
    *(f"sklearn._loss._loss.{name}" for name in _LOSSES),
    *(f"sklearn.linear_model._sgd_fast.{name}" for name in ("Hinge", "ModifiedHuber", "SquaredHinge")),
    *(f"sklearn.linear_model._sgd_fast.{name}" for name in ("EpsilonInsensitive", "SquaredEpsilonInsensitive")),
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
_FUNCTIONS |= {f"numpy.{name}" for name in ("absolute", "cos", "exp", "expm1", "log", "log10", "log1p", "log2")}
_FUNCTIONS |= {f"numpy.{name}" for name in ("reciprocal", "sign", "sin", "sqrt", "square", "tanh")}
_SPARSE = {f"scipy.sparse._{kind}.{kind}_{form}" for kind in ("csr", "csc") for form in ("matrix", "array")}
# Arrays of records: what compiled trees hold of each node
_RECORDS = {
    "tree": "sklearn.tree._tree.NODE_DTYPE",
    "boosting": "sklearn.ensemble._hist_gradient_boosting.common.PREDICTOR_RECORD_DTYPE",
}
_TYPES: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, bool)}

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
_LISTED = {f"sklearn.{module}": set(names.split()) for module, names in _ESTIMATORS.items()}


@functools.lru_cache(maxsize=1024)
def _listed_class(path: str) -> type | None:
    """Return the listed class of that path, else None; of scikit-learn only its public module is imported."""
    module, _, name = path.rpartition(".")
    if path in _OBJECTS:
        return getattr(import_module(module), name)  # type: ignore[no-any-return]
    public = module if module in _LISTED else ".".join(module.split(".")[:2])
    if name not in _LISTED.get(public, ()):
        return None
    found = vars(import_module(public)).get(name)  # not getattr, which a module may answer with an import
    return found if isinstance(found, type) and path_of(found) == path else None


def path_of(value: Any) -> str:
    """Return where a class or function is defined."""
    return f"{value.__module__}.{value.__qualname__}"


def is_path_listed(path: str) -> bool:
    """Return whether a path in a file names what may be loaded: a class, a compiled part or a function."""
    return path in _COMPILED | _FUNCTIONS | {"numpy.dtype", "functools.partial"} or _listed_class(path) is not None


def is_listed(cls: type) -> bool:
    """Return whether instances of a class may be saved by their attributes."""
    return _listed_class(path_of(cls)) is cls


def listed_class(path: object) -> type:
    """Return the class of that path; refuse all that are not listed."""
    found = _listed_class(path) if isinstance(path, str) else None
    if found is None:
        raise _refused(path, "estimators")
    return found


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of a listed object without those that `remake` makes again."""
    return {name: item for name, item in vars(value).items() if name not in ("_curve_scorer", "_stop_words_id", "f_")}


def remake(value: Any) -> None:
    """Make again what was not saved: functions that follow from the other attributes."""
    if hasattr(value, "best_threshold_"):  # a search for a threshold
        value._curve_scorer = value._get_curve_scorer()
    if hasattr(value, "X_thresholds_"):  # isotonic regression
        value._build_f(value.X_thresholds_, value.y_thresholds_)


def take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return tag and content of a part that is no object with attributes; None for what is on no list."""
    cls = type(value)
    if isinstance(value, np.ma.MaskedArray):
        return "masked", {"data": value.data, "mask": np.ma.getmaskarray(value), "fill": value.fill_value}
    if cls is np.ndarray and value.dtype.names:
        for kind in _RECORDS:
            if value.dtype == _record_type(kind) and value.ndim == 1:
                return "records", {"kind": kind, "bytes": _without_padding(value)}
    if cls in (set, frozenset):  # the order of a set differs between processes
        return cls.__name__, {"items": sorted(value, key=lambda item: (type(item).__name__, str(item)))}
    if isinstance(value, type) and _TYPES.get(value.__name__) is value:
        return "type", {"name": value.__name__}
    if cls is functools.partial:
        return "partial", {"function": value.func, "arguments": list(value.args), "keywords": value.keywords}
    if isinstance(value, np.ufunc):
        path = f"numpy.{value.__name__}"
        return ("function", {"path": path}) if path in _FUNCTIONS else None
    if callable(value) and hasattr(value, "__qualname__"):
        path = path_of(value)
        return ("function", {"path": path}) if path in _FUNCTIONS and _found(path) is value else None
    path = path_of(cls)
    if path in _SPARSE:
        numbers = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
        return "sparse", {"path": path, "shape": list(value.shape), **numbers}
    if path in _COMPILED:
        make, arguments, *state = value.__reduce__()
        arguments = list(arguments) if make is cls else []  # without any, Cython has a function of its own
        return "compiled", {"path": path, "arguments": arguments, "state": state[0] if make is cls and state else None}
    return None


def put_together(tag: str, content: dict[str, Any]) -> Any:
    """Return the part that `take_apart` took apart."""
    return _BUILDERS[tag](**content)


def _masked(data: Any, mask: Any, fill: Any) -> Any:
    return np.ma.MaskedArray(data, mask=mask, fill_value=fill)


def _records(kind: str, bytes: NDArray[np.uint8]) -> NDArray[Any]:
    return np.frombuffer(np.asarray(bytes, dtype=np.uint8).tobytes(), _record_type(kind)).copy()


def _partial(function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    known = callable(function) and (isinstance(function, np.ufunc) or path_of(function) in _FUNCTIONS)
    if not known:
        raise _refused(function, "functions")
    return functools.partial(function, *arguments, **keywords)


def _function(path: str) -> Any:
    if path not in _FUNCTIONS:
        raise _refused(path, "functions")
    return _found(path)


def _sparse(path: str, shape: list[int], data: Any, indices: Any, indptr: Any) -> Any:
    if path not in _SPARSE:
        raise _refused(path, "matrices")
    if {part.dtype.kind for part in (indices, indptr)} != {"i"} or data.dtype.kind not in "biufc":
        raise CorruptFileError("tree.json describes a sparse matrix without numbers.")
    return _found(path)((data, indices, indptr), shape=tuple(shape))


def _compiled(path: str, arguments: list[Any], state: Any) -> Any:
    """Build a tree or a loss; what a tree's nodes point at is checked later, as for every estimator."""
    if path not in _COMPILED:
        raise _refused(path, "compiled parts")
    part = _found(path)(*arguments)
    if path == _TREE:
        part.__setstate__(state)
    return part


_BUILDERS: dict[str, Callable[..., Any]] = {
    "compiled": _compiled,
    "frozenset": lambda items: frozenset(items),
    "function": _function,
    "masked": _masked,
    "partial": _partial,
    "records": _records,
    "set": lambda items: set(items),
    "sparse": _sparse,
    "type": lambda name: _TYPES[name],
}
PARTS = tuple(_BUILDERS)


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _record_type(kind: str) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(_found(_RECORDS[kind]))
    return found


def _without_padding(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array of records, with zeros between their fields, where memory holds anything."""
    clean = np.zeros(array.nbytes, np.uint8)
    view = clean.view(array.dtype)
    for name in array.dtype.names or ():
        view[name] = array[name]
    return clean


def _refused(name: object, what: str) -> UntrustedFileError:
    return UntrustedFileError(
        f"tree.json asks for {name!r:.200}, which is not on the list of {what} that may be loaded."
    )
