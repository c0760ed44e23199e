"""What each column looks like at each site, and what does not fit: gaps, constants, other units, levels of one site."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.environments import listed, split_environments
from holdfast.seeding import Seeding

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 200
MOST_UNNAMED = 50  # columns of an array: more are pixels or features of a network
MIN_ROWS = 10  # values that a site needs before its constants, medians and levels are judged
MISSING_APART = 0.3  # shares of missing values that differ by more are worth a look
ZERO_HERE, ZERO_ELSEWHERE = 0.2, 0.01  # shares of zeros that suggest that 0 stands for "missing"
FEW_VALUES = 20  # numbers with at most so many different values are counted one by one
MOST_CHECKS = 3  # remarks that are repeated at the top of a page
BY_CHANCE = 0.001  # smaller probabilities are not taken for chance
TELLS, COMMON = 0.999, 0.95  # share of rows whose label one column tells; of the most frequent label, at most
LEAST_TOLD, LEVEL_ROWS = 50, 5  # rows that this needs, and a level
MOST_VALUES, MOST_TELLING = 2_000_000, 2_000  # rows times columns, and columns, that are looked at for it
INDICATOR = re.compile(r"(?P<column>.+?)(?: is |[ _=.])(?:missing|isna|isnull)", re.IGNORECASE)  # `ca is missing`


@dataclass(frozen=True)
class ColumnAtSite:
    """One column in the rows of one site."""

    n_rows: int
    missing: float  # share
    n_values: int  # different ones
    constant: str | None  # the value, where there is only one
    quartiles: tuple[float, float, float] | None  # of numbers
    zeros: float  # share of zeros among the numbers
    levels: dict[str, float]  # share of each value, most frequent first; empty for numbers of many values

    @property
    def text(self) -> str:
        """The column in a few words."""
        if self.n_values == 0:
            return "all missing"
        gap = f"; {self.missing:.0%} missing" if self.missing >= 0.005 else ""
        if self.constant is not None:
            return f"always {self.constant}{gap}"
        if self.quartiles is not None and set(self.levels) == {"0", "1"}:
            return f"{self.levels['1']:.0%} are 1{gap}"
        if self.quartiles is not None:
            low, middle, high = map(_written, self.quartiles)
            return f"{middle} ({low} to {high}){gap}"
        first, share = next(iter(self.levels.items()))
        return f"{first} {share:.0%}, {self.n_values} levels{gap}"


@dataclass(frozen=True)
class Profile:
    """Every column at every site."""

    columns: tuple[str, ...]
    sites: tuple[str, ...]
    cells: tuple[tuple[ColumnAtSite, ...], ...]  # (n_columns, n_sites)
    remarks: tuple[tuple[int, int, str], ...]  # (column, site, sentence): what does not fit, the worst first
    n_left_out: int = 0  # columns of a wide table that were not looked at
    telling: tuple[str, ...] = ()  # what `telling_columns` says

    @property
    def sentences(self) -> tuple[str, ...]:
        """What does not fit, in sentences."""
        return tuple(dict.fromkeys((*self.telling, *(text for _, _, text in self.remarks))))

    @property
    def check(self) -> str:
        """The worst of it in one line; empty where everything fits."""
        found = self.sentences
        rest = f" There are {len(found) - MOST_CHECKS} more, see below." * (len(found) > MOST_CHECKS)
        return f"Check the data first: {' '.join(found[:MOST_CHECKS])}{rest}" if found else ""

    @property
    def odd(self) -> tuple[str, ...]:
        """The columns that do not fit."""
        return tuple(dict.fromkeys(self.columns[column] for column, _, _ in self.remarks))

    def about(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what does not fit in some columns."""
        return tuple(dict.fromkeys(text for column, _, text in self.remarks if self.columns[column] in columns))


