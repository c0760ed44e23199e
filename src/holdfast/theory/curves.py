"""How the halves of the toy example move with the judged environment's flip rate: the numbers behind a figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from holdfast.exceptions import ParameterError
from holdfast.theory.halves import oracle_weight, partition
from holdfast.theory.joints import Floats, Joint, toy


@dataclass(frozen=True, eq=False)
class HalfCurves:
    """Correlation of x2 and y in each half, and the oracle's interpolation weight, for a range of η.

    Every array has an entry for each η; NaN where a half is empty or no interpolation is the oracle.
    """

    judge_eta: float  # η1 of the judge
    judged_eta: float  # the chosen η2, among `eta`
    noise: float
    eta: Floats  # η of the judged environment
    alpha: dict[str, Floats]  # "soft", "hard": share that the judge gets right
    judged: Floats  # correlation in the whole judged environment
    correct: dict[str, Floats]  # "soft", "hard"
    mistaken: dict[str, Floats]  # "soft", "hard"
    oracle: dict[str, Floats]  # "soft", "hard": the λ of λ·correct + (1 − λ)·mistaken

    def rows(self) -> list[dict[str, float]]:
        """Return one flat row for each η, for a table or a CSV file."""
        columns: dict[str, Floats] = {"eta": self.eta, "judged": self.judged}
        for name in ("alpha", "correct", "mistaken", "oracle"):
            columns |= {f"{name}_{kind}": values for kind, values in getattr(self, name).items()}
        return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def half_curves(eta1: float, eta2: float, noise: float = 0.2, *, etas: ArrayLike | None = None) -> HalfCurves:
    """Return what the judge E1 does to a judged environment, for η from 0 to 1.

    Parameters
    ----------
    eta1 : float
        Probability that x2 differs from y in the judge's environment.
    eta2 : float
        The same in the judged environment of interest; it is put among the η of the curves.
    noise : float
        Probability that y differs from the stable feature x1.
    etas : array-like, optional
        Where the curves are evaluated; 201 equal steps by default.
    """
    grid = np.linspace(0.0, 1.0, 201) if etas is None else np.atleast_1d(np.asarray(etas, dtype=np.float64))
    if grid.ndim != 1 or not ((grid >= 0) & (grid <= 1)).all():
        raise ParameterError("The 'etas' parameter of half_curves must be a list of numbers in [0, 1].")
    grid = np.union1d(grid, [float(eta2)])
    judge = toy(eta1, noise)
    judged = Joint(np.stack([toy(float(eta), noise).array for eta in grid]))
    cut = {"soft": partition(judge, judged, halves="soft"), "hard": partition(judge, judged, halves="hard")}
    return HalfCurves(
        judge_eta=float(eta1),
        judged_eta=float(eta2),
        noise=float(noise),
        eta=grid,
        alpha={kind: alpha for kind, (alpha, _, _) in cut.items()},
        judged=judged.correlation(),
        correct={kind: correct.correlation() for kind, (_, correct, _) in cut.items()},
        mistaken={kind: mistaken.correlation() for kind, (_, _, mistaken) in cut.items()},
        oracle={kind: oracle_weight(correct, mistaken) for kind, (_, correct, mistaken) in cut.items()},
    )
