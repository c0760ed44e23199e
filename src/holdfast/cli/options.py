"""Options that several commands share, each with one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TableArgument = Annotated[Path, typer.Argument(help="A .csv, .tsv or .parquet file.", metavar="TABLE")]
FolderArgument = Annotated[Path, typer.Argument(help="The folder that 'holdfast fit' wrote.", metavar="DIR")]
LabelOption = Annotated[str, typer.Option("--label", help="Column with the class label.", metavar="COL")]
EnvironmentOption = Annotated[
    list[str],
    typer.Option("--environment", help="Column that says where a row came from; several are crossed.", metavar="COL"),
]
PeriodOption = Annotated[
    str | None,
    typer.Option("--environment-by", help="Cut date environments by year, quarter, month or day.", metavar="PERIOD"),
]
DropOption = Annotated[list[str], typer.Option("--drop", help="Column to leave out; repeatable.", metavar="COL")]
TextOption = Annotated[
    list[str], typer.Option("--text", help="Column whose words are used; repeatable.", metavar="COL")
]
CategoricalOption = Annotated[
    list[str],
    typer.Option("--categorical", help="Numbers that are levels, not amounts; repeatable.", metavar="COL"),
]
EstimatorOption = Annotated[
    str,
    typer.Option(
        "--estimator",
        help="logistic, boosting, forest, extra_trees, linear_svm, naive_bayes or mlp.",
        metavar="NAME",
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Also write one HTML page about it.", metavar="FILE")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Makes the run repeatable.", min=0, metavar="N")]
JobsOption = Annotated[int, typer.Option("--jobs", help="Fits that run at the same time.", min=1, metavar="N")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote there.")]
