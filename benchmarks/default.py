"""The default for tables in ordinary fits: `StableClassifier` against its own estimator on the same rows.

    python benchmarks/default.py [--quick] [--repetitions 5] [--record DIR]

Both sides are fitted by turns, one thread, on 12,000 rows of 20 columns: 19 that hold everywhere, correlated, and one
whose relation to the label changes between environments. The ratio is that of processor times.
"""

from __future__ import annotations

import time
import warnings
from statistics import median
from typing import Any

from measuring import parser, rounded, set_threads, write_record

TARGETS = {("logistic", 4): 25.0, ("boosting", 4): 10.0, ("logistic", 23): 25.0, ("logistic", 40): 25.0}


def main() -> None:
    """Time both sides by turns."""
    options = parser(__doc__, repetitions=5).parse_args()
    set_threads(options.threads)
    repetitions = 1 if options.quick else options.repetitions
    rows = [measure(name, n, repetitions, 2_000 if options.quick else 12_000) for name, n in TARGETS]
    write_record(options, rows, audit=measure_audit(repetitions, 2_000 if options.quick else 100_000))


def measure(name: str, n_environments: int, repetitions: int, n_rows: int) -> dict[str, Any]:
    """Fit the estimator and the default around it by turns; return medians."""
    from holdfast import StableClassifier

    X, y, environments = draw(n_rows, n_environments)
    ordinary, stable = [], []
    for repetition in range(repetitions + 1):
        began = time.process_time()
        make(name).fit(X, y)
        middle = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = StableClassifier(make(name)).fit(X, y, environments=environments)
        ended = time.process_time()
        if repetition:  # the first one imports
            ordinary.append(middle - began)
            stable.append(ended - middle)
    return {
        "estimator": name,
        "environments": n_environments,
        "rows": n_rows,
        "fitted": model.verdict_.fitted,
        "ordinary_processor_ms": rounded(1000 * median(ordinary)),
        "stable_processor_ms": rounded(1000 * median(stable)),
        "ratio": rounded(median(b / a for a, b in zip(ordinary, stable, strict=True))),
        "target": TARGETS[name, n_environments],
    }


def measure_audit(repetitions: int, n_rows: int) -> dict[str, Any]:
    """Time the audit of a large table."""
    from holdfast.auditing.run import audit_data

    X, y, environments = draw(n_rows, 4)
    spent = []
    for _ in range(repetitions + 1):
        began = time.process_time()
        audit_data(X, y, environments)
        spent.append(time.process_time() - began)
    return {"rows": n_rows, "processor_seconds": rounded(median(spent[1:])), "target": 8.0}


def make(name: str) -> Any:
    """Return an unfitted estimator."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "boosting":
        return HistGradientBoostingClassifier(random_state=0)
    return make_pipeline(StandardScaler(), LogisticRegression())


def draw(n_rows: int, n_environments: int) -> tuple[Any, Any, Any]:
    """Return rows in which the first column agrees with the label in 95 to 80 % of the rows of an environment."""
    import numpy as np  # after the number of threads is set

    generator = np.random.default_rng(0)
    environments = np.arange(n_rows) % n_environments
    y = generator.integers(2, size=n_rows)
    mixing = np.eye(20) + 0.3 * generator.normal(size=(20, 20)) / np.sqrt(20)
    X = (generator.normal(size=(n_rows, 20)) + 0.3 * y[:, None] * generator.random(20)) @ mixing
    agreement = np.linspace(0.95, 0.8, n_environments)[environments]
    X[:, 0] = np.where(generator.random(n_rows) < agreement, y, 1 - y)
    return X, y, environments


if __name__ == "__main__":
    main()
