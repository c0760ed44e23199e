"""`holdfast theory`: the halves that judges make of an environment, computed exactly for the two-bit example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.options import JsonOption, OverwriteOption, check_file, option
from holdfast.cli.terminal import command_line, print_table, print_text, say, show

if TYPE_CHECKING:
    from holdfast.lab.theory import HalfCurves

PICTURES = (".svg",)


def theory(
    eta1: Annotated[float, option("--eta1", "P(x2 ≠ y) in the judge's environment.", "P", min=0, max=1)] = 0.1,
    eta2: Annotated[float, option("--eta2", "P(x2 ≠ y) in the judged environment.", "P", min=0, max=1)] = 0.2,
    noise: Annotated[float, option("--noise", "P(x1 ≠ y) in every environment.", "P", min=0, max=1)] = 0.2,
    out: Annotated[Path | None, option("--out", "An .svg file to draw the curves to.", "FILE")] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compute the halves of the paper's toy example exactly.

    x1 and x2 are binary features of the label y; x1 is stable, x2 is not. The ideal classifier of one environment cuts
    another one into a correct and a mistaken half. Nothing is sampled. The figure shows the halves for every eta2.
    """
    from holdfast.lab.theory import half_curves, half_figures

    if out is not None:
        check_file(out, overwrite=overwrite, suffixes=PICTURES)
    curves = half_curves(eta1, eta2, noise)
    if out is not None:
        from holdfast.reports.svg import save_figure

        save_figure(out, *half_figures(curves))
    result = _result(curves, out)
    soft = result["halves"]["soft"]
    answer = (
        f"x2 and y correlate at {result['correlation']:+.3f} in the judged environment, at {soft['correct']:+.3f} in "
        f"the correct half and at {soft['mistaken']:+.3f} in the mistaken half (soft halves)."
    )
    following = command_line("holdfast", "theory", "--out", "halves.svg") if out is None else "holdfast reproduce toy"
    curve = {"curves": curves.rows()}
    show(answer, result | curve, following=following, as_json=as_json, body=lambda: _print(result))


def _result(curves: HalfCurves, out: Path | None) -> dict[str, Any]:
    """Return the numbers at the chosen eta2, as JSON values."""
    at = int(abs(curves.eta - curves.judged_eta).argmin())
    halves = {
        kind: {
            "alpha": float(curves.alpha[kind][at]),
            "correct": float(curves.correct[kind][at]),
            "mistaken": float(curves.mistaken[kind][at]),
            "oracle_weight": float(curves.oracle[kind][at]),
        }
        for kind in ("soft", "hard")
    }
    environment = float(curves.judged[at])
    chosen = {"eta1": curves.judge_eta, "eta2": curves.judged_eta, "noise": curves.noise}
    return {**chosen, "correlation": environment, "halves": halves, "out": out}


def _print(result: dict[str, Any]) -> None:
    say("")
    print_text(
        f"x2 differs from y in {result['eta1']:.4g} of the judge's environment and in {result['eta2']:.4g} of the "
        f"judged one, x1 in {result['noise']:.4g} of both."
    )
    rows = [
        [kind, half["alpha"], half["correct"], half["mistaken"], half["oracle_weight"]]
        for kind, half in result["halves"].items()
    ]
    header = ["halves", "judge is right", "correct half", "mistaken half", "oracle's weight"]
    print_table("Share that the judge gets right, and the correlation of x2 and y in the halves", header, rows)
    print_text(
        "soft: every row in both halves, weighted by the judge's probability; hard: cut by its prediction; oracle's "
        "weight: of the correct half in the mixture where x2 says nothing about y (–: there is none)",
        indent="  ",
    )
    if result["out"] is not None:
        say(f"\nWrote {result['out']}.")
