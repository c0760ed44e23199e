"""`holdfast adapt`: adapt a saved stable classifier to a new site by rows without labels, and save the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.options import (
    FolderArgument,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    TableArgument,
    check_folder,
    option,
)
from holdfast.cli.terminal import command_line, print_table, print_text, say, show, showing_stages

if TYPE_CHECKING:
    from holdfast.newsite.adapt import Adaptation


def adapt(
    folder: FolderArgument,
    table: TableArgument,
    *,
    layout: LayoutOptions,
    out: Annotated[Path, option("--out", "Folder to save the adapted classifier to.", "DIR")],
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Adapt a stable classifier to a new site without labels.

    A classifier without the columns whose effects may differ predicts rows of that site. From these predictions it
    learns the effects of these columns there. This needs 30 rows, better 100. If adapting does harm when a known site
    is treated as a new one, nothing is saved. The saved result contains none of the rows.
    """
    check_folder(out, overwrite=overwrite)
    fitted, rows = layout.open_for(folder, table)
    with showing_stages(f"adapting to {table}"):
        adapted = fitted.adapt(rows)
        found = adapted.adaptation_
        assert found is not None
        if found.adapted:
            adapted.save(out, overwrite=overwrite)
    result = {**found.to_dict(), "out": out if found.adapted else None}
    following = command_line("holdfast", "check", folder, table)
    if found.adapted:
        following = command_line("holdfast", "predict", out, table, "--out", "predictions.csv")
    show(found.answer, result, following=following, as_json=as_json, body=lambda: _print(found, result))


def _print(found: Adaptation, result: dict[str, Any]) -> None:
    """Print what each unstable column says there, and what was written."""
    for sentence in (*found.sentences, *found.notes):
        print_text(sentence)
    rows = [
        [column["column"], column["weight"], column["right"], *list(column["known"].values())[:3]]
        for column in result["columns"]
    ]
    if rows:
        sites = [f"in {name}" for name in list(result["columns"][0]["known"])[:3]]
        print_table("Share of rows in which a column agrees with the label", ["column", "weight", "here", *sites], rows)
    say("")
    say("Nothing was saved." if result["out"] is None else f"Saved the classifier to {result['out']}.")
