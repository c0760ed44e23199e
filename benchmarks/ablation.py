"""What does each part of the decision bring? The same tables with one part of the model removed.

    HOLDFAST_TEST_DATA=FOLDER python benchmarks/ablation.py [--draws 4]

Prints a Markdown table. Only the decision is computed, no classifier is fitted:
natural: the fifteen real tables, one environment left out in turn. Share of the fits in which a column is used less.
planted: the same with a planted column. Mean share of its effect that is given up.
same: worlds in which P(y|x) is the same at every site. Share of the fits in which a column is used less.
one label: how far one flipped label of 1,000 moves a kept share, at most.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp
import trust
import worlds

from holdfast.auditing.run import AuditSettings, read_columns
from holdfast.stable import decision, hypotheses
from holdfast.stable.design import Design, make_design

NEVER = 1e-9
PARTS: dict[str, list[tuple[Any, str, Any]]] = {
    "nothing removed": [],
    "mechanism: evidence that others predict the column": [(hypotheses, "_log_dependence", lambda *_: 0.0)],
    "exponent of the likelihoods (1 instead of 0.7)": [(hypotheses, "POWER", 1.0)],
    "a twin column does not count": [(hypotheses, "TWIN", 2.0)],
    "collider": [(hypotheses, "COLLIDER", NEVER)],
    "the effect of a mechanism's column varies": [(hypotheses, "VARIES", NEVER)],
    "flipped labels": [(hypotheses, "FLIPPED", NEVER)],
    "bends and products": [(hypotheses, "BENT", NEVER)],
    "numbers that are normal given the label": [(hypotheses, "log_given_label", lambda *_: -np.inf)],
    "covariate shift, bends and products": [(hypotheses, "_row_evidence", lambda design, j, others: np.inf)],
    "least gain": [(decision, "LEAST_GAIN", NEVER)],
}


def read(X: Any, y: Any, sites: Any) -> Design:
    """Return rows as the hypotheses see them."""
    columns = read_columns(X, None, AuditSettings(min_count=1))
    return make_design(columns, y, np.unique(sites, return_inverse=True)[1], n_classes=int(y.max()) + 1)


def real(folder: Path) -> Iterator[tuple[Design, Design, int]]:
    """Yield the real tables without each environment in turn: as they are, planted, and the planted feature."""
    for name in (*trust.CHOSEN_ON, *trust.HELD_OUT):
        X, y, environments = trust.read_real(name, folder)
        for left_out in trust.left_out_in_turn(environments).tolist():
            train = environments != left_out
            if len(np.unique(y[train])) <= y.max():
                continue
            column = trust.planted_column(y, environments, left_out)[:, None]
            both = sp.csr_array(sp.hstack([X, column])) if sp.issparse(X) else np.hstack([X, column])
            planted = read(both[train], y[train], environments[train])
            place = [X.shape[1] in feature for feature in planted.features].index(True)
            yield read(X[train], y[train], environments[train]), planted, place


def same(n_draws: int) -> Iterator[Design]:
    """Yield worlds in which P(y|x) is the same at every site; draws that no other suite uses."""
    for name, world in worlds.SAME.items():
        for layout in world.layouts:
            for draw in range(200, 200 + n_draws):
                drawn = worlds.draw_world(world, name, layout, draw)
                yield read(drawn.X, drawn.y, drawn.sites)


def one_label(n_draws: int) -> Iterator[tuple[Design, list[Design]]]:
    """Yield tables, each with others that differ from it in one label."""
    for name, world in worlds.SMOOTH.items():
        for draw in range(200, 200 + n_draws):
            drawn = worlds.draw_world(world, name, (2, 500), draw)
            after = []
            for row in worlds.generator("ablation", name, draw).choice(len(drawn.y), 5, replace=False):
                y = drawn.y.copy()
                y[row] = 1 - y[row]
                after.append(read(drawn.X, y, drawn.sites))
            yield read(drawn.X, drawn.y, drawn.sites), after


def kept(design: Design) -> Any:
    """Return the kept share of each feature."""
    return np.array([decision.kept_share(found) for found in hypotheses.posteriors(design)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4)
    draws = parser.parse_args().draws
    folder = os.environ.get("HOLDFAST_TEST_DATA")
    tables = list(real(Path(folder))) if folder else []
    null_worlds, flipped = list(same(draws)), list(one_label(draws))
    print("| removed | natural: acts | planted: given up | same P(y\\|x): acts | one label moves a share by, at most |")
    print("|---|---:|---:|---:|---:|")
    for part, changes in PARTS.items():
        patches = [mock.patch.object(module, name, value) for module, name, value in changes]
        for patch in patches:
            patch.start()
        natural = 100 * np.mean([kept(table).min() < 1.0 for table, _, _ in tables]) if tables else np.nan
        given_up = np.mean([1 - kept(table)[place] for _, table, place in tables]) if tables else np.nan
        acts = 100 * np.mean([kept(world).min() < 1.0 for world in null_worlds])
        moved = max(
            np.abs(kept(one) - share).max() for before, after in flipped for share in [kept(before)] for one in after
        )
        for patch in patches:
            patch.stop()
        print(f"| {part} | {natural:.0f} % | {given_up:.2f} | {acts:.1f} % | {moved:.2f} |", flush=True)


if __name__ == "__main__":
    main()
