"""Estimators by name, as `fit`, `compare` and experiments use them in a method; a new one is a line in `ESTIMATORS`.

Modules are imported when an estimator is made, so that asking for names costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from holdfast.exceptions import ParameterError, suggest
from holdfast.extras import require


@dataclass(frozen=True)
class NamedEstimator:
    """Where a classifier is defined, and the settings that differ from its defaults."""

    path: str  # "module:class"
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_network: bool = False  # trained epoch by epoch: an interrupted fit can continue
    extra: str | None = None  # what installs it, where holdfast itself does not

    def make(self, **options: Any) -> Any:
        """Return the unfitted classifier; `options` replace the settings."""
        module, _, name = self.path.partition(":")
        loaded = import_module(module) if self.extra is None else require(module, extra=self.extra, what="Boosters")
        return getattr(loaded, name)(**{**self.settings, **options})

    def is_installed(self) -> bool:
        """Return whether its package is there; nothing is imported."""
        try:
            return find_spec(self.path.partition(":")[0].partition(".")[0]) is not None
        except ModuleNotFoundError:  # hidden on purpose
            return False


DEFAULT_METHOD = "stable"  # of `holdfast fit` and `TableClassifier`
# Small trees and many of them: a site's classifier often has a few hundred rows.
_BOOSTED = {"n_estimators": 200, "learning_rate": 0.1}
_NETWORK = "holdfast.neural.estimator:NeuralClassifier"
# Forests with one thread each: several add up trees in any order, and so differ in the last bit.
ESTIMATORS: Mapping[str, NamedEstimator] = MappingProxyType(
    {
        "logistic": NamedEstimator("sklearn.linear_model:LogisticRegression", {"max_iter": 1000}),
        "boosting": NamedEstimator("sklearn.ensemble:HistGradientBoostingClassifier"),
        "xgboost": NamedEstimator("xgboost:XGBClassifier", _BOOSTED | {"max_depth": 4}, extra="boosters"),
        "lightgbm": NamedEstimator(
            "lightgbm:LGBMClassifier",
            # The same trees however many threads there are; as many as OpenMP is told, not as there are cores.
            _BOOSTED | {"num_leaves": 15, "verbosity": -1, "deterministic": True, "force_row_wise": True, "n_jobs": 0},
            extra="boosters",
        ),
        "catboost": NamedEstimator(
            "catboost:CatBoostClassifier",
            _BOOSTED | {"depth": 4, "verbose": 0, "allow_writing_files": False},
            extra="boosters",
        ),
        "forest": NamedEstimator("sklearn.ensemble:RandomForestClassifier", {"min_samples_leaf": 3, "n_jobs": 1}),
        "extra_trees": NamedEstimator("sklearn.ensemble:ExtraTreesClassifier", {"min_samples_leaf": 3, "n_jobs": 1}),
        "linear_svm": NamedEstimator("sklearn.svm:LinearSVC"),
        "naive_bayes": NamedEstimator("sklearn.naive_bayes:GaussianNB"),
        "mlp": NamedEstimator(_NETWORK, {"network": "mlp", "max_epochs": 20}, is_network=True),
    }
)


def find_estimator(name: str) -> NamedEstimator:
    """Return the entry of that name.

    Examples
    --------
    >>> find_estimator("logistic").make(C=0.1)
    LogisticRegression(C=0.1, max_iter=1000)
    >>> find_estimator("logistc")
    Traceback (most recent call last):
        ...
    holdfast.exceptions.ParameterError: There is no estimator 'logistc'. Did you mean 'logistic'?
    """
    if name not in ESTIMATORS:
        raise ParameterError(f"There is no estimator {name!r}. {suggest(name, list(ESTIMATORS))}")
    return ESTIMATORS[name]
