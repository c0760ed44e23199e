"""The estimators and methods that the command line knows by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from holdfast.exceptions import ParameterError
from holdfast.tables.files import suggest

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class EstimatorEntry:
    """Where a classifier is, its settings that differ from its defaults, and what it needs."""

    path: str  # "module:class"
    settings: Mapping[str, Any] = field(default_factory=dict)
    dense: bool = False
    epochs: bool = False  # trained epoch by epoch: it can go on where it was cut

    def make(self) -> Any:
        """Return the unfitted classifier."""
        return _load(self.path)(**self.settings)


ESTIMATORS: Mapping[str, EstimatorEntry] = MappingProxyType(
    {
        "logistic": EstimatorEntry("sklearn.linear_model:LogisticRegression", {"max_iter": 1000}),
        "boosting": EstimatorEntry("sklearn.ensemble:HistGradientBoostingClassifier", dense=True),
        "forest": EstimatorEntry("sklearn.ensemble:RandomForestClassifier", {"min_samples_leaf": 3}),
        "extra_trees": EstimatorEntry("sklearn.ensemble:ExtraTreesClassifier", {"min_samples_leaf": 3}),
        "linear_svm": EstimatorEntry("sklearn.svm:LinearSVC"),
        "naive_bayes": EstimatorEntry("sklearn.naive_bayes:GaussianNB", dense=True),
        "mlp": EstimatorEntry(
            "holdfast.neural.estimator:NeuralClassifier", {"network": "mlp", "max_epochs": 20}, dense=True, epochs=True
        ),
    }
)


def make_estimator(name: str) -> Any:
    """Return the unfitted classifier of that name."""
    return find(ESTIMATORS, name, "estimator").make()


def make_method(name: str, estimator: Any, *, chosen: Mapping[str, str] = MappingProxyType({}), **settings: Any) -> Any:
    """Return the unfitted method of that name around an estimator, with those of the settings that it knows.

    What a user has `chosen` by an option is refused where the method does not know it.
    """
    from holdfast.estimators.methods import METHODS

    # The oracle is told the unstable attribute, which the tables of users do not have.
    method = find({key: value for key, value in METHODS.items() if key != "oracle"}, name, "method")
    known = inspect.signature(method).parameters
    for key, value in chosen.items():
        if key not in known:
            raise ParameterError(
                f"--{key} is a setting of --method pi. Got --{key} {value} with --method {name}. Leave it out, or "
                "choose pi."
            )
    return method(estimator, **chosen, **{key: value for key, value in settings.items() if key in known})


def find(registry: Mapping[str, Entry], name: str, what: str) -> Entry:
    """Return an entry, or say which names there are."""
    if name not in registry:
        raise ParameterError(f"There is no {what} {name!r}. {suggest(name, list(registry))}")
    return registry[name]


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
