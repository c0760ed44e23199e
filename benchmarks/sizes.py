"""Growth: `StableClassifier`, `diagnose` and PI by the numbers of rows, columns, sites and classes.

    python benchmarks/sizes.py [--quick] [--points FILE] [--limit 300] [--record DIR]

One number grows at a time, from 10,000 rows × 20 columns × 4 sites × 2 classes; the estimator is a logistic
regression of standardized columns. Every size has a process of its own, one thread, after small fits that import. A
process that needs more than `--limit` seconds of processor time is stopped, and the record says which fits were not
finished; PI refuses more than 300 sites. With `--points` finished sizes are kept in a file, and a run
that was cut goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, parser, rounded, set_threads, write_record

BASE = {"rows": 10_000, "columns": 20, "sites": 4, "classes": 2}
GROWN = {
    "columns": (2, 20, 100, 300, 1_000),
    "classes": (2, 10, 50, 200),
    "sites": (2, 4, 20, 50, 200, 1_000),
    "rows": (1_000, 10_000, 100_000, 1_000_000),
}
QUICK = {"rows": (400,), "columns": (5,), "sites": (3,), "classes": (3,)}
CALLS = ("ordinary", "StableClassifier", "diagnose", "PIClassifier")
Sizes = tuple[int, ...]  # rows, columns, sites, classes


def main() -> None:
    """Run every size in a process of its own, and put the sizes together."""
    options = parser(__doc__, repetitions=1)
    options.add_argument("--points", type=Path, help="file of finished sizes, which are not run again")
    options.add_argument("--limit", type=int, default=300, help="processor seconds after which a size is stopped")
    options.add_argument("--point", nargs=4, type=int, metavar="SIZE", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.point:
        set_threads(arguments.threads)
        measure(*arguments.point)
        return
    grown = QUICK if arguments.quick else GROWN
    done = read_points(arguments.points)
    rows = []
    for axis, to in ((axis, to) for axis, all_sizes in grown.items() for to in all_sizes):
        sizes = sizes_of(axis, to, quick=arguments.quick)
        if sizes not in done:
            done[sizes] = run(arguments, sizes)
        rows.append({"grows": axis, "to": to, **done[sizes]})
    write_record(arguments, rows, base=BASE, limit=arguments.limit)


def sizes_of(axis: str, to: int, *, quick: bool = False) -> Sizes:
    """Return rows, columns, sites and classes where one of them has another value."""
    base = {name: sizes[0] for name, sizes in QUICK.items()} if quick else BASE
    return tuple({**base, axis: to}.values())


def read_points(file: Path | None) -> dict[Sizes, dict[str, float | None]]:
    """Return the finished sizes of an earlier run."""
    if file is None or not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {tuple(one["sizes"]): one["seconds"] for one in map(json.loads, lines)}


def run(options: argparse.Namespace, sizes: Sizes) -> dict[str, float | None]:
    """Return the processor seconds of every call that was finished within the limit, in a process of its own."""
    command = [sys.executable, __file__, "--threads", str(options.threads), "--point", *map(str, sizes)]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))

    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, preexec_fn=limited)
    if done.returncode > 0:  # below zero: stopped at the limit
        raise RuntimeError(f"{sizes}: {done.stderr[-2000:]}")
    seconds = dict(json.loads(line) for line in done.stdout.splitlines())
    print(sizes, seconds, file=sys.stderr, flush=True)
    if options.points is not None:
        with options.points.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"sizes": sizes, "seconds": seconds}) + "\n")
    return seconds


def measure(n_rows: int, n_columns: int, n_sites: int, n_classes: int) -> None:
    """Print the processor seconds of every call, each as soon as it is known; null where it is refused."""
    from holdfast.exceptions import EnvironmentsError

    warnings.simplefilter("ignore")
    for call in CALLS:  # a small fit imports
        fit(call, *draw(200, 3, 2, 2))
    rows = draw(n_rows, n_columns, n_sites, n_classes)
    for call in CALLS:
        try:
            seconds = rounded(median(_times(call, rows)))
        except EnvironmentsError:  # PI says from how many sites on it does not work
            seconds = None
        print(json.dumps([call, seconds]), flush=True)


def _times(call: str, rows: tuple[Any, Any, Any]) -> Iterator[float]:
    """Yield the time of a call: three times where it is short, else once."""
    for _ in range(3):
        began = time.process_time()
        fit(call, *rows)
        yield (spent := time.process_time() - began)
        if spent > 0.5:
            return


def fit(call: str, X: Any, y: Any, sites: Any) -> None:
    """Do what a user would call."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import holdfast

    estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if call == "ordinary":
        estimator.fit(X, y)
    elif call == "diagnose":
        holdfast.diagnose(X, y, sites, estimator=estimator)
    else:
        getattr(holdfast, call)(estimator, random_state=0).fit(X, y, environments=sites)


def draw(n_rows: int, n_columns: int, n_sites: int, n_classes: int) -> tuple[Any, Any, Any]:
    """Return rows in which the effect of the first column differs between sites, and that of the others does not."""
    import numpy as np

    generator = np.random.default_rng(0)
    y, sites = generator.integers(n_classes, size=n_rows), np.arange(n_rows) % n_sites
    centers = generator.normal(size=(n_classes, n_columns)) / np.sqrt(n_columns)
    X = 1.5 * centers[y] + generator.normal(size=(n_rows, n_columns))
    effect = np.linspace(2.0, 0.5, n_sites)[sites]
    X[:, 0] = effect * generator.permutation(np.linspace(-1, 1, n_classes))[y] + generator.normal(size=n_rows)
    return X, y, sites


if __name__ == "__main__":
    main()
