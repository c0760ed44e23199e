"""Names inside a run's settings: estimators, backbones and the keys of option tables, checked before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from holdfast.datasets import DATASETS
from holdfast.exceptions import ConfigError
from holdfast.experiments.config import HALVES, RunConfig, refuse_unknown


def check_names(config: RunConfig, where: str) -> None:
    """Refuse a name that no run could use.

    Parameters
    ----------
    config : RunConfig
    where : str
        What errors name, for example the experiment file.
    """
    from holdfast.estimators.methods import METHODS
    from holdfast.experiments.building import TABULAR

    refuse_unknown(config.dataset_options, DATASETS[config.dataset].options(), f"{where}: dataset_options")
    if config.method != HALVES:
        known = [name for name in inspect.signature(METHODS[config.method]).parameters if name != "estimator"]
        refuse_unknown(config.method_options, known, f"{where}: method_options of {config.method}")
    if config.estimator in TABULAR:
        options = list(TABULAR[config.estimator]().get_params())
    else:
        from holdfast.networks import NETWORKS  # with torch, which only networks need

        _refuse("estimator", config.estimator, [*TABULAR, *NETWORKS], where)
        factory = inspect.signature(NETWORKS[config.estimator]).parameters
        options = [name for name in factory if name not in ("input_shape", "n_classes", "dropout")]
    refuse_unknown(config.estimator_options, options, f"{where}: estimator_options of {config.estimator}")
    if config.backbone is not None:
        from holdfast.networks import NETWORKS

        _refuse("backbone", config.backbone, NETWORKS, where)


def _refuse(what: str, name: str | None, known: Iterable[str], where: str) -> None:
    if name is not None and name not in known:
        raise ConfigError(f"{where} has {what} = {name!r}. Known are {', '.join(known)}.")
