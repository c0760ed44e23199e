"""The extensions that the paper names, measured: rounds, online weights, known attributes, regression.

    python benchmarks/extensions.py [--measure] [--repetitions 10]

`--measure` runs the planted tables again (seconds) and writes docs/evidence/extensions.json. Then the tables of
docs/extensions.md are made: from that record, and from the runs of experiments/extensions.toml, whose records are
docs/evidence/extensions-runs.jsonl. Seeds count from 200: the settings were chosen on earlier ones.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring import ROOT, parser, write_record
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import mean_squared_error

from holdfast import PIClassifier, PIRegressor
from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.group_dro import GroupDROClassifier

PAGE = ROOT / "docs" / "extensions.md"
RECORD = ROOT / "docs" / "evidence" / "extensions.json"
RUNS = ROOT / "docs" / "evidence" / "extensions-runs.jsonl"
FIRST_SEED = 200
N_ROWS, N_TEST = 2_000, 10_000  # of each environment
BLOCK = re.compile(r"<!-- table (\w+) -->\n.*?<!-- end -->", re.DOTALL)

Pairs = Sequence[tuple[float, float]]
Row = dict[str, Any]


def planted(stable: float, unstable: Pairs, seed: int, n_rows: int = N_ROWS) -> tuple[NDArray[Any], ...]:
    """Return columns of -1 and 1, the label and two environments; a column is the label with the given probability."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=2 * n_rows)

    def column(agreement: Any) -> NDArray[np.float64]:
        return np.where(generator.random(2 * n_rows) < agreement, y, 1 - y) * 2.0 - 1.0

    columns = [column(stable), *(column(np.repeat(pair, n_rows)) for pair in unstable)]
    return np.stack(columns, axis=1), y, np.repeat(["E1", "E2"], n_rows)


