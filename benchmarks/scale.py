"""Large tables: processor time and memory of fits on folders beyond the memory, with many environments, by ranks.

    python benchmarks/scale.py FOLDER --rows 1000000 10000000 100000000 --cases read erm stable pi erm/xgboost
    python benchmarks/scale.py FOLDER --cases 40x1000 1000x1000
    python benchmarks/scale.py FOLDER --cases rare/2000000 small/2000000
    torchrun --standalone --nproc-per-node 2 benchmarks/scale.py FOLDER --cases ranks/2048

Writes FOLDER once, files of 1,000,000 rows × 20 columns of 32 bits × 8 environments, then runs every case in a process
of its own on the first files, with `--max-memory` GiB, and prints a line of JSON for each. A case of the form 40x1000
is a table in memory of so many environments and rows in each; ranks/2048 are steps of a network with layers so wide;
rare/2000000 and small/2000000 compare verdicts about 200,000 rows with those about so many.
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

import joblib
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
    options.add_argument("--threads", type=int, default=1, help="blocks that are worked on at the same time")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.one or arguments.cases[0].startswith("ranks/"):
        with joblib.parallel_config(backend="threading", n_jobs=arguments.threads):
            run(arguments.folder, arguments.cases[0], arguments.max_memory)
        return
    if arguments.cases[0][0].isdecimal() or arguments.cases[0].startswith(("rare/", "small/")):
        arguments.rows = [0]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-max(arguments.rows) // FILE_ROWS)):
        write(arguments.folder / f"part-{number:04d}.parquet", number)
    for n_rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.folder.parent) as first:
            for path in sorted(arguments.folder.glob("*.parquet"))[: -(-n_rows // FILE_ROWS)]:
                (Path(first) / path.name).symlink_to(path.resolve())
            for case in arguments.cases:
                command = [sys.executable, __file__, first, "--one", "--cases", case]
                command += ["--max-memory", str(arguments.max_memory), "--threads", str(arguments.threads)]
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
    """Do what the case says, and print what it took."""
    begin = time.perf_counter(), time.process_time()
    if case[0].isdecimal():
        found = fit_many(*map(int, case.split("x")))
    elif case.startswith("ranks/"):
        found = train(int(case.partition("/")[2]))
    elif case.startswith(("rare/", "small/")):
        found = compare_verdicts(case.partition("/")[0], int(case.partition("/")[2]))
    else:
        found = fit(folder, case, max_memory)
    end = time.perf_counter(), time.process_time()
    found |= {
        "case": case,
        "seconds": round(end[0] - begin[0], 1),
        "processor_seconds": round(end[1] - begin[1], 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(found), flush=True)


def fit(folder: Path, case: str, max_memory: float) -> dict[str, object]:
    """Read all rows once, or fit a method on them."""
    from holdfast.tables.classifier import TableClassifier
    from holdfast.tables.folders import TableFolder

    source = TableFolder(folder, max_memory=max_memory)
    found: dict[str, object] = {"rows": source.n_rows}
    if case == "read":
        found["sum"] = sum(float(chunk["x0"].sum()) for chunk in source.chunks(source.columns))
    else:
        method, _, estimator = case.partition("/")
        fitted = TableClassifier(label="y", environment="site", method=method, estimator=estimator or "logistic")
        fitted.fit(source)
        found["notes"] = list(fitted.notes_)
        if method == "stable":
            found["verdict"] = str(fitted.verdict_)
    return found


def fit_many(n_environments: int, n_rows: int) -> dict[str, object]:
    """Fit the ordinary and the stable classifier; score them at next sites, and where the varying column has turned."""
    from holdfast import StableClassifier
    from holdfast.estimators.erm import ERMClassifier

    generator = np.random.default_rng(0)

    def draw(n: int, lean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sites = np.repeat(np.arange(len(lean)), n)
        y = generator.integers(2, size=len(sites))
        X = generator.normal(size=(len(sites), 10))
        X[:, :3] += 0.7 * (2 * y - 1)[:, None]
        X[:, 3] += lean[sites] * (2 * y - 1)
        return X, y, sites

    def lean(n: int) -> np.ndarray:
        return generator.normal(0.5, 0.5, size=n)

    (X, y, sites), next_sites = draw(n_rows, lean(n_environments)), draw(1000, lean(20))
    turned = draw(1000, -np.abs(lean(20)))
    found: dict[str, object] = {}
    for name, method in (("ordinary", ERMClassifier()), ("stable", StableClassifier(random_state=0))):
        begin = time.process_time()
        method.fit(X, y, environments=sites)
        found[f"{name}_seconds"] = round(time.process_time() - begin, 2)
        found[f"{name}_next"], found[f"{name}_turned"] = (
            round(float(method.score(*rows[:2])), 3) for rows in (next_sites, turned)
        )
    return found


def compare_verdicts(table: str, n_rows: int) -> dict[str, object]:
    """Fit a sample and all rows: column 4 turns at a rare site, or columns 4 and 5 change a little."""
    from holdfast import StableClassifier

    generator, n_sites = np.random.default_rng(1), 8
    shares = np.r_[np.full(n_sites - 1, 0.999 / (n_sites - 1)), 0.001] if table == "rare" else None
    sites, y = generator.choice(n_sites, size=n_rows, p=shares), generator.integers(2, size=n_rows)
    X = generator.standard_normal((n_rows, 10)).astype(np.float32)
    X[:, :4] += 0.5 * y[:, None]
    if table == "rare":
        X[:, 4] += (2 * y - 1) * np.r_[np.full(n_sites - 1, 0.6), -0.6][sites]
    else:
        X[:, 4] += (2 * y - 1) * (0.3 + np.linspace(-0.12, 0.12, n_sites)[sites])
        X[:, 5] += (2 * y - 1) * (0.3 + np.linspace(-0.2, 0.2, n_sites)[sites])
    found: dict[str, object] = {}
    for name, rows in (("sample", generator.random(n_rows) < 200_000 / n_rows), ("all", np.ones(n_rows, dtype=bool))):
        verdict = StableClassifier(random_state=0).fit(X[rows], y[rows], environments=sites[rows]).verdict_
        effects = {finding.feature: (round(finding.mean, 3), round(finding.spread, 3)) for finding in verdict.columns}
        found[name] = {"rows": int(rows.sum()), "kept": dict(verdict.kept), "mean_and_spread": effects}
        found[name] |= {question: vars(getattr(verdict, question)) for question in ("known", "vanished")}
    return found


def train(width: int) -> dict[str, object]:
    """Train a perceptron of two layers on four groups for some steps; each rank prints its processor time."""
    import torch

    from holdfast.environments import Group
    from holdfast.neural.distributed import data_parallel
    from holdfast.neural.estimator import NeuralClassifier
    from holdfast.neural.objectives import make_objective

    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(8192, 64)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    groups = [Group(str(k), np.arange(k * 2048, (k + 1) * 2048)) for k in range(4)]
    found: dict[str, object] = {}

    def build(input_shape: object, n_classes: int) -> torch.nn.Module:
        layers = [torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Linear(width, n_classes))

    with data_parallel() as ranks:
        for steps in (1, 2, 12):  # the first warms up, and the difference is free of what a fit costs once
            model = NeuralClassifier(
                build, batch_size=512, max_epochs=1, steps_per_epoch=steps, training__precision="fp32"
            )
            begin = time.process_time()
            model.fit_groups(X, y, groups, objective=make_objective("online"))
            found[f"seconds_of_{steps}"] = time.process_time() - begin
    found["milliseconds_a_step"] = round(100 * (found["seconds_of_12"] - found["seconds_of_2"]), 1)
    return {"rank": ranks.number, "ranks": ranks.n} | found


if __name__ == "__main__":
    main()
