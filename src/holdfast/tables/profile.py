"""What each column looks like at each site, and what does not fit: gaps, constants, other units, levels of one site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.environments import listed, split_environments

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 200
MOST_UNNAMED = 50  # columns of an array: more are pixels or features of a network
MIN_ROWS = 10  # values that a site needs before its constants, medians and levels are judged
MISSING_APART = 0.3  # shares of missing values that differ by more are worth a look
ZERO_HERE, ZERO_ELSEWHERE = 0.2, 0.01  # shares of zeros that suggest that 0 stands for "missing"
FEW_VALUES = 20  # numbers with at most so many different values are counted one by one
BY_CHANCE = 0.001  # smaller probabilities are not taken for chance


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
            low, middle, high = (f"{value:.3g}" for value in self.quartiles)
            return f"{middle} ({low} to {high}){gap}"
        first, share = next(iter(self.levels.items()))
        return f"{first} {share:.0%}, {self.n_values} levels{gap}"


@dataclass(frozen=True)
class Profile:
    """Every column at every site."""

    columns: tuple[str, ...]
    sites: tuple[str, ...]
    cells: tuple[tuple[ColumnAtSite, ...], ...]  # (n_columns, n_sites)
    remarks: tuple[tuple[int, int, str], ...]  # (column, site, sentence): what does not fit

    @property
    def sentences(self) -> tuple[str, ...]:
        """What does not fit, in sentences."""
        return tuple(dict.fromkeys(text for _, _, text in self.remarks))


def profile_columns(X: Any, environments: Any, names: Sequence[str] | None = None) -> Profile | None:
    """Describe every column of a frame or a 2-d array, whose columns have `names`, at every site.

    None for texts, images and arrays of many columns.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"chol": [200.0, 240.0] * 6 + [0.0] * 12})
    >>> profile_columns(frame, ["a"] * 12 + ["b"] * 12).sentences
    ('`chol` is always 0 in b, but varies elsewhere.',)
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
        (row, site, text)
        for row, (name, found) in enumerate(zip(columns, cells, strict=True))
        for site, text in _unusual(name, found, site_names)
    ]
    return Profile(columns, site_names, cells, tuple(remarks))


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
        constant = f"{numbers[0]:.3g}" if n_values == 1 else None
        zeros = float((numbers == 0).mean()) if len(numbers) else 0.0
        levels = _shares([f"{number:.3g}" for number in numbers]) if n_values <= FEW_VALUES else {}
        return ColumnAtSite(len(values), missing, n_values, constant, quartiles, zeros, levels)  # type: ignore[arg-type]
    levels = _shares(known.astype(str).tolist())
    constant = next(iter(levels)) if len(levels) == 1 else None
    return ColumnAtSite(len(values), missing, len(levels), constant, None, 0.0, levels)


def _shares(values: Sequence[str]) -> dict[str, float]:
    """Return the share of each value, most frequent first."""
    return {value: count / len(values) for value, count in Counter(values).most_common()}


def _unusual(name: str, found: Sequence[ColumnAtSite], sites: Sequence[str]) -> list[tuple[int, str]]:
    """Return the sites at which a column does not fit, each with a sentence."""
    remarks = []
    known = [cell.n_rows * (1 - cell.missing) >= MIN_ROWS for cell in found]
    gaps = [cell.missing for cell in found]
    apart = [i for i, gap in enumerate(gaps) if gap - min(gaps) > MISSING_APART]
    if apart:
        where = listed([f"{gaps[i]:.0%} of the rows in {sites[i]}" for i in apart], most=4)
        rest = min(range(len(gaps)), key=gaps.__getitem__)
        text = f"`{name}` is missing in {where}, but in {gaps[rest]:.0%} in {sites[rest]}."
        remarks += [(i, text) for i in apart]
    fixed = [i for i in range(len(found)) if known[i] and _is_oddly_constant(i, found, known)]
    for value in dict.fromkeys(found[i].constant for i in fixed):
        places = [i for i in fixed if found[i].constant == value]
        where = listed([sites[i] for i in places], most=4)
        remarks += [(i, f"`{name}` is always {value} in {where}, but varies elsewhere.") for i in places]
    for i, cell in enumerate(found):
        others = [other for j, other in enumerate(found) if j != i and known[j]]
        if not known[i] or i in fixed or not others:
            continue
        if cell.quartiles is not None:
            ranges = [other.quartiles for other in others if other.quartiles is not None]
            elsewhere = max((other.zeros for other in others), default=0.0)
            if cell.zeros >= ZERO_HERE and elsewhere <= ZERO_ELSEWHERE:
                text = f"`{name}` is 0 in {cell.zeros:.0%} of the rows in {sites[i]} and hardly anywhere else"
                remarks.append((i, f"{text}: does 0 mean missing?"))
            elif ranges and not cell.levels and _is_another_size(cell.quartiles, ranges):
                middles = [middle for _, middle, _ in ranges]
                text = (
                    f"`{name}` is of another size in {sites[i]} (median {cell.quartiles[1]:.3g}) than elsewhere "
                    f"({min(middles):.3g} to {max(middles):.3g}): check its unit."
                )
                remarks.append((i, text))
        elif cell.levels:
            seen = {level for other in others for level in other.levels}
            n_others = sum(other.n_rows * (1 - other.missing) for other in others)
            alone = {level: share for level, share in cell.levels.items() if level not in seen}
            own = [level for level, share in alone.items() if (1 - share) ** n_others < BY_CHANCE]
            if own and seen:
                what = listed([f"'{level}'" for level in own], most=3)
                remarks.append((i, f"`{name}` is {what} in {sites[i]} only."))
    return remarks


def _is_oddly_constant(site: int, found: Sequence[ColumnAtSite], known: Sequence[bool]) -> bool:
    """Return whether a column has one value at a site although the shares elsewhere make that very unlikely."""
    here = found[site]
    others = [cell for i, cell in enumerate(found) if i != site and known[i] and cell.constant is None]
    if here.constant is None or not others:
        return False
    share = min(cell.levels.get(here.constant, 0.0) for cell in others)
    return bool(share ** (here.n_rows * (1 - here.missing)) < BY_CHANCE)


def _is_another_size(here: tuple[float, float, float], others: Sequence[tuple[float, float, float]]) -> bool:
    """Return whether a site's middle half lies far from every other one's: a factor of 5, and no overlap."""
    low, middle, high = here
    apart = all(high < other_low or low > other_high for other_low, _, other_high in others)
    factors = [abs(middle) / abs(other) if other else np.inf for _, other, _ in others]
    return apart and (all(factor > 5 for factor in factors) or all(factor < 0.2 for factor in factors))
