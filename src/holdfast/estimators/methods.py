"""The methods by name: what experiments, comparisons and the command line can ask for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.estimators.balanced import BalancedClassifier
from holdfast.estimators.base import StableClassifier
from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.extrapolation import ExtrapolationClassifier
from holdfast.estimators.group_dro import GroupDROClassifier, OracleClassifier
from holdfast.estimators.penalties import IRMClassifier, RGMClassifier, VRExClassifier
from holdfast.estimators.pi import PIClassifier

METHODS: Mapping[str, type[StableClassifier]] = MappingProxyType(
    {
        "pi": PIClassifier,
        "extrapolate": ExtrapolationClassifier,
        "erm": ERMClassifier,
        "balanced": BalancedClassifier,
        "irm": IRMClassifier,
        "vrex": VRExClassifier,
        "rgm": RGMClassifier,
        "group_dro": GroupDROClassifier,
        "oracle": OracleClassifier,
    }
)
