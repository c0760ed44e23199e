"""The model arrives at a new site: what adapting, recalibrating and checking bring there.

    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run planted [--tables heart] [--estimators logistic,boosting]
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run given_up
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run natural
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/newsite.py run recalibrate
    python benchmarks/newsite.py run hospitals
    python benchmarks/newsite.py run rows
    python benchmarks/newsite.py tables

`run` appends one JSON line for each fit to docs/evidence/newsite.jsonl and skips what is there. `tables` writes the
tables of docs/how-to/new-site.md anew from these records. One thread; the rows are those of benchmarks/trust.py.

planted: real tables with one more column, which agrees with the label in 95 % to 85 % of the training sites' rows; at the
    site left out it agrees in 10 % (turned), by chance (vanished) or in 90 % (as known).
given_up: the same, where the user knows that the column is unstable: adapting alone, whatever the decision is.
natural: real tables as they are; and each of their columns in turn treated as if it were unstable.
recalibrate: a logistic regression at the site left out, recalibrated with 25 to 200 labeled rows; five draws.
hospitals: the example of the README, 20 draws.
rows: the example of the README with 30 to 3,000 rows of the new site, 50 draws each.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 - the thread counts come first
import scipy.sparse as sp  # noqa: E402
import trust  # noqa: E402
from sklearn.base import clone  # noqa: E402

from holdfast import ERMClassifier, StableClassifier  # noqa: E402
from holdfast.judging.calibration import calibrate, class_scores  # noqa: E402
from holdfast.newsite.adapt import Relearning, UnstableColumn, adapt, try_known_sites  # noqa: E402
from holdfast.newsite.recalibrate import recalibrate  # noqa: E402
from holdfast.stable.removal import plan_removal  # noqa: E402

EVIDENCE = trust.EVIDENCE
PAGE = EVIDENCE.parent / "how-to" / "new-site.md"
SUITES = ("planted", "given_up", "natural", "recalibrate", "hospitals", "rows")
SCENARIOS = {"turned": 0.1, "vanished": None, "as known": 0.9}
N_LABELS = (25, 50, 100, 200)
N_ROWS = (30, 100, 300, 1000, 3000)


def planted(y: Any, environments: Any, left_out: str, agreement: float | None) -> Any:
    """Return a column that agrees with the label less in each training site, and as asked for in the one left out."""
    rng, n_classes = np.random.default_rng(0), int(y.max()) + 1
    training = [e for e in np.unique(environments) if e != left_out]
    shares = dict(zip(training, np.linspace(0.95, 0.85, len(training)), strict=True))
    shares[left_out] = 1 / n_classes if agreement is None else agreement
    draws, other = rng.random(len(y)), (y + rng.integers(1, n_classes, size=len(y))) % n_classes
    return np.where(draws < np.array([shares[e] for e in environments]), y, other).astype(float)


def beside(X: Any, column: Any) -> Any:
    """Return a matrix with one more column."""
    return sp.csr_array(sp.hstack([X, column[:, None]])) if sp.issparse(X) else np.column_stack([X, column])


def splits(folder: Path, tables: list[str], estimators: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield table, estimator, site left out, rows, labels, sites and which rows train, for each fit."""
    for name in tables:
        X, y, environments = trust.read_real(name, folder)
        for estimator in estimators:
            if sp.issparse(X) and estimator == "boosting" and X.shape[1] > 300:
                continue  # it takes no sparse rows
            for left_out in trust.left_out_in_turn(environments).tolist():
                train = environments != left_out
                if len(np.unique(y[train])) > y.max():
                    yield name, estimator, left_out, X, y, environments, train


