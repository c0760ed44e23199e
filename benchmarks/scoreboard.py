"""Puts the records into docs/scoreboard.md and the README: holdfast beside others, losses first.

    python benchmarks/scoreboard.py [--runs DIR]

With --runs, the finished runs of `holdfast reproduce rivals --out DIR` replace docs/evidence/rivals.jsonl first. Words
outside of the blocks are written by hand; numbers inside come from docs/evidence, docs/reproduction and docs/benchmarks
alone. So do the figures between marks in the README. A test compares both.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trust
import worlds
from measuring import RECORDS, ROOT
from page import BLOCK, read_records
from tables import table
from targets import TARGETS, targets

from holdfast.lab.reproduction import compare_recorded, write_compact
from holdfast.lab.store import RunStore
from holdfast.lab.targets import Options
from holdfast.lab.targets.rivals import BY_OTHERS, BY_US, SEEDS, plan_rivals
from holdfast.reports.tables import to_markdown
from holdfast.reports.values import Spread, Table

PAGE, README, DOCS = ROOT / "docs" / "scoreboard.md", ROOT / "README.md", ROOT / "docs"
FIGURE = re.compile(r"(<!-- figure: (\w+) -->)[^<]*(<!-- end -->)")
EVIDENCE = DOCS / "evidence"
RIVALS = EVIDENCE / "rivals.jsonl"
OURS = "holdfast, StableClassifier"  # how the records of packages.py name the default
POINT = 1.0  # points of accuracy: a smaller difference is no loss
ERROR = 0.01  # the same for errors of the unit tests


def main() -> None:
    """Rewrite the page and the README's figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, metavar="DIR", help="put these runs into the records first")
    options = parser.parse_args()
    if options.runs is not None:
        keep_runs(RunStore(options.runs))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    README.write_text(fill_readme(README.read_text(encoding="utf-8")), encoding="utf-8")


def keep_runs(store: RunStore) -> None:
    """Write what the tables need of the target's finished runs, one a line; seeds that are not whole are left out."""
    plan = plan_rivals(Options(n_seeds=SEEDS, recorded=()))  # all of it: MNIST's files are not looked for
    whole: dict[tuple[Any, int], list[dict[str, Any] | None]] = {}
    for run in plan.runs:
        comparison = run.config.dataset, run.config.dataset_options.get("protocol")
        whole.setdefault((comparison, run.config.seed), []).append(store.read(run.config.identity))
    write_compact([slim(record) for found in whole.values() if None not in found for record in found], RIVALS)


