"""Is the table sound? Checks that come before any verdict.

Each check looks for one kind of mistake and returns `Problem` values: what it is (a stable key), where it is, the
numbers that show it, and the options of a command that mend it. The sentences are in `holdfast.diagnosis.words`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from holdfast.environments import Environment, Rows, split_environments
from holdfast.exceptions import LabelsError
from holdfast.seeding import Seeding

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Severity = Literal["stop", "repair", "note"]
SEVERITIES: tuple[Severity, ...] = ("stop", "repair", "note")

BY_CHANCE = 0.001  # smaller probabilities are not taken for chance
MIN_ROWS = 10  # values that a site needs before it is compared with others
MOST_COLUMNS = 200  # of a wide table, compared between sites
MOST_VALUES, MOST_LEAKS = 2_000_000, 2_000  # rows times columns, and columns, that are searched for leaks
FEW_VALUES = 20  # numbers with at most so many different values are counted one by one

LEAST_LABELED, LEAST_RARE = 50, 20  # rows, and rows outside the most frequent class, that a leak needs
TELLS, NEARLY_TELLS = 0.999, 0.97  # share of rows whose label one column tells
TIMES_BETTER = 2.5  # errors of the best other column, against those of a near leak
PURE, PURE_ROWS, PURE_SHARE = 0.995, 30, 0.1  # of one class: a level's rows, how many, and their share of the class

LEAST_SHIFT = np.log(1.5)  # ratio of medians, as a logarithm, from which on a unit is looked for
UNNAMED_SHIFT = np.log(3.0)  # the same for a factor that is no known unit
SLACK, SLACK_WIDTH = 0.02, 0.15  # differences that rounding explains: of two values, and of their middle half
FAR = 0.4  # Kolmogorov distance between a site and the others that another unit makes at least
MOST_COMPARED = 2_000  # values of each side of such a distance

SENTINEL_ROWS, SENTINEL_SHARE = 3, 0.002
LEAST_IDENTIFIED = 100  # rows from which on distinct numbers are taken for identifiers
LEAST_TEXTS, DISTINCT_TEXTS = 50, 0.9  # rows and share of different texts of an identifier
NAMED_DISTINCT = 0.2  # share of different values of a column that is called an identifier
COPIED = 0.02  # share of rows that are copies of another one
MOST_TWINS = 5  # pairs for each row that agree in half of the columns: more are due to few values
SMALL_SITE, SMALL_CLASS = 30, 5  # rows of a site, and of its rarer class, below which it says little alone
MISSING_APART = 0.3  # shares of missing values that differ by more are worth a look
ZERO_HERE, ZERO_ELSEWHERE = 0.2, 0.01  # shares of zeros that suggest that 0 stands for "missing"
EFFECT, EFFECT_HERE = 3.0, 2.0  # standard errors of a column's correlation with the label, elsewhere and at a site
REVERSED, REVERSED_CHANCE = 0.4, 0.02  # AUROC at most, where labels are exchanged, and the chance of such a one
WITHOUT_ONE = -1.3  # standard errors of the AUROC from one half, without the column that is reversed most
RELATED = 0.5  # correlation of columns that may be reversed together
MOST_CELLS = 5_000_000  # rows times columns that are searched for near copies
NEARLY_SAME, SAMPLED_PAIRS = 0.999, 5_000  # correlation of columns that are nearly copies, and rows it is measured in

INDICATOR = re.compile(r"(?P<column>.+?)(?: is |[ _=.])(?:missing|isna|isnull)", re.IGNORECASE)  # `ca is missing`
IDENTIFIER = re.compile(
    r"(?:.*[ _.-])?(?:id|ids|uuid|guid|mrn|nr|no|number|key|patient|subject|case|record|row|index|name)", re.IGNORECASE
)
CAMEL_ID = re.compile(r".*[a-z](?:ID|Id|Nr|No)")  # patientID


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
SENTINELS = tuple(
    sorted({-1.0, *(sign * float(digit * n) for n in range(1, 7) for digit in "98" for sign in (1, -1))} - {8.0, -8.0})
)


@dataclass(frozen=True)
class Problem:
    """Something that makes a table's figures wrong or doubtful.

    Attributes
    ----------
    key : str
        What it is: one of `KEYS`.
    severity : "stop", "repair" or "note"
        Whether all figures are wrong, those of a column are, or it is only worth a look. The first two are a headline.
    column : str
        Empty where it is not about one column.
    sites : tuple of str
        Where it is; empty for the whole table.
    evidence : mapping
        The numbers and values that show it.
    options : tuple of str
        Words of a command that mend it, such as ``("--drop", "id")``; empty where the file must be mended.
    """

    key: str
    severity: Severity
    column: str = ""
    sites: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict, hash=False)
    options: tuple[str, ...] = ()

    @property
    def is_headline(self) -> bool:
        """Whether it comes before any verdict."""
        return self.severity != "note"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "key": self.key,
            "severity": self.severity,
            "column": self.column,
            "sites": list(self.sites),
            "evidence": dict(self.evidence),
            "options": list(self.options),
        }


@dataclass(frozen=True, eq=False)
class _Checked:
    """A table as the checks see it."""

    features: pd.DataFrame
    sites: tuple[Environment, ...]
    labels: NDArray[Any] | None  # (n_rows,) text
    scores: Floats | None  # (n_rows,) of the second class, from models of other sites
    texts: frozenset[str]  # columns of prose

    @cached_property
    def numbers(self) -> dict[str, Floats]:
        """The columns of numbers, of a wide table the first ones; missing values are NaN."""
        import pandas as pd

        first = self.features.iloc[:, :MOST_COLUMNS]
        return {
            str(name): values.to_numpy(dtype=np.float64, na_value=np.nan)
            for name, values in first.items()
            if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        }

    @cached_property
    def levels(self) -> dict[str, pd.Series[Any]]:
        """The columns of categories, of a wide table the first ones."""
        first = self.features.iloc[:, :MOST_COLUMNS]
        return {str(name): values for name, values in first.items() if str(name) not in self.numbers}

    @cached_property
    def codes(self) -> tuple[Rows, NDArray[Any]]:
        """The place of each row's class, and the classes."""
        assert self.labels is not None
        classes, codes = np.unique(self.labels, return_inverse=True)
        return codes, classes

    @cached_property
    def hashes(self) -> NDArray[np.uint64] | None:
        """A number for each cell that equal cells share, the label last; None where columns or rows are few."""
        import pandas as pd

        features = self.features.iloc[:, :MOST_COLUMNS]
        varying = [place for place in range(features.shape[1]) if features.iloc[:, place].nunique(dropna=False) > 1]
        if len(varying) < 3 or len(features) < LEAST_LABELED:
            return None
        hashes = [pd.util.hash_pandas_object(features.iloc[:, place], index=False).to_numpy() for place in varying]
        return np.column_stack([*hashes, self.codes[0].astype(np.uint64)] if self.labels is not None else hashes)

    @cached_property
    def copies(self) -> Rows | None:
        """A number for each row that copies share; None where hardly any row is a copy."""
        columns = self.hashes
        if columns is None:
            return None
        groups = _row_numbers(columns)
        n_copies = len(groups) - len(np.unique(groups))
        enough = n_copies >= max(3, COPIED * len(groups))
        return groups if enough and _are_copies(columns, _n_pairs(groups)) else None

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """Rows by site and class, (n_sites, n_classes)."""
        codes, classes = self.codes
        return np.array([np.bincount(codes[site.rows], minlength=len(classes)) for site in self.sites])


