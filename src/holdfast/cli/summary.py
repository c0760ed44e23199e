"""What the three stages found, as plain values and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.cli.output import print_table, print_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_COLUMNS = 6  # of the accuracy matrix that fit beside each other in 80 characters
MOST_ROWS = 12  # of a table; the rest is in --json


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


def print_stages(summary: dict[str, Any]) -> None:
    """Print a summary of the stages."""
    _print_environments(summary)
    if "partitions" in summary:
        _print_partitions(summary)
    if "groups" in summary:
        _print_groups(summary)


def _print_environments(summary: dict[str, Any]) -> None:
    environments = summary["environments"]
    classes = list(environments[0]["shares"])
    shown = classes[1:] if len(classes) == 2 else classes[:4]
    header = ["environment", "rows", *(f"share of {name}" for name in shown)]
    rows = [[e["name"], e["n_rows"], *(e["shares"][name] for name in shown)] for e in environments]
    print_table("Environments", header, rows[:MOST_ROWS])
    _print_rest(rows)
    if summary["unlike_prevalence"]:
        names = ", ".join(summary["unlike_prevalence"][:5])
        print_text(f"Class shares differ much in {names}; the theory assumes them equal.", indent="  ")


def _print_partitions(summary: dict[str, Any]) -> None:
    names = list(summary["accuracies"])
    if 1 < len(names) <= MOST_COLUMNS:
        rows = [[judge, *summary["accuracies"][judge].values()] for judge in names]
        title = "Stage 1: accuracy of each judge (row) in each environment (own rows out of fold)"
        print_table(title, ["judge", *names], rows)
    partitions = sorted(summary["partitions"], key=lambda p: p["accuracy"])
    rows = [[p["judge"], p["judged"], p["accuracy"], p["n_correct"], p["n_mistaken"]] for p in partitions]
    if rows:
        header = ["judge", "judged", "accuracy", "correct", "mistaken"]
        kind = "soft partitions (expected rows)" if partitions[0]["soft"] else "partitions"
        print_table(f"Stage 2: {kind}, lowest accuracy first", header, rows[:MOST_ROWS])
        _print_rest(rows)


def _print_groups(summary: dict[str, Any]) -> None:
    groups = sorted(summary["groups"], key=lambda g: -g["risk"])
    rows = [[g["name"], g["n_rows"], g["risk"], g["weight"]] for g in groups]
    weight = "step from ERM" if summary["solver"] == "invariant" else "weight"
    title = f"Stage 3 ({summary['solver']}): worst-case risk {summary['worst_case_risk']:.4f}"
    gap = summary["gap"]
    if summary["solver"] == "invariant":
        title += f", the environments' risks differ by {gap:.2f}"
    elif gap == gap:  # NaN: no certificate
        title += f", at most {gap:.1g} above the optimum"
    print_table(title, ["group", "rows", "risk", weight], rows[:MOST_ROWS])
    _print_rest(rows)


def _print_rest(rows: list[Any]) -> None:
    if len(rows) > MOST_ROWS:
        print(f"  … and {len(rows) - MOST_ROWS:,} more; --json has them all")
