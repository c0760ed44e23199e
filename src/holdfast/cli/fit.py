"""`holdfast fit`: fit a classifier or regressor on a table, and save it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.options import (
    PAGES,
    ColumnOptions,
    EstimatorOption,
    FitOptions,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    ReportOption,
    TableArgument,
    TaskOption,
    WeightOption,
    check_file,
    check_folder,
    check_task,
    option,
    other_table,
)
from holdfast.cli.terminal import (
    MOST_ROWS,
    command_line,
    note,
    print_rest,
    print_stages,
    print_table,
    print_text,
    say,
    show,
    showing_stages,
)
from holdfast.estimators.named import DEFAULT_METHOD, find_estimator
from holdfast.exceptions import ParameterError

if TYPE_CHECKING:
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.roles import TableRows


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The method, and what is inside it."""

    estimator: EstimatorOption = "logistic"
    method: Annotated[str, option("--method", "stable, pi, erm, balanced, group_dro, irm, vrex or rgm.", "NAME")] = (
        DEFAULT_METHOD
    )
    caution: Annotated[
        float | None,
        option(
            "--caution",
            "For stable: assumed effect of an unstable column at the next site: as seen (0), none (0.5) or reversed "
            "(1); default 0.75.",
            "X",
        ),
    ] = None
    halves: Annotated[
        str | None,
        option("--halves", "For pi: hard halves (right or wrong) or soft halves (weighted by probability).", "KIND"),
    ] = None

    def to_dict(self) -> dict[str, Any]:
        """Return them as parameters of `TableClassifier`."""
        own = {"caution": self.caution, "halves": self.halves}
        given = {name: value for name, value in own.items() if value is not None}
        return {"estimator": self.estimator, "method": self.method, "method_options": given}


