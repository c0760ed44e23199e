"""What a run is scored by: accuracies by environment and attribute, correlations in environments and halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets import Dataset, Split
from holdfast.environments import Partition, Rows, split_environments
from holdfast.metrics import correlation, label_attribute_groups, score_groups

MOST_GROUPS = 40  # label × attribute cells beyond this are too small to speak of a worst one


def score_split(split: Split, predictions: NDArray[Any], attributes: Sequence[str]) -> dict[str, Any]:
    """Return the accuracy of all rows and of each environment, and the worst and average one for each attribute."""
    right = np.asarray(predictions) == split.y
    scores: dict[str, Any] = {
        "accuracy": float(right.mean()),
        "n_rows": len(right),
        "environments": {
            e.name: float(right[e.rows].mean()) for e in split_environments(split.environments, len(split))
        },
    }
    by_attribute = {}
    for name in attributes:
        groups = label_attribute_groups(split.y, split.attributes[name], name)
        if len(groups) > MOST_GROUPS:
            continue
        found = score_groups(split.y, predictions, groups, n_draws=500)
        by_attribute[name] = {
            "worst": found.worst.value,
            "worst_low": found.worst.low,
            "worst_high": found.worst.high,
            "worst_group": found.worst.name,
            "worst_rows": found.worst.n_rows,
            "average": found.average.value,
        }
    if by_attribute:
        scores["attributes"] = by_attribute
        scores["worst"] = float(np.mean([entry["worst"] for entry in by_attribute.values()]))
        scores["average"] = float(np.mean([entry["average"] for entry in by_attribute.values()]))
    return scores


def environment_correlations(dataset: Dataset) -> list[dict[str, Any]]:
    """Return each training environment's correlations of label and attributes."""
    return [
        {"environment": e.name, **_correlations(dataset, e.rows)}
        for e in split_environments(dataset.train.environments, len(dataset.train))
    ]


def half_correlations(dataset: Dataset, partitions: Sequence[Partition]) -> list[dict[str, Any]]:
    """Return each half's size and its correlations of label and attributes."""
    return [
        {"judge": p.judge, "judged": p.judged, "half": half, **_correlations(dataset, rows)}
        for p in partitions
        for half, rows in (("correct", p.correct), ("mistaken", p.mistaken))
    ]


def _correlations(dataset: Dataset, rows: Rows) -> dict[str, Any]:
    """Return Pearson's correlation of the integer codes of label and attribute; NaN where one of them is constant."""
    y = dataset.train.y[rows]
    attributes = {name: dataset.train.attributes[name] for name in dataset.attribute_names}
    found = {name: correlation(x[rows], y) for name, x in attributes.items() if x.dtype.kind in "iufb"}
    return {"n_rows": len(rows), "correlations": found}
