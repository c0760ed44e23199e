"""Boosted trees inside PI: what a whole fit costs, in fits of the same rows.

    python benchmarks/boosting.py [--quick] [--repetitions 5] [--record DIR]

The target is (environments + reweighting rounds × folds) times one plain fit, plus 10 %. Plain fit and PI are timed by
turns in one process. The number of rounds is what PI took, of at most 20: it ends when its gap is closed. Next to it
stands StableClassifier, whose number of fits does not depend on rounds.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from measuring import Timed, by_turns, parser, ratio, set_threads, write_record

N_COLUMNS, N_FOLDS = 20, 2


def main() -> None:
    """Measure two learners on one table."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000)
    arguments = options.parse_args()
    set_threads(arguments.threads)
    warnings.simplefilter("ignore")
    rows, repetitions = (1_000, 1) if arguments.quick else (arguments.rows, arguments.repetitions)
    write_record(arguments, measure(rows, 4, repetitions), n_rows=rows, n_columns=N_COLUMNS)


def measure(n_rows: int, n_environments: int, repetitions: int) -> list[dict[str, Any]]:
    """Return a row for each learner and method."""
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    from holdfast import PIClassifier, StableClassifier

    X, y, environments = table(n_rows, n_environments)
    learners = {
        "boosting": HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0),
        "forest": RandomForestClassifier(n_estimators=20, min_samples_leaf=5, random_state=0),
    }

    def fit(model: Any) -> Callable[[], Any]:
        return lambda: clone(model).fit(X, y, environments=environments)

    rows = []
    for name, learner in learners.items():
        sides = {
            "one fit": lambda learner=learner: clone(learner).fit(X, y),
            "worst_case": fit(PIClassifier(learner, n_folds=N_FOLDS, random_state=0)),
            "stable": fit(StableClassifier(learner, random_state=0)),
        }
        timed = by_turns(sides, repetitions)
        rows += [row(name, side, timed[side], timed["one fit"], n_environments) for side in sides]
        print(*rows[-3:], sep="\n", file=sys.stderr, flush=True)
    return rows


def row(learner: str, side: str, timed: Timed, one: Timed, n_environments: int) -> dict[str, Any]:
    """Return what a side took in plain fits, next to the number that it may take."""
    found: dict[str, Any] = {"learner": learner, "side": side, **timed.summary()}
    if side == "one fit":
        return found
    rounds = len(timed.result.history_) if side == "worst_case" else None
    allowed = None if rounds is None else 1.1 * (n_environments + rounds * N_FOLDS)
    return found | {
        "environments": n_environments,
        "folds": N_FOLDS,
        "rounds": rounds,
        "ratio": ratio(timed.seconds, one.seconds),
        "processor_ratio": ratio(timed.processor_seconds, one.processor_seconds),
        "target": None if allowed is None else round(allowed, 1),
        "gap": None if rounds is None else float(f"{timed.result.gap_:.2g}"),
    }


def table(n_rows: int, n_environments: int) -> tuple[Any, Any, Any]:
    """Return rows with a stable and an unstable column among noise."""
    import numpy as np

    generator = np.random.default_rng(0)
    y = generator.integers(2, size=n_rows)
    environments = np.arange(n_rows) % n_environments
    X = generator.normal(size=(n_rows, N_COLUMNS))
    X[:, 0] += 3.0 * np.where(generator.random(n_rows) < 0.8, y, 1 - y)
    agreement = np.linspace(0.95, 0.7, n_environments)[environments]
    X[:, 1] += 3.0 * np.where(generator.random(n_rows) < agreement, y, 1 - y)
    return X, y, environments


if __name__ == "__main__":
    main()
