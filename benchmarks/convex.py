"""The exact worst-case fit of a large table against one scikit-learn fit of the same rows.

    python benchmarks/convex.py [--quick] [--repetitions 5] [--rows 1000000] [--threads 1] [--record DIR]

A table of 30 columns of unit spread (scikit-learn's lbfgs likes nothing better), one of them unstable, in 4
environments. Predict then Interpolate cuts them into 12 partitions, 24 overlapping groups. Timed by turns in one
process: scikit-learn's `LogisticRegression` on all rows, and `solve_convex` on the groups of hard and of soft halves to
a certified gap of 1e-4. All stop at a tolerance of 1e-4; how far scikit-learn's fits are from their own optimum stands
beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import permutations
from typing import Any

from measuring import Timed, by_turns, parser, ratio, set_threads, write_record

N_COLUMNS = 30
TARGET = 5.0


def main() -> int:
    """Set the number of threads, then measure."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    arguments = options.parse_args()
    set_threads(arguments.threads)
    n_rows = 20_000 if arguments.quick else arguments.rows
    write_record(arguments, compare(n_rows, 1 if arguments.quick else arguments.repetitions))
    return 0


def table(n_rows: int, n_environments: int, *, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return X, y and environment codes: noise, ten weak stable columns, and one that agrees more or less with y."""
    import numpy as np

    generator = np.random.default_rng(seed)
    environment = generator.integers(n_environments, size=n_rows)
    y = generator.integers(2, size=n_rows)
    X = generator.normal(size=(n_rows, N_COLUMNS))
    X[:, :10] += 0.3 * (2 * y[:, None] - 1)
    flipped = generator.random(n_rows) < np.linspace(0.05, 0.25, n_environments)[environment]
    X[:, -1] = 2 * np.where(flipped, 1 - y, y) - 1 + 0.1 * X[:, -1]
    return X, y, environment


def halves(X: Any, y: Any, environment: Any, *, soft: bool) -> list[Any]:
    """Return the groups of all partitions: hard halves, or soft ones that hold every row with its probability."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from holdfast.environments import Group

    rows = [np.flatnonzero(environment == e) for e in range(environment.max() + 1)]
    judges = []
    for own in rows:
        some = own[:: max(1, len(own) // 5_000)]  # judges are not what is timed
        judges.append(make_pipeline(StandardScaler(), LogisticRegression()).fit(X[some], y[some]))
    groups = []
    for judge, judged in permutations(range(len(rows)), 2):
        of, name = rows[judged], f"{judged} judged by {judge}"
        right = judges[judge].predict_proba(X[of])[np.arange(len(of)), y[of]]
        if soft:
            groups += [Group(f"{name}: correct", of, right), Group(f"{name}: mistaken", of, 1.0 - right)]
        else:
            groups += [Group(f"{name}: correct", of[right > 0.5]), Group(f"{name}: mistaken", of[right <= 0.5])]
    return [group for group in groups if len(group)]


def compare(n_rows: int, repetitions: int) -> list[dict[str, Any]]:
    """Time scikit-learn's fit and the worst-case fits on the same rows."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from holdfast.environments import Group
    from holdfast.interpolation.convex.solver import LinearSettings, minimize_worst_case_log_loss, solve_convex
    from holdfast.rows.training import TrainingRows

    X, y, environment = table(n_rows, 4)
    groups = {name: halves(X, y, environment, soft=name == "soft") for name in ("hard", "soft")}

    def worst_case(name: str) -> Callable[[], Any]:
        return lambda: solve_convex(LogisticRegression(), TrainingRows(X, y, ()), groups[name], n_classes=2)

    def own_fit(solver: str) -> Callable[[], Any]:
        return lambda: LogisticRegression(solver=solver, tol=1e-4, max_iter=1_000).fit(X, y)

    def risk_and_penalty(coef: Any, intercept: Any) -> float:
        losses = np.logaddexp(0.0, (1 - 2 * y) * (X @ coef[0] + intercept[0]))
        return float(losses.mean() + (coef**2).sum() / (2 * n_rows))

    measured = by_turns(
        {
            "LogisticRegression, lbfgs": own_fit("lbfgs"),
            "LogisticRegression, newton-cholesky": own_fit("newton-cholesky"),
            "solve_convex, hard halves": worst_case("hard"),
            "solve_convex, soft halves": worst_case("soft"),
        },
        repetitions,
    )
    # How far are scikit-learn's fits from their own optimum? With all rows as one group it is certified to 1e-9.
    exact = minimize_worst_case_log_loss(
        X, y, [Group("all", np.arange(n_rows))], n_classes=2, settings=LinearSettings(tolerance=1e-9)
    )
    optimum = risk_and_penalty(exact.coef, exact.intercept)
    first = measured["LogisticRegression, lbfgs"]
    records = []
    for name, timed in measured.items():
        is_peer = name.startswith("LogisticRegression")
        found = timed.result
        gap = max(risk_and_penalty(found.coef_, found.intercept_) - optimum, 0.0) if is_peer else found.gap
        records.append(
            row(name, timed, first)
            | {
                "n_rows": n_rows,
                "n_columns": N_COLUMNS,
                "n_groups": 1 if is_peer else len(groups["soft" if "soft" in name else "hard"]),
                "iterations": int(found.n_iter_[0]) if is_peer else len(found.history),
                "gap": float(f"{gap:.1e}"),
                "target": None if is_peer else TARGET,
            }
        )
    return records


def row(side: str, timed: Timed, first: Timed) -> dict[str, Any]:
    """Return what a side took, and its ratio to scikit-learn's fit."""
    return {
        "side": side,
        **timed.summary(),
        "ratio": ratio(timed.seconds, first.seconds),
        "processor_ratio": ratio(timed.processor_seconds, first.processor_seconds),
    }


if __name__ == "__main__":
    sys.exit(main())
