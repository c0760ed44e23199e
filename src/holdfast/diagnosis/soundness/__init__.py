"""Checks of a table before any model is fitted.

Each check looks for one kind of mistake and returns `Problem` values: what it is (a stable key), where it is, the
numbers that show it, and the options of a command that mend it. The sentences are in `holdfast.diagnosis.words`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.diagnosis.soundness.identity import (
    check_copied_columns,
    check_copied_rows,
    check_identifiers,
    check_near_copied_columns,
    check_near_copied_rows,
)
from holdfast.diagnosis.soundness.labels import check_exchanged_labels, check_label_codes, check_one_class
from holdfast.diagnosis.soundness.leaks import check_leaks
from holdfast.diagnosis.soundness.sites import check_looks, check_site_spelling, check_small_sites
from holdfast.diagnosis.soundness.table import SEVERITIES, CheckedTable, Problem
from holdfast.diagnosis.soundness.units import check_far_values, check_sentinels, check_units
from holdfast.environments import Environment as Environment
from holdfast.environments import PerRow, split_environments
from holdfast.environments import Rows as Rows
from holdfast.exceptions import LabelsError
from holdfast.seeding import Seeding as Seeding

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["KEYS", "Problem", "check_table"]


class Check(NamedTuple):
    """A check, and the keys of the problems that it finds."""

    find: Callable[[CheckedTable], Iterator[Problem]]
    keys: tuple[str, ...]
    needs_labels: bool = False


CHECKS = (  # of one column the first headline counts, so the order matters
    Check(check_label_codes, ("label_gap", "label_spelling", "label_codes", "label_of_one_site"), needs_labels=True),
    Check(check_one_class, ("one_class",), needs_labels=True),
    Check(check_site_spelling, ("site_spelling",)),
    Check(check_exchanged_labels, ("labels_exchanged",), needs_labels=True),
    Check(check_leaks, ("leak", "leak_by_gaps", "leak_by_level"), needs_labels=True),
    Check(check_small_sites, ("small_site",), needs_labels=True),
    Check(check_identifiers, ("identifier",)),
    Check(check_sentinels, ("sentinel",)),
    Check(check_units, ("columns_exchanged", "unit", "factor", "size")),
    Check(check_far_values, ("far_values",)),
    Check(check_copied_rows, ("copied_rows",)),
    Check(check_near_copied_rows, ("near_copied_rows",)),
    Check(
        check_looks,
        (
            "gaps",
            "zeros",
            "frequent_value",
            "constant",
            "codes_moved",
            "levels_written_otherwise",
            "level_of_one_site",
            "levels_of_sites",
        ),
    ),
    Check(check_copied_columns, ("copied_column",)),
    Check(check_near_copied_columns, ("near_copied_column",)),
)
READ = ("header_rows", "words_among_numbers", "unit_in_cells")  # found where the table is read
KEYS = (*(key for check in CHECKS for key in check.keys), *READ)


def check_table(
    features: pd.DataFrame,
    y: Any,
    environments: PerRow,
    *,
    texts: Sequence[str] = (),
) -> tuple[Problem, ...]:
    """Look for mistakes in a table before any model is judged on it.

    Parameters
    ----------
    features : DataFrame of shape (n_rows, n_columns)
    y : labels of shape (n_rows,), or None
        Without labels only the columns are compared between sites.
    environments : labels of shape (n_rows,)
        The site of each row.
    texts : sequence of str
        Columns of prose, which are not compared.

    Returns
    -------
    tuple of Problem
        The worst first. A column has one problem that is a headline at most.

    Examples
    --------
    >>> import pandas as pd
    >>> y, sites = [0, 0, 1, 1] * 25, ["a", "b"] * 50
    >>> frame = pd.DataFrame({"age": [30, 40, 50, 60, 70] * 20, "code": ["I1", "I1", "I2", "I2"] * 25})
    >>> [(problem.key, problem.column, problem.options) for problem in check_table(frame, y, sites)]
    [('leak', 'code', ('--drop', 'code'))]
    """
    if y is not None and len(y) != len(features):
        raise LabelsError(f"y has {len(y)} labels for {len(features)} rows. Pass one label for each row.")
    table = CheckedTable(
        features,
        split_environments(environments, len(features)),
        None if y is None else _as_texts(y),
        frozenset(texts),
    )
    checks = [check for check in CHECKS if y is not None or not check.needs_labels]
    return _worst_first([problem for check in checks for problem in check.find(table)])


def _as_texts(y: PerRow) -> NDArray[Any]:
    """Return labels as text: 1.0 is written 1."""
    values = np.asarray(y)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values % 1 == 0).all():
        values = values.astype(np.int64)
    return values.astype(str)


def _worst_first(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return problems by severity; of a column only the first that is a headline, and no notes beside it."""
    ordered = sorted(
        problems, key=lambda problem: SEVERITIES.index(problem.severity)
    )  # stable: checks keep their order
    taken: set[str] = set()
    kept = []
    for problem in ordered:
        if problem.column and problem.column in taken:
            continue
        kept.append(problem)
        if problem.column and problem.is_headline:
            taken.add(problem.column)
    return tuple(kept)
