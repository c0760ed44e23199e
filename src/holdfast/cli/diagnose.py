"""`holdfast diagnose`: does a model break at the next site, why, and what to do."""

from __future__ import annotations

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
    ThresholdOption,
    check_file,
    free_name,
)
from holdfast.cli.terminal import (
    MOST_ROWS,
    command_line,
    counting,
    in_options,
    print_clinical,
    print_rest,
    print_table,
    print_text,
    say,
    show,
)
from holdfast.estimators.named import find_estimator

if TYPE_CHECKING:
    from holdfast.diagnosis.values import Diagnosis


def diagnose(
    table: TableArgument,
    *,
    columns: ColumnOptions,
    layout: LayoutOptions,
    estimator: EstimatorOption = "logistic",
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the answer as an .html page.", metavar="FILE")
    ] = None,
    threshold: ThresholdOption = None,
    fits: FitOptions,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a model fails at a site it has not seen, why, and what to do.

    Each site (environment) is left out in turn, and an ordinary model is fitted on the others. Its loss at the left-out
    site is split into covariate shift, label shift and concept shift. Columns whose effects differ and problems of the
    data are named. Remedies are tried at the left-out sites, and one is recommended with the command to run next.
    """
    from holdfast.tables.diagnosis import diagnose_rows

    find_estimator(estimator)  # refuses names before anything is read
    if out is not None:
        check_file(out, overwrite=overwrite, inputs=[table], suffixes=PAGES)
    rows = columns.read(table, layout)
    with counting("fit") as step:
        found = diagnose_rows(
            rows,
            estimator=estimator,
            threshold=threshold,
            n_jobs=fits.n_jobs,
            random_state=fits.seed,
            progress=step,
        )
    words = [*columns.words(), "--estimator", estimator]
    following = next_command(table, words, found, out)
    if out is not None:
        from holdfast.reports import diagnosis_page, write_report

        title = f"{Path(table).name}: will the model hold at the next site?"
        settings = {"table": table, "label": columns.label, "environment": " × ".join(columns.environment)}
        write_report(
            diagnosis_page(found, title=title, following=following, settings={**settings, "seed": fits.seed}), out
        )
    result = {"n_rows": len(rows.y), "seed": fits.seed, **found.to_dict(), "out": out}
    show(str(found), result, following=following, as_json=as_json, body=lambda: _print(found, out))


def next_command(table: str, words: list[str], found: Diagnosis, out: Path | None) -> str:
    """Return the command that follows from a recommendation."""
    advice = found.recommendation
    first, *more = advice.command
    if first == "fit":
        return command_line("holdfast", "fit", table, *words, *more, "--out", free_name("model"))
    words += advice.options
    page = [] if out is None else ["--out", str(out), "--overwrite"]
    return command_line("holdfast", first, table, *words, *page)


def _print(found: Diagnosis, out: Path | None) -> None:
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
    header = ["site", "rows", f"{new}", f"{seen}", f"AUROC {new}", seen, f"loss {new}", seen]
    print_table(
        "1. Does the model break? Accuracy, AUROC and loss where the site is new, and where it has been seen",
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
        print_clinical(found.clinical, "Calibration and net benefit at sites left out")
    parts = [["all sites", *map(_interval, found.parts.values())]]
    parts += [[site.name, *map(_interval, site.split.parts.values())] for site in found.sites]
    print_table(f"2. Why? Parts of the {found.loss_name} at a new site", ["site", *found.parts], parts[:MOST_ROWS])
    print_rest(parts)
    say("")
    print_text("3. Which columns?")
    for line in [f.sentence for f in found.findings] or ["No evidence that any column changes its meaning."]:
        print_text(line, indent="  ")
    say("")
    print_text("4. Is the data sound?")
    odd = () if found.profile is None else found.profile.sentences
    for line in odd[:MOST_ROWS] or ["Nothing stands out."]:
        print_text(line, indent="  ")
    remedies = [[r.name, _interval(r.gain), f"{r.n_better} of {len(found.sites)}"] for r in found.remedies]
    title = f"5. What should I do? Gain of {found.loss_name} at the sites left out"
    print_table(title, ["change", "gain", "sites better"], [[name.replace("`", ""), *rest] for name, *rest in remedies])
    for remark in found.notes:
        print_text(in_options(f"Note: {remark.rstrip('.')}."))
    if out is not None:
        say("")
        say(f"Wrote {out}.")


def _interval(value: Any) -> str:
    return f"{value.value:+.3f} ± {(value.high - value.low) / 2:.3f}"
