"""Columns that look different at one site (gaps, zeros, constants, levels), and sites with few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast.diagnosis.soundness.table import (
    BY_CHANCE,
    FEW_VALUES,
    INDICATOR,
    MIN_ROWS,
    MOST_COLUMNS,
    SMALL_CLASS,
    SMALL_SITE,
    CheckedTable,
    Problem,
    same_word,
    sampling_distance,
)
from holdfast.environments import Environment

if TYPE_CHECKING:
    import pandas as pd

SAME_WORDS = 0.95  # share of rows with levels of this site alone, or of the others, where a site writes them otherwise
MISSING_APART = 0.3  # shares of missing values that differ by more are worth a look
ZERO_HERE, ZERO_ELSEWHERE = 0.2, 0.01  # shares of zeros that suggest that 0 stands for "missing"


@dataclass(frozen=True)
class _Cell:
    """A column at a site, in numbers."""

    n_known: int
    missing: float
    zeros: float
    frequent: tuple[float, float]  # the most frequent of many numbers, and its share
    numbers: NDArray[Any]
    levels: Mapping[str, float] | None  # share of each value; None for numbers of many values
    is_number: bool

    @property
    def constant(self) -> str | None:
        return next(iter(self.levels)) if self.levels is not None and len(self.levels) == 1 else None


def check_looks(table: CheckedTable) -> Iterator[Problem]:
    """Name gaps, zeros, constants and levels of some sites only."""
    names = [str(name) for name in table.features.columns[:MOST_COLUMNS]]
    cells = {name: [_cell(table.features[name].iloc[site.rows]) for site in table.sites] for name in names}
    sizes = [len(site) for site in table.sites]
    gaps = {name: [cell.missing for cell in found] for name, found in cells.items()}
    flags = {}
    for name in names:  # a 1 in `ca is missing` is a missing value of `ca`
        behind = INDICATOR.fullmatch(name)
        if behind and all(set(cell.levels or {"?"}) <= {"0", "1"} for cell in cells[name]):
            flags[name] = behind["column"]
            shares = [(cell.levels or {}).get("1", 0.0) for cell in cells[name]]
            known = gaps.get(behind["column"], [0.0] * len(shares))
            gaps[behind["column"]] = [max(pair) for pair in zip(shares, known, strict=True)]
    sites = [site.name for site in table.sites]
    for name in names:
        if name in flags and flags[name] in cells:
            continue  # said of the column itself
        told = flags.get(name, name)
        yield from _gaps(name, told, gaps[told], table.sites)
        if name not in flags and name not in table.texts:
            filled = [
                replace(cell, n_known=min(cell.n_known, round(size * (1 - gap))))
                for cell, size, gap in zip(cells[name], sizes, gaps[told], strict=True)
            ]
            yield from _unlike(name, filled, sites)


def _cell(values: pd.Series[Any]) -> _Cell:
    import pandas as pd

    known = values.dropna()
    missing = 1 - len(known) / max(len(values), 1)
    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if is_number:
        numbers = known.to_numpy(dtype=np.float64)
        found, counts = np.unique(numbers, return_counts=True)
        levels = None
        if len(found) <= FEW_VALUES:
            levels = {f"{value:.10g}": float(n / len(numbers)) for value, n in zip(found, counts, strict=True)}
        zeros = float((numbers == 0).mean()) if len(numbers) else 0.0
        frequent = (float(found[counts.argmax()]), float(counts.max() / len(numbers))) if levels is None else (0.0, 0.0)
        return _Cell(len(known), missing, zeros, frequent, numbers, levels, is_number=True)
    shares = known.astype(str).value_counts(normalize=True)
    levels = dict(zip(shares.index, map(float, shares), strict=True))
    return _Cell(len(known), missing, 0.0, (0.0, 0.0), np.empty(0), levels, is_number=False)


def _gaps(name: str, told: str, gaps: Sequence[float], environments: Sequence[Environment]) -> Iterator[Problem]:
    """Name the sites at which a column is missing much more often than at another one, and not by chance."""
    sites, sizes = [site.name for site in environments], [len(site) for site in environments]
    pooled = float(np.average(gaps, weights=sizes))
    apart = [place for place, gap in enumerate(gaps) if gap - min(gaps) > MISSING_APART]
    errors = np.sqrt(pooled * (1 - pooled) * (1 / np.array(sizes) + 1 / sizes[int(np.argmin(gaps))]))
    limit = -special.ndtri(BY_CHANCE / len(gaps) ** 2)  # any pair of sites
    apart = [place for place in apart if gaps[place] - min(gaps) > limit * errors[place]]
    if apart:
        ordered = sorted(apart, key=lambda place: -gaps[place])
        least = min(range(len(gaps)), key=gaps.__getitem__)
        shares = {sites[place]: gaps[place] for place in ordered}
        evidence = {"column": told, "shares": shares, "least": gaps[least], "least_site": sites[least]}
        yield Problem("gaps", "note", name, tuple(sites[place] for place in ordered), evidence)


def _unlike(name: str, cells: Sequence[_Cell], sites: Sequence[str]) -> Iterator[Problem]:
    """Yield zeros that may be gaps, constants, and levels of one site."""
    judged = [place for place, cell in enumerate(cells) if cell.n_known >= MIN_ROWS]
    for place in judged:
        others = [cells[other] for other in judged if other != place]
        if others and (moved := _moved_by(cells[place], others)):
            usual = sorted({float(level) for other in others for level in other.levels or ()})
            codes = {"levels": sorted(map(float, cells[place].levels or ())), "elsewhere": usual}
            rule = f"{name}@{sites[place]}=1{-moved:+d}"
            yield Problem("codes_moved", "repair", name, (sites[place],), codes, ("--scale", rule))
            return
    zeros = [p for p in judged if cells[p].zeros >= ZERO_HERE and set(cells[p].levels or ()) != {"0", "1"}]
    if 0 < len(zeros) < len(judged) and all(cells[p].zeros <= ZERO_ELSEWHERE for p in judged if p not in zeros):
        ordered = sorted(zeros, key=lambda place: -cells[place].zeros)
        shares = {sites[place]: cells[place].zeros for place in ordered}
        yield Problem("zeros", "note", name, tuple(shares), {"shares": shares})
        judged = [place for place in judged if place not in zeros]
    elif found := _frequent_at_one(cells, judged):
        place, number, share = found
        yield Problem("frequent_value", "note", name, (sites[place],), {"value": number, "share": share})
    fixed = [place for place in judged if _is_oddly_constant(place, cells, judged)]
    for constant in dict.fromkeys(cells[place].constant for place in fixed):
        places = tuple(sites[place] for place in fixed if cells[place].constant == constant)
        yield Problem("constant", "note", name, places, {"value": constant})
    if _tell_sites(cells, judged):
        yield Problem(
            "levels_of_sites", "note", name, (), {"n_levels": sum(len(cells[p].levels or ()) for p in judged)}
        )
        return
    for place in judged:
        others = [cells[other] for other in judged if other != place]
        cell = cells[place]
        if place in fixed or not others or cell.is_number or cell.levels is None:
            continue
        own = _own_levels(cell, others, len(judged))
        if own and _are_other_words(cell, others, own):
            used = Counter(level for other in others for level in other.levels or {})
            words = {"levels": list(own), "elsewhere": [level for level, _ in used.most_common()]}
            yield Problem("levels_written_otherwise", "repair", name, (sites[place],), words, ("--drop", name))
        elif own:
            evidence = {"levels": list(own), "share": sum(own.values())}
            yield Problem("level_of_one_site", "note", name, (sites[place],), evidence)


def _frequent_at_one(cells: Sequence[_Cell], judged: Sequence[int]) -> tuple[int, float, float] | None:
    """Return the one site at which a number is frequent that hardly occurs elsewhere, the number and its share."""
    for place in judged:
        value, share = cells[place].frequent
        if share < ZERO_HERE:
            continue
        elsewhere = [float((cells[other].numbers == value).mean()) for other in judged if other != place]
        if elsewhere and max(elsewhere) <= ZERO_ELSEWHERE:
            return place, value, share
    return None


def _tell_sites(cells: Sequence[_Cell], judged: Sequence[int]) -> bool:
    """Return whether every site has several values, of a category, that no other one has."""
    levels = [set(cells[place].levels or ()) for place in judged if not cells[place].is_number]
    several = len(levels) > 2 and all(len(here) > 1 for here in levels)
    return several and sum(map(len, levels)) == len(set().union(*levels))


def _is_oddly_constant(place: int, cells: Sequence[_Cell], judged: Sequence[int]) -> bool:
    """Return whether a column has one value at a site although its share elsewhere makes that very unlikely."""
    here, others = cells[place], [cells[other] for other in judged if other != place]
    if here.constant is None or not others or all(cell.constant is not None for cell in others):
        return False
    sizes = [cell.n_known for cell in others]
    share = float(np.average([(cell.levels or {}).get(here.constant, 0.0) for cell in others], weights=sizes))
    return bool(share**here.n_known < BY_CHANCE / len(cells))  # any of the sites


def _own_levels(cell: _Cell, others: Sequence[_Cell], n_sites: int) -> dict[str, float]:
    """Return the levels, with their shares, that a site has alone and not by chance."""
    seen = {level for other in others for level in other.levels or ()}
    alone = {level: share for level, share in (cell.levels or {}).items() if level not in seen}
    if not seen or not alone:
        return {}
    by_chance = BY_CHANCE / (n_sites * len(seen | alone.keys()))  # any level, at any of the sites
    here = cell.n_known / (cell.n_known + sum(other.n_known for other in others))
    return {level: share for level, share in alone.items() if here ** (share * cell.n_known) < by_chance}


def _moved_by(cell: _Cell, others: Sequence[_Cell]) -> int:
    """Return 1 or -1 where the codes of a site are those of the others plus that, and as frequent; else 0."""
    if not cell.is_number or cell.levels is None or any(other.levels is None for other in others):
        return 0
    numbers = np.concatenate([other.numbers for other in others])
    codes, counts = np.unique(numbers, return_counts=True)
    if np.isin(cell.numbers, codes).all():
        return 0
    for moved, lost in ((1, 0), (-1, -1)):
        here = cell.numbers - moved
        is_lost = (1 - counts[lost] / len(numbers)) ** cell.n_known < BY_CHANCE and codes[lost] not in cell.numbers
        if is_lost and np.isin(here, codes).all():
            shares = [np.searchsorted(np.sort(part), codes, side="right") / len(part) for part in (here, numbers)]
            if np.abs(np.subtract(*shares)).max() <= sampling_distance(here, numbers):
                return moved
    return 0


def _are_other_words(cell: _Cell, others: Sequence[_Cell], own: Mapping[str, float]) -> bool:
    """Return whether a site has several levels, all its own, and every other site has the levels of the rest."""
    if len(own) < 2 or sum(own.values()) < SAME_WORDS or len(others) < 2:
        return False
    for other in others:
        rest = {level for one in others if one is not other for level in one.levels or {}}
        shared = [share for level, share in (other.levels or {}).items() if level in rest]
        if len(shared) < 2 or sum(shared) < SAME_WORDS:
            return False
    return True


def check_site_spelling(table: CheckedTable) -> Iterator[Problem]:
    """Name sites that are written in several ways."""
    spelled: dict[str, list[str]] = {}
    for site in table.sites:
        spelled.setdefault(same_word(site.name), []).append(site.name)
    for names in spelled.values():
        if len(names) > 1:
            yield Problem("site_spelling", "stop", sites=tuple(names))


def check_small_sites(table: CheckedTable) -> Iterator[Problem]:
    """Name sites with too few rows, or too few of a class, to say anything alone."""
    _, classes = table.codes
    sizes = table.counts.sum(axis=1)
    rarer = table.counts.min(axis=1) if len(classes) == 2 else sizes
    small = [place for place in range(len(sizes)) if sizes[place] < SMALL_SITE or 0 < rarer[place] < SMALL_CLASS]
    if small:
        evidence = {"n_rows": [int(sizes[place]) for place in small], "n_rarer": [int(rarer[place]) for place in small]}
        yield Problem("small_site", "note", "", tuple(table.sites[place].name for place in small), evidence)
