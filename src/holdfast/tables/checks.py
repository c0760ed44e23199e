"""Run the checks of the data on the rows of a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.diagnosis.soundness import Problem, check_table
from holdfast.environments import merge_small_environments, site_names, split_environments
from holdfast.tables.remarks import odd_tokens, written_unit
from holdfast.tables.schema import DATE_FEATURES
from holdfast.tables.stages import MIN_ROWS

if TYPE_CHECKING:
    from holdfast.tables.roles import TableRows


def check_rows(rows: TableRows) -> tuple[Problem, ...]:
    """Return what is wrong with a table, the worst first; problems name the columns of the table.

    Sites of very few rows are one, as for the models.
    """
    schema, words = rows.roles.schema, find_words(rows)
    features = numbers_alone(rows.features, words)
    source = {f"{c.name} ({part})": c.name for c in schema.columns if c.kind == "date" for part in DATE_FEATURES}
    headers = [name for name, texts in words.items() if name in texts]
    if len(headers) > 1:
        words = {name: texts for name, texts in words.items() if texts != (name,)}
    found = [Problem("header_rows", "stop", "", (), {"columns": headers})] * (len(headers) > 1)
    found += [
        Problem("words_among_numbers", "stop", name, (), {"words": list(texts)}, _repeated("--missing", texts))
        for name, texts in words.items()
    ]
    for name in schema.names("categorical"):
        if name not in words and (texts := written_unit(rows.features[name])):
            here = set(map(str, np.asarray(rows.environments)[rows.features[name].isin(texts)]))
            where = tuple(sorted(here)) if len(here) < len(set(map(str, rows.environments))) else ()
            found.append(Problem("unit_in_cells", "stop", name, where, {"words": list(texts[:2])}, ("--drop", name)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever fits says that small sites are merged
        merged = merge_small_environments(split_environments(rows.environments, len(rows.y)), MIN_ROWS)
    sites = site_names(merged)
    y = np.zeros(len(rows.y), dtype=np.intp) if rows.task == "regression" else rows.y
    for problem in check_table(features, y, sites, texts=schema.names("text")):
        if rows.task == "regression" and problem.key.startswith(("label", "leak", "one_class")):
            continue  # these compare classes
        name = source.get(problem.column, problem.column)
        if name != problem.column:
            problem = replace(problem, column=name, options=("--drop", name) if problem.options else ())
            if problem.key in ("unit", "factor", "size"):
                continue  # later years are no other unit
            if problem.key == "sentinel":
                days = {key: _as_date(problem.evidence[key]) for key in ("value", "low", "high")}
                problem = replace(problem, evidence={**problem.evidence, **days})
        if name in words or (name in source.values() and name in {p.column for p in found}):
            continue  # of several parts of a date, the worst is told
        found.append(problem)
    return tuple(found)


def find_words(rows: TableRows) -> dict[str, tuple[str, ...]]:
    """Return the columns of numbers that a few words turned into categories, with these words."""
    names = rows.roles.schema.names("categorical")
    return {name: words for name in names if (words := odd_tokens(rows.features[name]))}


def numbers_alone(features: Any, columns: Iterable[str]) -> Any:
    """Return a frame in which columns of numbers and a few words have numbers and gaps."""
    import pandas as pd

    def numbers(column: Any) -> Any:
        return pd.to_numeric(column.astype(object).str.replace(",", "."), errors="coerce")

    return features.assign(**{name: numbers(features[name]) for name in columns})


def _as_date(days: float) -> str:
    """Return days since 1970 as a date.

    Examples
    --------
    >>> _as_date(-25_567.0)
    '1900-01-01'
    """
    return str(np.datetime64(int(days), "D"))


def _repeated(option: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return an option once for each value, as words of a command."""
    return tuple(word for value in values for word in (option, value))
