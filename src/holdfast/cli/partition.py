"""`holdfast partition`: stages 1 and 2 alone, written out so that the groups can be used elsewhere."""

from __future__ import annotations

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
    SeedOption,
    TableArgument,
    TextOption,
)
from holdfast.cli.stages import print_stages
from holdfast.cli.terminal import note, print_json, showing_stages
from holdfast.tables.summary import partitions_summary

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.inputs import TrainingTable

MIN_ROWS = 5  # smaller environments are merged, as in PIClassifier


def partition(
    table: TableArgument,
    label: LabelOption,
    environment: EnvironmentOption,
    out: Annotated[Path, typer.Option("--out", help="A .csv, .tsv or .parquet file to write.", metavar="FILE")],
    drop: DropOption = [],  # noqa: B006 - typer copies defaults
    text: TextOption = [],  # noqa: B006
    categorical: CategoricalOption = [],  # noqa: B006
    estimator: EstimatorOption = "logistic",
    environment_by: PeriodOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 1,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write, for every row and judge, whether the judge was correct.

    A judge is the classifier of one environment; it judges all other environments. The file has a row for each row of
    the table: its number (from 0), label, environment, and a column 'correct_by_<judge>' that is empty for the judge's
    own rows.
    """
    from holdfast.tables.inputs import check_period, read_training
    from holdfast.tables.outputs import TableWriter, check_file

    check_period(environment_by)
    check_file(out, overwrite=overwrite, inputs=[table])
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
    with showing_stages(f"judging with {estimator} on {len(training.y):,} rows"):
        frame, summary = _judge(training, estimator, seed=seed, jobs=jobs)
    with TableWriter(out) as writer:
        writer.write(frame)
    if as_json:
        print_json({"estimator": estimator, "n_rows": len(frame), **summary, "out": out})
        return
    print(f"Judged {len(frame):,} rows with {estimator}; wrote {out}.")
    print_stages(summary)


def _judge(training: TrainingTable, estimator: str, *, seed: int, jobs: int) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the verdicts of all judges as a frame, and the summary of stages 1 and 2."""
    import numpy as np
    import pandas as pd

    from holdfast.environments import check_pairs, merge_small_environments, split_environments, unique_labels
    from holdfast.exceptions import EnvironmentsError, LabelsError
    from holdfast.judging.judgements import judge_environments
    from holdfast.judging.judges import JudgeSettings
    from holdfast.partition import accuracy_matrix, partition_by_correctness
    from holdfast.rows import TrainingRows
    from holdfast.seeding import Seeding
    from holdfast.tables.classifier import fit_preprocessor
    from holdfast.tables.estimators import ESTIMATORS, find, make_estimator
    from holdfast.tables.summary import stages_summary

    dense = find(ESTIMATORS, estimator, "estimator").dense
    classes, codes = unique_labels(training.y, what="labels", error=LabelsError)
    environments = merge_small_environments(split_environments(training.environments, len(codes)), MIN_ROWS)
    check_pairs(environments)
    if len(environments) < 2:
        raise EnvironmentsError("There is one environment only, so nobody can judge. Pass rows of at least two.")
    _, matrix = fit_preprocessor(training.roles.schema, training.features, dense=dense)
    rows, settings = TrainingRows(matrix, codes, environments), JudgeSettings(n_folds=2, n_jobs=jobs)
    judgements = judge_environments(make_estimator(estimator), rows, settings, Seeding(seed), classes=classes)
    predictions = judgements.predictions
    partitions = partition_by_correctness(predictions, codes, environments)
    names = [environment.name for environment in environments]
    frame = pd.DataFrame({"row": np.arange(len(codes)), "label": training.y, "environment": training.environments})
    for judge, environment, predicted in zip(names, environments, predictions, strict=True):
        verdict = pd.array(predicted == codes, dtype="boolean")
        verdict[environment.rows] = pd.NA
        frame[f"correct_by_{judge}"] = verdict
    accuracies = accuracy_matrix(predictions, codes, environments, None)
    summary = stages_summary(training.y, training.environments, None)
    summary["accuracies"] = {
        j: dict(zip(names, row, strict=True)) for j, row in zip(names, accuracies.tolist(), strict=True)
    }
    summary["partitions"] = partitions_summary(partitions)
    return frame, summary
