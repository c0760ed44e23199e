"""`holdfast evaluate`: how good a saved classifier is, by environment and by attribute, and against another one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.options import FolderArgument, JsonOption, TableArgument
from holdfast.cli.terminal import format_cell, format_score, note, print_json, print_table, print_text, showing_stages

MOST_ROWS = 20  # of a table; the rest is in --json


def evaluate(
    folder: FolderArgument,
    table: TableArgument,
    attribute: Annotated[
        list[str],
        typer.Option("--attribute", help="Column whose groups (with the label) are scored; repeatable.", metavar="COL"),
    ] = [],  # noqa: B006 - typer copies defaults
    environment: Annotated[
        list[str],
        typer.Option("--environment", help="Environment column; as fitted by default.", metavar="COL"),
    ] = [],  # noqa: B006
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="Another saved classifier to compare with.", metavar="DIR")
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option("--positive", help="Label that counts as positive; the second of two.", metavar="LABEL"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score a saved classifier on a table with labels.

    Accuracies come with 95 % intervals that hold for small groups too. With --baseline (a classifier fitted by
    --method erm, say) the price at known environments stands beside the gain at new ones.
    """
    from holdfast.exceptions import PrevalenceWarning
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.evaluation import compare, predict_labeled, read_labeled, score
    from holdfast.tables.files import TableFile

    fitted = TableClassifier.load(folder)
    other = None if baseline is None else TableClassifier.load(baseline)
    if other is not None:
        fitted.check_same_label(other)
    rows = TableFile(table)
    labeled = read_labeled(rows, fitted, environments=environment, attributes=attribute)
    for remark in labeled.notes:
        note(f"note: {remark}")
    with showing_stages(f"predicting {table}"):
        predicted = predict_labeled(rows, fitted)
        result = score(labeled, predicted, fitted, positive=positive)
        for unseen in result["labels_never_fitted"]:
            note(f"note: the classifier was never fitted on the label {unseen!r}: its rows count as mistaken")
        if other is not None:
            result["comparison"] = compare(labeled, predicted, predict_labeled(rows, other))
            result["comparison"]["baseline"] = {"folder": baseline, **other.names}
    unlike = result["unlike_prevalence"]
    if unlike:
        warnings.warn(
            f"class shares differ much in {', '.join(unlike[:5])}; the theory assumes them equal, and accuracies of "
            "such environments are not comparable",
            PrevalenceWarning,
            stacklevel=1,
        )
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    overall = result["overall"]
    print(f"Accuracy {_score(overall['accuracy'])} on {overall['n_rows']:,} rows (95 % intervals).")
    print(f"Log loss {format_cell(overall['log_loss'])}, Brier score {format_cell(overall['brier'])}.")
    rows = [_row(f"{e['name']} ({'known' if e['known'] else 'new'})", e) for e in result["environments"]]
    rows = [*rows[:MOST_ROWS], _row("all rows", overall)] if len(rows) > 1 else rows
    header = ["environment", "rows", "accuracy", "AUROC", "sens.", "spec.", "ECE"]
    print_table("By environment", header, rows)
    of = "means over the classes" if result["positive"] is None else f"for {result['positive']!r}"
    print_text(f"sensitivity and specificity: {of}; ECE: calibration error", indent="  ")
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
        print(f"  mean over attributes: worst {natural['worst']:.3f}, average {natural['average']:.3f}")
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
    print(f"  price at known environments: {_difference(known) if known else 'no known environment in this table'}")
    print(f"  gain at new environments:    {_difference(new) if new else 'no new environment in this table'}")


def _row(name: str, scores: dict[str, Any]) -> list[Any]:
    keys = ("auroc", "sensitivity", "specificity", "calibration_error")
    return [name, scores["n_rows"], _score(scores["accuracy"]), *(scores[key] for key in keys)]


def _difference(score: dict[str, Any]) -> str:
    return "{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**score)


def _score(score: dict[str, Any]) -> str:
    return format_score(score["value"], score["low"], score["high"])
