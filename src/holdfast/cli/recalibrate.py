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

    Begin with about 50 labeled rows, drawn at random at the site; the answer says how many would be enough. There are
    three corrections: none, new intercepts, and new intercepts with a slope. They are averaged by their posterior
    probability. With few rows the coefficients are shrunk towards no correction. If the ranking of the rows is reversed
    at the site, which no correction can repair, nothing is saved. The saved result contains the coefficients and none
    of the rows. Rows without a label only count for the size of the site.
    """
    check_folder(out, overwrite=overwrite)
    fitted, rows = layout.open_for(folder, table)
    with showing_stages(f"recalibrating with {table}"):
        corrected = fitted.recalibrate(rows)
        found = corrected.recalibration_
        assert found is not None
        if not found.is_reversed:
            corrected.save(out, overwrite=overwrite)
    classes = [str(label) for label in corrected.classes_]
    result = {**found.to_dict(), "classes": classes, "out": None if found.is_reversed else out}
    following = command_line("holdfast", "evaluate", out, "MORE-LABELED.csv")
    if found.is_reversed:
        following = command_line("holdfast", "check", folder, table)
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
    say("Nothing was saved." if result["out"] is None else f"Saved the classifier to {result['out']}.")
