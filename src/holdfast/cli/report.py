"""`holdfast report`: write an HTML report about a saved classifier, or about all runs in a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    PAGES,
    JsonOption,
    OverwriteOption,
    SeedOption,
    ThresholdOption,
    check_file,
    refuse_inside_model,
)
from holdfast.cli.terminal import command_line, print_text, say, show, showing_stages, verdict_values

if TYPE_CHECKING:
    from holdfast.reports import Page


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """The rows that a report about a classifier of a table is made from."""

    table: Annotated[str | None, typer.Option("--table", help="The table it was fitted on.", metavar="TABLE")] = None
    test: Annotated[
        str | None, typer.Option("--test", help="Other rows with labels, to compare classifiers on.", metavar="TABLE")
    ] = None
    compare: Annotated[
        list[Path],
        typer.Option("--compare", help="With --test: another saved classifier; can be repeated.", metavar="DIR"),
    ] = field(default_factory=list)
    attribute: Annotated[
        list[str],
        typer.Option(
            "--attribute", help="Column that is not a feature, to show and score by; can be repeated.", metavar="COL"
        ),
    ] = field(default_factory=list)


def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder that 'fit', 'demo', 'sweep' or 'reproduce' wrote.", metavar="DIR")
    ],
    rows: RowOptions,
    threshold: ThresholdOption = None,
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="With --table: also audit it.")] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="The HTML file to write (default: DIR.html).", metavar="FILE")
    ] = None,
    assets: Annotated[
        Path | None,
        typer.Option(
            "--assets", help="Also write tables (Markdown, LaTeX, CSV) and figures to this folder.", metavar="DIR"
        ),
    ] = None,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write an HTML report about a classifier or finished runs.

    The file opens offline and is small enough to mail. Without --table it shows what the saved classifier contains.
    --table adds label balance, effects by environment and the audit. --test adds a comparison of classifiers and, for
    two classes, calibration and net benefit by site.
    """
    from holdfast.reports import write_assets, write_report

    page = Path(f"{folder.resolve()}.html") if out is None else out
    check_file(page, overwrite=overwrite, suffixes=PAGES)
    if assets is not None:
        refuse_inside_model(assets, "--assets")
    with showing_stages(f"reporting {folder}"):
        content, method = _page(folder, rows, audit=audit, threshold=threshold, seed=seed)
        write_report(content, page)
        files = write_assets(content, assets) if assets is not None else []
    result: dict[str, Any] = {
        "out": page,
        "bytes": page.stat().st_size,
        "title": content.title,
        "verdict": verdict_values(method),
        "signal": None if content.answer is None else content.answer.signal_text,
        "sections": [section.title for section in content.sections],
        "assets": [str(file) for file in files],
    }
    wrote = f"Wrote {page} ({result['bytes'] / 1000:,.0f} kB): {', '.join(result['sections'])}."
    following = command_line("python", "-m", "webbrowser", page)

    def body() -> None:
        if content.answer is not None:
            say("")
            print_text(wrote)
        if files:
            print_text(f"Wrote {len(files)} tables and figures to {assets}.")

    answer = wrote if content.answer is None else content.answer.sentence.replace("*", "")
    show(answer, result, following=following, as_json=as_json, body=body)


def _page(folder: Path, options: RowOptions, *, audit: bool, threshold: float | None, seed: int) -> tuple[Page, Any]:
    """Return the page about what a folder contains, and the fitted method if it contains one."""
    from holdfast.exceptions import ParameterError, SavedModelError

    if (folder / "runs").is_dir():
        from holdfast.lab.pages import runs_page
        from holdfast.lab.store import RunStore

        _refuse(options, f"{folder} contains runs")
        return runs_page(RunStore(folder).records(), title=f"Runs in {folder.name or folder}"), None
    from holdfast.reports import estimator_page
    from holdfast.reports.saved import compare_saved, short_names, table_page
    from holdfast.saving import load, read_manifest
    from holdfast.tables.audits import reliance_of
    from holdfast.tables.classifier import TableClassifier

    if "table" not in read_manifest(folder)["extra"]:
        _refuse(options, f"{folder} was not fitted on a table")
        fitted = load(folder)
        if not hasattr(fitted, "environments_"):
            raise SavedModelError(
                f"{folder} contains a {type(fitted).__name__}, which has no environments. Pass a folder that 'fit', "
                "'demo', 'sweep' or 'reproduce' wrote."
            )
        return estimator_page(fitted, title=f"{type(fitted).__name__} in {folder.name or folder}"), fitted
    if threshold is not None and options.test is None:
        raise ParameterError("--threshold needs rows with labels. Pass --test TABLE too.")
    if options.compare and options.test is None:
        raise ParameterError("--compare needs rows to compare on. Pass --test TABLE too.")
    folders = [*options.compare, folder]
    classifiers = [TableClassifier.load(path) for path in folders]
    attributes = options.attribute
    rows = comparison = reliance = clinical = None
    if options.table is not None:
        rows = classifiers[-1].read_rows(options.table, attributes=attributes)
    if options.test is not None:
        named = dict(zip(short_names(folders, classifiers), classifiers, strict=True))
        comparison = compare_saved(named, options.test, attributes=attributes)
        clinical = classifiers[-1].evaluate(options.test, threshold=threshold).clinical
        if len({fitted.roles_.schema.columns for fitted in classifiers}) == 1:
            reliance = reliance_of(named, classifiers[-1].read_rows(options.test), seed=seed)
    page = table_page(
        classifiers[-1],
        title=f"{classifiers[-1].names['method']} in {folder.resolve().name}",
        rows=rows,
        comparison=comparison,
        clinical=clinical,
        reliance=reliance,
        audit=audit,
        settings={name: value for name, value in vars(options).items() if isinstance(value, str)},
        following=""
        if options.table is None
        else command_line("holdfast", "predict", folder, options.table, "--out", "predictions.csv"),
    )
    return page, classifiers[-1].method_


def _refuse(options: RowOptions, why: str) -> None:
    """Refuse options that only go with a classifier that was fitted on a table."""
    from holdfast.exceptions import ParameterError

    for name, value in vars(options).items():
        if value:
            raise ParameterError(f"{why}, so --{name} cannot be used with it. Leave it out.")
