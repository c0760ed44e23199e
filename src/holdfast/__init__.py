"""Will a classifier still work at the next site, why not, and what to do.

You say which environment (hospital, site, year, camera) each row came from. `diagnose` measures what an ordinary model
loses at sites that it has not seen. `StableClassifier` and `PIClassifier` rely less on what differs between sites.

Names load when they are first used, so that `import holdfast` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import theory as theory
    from holdfast.estimators.balanced import BalancedClassifier as BalancedClassifier
    from holdfast.estimators.erm import ERMClassifier as ERMClassifier
    from holdfast.estimators.group_dro import GroupDROClassifier as GroupDROClassifier
    from holdfast.estimators.group_dro import OracleClassifier as OracleClassifier
    from holdfast.estimators.penalties import IRMClassifier as IRMClassifier
    from holdfast.estimators.penalties import RGMClassifier as RGMClassifier
    from holdfast.estimators.penalties import VRExClassifier as VRExClassifier
    from holdfast.estimators.pi import PIClassifier as PIClassifier
    from holdfast.estimators.regression import PIRegressor as PIRegressor
    from holdfast.estimators.splitting import LeaveOneEnvironmentOut as LeaveOneEnvironmentOut
    from holdfast.estimators.stable import StableClassifier as StableClassifier
    from holdfast.neural.estimator import NeuralClassifier as NeuralClassifier
    from holdfast.neural.estimator import NeuralRegressor as NeuralRegressor
    from holdfast.neural.objectives import OnlineGroupWeights as OnlineGroupWeights
    from holdfast.neural.risks import worst_case_risk as worst_case_risk
    from holdfast.partition import partition_by_correctness as partition_by_correctness
    from holdfast.saving import load as load_model
    from holdfast.saving import save as save_model
    from holdfast.tables.classifier import TableClassifier as TableClassifier
    from holdfast.tables.comparison import compare_methods as compare_methods
    from holdfast.tables.diagnosis import diagnose as diagnose
    from holdfast.tables.scores import diagnose_scores as diagnose_scores

__version__ = "0.2.0"

# Public name -> "module:attribute", or "module" for a whole one. A new name also goes into the block above.
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
    "diagnose_scores": "holdfast.tables.scores:diagnose_scores",
    "load_model": "holdfast.saving:load",
    "partition_by_correctness": "holdfast.partition:partition_by_correctness",
    "save_model": "holdfast.saving:save",
    "theory": "holdfast.theory",
    "worst_case_risk": "holdfast.neural.risks:worst_case_risk",
}
__all__ = ["__version__", "load_model", "save_model"]  # type checkers see the others by "import X as X"
__all__ += _PUBLIC.keys() - set(__all__)
__all__.sort()


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
