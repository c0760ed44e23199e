"""The exact worst-case fit of a large table against one scikit-learn fit of the same rows.

    python benchmarks/convex.py [--quick] [--repetitions 5] [--rows 1000000] [--threads 1]

A table of 30 columns of unit spread (scikit-learn's lbfgs likes nothing better), one of them unstable, in 4
environments. Predict then Interpolate cuts them into 12 partitions, 24 overlapping groups. Timed by turns in one
process: scikit-learn's `LogisticRegression` on all rows, and `solve_convex` on the groups of hard and of soft halves to
a certified gap of 1e-4. All stop at a tolerance of 1e-4; how far scikit-learn's fits are from their own optimum stands
beside them. Then the growth with rows and with environments. Writes JSON lines, then a table of medians: seconds on the
clock and of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import permutations
from typing import Any

N_COLUMNS = 30
TARGET = 5.0


def main() -> int:
    """Set the number of threads, then measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and one repetition: does it run?")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(arguments.threads)  # before numpy is imported
    n_rows = 20_000 if arguments.quick else arguments.rows
    repetitions = 1 if arguments.quick else arguments.repetitions
    records = compare(n_rows, repetitions, arguments.threads)
    records += grow(n_rows, repetitions, arguments.threads)
    for record in records:
        print(json.dumps(record))
    print(
        f"\n{'side':37}{'rows':>9}{'groups':>7}{'seconds':>9}{'processor':>10}{'µs/row':>8}{'gap':>9}{'ratio':>7}{'target':>7}"
    )
    for r in records:
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.2f}"
        target = "" if r["target"] is None else f"≤ {r['target']:.0f}"
        print(
            f"{r['side']:37}{r['n_rows']:9}{r['n_groups']:7}{r['seconds']:9.3f}{r['processor_seconds']:10.3f}"
            f"{r['microseconds_per_row']:8.2f}{r['gap']:9.0e}{ratio:>7}{target:>7}"
        )
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


def by_turns(sides: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, tuple[float, float, Any]]:
    """Return the median of clock and processor seconds of each side, and its last result."""
    clock: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    results: dict[str, Any] = {}
    for _ in range(repetitions):
        for name, run in sides.items():
            start = time.perf_counter(), time.process_time()
            results[name] = run()
            clock[name].append(time.perf_counter() - start[0])
            processor[name].append(time.process_time() - start[1])
    return {name: (statistics.median(clock[name]), statistics.median(processor[name]), results[name]) for name in sides}


def record(side: str, n_rows: int, n_groups: int, measured: tuple[float, float, Any], **more: Any) -> dict[str, Any]:
    """Return one line of the output."""
    solution = measured[2]
    return {
        "benchmark": "convex",
        "side": side,
        "n_rows": n_rows,
        "n_columns": N_COLUMNS,
        "n_groups": n_groups,
        "seconds": round(measured[0], 4),
        "processor_seconds": round(measured[1], 4),
        "microseconds_per_row": round(1e6 * measured[0] / n_rows, 3),
        "gap": more.pop("gap", getattr(solution, "gap", None)),
        "iterations": len(solution.history) if hasattr(solution, "history") else int(solution.n_iter_[0]),
        "ratio": None,
        "target": None,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
    } | more


def compare(n_rows: int, repetitions: int, threads: int) -> list[dict[str, Any]]:
    """Time scikit-learn's fit and the worst-case fits on the same rows."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from holdfast.environments import Group
    from holdfast.solvers.convex import minimize_worst_case_log_loss, solve_convex

    X, y, environment = table(n_rows, 4)
    groups = {name: halves(X, y, environment, soft=name == "soft") for name in ("hard", "soft")}

    def worst_case(name: str) -> Callable[[], Any]:
        return lambda: solve_convex(LogisticRegression(), X, y, groups[name], n_classes=2, tolerance=1e-4)

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
    exact = minimize_worst_case_log_loss(X, y, [Group("all", np.arange(n_rows))], n_classes=2, tolerance=1e-9)
    optimum = risk_and_penalty(exact.coef, exact.intercept)
    first = measured["LogisticRegression, lbfgs"]
    records = []
    for name, result in measured.items():
        more: dict[str, Any] = {"ratio": round(result[0] / first[0], 3), "threads": threads}
        more["processor_ratio"] = round(result[1] / first[1], 3)
        if name.startswith("LogisticRegression"):
            gap = max(risk_and_penalty(result[2].coef_, result[2].intercept_) - optimum, 0.0)
            records.append(record(name, n_rows, 1, result, gap=gap, **more))
        else:
            n_groups = len(groups["soft" if "soft" in name else "hard"])
            records.append(record(name, n_rows, n_groups, result, target=TARGET, **more))
    return records


def grow(n_rows: int, repetitions: int, threads: int) -> list[dict[str, Any]]:
    """Time the worst-case fit for more and more rows, then for more and more environments."""
    from sklearn.linear_model import LogisticRegression

    from holdfast.solvers.convex import solve_convex

    records = []
    cases = [(size, 4) for size in (n_rows // 100, n_rows // 10, n_rows) if size >= 1_000]
    cases += [(n_rows // 10, n_environments) for n_environments in (2, 8, 16, 32) if n_rows >= 100_000]
    for size, n_environments in cases:
        X, y, environment = table(size, n_environments)
        groups = halves(X, y, environment, soft=False)
        fit = {"fit": lambda X=X, y=y, groups=groups: solve_convex(LogisticRegression(), X, y, groups, n_classes=2)}
        measured = by_turns(fit, repetitions)["fit"]
        records.append(
            record(f"solve_convex, {n_environments} environments", size, len(groups), measured, threads=threads)
        )
    return records


if __name__ == "__main__":
    sys.exit(main())
