"""`holdfast evaluate`: score a saved classifier by environment and attribute, and compare it with another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.options import FolderArgument, JsonOption, LayoutOptions, TableArgument, ThresholdOption, option
from holdfast.cli.terminal import (
    command_line,
    format_cell,
    format_score,
    note,
    print_clinical,
    print_regression,
    print_table,
    print_text,
    say,
    show,
    showing_stages,
    verdict_values,
)
from holdfast.exceptions import ParameterError

if TYPE_CHECKING:
    from holdfast.diagnosis.clinical import ClinicalReport
    from holdfast.tables.regression import TableRegressor

MOST_ROWS = 20  # of a table; the rest is in --json


def evaluate(
    folder: FolderArgument,
    table: TableArgument,
    *,
    layout: LayoutOptions,
    attribute: Annotated[
        list[str], option("--attribute", "Score the groups label x this column; can be repeated.", "COL")
    ] = [],  # noqa: B006 - typer copies defaults
    environment: Annotated[
        list[str], option("--environment", "Environment column (default: the one of the fit).", "COL")
    ] = [],  # noqa: B006
    baseline: Annotated[Path | None, option("--baseline", "Another saved classifier to compare with.", "DIR")] = None,
    positive: Annotated[
        str | None, option("--positive", "Label that counts as positive (default: the second of two).", "LABEL")
    ] = None,
    threshold: ThresholdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a saved classifier on a table with labels.

    Accuracies have 95 % intervals. --baseline compares with another classifier, such as one fitted with --method erm.
    It shows the price at known environments and the gain at new ones.
    """
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.regression import TableRegressor, load_model

    fitted = load_model(folder)
    if isinstance(fitted, TableRegressor):
        refused = {"--attribute": attribute, "--baseline": baseline, "--positive": positive, "--threshold": threshold}
        for name, value in refused.items():
            if value:
                raise ParameterError(f"{folder} is a regression model, which has no {name}. Leave it out.")
        _evaluate_numbers(fitted, folder, table, layout, environment, as_json=as_json)
        return
    other = None if baseline is None else TableClassifier.load(baseline)
    with showing_stages(f"predicting {table}"):
        rows = layout.open(table, fitted.roles_.missing)
        found = fitted.evaluate(
            rows,
            attributes=attribute,
            environment=environment,
            positive=positive,
            baseline=other,
            threshold=threshold,
        )
    for remark in (*rows.notes, *found.notes):
        note(f"note: {remark}")
    result = {**found.to_dict(), "verdict": verdict_values(fitted.method_)}
    if "comparison" in result:
        result["comparison"]["baseline"]["folder"] = baseline
    following = command_line("holdfast", "audit", folder, table, *(("--baseline", baseline) if baseline else ()))
    show(str(found), result, following=following, as_json=as_json, body=lambda: _print(result, found.clinical))


def _evaluate_numbers(
    fitted: TableRegressor, folder: Path, table: str, layout: LayoutOptions, environment: list[str], *, as_json: bool
) -> None:
    """Score a saved regression model."""
    with showing_stages(f"predicting {table}"):
        found = fitted.evaluate(layout.open(table, fitted.roles_.missing), environment=environment)
    following = command_line("holdfast", "predict", folder, table, "--out", "predictions.csv")

    def body() -> None:
        print_regression(found.report, "By environment (95 % intervals)")
        if found.known:
            print_text(
                "The fit had rows of known environments. If it had these rows, errors look too small.", indent="  "
            )

    show(str(found), found.to_dict(), following=following, as_json=as_json, body=body)


def _print(result: dict[str, Any], clinical: ClinicalReport | None) -> None:
    overall = result["overall"]
    rows = [_row(f"{e['name']} ({'known' if e['known'] else 'new'})", e) for e in result["environments"]]
    rows = [*rows[:MOST_ROWS], _row("all rows", overall)] if len(rows) > 1 else rows
    header = ["environment", "rows", "accuracy", "AUROC", "sens.", "spec.", "ECE"]
    print_table("By environment (95 % intervals)", header, rows)
    of = "means over the classes" if result["positive"] is None else f"for {result['positive']!r}"
    print_text(f"sensitivity and specificity: {of}; ECE: calibration error of the stated risk", indent="  ")
    losses = f"log loss {format_cell(overall['log_loss'])}, Brier score {format_cell(overall['brier'])}"
    print_text(f"all rows: {losses}", indent="  ")
    if any(e["known"] for e in result["environments"]):
        print_text(
            "known: the classifier was trained there; if these are the same rows, scores are optimistic", indent="  "
        )
    if clinical is not None:
        print_clinical(clinical, "Calibration and net benefit by environment")
    shares = list(result["environments"][0]["shares"])[:4]
    print_table(
        "Class shares",
        ["environment", *(f"share of {name}" for name in shares)],
        [[e["name"], *(e["shares"][name] for name in shares)] for e in result["environments"][:MOST_ROWS]],
    )
    if result["attributes"]:
        rows = [
            [a["name"], _score(a["worst"]), a["worst"]["group"], _score(a["average"])] for a in result["attributes"]
        ]
        header = ["attribute", "worst group accuracy", "which", "average group accuracy"]
        print_table("By label × attribute", header, rows)
        natural = result["mean_over_attributes"]
        say(f"  mean over attributes: worst {natural['worst']:.3f}, average {natural['average']:.3f}")
    if "comparison" in result:
        _print_comparison(result["comparison"])


def _print_comparison(comparison: dict[str, Any]) -> None:
    base = comparison["baseline"]
    rows = [
        [e["name"], e["known"], e["accuracy"], e["baseline_accuracy"], _difference(e["difference"])]
        for e in comparison["environments"][:MOST_ROWS]
    ]
    header = ["environment", "known", "this", "baseline", "difference"]
    print_table(f"Against {base['method']} with {base['estimator']} ({base['folder']})", header, rows)
    known, new = comparison["known"], comparison["new"]
    say(f"  price at known environments: {_difference(known) if known else 'no known environment in this table'}")
    say(f"  gain at new environments:    {_difference(new) if new else 'no new environment in this table'}")


def _row(name: str, scores: dict[str, Any]) -> list[Any]:
    keys = ("auroc", "sensitivity", "specificity", "calibration_error")
    return [name, scores["n_rows"], _score(scores["accuracy"]), *(scores[key] for key in keys)]


def _difference(score: dict[str, Any]) -> str:
    return "{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**score)


def _score(score: dict[str, Any]) -> str:
    return format_score(score["value"], score["low"], score["high"])
