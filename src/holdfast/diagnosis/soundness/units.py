"""Columns in another unit at some sites, and codes such as 999 for a missing value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from holdfast.diagnosis.soundness.table import (
    BY_CHANCE,
    FEW_VALUES,
    MIN_ROWS,
    CheckedTable,
    Floats,
    Problem,
    Severity,
    known_values,
    sampling_distance,
)

LEAST_SHIFT = np.log(1.5)  # ratio of medians, as a logarithm, from which on a unit is looked for
UNNAMED_SHIFT = np.log(3.0)  # the same for a factor that is no known unit
SLACK, SLACK_WIDTH = 0.02, 0.15  # differences that rounding explains: of two values, and of their middle half
MOST_BEYOND = 0.05  # share of converted numbers beyond those of the other sites
FAR = 0.4  # Kolmogorov distance between a site and the others that another unit makes at least
DISJOINT = 0.98  # such a distance of one column alone that only a mistake makes
MOSTLY_APART = 0.75  # a distance that is worth a look
ONE_SIGN = 0.95  # share of numbers of one sign that a column has by its nature
MOST_COMPARED = 2_000  # values of each side of such a distance
SENTINEL_ROWS, SENTINEL_SHARE = 3, 0.002  # rows of a code below 888; one of 888 or more needs no second row
PART_ROWS, PART_SHARE = 20, 0.1  # rows of a site, and their share, that can be in another unit than its others
TIMES_FAR, MOST_FAR = 100.0, 0.02  # size of a mistake against the largest of other numbers; share of such rows
_Odd = tuple[str, Severity, dict[str, Any]]  # key, severity and evidence of a problem


class Unit(NamedTuple):
    """Two units of one quantity: a value in the second is `factor` times that in the first, plus `offset`."""

    first: str
    second: str
    factor: float
    offset: float = 0.0

    @property
    def rule(self) -> str:
        """How `--scale` turns the first unit into the second."""
        return f"{self.factor:g}" + f"+{self.offset:g}" * bool(self.offset)

    @property
    def rule_back(self) -> str:
        """How `--scale` turns the second unit into the first."""
        return f"1/{self.factor:g}" + f"-{self.offset:g}/{self.factor:g}" * bool(self.offset)


UNITS = (
    Unit("kg", "lb", 2.20462),
    Unit("inch", "cm", 2.54),
    Unit("°C", "°F", 1.8, 32.0),
    Unit("°C", "K", 1.0, 273.15),
    Unit("ft", "cm", 30.48),
    Unit("mg/dL", "µmol/L (creatinine)", 88.4),
    Unit("mmol/L", "mg/dL (glucose)", 18.016),
    Unit("mmol/L", "mg/dL (cholesterol)", 38.67),
    Unit("mg/dL", "µmol/L (bilirubin)", 17.1),
    Unit("kPa", "mmHg", 7.50062),
    Unit("g/dL", "g/L", 10.0),
    Unit("years", "months", 12.0),
    Unit("hours", "minutes", 60.0),
    Unit("m", "cm", 100.0),
    Unit("g", "mg", 1000.0),
    Unit("weeks", "days", 7.0),
    Unit("years", "days", 365.25),
)
_DIGITS = [*(digit * n for n in range(1, 7) for digit in "98"), "99.9", "999.9", "9999.9", "99.99", "999.99"]
SENTINELS = tuple(sorted({-1.0, *(sign * float(text) for text in _DIGITS for sign in (1, -1))} - {8.0, -8.0}))


def check_units(table: CheckedTable) -> Iterator[Problem]:
    """Name columns that are in another unit at some sites, and columns that are exchanged there."""
    odd: dict[str, dict[str, _Odd]] = {}  # column -> site -> what its numbers are
    unusual: dict[str, set[str]] = {}  # column -> sites at which it has another size
    for name, values in table.numbers.items():
        here = {site.name: known for site in table.sites if len(known := known_values(values[site.rows])) >= MIN_ROWS}
        if len(here) < 2 or all(len(np.unique(known)) <= 2 for known in here.values()):
            continue
        usual = _usual_sites(here)
        if usual is not None:
            others = [here[site] for site in usual]
            asked = {site: (here[site], partial(_usual_distances, table, name, site, usual)) for site in here}
            found = {site: _other_unit(*asked[site], others) for site in here if site not in usual}
            odd[name] = {site: what for site, what in found.items() if what is not None}
            unusual[name] = set(found)
        if not odd.get(name):
            odd[name] = _units_of_parts(here)
    for problem in _exchanged(table, unusual):
        yield problem
        for name in (problem.column, problem.evidence["other"]):
            odd[name].pop(problem.sites[0], None)
    n_sizes = Counter(site for found_at in odd.values() for site, found in found_at.items() if found[0] == "size")
    for name, found_at in odd.items():
        alike: dict[tuple[str, str], list[str]] = {}  # sites with the same unit are one problem
        for site, (key, _, evidence) in found_at.items():
            alike.setdefault((key, evidence.get("unit", "")), []).append(site)
        for sites in alike.values():
            key, severity, evidence = found_at[sites[0]]
            if any(n_sizes[site] > 1 for site in sites):
                severity = "note"  # where several columns have other values that no unit explains, people differ
            options = ("--drop", name) * (severity != "note")
            if severity != "note" and (rule := evidence.get("rule")) and "share" not in evidence:
                options = tuple(word for site in sites for word in ("--scale", f"{name}@{site}={rule}"))
            yield Problem(key, severity, name, tuple(sites), evidence, options)


def _exchanged(table: CheckedTable, unusual: Mapping[str, set[str]]) -> Iterator[Problem]:
    """Name pairs of columns of which each has, at one site, the numbers of the other."""
    for site in table.sites:
        names = [name for name, sites in unusual.items() if site.name in sites]
        outside = np.ones(len(table.features), dtype=bool)
        outside[site.rows] = False
        for first, second in combinations(names, 2):
            (a, a_rest), (b, b_rest) = (
                (known_values(values[site.rows]), known_values(values[outside]))
                for values in (table.numbers[first], table.numbers[second])
            )
            are_far = min(_distance(a, a_rest), _distance(b, b_rest)) >= FAR
            if are_far and all(_distance(*pair) <= sampling_distance(*pair) for pair in ((a, b_rest), (b, a_rest))):
                both = ("--drop", first, "--drop", second)
                yield Problem("columns_exchanged", "repair", first, (site.name,), {"other": second}, both)
                break


def _units_of_parts(here: Mapping[str, Floats]) -> dict[str, _Odd]:
    """Return the sites at which some rows are in another unit: a gap lies between them and all other numbers."""
    found = {}
    for site, values in here.items():
        others = [other for name, other in here.items() if name != site]
        sizes, usual = np.abs(values), np.abs(np.concatenate(others))
        ratio = np.exp(LEAST_SHIFT)
        for part in (sizes > ratio * usual.max(), sizes < usual.min() / ratio):
            rest = np.concatenate([usual, sizes[~part]])
            if not max(PART_ROWS, PART_SHARE * len(values)) <= part.sum() < len(values):
                continue
            if sizes[part].min() > ratio * rest.max() or sizes[part].max() < rest.min() / ratio:
                what = _other_unit(values[part], list, others)
                if what is not None and what[0] == "unit":
                    found[site] = (*what[:2], {**what[2], "share": float(part.mean())})
    return found


def _usual_distances(table: CheckedTable, column: str, site: str, usual: Sequence[str]) -> list[float]:
    """Return how far the other columns of a site are from those at usual sites: of a site of another kind, far."""
    rows = {one.name: one.rows for one in table.sites}
    pairs = [
        (known_values(values[rows[site]]), known_values(values[np.concatenate([rows[one] for one in usual])]))
        for name, values in table.numbers.items()
        if name != column
    ]
    return [_distance(here, rest) for here, rest in pairs if min(len(here), len(rest)) >= MIN_ROWS]


def _middle(values: Floats) -> float:
    """Return the logarithm of the median size of the numbers that are not 0; NaN where all are."""
    sizes = np.abs(values[values != 0])
    return float(np.log(np.median(sizes))) if len(sizes) else float("nan")


def _sign(values: Floats) -> int:
    """Return 1 or -1 where nearly all numbers that are not 0 have this sign, else 0."""
    known = values[values != 0]
    return int((known > 0).mean() >= ONE_SIGN) - int((known < 0).mean() >= ONE_SIGN) if len(known) else 0


def _usual_sites(here: Mapping[str, Floats]) -> list[str] | None:
    """Return the sites at which a column has its usual size: half of them or more, around one of them."""
    middles = {site: (_middle(values), _sign(values)) for site, values in here.items()}
    near = {
        site: [
            o for o, (other, its) in middles.items() if abs(other - middle) < LEAST_SHIFT and its != -sign or o == site
        ]
        for site, (middle, sign) in middles.items()
    }
    if all(len(group) == len(here) for group in near.values()):
        return None
    best = max(near.values(), key=lambda group: (len(group), sum(len(here[site]) for site in group)))
    return best if len(best) >= len(here) / 2 else None


def _other_unit(here: Floats, of_columns: Callable[[], list[float]], others: Sequence[Floats]) -> _Odd | None:
    """Return what a site's numbers are to the others': another unit, a factor, or a size that no factor explains.

    `of_columns` returns how far the site's other columns are from those elsewhere. A unit must stand out against their
    median, and what fits no known unit against all of them.
    """
    rest = np.concatenate(others)
    if not len(rest[rest != 0]) or not len(here[here != 0]):
        return None
    apart = _distance(here, rest)
    if apart < FAR:
        return None
    natural = [_distance(part, np.concatenate([o for o in others if o is not part])) for part in others if others[1:]]
    bound = max(1.2 * max(natural, default=0.0) + 0.05, sampling_distance(here, rest))
    medians = {"median": float(np.median(here)), "median_elsewhere": float(np.median(rest))}
    columns = of_columns()
    if apart < 2 * max(bound, float(np.median(columns)) if len(columns) > 1 else 0.0):
        return None

    def misfit(converted: Floats) -> float:
        slack = SLACK * np.abs(converted)
        beyond = np.mean((converted - slack > rest.max()) | (converted + slack < rest.min()))
        return _distance(converted, rest) if beyond <= MOST_BEYOND else 1.0

    tried = [
        (misfit((here - unit.offset) / unit.factor), unit.factor, unit.second, unit.first, unit.rule_back)
        for unit in UNITS
    ] + [
        (misfit(here * unit.factor + unit.offset), 1 / unit.factor, unit.first, unit.second, unit.rule)
        for unit in UNITS
    ]
    distance, factor, unit, usual, rule = min(tried)
    if distance <= bound:
        units = {"unit": unit, "unit_elsewhere": usual, "affine": "+" in rule or "-" in rule, "rule": rule}
        evidence: dict[str, Any] = {"factor": factor, **units, **medians}
        return "unit", "repair", evidence
    shift, is_alone = _middle(here) - _middle(rest), max(columns, default=0.0) < FAR
    if is_alone and abs(shift) >= UNNAMED_SHIFT and misfit(here / np.exp(shift)) <= bound:
        return "factor", "repair", {"factor": float(np.exp(shift)), **medians}
    is_disjoint = _distance(here, rest, rounded=False) >= DISJOINT
    if not is_disjoint and (apart < MOSTLY_APART or abs(shift) < np.log(5)):
        return None
    ends = {"low": here.min(), "high": here.max(), "usual_low": rest.min(), "usual_high": rest.max()}
    severity: Severity = "repair" if is_disjoint and is_alone else "note"
    return "size", severity, {name: float(value) for name, value in ends.items()}


def _distance(a: Floats, b: Floats, *, rounded: bool = True) -> float:
    """Return Kolmogorov's distance of two samples, values that differ by `rounded` numbers alone taken for equal."""
    a, b = (np.sort(_thinned(values)) for values in (a, b))
    points = np.concatenate([a, b])
    width = SLACK_WIDTH * max(float(np.subtract(*np.quantile(b, (0.75, 0.25)))), 1e-12)
    slack = np.minimum(SLACK * np.abs(points), width) * rounded
    found = []
    for first, second in ((a, b), (b, a)):
        more = np.searchsorted(first, points - slack, side="right") / len(first)
        less = np.searchsorted(second, points + slack, side="right") / len(second)
        found.append(float((more - less).max()))
    return max(0.0, *found)


