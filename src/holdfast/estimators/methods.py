"""The methods by name: what experiments, comparisons and the command line can ask for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.estimators.balanced import BalancedClassifier
from holdfast.estimators.base import MethodClassifier
from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.group_dro import GroupDROClassifier, OracleClassifier
from holdfast.estimators.penalties import IRMClassifier, RGMClassifier, VRExClassifier
from holdfast.estimators.pi import PIClassifier
from holdfast.estimators.stable import StableClassifier

METHODS: Mapping[str, type[MethodClassifier]] = MappingProxyType(
    {
        "stable": StableClassifier,
        "pi": PIClassifier,
        "erm": ERMClassifier,
        "balanced": BalancedClassifier,
        "irm": IRMClassifier,
        "vrex": VRExClassifier,
        "rgm": RGMClassifier,
        "group_dro": GroupDROClassifier,
        "oracle": OracleClassifier,
    }
)
