"""Stage 3: minimize the worst-case risk over groups, by one of three solvers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.fitting.kinds import Predictor

SOLVERS = ("convex", "gradient", "reweight")


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found, and how far from the optimum it can be."""

    estimator: Predictor  # fitted; predicts codes 0..n_classes-1
    group_risks: NDArray[np.float64]  # (n_groups,) out of fold where the estimator can memorise
    gap: float  # convex: duality gap; reweight: as far as it answers best; gradient: nan, no certificate is known
    group_weights: NDArray[np.float64]  # (n_groups,) the mixture, on the simplex
    solver: str
    history: list[dict[str, Any]] = field(default_factory=list)  # an entry for each iteration, round or epoch

    @property
    def worst_case_risk(self) -> float:
        """The largest group risk."""
        return float(self.group_risks.max())


@dataclass(frozen=True, kw_only=True)
class SolverSettings:
    """How the worst-case risk is minimized; each solver reads what concerns it."""

    solver: str = "auto"
    objective: Any = "max"  # for networks: see holdfast.neural.objectives
    selection: str | None = None  # for networks: the rule that selects the epoch
    reweight_rounds: int = 20  # for reweighting: largest number of rounds
    n_folds: int = 3  # for reweighting: folds by which groups are judged
    n_jobs: int | None = None  # for reweighting: fits that run at the same time
