"""What the three stages found, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stages_summary(y: NDArray[Any], environments: NDArray[Any], classifier: Any) -> dict[str, Any]:
    """Return environments, accuracies, partitions and groups of a fitted method; parts it has not are left out."""
    from holdfast.metrics import prevalence

    table = prevalence(y, environments)
    summary: dict[str, Any] = {
        "environments": [
            {"name": name, "n_rows": int(counts.sum()), "shares": dict(zip(table.classes, shares, strict=True))}
            for name, counts, shares in zip(table.environments, table.counts, table.shares.tolist(), strict=True)
        ],
        "unlike_prevalence": list(table.unlike()),
    }
    if hasattr(classifier, "partitions_"):
        names = [str(label) for label in classifier.environments_]
        summary["accuracies"] = {
            judge: dict(zip(names, row, strict=True))
            for judge, row in zip(names, classifier.accuracies_.tolist(), strict=True)
        }
        summary["partitions"] = partitions_summary(classifier.partitions_)
    if hasattr(classifier, "groups_") and len(classifier.groups_):
        summary["groups"] = [
            {"name": group.name, "n_rows": len(group), "risk": float(risk), "weight": float(weight)}
            for group, risk, weight in zip(
                classifier.groups_, classifier.group_risks_, classifier.group_weights_, strict=True
            )
        ]
        summary["worst_case_risk"] = float(classifier.worst_case_risk_)
        summary["gap"] = float(classifier.gap_)
        summary["solver"] = classifier.solver_
    return summary


def partitions_summary(partitions: Any) -> list[dict[str, Any]]:
    """Return judge, judged, accuracy and the sizes of the halves of each partition."""
    found = []
    for partition in partitions:
        soft = partition.correct_weights is not None
        n_correct, n_mistaken = len(partition.correct), len(partition.mistaken)
        if soft:  # every row is in both halves, as likely as the judge is right and wrong
            n_correct = round(float(partition.correct_weights.sum()))
            n_mistaken -= n_correct
        facts = {"judge": partition.judge, "judged": partition.judged, "accuracy": float(partition.accuracy)}
        found.append({**facts, "soft": soft, "n_correct": n_correct, "n_mistaken": n_mistaken})
    return found
