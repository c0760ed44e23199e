"""Folders of Parquet files beyond the memory: processor time and memory of fits, against one pass of reading.

    python benchmarks/scale.py FOLDER --rows 1000000 10000000 100000000 --cases read erm stable

Writes FOLDER once, files of 1,000,000 rows × 20 columns of 32 bits × 8 environments, then runs every case in a process
of its own on the first files, with `--max-memory` GiB, and prints a line of JSON for each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FILE_ROWS, N_COLUMNS, N_ENVIRONMENTS = 1_000_000, 20, 8


def main() -> None:
    """Write what is missing of the folder, then measure the cases."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    options.add_argument(
        "--cases", nargs="*", default=["read", "erm", "stable"], help="'read', METHOD, METHOD/ESTIMATOR"
    )
    options.add_argument("--max-memory", type=float, default=1.0, help="GiB")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.one:
        run(arguments.folder, arguments.cases[0], arguments.max_memory)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-max(arguments.rows) // FILE_ROWS)):
        write(arguments.folder / f"part-{number:04d}.parquet", number)
    for n_rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.folder.parent) as first:
            for path in sorted(arguments.folder.glob("*.parquet"))[: -(-n_rows // FILE_ROWS)]:
                (Path(first) / path.name).symlink_to(path.resolve())
            for case in arguments.cases:
                command = [sys.executable, __file__, first, "--one", "--cases", case]
                command += ["--max-memory", str(arguments.max_memory)]
                source = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
                subprocess.run(command, env=os.environ | source, check=True)


def write(path: Path, number: int) -> None:
    """Write a file of rows; column 0 agrees with the label everywhere, column 1 as much as its environment has it."""
    import pyarrow as pa
    import pyarrow.parquet

    if path.exists():
        return
    generator = np.random.default_rng([0, number])
    site, y = generator.integers(N_ENVIRONMENTS, size=FILE_ROWS), generator.integers(2, size=FILE_ROWS)
    X = generator.standard_normal((N_COLUMNS, FILE_ROWS), dtype=np.float32)
    X[0] += 1.5 * np.where(generator.random(FILE_ROWS) < 0.8, y, 1 - y)
    X[1] += 3.0 * np.where(generator.random(FILE_ROWS) < np.linspace(0.95, 0.7, N_ENVIRONMENTS)[site], y, 1 - y)
    X[2:8] += 0.2 * y
    names = pa.DictionaryArray.from_arrays(pa.array(site.astype(np.int8)), [f"site {k}" for k in range(N_ENVIRONMENTS)])
    columns = {"y": pa.array(y.astype(np.int8)), "site": names} | {f"x{k}": pa.array(X[k]) for k in range(N_COLUMNS)}
    half_written = path.with_suffix(".part")
    pyarrow.parquet.write_table(pa.table(columns), half_written, compression="none", use_dictionary=["site"])
    half_written.rename(path)


def run(folder: Path, case: str, max_memory: float) -> None:
    """Read all rows once, or fit a method, and print what it took."""
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.folders import TableFolder

    begin = time.perf_counter(), time.process_time()
    source = TableFolder(folder, max_memory=max_memory)
    found: dict[str, object] = {}
    if case == "read":
        found["sum"] = sum(float(chunk["x0"].sum()) for chunk in source.chunks(source.columns))
    else:
        method, _, estimator = case.partition("/")
        fitted = TableClassifier(label="y", environment="site", method=method, estimator=estimator or "logistic")
        fitted.fit(source)
        found["notes"] = list(fitted.notes_)
        if method == "stable":
            found["verdict"] = str(fitted.verdict_)
    end = time.perf_counter(), time.process_time()
    found |= {
        "rows": source.n_rows,
        "case": case,
        "seconds": round(end[0] - begin[0], 1),
        "processor_seconds": round(end[1] - begin[1], 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
