"""Labels that are written, or meant, in another way at some sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from holdfast.diagnosis.soundness.table import (
    BY_CHANCE,
    MIN_ROWS,
    SMALL_CLASS,
    CheckedTable,
    Floats,
    Problem,
)
from holdfast.environments import Rows

if TYPE_CHECKING:
    pass

EFFECT, EFFECT_HERE = 3.0, 2.0  # standard errors of a column's correlation with the label, elsewhere and at a site
REVERSED, REVERSED_CHANCE = 0.4, 0.02  # AUROC at most, where labels are exchanged, and the chance of such a one
WITHOUT_ONE = -1.3  # standard errors of the AUROC from one half, without the column that is reversed most
RELATED = 0.5  # correlation of columns that may be reversed together


def check_label_codes(table: CheckedTable) -> Iterator[Problem]:
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


def _standardized_columns(table: CheckedTable) -> Floats:
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
