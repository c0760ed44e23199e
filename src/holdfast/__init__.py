"""Classifiers that keep working when the environment changes.

You say which environment (hospital, site, year, camera) each row came from, and holdfast learns only the correlations
that hold in all of them: Predict, then Interpolate.

Names load when they are first used, so that `import holdfast` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import theory
    from holdfast.estimators.balanced import BalancedClassifier
    from holdfast.estimators.erm import ERMClassifier
    from holdfast.estimators.group_dro import GroupDROClassifier, OracleClassifier
    from holdfast.estimators.penalties import IRMClassifier, RGMClassifier, VRExClassifier
    from holdfast.estimators.pi import PIClassifier
    from holdfast.estimators.regression import PIRegressor
    from holdfast.estimators.splitting import LeaveOneEnvironmentOut
    from holdfast.estimators.stable import StableClassifier
    from holdfast.neural.estimator import NeuralClassifier, NeuralRegressor
    from holdfast.neural.objectives import OnlineGroupWeights
    from holdfast.neural.risks import worst_case_risk
    from holdfast.partition import partition_by_correctness
    from holdfast.saving import load as load_model
    from holdfast.saving import save as save_model
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.comparison import compare_methods
    from holdfast.tables.diagnosis import diagnose

__version__ = "0.2.0"

__all__ = [
    "BalancedClassifier",
    "ERMClassifier",
    "GroupDROClassifier",
    "IRMClassifier",
    "LeaveOneEnvironmentOut",
    "NeuralClassifier",
    "NeuralRegressor",
    "OnlineGroupWeights",
    "OracleClassifier",
    "PIClassifier",
    "PIRegressor",
    "RGMClassifier",
    "StableClassifier",
    "TableClassifier",
    "VRExClassifier",
    "__version__",
    "compare_methods",
    "diagnose",
    "load_model",
    "partition_by_correctness",
    "save_model",
    "theory",
    "worst_case_risk",
]

# Public name -> "module:attribute", or "module" for a whole one. A new name also goes into __all__ and the block above.
_PUBLIC = {
    "BalancedClassifier": "holdfast.estimators.balanced:BalancedClassifier",
    "ERMClassifier": "holdfast.estimators.erm:ERMClassifier",
    "GroupDROClassifier": "holdfast.estimators.group_dro:GroupDROClassifier",
    "IRMClassifier": "holdfast.estimators.penalties:IRMClassifier",
    "LeaveOneEnvironmentOut": "holdfast.estimators.splitting:LeaveOneEnvironmentOut",
    "NeuralClassifier": "holdfast.neural.estimator:NeuralClassifier",
    "NeuralRegressor": "holdfast.neural.estimator:NeuralRegressor",
    "OnlineGroupWeights": "holdfast.neural.objectives:OnlineGroupWeights",
    "OracleClassifier": "holdfast.estimators.group_dro:OracleClassifier",
    "PIClassifier": "holdfast.estimators.pi:PIClassifier",
    "PIRegressor": "holdfast.estimators.regression:PIRegressor",
    "RGMClassifier": "holdfast.estimators.penalties:RGMClassifier",
    "StableClassifier": "holdfast.estimators.stable:StableClassifier",
    "TableClassifier": "holdfast.tables.classifier:TableClassifier",
    "VRExClassifier": "holdfast.estimators.penalties:VRExClassifier",
    "compare_methods": "holdfast.tables.comparison:compare_methods",
    "diagnose": "holdfast.tables.diagnosis:diagnose",
    "load_model": "holdfast.saving:load",
    "partition_by_correctness": "holdfast.partition:partition_by_correctness",
    "save_model": "holdfast.saving:save",
    "theory": "holdfast.theory",
    "worst_case_risk": "holdfast.neural.risks:worst_case_risk",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    path, _, attribute = _PUBLIC[name].partition(":")
    if "sklearn" not in sys.modules and path != "holdfast.theory":
        import_module("holdfast.extras").import_sklearn()
    module = import_module(path)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value  # from now on without this detour
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
