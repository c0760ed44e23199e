"""Which classifier holds where the correlations change: made tables, colored digits, and the Adult census.

    python benchmarks/beyond_the_worst_case.py run generators [--seeds 3] [--methods erm,invariant] [--quick]
    python benchmarks/beyond_the_worst_case.py run digits
    HOLDFAST_TEST_DATA=FOLDER python benchmarks/beyond_the_worst_case.py run adult
    python benchmarks/beyond_the_worst_case.py run guards
    python benchmarks/beyond_the_worst_case.py tables

`run` appends one JSON line for each fit to docs/evidence/SUITE.jsonl and skips what is there: stop and start at will.
`tables` writes the tables of docs/beyond-the-worst-case.md anew from these records. One thread; nothing is tuned: every
method has its own defaults, small estimators stand for their kind, and no method sees test rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast
from holdfast import (
    BalancedClassifier,
    ERMClassifier,
    ExtrapolationClassifier,
    IRMClassifier,
    NeuralClassifier,
    OracleClassifier,
    PIClassifier,
    VRExClassifier,
)
from holdfast.datasets import load_dataset
from holdfast.datasets.gaussian import stable_columns
from holdfast.datasets.values import Split, join_splits
from holdfast.seeding import Seeding

EVIDENCE = Path(__file__).resolve().parent.parent / "docs" / "evidence"
GENERATORS: Mapping[str, dict[str, Any]] = {
    f"{'binary' if n_classes == 2 else '3 classes'}, {name}": {"n_classes": n_classes, **options}
    for name, options in {
        "noisy": {},
        "clean": {"stable": "clean"},
        "two unstable": {"n_unstable": 2},
        "unequal prevalence": {"prevalence": "unequal"},
    }.items()
    for n_classes in (2, 3)
}
ENVIRONMENTS = (2, 3, 5)
ESTIMATORS: Mapping[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=8),
    "forest": lambda: RandomForestClassifier(20, min_samples_leaf=5),
    "mlp": lambda: make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=20, learning_rate_init=0.01)),
}
# The methods that train networks have a network in the place of the estimator, with the budget of one sweep.
NETWORKS = {"logistic": "linear", "mlp": "mlp"}
NETWORK = {"max_epochs": 6, "batch_size": 500, "learning_rate": 0.01, "dropout": 0.0}
MOST_TEST_ROWS = 2000  # of a left-out environment of the census
ROUNDS = 5  # of the reweighting solver, in the worst-case methods

METHODS: Mapping[str, Callable[[Any, int], Any]] = {
    "erm": lambda estimator, seed: ERMClassifier(estimator, random_state=seed),
    "stable only": lambda estimator, seed: ERMClassifier(estimator, random_state=seed),
    "invariant": lambda estimator, seed: PIClassifier(
        estimator, halves="soft", interpolation="invariant", random_state=seed
    ),
    "extrapolate": lambda estimator, seed: ExtrapolationClassifier(estimator, random_state=seed),
    "balanced": lambda estimator, seed: BalancedClassifier(estimator, random_state=seed),
    "hard worst case": lambda estimator, seed: PIClassifier(
        estimator, halves="hard", interpolation="worst_case", reweight_rounds=ROUNDS, random_state=seed
    ),
    "soft worst case": lambda estimator, seed: PIClassifier(
        estimator, halves="soft", interpolation="worst_case", reweight_rounds=ROUNDS, random_state=seed
    ),
    "oracle": lambda estimator, seed: OracleClassifier(estimator, reweight_rounds=ROUNDS, random_state=seed),
    "erm network": lambda estimator, seed: ERMClassifier(estimator, random_state=seed),
    "irm": lambda estimator, seed: IRMClassifier(estimator, penalty_weight=100.0, random_state=seed),
    "vrex": lambda estimator, seed: VRExClassifier(estimator, penalty_weight=100.0, random_state=seed),
}
OF_NETWORKS = ("erm network", "irm", "vrex")
COLUMNS = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
           "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Task:
    """One training set with named test sets, for one estimator and method."""

    key: dict[str, Any]  # what identifies the record
    train: Split
    tests: Mapping[str, Split]
    columns: Any = None  # those without the unstable features, where they are known


def generator_tasks(seeds: int, methods: list[str], n_rows: int) -> Iterator[Task]:
    """Yield the made tables: every generator, number of environments and estimator, a seed at a time."""
    for seed in range(seeds):
        for group in _passes(methods):
            for n, (name, options) in itertools.product(ENVIRONMENTS, GENERATORS.items()):
                streams = Seeding(seed).integer(name, n)
                data = load_dataset("gaussian", seed=streams, n_environments=n, n_rows=n_rows, **options)
                tests = {label: data.test.take(np.flatnonzero(data.test.environments == label)) for label in
                         ("natural", "shuffled", "flipped")}  # fmt: skip
                columns = stable_columns(options["n_classes"], options.get("n_unstable", 1))
                for estimator, method in itertools.product(ESTIMATORS, group):
                    key = {"data": name, "environments": n, "estimator": estimator, "method": method, "seed": seed}
                    yield Task(key, data.train, tests, columns)


def digit_tasks(seeds: int, methods: list[str], n_rows: int) -> Iterator[Task]:
    """Yield colored digits: each training environment left out in turn, and the environment of turned colors."""
    for seed, (n, etas) in itertools.product(range(seeds), {2: (0.9, 0.7), 3: (0.9, 0.8, 0.7)}.items()):
        data = load_dataset("colored_digits", seed=seed, etas=etas)
        labels = np.unique(data.train.environments)
        for left_out in ["turned", *labels]:
            inside = data.train.environments != left_out
            train = data.train.take(np.flatnonzero(inside))
            if len(np.unique(train.environments)) < 2:
                continue
            test = data.test if left_out == "turned" else data.train.take(np.flatnonzero(~inside))
            for estimator, method in itertools.product(ESTIMATORS, methods):
                key = {"data": f"digits, {n} environments", "left out": str(left_out), "estimator": estimator,
                       "method": method, "seed": seed}  # fmt: skip
                yield Task(key, train, {"left out": test})


def adult_tasks(seeds: int, methods: list[str], n_rows: int) -> Iterator[Task]:
    """Yield the Adult census: environments by work class, country or age, each left out in turn."""
    import pandas as pd

    folder = os.environ.get("HOLDFAST_TEST_DATA")
    if folder is None:
        sys.exit("Set HOLDFAST_TEST_DATA to the folder that holds adult/adult.data.gz.")
    path = Path(folder) / "adult" / "adult.data.gz"
    table = pd.read_csv(path, names=list(COLUMNS), skipinitialspace=True, na_values="?").dropna().reset_index(drop=True)
    y = table["income"].str.startswith(">50K").to_numpy().astype(np.intp)
    country = table["native-country"].where(table["native-country"].isin(["United-States", "Mexico"]), "other")
    splits = {
        "native-country": country,
        "age": pd.cut(table["age"], [0, 25, 35, 45, 55, 100]).astype(str),
        "workclass": table["workclass"],
    }
    for seed, (by, environments) in itertools.product(range(seeds), splits.items()):
        features = table.drop(columns=["income", "fnlwgt", "education", *([by] if by != "age" else [])])
        X = pd.get_dummies(features).astype(float)
        X = X.loc[:, X.sum() >= 20].to_numpy()
        labels = environments.to_numpy(dtype=str)
        generator = Seeding(seed).generator("adult", by)
        rows = {label: generator.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)}
        rows = {label: part for label, part in rows.items() if len(part) >= 400}
        for left_out in rows:
            inside = np.sort(np.concatenate([part[:n_rows] for label, part in rows.items() if label != left_out]))
            outside = np.sort(rows[left_out][:MOST_TEST_ROWS])
            train = Split(X[inside], y[inside], labels[inside])
            test = Split(X[outside], y[outside], labels[outside])
            for estimator, method in itertools.product(ESTIMATORS, methods):
                key = {"data": f"adult by {by}", "left out": left_out, "estimator": estimator, "method": method,
                       "seed": seed}  # fmt: skip
                yield Task(key, train, {"left out": test})


def guard_tasks(seeds: int, methods: list[str], n_rows: int) -> Iterator[Task]:
    """Yield two environments of two binary features: the second one unstable, or nothing that a step could mend."""
    kinds = {  # agreement of the features in both environments, share of wrong labels in the second, of its positives
        "unstable: 0.75 stable, 0.95 and 0.85": ((0.75, 0.75), (0.95, 0.85), 0.0, 0.5),
        "unstable: 0.8 stable, 0.9 and 0.8": ((0.8, 0.8), (0.9, 0.8), 0.0, 0.5),
        "identical": ((0.8, 0.8), (0.9, 0.9), 0.0, 0.5),
        "noisier labels": ((0.8, 0.8), (0.9, 0.9), 0.1, 0.5),
        "label shift": ((0.8, 0.8), (0.9, 0.9), 0.0, 0.8),
    }
    for seed, n, (kind, (stable, unstable, noise, share)) in itertools.product(
        range(seeds), (200, 500, 1000), kinds.items()
    ):
        generator = Seeding(seed).generator("guards", kind, n)
        parts = []
        for place in (0, 1):
            y = (generator.random(n) < (share if place else 0.5)).astype(np.intp)
            agree = generator.random((n, 2)) < (stable[place], unstable[place])
            X = np.where(agree, y[:, None], 1 - y[:, None]).astype(float)
            wrong = generator.random(n) < (noise if place else 0.0)
            parts.append(Split(X, np.where(wrong, 1 - y, y), np.full(n, f"E{place + 1}")))
        key = {"data": kind, "rows": n, "estimator": "logistic", "method": "invariant", "seed": seed}
        yield Task(key, join_splits(parts), {})


SUITES = {"generators": generator_tasks, "digits": digit_tasks, "adult": adult_tasks, "guards": guard_tasks}


def _passes(methods: list[str]) -> list[list[str]]:
    """Return the methods in passes over all data, quick ones first, so that a stopped run has whole columns."""
    quick = [name for name in ("erm", "stable only", "invariant", "extrapolate", "balanced") if name in methods]
    rest = [[name] for name in methods if name not in quick]
    return [*([quick] if quick else []), *rest]


def run_task(task: Task) -> dict[str, Any] | None:
    """Fit and score; return the record, or None where the method has no such estimator."""
    method, name, seed = task.key["method"], task.key["estimator"], task.key["seed"]
    columns = task.columns if method == "stable only" else slice(None)
    if method == "oracle" and "unstable" not in task.train.attributes and "color" not in task.train.attributes:
        return None
    if method == "stable only" and task.columns is None:
        return None
    if method in OF_NETWORKS:
        if name not in NETWORKS:
            return None
        estimator: Any = NeuralClassifier(NETWORKS[name], **NETWORK)
        if "left out" in task.key:  # the columns of real data have all kinds of scales
            estimator = make_pipeline(StandardScaler(), estimator)
    else:
        estimator = ESTIMATORS[name]()
    classifier = METHODS[method](estimator, seed)
    options: dict[str, Any] = {"environments": task.train.environments}
    if method == "oracle":
        options["attribute"] = task.train.attributes.get("unstable", task.train.attributes.get("color"))
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(task.train.X[:, columns], task.train.y, **options)
    seconds = time.process_time() - start
    right = {label: classifier.predict(test.X[:, columns]) == test.y for label, test in task.tests.items()}
    said = sorted(
        {type(entry.message).__name__ for entry in caught if type(entry.message).__module__ == "holdfast.exceptions"}
    )
    record = {**task.key, "accuracy": {label: round(float(ok.mean()), 5) for label, ok in right.items()}}
    if "left out" in task.key:  # each row's result, for paired intervals
        record["n_test"] = len(right["left out"])
        record["right"] = np.packbits(right["left out"]).tobytes().hex()
    return {**record, "warnings": said, "cpu_seconds": round(seconds, 2), "holdfast": holdfast.__version__}


def identity(record: Mapping[str, Any]) -> str:
    """Return what tells a record from others."""
    return json.dumps(
        {
            k: record[k]
            for k in ("data", "rows", "environments", "left out", "estimator", "method", "seed")
            if k in record
        }
    )


def read_records(suite: str) -> list[dict[str, Any]]:
    """Return the records of a suite; a last line that was cut off is ignored."""
    path = EVIDENCE / f"{suite}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def run(suite: str, seeds: int, methods: list[str], n_rows: int, estimators: list[str], minutes: float) -> None:
    """Run what is not recorded yet, for some minutes."""
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    done = {identity(record) for record in read_records(suite)}
    for task in SUITES[suite](seeds, methods, n_rows):
        if identity(task.key) in done or task.key["estimator"] not in estimators:
            continue
        if time.monotonic() > end:
            print("Time is up; the same command goes on from here.")
            return
        done = {identity(record) for record in read_records(suite)}  # other processes may write, too
        if identity(task.key) in done:
            continue
        record = run_task(task)
        if record is not None:
            with (EVIDENCE / f"{suite}.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(identity(record), record["accuracy"], f"{record['cpu_seconds']} s", flush=True)


def main() -> int:
    """Run a suite, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("suite", choices=SUITES)
    running.add_argument("--seeds", type=int, default=3)
    running.add_argument("--rows", type=int, default=None, help="rows of an environment: 1000; adult at most 400")
    running.add_argument("--methods", default=",".join(METHODS))
    running.add_argument("--estimators", default=",".join(ESTIMATORS))
    running.add_argument("--minutes", type=float, default=float("inf"), help="stop after these; run again to go on")
    running.add_argument("--quick", action="store_true", help="one seed, 300 rows: does it run?")
    commands.add_parser("tables")
    arguments = parser.parse_args()
    if arguments.command == "tables":
        from beyond_tables import write_tables

        write_tables(read_records)
        return 0
    default_rows = 400 if arguments.suite == "adult" else 1000
    n_rows = 300 if arguments.quick else arguments.rows or default_rows
    seeds = 1 if arguments.quick else arguments.seeds
    run(
        arguments.suite, seeds, arguments.methods.split(","), n_rows, arguments.estimators.split(","), arguments.minutes
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
