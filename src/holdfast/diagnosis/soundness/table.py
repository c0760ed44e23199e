"""The table as the checks read it, and the problems that they return."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.diagnosis.soundness.copies import are_copies, row_numbers
from holdfast.environments import Environment, Rows

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Severity = Literal["stop", "repair", "note"]
SEVERITIES: tuple[Severity, ...] = ("stop", "repair", "note")

BY_CHANCE = 0.001  # smaller probabilities are not taken for chance
MIN_ROWS = 10  # values that a site needs before it is compared with others
MOST_COLUMNS = 200  # of a wide table, compared between sites
FEW_VALUES = 20  # numbers with at most so many different values are counted one by one
LEAST_LABELED = 50  # rows that leaks and copies are searched in
COPIED = 0.02  # share of rows that are copies of another one
SMALL_SITE, SMALL_CLASS = 30, 5  # rows of a site, and of its rarer class, below which it says little alone
INDICATOR = re.compile(r"(?P<column>.+?)(?: is |[ _=.])(?:missing|isna|isnull)", re.IGNORECASE)  # `ca is missing`


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
class CheckedTable:
    """A table as the checks see it."""

    features: pd.DataFrame
    sites: tuple[Environment, ...]
    labels: NDArray[Any] | None  # (n_rows,) text
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
        groups = row_numbers(columns)
        n_copies = len(groups) - len(np.unique(groups))
        enough = n_copies >= max(3, COPIED * len(groups))
        return groups if enough and are_copies(columns) else None

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """Rows by site and class, (n_sites, n_classes)."""
        codes, classes = self.codes
        return np.array([np.bincount(codes[site.rows], minlength=len(classes)) for site in self.sites])


def known_values(values: Floats) -> Floats:
    """Return the numbers that are not missing."""
    return values[~np.isnan(values)]


def sampling_distance(a: Floats, b: Floats) -> float:
    """Return the Kolmogorov distance of two samples that is exceeded by chance in 1 of 100 pairs."""
    return 1.63 * float(np.sqrt(1 / len(a) + 1 / len(b)))


def same_word(text: object) -> str:
    """Return what spellings of one word share: blanks, case, points between words, and how accents are stored.

    Examples
    --------
    >>> same_word("KO\u0308LN ") == same_word("Köln") == same_word("KÃ¶ln")
    True
    >>> same_word("St. Mary") == same_word("st-mary"), same_word("A+") == same_word("A-")
    (True, False)
    """
    word = str(text)
    with suppress(UnicodeError):  # UTF-8 that was read as Latin-1
        word = word.encode("cp1252").decode("utf-8")
    word = unicodedata.normalize("NFKC", word).casefold()
    return " ".join(re.sub(r"(?<=[^\W\d_])[.,'_/-]+\s*(?=\w)", " ", word).split())