def slim(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without what no table shows."""
    kept = {
        name: record[name]
        for name in ("identity", "config", "seed", "seconds", "cpu_seconds", "forecast")
        if name in record
    }
    settings = {
        name: {
            "validation": {"accuracy": setting["validation"]["accuracy"]},
            "test": {part: setting["test"][part] for part in ("accuracy", "environments")},
        }
        for name, setting in record["settings"].items()
    }
    facts = {name: record["data"][name] for name in ("edition", "n_train", "notes")}
    return {
        **kept,
        "data": facts,
        "runtime": {"cpu": record["runtime"].get("cpu"), "precision": record["runtime"].get("precision")},
        "settings": settings,
    }


def fill(page: str) -> str:
    """Return the page with every block made anew."""
    return BLOCK.sub(lambda block: block[1] + f"{BLOCKS[block[2]]().strip()}\n".lstrip("\n") + block[3], page)


def fill_readme(text: str) -> str:
    """Return the README with every figure made anew."""
    made = readme_figures()
    return FIGURE.sub(lambda figure: f"{figure[1]}{made[figure[2]]}{figure[3]}", text)


def read_lines(name: str) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines, none where it is not there."""
    path = EVIDENCE / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def rivals() -> Mapping[str, Table]:
    """Return the tables of `holdfast reproduce rivals` by title."""
    found = compare_recorded("rivals", RIVALS)
    return {found_table.title: found_table for found_table in found.tables}


def shown(title: str) -> str:
    """Return one of these tables as Markdown, without its title."""
    found = rivals().get(title)
    if found is None:
        return "Not measured yet: `holdfast reproduce rivals`."
    return to_markdown(found).removeprefix(f"**{title}**\n\n")


# --- Losses -----------------------------------------------------------------------------------------------------------


def losses() -> str:
    """Return every comparison that is lost, and every promise of speed that is not kept."""
    lines = [*_image_losses(), *_unit_losses(), *_package_losses(), *_speed_losses()]
    return table(("test", "holdfast", "better", "by"), lines)


def value(cell: Any) -> float | None:
    """Return the number in a cell."""
    return cell.value if isinstance(cell, Spread) else cell


def _image_losses() -> list[tuple[object, ...]]:
    """Return who is ahead of PI on colored MNIST where training rows choose, and where the test environment does."""
    lines: list[tuple[object, ...]] = []
    found = rivals()
    board = found["IRM's two-class colored MNIST"]
    for column, name in ((2, "training validation"), (3, "the test environment")):
        own = {row[0]: value(row[column]) for row in board.rows if row[1] == BY_US}
        best = max(own[name] or 0.0 for name in ("PI", "PI, robust"))
        for row in board.rows:
            other = value(row[column])
            if other is not None and row[0] not in ("PI", "PI, robust") and other - best >= POINT:
                lines.append(
                    (
                        f"IRM's colored MNIST, chosen by {name}",
                        f"PI {best:.1f}",
                        _named(row, other),
                        f"{other - best:.1f}",
                    )
                )
    board = found.get("DomainBed's ColoredMNIST", Table("", (), ()))
    for selection in dict.fromkeys(row[0] for row in board.rows):
        mine = [row for row in board.rows if row[0] == selection]
        for column in range(3, 6):
            best = max(value(row[column]) or 0.0 for row in mine if row[1] in ("PI", "PI, robust"))
            others = [row for row in mine if row[1] not in ("PI", "PI, robust")]
            top = max(others, key=lambda row: value(row[column]) or 0.0)
            other = value(top[column]) or 0.0
            if other - best >= POINT:
                test = f"DomainBed's ColoredMNIST, {board.columns[column]}, chosen by {selection}"
                lines.append((test, f"PI {best:.1f}", _named(top[1:], other), f"{other - best:.1f}"))
    return lines


def _named(row: Sequence[Any], other: float) -> str:
    mark = " (published)" if row[1] == BY_OTHERS else ""
    return f"{row[0]}{mark} {other:.1f}"


def _unit_losses() -> list[tuple[object, ...]]:
    """Return the unit tests on which a method has a smaller error than the default, and forecasts that failed."""
    lines: list[tuple[object, ...]] = []
    found = rivals()
    board = found["Linear unit tests of invariance"]
    for column in range(2, len(board.columns)):
        named = [(row, value(row[column])) for row in board.rows]
        own = next(error for row, error in named if row[0] == "StableClassifier")
        others = [
            (error, row) for row, error in named if error is not None and row[0] not in ("StableClassifier", "oracle")
        ]
        error, row = min(others, key=lambda entry: entry[0])
        if own is not None and own - error >= ERROR:
            who = f"{row[0]}{' (published)' if row[1] == BY_OTHERS else ''} {error:.3f}"
            lines.append(
                (f"unit test {board.columns[column]}, error", f"StableClassifier {own:.3f}", who, f"{own - error:.3f}")
            )
    for row in found["Forecasts on the unit tests"].rows:
        for place, held in (("columns shuffled", row[3]), ("new environment", row[4])):
            if held < row[2]:
                name = f"forecast, {row[0]}, {row[1]} environments, {place}"
                lines.append((name, f"held in {held} of {row[2]}", "95 % promised", f"{row[2] - held} failed"))
    return lines


def _package_losses() -> list[tuple[object, ...]]:
    """Return the real tables, as they are, on which another package is ahead of the better of our two defaults."""
    lines: list[tuple[object, ...]] = []
    for suite in ("natural", "planted"):
        scores = _by_table(suite)
        for name, found in scores.items():
            own = max(score for method, score in found.items() if method.startswith(OURS))
            method, best = max(
                ((method, score) for method, score in found.items() if not method.startswith(OURS)),
                key=lambda entry: entry[1],
            )
            if best - own >= POINT:
                kind = "as it is" if suite == "natural" else "planted column"
                lines.append((f"table {name}, {kind}", f"{own:.1f}", f"{method} {best:.1f}", f"{best - own:.1f}"))
    return lines


def _speed_losses() -> list[tuple[object, ...]]:
    records = read_records(RECORDS)
    promised = [line for name in TARGETS if name in records for line in TARGETS[name](records[name])]
    return [(f"speed: {line[0]}", line[2], f"promised {line[1]}", None) for line in promised if line[4] == "**no**"]


# --- Tables -----------------------------------------------------------------------------------------------------------


def _by_table(suite: str) -> dict[str, dict[str, float]]:
    """Return for each table the mean accuracy of every method, percent."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in read_lines("packages"):
        key = record["key"]
        if key["suite"] == suite and "accuracy" in record:
            found.setdefault(key["table"], {}).setdefault(key["method"], []).append(100 * record["accuracy"])
    return {name: {m: float(np.mean(v)) for m, v in methods.items()} for name, methods in found.items()}


def packages() -> str:
    """Return every method's mean accuracy at the left-out environment, the most robust first."""
    records = read_lines("packages")
    versions = {record["key"]["method"]: record["version"] for record in records}
    seconds = {
        method: float(np.mean([r["seconds"] for r in records if r["key"]["method"] == method])) for method in versions
    }
    boards = {suite: _by_table(suite) for suite in ("natural", "planted")}
    lines = []
    for method in versions:
        cells = [
            float(np.mean([scores[method] for scores in boards[suite].values() if method in scores]))
            for suite in boards
        ]
        failed = sum("error" in record for record in records if record["key"]["method"] == method)
        lines.append((method, versions[method], *cells, seconds[method], failed))
    lines.sort(key=lambda line: -line[3])
    head = ("method", "version", "as they are", "planted column", "s a fit", "fits that failed")
    rows = [(*line[:2], f"{line[2]:.1f}", f"{line[3]:.1f}", f"{line[4]:.2f}", line[5]) for line in lines]
    n_splits = len({(r["key"]["table"], r["key"]["left_out"]) for r in records})
    note = f"{len(boards['natural'])} tables, {n_splits} left-out environments. Fits that failed are not in the means."
    return f"{table(head, rows)}\n\n{note}"


def tables_with(suite: str) -> str:
    """Return means over real tables, from the records of trust.py."""
    return "\n".join(dict(trust.tables(EVIDENCE))[f"{suite}-mean"])


def null_worlds() -> str:
    """Return the accuracy lost in worlds in which P(y|x) is the same at every site, from the records of worlds.py."""
    mine = [record for record in read_lines("worlds") if record["key"]["suite"] == "same"]
    lines = worlds.suites()["same"].table(mine)
    return "\n".join([*lines[:2], *(line for line in lines[2:] if "**all**" in line)])


def planted_worlds() -> str:
    """Return the share of the gap that is closed in worlds with a planted column."""
    mine = [record for record in read_lines("worlds") if record["key"]["suite"] == "planted"]
    lines = worlds.suites()["planted"].table(mine)
    return "\n".join([*lines[:2], *(line for line in lines[2:] if "**" in line)])


def networks() -> str:
    """Return the networks' section where another benchmark has left its records, nothing where it has not.

    A record has a key with a task, and accuracies in nested tables; the mean over seeds of each is shown.
    """
    by_task: dict[str, list[dict[str, float]]] = {}
    for record in read_lines("networks"):
        leaves = dict(_leaves({name: part for name, part in record.items() if name not in ("key", "seconds")}))
        by_task.setdefault(str(record["key"].get("task")), []).append(leaves)
    if not by_task:
        return ""
    columns = [
        name
        for name in next(iter(by_task.values()))[0]
        if all(name in leaf for mine in by_task.values() for leaf in mine)
    ]
    lines = [
        (task, len(mine), *(f"{np.mean([leaf[name] for leaf in mine]):.3f}" for name in columns))
        for task, mine in by_task.items()
    ]
    return f"## Networks\n\n`python benchmarks/networks.py run`\n\n{table(('task', 'seeds', *columns), lines)}"


def _leaves(value: Any, name: str = "") -> Iterable[tuple[str, float]]:
    """Yield the numbers from 0 to 1 of nested tables, by their path."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{name}: {key}" if name else str(key))
    elif isinstance(value, float) and 0.0 <= value <= 1.0:
        yield name, value


def paper_table() -> str:
    """Return Table 1 of the paper next to ours."""
    found = compare_recorded("table1", DOCS / "reproduction" / "table1.jsonl").tables[0]
    return to_markdown(Table("", found.columns, found.rows, digits=1, n_keys=found.n_keys))


BLOCKS: Mapping[str, Callable[[], str]] = {
    "losses": losses,
    "irm": lambda: shown("IRM's two-class colored MNIST"),
    "domainbed": lambda: shown("DomainBed's ColoredMNIST"),
    "units": lambda: shown("Linear unit tests of invariance"),
    "forecasts": lambda: shown("Forecasts on the unit tests"),
    "packages": packages,
    "natural": lambda: tables_with("natural"),
    "planted": lambda: tables_with("planted"),
    "null_worlds": null_worlds,
    "planted_worlds": planted_worlds,
    "networks": networks,
    "paper": paper_table,
    "speed": lambda: targets(read_records(RECORDS)),
}


# --- README -----------------------------------------------------------------------------------------------------------


def readme_figures() -> dict[str, str]:
    """Return the figures of the README that rest on records, by name."""
    natural = list(trust.Records("natural", EVIDENCE).found.values())
    planted = list(trust.Records("planted", EVIDENCE).found.values())
    estimators = ("logistic", "boosting")
    changes = [
        abs(float(np.mean(points)))
        for estimator in estimators
        for points in trust._differences(_of(natural, estimator), "accuracy").values()
    ]
    shares = [float(np.mean(list(trust._shares(_of(planted, estimator)).values()))) for estimator in estimators]
    table1 = {
        row[1]: row
        for row in compare_recorded("table1", DOCS / "reproduction" / "table1.jsonl").tables[0].rows
        if row[0] == "MNIST" and row[2] == "as training"
    }
    names = {"erm": "ERM", "irm": "IRM", "vrex": "V-REx", "pi": "PI", "robust": "PI, robust", "oracle": "oracle"}
    mnist = {f"mnist_{key}": table1[names[key]] for key in ("erm", "pi", "robust", "oracle")}
    board = {row[0]: row for row in rivals()["IRM's two-class colored MNIST"].rows if row[1] == BY_US}
    return {
        "natural": f"{max(changes):.1f}",
        "planted": f"{100 * shares[0]:.0f} % and {100 * shares[1]:.0f} %",
        **{key: _spread(row[5]) for key, row in mnist.items()},
        **{f"{key}_seeds": str(row[7]) for key, row in mnist.items()},
        **{f"rivals_{key}": _spread(board[names[key]][2]) for key in ("erm", "irm", "vrex", "pi", "robust")},
        "rivals_seeds": str(min(row[4] for row in board.values())),
    }


def _of(records: Iterable[dict[str, Any]], estimator: str) -> list[dict[str, Any]]:
    return [record for record in records if record["key"]["estimator"] == estimator]


def _spread(cell: Any) -> str:
    """Return a mean with its spread, where there is more than one seed."""
    return f"{cell.value:.1f}" if np.isnan(cell.spread) else f"{cell.value:.1f} ± {cell.spread:.1f}"


if __name__ == "__main__":
    main()
