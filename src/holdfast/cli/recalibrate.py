"""`holdfast recalibrate`: correct the probabilities of a saved classifier for one site, and save the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from holdfast.cli.options import (
    FolderArgument,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    TableArgument,
    check_folder,
    option,
)
from holdfast.cli.terminal import command_line, print_table, say, show, showing_stages


def recalibrate(
    folder: FolderArgument,
    table: TableArgument,
    *,
    layout: LayoutOptions,
    out: Annotated[Path, option("--out", "Folder to save the recalibrated classifier to.", "DIR")],
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Correct probabilities for one site with labeled rows of it.

    Begin with about 50 labeled rows, drawn at random at the site; the answer says how many would be enough. The
    Bayesian evidence decides between no correction, new intercepts, and new intercepts with a slope. With few rows the
    coefficients are shrunk. The saved result contains the coefficients and none of the rows. Rows without a label only
    count for the size of the site.
    """
    check_folder(out, overwrite=overwrite)
    fitted, rows = layout.open_for(folder, table)
    with showing_stages(f"recalibrating with {table}"):
        corrected = fitted.recalibrate(rows)
        corrected.save(out, overwrite=overwrite)
    found = corrected.recalibration_
    assert found is not None
    result = {**found.to_dict(), "classes": [str(label) for label in fitted.classes_], "out": out}
    following = command_line("holdfast", "evaluate", out, "MORE-LABELED.csv")
    show(str(found), result, following=following, as_json=as_json, body=lambda: _print(result))


def _print(result: dict[str, Any]) -> None:
    """Print the coefficients, and the probability of each model of the site."""
    pairs = zip(result["classes"], result["intercepts"], strict=True)
    rows: list[list[Any]] = [["slope", result["slope"]], *([f"intercept of {name}", value] for name, value in pairs)]
    print_table("Coefficients of the log-probabilities", ["coefficient", "value"], rows)
    print_table(
        "Posterior probability of each correction",
        ["correction", "probability"],
        [[*p] for p in result["probabilities"].items()],
    )
    say("")
    say(f"Saved the classifier to {result['out']}.")
