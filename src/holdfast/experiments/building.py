"""From a run's settings to an unfitted classifier."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from holdfast.estimators.base import StableClassifier
from holdfast.estimators.methods import METHODS
from holdfast.experiments.config import RunConfig
from holdfast.experiments.preparing import Prepared

TABULAR: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "logistic": lambda **options: LogisticRegression(**{"max_iter": 1000, **options}),
        "boosting": lambda **options: HistGradientBoostingClassifier(**options),
        "forest": lambda **options: RandomForestClassifier(**{"min_samples_leaf": 5, **options}),
    }
)


def is_network(config: RunConfig) -> bool:
    """Return whether the run trains a network, epoch by epoch."""
    return config.estimator not in TABULAR


def make_estimator(config: RunConfig, prepared: Prepared) -> Any:
    """Return the estimator inside the method."""
    if not is_network(config):
        return TABULAR[config.estimator](**config.estimator_options)
    from holdfast.estimators.neural import NeuralClassifier

    # Selection "last": it never stops by itself. The monitor of the run selects, once for each validation setting.
    return NeuralClassifier(
        config.estimator,
        max_epochs=config.max_epochs,
        steps_per_epoch=config.steps_per_epoch,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        dropout=config.dropout,
        loss=config.loss,
        weight_averaging=config.weight_averaging,
        schedule=config.schedule,
        patience=config.patience,
        selection="last",
        network_options={**prepared.network_options, **config.estimator_options} or None,
        vocabulary=prepared.vocabulary,
        precision=config.precision,
    )


def make_classifier(config: RunConfig, prepared: Prepared) -> StableClassifier:
    """Return the method's classifier, as the paper's experiments use it, with the run's options on top."""
    method = METHODS[config.method]
    settings: dict[str, Any] = {
        "random_state": config.seed,
        "weighting": "environments",  # ERM averages the environments' losses
        "penalty_weight": config.penalty_weight,
        "warm_up": config.warm_up,
        "halves": "hard",
        "interpolation": "worst_case",
        "objective": "max",
    }
    if is_network(config):
        settings["n_folds"] = 0  # a judge's accuracy at home is not needed, and would double stage 1
    known = inspect.signature(method).parameters
    given = {name: value for name, value in settings.items() if name in known and value is not None}
    return method(make_estimator(config, prepared), **{**given, **config.method_options})
