"""`holdfast diagnose`: does a model fail at the next site, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    PAGES,
    ColumnOptions,
    EstimatorOption,
    FitOptions,
    JsonOption,
    LayoutOptions,
    OverwriteOption,
    TableArgument,
    TaskOption,
    ThresholdOption,
    WeightOption,
    check_file,
    check_task,
    free_name,
    option,
)
from holdfast.cli.terminal import (
    MOST_ROWS,
    command_line,
    counting,
    in_options,
    print_clinical,
    print_regression,
    print_rest,
    print_table,
    print_text,
    say,
    show,
)
from holdfast.estimators.named import find_estimator
from holdfast.exceptions import ParameterError

if TYPE_CHECKING:
    from holdfast.diagnosis.advice import Recommendation
    from holdfast.diagnosis.regression import RegressionDiagnosis
    from holdfast.diagnosis.scores import ScoreDiagnosis
    from holdfast.diagnosis.values import Diagnosis
    from holdfast.reports import Page
    from holdfast.tables.roles import TableRows


@dataclass(frozen=True, kw_only=True)
class GivenOptions:
    """A model that exists already: a column of its probabilities, or its folder."""

    score: Annotated[
        str | None, option("--score", "Column with the probabilities of an existing model; nothing is fitted.", "COL")
    ] = None
    model: Annotated[
        Path | None, option("--model", "Folder of a classifier that 'holdfast fit' wrote; nothing is fitted.", "DIR")
    ] = None
    positive: Annotated[
        str | None, option("--positive", "Label that --score is the probability of (default: the second).", "LABEL")
    ] = None

    def check(self, weight: str | None) -> None:
        """Refuse options that exclude one another."""
        if self.score is not None and self.model is not None:
            raise ParameterError("--score and --model are two ways to pass an existing model. Pass only one of them.")
        if self.positive is not None and self.score is None and self.model is None:
            raise ParameterError("--positive needs --score or --model. Pass one of them, or leave --positive out.")
        if weight is not None and self.model is not None:
            raise ParameterError("--weight cannot be used with --model. Leave it out, or pass --score.")

    def diagnose(
        self,
        table: str,
        columns: ColumnOptions,
        layout: LayoutOptions,
        *,
        threshold: float | None,
        weight: str | None,
    ) -> tuple[ScoreDiagnosis, str]:
        """Measure the model at every site; return what was found, and the command to run next."""
        from holdfast.tables.classifier import TableClassifier
        from holdfast.tables.roles import TableOptions
        from holdfast.tables.scores import diagnose_model, diagnose_score_column

        settings: dict[str, Any] = {"positive": self.positive, "threshold": threshold}
        words = [*columns.words(), *(("--weight", weight) if weight else ())]
        if self.score is not None:
            source, options = layout.open(table, columns.missing), TableOptions(**columns.roles(), weight=weight)
            found = diagnose_score_column(source, options, self.score, **settings)
            has_columns = set(options.feature_names(source.columns)) - {self.score}
            after = ["--drop", self.score] if has_columns else ["--score", self.score, "--out", "page.html"]
            return found, command_line("holdfast", "diagnose", table, *words, *after)
        assert self.model is not None
        fitted = TableClassifier.load(self.model)
        if fitted.roles_.label != columns.label:
            raise ParameterError(
                f"The model in {self.model} predicts {fitted.roles_.label!r}, not {columns.label!r}. Pass "
                f"--label {fitted.roles_.label}."
            )
        source = layout.open(table, fitted.roles_.missing)
        found = diagnose_model(fitted, source, environment=columns.environment, **settings)
        return found, command_line("holdfast", "evaluate", self.model, table)


def diagnose(
    table: TableArgument,
    *,
    columns: ColumnOptions,
    layout: LayoutOptions,
    estimator: EstimatorOption = "logistic",
    given: GivenOptions,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the answer as an .html page.", metavar="FILE")
    ] = None,
    threshold: ThresholdOption = None,
    weight: WeightOption = None,
    task: TaskOption = "auto",
    fits: FitOptions,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a model fails at a new site, why, and what to do.

    Each site (environment) is left out in turn, and an ordinary model is fitted on the others. Its loss at the left-out
    site is split into covariate shift, label shift and concept shift. The answer names columns whose effects differ
    between sites, and problems of the data. Remedies are tried at the left-out sites. One is recommended, with the
    command to run next. With --score or --model nothing is fitted: an existing model is evaluated at every site.
    """
    if task != "regression":
        find_estimator(estimator)  # refuses names before anything is read
    check_task(task)
    given.check(weight)
    if out is not None:
        check_file(out, overwrite=overwrite, inputs=[table], suffixes=PAGES)
    settings = {"table": table, "label": columns.label, "environment": " × ".join(columns.environment)}
    result: dict[str, Any] = {}
    found: ScoreDiagnosis | RegressionDiagnosis | Diagnosis
    if given.score is not None or given.model is not None:
        found, following = given.diagnose(table, columns, layout, threshold=threshold, weight=weight)
    else:
        rows = columns.read(table, layout, weight=weight, task=task)
        with counting("fit") as step:
            found = _fit_and_diagnose(rows, estimator, threshold, fits, step)
        words = [*columns.words(), *(("--weight", weight) if weight else ()), "--estimator", found.estimator]
        words += ["--task", "regression"] if rows.task == "regression" else []
        following = _next_command(table, words, found.recommendation, out)
        settings["seed"] = str(fits.seed)
        result = {"n_rows": len(rows.y), "seed": fits.seed}
    if out is not None:
        from holdfast.reports import write_report

        title = f"{Path(table).name}: will the model hold at the next site?"
        write_report(_page(found, title=title, following=following, settings=settings), out)
    result |= {**found.to_dict(), "out": out}
    show(str(found), result, following=following, as_json=as_json, body=lambda: _print(found, out))