def check_table(
    features: pd.DataFrame,
    y: Any,
    environments: Any,
    *,
    scores: Any = None,
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
    scores : array of shape (n_rows,), optional
        Probabilities of the second of two classes, each from a model that has not seen the row's site. Without them,
        a sum of the columns, weighted by their effects at other sites, stands in.
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
    table = _Checked(
        features,
        split_environments(environments, len(features)),
        None if y is None else _as_texts(y),
        None if scores is None else np.asarray(scores, dtype=np.float64),
        frozenset(texts),
    )
    checks = [*(LABEL_CHECKS if y is not None else ()), *COLUMN_CHECKS]
    return _worst_first([problem for check in checks for problem in check(table)])


def find_leaks(features: pd.DataFrame, y: Any) -> tuple[Problem, ...]:
    """Return the columns that predict the label too well to be true: alone, by their gaps, or by single levels.

    Of many rows a sample is looked at, of many columns the first.

    Parameters
    ----------
    features : DataFrame of shape (n_rows, n_columns)
    y : labels of shape (n_rows,)
    """
    labels = _as_texts(y)
    sites = (Environment("all", np.arange(len(labels))),)
    return tuple(_leaks(_Checked(features, sites, labels, None, frozenset())))


def _as_texts(y: Any) -> NDArray[Any]:
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


# Labels


def _label_codes(table: _Checked) -> Iterator[Problem]:
    """Name sites whose labels are written in another way, and labels of one site only."""
    _, classes = table.codes
    present = table.counts > 0
    n_rows = table.counts.sum()
    spelled: dict[str, list[int]] = {}
    for code, name in enumerate(classes):
        spelled.setdefault(" ".join(str(name).split()).casefold(), []).append(code)
    alike = {code for group in spelled.values() if group[1:] for code in group}
    for group in (group for group in spelled.values() if group[1:]):
        odd = min(group, key=lambda code: int(table.counts[:, code].sum()))
        sites = tuple(site.name for site, here in zip(table.sites, present[:, odd], strict=True) if here)
        usual = max(group, key=lambda code: int(table.counts[:, code].sum()))
        spellings = {"labels": [str(classes[odd])], "elsewhere": [str(classes[usual])]}
        yield Problem("label_spelling", "stop", sites=sites, evidence=spellings)
    if len(table.sites) < 2:
        return
    for place, site in enumerate(table.sites):
        others = np.delete(present, place, axis=0).any(axis=0)
        own = [code for code in np.flatnonzero(present[place] & ~others) if code not in alike]
        n_own, n_here = int(table.counts[place, own].sum()), int(table.counts[place].sum())
        if not own or (n_here / n_rows) ** n_own * len(table.sites) * len(classes) >= BY_CHANCE:
            continue
        all_own = len(own) == present[place].sum() and others.any()
        if all_own and len(table.sites) == 2 and place == 0 and n_here >= n_rows - n_here:
            continue  # of two sites, the smaller one is named
        elsewhere = [str(classes[code]) for code in np.flatnonzero(others)]
        evidence: dict[str, Any] = {"labels": [str(classes[code]) for code in own], "elsewhere": elsewhere}
        evidence["n_rows"] = n_own
        evidence["n_rows"] = n_own
        yield Problem("label_codes" if all_own else "label_of_one_site", "stop", sites=(site.name,), evidence=evidence)
        if all_own and len(table.sites) == 2:
            return


def _one_class(table: _Checked) -> Iterator[Problem]:
    """Name sites with one class only, where that is no chance."""
    _, classes = table.codes
    total = table.counts.sum(axis=0)
    for site, here in zip(table.sites, table.counts, strict=True):
        rest = total - here
        if (here > 0).sum() != 1 or not (rest > 0).sum() > 1:
            continue
        code = int(here.argmax())
        share = rest[code] / rest.sum()
        if share ** here[code] * len(table.sites) < BY_CHANCE and share > 0:
            evidence = {"label": str(classes[code]), "share_elsewhere": float(share), "n_rows": int(here[code])}
            yield Problem("one_class", "stop", sites=(site.name,), evidence=evidence)


def _exchanged(table: _Checked) -> Iterator[Problem]:
    """Name sites at which the two labels look exchanged: every column that tells the label there tells the opposite."""
    codes, classes = table.codes
    if len(classes) != 2 or len(table.sites) < 2:
        return
    columns = _standardized_columns(table)
    sizes = np.array([len(site) for site in table.sites])
    usable = (table.counts.min(axis=1) >= SMALL_CLASS) & (sizes >= MIN_ROWS)
    if usable.sum() < 2 or columns.shape[1] < 2:
        return
    effects = np.array([_correlations(columns[site.rows], codes[site.rows]) for site in table.sites])
    weights = np.where(usable, sizes - 3.0, 0.0)
    found = []
    for place in np.flatnonzero(usable):
        others = np.where(np.arange(len(sizes)) == place, 0.0, weights)
        elsewhere = others @ effects / others.sum()
        strong = np.abs(elsewhere) * np.sqrt(others.sum()) > EFFECT
        here = effects[place] * np.sign(elsewhere) * np.sqrt(weights[place])
        n_reversed, n_alike = int((here[strong] < -EFFECT_HERE).sum()), int((here[strong] > EFFECT_HERE).sum())
        rows = table.sites[place].rows
        weighted = columns[rows] * (elsewhere * strong)
        area, z = _auroc_and_z(codes[rows], weighted.sum(axis=1) if table.scores is None else table.scores[rows])
        is_low = area <= REVERSED and stats.norm.cdf(z) * len(sizes) < REVERSED_CHANCE
        if is_low and not n_alike and _is_reversed_without_one(weighted, here * strong, codes[rows]):
            found.append((table.sites[place].name, area, n_reversed))
    if 0 < len(found) <= len(table.sites) / 2 or len(table.sites) == 2 == len(found):
        evidence = {"auroc": [area for _, area, _ in found], "n_columns": [n for _, _, n in found]}
        yield Problem("labels_exchanged", "stop", sites=tuple(name for name, _, _ in found), evidence=evidence)


def _is_reversed_without_one(weighted: Floats, here: Floats, codes: Rows) -> bool:
    """Return whether the ranking is upside down without the column that is reversed most, and those related to it.

    One column that is turned at a site does not mean that the labels are.
    """
    most = int(np.argmin(here))
    spread = weighted.std(axis=0)
    used = spread > 0
    related = np.zeros(len(here), bool)
    related[used] = (
        np.abs(np.corrcoef(weighted[:, used], rowvar=False).reshape(used.sum(), -1))[int(used[:most].sum())] > RELATED
    )
    rest = weighted[:, used & ~related]
    return bool(rest.shape[1] and _auroc_and_z(codes, rest.sum(axis=1))[1] < WITHOUT_ONE)


def _standardized_columns(table: _Checked) -> Floats:
    """Return numbers and the most frequent levels, with mean 0 and variance 1 at each site, (n_rows, n_columns)."""
    parts = list(table.numbers.values())
    for values in table.levels.values():
        if (frequent := values.value_counts().index[:5]).size:
            parts += [(values == level).to_numpy(dtype=np.float64) for level in frequent]
    columns = np.column_stack(parts) if parts else np.zeros((len(table.features), 0))
    for site in table.sites:
        here = columns[site.rows]
        known = ~np.isnan(here)
        mean = np.where(known, here, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centered = np.where(known, here - mean, 0.0)
        spread = np.sqrt((centered**2).mean(axis=0))
        columns[site.rows] = np.where(spread > 1e-12, centered / np.where(spread > 1e-12, spread, 1.0), 0.0)
    return columns


def _correlations(columns: Floats, codes: Rows) -> Floats:
    """Return Fisher's z of each standardized column's correlation with the class."""
    spread = codes.std()
    if not spread:
        return np.zeros(columns.shape[1])
    found = columns.T @ (codes - codes.mean()) / (spread * len(codes))
    return np.asarray(np.arctanh(np.clip(found, -0.999, 0.999)), dtype=np.float64)


def _auroc_and_z(codes: Rows, scores: Floats) -> tuple[float, float]:
    """Return the area under the ROC curve and its distance from one half in standard errors (Mann and Whitney)."""
    n_1 = int(codes.sum())
    n_0 = len(codes) - n_1
    area = (stats.rankdata(scores)[codes == 1].sum() - n_1 * (n_1 + 1) / 2) / (n_1 * n_0)
    return float(area), float((area - 0.5) / np.sqrt((n_1 + n_0 + 1) / (12 * n_1 * n_0)))


# Leaks


def _leaks(table: _Checked) -> Iterator[Problem]:
    """Name columns that predict the label too well to be true."""
    codes, classes = table.codes
    totals = np.bincount(codes, minlength=len(classes))
    n_rows = len(codes)
    if n_rows < LEAST_LABELED or len(classes) > FEW_VALUES or n_rows - totals.max() < LEAST_RARE:
        return
    features = table.features.iloc[:, :MOST_LEAKS]
    if table.copies is not None:  # a copy tells the label of its twin
        _, first = np.unique(table.copies, return_index=True)
        features, codes, n_rows = features.iloc[first], codes[first], len(first)
    n_sampled = max(MOST_VALUES // max(features.shape[1], 1), 10 * LEAST_LABELED)
    if n_sampled < n_rows:
        rows = np.sort(Seeding(0).generator("leaks").choice(n_rows, n_sampled, replace=False))
        features, codes, n_rows = features.iloc[rows], codes[rows], n_sampled
    baseline = 1 - np.bincount(codes).max() / n_rows
    names = [str(name) for name in features.columns]
    errors = {
        name: _error_alone(features.iloc[:, place], codes, len(classes))
        for place, name in enumerate(names)
        if name not in table.texts
    }
    usual = min((error for error in errors.values() if error > 1 - NEARLY_TELLS), default=0.0)
    for place, name in enumerate(names):
        if name not in errors:
            continue
        error, values = errors[name], features.iloc[:, place]
        n_wrong = error * n_rows
        at_most = (n_wrong + 1.64 * np.sqrt(n_wrong + 1) + 1) / n_rows
        is_near = error <= 1 - NEARLY_TELLS and at_most <= min(baseline / 4, usual / TIMES_BETTER)
        if error <= min(1 - TELLS, baseline / 4) or is_near:
            by_gaps = _error_alone(values.isna(), codes, len(classes)) <= 1.5 * error + 1 / n_rows
            evidence = {"share": 1 - error, "best_other_column": 1 - usual, "most_frequent_class": 1 - baseline}
            yield Problem("leak_by_gaps" if by_gaps else "leak", "stop", name, (), evidence, ("--drop", name))
        elif pure := _pure_level(values, codes, len(classes)):
            level, code, n_level, share = pure
            what = {"level": level, "label": str(classes[code]), "n_rows": n_level, "share_of_label": share}
            yield Problem("leak_by_level", "stop", name, (), what, ("--drop", name))


def _error_alone(values: pd.Series[Any], codes: Rows, n_classes: int) -> float:
    """Return the share of rows whose class a column does not tell: by its values, or by one limit."""
    import pandas as pd

    is_number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    places, levels = pd.factorize(values, sort=is_number)  # -1, the last, for missing values
    cells = (places % (len(levels) + 1)) * n_classes + codes
    table = np.bincount(cells, minlength=(len(levels) + 1) * n_classes).reshape(-1, n_classes)
    usual = int(table.sum(axis=0).argmax())
    right = _told_by_others(table, usual)
    if is_number and len(levels):
        below = table[:-1].cumsum(axis=0)
        by_limit = (below.max(axis=1) + (below[-1] - below).max(axis=1)).max()
        right = max(right, int(by_limit + table[-1].max()))
    return 1 - right / len(codes)


def _told_by_others(table: NDArray[np.intp], usual: int) -> int:
    """Return how many rows have the most frequent class of the *other* rows of their level, (n_levels, n_classes)."""
    top = np.sort(table, axis=1)[:, -2:]
    others = np.where(table == top[:, -1:], top[:, :1], top[:, -1:])  # the largest count of another class
    right = table - 1 > others
    right[:, usual] |= (table[:, usual] == 1) & (others[:, usual] == 0)  # alone in its level
    return int(table[right].sum())


def _pure_level(values: pd.Series[Any], codes: Rows, n_classes: int) -> tuple[str, int, int, float] | None:
    """Return a level, a gap or a filled cell whose rows are all of one class: name, class, rows, share of the class."""
    import pandas as pd

    totals = np.bincount(codes, minlength=n_classes)
    is_missing = values.isna().to_numpy()
    groups = [("missing", is_missing), ("not missing", ~is_missing)] if is_missing.any() else []
    if not pd.api.types.is_numeric_dtype(values):
        frequent = values.value_counts()
        groups += [(str(level), (values == level).to_numpy()) for level in frequent.index[:50]]
    for name, rows in groups:
        counts = np.bincount(codes[rows], minlength=n_classes)
        code, n_level = int(counts.argmax()), int(counts.sum())
        rare = totals[code] <= 0.5 * len(codes) and n_level >= PURE_ROWS
        if rare and counts[code] >= PURE * n_level and counts[code] >= PURE_SHARE * totals[code]:
            return name, code, n_level, float(counts[code] / totals[code])
    return None


# Identifiers and copies


def _identifiers(table: _Checked) -> Iterator[Problem]:
    """Name columns that number or name rows or people."""
    for name, values in table.numbers.items():
        if kind := _numbering(name, values, table.sites):
            evidence = {"kind": kind, "n_values": len(np.unique(values[~np.isnan(values)]))}
            yield Problem("identifier", "repair", name, (), evidence, ("--drop", name))
    for name, series in table.levels.items():
        known = series.dropna()
        n_values = int(known.nunique())
        if name in table.texts or len(known) < LEAST_TEXTS or not isinstance(known.iloc[0], str):
            continue
        if known.head(1000).str.count(r"\s+").mean() + 1 >= 4:
            continue  # prose
        is_named = _is_called_identifier(name) and n_values >= max(20, NAMED_DISTINCT * len(known))
        if n_values >= DISTINCT_TEXTS * len(known) or is_named:
            evidence = {"kind": "texts", "n_values": n_values}
            yield Problem("identifier", "repair", name, (), evidence, ("--drop", name))


def _numbering(name: str, values: Floats, sites: Sequence[Environment]) -> str:
    """Return how whole numbers identify rows: growing, distinct, by site, or by name; empty where they do not."""
    known = values[~np.isnan(values)]
    if len(known) < LEAST_IDENTIFIED or (known % 1 != 0).any():
        return ""
    n_values = len(np.unique(known))
    if n_values >= 0.995 * len(known):
        if np.mean(np.diff(known) > 0) >= 0.995:
            return "growing"
        if np.ptp(known) <= 4 * len(known) or _is_called_identifier(name):
            return "distinct"
    large = [here for site in sites if len(here := values[site.rows][~np.isnan(values[site.rows])]) >= 20]
    if len(large) > 1 and all(len(np.unique(h)) == len(h) and np.ptp(h) <= 1.5 * len(h) for h in large):
        return "by site"
    if _is_called_identifier(name) and n_values >= max(50, NAMED_DISTINCT * len(known)):
        return "by name"
    return ""


def _is_called_identifier(name: str) -> bool:
    return bool(IDENTIFIER.fullmatch(name) or CAMEL_ID.fullmatch(name))


def _copied_rows(table: _Checked) -> Iterator[Problem]:
    """Say how many rows are exact copies of another one, where that is no coincidence of few values."""
    groups = table.copies
    if groups is None:
        return
    n_copies = len(groups) - len(np.unique(groups))
    sites = np.empty(len(groups), dtype=np.intp)
    for place, site in enumerate(table.sites):
        sites[site.rows] = place
    counts = np.bincount(groups)
    across = len(np.unique(groups * np.int64(len(table.sites)) + sites)) - len(counts)
    is_copied = counts[groups] > 1
    where = tuple(s.name for s in table.sites if is_copied[s.rows].mean() >= COPIED)
    named = where if len(where) < len(table.sites) else ()
    evidence = {"n_copies": n_copies, "share": n_copies / len(groups), "n_across_sites": int(across)}
    yield Problem("copied_rows", "repair", "", named, evidence)


def _near_copies(table: _Checked) -> Iterator[Problem]:
    """Say how many rows equal another one in all columns but one, where that is no coincidence of few values."""
    columns = table.hashes
    if columns is None or table.copies is not None or columns.shape[1] < 6 or columns.size > MOST_CELLS:
        return
    mixed = _mixed(columns)
    total = mixed.sum(axis=1)
    n_pairs, is_near = 0.0, np.zeros(len(columns), bool)
    for place in range(columns.shape[1]):
        groups = np.asarray(np.unique(total - mixed[:, place], return_inverse=True)[1], dtype=np.intp)
        n_pairs += _n_pairs(groups)
        is_near |= np.bincount(groups)[groups] > 1
    n_near = int(is_near.sum())
    if n_near // 2 < max(3, COPIED * len(columns)) or not _are_copies(columns, n_pairs):
        return
    where = tuple(site.name for site in table.sites if is_near[site.rows].mean() >= COPIED)
    evidence = {"n_rows": n_near, "share": n_near / len(columns)}
    yield Problem("near_copied_rows", "repair", "", where if len(where) < len(table.sites) else (), evidence)


def _are_copies(columns: NDArray[Any], n_pairs: float) -> bool:
    """Return whether rows that agree in half of the columns agree in the others too, which coincidences do not."""
    generator = Seeding(0).generator("copied rows")
    for _ in range(8):
        order = generator.permutation(columns.shape[1])
        in_half = _n_pairs(_row_numbers(columns[:, order[: (len(order) + 1) // 2]]))
        if in_half <= min(2 * n_pairs, MOST_TWINS * len(columns)):
            return True
    return False


def _row_numbers(columns: NDArray[Any]) -> Rows:
    """Return a number for each row that equal rows share."""
    return np.asarray(np.unique(_mixed(columns).sum(axis=1), return_inverse=True)[1], dtype=np.intp)


def _mixed(columns: NDArray[Any]) -> NDArray[np.uint64]:
    """Return numbers of cells whose sums over columns are equal for equal rows only, but for one chance in 2^60."""
    weights = Seeding(1).generator("row numbers").integers(1, 2**62, size=columns.shape[1], dtype=np.uint64)
    cells = columns.astype(np.uint64)
    return np.asarray((cells ^ (cells >> np.uint64(29))) * (2 * weights + 1), dtype=np.uint64)


def _n_pairs(groups: Rows) -> float:
    counts = np.bincount(groups).astype(np.float64)
    return float((counts * (counts - 1) / 2).sum())


def _copied_columns(table: _Checked) -> Iterator[Problem]:
    """Name columns that have the same values as another one."""
    import pandas as pd

    seen: dict[int, str] = {}
    for place, name in enumerate(map(str, table.features.columns[:MOST_COLUMNS])):
        values = table.features.iloc[:, place]
        if values.nunique() < 2 or INDICATOR.fullmatch(name):
            continue
        digest = hash(pd.util.hash_pandas_object(values, index=False).to_numpy().tobytes())
        if (first := seen.setdefault(digest, name)) != name:
            yield Problem("copied_column", "note", name, (), {"copy_of": first}, ("--drop", name))


def _near_copied_columns(table: _Checked) -> Iterator[Problem]:
    """Name numbers that another column has too, rounded, in another unit, or but for a few rows."""
    names = [name for name, values in table.numbers.items() if not INDICATOR.fullmatch(name)]
    step = max(1, len(table.features) // SAMPLED_PAIRS)
    values = [table.numbers[name][::step] for name in names]
    many = [place for place, column in enumerate(values) if len(np.unique(_known(column))) > FEW_VALUES]
    if len(many) < 2:
        return
    gaps = np.array([np.isnan(values[place]) for place in many])
    centered = np.array([_centered(values[place]) for place in many])
    alike = centered @ centered.T
    for second in range(1, len(many)):
        for first in range(second):
            same_gaps = np.mean(gaps[first] == gaps[second]) >= NEARLY_SAME
            is_exact = np.array_equal(values[many[first]], values[many[second]], equal_nan=True)
            if abs(alike[first, second]) >= NEARLY_SAME and same_gaps and not is_exact:
                name, evidence = names[many[second]], {"copy_of": names[many[first]]}
                yield Problem("near_copied_column", "note", name, (), evidence, ("--drop", name))
                break


def _centered(values: Floats) -> Floats:
    """Return values with mean 0 and length 1; gaps are 0."""
    centered = np.where(np.isnan(values), 0.0, values - np.nanmean(values))
    return centered / max(float(np.linalg.norm(centered)), 1e-300)


# Units and values that stand for "missing"


def _units(table: _Checked) -> Iterator[Problem]:
    """Name columns that are in another unit at some sites."""
    for name, values in table.numbers.items():
        here = {site.name: known for site in table.sites if len(known := _known(values[site.rows])) >= MIN_ROWS}
        if len(here) < 2 or all(len(np.unique(known)) <= 2 for known in here.values()):
            continue
        usual = _usual_sites(here)
        if usual is None:
            continue
        others = [here[site] for site in usual]
        odd = {site: found for site in here if site not in usual and (found := _other_unit(here[site], others))}
        alike: dict[tuple[str, str], list[str]] = {}  # sites with the same unit are one problem
        for site, (key, _, evidence) in odd.items():
            alike.setdefault((key, evidence.get("unit", "")), []).append(site)
        for sites in alike.values():
            key, severity, evidence = odd[sites[0]]
            options = ("--drop", name) * (severity != "note")
            if rule := evidence.get("rule"):
                options = tuple(word for site in sites for word in ("--scale", f"{name}@{site}={rule}"))
            yield Problem(key, severity, name, tuple(sites), evidence, options)


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _middle(values: Floats) -> float:
    """Return the logarithm of the median size of the numbers that are not 0; NaN where all are."""
    sizes = np.abs(values[values != 0])
    return float(np.log(np.median(sizes))) if len(sizes) else float("nan")


def _usual_sites(here: Mapping[str, Floats]) -> list[str] | None:
    """Return the sites at which a column has its usual size: half of them or more, around one of them."""
    middles = {site: _middle(values) for site, values in here.items()}
    if all(abs(a - b) < LEAST_SHIFT for a in middles.values() for b in middles.values()):
        return None
    near = {
        site: [other for other, value in middles.items() if abs(value - middle) < LEAST_SHIFT]
        for site, middle in middles.items()
    }
    best = max(near.values(), key=lambda group: (len(group), sum(len(here[site]) for site in group)))
    return best if len(best) >= len(here) / 2 else None


def _other_unit(here: Floats, others: Sequence[Floats]) -> tuple[str, Severity, dict[str, Any]] | None:
    """Return what a site's numbers are to the others': another unit, a factor, or a size that no factor explains."""
    rest = np.concatenate(others)
    if not len(rest[rest != 0]) or not len(here[here != 0]):
        return None
    apart = _distance(here, rest)
    natural = [_distance(part, np.concatenate([o for o in others if o is not part])) for part in others if others[1:]]
    bound = max(1.2 * max(natural, default=0.0), 1.7 * np.sqrt(1 / len(here) + 1 / len(rest))) + 0.05
    medians = {"median": float(np.median(here)), "median_elsewhere": float(np.median(rest))}
    if apart < max(FAR, 2 * bound):
        return None
    tried = [
        (_distance((here - unit.offset) / unit.factor, rest), unit.factor, unit.second, unit.first, unit.rule_back)
        for unit in UNITS
    ] + [
        (_distance(here * unit.factor + unit.offset, rest), 1 / unit.factor, unit.first, unit.second, unit.rule)
        for unit in UNITS
    ]
    distance, factor, unit, usual, rule = min(tried)
    if distance <= bound:
        units = {"unit": unit, "unit_elsewhere": usual, "affine": "+" in rule or "-" in rule, "rule": rule}
        evidence: dict[str, Any] = {"factor": factor, **units, **medians}
        return "unit", "repair", evidence
    shift = _middle(here) - _middle(rest)
    if abs(shift) >= UNNAMED_SHIFT and _distance(here / np.exp(shift), rest) <= bound:
        return "factor", "repair", {"factor": float(np.exp(shift)), **medians}
    quartiles = [np.quantile(part, (0.25, 0.75)) for part in (here, *others)]
    (low, high), rest_quartiles = quartiles[0], quartiles[1:]
    disjoint = all(high < other_low or low > other_high for other_low, other_high in rest_quartiles)
    return ("size", "note", medians) if disjoint and abs(shift) >= np.log(5) else None


def _distance(a: Floats, b: Floats) -> float:
    """Return Kolmogorov's distance of two samples, values that differ by rounding alone taken for equal."""
    a, b = (np.sort(_thinned(values)) for values in (a, b))
    points = np.concatenate([a, b])
    width = SLACK_WIDTH * max(float(np.subtract(*np.quantile(b, (0.75, 0.25)))), 1e-12)
    slack = np.minimum(SLACK * np.abs(points), width)
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


def _sentinels(table: _Checked) -> Iterator[Problem]:
    """Name numbers such as 999 or -9 that stand for a missing value."""
    for name, values in table.numbers.items():
        levels, counts = np.unique(_known(values), return_counts=True)
        codes = np.isin(levels, SENTINELS)
        if not codes.any():
            continue
        rest, n_rest = levels[~codes], int(counts[~codes].sum())
        for value, n_value in zip(levels[codes], counts[codes], strict=True):
            usual = levels[(levels != value) & ~(codes & (np.abs(levels) >= 77))]
            usual = usual if abs(value) >= 77 else rest
            enough = n_value >= max(SENTINEL_ROWS, SENTINEL_SHARE * len(values)) and n_rest >= FEW_VALUES
            if not enough or not _stands_apart(float(value), usual):
                continue
            shares = {site.name: float((values[site.rows] == value).mean()) for site in table.sites}
            where = tuple(site for site, share in shares.items() if share > 0)
            evidence = {
                "value": float(value),
                "n_rows": int(n_value),
                "shares": {site: shares[site] for site in where},
                "low": float(usual.min()),
                "high": float(usual.max()),
            }
            named = where if len(where) < len(table.sites) else ()
            yield Problem("sentinel", "repair", name, named, evidence, ("--missing", f"{value:.0f}"))
            break


def _stands_apart(value: float, usual: Floats) -> bool:
    """Return whether a code lies beyond all other values: below zero alone, or above them by more than their range."""
    if len(usual) < 3:
        return False
    low, high = float(usual.min()), float(usual.max())
    if value < 0:
        return low >= 0 and len(usual) >= (10 if value == -1 else 4)
    wide = 0.5 if value >= 888 else 1.0
    return value - high > wide * (high - low) and value > high + 1


# How a column looks at a site, against the others


@dataclass(frozen=True)
class _Cell:
    """A column at a site, in numbers."""

    n_known: int
    missing: float
    zeros: float
    levels: Mapping[str, float] | None  # share of each value; None for numbers of many values
    is_number: bool

    @property
    def constant(self) -> str | None:
        return next(iter(self.levels)) if self.levels is not None and len(self.levels) == 1 else None


def _looks(table: _Checked) -> Iterator[Problem]:
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
        return _Cell(len(known), missing, zeros, levels, is_number=True)
    shares = known.astype(str).value_counts(normalize=True)
    return _Cell(len(known), missing, 0.0, dict(zip(shares.index, map(float, shares), strict=True)), is_number=False)


def _gaps(name: str, told: str, gaps: Sequence[float], environments: Sequence[Environment]) -> Iterator[Problem]:
    """Name the sites at which a column is missing much more often than at another one, and not by chance."""
    sites, sizes = [site.name for site in environments], [len(site) for site in environments]
    pooled = float(np.average(gaps, weights=sizes))
    apart = [place for place, gap in enumerate(gaps) if gap - min(gaps) > MISSING_APART]
    errors = np.sqrt(pooled * (1 - pooled) * (1 / np.array(sizes) + 1 / sizes[int(np.argmin(gaps))]))
    limit = stats.norm.isf(BY_CHANCE / len(gaps) ** 2)  # any pair of sites
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
    zeros = [p for p in judged if cells[p].zeros >= ZERO_HERE and set(cells[p].levels or ()) != {"0", "1"}]
    if 0 < len(zeros) < len(judged) and all(cells[p].zeros <= ZERO_ELSEWHERE for p in judged if p not in zeros):
        ordered = sorted(zeros, key=lambda place: -cells[place].zeros)
        shares = {sites[place]: cells[place].zeros for place in ordered}
        yield Problem("zeros", "note", name, tuple(shares), {"shares": shares})
        judged = [place for place in judged if place not in zeros]
    fixed = [place for place in judged if _is_oddly_constant(place, cells, judged)]
    for value in dict.fromkeys(cells[place].constant for place in fixed):
        places = tuple(sites[place] for place in fixed if cells[place].constant == value)
        yield Problem("constant", "note", name, places, {"value": value})
    for place in judged:
        others = [cells[other] for other in judged if other != place]
        cell = cells[place]
        if place in fixed or not others or cell.is_number or cell.levels is None:
            continue
        own = _own_levels(cell, others, len(judged))
        if own:
            evidence = {"levels": list(own), "share": sum(own.values())}
            yield Problem("level_of_one_site", "note", name, (sites[place],), evidence)


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


def _small_sites(table: _Checked) -> Iterator[Problem]:
    """Name sites with too few rows, or too few of a class, to say anything alone."""
    _, classes = table.codes
    sizes = table.counts.sum(axis=1)
    rarer = table.counts.min(axis=1) if len(classes) == 2 else sizes
    small = [place for place in range(len(sizes)) if sizes[place] < SMALL_SITE or 0 < rarer[place] < SMALL_CLASS]
    if small:
        evidence = {"n_rows": [int(sizes[place]) for place in small], "n_rarer": [int(rarer[place]) for place in small]}
        yield Problem("small_site", "note", "", tuple(table.sites[place].name for place in small), evidence)


Check = Callable[[_Checked], Iterator[Problem]]
LABEL_CHECKS: tuple[Check, ...] = (_label_codes, _one_class, _exchanged, _leaks, _small_sites)
COLUMN_CHECKS: tuple[Check, ...] = (
    _identifiers,
    _sentinels,
    _units,
    _copied_rows,
    _near_copies,
    _looks,
    _copied_columns,
    _near_copied_columns,
)
KEYS = (
    "label_spelling",
    "label_codes",
    "label_of_one_site",
    "one_class",
    "labels_exchanged",
    "leak",
    "leak_by_gaps",
    "leak_by_level",
    "words_among_numbers",
    "identifier",
    "sentinel",
    "unit",
    "factor",
    "copied_rows",
    "near_copied_rows",
    "size",
    "gaps",
    "zeros",
    "constant",
    "level_of_one_site",
    "copied_column",
    "near_copied_column",
    "small_site",
)
