"""Ten million rows: a fit from a memory map, and `holdfast predict` over a Parquet file; time and peak memory.

    python benchmarks/load.py fit --rows 10000000 --estimator mlp
    python benchmarks/load.py fit --rows 10000000 --estimator logistic
    python benchmarks/load.py predict --rows 10000000

Files go to a scratch folder (`--scratch`), about 1 GB for ten million rows, and are removed. Memory is what the process
holds for itself (RssAnon) beyond what it held after its imports, polled 50 times a second: pages of the memory map,
which the system keeps and may drop at any time, are not in it; the peak with them is told too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

N_COLUMNS, BLOCK, ENVIRONMENTS = 20, 250_000, 4


class PeakMemory:
    """Polls how much memory this process holds while a block runs."""

    def __enter__(self) -> PeakMemory:
        self.before = self.read()
        self.peak, self.done = dict(self.before), threading.Event()
        self.thread = threading.Thread(target=self._poll, daemon=True)
        self.thread.start()
        self.start, self.work = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, self.cpu_seconds = time.perf_counter() - self.start, time.process_time() - self.work
        self.done.set()
        self.thread.join()

    @staticmethod
    def read() -> dict[str, int]:
        """Return bytes held for itself, and with the pages of files."""
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        fields = {name: value for name, _, value in (line.partition(":") for line in lines)}
        return {name: int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "VmRSS")}

    def _poll(self) -> None:
        while not self.done.wait(0.02):
            for name, value in self.read().items():
                self.peak[name] = max(self.peak[name], value)

    def told(self) -> dict[str, float]:
        """Return the peaks over what was held before, in MiB, and the times."""
        growth = {name: round((self.peak[name] - self.before[name]) / 2**20) for name in self.peak}
        return {
            "own_mib": growth["RssAnon"],
            "with_file_pages_mib": growth["VmRSS"],
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def blocks(n_rows: int):
    """Yield rows, labels and environments, a block at a time: two columns say something, one of them not everywhere."""
    rng = np.random.default_rng(0)
    for start in range(0, n_rows, BLOCK):
        n = min(BLOCK, n_rows - start)
        environments = rng.integers(0, ENVIRONMENTS, n).astype(np.int8)
        y = rng.integers(0, 2, n).astype(np.int8)
        X = rng.standard_normal((n, N_COLUMNS), dtype=np.float32)
        X[:, 0] += y
        X[:, 1] += y * (environments - 1)
        yield X, y, environments


def fit(n_rows: int, scratch: Path, estimator: str) -> dict[str, object]:
    """Fit PI on a memory map."""
    from sklearn.linear_model import LogisticRegression

    from holdfast import PIClassifier
    from holdfast.neural import NeuralClassifier

    rows = np.memmap(scratch / "rows.float32", dtype=np.float32, mode="w+", shape=(n_rows, N_COLUMNS))
    y, environments = np.empty(n_rows, np.int8), np.empty(n_rows, np.int8)
    for number, block in enumerate(blocks(n_rows)):
        part = slice(number * BLOCK, number * BLOCK + len(block[1]))
        rows[part], y[part], environments[part] = block
    rows.flush()
    del rows
    rows = np.memmap(scratch / "rows.float32", dtype=np.float32, mode="r", shape=(n_rows, N_COLUMNS))
    inner = (
        NeuralClassifier("mlp", max_epochs=3, random_state=0)
        if estimator == "mlp"
        else LogisticRegression(max_iter=100)
    )
    model = PIClassifier(inner, n_folds=0, random_state=0)
    model.fit(rows[: 200 * ENVIRONMENTS], y[: 200 * ENVIRONMENTS], environments=environments[: 200 * ENVIRONMENTS])
    with PeakMemory() as memory:
        model.fit(rows, y, environments=environments)
    found = {"what": f"fit pi, {estimator}", "rows": n_rows, "columns": N_COLUMNS, **memory.told()}
    return {**found, "worst_case_risk": round(float(model.worst_case_risk_), 4), "solver": model.solver_}


def predict(n_rows: int, scratch: Path) -> dict[str, object]:
    """Predict a Parquet file by the command line, in this process."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet

    from holdfast.cli import app

    names = [f"x{i}" for i in range(N_COLUMNS)]

    def command(*arguments: object) -> None:
        try:
            app([str(a) for a in arguments], prog_name="holdfast")
        except SystemExit as problem:
            if problem.code:
                raise

    X, y, environments = next(iter(blocks(4000)))
    small = pd.DataFrame(X, columns=names).assign(y=y, site=environments)
    small.to_parquet(scratch / "small.parquet")
    model = scratch / "model"
    command("fit", scratch / "small.parquet", "--label", "y", "--environment", "site", "--out", model)
    command("predict", model, scratch / "small.parquet", "--out", scratch / "small-out.parquet")
    large = scratch / "large.parquet"
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pyarrow.parquet.ParquetWriter(large, schema, compression="none", use_dictionary=False) as writer:
        for X, _, _ in blocks(n_rows):
            columns = [pa.array(X[:, i]) for i in range(N_COLUMNS)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    with PeakMemory() as memory:
        command("predict", model, large, "--out", scratch / "large-out.parquet")
    n_answers = pyarrow.parquet.read_metadata(scratch / "large-out.parquet").num_rows
    return {"what": "holdfast predict", "rows": n_rows, "answers": n_answers, **memory.told()}


def main() -> None:
    """Measure one of them, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fit", "predict"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--estimator", choices=["logistic", "mlp"], default="mlp")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        if options.what == "fit":
            found = fit(options.rows, Path(scratch), options.estimator)
        else:
            found = predict(options.rows, Path(scratch))
    print(json.dumps(found), file=sys.stdout)


if __name__ == "__main__":
    main()