def _fit_and_diagnose(
    rows: TableRows, estimator: str, threshold: float | None, fits: FitOptions, step: Callable[..., None]
) -> RegressionDiagnosis | Diagnosis:
    from holdfast.tables.diagnosis import diagnose_rows
    from holdfast.tables.regression import diagnose_regression

    if rows.task == "regression":
        return diagnose_regression(rows, estimator=estimator, random_state=fits.seed, progress=step)
    settings: dict[str, Any] = {"n_jobs": fits.n_jobs, "random_state": fits.seed, "progress": step}
    return diagnose_rows(rows, estimator=estimator, threshold=threshold, **settings)


def _page(found: ScoreDiagnosis | RegressionDiagnosis | Diagnosis, **told: Any) -> Page:
    from holdfast.diagnosis.regression import RegressionDiagnosis
    from holdfast.diagnosis.scores import ScoreDiagnosis
    from holdfast.reports import diagnosis_page, regression_page, score_page

    if isinstance(found, ScoreDiagnosis):
        return score_page(found, **told)
    return regression_page(found, **told) if isinstance(found, RegressionDiagnosis) else diagnosis_page(found, **told)


def _print(found: ScoreDiagnosis | RegressionDiagnosis | Diagnosis, out: Path | None) -> None:
    from holdfast.diagnosis.regression import RegressionDiagnosis
    from holdfast.diagnosis.scores import ScoreDiagnosis

    if isinstance(found, ScoreDiagnosis):
        _print_scores(found)
    elif isinstance(found, RegressionDiagnosis):
        _print_regression(found)
    else:
        _print_table(found)
    if out is not None:
        say("")
        say(f"Wrote {out}.")


def _print_scores(found: ScoreDiagnosis) -> None:
    for line in found.explanation:
        say("")
        print_text(line)
    rows = [
        [
            site.name,
            site.n_rows,
            site.n_events,
            *(f"{v.value:.2f} [{v.low:.2f}, {v.high:.2f}]" for v in (site.auroc, site.oe)),
        ]
        for site in found.clinical.sites
    ]
    header = ["site", "rows", "events", "AUROC", "O:E"]
    print_table(f"{found.name} at every site (95 % intervals)", header, rows[:MOST_ROWS])
    print_rest(rows)
    print_clinical(found.clinical, "Calibration and net benefit")