def _thinned(values: Floats) -> Floats:
    """Return at most so many values, evenly spaced in their order."""
    if len(values) <= MOST_COMPARED:
        return values
    return np.quantile(values, (np.arange(MOST_COMPARED) + 0.5) / MOST_COMPARED, method="nearest")


def check_sentinels(table: CheckedTable) -> Iterator[Problem]:
    """Name numbers that stand for a missing value: 999 or -9, or one far below all others."""
    for name, values in table.numbers.items():
        levels, counts = np.unique(known_values(values), return_counts=True)
        codes = np.isin(levels, SENTINELS)
        rest, n_rest = levels[~codes], int(counts[~codes].sum())
        for value, n_value in zip(levels[codes], counts[codes], strict=True):
            usual = levels[(levels != value) & ~(codes & (np.abs(levels) >= 77))]
            usual = usual if abs(value) >= 77 else rest
            least = 1.0 if abs(value) >= 888 else max(SENTINEL_ROWS, SENTINEL_SHARE * len(values))
            if n_value >= least and n_rest >= FEW_VALUES and _stands_apart(float(value), usual):
                yield _sentinel(table, name, float(value), usual, ("--missing", f"{value:.10g}"))
                break
        else:
            if len(levels) > FEW_VALUES and counts[0] >= max(SENTINEL_ROWS, SENTINEL_SHARE * len(values)):
                usual = levels[1:]
                if usual[0] - levels[0] > usual[-1] - usual[0]:
                    found = _sentinel(table, name, float(levels[0]), usual, ("--drop", name))
                    n_without = sum(len(site) for site in table.sites if site.name not in found.evidence["shares"])
                    is_none = levels[0] == 0 and (1 - counts[0] / counts.sum()) ** n_without >= BY_CHANCE
                    yield replace(found, severity="note", options=()) if is_none else found  # 0 may mean none


