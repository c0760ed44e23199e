"""The three stages of a fit as text, for `fit` and `partition`."""

from __future__ import annotations

from typing import Any

from holdfast.cli.terminal import print_table, print_text

MOST_COLUMNS = 6  # of the accuracy matrix that fit beside each other in 80 characters
MOST_ROWS = 12  # of a table; the rest is in --json


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
