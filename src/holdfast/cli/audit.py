"""`holdfast audit`: name the columns whose effect differs between sites, in a table or for a saved classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import (
    PAGES,
    TABLE_HELP,
    ColumnOptions,
    EnvironmentOption,
    JsonOption,
    LabelOption,
    LayoutOptions,
    OverwriteOption,
    SeedOption,
    SpreadsheetOption,
    check_file,
    free_name,
    option,
)
from holdfast.cli.terminal import MOST_ROWS, command_line, print_table, print_text, say, show, showing_stages
from holdfast.exceptions import cut_middle

if TYPE_CHECKING:
    from holdfast.auditing import Audit, Reliance
    from holdfast.stable.verdict import Verdict
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.roles import TableRows


@dataclass(frozen=True, kw_only=True)
class AuditColumns(ColumnOptions):
    """What the columns are, where the source is a table; a saved model knows that itself."""

    label: LabelOption = ""
    environment: EnvironmentOption = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What is asked of a saved model: what it relies on, by shuffled columns, and next to which other one."""

    baseline: Annotated[Path | None, option("--baseline", "With a model: another one to compare with.", "DIR")] = None
    seed: SeedOption = 0


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Where the findings are written."""

    out: Annotated[
        Path | None, option("--out", "Write all findings to a .csv, .tsv, .parquet or .html file.", "FILE")
    ] = None
    for_spreadsheets: SpreadsheetOption = False
    overwrite: OverwriteOption = False


def audit(
    source: Annotated[
        str, typer.Argument(help="A table, or a folder that 'holdfast fit' wrote.", metavar="MODEL_OR_TABLE")
    ],
    table: Annotated[str | None, typer.Argument(help=f"With a model: {TABLE_HELP}", metavar="TABLE")] = None,
    *,
    columns: AuditColumns,
    layout: LayoutOptions,
    attribute: Annotated[
        list[str], option("--attribute", "Column to audit that is not a feature; can be repeated.", "COL")
    ] = [],  # noqa: B006 - typer copies defaults
    model: ModelOptions,
    level: Annotated[
        float, option("--level", "Family-wise error rate of the tests of equal effects.", "Q", min=0.0001, max=0.5)
    ] = 0.05,
    files: FileOptions,
    as_json: JsonOption = False,
) -> None:
    """Name columns and words whose effects differ between sites.

    Each column gets the probability that its effect changes; 'holdfast fit' uses the same probability. For the named
    columns the output has the effect in each environment and a prediction interval for the next one. It also has a
    test of equal effects; --level is its family-wise error rate.

    For a table pass --label and --environment. For a saved model pass the model and a table, best with rows that it was
    not fitted on. Then the output also shows what the model relies on.
    """
    from holdfast.diagnosis.advice import decide_early, mending_options
    from holdfast.diagnosis.answer import lead
    from holdfast.tables.audits import audit_rows, reliance_of
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.writing import WRITTEN

    baseline = model.baseline
    file = _table_of(source, table, columns, baseline)
    if files.out is not None:
        check_file(files.out, overwrite=files.overwrite, inputs=[file], suffixes=(*WRITTEN, *PAGES))
    models: dict[str, TableClassifier] = {}
    if table is None:
        rows = columns.read(file, layout, attribute)
        following = command_line("holdfast", "fit", file, *columns.words(), "--out", free_name("model"))
        if blocking := [problem for problem in rows.problems if problem.is_headline]:
            following = command_line("holdfast", "diagnose", file, *columns.words(), *mending_options(blocking))
    else:
        fitted = TableClassifier.load(source)
        rows = fitted.read_rows(
            layout.open(file, fitted.roles_.missing), environment=columns.environment, attributes=attribute
        )
        models[_name(Path(source), baseline)] = fitted
        if baseline is not None:
            models[_name(baseline, Path(source))] = TableClassifier.load(baseline)
        following = command_line("holdfast", "report", source, "--test", file)
    with showing_stages(f"auditing {rows.n_rows:,} rows"):
        found = audit_rows(rows, level=level)
        verdict = _verdict(models, rows, model.seed)
        reliance = reliance_of(models, rows, seed=model.seed, audit=found) if models else None
    advice = []
    if verdict is not None and (found.named or verdict.columns):
        advice.append(f"What `fit` {'did' if models else 'does'} about it: {verdict.answer}")
    if files.out is not None:
        _write(files, found, reliance, Path(file), [*advice, f"Run next: `{following}`"])
    result = _result(found, reliance, rows, files.out)
    result["verdict"] = None if verdict is None else verdict.to_dict()
    problems = () if models else rows.problems
    result["advice"] = decide_early(problems, verdict).to_dict()
    result["problems"] = [problem.to_dict() for problem in problems]
    answer, *more = [lead(problems, columns.label, found.answer), *found.sentences()[1:], *advice]
    result["answer"] = answer
    show(answer, result, following=following, as_json=as_json, body=lambda: _print(result, more, found))


def _table_of(source: str, table: str | None, columns: AuditColumns, baseline: Path | None) -> str:
    """Return the table's file, after checking that the options fit the kind of source."""
    from holdfast.exceptions import ParameterError

    options = columns.typed()
    if Path(source).is_dir() and (table is not None or not columns.label):  # with a label, one of Parquet files
        if table is None:
            raise ParameterError(
                f"{source} is a folder. To audit a saved model pass a table too: holdfast audit {source} TABLE."
            )
        for name, values in options.items():
            if values and name != "--environment":
                raise ParameterError(
                    f"{name} cannot be used with a saved model, which knows its columns. Leave it out."
                )
        return table
    if table is not None:
        raise ParameterError(
            f"{source} is not a folder that 'holdfast fit' wrote. Pass a model and a table, or a table."
        )
    if baseline is not None:
        raise ParameterError("--baseline needs a saved model. Pass a model and a table, or leave it out.")
    for name in ("--label", "--environment"):
        if not options[name]:
            raise ParameterError(f"A table needs {name}, the name of a column. See 'holdfast audit --help'.")
    return source


