"""`holdfast fit`: from a table to a saved classifier, with what the stages found."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    CategoricalOption,
    DropOption,
    EnvironmentOption,
    EstimatorOption,
    JobsOption,
    JsonOption,
    LabelOption,
    OverwriteOption,
    PeriodOption,
    ReportOption,
    SeedOption,
    TableArgument,
    TextOption,
)
from holdfast.cli.stages import print_stages
from holdfast.cli.terminal import note, print_json, print_text, showing_stages, shown_warnings
from holdfast.tables.summary import stages_summary

if TYPE_CHECKING:
    from holdfast.tables.inputs import TrainingTable


def fit(
    table: TableArgument,
    label: LabelOption,
    environment: EnvironmentOption,
    out: Annotated[Path, typer.Option("--out", help="Folder to save to.", metavar="DIR")],
    drop: DropOption = [],  # noqa: B006 - typer copies defaults
    text: TextOption = [],  # noqa: B006
    categorical: CategoricalOption = [],  # noqa: B006
    estimator: EstimatorOption = "logistic",
    method: Annotated[
        str,
        typer.Option("--method", help="stable, pi, erm, balanced, group_dro, irm, vrex or rgm.", metavar="NAME"),
    ] = "stable",
    halves: Annotated[
        str,
        typer.Option("--halves", help="For pi: hard or soft.", metavar="KIND"),
    ] = "hard",
    environment_by: PeriodOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 1,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a classifier on a table and save it.

    Columns that are neither label, environment nor dropped are features. Numbers are scaled, missing ones become the
    median with a column that says so; texts are levels (missing is a level, rare ones are grouped); dates become days,
    month and weekday. A network that is cut goes on from its last epoch when the same command is given again.
    """
    from holdfast.cli.report_sources import check_page
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.continuation import resumable
    from holdfast.tables.estimators import ESTIMATORS, find, make_estimator, make_method
    from holdfast.tables.inputs import check_period, read_training
    from holdfast.tables.outputs import check_folder

    entry = find(ESTIMATORS, estimator, "estimator")
    asked, settings = {"halves": halves}, {"random_state": seed, "n_jobs": jobs}
    chosen = {name: value for name, value in asked.items() if value != "hard"}
    classifier = make_method(method, make_estimator(estimator), chosen=chosen, **settings)
    check_period(environment_by)
    check_folder(out, overwrite=overwrite)  # before hours of fitting
    if report is not None:
        check_page(report, option="--report", overwrite=overwrite)
    training = read_training(
        str(table),
        label=label,
        environments=environment,
        period=environment_by,
        drop=drop,
        text=text,
        categorical=categorical,
    )
    for remark in training.notes:
        note(f"note: {remark}")
    names = {"estimator": estimator, "method": method}
    # Epoch by epoch in this process: what is cut can go on. Other estimators are fitted in one piece.
    kept = (
        resumable(out, training, {**asked, **settings, **names}, note) if entry.epochs and jobs == 1 else nullcontext()
    )
    with kept, showing_stages(f"fitting {method} with {estimator} on {len(training.y):,} rows"):
        fitted = TableClassifier.fit(training, classifier, dense=entry.dense, names=names)
        fitted = dataclasses.replace(fitted, warnings=(*training.notes, *shown_warnings()))
        fitted.save(out, overwrite=overwrite)
    if report is not None:
        with showing_stages(f"reporting {table}"):
            _report(training, fitted, table, report, seed=seed, jobs=jobs)
    result = _result(training, fitted.classifier, names=names, seed=seed, out=out) | {"report": report}
    if as_json:
        print_json(result)
    else:
        _print(result)


def _report(training: TrainingTable, fitted: Any, table: Path, file: Path, *, seed: int, jobs: int) -> None:
    """Write the page about a classifier and the rows it was fitted on."""
    from holdfast.cli.report_sources import story_of_table
    from holdfast.reports import write_report
    from holdfast.tables.audits import Rows

    rows = Rows(training.roles.schema, training.features, training.y, training.environments, None)
    title = f"{table.name}: {fitted.names['method']} with {fitted.names['estimator']}"
    told = {"table": str(table), "seed": seed}
    story = story_of_table(fitted, title=title, rows=rows, settings=told, seed=seed, jobs=jobs)
    write_report(story, file)


def _result(training: TrainingTable, classifier: Any, *, names: dict[str, str], seed: int, out: Path) -> dict[str, Any]:
    """Return everything that is reported about a fit, as JSON values."""
    schema = training.roles.schema
    return {
        **names,
        "seed": seed,
        "n_rows": len(training.y),
        "label": training.roles.label,
        "classes": [str(label) for label in classifier.classes_],
        "columns": {column.name: column.kind for column in schema.columns},
        "left_out": dict(schema.left_out),
        **stages_summary(training.y, training.environments, classifier),
        "out": out,
    }


def _print(result: dict[str, Any]) -> None:
    kinds = list(result["columns"].values())
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    print_text(
        f"Fitted {result['method']} with {result['estimator']} on {result['n_rows']:,} rows; features: {counts}; "
        f"{len(result['classes'])} classes of {result['label']!r}."
    )
    print_stages(result)
    print(f"\nSaved to {result['out']}. Next: holdfast predict {result['out']} TABLE --out FILE")
    if result["report"] is not None:
        print(f"Wrote the report {result['report']}.")