def profile_columns(X: Any, environments: Any, names: Sequence[str] | None = None) -> Profile | None:
    """Describe every column of a frame or a 2-d array, whose columns have `names`, at every site.

    None for texts, images and arrays of many columns.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"chol": [200.0, 240.0] * 6 + [0.0] * 12})
    >>> profile_columns(frame, ["a"] * 12 + ["b"] * 12).sentences
    ('`chol` is 0 in all rows in b and hardly anywhere else: does 0 mean missing? If so, empty these cells.',)
    """
    frame = _read_frame(X, names)
    if frame is None:
        return None
    sites = split_environments(environments, len(frame))
    shown = list(frame.columns)[:MOST_COLUMNS]
    cells = tuple(tuple(_describe(frame[name].iloc[site.rows]) for site in sites) for name in shown)
    site_names = tuple(site.name for site in sites)
    columns = tuple(str(name) for name in shown)
    remarks = [
        (row, site, weight, text)
        for row, (name, found) in enumerate(_with_gaps(columns, cells))
        for site, weight, text in _unusual(name, found, site_names)
    ]
    remarks.sort(key=lambda remark: -remark[2])
    said = tuple((row, site, text) for row, site, _, text in remarks)
    return Profile(columns, site_names, cells, said, len(frame.columns) - len(shown))


