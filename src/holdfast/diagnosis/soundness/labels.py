"""Labels that are spelled or coded differently at some sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import special

from holdfast.diagnosis.soundness.table import (
    BY_CHANCE,
    SMALL_CLASS,
    CheckedTable,
    Floats,
    Problem,
    same_word,
)
from holdfast.environments import Environment, Rows
from holdfast.metrics import binary_auroc

LABEL_GAPS = ("?", ".", "unknown", "unk", "missing", "not available", "not recorded", "not known", "n.a.")
REVERSED_CHANCE = 0.02  # of an AUROC as low, at any site, where nothing is exchanged
TOLD = 3.0  # standard errors of the usual AUROC from one half
LIKELIER, MUCH_LIKELIER = 3.0, 20.0  # how many times: exchanged than unrelated, and than usual without a column
RELATED = 0.5  # correlation of columns that may be reversed together
RIDGE, LEAST_RIDGE = 3.0, 0.05  # of the discriminant: times columns by rows, and at least


def check_label_codes(table: CheckedTable) -> Iterator[Problem]:
    """Name sites whose labels are written in another way, and labels of one site only."""
    _, classes = table.codes
    present = table.counts > 0
    n_rows = table.counts.sum()
    gaps = [code for code, name in enumerate(classes) if same_word(name) in LABEL_GAPS and len(classes) > 2]
    for code in gaps:
        where = tuple(site.name for site, here in zip(table.sites, present[:, code], strict=True) if here)
        unlabeled = {"label": str(classes[code]), "n_rows": int(table.counts[:, code].sum())}
        options = ("--missing", str(classes[code]), "--missing-labels", "drop")
        yield Problem("label_gap", "stop", "", where if len(where) < len(table.sites) else (), unlabeled, options)
    spelled: dict[str, list[int]] = {}
    for code, name in enumerate(classes):
        spelled.setdefault(same_word(name), []).append(code)
    alike = {code for group in spelled.values() if group[1:] for code in group} | set(gaps)
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
        yield Problem("label_codes" if all_own else "label_of_one_site", "stop", sites=(site.name,), evidence=evidence)
        if all_own and len(table.sites) == 2:
            return


def check_one_class(table: CheckedTable) -> Iterator[Problem]:
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


def check_exchanged_labels(table: CheckedTable) -> Iterator[Problem]:
    """Name sites at which the two labels look exchanged: what tells the label elsewhere tells the opposite there.

    Rows are ranked by a linear discriminant of the other sites. The usual AUROC is that of the other sites, found in
    the same way. Labels are exchanged where the AUROC is near one minus the usual one, even without the column that is
    reversed most: one column that is turned does not mean that the labels are.
    """
    codes, classes = table.codes
    sites = [site for site, here in zip(table.sites, table.counts, strict=True) if here.min() >= SMALL_CLASS]
    columns, sources = _standardized_columns(table)
    if len(classes) != 2 or len(sites) < 2 or len(np.unique(sources)) < 2:
        return
    errors = [_auroc_error(codes[site.rows]) for site in sites]
    weights = [_discriminant(columns, codes, [other for other in sites if other is not site]) for site in sites]
    areas = [_auroc(columns, codes, site, w) for site, w in zip(sites, weights, strict=True)]
    found = {}
    for place, site in enumerate(sites):
        others = np.delete(np.arange(len(sites)), place)
        precision = 1 / np.take(errors, others) ** 2
        area, error, usual = areas[place], errors[place], float(np.average(np.take(areas, others), weights=precision))
        is_low = special.ndtr((area - usual) / error) * len(sites) < REVERSED_CHANCE
        is_told = (usual - 0.5) * np.sqrt(precision.sum()) > TOLD
        if not (is_told and is_low and _evidence(area, error, usual, 0.5) > np.log(LIKELIER)):
            continue
        rest = _without_most_reversed(columns[site.rows], codes[site.rows], weights[place], sources)
        elsewhere = [_auroc(columns, codes, sites[other], rest) for other in others]
        usual, area = float(np.average(elsewhere, weights=precision)), _auroc(columns, codes, site, rest)
        if usual > 0.5 and _evidence(area, error, usual, usual) > np.log(MUCH_LIKELIER):
            found[site.name] = areas[place]
    if 0 < len(found) <= len(table.sites) / 2 or len(table.sites) == 2 == len(found):
        yield Problem("labels_exchanged", "stop", sites=tuple(found), evidence={"auroc": list(found.values())})


def _evidence(area: float, error: float, usual: float, instead: float) -> float:
    """Return the log likelihood ratio of an AUROC of one minus the usual one, against another AUROC."""
    return float(((area - instead) ** 2 - (area - (1 - usual)) ** 2) / (2 * error**2))


def _discriminant(columns: Floats, codes: Rows, sites: Sequence[Environment]) -> Floats:
    """Return the weights of a linear discriminant with a ridge, (n_columns,)."""
    rows = np.concatenate([site.rows for site in sites])
    X, y = columns[rows], codes[rows] - codes[rows].mean()
    ridge = max(RIDGE * X.shape[1] / len(rows), LEAST_RIDGE)
    return np.asarray(np.linalg.solve(X.T @ X / len(rows) + ridge * np.eye(X.shape[1]), X.T @ y / len(rows)))


def _without_most_reversed(columns: Floats, codes: Rows, weights: Floats, sources: Rows) -> Floats:
    """Return the weights without the column that is reversed most at a site, and those related to it, (n_columns,)."""
    most = int(np.argmin(columns.T @ (codes - codes.mean()) * weights))
    norms = np.sqrt((columns**2).sum(axis=0) * (columns[:, most] ** 2).sum())
    alike = np.abs(columns.T @ columns[:, most]) / np.maximum(norms, 1e-12)
    return np.where((alike > RELATED) | (sources == sources[most]), 0.0, weights)


def _standardized_columns(table: CheckedTable) -> tuple[Floats, Rows]:
    """Return numbers and the most frequent levels, with mean 0 and variance 1 at each site, and their sources.

    Shapes (n_rows, n_columns) and (n_columns,): levels of one column have the same source.
    """
    parts, sources = list(table.numbers.values()), list(range(len(table.numbers)))
    for number, values in enumerate(table.levels.values()):
        levels = [(values == level).to_numpy(dtype=np.float64) for level in values.value_counts().index[:5]]
        parts, sources = parts + levels, sources + [len(table.numbers) + number] * len(levels)
    columns = np.column_stack(parts) if parts else np.zeros((len(table.features), 0))
    for site in table.sites:
        here = columns[site.rows]
        known = ~np.isnan(here)
        mean = np.where(known, here, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centered = np.where(known, here - mean, 0.0)
        spread = np.sqrt((centered**2).mean(axis=0))
        columns[site.rows] = np.where(spread > 1e-12, centered / np.where(spread > 1e-12, spread, 1.0), 0.0)
    return columns, np.array(sources, dtype=np.intp)


def _auroc(columns: Floats, codes: Rows, site: Environment, weights: Floats) -> float:
    """Return the area under the ROC curve of weighted columns in the rows of a site (Mann and Whitney)."""
    return binary_auroc(codes[site.rows] == 1, columns[site.rows] @ weights, np.ones(len(site.rows)))


def _auroc_error(codes: Rows) -> float:
    """Return the standard error of an AUROC of one half."""
    n_1 = int(codes.sum())
    return float(np.sqrt((len(codes) + 1) / (12 * n_1 * (len(codes) - n_1))))
