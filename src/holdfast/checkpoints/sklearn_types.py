"""The types that a saved scikit-learn estimator may consist of, each by its full name."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from inspect import isabstract
from typing import Any

from holdfast.exceptions import UntrustedFileError

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
            "If it is your own class, pass it to holdfast.checkpoints.allow; else use a scikit-learn estimator."
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
