"""Check a model in each period: the files of a folder, or a table cut by a column of dates."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.environments import listed
from holdfast.exceptions import ParameterError, TableError, suggest
from holdfast.newsite.monitor import Course, follow
from holdfast.tables.files import TABLES, TableLike, TableSource, TextLayout, open_table
from holdfast.tables.roles import PERIODS, read_environments
from holdfast.tables.schema import storage_of

if TYPE_CHECKING:
    from holdfast.newsite.check import SiteCheck
    from holdfast.tables.classifier import TableClassifier

DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)(?:[-_. ]?(?:[qQ]([1-4])|(\d\d)(?:[-_. ]?(\d\d))?))?(?!\d)")


def check_periods(
    model: TableClassifier,
    table: TableLike,
    *,
    by: str | None = None,
    date: str | None = None,
    layout: TextLayout | None = None,
    reported: Sequence[Mapping[str, Any]] = (),
) -> Course:
    """Check a model in each period.

    Parameters
    ----------
    model : TableClassifier
    table : path or data frame
        A folder of files with a date in their names (2026-01.csv), each of which is a period; or with `by` a table
        with a column of dates.
    by : {"year", "quarter", "month", "day"}, optional
        How to cut the dates.
    date : str, optional
        The column of dates; by default the only one.
    layout : TextLayout, optional
        How text files are written.
    reported : sequence of mappings
        Records of an earlier run; changes that they have are no news.
    """
    if by is None and date is not None:
        raise ParameterError("date= is the column that by= cuts. Pass by='month' too (or year, quarter, day).")
    if by is not None:
        return follow(_by_date(model, open_table(table, model.roles_.missing, layout), by, date), reported)
    folder = Path(os.fspath(table)) if isinstance(table, str | os.PathLike) else None
    if folder is None or not folder.is_dir():
        raise ParameterError("Periods are the files of a folder, or those of by=. Pass a folder, or by='month'.")
    checks = ((name, model.check(open_table(path, model.roles_.missing, layout))) for name, path in dated_files(folder))
    return follow(checks, reported)


def dated_files(folder: Path) -> list[tuple[str, str]]:
    """Return the names and paths of a folder's tables in the order of the dates in their names.

    Examples
    --------
    >>> [DATE.search(name).groups() for name in ("rows-2026-01", "2026Q2", "20260131")]
    [('2026', None, '01', None), ('2026', '2', None, None), ('2026', None, '01', '31')]
    """
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and set(path.suffixes) & set(TABLES)]
    if not files:
        raise TableError(f"{folder} has no tables. Put files there, such as 2026-01.csv ({', '.join(TABLES)}).")
    dates = {path: DATE.search(path.name) for path in files}
    without = [path.name for path, found in dates.items() if found is None]
    if without:
        raise TableError(
            f"The names of {listed(without, most=3)} have no date, so that the order of the files is not known. Name "
            "them like 2026-01.csv, or put other files elsewhere."
        )

    def moment(path: Path) -> tuple[int, int, int, str]:
        found = dates[path]
        assert found is not None
        year, quarter, month, day = found.groups()
        return int(year), 3 * int(quarter) - 2 if quarter else int(month or 0), int(day or 0), path.name

    return [(path.name.partition(".")[0], os.fspath(path)) for path in sorted(files, key=moment)]


def _by_date(model: TableClassifier, source: TableSource, by: str, date: str | None) -> Iterator[tuple[str, SiteCheck]]:
    """Yield each period of a table, in the order of time, and its check."""
    if by not in PERIODS:
        raise ParameterError(f"by={by!r} is not a period. {suggest(by, list(PERIODS))}")
    if date is not None:
        source.require([date])
    frame = source.read(None, model.roles_.schema.types)
    found = [str(name) for name in frame.columns if storage_of(frame[name], str(name)) == "date"]
    if date is None and len(found) != 1:
        what = f"{len(found)} columns of dates: {listed(found)}" if found else "no column of dates"
        raise ParameterError(f"{source.name} has {what}. Name the one to cut by with date=.")
    name = found[0] if date is None else date
    if name not in found:
        raise TableError(f"Column {name!r} of {source.name} does not contain dates. Write them like 2026-01-31.")
    periods = read_environments(frame, [name], by)
    for period in sorted(set(periods.tolist())):
        yield str(period), model.check(frame[periods == period])