def _sentinel(table: CheckedTable, name: str, value: float, usual: Floats, options: tuple[str, str]) -> Problem:
    shares = {site.name: float((table.numbers[name][site.rows] == value).mean()) for site in table.sites}
    where = tuple(site for site, share in shares.items() if share > 0)
    evidence = {
        "value": value,
        "n_rows": int((table.numbers[name] == value).sum()),
        "shares": {site: shares[site] for site in where},
        "low": float(usual.min()),
        "high": float(usual.max()),
    }
    return Problem("sentinel", "repair", name, where if len(where) < len(table.sites) else (), evidence, options)


def check_far_values(table: CheckedTable) -> Iterator[Problem]:
    """Name a few numbers that are a hundred times as large as all others."""
    for name, values in table.numbers.items():
        sizes = np.sort(np.abs(known_values(values)))
        first = len(sizes) - int(MOST_FAR * len(sizes))  # more of them are no mistakes of a few rows
        if len(np.unique(sizes[:first])) < MIN_ROWS:
            continue
        jumps = np.flatnonzero(sizes[first:] > TIMES_FAR * sizes[first - 1 : -1])
        if not len(jumps):
            continue
        far = np.abs(values) >= sizes[first + jumps[0]]
        where = tuple(site.name for site in table.sites if far[site.rows].any())
        numbers, rest = values[far], known_values(values[~far])
        ranges = {"low": float(numbers.min()), "high": float(numbers.max())}
        usual = {"usual_low": float(rest.min()), "usual_high": float(rest.max())}
        named = where if len(where) < len(table.sites) else ()
        yield Problem("far_values", "repair", name, named, {"n_rows": int(far.sum()), **ranges, **usual})


def _stands_apart(value: float, usual: Floats) -> bool:
    """Return whether a code lies beyond all other values: below zero alone, or above them by more than their range."""
    if len(usual) < 3:
        return False
    low, high = float(usual.min()), float(usual.max())
    if value < 0:
        return low >= 0 and len(usual) >= (10 if value == -1 else 4)
    wide = 0.5 if value >= 888 else 1.0
    return value - high > wide * (high - low) and value > high + 1
