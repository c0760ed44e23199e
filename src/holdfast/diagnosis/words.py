"""The sentences about problems of the data, and how to correct them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.diagnosis.soundness import Problem
from holdfast.environments import listed

MEASURE_NAMES: Mapping[str, str] = {
    "auroc": "AUROC",
    "oe": "O:E",
    "slope": "calibration slope",
    "intercept": "calibration intercept",
}
MOST_NAMED = 4  # sites, levels or columns of a sentence
MOST_HEADLINES = 2  # problems that a headline tells
MOST_CHECKS = 3  # problems that are repeated at the top of an answer


def say(problem: Problem, label: str = "label") -> str:
    """Return a problem as one sentence, or two.

    Parameters
    ----------
    problem : Problem
    label : str
        The name of the column that is predicted.

    Examples
    --------
    >>> say(Problem("constant", "note", "beds", ("Lyon",), {"value": "1200"}))
    '`beds` is always 1200 in Lyon, but varies elsewhere.'
    """
    return SENTENCES[problem.key](problem, label)


def mend(problem: Problem, label: str = "label") -> str:
    """Return what to do about a problem that is a headline, as one sentence."""
    return REPAIRS[problem.key](problem, label)


def headline(problems: Sequence[Problem], label: str = "label") -> tuple[str, str]:
    """Return what comes before any verdict, and what to do about it, in a few sentences each; empty where all is well.

    Parameters
    ----------
    problems : sequence of Problem
        The worst first.
    label : str
        The name of the column that is predicted.
    """
    found = [problem for problem in problems if problem.is_headline]
    said = list(dict.fromkeys(say(problem, label) for problem in found))
    repairs = list(dict.fromkeys(mend(problem, label) for problem in found))
    n_more = len(said) - MOST_HEADLINES
    rest = [f"{n_more} more {'problem is' if n_more == 1 else 'problems are'} listed below."] if n_more > 0 else []
    return " ".join([*said[:MOST_HEADLINES], *rest]), " ".join(repairs[:MOST_HEADLINES])


def check_line(problems: Sequence[Problem], label: str = "label") -> str:
    """Return the worst problems in one line; empty where there are none."""
    said = list(dict.fromkeys(say(problem, label) for problem in problems))
    rest = f" More is below ({len(said) - MOST_CHECKS})." * (len(said) > MOST_CHECKS)
    return f"Check the data first: {' '.join(said[:MOST_CHECKS])}{rest}" if said else ""


def written(number: float | str) -> str:
    """Return a number with three digits, or as a whole number where that is not long; a date as it is.

    Examples
    --------
    >>> written(0.01234), written(1200.0), written(3e12)
    ('0.0123', '1200', '3e+12')
    """
    if isinstance(number, str):
        return number
    return f"{number:.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.3g}"


def written_whole(value: float | str) -> str:
    """Return a code with all its digits."""
    return value if isinstance(value, str) else f"{value:.10g}"


def _sites(problem: Problem) -> str:
    return listed(list(problem.sites), most=MOST_NAMED)


def _in_sites(problem: Problem) -> str:
    return f" in {_sites(problem)}" if problem.sites else ""


def _quoted(values: Sequence[str]) -> str:
    return listed([f"'{value}'" for value in values], most=MOST_NAMED)


def _places(shares: Mapping[str, float]) -> str:
    """Return shares of rows with their sites: 'all rows in b, 20% of rows in a'."""
    texts = [f"{'all' if share == 1 else f'{share:.0%} of'} rows in {site}" for site, share in shares.items()]
    return listed(texts, most=MOST_NAMED)


def _label_spelling(p: Problem, label: str) -> str:
    other, usual = _quoted(p.evidence["labels"]), _quoted(p.evidence["elsewhere"])
    written = f"`{label}` is written {other} in some rows{_in_sites(p)} and {usual} in others"
    return f"{written}: they count as different classes."


def _label_codes(p: Problem, label: str) -> str:
    return (
        f"In {_sites(p)}, `{label}` is {_quoted(p.evidence['labels'])}; at the other sites it is "
        f"{_quoted(p.evidence['elsewhere'])}."
    )


def _label_gap(p: Problem, label: str) -> str:
    return f"`{label}` is '{p.evidence['label']}' in {_rows(p)}: does it mean missing?"


def _label_of_one_site(p: Problem, label: str) -> str:
    n_rows = p.evidence["n_rows"]
    return f"`{label}` is {_quoted(p.evidence['labels'])} in {_sites(p)} only ({n_rows:,} rows)."


def _site_spelling(p: Problem, label: str) -> str:
    return f"{_quoted(p.sites)} look like one site, but count as different ones."


def _one_class(p: Problem, label: str) -> str:
    return (
        f"In {_sites(p)}, `{label}` is {p.evidence['label']} in all {p.evidence['n_rows']:,} rows; at the other sites "
        f"it is so in {p.evidence['share_elsewhere']:.0%}."
    )


def _labels_exchanged(p: Problem, label: str) -> str:
    areas = listed([f"{area:.2f}" for area in p.evidence["auroc"]], most=MOST_NAMED)
    where = f"Between {p.sites[0]} and {p.sites[1]}" if len(p.sites) == 2 else f"In {_sites(p)}"
    return f"{where} the ranking is reversed (AUROC {areas}): are the two values of `{label}` exchanged?"


def _share(value: float) -> str:
    return f"{100 * value:.4g}%"


def _leak(p: Problem, label: str) -> str:
    return f"`{p.column}` alone predicts `{label}` in {_share(p.evidence['share'])} of rows, which looks like a leak."


def _leak_by_gaps(p: Problem, label: str) -> str:
    share = _share(p.evidence["share"])
    return f"Whether `{p.column}` is missing predicts `{label}` in {share} of rows, which looks like a leak."


def _leak_by_level(p: Problem, label: str) -> str:
    level, n_rows = p.evidence["level"], p.evidence["n_rows"]
    value = level if level in ("missing", "not missing") else f"'{level}'"
    return (
        f"`{label}` is {p.evidence['label']} in all {n_rows:,} rows in which `{p.column}` is {value}, which looks like "
        "a leak."
    )


def _words_among_numbers(p: Problem, label: str) -> str:
    said = listed([f"'{word}'" for word in p.evidence["words"]], most=3)
    verb = "turns" if len(p.evidence["words"]) == 1 else "turn"
    return f"`{p.column}` contains numbers, but {said} {verb} them into categories, one for each value."


def _header_rows(p: Problem, label: str) -> str:
    names = listed([f"'{name}'" for name in p.evidence["columns"]], most=3)
    return f"Some rows repeat the names of the columns, such as {names}: are there several headers in the file?"


def _unit_in_cells(p: Problem, label: str) -> str:
    said = listed([f"'{word}'" for word in p.evidence["words"]])
    return (
        f"`{p.column}` contains numbers, but{_in_sites(p)} some have a unit, such as {said}: they count as categories."
    )


def _identifier(p: Problem, label: str) -> str:
    kinds = {
        "growing": "grows from row to row",
        "distinct": "has a different number in almost every row",
        "by site": "numbers the rows of each site",
        "by name": f"has {p.evidence['n_values']:,} different values",
        "texts": f"has {p.evidence['n_values']:,} different texts",
    }
    return f"`{p.column}` {kinds[p.evidence['kind']]}: it looks like an identifier."


def _sentinel(p: Problem, label: str) -> str:
    found = p.evidence
    code, low, high = written_whole(found["value"]), written(found["low"]), written(found["high"])
    return f"`{p.column}` is {code} in {_rows(p)}, and {low} to {high} in all others: does it mean missing?"


def _rows(p: Problem) -> str:
    """Return in how many rows, and at which sites."""
    n_rows = p.evidence["n_rows"]
    return f"{n_rows:,} {'row' if n_rows == 1 else 'rows'}{_in_sites(p)}"


def _unit(p: Problem, label: str) -> str:
    found = p.evidence
    medians = f"median {written(found['median'])} against {written(found['median_elsewhere'])}"
    if found["affine"] and "share" not in found:
        units = f"in {found['unit']} in {_sites(p)} and in {found['unit_elsewhere']} elsewhere"
        return f"`{p.column}` seems to be {units} ({medians})."
    where = f"{found['share']:.0%} of rows in {_sites(p)}" if "share" in found else _sites(p)
    return (
        f"`{p.column}` is about {_times(found['factor'])} as large in {where} as elsewhere ({medians}), which fits "
        f"{found['unit']} instead of {found['unit_elsewhere']}."
    )


def _times(factor: float) -> str:
    """Return a factor in words: '88.4 times', '1/12'."""
    return f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g}"


def _factor(p: Problem, label: str) -> str:
    found, times = p.evidence, _times(float(f"{p.evidence['factor']:.2g}"))
    medians = f"median {written(found['median'])} against {written(found['median_elsewhere'])}"
    return f"`{p.column}` is about {times} as large in {_sites(p)} as elsewhere ({medians}): check its unit."


def _columns_exchanged(p: Problem, label: str) -> str:
    both = f"`{p.column}` and `{p.evidence['other']}`"
    return f"{both} look exchanged in {_sites(p)}: each has the values that the other has elsewhere."


def _far_values(p: Problem, label: str) -> str:
    low, high, usual_low, usual_high = (
        written(p.evidence[name]) for name in ("low", "high", "usual_low", "usual_high")
    )
    numbers = low if low == high else f"{low} to {high}"
    return f"`{p.column}` is {numbers} in {_rows(p)}, and {usual_low} to {usual_high} in all others: are they mistakes?"


def _copied_rows(p: Problem, label: str) -> str:
    found = p.evidence
    across = f" {found['n_across_sites']:,} of them are at another site." if found["n_across_sites"] else ""
    return f"{found['n_copies']:,} rows ({found['share']:.0%}) are exact copies of another row{_in_sites(p)}.{across}"


def _near_copied_rows(p: Problem, label: str) -> str:
    found = p.evidence
    return (
        f"{found['n_rows']:,} rows ({found['share']:.0%}) equal another row in all columns but one{_in_sites(p)}: are "
        "people counted twice?"
    )


def _size(p: Problem, label: str) -> str:
    low, high, usual_low, usual_high = (
        written(p.evidence[name]) for name in ("low", "high", "usual_low", "usual_high")
    )
    return f"`{p.column}` is {low} to {high} in {_sites(p)} and {usual_low} to {usual_high} elsewhere: check its unit."


def _gaps(p: Problem, label: str) -> str:
    found = p.evidence
    least = f"{found['least']:.0%} in {found['least_site']}"
    return f"`{found['column']}` is missing in {_places(found['shares'])}, but in {least}."


def _zeros(p: Problem, label: str) -> str:
    where = _places(p.evidence["shares"])
    return f"`{p.column}` is 0 in {where} and hardly anywhere else: does 0 mean missing? If so, empty these cells."


def _frequent_value(p: Problem, label: str) -> str:
    found = p.evidence
    where = f"{found['share']:.0%} of rows in {_sites(p)} and hardly anywhere else"
    return f"`{p.column}` is {written(found['value'])} in {where}: is it a limit of measurement?"


def _constant(p: Problem, label: str) -> str:
    return f"`{p.column}` is always {p.evidence['value']} in {_sites(p)}, but varies elsewhere."


def _level_of_one_site(p: Problem, label: str) -> str:
    levels = listed([f"'{level}'" for level in p.evidence["levels"]], most=3)
    return f"`{p.column}` is {levels} in {_sites(p)} only."


def _levels_of_sites(p: Problem, label: str) -> str:
    return f"`{p.column}` has different values at every site, so it identifies the site and cannot help at a new one."


def _codes_moved(p: Problem, label: str) -> str:
    here, elsewhere = (listed([written(code) for code in p.evidence[key]], most=6) for key in ("levels", "elsewhere"))
    return f"`{p.column}` is {here} in {_sites(p)} and {elsewhere} elsewhere: are the codes the same?"


def _levels_written_otherwise(p: Problem, label: str) -> str:
    here, elsewhere = _quoted(p.evidence["levels"]), _quoted(p.evidence["elsewhere"])
    return f"In {_sites(p)}, `{p.column}` is {here}; at the other sites it is {elsewhere}."


def _copied_column(p: Problem, label: str) -> str:
    return f"`{p.column}` has the same values as `{p.evidence['copy_of']}`."


def _near_copied_column(p: Problem, label: str) -> str:
    return f"`{p.column}` is almost a copy of `{p.evidence['copy_of']}`."


def _small_site(p: Problem, label: str) -> str:
    has = "has" if len(p.sites) == 1 else "have"
    return f"{_sites(p)} {has} too few rows to say anything about one site alone."


SENTENCES: Mapping[str, Callable[[Problem, str], str]] = {
    "label_spelling": _label_spelling,
    "label_codes": _label_codes,
    "label_of_one_site": _label_of_one_site,
    "site_spelling": _site_spelling,
    "one_class": _one_class,
    "labels_exchanged": _labels_exchanged,
    "leak": _leak,
    "leak_by_gaps": _leak_by_gaps,
    "leak_by_level": _leak_by_level,
    "words_among_numbers": _words_among_numbers,
    "header_rows": _header_rows,
    "unit_in_cells": _unit_in_cells,
    "label_gap": _label_gap,
    "identifier": _identifier,
    "sentinel": _sentinel,
    "unit": _unit,
    "factor": _factor,
    "copied_rows": _copied_rows,
    "near_copied_rows": _near_copied_rows,
    "size": _size,
    "columns_exchanged": _columns_exchanged,
    "far_values": _far_values,
    "gaps": _gaps,
    "zeros": _zeros,
    "frequent_value": _frequent_value,
    "constant": _constant,
    "codes_moved": _codes_moved,
    "levels_written_otherwise": _levels_written_otherwise,
    "level_of_one_site": _level_of_one_site,
    "levels_of_sites": _levels_of_sites,
    "copied_column": _copied_column,
    "near_copied_column": _near_copied_column,
    "small_site": _small_site,
}


def _mend_labels(p: Problem, label: str) -> str:
    return f"Write `{label}` in the same way at every site before anything else."


def _mend_one_class(p: Problem, label: str) -> str:
    return f"Find out why before you use the rows of {_sites(p)}."


def _mend_exchanged(p: Problem, label: str) -> str:
    return f"Check how `{label}` is coded in {_sites(p)} before anything else."


def _mend_leak(p: Problem, label: str) -> str:
    return f"Leave `{p.column}` out, unless it is known when you predict."


def _mend_words(p: Problem, label: str) -> str:
    words = p.evidence["words"]
    limits = [f"'{word}'" for word in words if word[:1] in "<>≤≥"]
    instead = f" If {listed(limits)} should count as a value, write a number instead." if limits else ""
    return f"Read {listed([repr(word) for word in words], most=3)} as missing in `{p.column}`.{instead}"


def _mend_header(p: Problem, label: str) -> str:
    return "Delete these rows from the file."


def _mend_unit_in_cells(p: Problem, label: str) -> str:
    return f"Write `{p.column}` as numbers alone, or leave it out."


def _mend_label_gap(p: Problem, label: str) -> str:
    return "Leave these rows out."


def _mend_identifier(p: Problem, label: str) -> str:
    return f"Leave `{p.column}` out."


def _mend_sentinel(p: Problem, label: str) -> str:
    value = written_whole(p.evidence["value"])
    if p.options[:1] == ("--drop",):
        return f"Empty the cells of `{p.column}` that are {value}, or leave it out."
    return f"Read {value} as missing."


def _mend_unit(p: Problem, label: str) -> str:
    return f"Convert `{p.column}` in {_sites(p)}, or leave it out."


def _mend_exchanged_columns(p: Problem, label: str) -> str:
    return f"Exchange `{p.column}` and `{p.evidence['other']}` in {_sites(p)}, or leave both out."


def _mend_far(p: Problem, label: str) -> str:
    return f"Correct these numbers of `{p.column}` in the table, or empty their cells."


def _mend_sites(p: Problem, label: str) -> str:
    return "Write each site in one way, so that a site that is left out is left out altogether."


def _mend_levels(p: Problem, label: str) -> str:
    return f"Write `{p.column}` in the same way at every site, or leave it out."


def _mend_copies(p: Problem, label: str) -> str:
    return "Remove the copies from the table, and name one site for each row."


REPAIRS: Mapping[str, Callable[[Problem, Any], str]] = {
    "label_spelling": _mend_labels,
    "label_codes": _mend_labels,
    "label_of_one_site": _mend_labels,
    "one_class": _mend_one_class,
    "site_spelling": _mend_sites,
    "labels_exchanged": _mend_exchanged,
    "leak": _mend_leak,
    "leak_by_gaps": _mend_leak,
    "leak_by_level": _mend_leak,
    "words_among_numbers": _mend_words,
    "header_rows": _mend_header,
    "unit_in_cells": _mend_unit_in_cells,
    "label_gap": _mend_label_gap,
    "identifier": _mend_identifier,
    "sentinel": _mend_sentinel,
    "unit": _mend_unit,
    "factor": _mend_unit,
    "size": _mend_unit,
    "columns_exchanged": _mend_exchanged_columns,
    "far_values": _mend_far,
    "codes_moved": _mend_unit,
    "levels_written_otherwise": _mend_levels,
    "copied_rows": _mend_copies,
    "near_copied_rows": _mend_copies,
}
