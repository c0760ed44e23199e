"""Stages 1 and 2 on the rows of a table, and a summary of all stages as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.environments import (
    Environment,
    Partition,
    check_pairs,
    merge_small_environments,
    split_environments,
    unique_labels,
)
from holdfast.estimators.named import find_estimator
from holdfast.exceptions import EnvironmentsError, LabelsError
from holdfast.judging.judgements import accuracy_matrix, judge_environments
from holdfast.judging.judges import JudgeSettings
from holdfast.metrics import prevalence
from holdfast.partition import partition_by_correctness
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding
from holdfast.tables.preprocessing import make_preprocessor, needs_dense

if TYPE_CHECKING:
    import pandas as pd

    from holdfast.tables.roles import TableRows

MIN_ROWS = 5  # smaller environments are merged, as in the methods


def split_rows(rows: TableRows, *, because: str) -> tuple[Environment, ...]:
    """Return the environments of a table, small ones merged; refuse fewer than two, which `because` explains."""
    found = split_environments(rows.environments, len(rows.y))
    merged = merge_small_environments(found, MIN_ROWS)
    if len(merged) < 2:
        columns = " × ".join(rows.roles.environments)
        if len(found) > 1:
            raise EnvironmentsError(
                f"Column {columns!r} has {len(found):,} environments with fewer than {MIN_ROWS} rows each, which were "
                f"merged into one, {because}. Name a coarser column, or cut dates with environment_by='year'."
            )
        raise EnvironmentsError(f"Column {columns!r} has only one value, {because}. Pass rows of at least two sites.")
    return merged


def partition_rows(
    rows: TableRows, estimator: str, *, random_state: int = 0, n_jobs: int | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Fit one judge for each environment and let it judge the rows of the others.

    Returns
    -------
    frame : DataFrame
        For each row its number, label and environment, and for each judge whether it was correct; missing for its own.
    summary : dict
        Environments, accuracies and partitions as JSON values.
    """
    import pandas as pd

    judge = find_estimator(estimator).make()
    classes, codes = unique_labels(rows.y, what="labels", error=LabelsError)
    environments = split_rows(rows, because="so there are no other rows to judge")
    check_pairs(environments)
    schema = rows.roles.schema
    matrix = make_preprocessor(schema, dense=needs_dense(judge)).fit_transform(rows.features)
    training, settings = TrainingRows(matrix, codes, environments), JudgeSettings(n_folds=2, n_jobs=n_jobs)
    predictions = judge_environments(judge, training, settings, Seeding(random_state), classes=classes).predictions
    partitions = partition_by_correctness(predictions, codes, environments)
    frame = pd.DataFrame({"row": np.arange(len(codes)), "label": rows.y, "environment": rows.environments})
    for environment, predicted in zip(environments, predictions, strict=True):
        verdict = pd.array(predicted == codes, dtype="boolean")
        verdict[environment.rows] = pd.NA
        frame[f"correct_by_{environment.name}"] = verdict
    summary = stages_summary(rows)
    summary["accuracies"] = _matrix(
        [environment.name for environment in environments], accuracy_matrix(predictions, codes, environments, None)
    )
    summary["partitions"] = partitions_summary(partitions)
    return frame, summary


def stages_summary(rows: TableRows, method: Any = None) -> dict[str, Any]:
    """Return environments, accuracies, partitions and groups of a fitted method; parts that it has not are left out."""
    table = prevalence(rows.y, rows.environments)
    summary: dict[str, Any] = {
        "environments": [
            {"name": name, "n_rows": int(counts.sum()), "shares": dict(zip(table.classes, shares, strict=True))}
            for name, counts, shares in zip(table.environments, table.counts, table.shares.tolist(), strict=True)
        ],
        "unlike_prevalence": list(table.unlike()),
    }
    if hasattr(method, "partitions_"):
        summary["accuracies"] = _matrix([str(label) for label in method.environments_], method.accuracies_)
        summary["partitions"] = partitions_summary(method.partitions_)
    if hasattr(method, "groups_") and len(method.groups_):
        summary["groups"] = [
            {"name": group.name, "n_rows": len(group), "risk": float(risk), "weight": float(weight)}
            for group, risk, weight in zip(method.groups_, method.group_risks_, method.group_weights_, strict=True)
        ]
        summary["worst_case_risk"] = float(method.worst_case_risk_)
        summary["gap"] = float(method.gap_)
        summary["solver"] = method.solver_
    return summary


def _matrix(names: list[str], accuracies: Any) -> dict[str, dict[str, float]]:
    """Return the accuracy of each judge in each environment."""
    return {judge: dict(zip(names, row, strict=True)) for judge, row in zip(names, accuracies.tolist(), strict=True)}


def partitions_summary(partitions: Sequence[Partition]) -> list[dict[str, Any]]:
    """Return judge, judged, accuracy and the sizes of the halves of each partition."""
    found = []
    for partition in partitions:
        weights = partition.correct_weights
        n_correct, n_mistaken = len(partition.correct), len(partition.mistaken)
        if weights is not None:  # every row is in both halves, weighted by how likely the judge is right and wrong
            n_correct = round(float(weights.sum()))
            n_mistaken -= n_correct
        facts = {"judge": partition.judge, "judged": partition.judged, "accuracy": float(partition.accuracy)}
        found.append({**facts, "soft": weights is not None, "n_correct": n_correct, "n_mistaken": n_mistaken})
    return found
