"""The exact worst-case fit of many columns and classes against one scikit-learn fit of the same rows.

    python benchmarks/wide.py [--quick] [--repetitions 5] [--threads 1] [--record DIR]

5,000 rows × 784 columns × 10 classes: scikit-learn's digits, enlarged to 28 × 28, moved by a pixel or two, with noise;
two groups. Timed by turns in one process: `LogisticRegression` on all rows, and `solve_convex` to a certified gap of
1e-4.
"""

from __future__ import annotations

import sys
from typing import Any

from convex import row
from measuring import by_turns, parser, set_threads, write_record

TARGET = 2.0


def main() -> int:
    """Set the number of threads, then measure."""
    arguments = parser(__doc__).parse_args()
    set_threads(arguments.threads)
    n_rows = 1_500 if arguments.quick else 5_000
    write_record(arguments, compare(n_rows, 1 if arguments.quick else arguments.repetitions))
    return 0


def digits(n_rows: int) -> tuple[Any, Any]:
    """Return images as rows of 784 numbers between 0 and 1, and their labels."""
    import numpy as np
    from sklearn.datasets import load_digits

    generator = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    chosen = generator.integers(len(labels), size=n_rows)
    large = np.kron(images[chosen].reshape(-1, 8, 8) / 16, np.ones((1, 3, 3)))  # (n_rows, 24, 24)
    rows = np.zeros((n_rows, 28, 28))
    for number, (down, right) in enumerate(generator.integers(5, size=(n_rows, 2))):
        rows[number, down : down + 24, right : right + 24] = large[number]
    return np.clip(rows.reshape(n_rows, -1) + 0.1 * generator.random((n_rows, 784)), 0, 1), labels[chosen]


def compare(n_rows: int, repetitions: int) -> list[dict[str, Any]]:
    """Time both fits."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from holdfast.environments import Group
    from holdfast.interpolation.convex.solver import solve_convex
    from holdfast.rows.training import TrainingRows

    X, y = digits(n_rows)
    first = np.random.default_rng(1).random(n_rows) < 0.6
    groups = [Group("first", np.flatnonzero(first)), Group("second", np.flatnonzero(~first))]
    sides = {
        "LogisticRegression, lbfgs": lambda: LogisticRegression(max_iter=1_000).fit(X, y),
        "solve_convex, two groups": lambda: solve_convex(
            LogisticRegression(), TrainingRows(X, y, ()), groups, n_classes=10
        ),
    }
    measured = by_turns(sides, repetitions)
    own, worst_case = measured.values()
    shape = {"n_rows": n_rows, "n_columns": X.shape[1], "n_classes": 10}
    return [
        row("LogisticRegression, lbfgs", own, own)
        | {**shape, "n_groups": 1, "iterations": int(own.result.n_iter_[0]), "gap": None, "target": None},
        row("solve_convex, two groups", worst_case, own)
        | {
            **shape,
            "n_groups": 2,
            "iterations": len(worst_case.result.history),
            "gap": float(f"{worst_case.result.gap:.1e}"),
            "target": TARGET,
        },
    ]


if __name__ == "__main__":
    sys.exit(main())