def _print_regression(found: RegressionDiagnosis) -> None:
    from holdfast.diagnosis.words import say as tell

    say("")
    print_text(f"Why: {found.recommendation.reason}")
    print_regression(found.new, "R², RMSE and mean error at left-out sites (95 % intervals)")
    if found.verdict is not None:
        say("")
        print_text("Which columns?")
        for line in (found.verdict.answer, *(finding.sentence for finding in found.verdict.columns)):
            print_text(line, indent="  ")
    say("")
    print_text("Is the data sound?")
    for line in [tell(problem, found.label) for problem in found.problems] or ["Nothing stands out."]:
        print_text(line, indent="  ")


def _next_command(table: str, words: list[str], advice: Recommendation, out: Path | None) -> str:
    """Return the command that follows from a recommendation."""
    first, *more = advice.command
    if first == "fit":
        return command_line("holdfast", "fit", table, *words, *more, "--out", free_name("model"))
    words += advice.options
    page = [] if out is None else ["--out", str(out), "--overwrite"]
    return command_line("holdfast", first, table, *words, *page)


def _print_table(found: Diagnosis) -> None:
    for line in filter(None, (*found.explanation, found.recommendation.how)):
        text, is_command, command = line.partition(" `holdfast ")
        say("")
        print_text(text)
        if is_command:  # on a line of its own, so that it can be pasted
            say(f"  holdfast {command.rstrip('`')}")
    new, seen = "new", "seen"
    rows: list[list[Any]] = [
        [s.name, s.n_rows, s.new.accuracy.value, s.known.accuracy.value]
        + [s.new.auroc.value, s.known.auroc.value, s.new.loss.value, s.known.loss.value]
        for s in found.sites
    ]
    header = ["site", "rows", f"accuracy {new}", seen, f"AUROC {new}", seen, f"loss {new}", seen]
    print_table(
        "1. Does the model break? Scores if the site is new, and if it was seen",
        header,
        rows[:MOST_ROWS],
    )
    print_rest(rows)
    if found.later is not None:
        print_text(f"In the order of time: {found.later.sentence}.", indent="  ")
    if (forecast := found.forecast) is not None:
        low_high = f"{forecast.low:.2f} to {forecast.high:.2f}"
        print_text(f"Expect an accuracy of {low_high} at the next site{found.forecast_of}.", indent="  ")
    if found.clinical is not None:
        print_clinical(found.clinical, "Calibration and net benefit at left-out sites")
    parts = [["all sites", *map(_interval, found.parts.values())]]
    parts += [[site.name, *map(_interval, site.split.parts.values())] for site in found.sites]
    print_table(
        f"2. Why? Parts of the {found.loss_name} at a new site",
        ["site", *(name.replace("_", " ") for name in found.parts)],
        parts[:MOST_ROWS],
    )
    print_rest(parts)
    say("")
    print_text("3. Which columns?")
    for line in [f.sentence for f in found.findings] or ["No column has an effect that differs between sites."]:
        print_text(line, indent="  ")
    say("")
    print_text("4. Is the data sound?")
    odd = () if found.profile is None else found.profile.sentences
    for line in odd[:MOST_ROWS] or ["Nothing stands out."]:
        print_text(line, indent="  ")
    remedies = [[r.name, _interval(r.gain), f"{r.n_better} of {len(found.sites)}"] for r in found.remedies]
    title = f"5. What should I do? Gain in {found.loss_name} at left-out sites"
    print_table(title, ["change", "gain", "sites better"], [[name.replace("`", ""), *rest] for name, *rest in remedies])
    for remark in found.notes:
        print_text(in_options(f"Note: {remark.rstrip('.')}."))


def _interval(value: Any) -> str:
    return f"{value.value:+.3f} ± {(value.high - value.low) / 2:.3f}"