def fit(
    table: TableArgument,
    *,
    columns: ColumnOptions,
    layout: LayoutOptions,
    out: Annotated[Path, option("--out", "Folder to save the classifier to.", "DIR")],
    chosen: MethodOptions,
    report: ReportOption = None,
    weight: WeightOption = None,
    task: TaskOption = "auto",
    fits: FitOptions,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a classifier on a table and save it.

    The default method relies less on columns whose effect on the label differs between sites. If there are none, the
    result is the ordinary classifier.

    All columns except label, environment and dropped ones are features. Numbers are scaled; a missing number becomes
    the median, and a second column marks it. Texts are categories: missing is a category, rare ones are grouped. Dates
    become days, month and weekday. If the training of a network is interrupted, the same command continues from its
    last epoch. Use torchrun to train a network with several processes or GPUs.
    """
    from holdfast.diagnosis.advice import decide_early, mending_options
    from holdfast.stable.verdict import verdict_of
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.regression import TableRegressor
    from holdfast.tables.stages import stages_summary

    options: dict[str, Any] = {**columns.roles(), **chosen.to_dict(), "weight": weight, "random_state": fits.seed}
    classifier = TableClassifier(**options, n_jobs=fits.n_jobs)
    check_task(task)
    if task != "regression":
        classifier.make_method()  # refuses names and options before anything is read
    check_folder(out, overwrite=overwrite)  # before hours of fitting
    if report is not None:
        check_file(report, option="--report", overwrite=overwrite, suffixes=PAGES)
    rows = columns.read(table, layout, weight=weight, task=task)
    model = TableRegressor(**options) if rows.task == "regression" else classifier
    if report is not None and model is not classifier:
        raise ParameterError(
            "--report is for classifiers. For numbers, 'holdfast diagnose --out page.html' has a page."
        )
    estimator, checkpoints = model.names["estimator"], out.with_name(f"{out.name}.unfinished")
    name = f"{chosen.method} with {estimator}"
    with showing_stages(f"fitting {name} on {rows.n_rows:,} rows"):
        if isinstance(model, TableClassifier):
            with _all_ranks(estimator) as writes:
                model.fit(rows, checkpoints=checkpoints)
            if not writes:
                return
        else:
            model.fit(rows)
        for remark in model.notes_[len(rows.notes) :]:
            note(f"note: {remark}")
        model.save(out, overwrite=overwrite)
        shutil.rmtree(checkpoints, ignore_errors=True)
    verdict = verdict_of(model.pipeline_[-1])
    result: dict[str, Any] = {
        **model.names,
        "verdict": None if verdict is None else verdict.to_dict(),
        "advice": decide_early(rows.problems, verdict).to_dict(),
        "problems": [problem.to_dict() for problem in rows.problems],
        "seed": fits.seed,
        "n_rows": rows.n_rows,
        "label": columns.label,
        "out": out,
    }
    words = [*columns.words(), *mending_options(rows.problems), "--estimator", estimator]
    diagnosing = command_line("holdfast", "diagnose", table, *words)
    following = command_line("holdfast", "report", out, "--table", table)
    if (new := other_table(table, rows.roles.schema.names())) or report is not None:
        following = command_line("holdfast", "check", out, new or table)
    if isinstance(model, TableClassifier):
        result |= {
            "n_rows_read": len(rows.y),  # that preprocessing and verdict come from: fewer of a folder beyond the memory
            "classes": [str(label) for label in model.classes_],
            "columns": {column.name: column.kind for column in rows.roles.schema.columns},
            "left_out": dict(rows.roles.schema.left_out),
            **stages_summary(rows, model.method_),
            "report": report,
        }
        if report is not None:
            _write_page(model, rows, report, table, name, following, fits.seed)
        is_uncertain = verdict is not None and not verdict.columns and verdict.is_uncertain  # diagnose tells why
        if is_uncertain or any(problem.is_headline for problem in rows.problems):
            following = diagnosing
    else:
        result["task"] = "regression"
        following = f"{diagnosing} --task regression"
    answer = _answer(result, len(set(map(str, rows.environments)))) if verdict is None else verdict.answer
    answer = _after_problems(rows, answer, "model" if "task" in result else "classifier")
    remarks = () if verdict is None else verdict.remarks
    show(answer, result, following=following, as_json=as_json, body=lambda: _print(result, remarks))


def _write_page(
    model: TableClassifier, rows: TableRows, report: Path, table: str, name: str, following: str, seed: int
) -> None:
    from holdfast.reports import write_report
    from holdfast.reports.saved import table_page

    with showing_stages(f"reporting {table}"):
        told = {"table": str(table), "seed": seed}
        title = f"{Path(table).name}: {name}"
        write_report(table_page(model, title=title, rows=rows, settings=told, following=following), report)


def _after_problems(rows: TableRows, answer: str, what: str) -> str:
    """Return the answer with what is wrong with the data before it."""
    from holdfast.diagnosis.answer import lead

    if any(problem.is_headline for problem in rows.problems):
        answer = f"The saved {what} was fitted on the rows as they are. {answer}"
    return lead(rows.problems, rows.roles.label, answer)


@contextmanager
def _all_ranks(estimator: str) -> Iterator[bool]:
    """Train with all processes that torchrun started; yield whether this one writes and prints."""
    n_ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if n_ranks == 1:
        yield True
        return
    if not find_estimator(estimator).is_network:
        raise ParameterError(
            f"torchrun started {n_ranks} processes, but only networks are trained by several of them. Run holdfast "
            f"without torchrun to fit {estimator}; --jobs and --cluster run its fits at the same time."
        )
    from holdfast.neural.distributed import data_parallel

    with data_parallel() as ranks:
        yield ranks.number == 0


def _answer(result: dict[str, Any], n_environments: int) -> str:
    """Say what was fitted, where the method has no verdict."""
    risk, more = result.get("worst_case_risk"), ""
    if risk is not None:
        more = f"; its risk in the worst of {len(result['groups'])} groups is {risk:.3f}"
    elif "task" in result:
        more = f"; {result['label']!r} is an amount"
    return (
        f"Fitted {result['method']} with {result['estimator']} on {result['n_rows']:,} rows of {n_environments} "
        f"environment{'s' * (n_environments > 1)}{more}."
    )


def _print(result: dict[str, Any], remarks: Sequence[str]) -> None:
    """Print what the verdict says, the columns, what the stages found, and what was written."""
    for remark in remarks:
        print_text(remark)
    if result["verdict"] is not None and result["verdict"]["by_environment"]:
        _print_scores(result["verdict"], "R²" if "task" in result else "accuracy")
    say("")
    if "task" in result:
        say(f"Saved the model to {result['out']}.")
        return
    kinds = list(result["columns"].values())
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    print_text(
        f"Method: {result['method']}; estimator: {result['estimator']}; features: {counts}; "
        f"{len(result['classes'])} classes of {result['label']!r}."
    )
    print_stages(result)
    say("")
    say(f"Saved the classifier to {result['out']}.")
    if result["report"] is not None:
        say(f"Wrote the report {result['report']}.")


def _print_scores(verdict: dict[str, Any], score: str) -> None:
    """Print what the ordinary model and the fitted one reach, out of fold; once where they are the same."""
    known = verdict["by_environment"]
    places = {f"in {name}": known[name] for name in list(known)[:MOST_ROWS]}
    header, columns = ["where", score], ["ordinary"]
    if verdict["fitted"] != "ordinary":
        places |= {"if the effect vanishes": verdict["vanished"], "if it reverses": verdict["reversed"]}
        what = "classifier" if score == "accuracy" else "model"
        header, columns = ["where", f"ordinary {what}", "this one"], ["ordinary", "fitted"]
    rows = [[place, *(found[column] for column in columns)] for place, found in places.items()]
    print_table(f"{score[0].upper()}{score[1:]} on rows that it was not fitted on", header, rows)
    print_rest(list(known))
