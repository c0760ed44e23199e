"""Growth: `StableClassifier`, `diagnose` and PI by the numbers of rows, columns, sites and classes.

    python benchmarks/sizes.py [--quick] [--points FILE] [--limit 900] [--record DIR]

One number grows at a time, from 10,000 rows × 20 columns × 4 sites × 2 classes; the estimator is a logistic
regression of standardized columns. Every fit has a process of its own, one thread, after a small fit that imports. The
ratio is that of processor times to an ordinary fit of the same rows. A fit that needs more than `--limit` seconds of
processor time is stopped, and the record says so. With `--points` finished fits are kept in a file, and a run that was
cut goes on.
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
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, parser, rounded, set_threads, write_record

BASE = {"rows": 10_000, "columns": 20, "sites": 4, "classes": 2}
GROWN = {
    "rows": (1_000, 10_000, 100_000, 1_000_000),
    "columns": (2, 20, 100, 300, 1_000),
    "sites": (2, 4, 20, 50, 200),
    "classes": (2, 10, 50, 200),
}
QUICK = {"rows": (400,), "columns": (5,), "sites": (3,), "classes": (3,)}
CALLS = ("ordinary", "StableClassifier", "diagnose", "PIClassifier")
Point = tuple[str, int]  # what grows, and to how much


def main() -> None:
    """Run every call at every point in a process of its own, and put the points together."""
    options = parser(__doc__, repetitions=1)
    options.add_argument("--points", type=Path, help="file of finished fits, which are not run again")
    options.add_argument("--limit", type=int, default=900, help="processor seconds after which a fit is stopped")
    options.add_argument("--point", nargs=5, metavar="VALUE", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.point:
        set_threads(arguments.threads)
        call, *sizes = arguments.point
        print(json.dumps(measure(call, *map(int, sizes))))
        return
    grown = QUICK if arguments.quick else GROWN
    done = read_points(arguments.points)
    for axis, call, size in ((a, c, s) for a, sizes in grown.items() for s in sizes for c in CALLS):
        key = (call, *sizes_of(axis, size, quick=arguments.quick))
        if key not in done:
            done[key] = run(arguments, key)
    rows = [row(axis, size, done, quick=arguments.quick) for axis, sizes in grown.items() for size in sizes]
    write_record(arguments, rows, base=BASE, limit=arguments.limit)


def sizes_of(axis: str, size: int, *, quick: bool = False) -> tuple[int, ...]:
    """Return rows, columns, sites and classes where one of them has another value."""
    base = {name: sizes[0] for name, sizes in QUICK.items()} if quick else BASE
    return tuple({**base, axis: size}.values())


def row(axis: str, size: int, done: dict[tuple[Any, ...], dict[str, Any]], *, quick: bool) -> dict[str, Any]:
    """Return what all calls took at a point."""
    found = {call: done[(call, *sizes_of(axis, size, quick=quick))] for call in CALLS}
    return {"grows": axis, "to": size, **found}


def read_points(file: Path | None) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the finished fits of an earlier run."""
    if file is None or not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {tuple(one["key"]): one["found"] for one in map(json.loads, lines)}


def run(options: argparse.Namespace, key: tuple[Any, ...]) -> dict[str, Any]:
    """Return what a call took, measured in a process of its own with a limit of processor time."""
    command = [sys.executable, __file__, "--threads", str(options.threads), "--point", *map(str, key)]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit))

    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, preexec_fn=limited)
    if done.returncode == 0:
        found = json.loads(done.stdout.splitlines()[-1])
    elif done.returncode < 0:  # by the limit's signal
        found = {"stopped": options.limit}
    else:
        raise RuntimeError(f"{key}: {done.stderr[-2000:]}")
    print(key, found, file=sys.stderr, flush=True)
    if options.points is not None:
        with options.points.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"key": key, "found": found}) + "\n")
    return found


def measure(call: str, n_rows: int, n_columns: int, n_sites: int, n_classes: int) -> dict[str, float]:
    """Return the processor seconds of a call and the memory that its process needs beyond the rows."""
    warnings.simplefilter("ignore")
    fit(call, *draw(200, 3, 2, 2))
    rows = draw(n_rows, n_columns, n_sites, n_classes)
    before = _most_memory()
    spent = list(_times(call, rows))
    return {"processor_seconds": rounded(median(spent)), "mib": rounded(_most_memory() - before, 3)}


def _times(call: str, rows: tuple[Any, Any, Any]) -> Iterable[float]:
    """Yield the time of a call: three times where it is short, else once."""
    for _ in range(3):
        began = time.process_time()
        fit(call, *rows)
        yield (spent := time.process_time() - began)
        if spent > 5:
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


def _most_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
