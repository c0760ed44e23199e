"""`holdfast compare`: rank the methods for a table, and recommend one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.options import (
    ESTIMATOR_NAMES,
    ColumnOptions,
    FitOptions,
    JsonOption,
    LayoutOptions,
    TableArgument,
    free_name,
)
from holdfast.cli.terminal import (
    MOST_ROWS,
    command_line,
    counting,
    in_options,
    print_rest,
    print_table,
    print_text,
    say,
    show,
)
from holdfast.exceptions import ParameterError

MOST_METHODS = 6  # that fit next to each other in 80 characters


def compare(
    table: TableArgument,
    *,
    columns: ColumnOptions,
    layout: LayoutOptions,
    estimator: Annotated[
        str | None,
        typer.Option(
            "--estimator",
            help=f"{ESTIMATOR_NAMES} Default: logistic, and for erm and stable also a booster, if "
            "XGBoost, LightGBM or CatBoost is installed.",
            metavar="NAME",
        ),
    ] = None,
    method: Annotated[
        list[str],
        typer.Option(
            "--method", help="Method to compare with erm; can be repeated (default: all methods).", metavar="NAME"
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="What ranks the methods: accuracy, worst (the lowest accuracy of an environment), balanced_accuracy, "
            "auroc, log_loss or brier.",
            metavar="NAME",
        ),
    ] = None,
    fits: FitOptions,
    as_json: JsonOption = False,
) -> None:
    """Rank the methods for a table, and recommend one.

    Each environment is left out in turn. Every method is fitted on the others and scored in the left-out one. With two
    environments, rows of both are held out instead. The classifier of each environment divides the other's rows into
    correct and mistaken ones, and the worst of these halves is the score. This is only a hint, and it favors pi. irm,
    vrex and rgm need --estimator mlp.
    """
    from holdfast.diagnosis.advice import decide_early, mending_options
    from holdfast.diagnosis.answer import lead
    from holdfast.tables.comparison import N_FOLDS, compare_rows, table_candidates
    from holdfast.tables.method_scores import METRICS

    n_methods = len(table_candidates(estimator, method or None, fits.seed))  # refuses names before anything is read
    if columns.subjects is not None:
        raise ParameterError("compare does not take --subjects. Use fit, diagnose or audit, or leave it out.")
    rows = columns.read(table, layout)
    n_environments = len(set(rows.environments))
    with counting("fitting", n_methods * (n_environments if n_environments > 2 else N_FOLDS)) as step:
        found = compare_rows(
            rows,
            estimator=estimator,
            methods=method or None,
            metric=metric,
            n_jobs=fits.n_jobs,
            random_state=fits.seed,
            progress=step,
        )
    values = found.to_dict()
    for scored in values["methods"]:
        scored["remarks"] = [in_options(remark) for remark in scored["remarks"]]
    result = {
        "estimator": estimator or "logistic",
        "seed": fits.seed,
        "n_rows": len(rows.y),
        "n_environments": n_environments,
        "label": columns.label,
        **values,
        "caveat": in_options(found.caveat),
        "advice": decide_early(rows.problems, found.verdict).to_dict(),
        "problems": [problem.to_dict() for problem in rows.problems],
    }
    best, _, other = found.recommended.partition(" with ")
    words = [*columns.words(), "--estimator", other or result["estimator"], "--method", best]
    following = command_line("holdfast", "fit", table, *words, "--out", free_name("model"))
    if blocking := [problem for problem in rows.problems if problem.is_headline]:
        following = command_line("holdfast", "diagnose", table, *columns.words(), *mending_options(blocking))
    by = METRICS[found.ranked_by]
    answer = lead(rows.problems, columns.label, found.recommendation)
    show(answer, result, following=following, as_json=as_json, body=lambda: _print(result, by))


def _print(result: dict[str, Any], by: str) -> None:
    say("")
    print_text(
        f"Compared {len(result['methods'])} methods with {result['estimator']} on {result['n_rows']:,} rows of "
        f"{result['n_environments']} environments: {result['protocol']}."
    )
    fitted = [method for method in result["methods"] if method["problem"] is None]
    ranked = [[m["method"], m["metrics"][result["ranked_by"]], _gain(m)] for m in fitted]
    mean = "mean " if result["ranked_by"] == "worst" else ""  # the gain in all parts, not in the worst one
    print_table(f"Ranked by {by}", ["method", by, f"{mean}gain over erm (95 % interval)"], ranked)
    header = ["method", "accuracy", "lowest", "balanced", "AUROC", "log loss", "Brier"]
    keys = ("accuracy", "worst", "balanced_accuracy", "auroc", "log_loss", "brier")
    rows = [[m["method"], *(m["metrics"][key] for key in keys)] for m in fitted]
    print_table("All metrics", header, rows)
    print_text("lowest: the lowest accuracy of a part below; balanced: balanced accuracy", indent="  ")
    if any(method["spread"] != method["spread"] for method in fitted):  # NaN
        print_text(f"–: {result['estimator']} gives no probabilities, so there is no AUROC, loss or score", indent="  ")
    _print_parts(fitted, "environment left out" if result["n_environments"] > 2 else "half of held-out rows")
    say("")
    for method in result["methods"]:
        if method["problem"] is not None:
            print_text(f"{method['method']} could not be fitted: {in_options(method['problem'])}")
        for remark in method["remarks"]:
            print_text(f"{method['method']}, {remark}")
    print_text(result["caveat"])
    verdict = result["verdict"]
    if verdict is not None and verdict["fitted"] != "ordinary":
        asked = {"as known": "known", "if the effect vanishes": "vanished", "if it reverses": "reversed"}
        rows = [[question, verdict[key]["ordinary"], verdict[key]["fitted"]] for question, key in asked.items()]
        print_table("Stress test of all rows: accuracy out of fold", ["what happens", "erm", "stable"], rows)


def _print_parts(methods: list[dict[str, Any]], what: str) -> None:
    """Print the accuracies of the best methods side by side."""
    best = methods[:MOST_METHODS]
    rows = [[part, *(method["parts"][part] for method in best)] for part in (best[0]["parts"] if best else [])]
    title = f"Accuracy by {what}" + (f", the best {MOST_METHODS} methods" if len(methods) > MOST_METHODS else "")
    print_table(title, [what, *(method["method"] for method in best)], rows[:MOST_ROWS])
    print_rest(rows)


def _gain(method: dict[str, Any]) -> str:
    """Return the gain with its interval; ERM has none over itself."""
    if method["method"] == "erm":
        return "–"
    if method["gain"]["low"] != method["gain"]["low"]:
        return f"{method['gain']['value']:+.3f}"
    return "{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**method["gain"])
