"""Encode unstable columns as levels, bins or words, with their relation to the label at the known sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import missing_labels, take_rows
from holdfast.rows.kinds import is_frame, is_sparse, is_text

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

N_BINS = 6  # of numbers, at the site's quantiles
MOST_LEVELS = 12  # values up to which a number counts as levels; more levels of a category are pooled


@dataclass(frozen=True, eq=False)
class Coding:
    """How the values of an unstable column at one site become codes: levels, bins of numbers, or words present."""

    columns: tuple[int, ...]  # places in X; several are words, of which any may be present
    word: str = ""  # where X is texts
    levels: tuple[str, ...] = ()  # in the order of their codes
    edges: tuple[float, ...] = ()  # of bins; with them there are no levels

    @property
    def names(self) -> list[str]:
        """The name of each code; the last is for missing values, and levels that are pooled or unknown."""
        known = [f"bin {i}" for i in range(len(self.edges) + 1)] if self.edges else list(self.levels)
        return [*known, "missing"]

    @property
    def n_codes(self) -> int:
        """How many codes there are."""
        return len(self.names)

    def encode(self, X: Any) -> Codes:
        """Return the code of each row."""
        values = _values(X, self.columns, self.word)
        missing, last = missing_labels(values), self.n_codes - 1
        if self.edges:
            codes = np.searchsorted(np.asarray(self.edges), np.asarray(values, dtype=np.float64), side="right")
        else:
            place = {level: code for code, level in enumerate(self.levels)}
            texts, places = _distinct(values)
            codes = np.array([place.get(text, last) for text in texts], dtype=np.intp)[places]
        return np.where(missing, last, codes).astype(np.intp)


@dataclass(frozen=True, eq=False)
class UnstableColumn:
    """A column whose effect may differ between sites, and what it says about the label at the known ones."""

    name: str
    columns: tuple[int, ...]
    word: str = ""
    mechanism: float = -np.inf  # log Bayes factor of "part of a mechanism" against "depends on the label alone"
    sides: Mapping[str, int] = field(default_factory=dict)  # name of a code -> class that it speaks for
    right: Mapping[str, float] = field(default_factory=dict)  # known site -> share of rows in which it is right
    change: float = 1.0  # probability that its effect differs between sites
    in_doubt: bool = False  # used in full: only rows of a new site can show that its effect differs

    def coding(self, X: Any) -> Coding:
        """Return how the values of one site become codes."""
        values = _values(X, self.columns, self.word)
        present = values[~missing_labels(values)]
        if values.dtype.kind in "fiu":
            numbers = np.asarray(present, dtype=np.float64)
            if len(np.unique(numbers)) > MOST_LEVELS:
                edges = np.unique(np.quantile(numbers, np.arange(1, N_BINS) / N_BINS))
                return Coding(self.columns, self.word, edges=tuple(edges.tolist()))
        texts, places = _distinct(present)
        counts = np.bincount(places, minlength=len(texts))
        frequent = sorted(range(len(texts)), key=lambda place: (-counts[place], texts[place]))[:MOST_LEVELS]
        return Coding(self.columns, self.word, levels=tuple(sorted(texts[place] for place in frequent)))

    def sided(self, coding: Coding) -> Codes:
        """Return for each code of a site the class that it spoke for at the known sites, -1 where that is unknown."""
        return np.array([self.sides.get(name, -1) for name in coding.names], dtype=np.intp)

    def described(self, X: Any, y: Codes, sites: Mapping[str, Codes], n_classes: int) -> UnstableColumn:
        """Return this column with what it says at the known sites; `sites` are the rows of each.

        A code speaks for the class that is most frequent with it, compared with the class's share, over all sites;
        each site counts the same.
        """
        lifts: dict[str, Array] = {}
        tables: dict[str, tuple[list[str], Array]] = {}
        for site, rows in sites.items():
            own = take_rows(X, rows)
            coding = self.coding(own)
            table = np.zeros((coding.n_codes, n_classes))
            np.add.at(table, (coding.encode(own), y[rows]), 1.0)
            q = (table + 0.5) / (table.sum(axis=0) + 0.5 * coding.n_codes)
            tables[site] = coding.names, table
            for name, row, count in zip(coding.names, q, table.sum(axis=1), strict=True):
                lifts[name] = lifts.get(name, np.zeros(n_classes)) + np.log(row / row.mean()) * (count > 0)
        sides = {name: int(lift.argmax()) for name, lift in lifts.items() if lift.any()}
        right = {}
        for site, (names, table) in tables.items():
            side = np.array([sides.get(name, 0) for name in names])
            right[site] = float(table[np.arange(len(names)), side].sum() / max(table.sum(), 1.0))
        return replace(self, sides=sides, right=right)


def _values(X: Any, columns: tuple[int, ...], word: str) -> NDArray[Any]:
    """Return the values of a column, (n_rows,); of several, or of a word in texts, whether any is present."""
    if is_text(X):
        from holdfast.stable.columns import split_words

        return np.array([float(word in split_words(text)) for text in X])
    if is_sparse(X):
        return np.asarray((abs(X[:, list(columns)]).sum(axis=1) > 0), dtype=np.float64).ravel()
    if len(columns) > 1:
        return np.asarray((np.asarray(X[:, list(columns)]) != 0).any(axis=1), dtype=np.float64)
    if is_frame(X):
        return np.asarray(X[X.columns[columns[0]]].to_numpy())
    return np.asarray(X)[:, columns[0]]


def _distinct(values: NDArray[Any]) -> tuple[list[str], Codes]:
    """Return the distinct values as texts, numbers in one way of writing, and the place of each row's value in them."""
    if values.dtype.kind in "fiub":
        numbers, places = np.unique(values, return_inverse=True)
        return [str(float(number)) for number in numbers.tolist()], places.astype(np.intp)
    texts = [str(value) for value in values.tolist()]
    found = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return list(found), np.array([found[text] for text in texts], dtype=np.intp)