def turned(stable: float, unstable: Iterable[float], seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows of a new environment with these agreements."""
    X, y, _ = planted(stable, [(value, value) for value in unstable], seed + 10_000, N_TEST // 2)
    return X, y


def logistic() -> LogisticRegression:
    """Return the estimator of every method."""
    return LogisticRegression(C=1e3)


def measure_rounds(seed: int) -> list[Row]:
    """Two unstable columns, of which one round leaves the weaker; one unstable column, where one round is enough."""
    worlds = {
        "two unstable": (0.65, ((0.95, 0.9), (0.8, 0.7)), (0.5, 0.2)),
        "one unstable": (0.7, ((0.95, 0.85),), (0.1,)),
    }
    rows = []
    for world, (stable, unstable, new) in worlds.items():
        X, y, environments = planted(stable, unstable, seed)
        test = turned(stable, new, seed)
        for rounds, refinement in ((1, "worst_case"), (2, "worst_case"), (3, "worst_case"), (2, "environments")):
            model = PIClassifier(logistic(), rounds=rounds, refinement=refinement).fit(X, y, environments=environments)
            rows.append(
                {
                    "table": "rounds",
                    "key": [world, rounds, "–" if rounds == 1 else refinement],
                    "seed": seed,
                    "scores": [model.score(*test), float(model.rounds_)],
                }
            )
    return rows


def measure_known(seed: int) -> list[Row]:
    """Two unstable columns in the table, the first of which is known to be one; each turns at a new site, or both."""
    worlds = {"stronger": ((0.95, 0.85), (0.85, 0.75)), "weaker": ((0.85, 0.75), (0.95, 0.85))}
    rows = []
    for world, unstable in worlds.items():
        X, y, environments = planted(0.75, unstable, seed)
        known = X[:, 1]
        by_label = np.array([f"{value} {label}" for value, label in zip(known, y, strict=True)])
        fits = {
            "ERM": ERMClassifier(logistic()).fit(X, y, environments=environments),
            "DRO, known": GroupDROClassifier(logistic()).fit(X, y, environments=environments, group_labels=by_label),
            "PI": PIClassifier(logistic()).fit(X, y, environments=environments),
            "PI, known": PIClassifier(logistic()).fit(X, y, environments=environments, group_labels=known),
            "PI, known × label": PIClassifier(logistic()).fit(X, y, environments=environments, group_labels=by_label),
        }
        sites = [(0.1, unstable[1][1]), (unstable[0][1], 0.1), (0.1, 0.1)]
        for name, model in fits.items():
            scores = [model.score(*turned(0.75, site, seed)) for site in sites]
            rows.append({"table": "known", "key": [world, name], "seed": seed, "scores": scores})
    return rows


def measure_regression(seed: int) -> list[Row]:
    """A copy of the target that is broken in some rows, and a predictor whose slope differs; mean squared errors."""
    generator = np.random.default_rng(seed)

    def draw(case: str, strengths: Sequence[float], n_rows: int = N_ROWS) -> tuple[NDArray[Any], ...]:
        n = n_rows * len(strengths)
        x1, noise, each = generator.normal(size=n), generator.normal(size=n), np.repeat(strengths, n_rows)
        y = x1 + noise
        if case == "broken copy":
            kept = generator.random(n) < each
            x2 = np.where(kept, y + 0.1 * generator.normal(size=n), np.sqrt(2) * generator.normal(size=n))
        else:
            x2 = each * y + generator.normal(size=n)
        return np.stack([x1, x2], axis=1), y, np.repeat(np.arange(len(strengths)), n_rows)

    rows = []
    for case, known, new in (("broken copy", (0.95, 0.8), 0.0), ("other slope", (1.0, 0.5), -0.5)):
        X, y, environments = draw(case, known)
        test, target, _ = draw(case, [new], N_TEST)
        found = {
            "ordinary": LinearRegression().fit(X, y).predict(test),
            "PI": PIRegressor(LinearRegression()).fit(X, y, environments=environments).predict(test),
            "stable column alone": LinearRegression().fit(X[:, :1], y).predict(test[:, :1]),
        }
        scores = [float(mean_squared_error(target, predicted)) for predicted in found.values()]
        rows.append({"table": "regression", "key": [case], "seed": seed, "scores": scores})
    return rows


HEADS = {
    "rounds": (["table", "rounds", "`refinement`"], ["accuracy", "round that counts"], [2, 1]),
    "known": (["known column", "method"], ["known turns", "other turns", "both turn"], [2, 2, 2]),
    "regression": (["case"], ["ordinary", "PI", "stable column alone"], [2, 2, 2]),
}


def tables(record: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the tables of the page by name."""
    made = {}
    for table, (keys, scores, digits) in HEADS.items():
        found: dict[tuple[str, ...], list[list[float]]] = {}
        for row in record["rows"]:
            if row["table"] == table:
                found.setdefault(tuple(map(str, row["key"])), []).append(row["scores"])
        made[table] = _markdown(keys, scores, [(*key, *_cells(values, digits)) for key, values in found.items()])
    made["online"] = _markdown(
        ["data", "weights"],
        ["as test, %", "as training, %", "all stages, s", "evaluations", "seeds"],
        [*_online_rows(runs)],
    )
    made["celeba"] = _markdown(
        ["label", "method"],
        ["gender, worst %", "others, mean worst %", "accuracy, %", "rows of the worst", "seeds"],
        [*_celeba_rows(runs)],
    )
    return made


def _cells(values: Sequence[Sequence[float]], digits: Sequence[int]) -> list[str]:
    """Return means over seeds with standard deviations."""
    columns = zip(np.mean(values, axis=0), np.std(values, axis=0, ddof=1), digits, strict=True)
    return [f"{mean:.{n}f} ± {spread:.{n}f}" for mean, spread, n in columns]


def _markdown(keys: Sequence[str], scores: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {' | '.join([*keys, *scores])} |", f"|{'---|' * len(keys)}{'--:|' * len(scores)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _runs_of(runs: Sequence[dict[str, Any]], dataset: str) -> list[dict[str, Any]]:
    return [run for run in runs if run["config"]["dataset"] == dataset]


def _online_rows(runs: Sequence[dict[str, Any]]) -> Iterable[Sequence[Any]]:
    """Yield accuracies and processor times of both objectives on the paper's data."""
    for dataset, title in (("colored_mnist", "colored MNIST"), ("beer", "beer look")):
        for objective, name in ((None, "maximum"), ("online", "online")):
            found = [
                run
                for run in _runs_of(runs, dataset)
                if run["config"].get("method_options", {}).get("objective") == objective
            ]
            if not found:
                continue
            values = [[100 * run["settings"][s]["test"]["accuracy"] for run in found] for s in ("test", "train")]
            values.append([run["cpu_seconds"] for run in found])
            epochs = float(np.mean([run["settings"]["train"]["epoch"] for run in found]))
            yield (title, name, *(_mean(v) for v in values), f"{epochs:.0f}", str(len(found)))


def _celeba_rows(runs: Sequence[dict[str, Any]]) -> Iterable[Sequence[Any]]:
    """Yield the worst accuracies by gender, which some methods know, and by all attributes that no method knows."""
    names = {"erm": "ERM", "group_dro": "DRO", "pi": "PI"}
    order: dict[tuple[str, str, bool], list[dict[str, Any]]] = {}
    for run in sorted(_runs_of(runs, "celeba"), key=lambda run: str(run["config"]["dataset_options"]["label"])):
        label = run["config"]["dataset_options"]["label"].replace("_", " ").lower()
        order.setdefault((label, names[run["config"]["method"]], "known_attribute" in run["config"]), []).append(run)
    for (label, name, knows), found in order.items():
        tests = [run["settings"]["train"]["test"] for run in found]
        gender = [100 * test["attributes"]["Male"]["worst"] for test in tests]
        others = [
            100 * float(np.mean([entry["worst"] for key, entry in test["attributes"].items() if key not in SEEN]))
            for test in tests
        ]
        overall = [100 * test["accuracy"] for test in tests]
        fewest = min(test["attributes"]["Male"]["worst_rows"] for test in tests)
        yield (
            label,
            f"{name}{', gender known' if knows else ''}",
            *map(_mean, (gender, others, overall)),
            fewest,
            len(found),
        )


SEEN = ("Male", "Young")  # known to some methods, and the environments


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


def fill(page: str, made: dict[str, str]) -> str:
    """Return the page with its tables made again."""
    return BLOCK.sub(lambda found: f"<!-- table {found[1]} -->\n{made[found[1]]}\n<!-- end -->", page)


def read() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the record of the planted tables, and those of the runs on the paper's data."""
    runs = [json.loads(line) for line in RUNS.read_text(encoding="utf-8").splitlines()] if RUNS.exists() else []
    return json.loads(RECORD.read_text(encoding="utf-8")), runs


def main() -> int:
    """Measure if asked to, and make the page's tables."""
    options = parser(__doc__, repetitions=10)
    options.add_argument("--measure", action="store_true", help="run the planted tables again")
    arguments = options.parse_args()
    if arguments.measure or arguments.quick:
        seeds = range(FIRST_SEED, FIRST_SEED + (2 if arguments.quick else arguments.repetitions))
        rows = [
            row for seed in seeds for run in (measure_rounds, measure_known, measure_regression) for row in run(seed)
        ]
        arguments.record = None if arguments.quick else Path(RECORD.parent)
        write_record(arguments, [row | {"scores": [round(s, 5) for s in row["scores"]]} for row in rows])
    if not arguments.quick:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), tables(*read())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
