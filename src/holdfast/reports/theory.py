"""Figures of the theory: correlations in the halves, and where the oracle interpolates, by environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.reports.values import Curves, Line

if TYPE_CHECKING:
    from holdfast.theory import HalfCurves


def half_figures(curves: HalfCurves) -> tuple[Curves, Curves]:
    """Return the correlation in each half, and the oracle's interpolation weight, by the η of the judged rows."""
    at = int(abs(curves.eta - curves.judged_eta).argmin())
    kinds = ("soft", "hard")
    parts = [
        f"{kind} halves: {curves.correct[kind][at]:+.2f} where the judge is right, {curves.mistaken[kind][at]:+.2f} "
        f"where it is wrong, oracle at weight {curves.oracle[kind][at]:.2f}"
        for kind in kinds
    ]
    note = (
        f"Judge η = {curves.judge_eta:g}, judged η = {curves.judged_eta:g}, noise {curves.noise:g}: x2 and y correlate "
        f"at {curves.judged[at]:+.2f} in the whole environment. " + "; ".join(parts) + "."
    )

    def line(name: str, values: Any) -> Line:
        return Line(name, tuple(curves.eta.tolist()), tuple(values.tolist()))

    judge = f"judge's η = {curves.judge_eta:g}, label noise {curves.noise:g}"
    halves = [
        line(f"{half} half, {kind}", values[kind])
        for kind in kinds
        for half, values in (("correct", curves.correct), ("mistaken", curves.mistaken))
    ]
    whole = Line("whole environment", tuple(curves.eta.tolist()), tuple(curves.judged.tolist()), dashed=True)
    axis = "η of the judged environment, P(x2 ≠ y)"
    return (
        Curves(f"Correlation of x2 and y; {judge}", axis, "correlation", (*halves, whole), note=note),
        Curves(
            f"Weight of the correct half at the oracle; {judge}",
            axis,
            "weight",
            tuple(line(f"{kind} halves", curves.oracle[kind]) for kind in kinds),
        ),
    )
