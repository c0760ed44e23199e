"""Draw how the halves of the toy example move: `holdfast.theory.half_curves` as one picture."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from holdfast.theory import HalfCurves

# Okabe and Ito's colors: told apart by color-blind readers, and in gray by their line styles.
CORRECT, MISTAKEN, ENVIRONMENT = "#0072B2", "#D55E00", "#555555"
STYLES = {"soft": "-", "hard": "--"}


def draw_half_curves(curves: HalfCurves) -> Figure:
    """Return a figure of two panels: the correlation in each half, and the oracle's interpolation weight.

    Parameters
    ----------
    curves : HalfCurves
        From `holdfast.theory.half_curves`.

    Returns
    -------
    matplotlib.figure.Figure
        Free of any window: save it with `figure.savefig("halves.svg")`.
    """
    figure = Figure(figsize=(9.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(curves.eta, curves.judged, color=ENVIRONMENT, linestyle=":", label="whole environment")
    for kind, style in STYLES.items():
        left.plot(curves.eta, curves.correct[kind], style, color=CORRECT, label=f"correct half, {kind}")
        left.plot(curves.eta, curves.mistaken[kind], style, color=MISTAKEN, label=f"mistaken half, {kind}")
        right.plot(curves.eta, curves.oracle[kind], style, color=CORRECT, label=f"{kind} halves")
    _finish(left, curves, "correlation of x2 and y", (-1.08, 1.08))
    left.axhline(0.0, color="#999999", linewidth=0.8)
    _finish(right, curves, "weight of the correct half at the oracle", (-0.04, 1.04))
    figure.suptitle(
        f"An environment judged by one with η = {curves.judge_eta:g}; label noise {curves.noise:g}", fontsize="medium"
    )
    return figure


def describe_half_curves(curves: HalfCurves) -> str:
    """Return the picture in words, for those who cannot see it: the numbers at the chosen η."""
    at = int(abs(curves.eta - curves.judged_eta).argmin())
    parts = [
        f"{kind} halves: {curves.correct[kind][at]:+.2f} where the judge is right, {curves.mistaken[kind][at]:+.2f} "
        f"where it is wrong, oracle at weight {curves.oracle[kind][at]:.2f}"
        for kind in STYLES
    ]
    return (
        f"Judge η = {curves.judge_eta:g}, judged η = {curves.judged_eta:g}, noise {curves.noise:g}: x2 and y correlate "
        f"at {curves.judged[at]:+.2f} in the whole environment. " + "; ".join(parts) + "."
    )


def _finish(axes: Axes, curves: HalfCurves, ylabel: str, limits: tuple[float, float]) -> None:
    """Label one panel, put the legend under it and mark the chosen η."""
    axes.axvline(curves.judged_eta, color=ENVIRONMENT, linewidth=0.8, alpha=0.6)
    place = (curves.judged_eta, limits[0] + 0.1 * (limits[1] - limits[0]))
    axes.annotate(f"η2 = {curves.judged_eta:g}", place, fontsize="small", xytext=(4, 0), textcoords="offset points")
    axes.set(xlabel="η of the judged environment, P(x2 ≠ y)", ylabel=ylabel, ylim=limits)
    axes.legend(fontsize="small", frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