def measure_planted(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return accuracies at the site left out of the whole road: fit, adapt, predict."""
    tables = {name: beside(X, planted(y, environments, left_out, a)) for name, a in SCENARIOS.items()}
    model = StableClassifier(make()).fit(tables["turned"][train], y[train], environments=environments[train])
    ordinary = ERMClassifier(make()).fit(tables["turned"][train], y[train], environments=environments[train])
    found: dict[str, Any] = {"fitted": model.verdict_.fitted}
    for name, table in tables.items():
        new = table[~train]
        adapted = model.adapt(new)
        found[name] = {
            key: float((m.predict(new) == y[~train]).mean())
            for key, m in (("ordinary", ordinary), ("stable", model), ("adapted", adapted))
        } | {"is_adapted": adapted.adaptation_.adapted, "reason": adapted.adaptation_.reason}
    return found


def give_up(X: Any, y: Any, environments: Any, place: int, make: Callable[[], Any]) -> tuple[Any, Any, Relearning]:
    """Return a classifier without one column, the removal, and what adapting needs: the user knows what is unstable."""
    removal, n_classes = plan_removal(X, [place], ["planted"]), int(y.max()) + 1
    without, names = removal.apply(X), np.unique(environments)
    scores = np.empty((len(y), n_classes))
    for site in names:
        own = environments == site
        scores[own] = class_scores(make().fit(without[~own], y[~own]), without[own], n_classes)
    calibration = calibrate(scores, y)
    logs, rng = calibration.log_probabilities(scores), np.random.default_rng(0)
    sites = {str(name): np.flatnonzero(environments == name) for name in names}
    vanished, reversed_ = np.arange(len(y)), np.arange(len(y))
    for rows in sites.values():
        vanished[rows] = rng.permutation(rows)
        for code in np.unique(y[rows]):
            own, others = rows[y[rows] == code], rows[y[rows] != code]
            if len(others):
                reversed_[own] = rng.choice(others, len(own))
    partners = {"known": np.arange(len(y)), "vanished": vanished, "reversed": reversed_}
    column = UnstableColumn("planted", (place,))
    return make().fit(without, y), removal, try_known_sites([column], X, y, sites, logs, logs, calibration, partners)


def measure_given_up(X: Any, y: Any, environments: Any, train: Any, left_out: str, make: Callable[[], Any]) -> Any:
    """Return accuracies at the site left out of a classifier without the planted column, and adapted."""
    tables = {name: beside(X, planted(y, environments, left_out, a)) for name, a in SCENARIOS.items()}
    place, n_classes = X.shape[1], int(y.max()) + 1
    stable, removal, relearning = give_up(tables["turned"][train], y[train], environments[train], place, make)
    ordinary = make().fit(tables["turned"][train], y[train])
    found: dict[str, Any] = {"refusal": None if relearning.refusal is None else relearning.refusal[0]}
    for name, table in tables.items():
        new, truth = table[~train], y[~train]
        without = float((stable.predict(removal.apply(new)) == truth).mean())
        guarded, _ = adapt(relearning, stable, removal, new, n_classes)
        alone, _ = adapt(unguarded(relearning), stable, removal, new, n_classes)
        found[name] = {
            "ordinary": float((ordinary.predict(new) == truth).mean()),
            "stable": without,
            "adapted": without if guarded is None else float((guarded.predict(new) == truth).mean()),
            "unguarded": without if alone is None else float((alone.predict(new) == truth).mean()),
        }
    return found


def unguarded(relearning: Relearning) -> Relearning:
    """Return the same as if every trial had gained."""
    trials = {
        scenario: {name: type(t)(t.n_rows, 1.0, 0.0, 1.0, 1.0, 0.0) for name, t in of.items()}
        for scenario, of in relearning.trials.items()
    }
    return Relearning(relearning.columns, relearning.calibration, relearning.scale, trials)


def main() -> None:
    """Run a suite, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "tables", "show"])
    parser.add_argument("suite", nargs="?", choices=SUITES)
    parser.add_argument("--estimators", default="logistic,boosting")
    parser.add_argument("--tables", default=",".join([*trust.CHOSEN_ON, *trust.HELD_OUT]))
    parser.add_argument("--records", type=Path, default=EVIDENCE)
    options = parser.parse_args()
    records = trust.Records("newsite", options.records, prefix="")
    names, estimators = options.tables.split(","), options.estimators.split(",")
    folder = Path(os.environ.get("HOLDFAST_TEST_DATA", "."))
    measures = {"planted": measure_planted, "given_up": measure_given_up}
    for name, estimator, left_out, X, y, environments, train in splits(folder, names, estimators):
        key = {"suite": options.suite, "table": name, "estimator": estimator, "left_out": left_out}
        make = partial(trust.ESTIMATORS[estimator], 0)
        records.add(key, partial(measures[options.suite], X, y, environments, train, left_out, make))


if __name__ == "__main__":
    main()
