"""Classifiers that keep working when the environment changes.

You say which environment (hospital, site, year, camera) each row came from, and holdfast learns only the correlations
that hold in all of them: Predict, then Interpolate.

Names load when they are first used, so that `import holdfast` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.checkpoints import load as load_model
    from holdfast.checkpoints import save as save_model
    from holdfast.estimators.erm import ERMClassifier
    from holdfast.estimators.group_dro import GroupDROClassifier
    from holdfast.estimators.neural import NeuralClassifier
    from holdfast.estimators.pi import PIClassifier
    from holdfast.estimators.splitting import LeaveOneEnvironmentOut

__version__ = "0.1.0"

__all__ = [
    "ERMClassifier",
    "GroupDROClassifier",
    "LeaveOneEnvironmentOut",
    "NeuralClassifier",
    "PIClassifier",
    "__version__",
    "load_model",
    "save_model",
]

# Public name -> "module:attribute", or "module" for a whole one. A new name also goes into __all__ and the block above.
_PUBLIC = {
    "ERMClassifier": "holdfast.estimators.erm:ERMClassifier",
    "GroupDROClassifier": "holdfast.estimators.group_dro:GroupDROClassifier",
    "LeaveOneEnvironmentOut": "holdfast.estimators.splitting:LeaveOneEnvironmentOut",
    "NeuralClassifier": "holdfast.estimators.neural:NeuralClassifier",
    "PIClassifier": "holdfast.estimators.pi:PIClassifier",
    "load_model": "holdfast.checkpoints:load",
    "save_model": "holdfast.checkpoints:save",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    path, _, attribute = _PUBLIC[name].partition(":")
    module = import_module(path)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value  # from now on without this detour
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
