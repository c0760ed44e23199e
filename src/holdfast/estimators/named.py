"""Estimators by name: what `fit`, `compare` and experiments put inside a method. A new one is one line in `ESTIMATORS`.

Modules are imported when an estimator is made, so that asking for names costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

from holdfast.exceptions import ParameterError, suggest


@dataclass(frozen=True)
class NamedEstimator:
    """Where a classifier is defined, and the settings that differ from its defaults."""

    path: str  # "module:class"
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_network: bool = False  # trained epoch by epoch: an interrupted fit can continue

    def make(self, **options: Any) -> Any:
        """Return the unfitted classifier; `options` replace the settings."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(**{**self.settings, **options})


DEFAULT_METHOD = "stable"  # of `holdfast fit` and `TableClassifier`
_NETWORK = "holdfast.neural.estimator:NeuralClassifier"
ESTIMATORS: Mapping[str, NamedEstimator] = MappingProxyType(
    {
        "logistic": NamedEstimator("sklearn.linear_model:LogisticRegression", {"max_iter": 1000}),
        "boosting": NamedEstimator("sklearn.ensemble:HistGradientBoostingClassifier"),
        "forest": NamedEstimator("sklearn.ensemble:RandomForestClassifier", {"min_samples_leaf": 3}),
        "extra_trees": NamedEstimator("sklearn.ensemble:ExtraTreesClassifier", {"min_samples_leaf": 3}),
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
