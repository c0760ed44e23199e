"""The other methods of the paper: balanced ERM, oracle, IRM, V-REx and RGM."""

from __future__ import annotations

from holdfast.estimators.balanced import BalancedClassifier
from holdfast.estimators.group_dro import OracleClassifier
from holdfast.estimators.methods import METHODS
from holdfast.estimators.penalties import IRMClassifier, RGMClassifier, VRExClassifier

__all__ = ["METHODS", "BalancedClassifier", "IRMClassifier", "OracleClassifier", "RGMClassifier", "VRExClassifier"]
