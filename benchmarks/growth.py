"""Growth: time and memory of a whole PI fit with rows (on disk) and with environments.

    python benchmarks/growth.py [--quick] [--rows 10000000] [--folder DIR] [--points FILE] [--record DIR]

A table of 20 columns of float64 lies in a memory map; every point is a process of its own that maps it, fits
`PIClassifier` (all three stages) and says how long that took and how much memory it had of its own at most. Pages of
the mapped file are not counted: the system can drop them at any time. The network takes a fixed number of steps
whatever the number of rows. With `--points` finished points are kept in a file, and a run that was cut goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, parser, rounded, set_threads, write_record

N_COLUMNS = 20
BLOCK = 100_000


def main() -> None:
    """Write the largest table, fit its first rows in processes of their own, and put the points together."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000_000, help="of the largest table")
    options.add_argument("--folder", type=Path, help="where the table is written (default: a temporary folder)")
    options.add_argument("--points", type=Path, help="file of finished points, which are not measured again")
    options.add_argument("--point", nargs=5, metavar="VALUE", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.point:
        set_threads(arguments.threads)
        path, solver, rows, environments, together = arguments.point
        print(json.dumps(fit(Path(path), solver, int(rows), int(environments), together == "memory")))
        return
    most = 10_000 if arguments.quick else arguments.rows
    points = read_points(arguments.points)
    missing = [point for point in plan(most) if point not in points]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rows.npy"
        write_table(path, max((rows for _, rows, _, _ in missing), default=1))
        for point in missing:
            points[point] = run(arguments, path, *point)
    write_record(arguments, [points[point] for point in plan(most)], n_columns=N_COLUMNS)


def plan(most: int) -> list[tuple[str, int, int, str]]:
    """Return solver, rows, environments and where the rows are, for every point."""
    sizes = [10**power for power in range(4, int(math.log10(most)) + 1)]
    points = [("convex", size, 4, "disk") for size in sizes]
    points += [("gradient", size, 4, "disk") for size in sizes if size <= 10**6]  # beyond, predicting takes the time
    middle = min(100_000, most)
    points += [("convex", middle, n, "disk") for n in (2, 8, 16, 32)]
    points += [("convex", size, 4, "memory") for size in sizes if 10**5 <= size <= 10**6]
    return points


def read_points(file: Path | None) -> dict[tuple[str, int, int, str], dict[str, Any]]:
    """Return the finished points of an earlier run."""
    if file is None or not file.exists():
        return {}
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {(one["solver"], one["n_rows"], one["environments"], one["where"]): one for one in found}


def run(options: argparse.Namespace, path: Path, solver: str, rows: int, environments: int, where: str) -> dict:
    """Return the median point over the repetitions, each in a process of its own."""
    repetitions = 1 if options.quick else options.repetitions
    command = [sys.executable, __file__, "--threads", str(options.threads)]
    command += ["--point", str(path), solver, str(rows), str(environments), where]
    found = []
    for _ in range(repetitions):
        source = {"PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, env=os.environ | source, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    point = {"solver": solver, "n_rows": rows, "environments": environments, "where": where}
    point |= {name: rounded(median(one[name] for one in found)) for name in found[0]} | {"repetitions": repetitions}
    print(json.dumps(point), file=sys.stderr, flush=True)
    if options.points is not None:
        with options.points.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(point) + "\n")
    return point


def write_table(path: Path, n_rows: int) -> None:
    """Write rows with a stable and an unstable column among noise; label and environment draw are the last columns."""
    import numpy as np

    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_rows, N_COLUMNS + 2))
    for start in range(0, n_rows, BLOCK):
        generator = np.random.default_rng([0, start])
        block = generator.normal(size=(min(BLOCK, n_rows - start), N_COLUMNS + 2))
        y, draw = generator.integers(2, size=len(block)), generator.random(len(block))
        block[:, 0] += 1.5 * np.where(generator.random(len(block)) < 0.8, y, 1 - y)
        block[:, 1] += 3.0 * np.where(generator.random(len(block)) < 0.95 - 0.25 * draw, y, 1 - y)
        block[:, -2], block[:, -1] = y, draw  # environments are cut by the draw, so their unstable column differs
        table[start : start + len(block)] = block
    table.flush()


def fit(path: Path, solver: str, n_rows: int, n_environments: int, in_memory: bool) -> dict[str, float]:
    """Fit and return seconds, memory before, and the most memory of its own that the process had."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from holdfast import PIClassifier
    from holdfast.neural import NeuralClassifier

    table = np.load(path, mmap_mode="r")[:n_rows]
    y = np.array(table[:, -2], dtype=np.int64)
    environments = np.minimum((table[:, -1] * n_environments).astype(np.int64), n_environments - 1)
    X: Any = np.array(table[:, :N_COLUMNS]) if in_memory else table[:, :N_COLUMNS]
    settings: dict[str, Any] = {"halves": "hard", "interpolation": "worst_case", "n_folds": 0, "random_state": 0}
    if solver == "convex":
        model = PIClassifier(LogisticRegression(), **settings)
    else:
        network = NeuralClassifier("mlp", max_epochs=2, steps_per_epoch=100, training__selection="last")
        model = PIClassifier(network, objective="online", judge_selection="last", **settings)
    with Watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.perf_counter(), time.process_time()
        model.fit(X, y, environments=environments)
        end = time.perf_counter(), time.process_time()
    return {
        "seconds": end[0] - begin[0],
        "processor_seconds": end[1] - begin[1] - watch.cost,
        "mib_before": watch.first / 2**20,
        "mib_most": watch.most / 2**20,
        "features_mib": X.size * X.itemsize / 2**20,
        "gap": -1.0 if math.isnan(model.gap_) else model.gap_,
    }


class Watch:
    """Looks every 20 ms at the memory that is the process's own, file pages left out."""

    def __enter__(self) -> Watch:
        self.first = self.most = own_memory()
        self.cost = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._end.wait(0.02):
            self.most = max(self.most, own_memory())
        self.cost = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def own_memory() -> int:
    """Return the bytes of anonymous memory that this process holds (Linux)."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
