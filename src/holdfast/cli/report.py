"""`holdfast report`: one HTML file that tells a saved classifier, or all runs of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import JobsOption, JsonOption, OverwriteOption, SeedOption
from holdfast.cli.terminal import print_json, print_text, showing_stages

if TYPE_CHECKING:
    from holdfast.reports import Story


def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder that 'fit', 'demo', 'sweep' or 'reproduce' wrote.", metavar="DIR")
    ],
    table: Annotated[
        Path | None, typer.Option("--table", help="The table it was fitted on, unchanged.", metavar="TABLE")
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", help="Other rows with labels, to compare on.", metavar="TABLE")
    ] = None,
    compare: Annotated[
        list[Path],
        typer.Option("--compare", help="With --test: another saved classifier; repeatable.", metavar="DIR"),
    ] = [],  # noqa: B006 - typer copies defaults
    attribute: Annotated[
        list[str],
        typer.Option("--attribute", help="Column that is no feature, to show and score by; repeatable.", metavar="COL"),
    ] = [],  # noqa: B006
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="With --table: also audit it.")] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write (default: DIR.html).", metavar="FILE")
    ] = None,
    assets: Annotated[
        Path | None,
        typer.Option("--assets", help="Also write tables (Markdown, LaTeX, CSV) and figures here.", metavar="DIR"),
    ] = None,
    seed: SeedOption = 0,
    jobs: JobsOption = 1,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write one HTML file that opens offline and is small enough to mail.

    It follows the stages: environments, judges, halves, risks, comparison, audit, settings. Without --table a saved
    classifier tells what it kept: judges, halves and risks. With it, label balance, correlations in the halves and the
    audit come too, with --test the comparison.
    """
    from holdfast.cli.report_sources import check_page
    from holdfast.reports import write_assets, write_report
    from holdfast.tables.outputs import refuse_inside_model

    page = Path(f"{folder.resolve()}.html") if out is None else out
    check_page(page, option="--out", overwrite=overwrite)
    if assets is not None:
        refuse_inside_model(assets, "--assets")
    options = {"--table": table, "--test": test, "--compare": compare, "--attribute": attribute}
    with showing_stages(f"reporting {folder}"):
        story = _story(folder, options, audit=audit, seed=seed, jobs=jobs)
        write_report(story, page)
        files = write_assets(story, assets) if assets is not None else []
    result: dict[str, Any] = {
        "out": page,
        "bytes": page.stat().st_size,
        "title": story.title,
        "sections": [section.title for section in story.sections],
        "assets": [str(file) for file in files],
    }
    if as_json:
        print_json(result)
    else:
        print_text(f"Wrote {page} ({result['bytes'] / 1000:,.0f} kB): {', '.join(result['sections'])}.")
        if files:
            print_text(f"Wrote {len(files)} tables and figures to {assets}.")


def _story(folder: Path, options: dict[str, Any], *, audit: bool, seed: int, jobs: int) -> Story:
    """Tell what a folder holds."""
    from holdfast.cli.report_sources import (
        compare_saved,
        short_names,
        story_of_estimator,
        story_of_runs,
        story_of_table,
    )
    from holdfast.exceptions import ParameterError

    if (folder / "runs").is_dir():
        _refuse(options, f"{folder} holds runs")
        return story_of_runs(folder)
    from holdfast.saving import load, read_manifest
    from holdfast.tables.audits import read_rows_of_model, reliance_of
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.files import TableFile

    if "table" not in read_manifest(folder)["extra"]:
        _refuse(options, f"{folder} was not fitted on a table")
        return story_of_estimator(folder, load(folder))
    if options["--compare"] and options["--test"] is None:
        raise ParameterError("--compare needs rows to compare on. Pass --test TABLE too.")
    folders = [*options["--compare"], folder]
    classifiers = [TableClassifier.load(path) for path in folders]
    attributes = options["--attribute"]
    rows = comparison = reliance = None
    if options["--table"] is not None:
        rows = read_rows_of_model(
            TableFile(options["--table"]), classifiers[-1], environments=(), attributes=attributes
        )
    if options["--test"] is not None:
        named = dict(zip(short_names(folders, classifiers), classifiers, strict=True))
        comparison = compare_saved(named, options["--test"], attributes=attributes)
        if len({fitted.roles.schema.columns for fitted in classifiers}) == 1:
            test = read_rows_of_model(TableFile(options["--test"]), classifiers[-1], environments=(), attributes=())
            reliance = reliance_of(named, test, seed=seed)
    return story_of_table(
        classifiers[-1],
        title=f"{classifiers[-1].names.get('method', 'Classifier')} in {folder.resolve().name}",
        rows=rows,
        comparison=comparison,
        reliance=reliance,
        audit=audit,
        settings={name.removeprefix("--"): value for name, value in options.items() if isinstance(value, Path)},
        seed=seed,
        jobs=jobs,
    )


def _refuse(options: dict[str, Any], why: str) -> None:
    """Refuse options that only go with a classifier that was fitted on a table."""
    from holdfast.exceptions import ParameterError

    for name, value in options.items():
        if value:
            raise ParameterError(f"{why}, so {name} does not go with it. Leave it out.")