def _verdict(models: Mapping[str, TableClassifier], rows: TableRows, seed: int) -> Verdict | None:
    """Return the verdict of the saved model, or what `fit` would say about a table; None where there is none."""
    from holdfast.exceptions import HoldfastError
    from holdfast.tables.classifier import fit_stable

    try:
        fitted = next(iter(models.values())) if models else fit_stable(rows, random_state=seed)
    except HoldfastError:  # rows that can be audited, but not fitted
        return None
    verdict: Verdict | None = getattr(fitted.method_, "verdict_", None)
    return verdict


def _name(folder: Path, other: Path | None) -> str:
    """Return what a model is called in tables: its folder's name, unless another one has the same."""
    return str(folder) if not folder.name or (other is not None and other.name == folder.name) else folder.name


def _write(files: FileOptions, found: Audit, reliance: Reliance | None, file: Path, advice: Sequence[str]) -> None:
    """Write all findings as a table, or as a page with the sentences and what to do."""
    from holdfast.tables.writing import TableWriter

    assert files.out is not None
    if files.out.suffix.lower() not in PAGES:
        with TableWriter(files.out, for_spreadsheets=files.for_spreadsheets) as writer:
            writer.write(found.to_frame())
        return
    from holdfast.reports import audit_page, write_report

    write_report(audit_page(found, reliance, title=f"Audit of {file.name}", advice=advice), files.out)


def _result(found: Audit, reliance: Reliance | None, rows: TableRows, out: Path | None) -> dict[str, Any]:
    """Return everything that is reported, as JSON values."""
    result: dict[str, Any] = {
        "n_rows": rows.n_rows,
        "n_rows_read": len(rows.y),  # fewer of a folder beyond the memory: what `fit` would do comes from them
        **found.to_dict(),
        "sentences": list(found.sentences()),
        "out": out,
    }
    if reliance is not None:
        result["relied_on"] = _relied_on(found, reliance)
    return result


def _relied_on(found: Audit, reliance: Reliance) -> dict[str, Any]:
    """Return the classifiers' accuracies, and how much they fall when each column is shuffled."""
    from holdfast.tables.audits import source_column

    named = {source_column(feature, reliance.features) for feature in found.named} | set(found.named)
    return {
        "accuracies": dict(zip(reliance.estimators, reliance.accuracies.tolist(), strict=True)),
        "n_rows": int(reliance.n_rows.max()),
        "columns": [
            {"column": name, "named": name in named, "falls": dict(zip(reliance.estimators, falls, strict=True))}
            for name, falls in zip(reliance.features, reliance.falls.tolist(), strict=True)
        ],
    }


def _print(result: dict[str, Any], more: list[str], found: Audit) -> None:
    for line in more:
        print_text(line)
    _print_findings(found)
    if "relied_on" in result:
        _print_relied_on(result["relied_on"])
    if result["out"] is not None:
        say(f"\nWrote {result['out']}.")


def _print_findings(found: Audit) -> None:
    """Print the effects of the named features in each environment, and the probabilities of the others."""
    for finding in (finding for finding in found.findings[:MOST_ROWS] if finding.named):
        rows = [[cut_middle(name, 40), effect, finding.errors[name]] for name, effect in finding.effects.items()]
        rows.append(["next environment (80 %)", f"{finding.low:+.2f} to {finding.high:+.2f}", ""])
        title = f"{finding.feature}: log-odds of {finding.label} for one standard deviation"
        print_table(title, ["environment", "effect", "standard error"], rows[: MOST_ROWS + 1])
    others = found.unchanged
    rows = [
        [cut_middle(name, 40), chance, found.best(name).p_value] for name, chance in list(others.items())[:MOST_ROWS]
    ]
    if rows:
        print_table("Columns without evidence of a change", ["column", "probability", "adjusted p"], rows)
    if len(others) > MOST_ROWS:
        say(f"  … and {len(others) - MOST_ROWS:,} more; --json and --out have them all")


def _print_relied_on(relied_on: dict[str, Any]) -> None:
    """Print what the classifiers rely on."""
    names = list(relied_on["accuracies"])
    rows = [
        [column["column"], *(column["falls"][name] for name in names), "named above" if column["named"] else ""]
        for column in relied_on["columns"][:MOST_ROWS]
    ]
    accuracies = ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in relied_on["accuracies"].items())
    who = "the classifier relies" if len(names) == 1 else "the classifiers rely"
    print_table(f"What {who} on: accuracy lost if a column is shuffled", ["column", *names, ""], rows)
    print_text(f"accuracy on {relied_on['n_rows']:,} rows with all columns: {accuracies}", indent="  ")