def telling_columns(features: pd.DataFrame, y: Any, label: str) -> tuple[str, ...]:
    """Name the columns that tell the label of (almost) every row alone: by one limit, or by their values.

    Values that fewer than 5 rows have tell nothing. Of many rows a sample is looked at, of many columns the first.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [3, 4] * 50, "icd": ["I1", "I1", "I2", "I2"] * 25})
    >>> telling_columns(frame, [0, 0, 1, 1] * 25, "ill")
    ('`icd` alone tells `ill` for 100% of rows: is it known when you predict?',)
    """
    import pandas as pd

    codes, classes = pd.factorize(np.asarray(y))
    if len(codes) < LEAST_TOLD or len(classes) > FEW_VALUES or np.bincount(codes).max() >= COMMON * len(codes):
        return ()
    features = features.iloc[:, :MOST_TELLING]
    n_rows = max(MOST_VALUES // max(features.shape[1], 1), 10 * LEAST_TOLD)
    if n_rows < len(codes):
        rows = np.sort(Seeding(0).generator("telling columns").choice(len(codes), n_rows, replace=False))
        features, codes = features.iloc[rows], codes[rows]
    shares = {str(name): _share_told(features[name], codes, len(classes)) for name in features.columns}
    return tuple(
        f"`{name}` alone tells `{label}` for {100 * share:.4g}% of rows: is it known when you predict?"
        for name, share in shares.items()
        if share >= TELLS
    )


def _share_told(values: pd.Series[Any], codes: Any, n_classes: int) -> float:
    """Return the share of rows whose class is the most frequent one of their value, or of their side of a limit."""
    import pandas as pd

    is_number = pd.api.types.is_numeric_dtype(values)
    places, levels = pd.factorize(values, sort=is_number)  # -1, the last, for missing values
    counts = np.bincount((places % (len(levels) + 1)) * n_classes + codes, minlength=(len(levels) + 1) * n_classes)
    table = counts.reshape(-1, n_classes)  # (n_levels + 1, n_classes)
    told = int(table.max(axis=1)[table.sum(axis=1) >= LEVEL_ROWS].sum())
    if is_number and len(levels):
        below = table[:-1].cumsum(axis=0)
        by_limit = (below.max(axis=1) + (below[-1] - below).max(axis=1)).max()
        told = max(told, int(by_limit + table[-1].max()))
    return told / len(codes)


def _with_gaps(
    columns: Sequence[str], cells: Sequence[tuple[ColumnAtSite, ...]]
) -> Iterator[tuple[str, tuple[ColumnAtSite, ...]]]:
    """Give each column and what remarks are about: a 1 in `ca is missing` is a missing value of `ca`."""
    flags = {
        name: (behind["column"], [cell.levels.get("1", 0.0) for cell in found])
        for name, found in zip(columns, cells, strict=True)
        if (behind := INDICATOR.fullmatch(name)) and all(set(cell.levels) <= {"0", "1"} for cell in found)
    }
    gaps_of = dict(flags.values())
    for name, found in zip(columns, cells, strict=True):
        if name in flags:
            column, gaps = flags[name]
            gaps = [0.0] * len(found) if column in columns else gaps  # said of the column itself
            yield (
                column,
                tuple(ColumnAtSite(c.n_rows, gap, 0, None, None, 0.0, {}) for c, gap in zip(found, gaps, strict=True)),
            )
        else:
            gaps = gaps_of.get(name, [0.0] * len(found))
            yield name, tuple(replace(c, missing=max(c.missing, gap)) for c, gap in zip(found, gaps, strict=True))


def _read_frame(X: Any, names: Sequence[str] | None) -> pd.DataFrame | None:
    """Return X as a pandas frame; None where it has no columns."""
    import narwhals as nw
    import pandas as pd

    if hasattr(X, "columns"):
        return pd.DataFrame(nw.from_native(X, eager_only=True).to_pandas())
    if hasattr(X, "toarray") or getattr(X, "ndim", 0) != 2 or X.shape[1] > MOST_UNNAMED or X.dtype.kind not in "biuf":
        return None
    array = np.asarray(X)
    labels = [f"x{column}" for column in range(array.shape[1])] if names is None else [str(name) for name in names]
    return pd.DataFrame(array, columns=labels)


def _describe(values: pd.Series[Any]) -> ColumnAtSite:
    """Return what a column looks like in some rows."""
    import pandas as pd

    known = values.dropna()
    missing = 1.0 - len(known) / max(len(values), 1)
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if is_number:
        numbers = known.to_numpy(dtype=np.float64)
        n_values = len(np.unique(numbers))
        quartiles = tuple(float(q) for q in np.quantile(numbers, (0.25, 0.5, 0.75))) if n_values > 1 else None
        constant = _written(numbers[0]) if n_values == 1 else None
        zeros = float((numbers == 0).mean()) if len(numbers) else 0.0
        levels = _shares([_written(number) for number in numbers]) if n_values <= FEW_VALUES else {}
        return ColumnAtSite(len(values), missing, n_values, constant, quartiles, zeros, levels)  # type: ignore[arg-type]
    levels = _shares(known.astype(str).tolist())
    constant = next(iter(levels)) if len(levels) == 1 else None
    return ColumnAtSite(len(values), missing, len(levels), constant, None, 0.0, levels)


def _written(number: float) -> str:
    """Return a number with three digits, or as a whole number where that is not long.

    Examples
    --------
    >>> _written(0.01234), _written(1200.0), _written(3e12)
    ('0.0123', '1200', '3e+12')
    """
    return f"{number:.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.3g}"


def _shares(values: Sequence[str]) -> dict[str, float]:
    """Return the share of each value, most frequent first."""
    return {value: count / len(values) for value, count in Counter(values).most_common()}


def _unusual(name: str, found: Sequence[ColumnAtSite], sites: Sequence[str]) -> list[tuple[int, float, str]]:
    """Return the sites at which a column does not fit, each with how bad that is, from 0 to 1, and a sentence."""
    remarks = []
    known = [cell.n_rows * (1 - cell.missing) >= MIN_ROWS for cell in found]
    gaps = [cell.missing for cell in found]
    apart = [i for i, gap in enumerate(gaps) if gap - min(gaps) > MISSING_APART]
    if apart:
        where = _places([(gaps[i], sites[i]) for i in apart])
        rest = min(range(len(gaps)), key=gaps.__getitem__)
        text = f"`{name}` is missing in {where}, but in {gaps[rest]:.0%} in {sites[rest]}."
        remarks += [(i, max(gaps) - min(gaps), text) for i in apart]
    judged = [i for i, cell in enumerate(found) if known[i]]
    zeros = [i for i in judged if found[i].zeros >= ZERO_HERE and set(found[i].levels) != {"0", "1"}]
    is_gap = 0 < len(zeros) < len(judged) and all(found[i].zeros <= ZERO_ELSEWHERE for i in judged if i not in zeros)
    if is_gap:
        where = _places([(found[i].zeros, sites[i]) for i in zeros])
        text = f"`{name}` is 0 in {where} and hardly anywhere else: does 0 mean missing? If so, empty these cells."
        remarks += [(i, max(found[i].zeros for i in zeros), text) for i in zeros]
        judged = [i for i in judged if i not in zeros]
    fixed = [i for i in judged if _is_oddly_constant(i, found, known)]
    for value in dict.fromkeys(found[i].constant for i in fixed):
        places = [i for i in fixed if found[i].constant == value]
        where = listed([sites[i] for i in places], most=4)
        remarks += [(i, 1.0, f"`{name}` is always {value} in {where}, but varies elsewhere.") for i in places]
    for i in judged:
        others = [found[j] for j in judged if j != i]
        cell = found[i]
        if i in fixed or not others:
            continue
        if cell.quartiles is not None:
            ranges = [other.quartiles for other in others if other.quartiles is not None]
            if ranges and not cell.levels and _is_another_size(cell.quartiles, ranges):
                middles = [_written(middle) for middle in sorted(middle for _, middle, _ in ranges)]
                text = (
                    f"`{name}` is of another size in {sites[i]} (median {_written(cell.quartiles[1])}) than elsewhere "
                    f"({' to '.join(dict.fromkeys((middles[0], middles[-1])))}): check its unit."
                )
                remarks.append((i, 1.0, text))
        elif cell.levels:
            seen = {level for other in others for level in other.levels}
            n_here, n_others = (sum(c.n_rows * (1 - c.missing) for c in part) for part in ([cell], others))
            alone = {level: share for level, share in cell.levels.items() if level not in seen}
            by_chance = BY_CHANCE / (len(judged) * len(seen | alone.keys()))  # any level, at any of the sites
            here = n_here / (n_here + n_others)
            own = [level for level, share in alone.items() if here ** (share * n_here) < by_chance]
            if own and seen:
                what = listed([f"'{level}'" for level in own], most=3)
                remarks.append((i, sum(alone[level] for level in own), f"`{name}` is {what} in {sites[i]} only."))
    return remarks


def _places(shares: Sequence[tuple[float, str]]) -> str:
    """Return shares of rows with their sites, the largest first: 'all rows in b, 20% of rows in a'."""
    ordered = sorted(shares, key=lambda pair: -pair[0])
    return listed([f"{'all' if share == 1 else f'{share:.0%} of'} rows in {site}" for share, site in ordered], most=4)


def _is_oddly_constant(site: int, found: Sequence[ColumnAtSite], known: Sequence[bool]) -> bool:
    """Return whether a column has one value at a site although its share elsewhere makes that very unlikely."""
    here = found[site]
    others = [cell for i, cell in enumerate(found) if i != site and known[i]]
    if here.constant is None or all(cell.constant is not None for cell in others):
        return False
    sizes = [cell.n_rows * (1 - cell.missing) for cell in others]
    share = float(np.average([cell.levels.get(here.constant, 0.0) for cell in others], weights=sizes))
    return bool(share ** (here.n_rows * (1 - here.missing)) < BY_CHANCE / len(found))  # any of the sites


def _is_another_size(here: tuple[float, float, float], others: Sequence[tuple[float, float, float]]) -> bool:
    """Return whether a site's middle half lies far from every other one's: a factor of 5, or 8 times their widths."""
    low, middle, high = here
    apart = all(high < other_low or low > other_high for other_low, _, other_high in others)
    factors = [abs(middle) / abs(other) if other else np.inf for _, other, _ in others]
    widest = max(high - low, *(other_high - other_low for other_low, _, other_high in others))
    shifted = all(abs(middle - other) > 8 * widest for _, other, _ in others)  # °F where others have °C
    return apart and (all(factor > 5 for factor in factors) or all(factor < 0.2 for factor in factors) or shifted)
