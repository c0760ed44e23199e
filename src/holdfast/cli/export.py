"""`holdfast export`: write a saved classifier as an ONNX file, after comparing its predictions with the original's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import JsonOption, OverwriteOption, check_file, option
from holdfast.cli.terminal import command_line, show


def export(
    folder: Annotated[Path, typer.Argument(help="A folder that 'fit' wrote.", metavar="DIR")],
    *,
    onnx: Annotated[Path, option("--onnx", "The ONNX file to write.", "FILE")],
    table: Annotated[
        str,
        option(
            "--table",
            "Rows to compare on (the first 1,000); a .npy or .npz file for a network that takes arrays.",
            "TABLE",
        ),
    ],
    trust: Annotated[
        list[str], option("--trust", "Import path of your own network that may be loaded; can be repeated.", "PATH")
    ] = [],  # noqa: B006 - typer copies defaults
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a table classifier or a network as an ONNX file.

    The classifier and the file both predict the rows of --table. If a prediction differs, no file is written.
    """
    from holdfast.saving import load, read_manifest
    from holdfast.saving.onnx_files import read_arrays
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.export import export_onnx

    check_file(onnx, overwrite=overwrite, option="--onnx", inputs=[table], suffixes=(".onnx",))
    if "table" in read_manifest(folder)["extra"]:
        difference = export_onnx(TableClassifier.load(folder, trust=trust), onnx, table)
        following = command_line("holdfast", "predict", folder, table)
    else:
        difference = export_onnx(load(folder, trust=trust), onnx, read_arrays(table))
        following = command_line("holdfast", "doctor")
    result = {"out": onnx, "bytes": onnx.stat().st_size, "largest_difference": difference}
    answer = f"Wrote {onnx}: on the rows of {table} its probabilities differ by at most {difference:.1g}."
    show(answer, result, following=following, as_json=as_json)
