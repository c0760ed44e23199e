"""`holdfast compare`: which method for my data."""

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
    PeriodOption,
    SeedOption,
    TableArgument,
    TextOption,
)
from holdfast.cli.terminal import counting, note, print_json, print_table, print_text

if TYPE_CHECKING:
    from holdfast.tables.comparison import Comparison, MethodScore
    from holdfast.tables.inputs import TrainingTable

MOST_ROWS = 12  # of a table; the rest is in --json
MOST_METHODS = 6  # that fit beside each other in 80 characters
MOST_ENVIRONMENTS = 100  # each is left out once, for every method
N_FOLDS = 2  # with two environments: how often rows are held out


def compare(
    table: TableArgument,
    label: LabelOption,
    environment: EnvironmentOption,
    drop: DropOption = [],  # noqa: B006 - typer copies defaults
    text: TextOption = [],  # noqa: B006
    categorical: CategoricalOption = [],  # noqa: B006
    estimator: EstimatorOption = "logistic",
    method: Annotated[
        list[str],
        typer.Option("--method", help="Method to compare with erm; repeatable. All by default.", metavar="NAME"),
    ] = [],  # noqa: B006
    environment_by: PeriodOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Rank the methods for a table, and recommend one.

    Each environment is left out in turn, every method is fitted on the others, and its accuracy in the one it has not
    seen counts. With two environments rows are held out in both, and the worst half of them counts, cut by the other
    environment's classifier: a hint only, which favors methods that minimize the risk of such halves by construction.
    irm, vrex and rgm take part with --estimator mlp.
    """
    from holdfast.tables.comparison import compare_methods
    from holdfast.tables.inputs import check_period, read_training

    _check_methods(method, estimator)
    check_period(environment_by)
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
    n_environments = _count_environments(training)
    methods = _prepared(training, estimator, method or None, seed)
    with counting("fitting", len(methods) * (n_environments if n_environments > 2 else N_FOLDS)) as step:
        comparison = compare_methods(
            training.features,
            training.y,
            training.environments,
            methods=methods,
            n_folds=N_FOLDS,
            n_jobs=jobs,
            random_state=seed,
            progress=step,
        )
    result = _result(training, comparison, estimator=estimator, seed=seed, n_environments=n_environments)
    if as_json:
        print_json(result)
    else:
        _print(result, table)


def _check_methods(names: list[str], estimator: str) -> None:
    """Refuse names that are no methods, and methods that need a network where there is none."""
    from holdfast.estimators.methods import METHODS
    from holdfast.exceptions import ParameterError
    from holdfast.tables.comparison import NEEDS_A_NETWORK
    from holdfast.tables.estimators import ESTIMATORS, find

    find(ESTIMATORS, estimator, "estimator")
    known = {name: method for name, method in METHODS.items() if name != "oracle"}
    for name in names:
        find(known, name, "method")
        if name in NEEDS_A_NETWORK and estimator != "mlp":
            raise ParameterError(f"The method {name!r} needs a network, not {estimator!r}. Pass --estimator mlp.")


def _count_environments(training: TrainingTable) -> int:
    """Return how many environments there are; refuse one, and too many."""
    import numpy as np

    from holdfast.exceptions import EnvironmentsError

    n_environments, names = len(np.unique(training.environments)), " × ".join(training.roles.environments)
    if n_environments < 2:
        raise EnvironmentsError(
            f"Column {names!r} names one environment only, so no method can be tried on another. "
            "Pass rows of at least two."
        )
    if n_environments > MOST_ENVIRONMENTS:
        raise EnvironmentsError(
            f"Column {names!r} names {n_environments:,} environments, and every method would be fitted once for each; "
            f"at most {MOST_ENVIRONMENTS} are. Name a coarser column, or cut dates with --environment-by."
        )
    return n_environments


def _prepared(training: TrainingTable, estimator: str, names: list[str] | None, seed: int) -> dict[str, Any]:
    """Return the methods, each behind the preprocessing of the table."""
    from holdfast.tables.comparison import PreparedMethod, candidate_methods
    from holdfast.tables.estimators import ESTIMATORS, make_estimator

    dense = ESTIMATORS[estimator].dense
    methods = candidate_methods(names, make_estimator(estimator), seed)
    return {name: PreparedMethod(method, training.roles.schema, dense=dense) for name, method in methods.items()}


def _result(
    training: TrainingTable, comparison: Comparison, *, estimator: str, seed: int, n_environments: int
) -> dict[str, Any]:
    """Return everything that is reported, as JSON values."""
    return {
        "estimator": estimator,
        "seed": seed,
        "n_rows": len(training.y),
        "n_environments": n_environments,
        "label": training.roles.label,
        "protocol": comparison.protocol,
        "ranked_by": comparison.ranked_by,
        "methods": [_score(score) for score in comparison.scores],
        "recommended": comparison.recommended,
        "recommendation": comparison.recommendation,
        "caveat": comparison.caveat,
    }


def _score(score: MethodScore) -> dict[str, Any]:
    return {
        "method": score.method,
        "mean": score.mean,
        "worst": score.worst,
        "gain": {"value": score.gain, "low": score.gain_low, "high": score.gain_high},
        "spread": score.spread,
        "parts": dict(score.parts),
        "problem": score.problem,
        "remarks": list(score.remarks),
    }


def _print(result: dict[str, Any], table: Path) -> None:
    print_text(
        f"Compared {len(result['methods'])} methods with {result['estimator']} on {result['n_rows']:,} rows of "
        f"{result['n_environments']} environments: {result['protocol']}."
    )
    fitted = [method for method in result["methods"] if method["problem"] is None]
    by = "mean accuracy" if result["ranked_by"] == "mean" else "accuracy in the worst half"
    header = ["method", "mean", "worst", "mean gain over erm", "spread"]
    known = [method["spread"] == method["spread"] for method in fitted]  # NaN: it gives no probabilities
    rows = [
        [m["method"], m["mean"], m["worst"], _gain(m), m["spread"] if told else "–"]
        for m, told in zip(fitted, known, strict=True)
    ]
    print_table(f"Ranked by {by} (95 % intervals)", header, rows)
    print_text("spread: largest minus smallest log loss over the environments", indent="  ")
    if not all(known):
        print_text(f"–: {result['estimator']} gives no probabilities there, so no log loss", indent="  ")
    _print_parts(fitted, "environment left out" if result["ranked_by"] == "mean" else "half of held-out rows")
    print()
    for method in result["methods"]:
        if method["problem"] is not None:
            print_text(f"{method['method']} could not be fitted: {method['problem']}")
        for remark in method["remarks"]:
            print_text(f"{method['method']}, {remark}")
    if result["caveat"] is not None:
        print_text(result["caveat"])
    print_text(result["recommendation"])
    print_text(f"Next: holdfast fit {table} --method {result['recommended']} … --out DIR")


def _print_parts(methods: list[dict[str, Any]], what: str) -> None:
    """Print the accuracies of the best methods side by side."""
    best = methods[:MOST_METHODS]
    rows = [[part, *(method["parts"][part] for method in best)] for part in (best[0]["parts"] if best else [])]
    title = f"Accuracy by {what}" + (f", the best {MOST_METHODS} methods" if len(methods) > MOST_METHODS else "")
    print_table(title, [what, *(method["method"] for method in best)], rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print(f"  … and {len(rows) - MOST_ROWS:,} more; --json has them all")


def _gain(method: dict[str, Any]) -> str:
    """Return the gain with its interval; ERM has none over itself."""
    if method["method"] == "erm":
        return "–"
    return "{value:+.3f} [{low:+.3f}, {high:+.3f}]".format(**method["gain"])
