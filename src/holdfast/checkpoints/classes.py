"""Which of our classes may stand in a saved file, by name; nothing else is ever built from one."""

from __future__ import annotations

from importlib import import_module
from typing import TypeVar

from holdfast.exceptions import ParameterError, UntrustedFileError

AnyClass = TypeVar("AnyClass", bound=type)

# Name in the file -> module. A class that fitted estimators hold gets its line here.
_OURS = {
    "BalancedClassifier": "holdfast.estimators.balanced",
    "ERMClassifier": "holdfast.estimators.erm",
    "Environment": "holdfast.environments",
    "EnvironmentClassifier": "holdfast.stages.predict",
    "ExtrapolatedClassifier": "holdfast.estimators.extrapolation",
    "Extrapolation": "holdfast.estimators.extrapolation",
    "ExtrapolationClassifier": "holdfast.estimators.extrapolation",
    "Group": "holdfast.environments",
    "GroupDROClassifier": "holdfast.estimators.group_dro",
    "IRMClassifier": "holdfast.estimators.irm",
    "NeuralClassifier": "holdfast.estimators.neural",
    "NeuralRegressor": "holdfast.estimators.neural",
    "OracleClassifier": "holdfast.estimators.group_dro",
    "PIClassifier": "holdfast.estimators.pi",
    "PIRegressor": "holdfast.estimators.regression",
    "Partition": "holdfast.environments",
    "RGMClassifier": "holdfast.estimators.rgm",
    "Seeding": "holdfast.seeding",
    "Solution": "holdfast.solvers",
    "TableClassifier": "holdfast.cli.table_classifier",
    "VRExClassifier": "holdfast.estimators.vrex",
    "Vocabulary": "holdfast.batches.text",
    "WeightedEnsemble": "holdfast.solvers.reweight",
    "WeightedMean": "holdfast.solvers.reweight",
}
_allowed: dict[str, type] = {}


def allow(cls: AnyClass) -> AnyClass:
    """Let instances of your own class be saved and loaded; usable as a decorator.

    Attributes are saved one by one (see `holdfast.checkpoints.codec`), and loading sets them without calling
    `__init__`. The class has to be allowed in the process that loads, too.

    Parameters
    ----------
    cls : type
        Your class. Its name must not be taken.
    """
    name = cls.__name__
    if name in _OURS or _allowed.get(name, cls) is not cls:
        raise ParameterError(f"The name {name!r} is taken by another class that can be saved. Rename your class.")
    _allowed[name] = cls
    return cls


def saved_name(cls: type) -> str | None:
    """Return the name of a class that may be saved, else None."""
    name = cls.__name__
    if _allowed.get(name) is cls:
        return name
    return name if _OURS.get(name) == cls.__module__ else None


def saved_class(name: object) -> type:
    """Return the class of that name; refuse all but those on the list."""
    if isinstance(name, str) and name in _allowed:
        return _allowed[name]
    if not isinstance(name, str) or name not in _OURS:
        raise UntrustedFileError(
            f"The file asks for the class {name!r}, which is not on the list of classes that may be loaded. "
            "If it is your own, pass it to holdfast.checkpoints.allow first."
        )
    loaded: type = getattr(import_module(_OURS[name]), name)
    return loaded
