"""The methods by name: what experiments, comparisons and the command line can ask for.

Another package adds one with an entry point of the group ``holdfast.methods`` that names its class.
"""

from __future__ import annotations

from holdfast.estimators.base import MethodClassifier
from holdfast.registry import Registry

METHODS: Registry[type[MethodClassifier]] = Registry(
    "method",
    {
        "stable": "holdfast.estimators.stable:StableClassifier",
        "pi": "holdfast.estimators.pi:PIClassifier",
        "erm": "holdfast.estimators.erm:ERMClassifier",
        "balanced": "holdfast.estimators.balanced:BalancedClassifier",
        "irm": "holdfast.estimators.penalties:IRMClassifier",
        "vrex": "holdfast.estimators.penalties:VRExClassifier",
        "rgm": "holdfast.estimators.penalties:RGMClassifier",
        "group_dro": "holdfast.estimators.group_dro:GroupDROClassifier",
        "oracle": "holdfast.estimators.group_dro:OracleClassifier",
    },
    group="holdfast.methods",
    accepts=lambda value: isinstance(value, type) and issubclass(value, MethodClassifier),
    expected="a subclass of holdfast.estimators.base.MethodClassifier",
)
