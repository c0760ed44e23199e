"""The mathematics of the method on exact distributions over (x1, x2, y): no sampling, no training.

`Joint` is a table of probabilities, `partition` cuts one environment by another one's ideal classifier (Proposition 1),
`theorem1` and `theorem2_bounds` evaluate the theorems, `minimize_worst_case_risk` solves stage 3 with a certificate,
and `extrapolate` is the classifier that stage 1 alone already gives.
"""

from __future__ import annotations

from holdfast.theory.halves import (
    HalfCurves,
    extrapolate,
    half_curves,
    inverse_weights,
    log_odds_ratio,
    mistaken_log_odds,
    oracle_weight,
    partition,
    vanishing_strength,
)
from holdfast.theory.joints import Joint, independent, log_odds, mixture, risk, toy
from holdfast.theory.theorems import (
    Optimum,
    Theorem1,
    has_uniform_labels,
    is_independent,
    minimize_worst_case_risk,
    theorem1,
    theorem1_counterexample,
    theorem2_bounds,
    theorem2_bounds_as_printed,
    theorem2_counterexample,
)

__all__ = [
    "HalfCurves",
    "Joint",
    "Optimum",
    "Theorem1",
    "extrapolate",
    "half_curves",
    "has_uniform_labels",
    "independent",
    "inverse_weights",
    "is_independent",
    "log_odds",
    "log_odds_ratio",
    "minimize_worst_case_risk",
    "mistaken_log_odds",
    "mixture",
    "oracle_weight",
    "partition",
    "risk",
    "theorem1",
    "theorem1_counterexample",
    "theorem2_bounds",
    "theorem2_bounds_as_printed",
    "theorem2_counterexample",
    "toy",
    "vanishing_strength",
]
