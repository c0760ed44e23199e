"""`holdfast demo`: a table of two hospitals and a new one, then the paper's method on colored digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import PAGES, ClusterOption, JsonOption, check_file, check_folder
from holdfast.cli.terminal import command_line, counting, print_table, print_text, say, show


def demo(
    seeds: Annotated[
        int, typer.Option("--seeds", help="Number of repetitions, with other rows and colors.", min=1, metavar="N")
    ] = 5,
    out: Annotated[Path, typer.Option("--out", help="Folder to save the PI classifier to.", metavar="DIR")] = Path(
        "holdfast-demo"
    ),
    report: Annotated[
        Path | None, typer.Option("--report", help="HTML report to write (default: DIR.html).", metavar="FILE")
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all steps on a table of hospitals, then PI on digits.

    First a table of two hospitals is diagnosed, a classifier is fitted, checked and adapted at a third hospital. Then
    four methods are compared on digits. Their color agrees with the label in 90 % and 80 % of the rows of the two
    training environments, and in 10 % of the test rows. The 1,797 digits come with scikit-learn.
    """
    from holdfast.lab.demo import METHODS, run_demo
    from holdfast.lab.hospitals import run_hospitals
    from holdfast.lab.pages import audit_demo, demo_page
    from holdfast.reports import write_report
    from holdfast.saving import save

    page = Path(f"{out}.html") if report is None else report
    check_folder(out, overwrite=True)
    check_file(page, option="--report", overwrite=report is None, suffixes=PAGES)
    with counting("fitting", seeds * len(METHODS) + 2) as step:
        step("hospitals")
        hospitals = run_hospitals()
        result, classifier = run_demo(seeds, progress=step)
        step("the audit")
        found, reliance = audit_demo()
    save(classifier, out, overwrite=True)
    write_report(demo_page(result, classifier, audit=found, reliance=reliance), page)
    result |= {"audit": {"named": list(found.named), "sentences": list(found.sentences())}}
    result |= {"hospitals": hospitals, "out": str(out), "report": str(page)}
    accuracy = {name: scores["test_accuracy"] for name, scores in result["methods"].items()}
    at_new = hospitals["accuracy"]
    answer = (
        f"Accuracy at a new hospital: ordinary classifier {at_new['ordinary']:.0%}, stable classifier "
        f"{at_new['stable']:.0%}, adapted without labels {at_new['adapted']:.0%}. Accuracy on digits whose color "
        f"misleads: ordinary training (ERM) {accuracy['erm']:.0%}, PI {accuracy['pi']:.0%}, and an oracle that knows "
        f"the color {accuracy['oracle']:.0%}."
    )
    following = command_line("python", "-m", "webbrowser", page)
    show(answer, result, following=following, as_json=as_json, body=lambda: _print(result))


def _print(result: dict[str, Any]) -> None:
    _print_hospitals(result["hospitals"])
    data = result["data"]
    say("\n2. Colored digits: the paper's method")
    print_text(
        f"The color equals the label in {data['etas'][0]:.0%} and {data['etas'][1]:.0%} of the training "
        f"rows, in {data['test_eta']:.0%} of the test rows."
    )
    rows = [
        [scores["title"], scores["test_accuracy"], scores["test_spread"], scores["train_accuracy"]]
        for scores in result["methods"].values()
    ]
    header = ["method", "test accuracy", "± over seeds", "training accuracy"]
    n_seeds = len(result["seeds"])
    print_table(f"Accuracy, mean of {n_seeds} seed{'s' * (n_seeds > 1)}", header, rows)
    rows = [[p["rows"], p["n_rows"], p["correlation"]] for p in result["partition_correlations"]]
    print_table("Correlation of color and label (seed 0)", ["rows", "number", "correlation"], rows)
    print_text("In the mistaken halves the color is hardly correlated with the label. PI uses this.", indent="  ")
    say("\nThe audit, which does not know that the color is spurious:")
    named = result["audit"]["named"]
    for line in result["audit"]["sentences"][: 2 * len(named) or 1]:
        print_text(line, indent="  ")
    if not named:
        print_text(
            "The audit examines columns one by one. The color is not a single column: see docs/how-to/own-network.md.",
            indent="  ",
        )
    say("")
    print_text(
        f"Every method uses {result['estimator']}; the penalty was chosen without the test environment. Labels are "
        f"noise in {data['label_noise']:.0%} of the rows."
    )
    say(f"Saved the PI classifier of seed 0 to {result['out']}.")
    say(f"Wrote the report {result['report']}.")


def _print_hospitals(found: dict[str, Any]) -> None:
    """Print what each command says about the table of hospitals."""
    say(f"\n1. A table of {found['n_rows']:,} patients in Boston and Chicago; Denver comes later")
    for command in ("diagnose", "fit", "check"):
        print_text(f"{command}: {found[command]}", indent="  ")
    rows = [[name, accuracy] for name, accuracy in found["accuracy"].items()]
    print_table("Accuracy in Denver", ["classifier", "accuracy"], rows)
