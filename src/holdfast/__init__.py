"""Classifiers that keep working when the environment changes.

You say which environment (hospital, site, year, camera) each row came from. holdfast tells whether a classifier will
hold at the next one, and trains classifiers that rely less on what differs between environments.

Names load when they are first used, so that `import holdfast` costs next to nothing. Networks are in
`holdfast.neural`, the other methods of the paper in `holdfast.methods`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.auditing import audit_data as audit
    from holdfast.estimators.erm import ERMClassifier as ERMClassifier
    from holdfast.estimators.group_dro import GroupDROClassifier as GroupDROClassifier
    from holdfast.estimators.pi import PIClassifier as PIClassifier
    from holdfast.estimators.regression import PIRegressor as PIRegressor
    from holdfast.estimators.stable import StableClassifier as StableClassifier
    from holdfast.estimators.stable_regression import StableRegressor as StableRegressor
    from holdfast.fitting.splitter import LeaveOneEnvironmentOut as LeaveOneEnvironmentOut
    from holdfast.saving import load as load
    from holdfast.saving import save as save
    from holdfast.tables.classifier import TableClassifier as TableClassifier
    from holdfast.tables.classifier import check as check
    from holdfast.tables.comparison import compare_methods as compare
    from holdfast.tables.diagnosis import diagnose as diagnose
    from holdfast.tables.scores import diagnose_scores as diagnose_scores

__version__ = "0.2.0"

# Public name -> "module:attribute". A new name also goes into the block above and into the test of this list.
_PUBLIC = {
    "ERMClassifier": "holdfast.estimators.erm:ERMClassifier",
    "GroupDROClassifier": "holdfast.estimators.group_dro:GroupDROClassifier",
    "LeaveOneEnvironmentOut": "holdfast.fitting.splitter:LeaveOneEnvironmentOut",
    "PIClassifier": "holdfast.estimators.pi:PIClassifier",
    "PIRegressor": "holdfast.estimators.regression:PIRegressor",
    "StableClassifier": "holdfast.estimators.stable:StableClassifier",
    "StableRegressor": "holdfast.estimators.stable_regression:StableRegressor",
    "TableClassifier": "holdfast.tables.classifier:TableClassifier",
    "audit": "holdfast.auditing:audit_data",
    "check": "holdfast.tables.classifier:check",
    "compare": "holdfast.tables.comparison:compare_methods",
    "diagnose": "holdfast.tables.diagnosis:diagnose",
    "diagnose_scores": "holdfast.tables.scores:diagnose_scores",
    "load": "holdfast.saving:load",
    "save": "holdfast.saving:save",
}
_MOVED = {
    **dict.fromkeys(
        ["BalancedClassifier", "IRMClassifier", "OracleClassifier", "RGMClassifier", "VRExClassifier"], "methods.{}"
    ),
    **dict.fromkeys(["NeuralClassifier", "NeuralRegressor", "OnlineGroupWeights", "worst_case_risk"], "neural.{}"),
    "audit_data": "audit",
    "compare_methods": "compare",
    "load_model": "load",
    "partition_by_correctness": "partition.{}",
    "save_model": "save",
}
__all__ = ["__version__", "audit", "compare"]  # type checkers see the others by "import X as X"
__all__ += _PUBLIC.keys() - set(__all__)
__all__.sort()


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name in _MOVED:  # of an AttributeError "from holdfast import" would not show the text
        raise ImportError(f"holdfast.{name} is now holdfast.{_MOVED[name].format(name)}. Import it from there.")
    if name in ("methods", "neural"):
        return import_module(f"holdfast.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    path, _, attribute = _PUBLIC[name].partition(":")
    if "sklearn" not in sys.modules:
        import_module("holdfast.extras").import_sklearn()
    value = getattr(import_module(path), attribute)
    globals()[name] = value  # from now on without this detour
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
