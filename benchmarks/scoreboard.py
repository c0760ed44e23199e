"""Puts the records into docs/scoreboard.md and the README: holdfast beside others, losses first.

    python benchmarks/scoreboard.py [--runs DIR]

With --runs, the finished runs of `holdfast reproduce rivals --out DIR` replace docs/evidence/rivals.jsonl first. Words
outside of the blocks are written by hand; numbers inside come from docs/evidence, docs/reproduction and docs/benchmarks
alone. So do the figures between marks in the README. A test compares both.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import trust
import worlds
from measuring import RECORDS, ROOT
from page import BLOCK, read_records
from tables import sizes, table
from targets import MISSED, TARGETS

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
STABLE, PI = "StableClassifier", ("PI", "PI, robust")
IRM_TITLE, DOMAINBED_TITLE = "IRM's two-class colored MNIST", "DomainBed's ColoredMNIST"
UNITS_TITLE, FORECASTS_TITLE = "Linear unit tests of invariance", "Forecasts on the unit tests"
NOT_MEASURED = "Not measured yet."
BOTH = (False, True)
SITES = {"known": "known", "turned": "new"}  # how the records of networks.py name the sites
KINDS = {  # of its tasks, by whether something is planted and whether the decision was built without them
    (False, False): "nothing planted, chosen on",
    (False, True): "nothing planted, held out",
    (True, False): "planted, chosen on",
    (True, True): "planted, held out",
}


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


def shown(board: Table, *, note: bool = True) -> str:
    """Return one of these tables as Markdown, without its title."""
    return to_markdown(replace(board, title="", note=board.note if note else ""))


# --- Losses -----------------------------------------------------------------------------------------------------------


def losses() -> str:
    """Return every comparison that is lost, and how many promises of speed are not kept."""
    lines = [*_image_losses(), *_unit_losses(), *_package_losses(), *_network_losses(), *_paper_losses()]
    missed, all_lines = _missed(), _promised()
    answer = (
        f"{len(lines)} comparisons are lost, and {len(missed)} of {len(all_lines)} targets of speed are missed "
        "([list](#speed))."
    )
    return f"{answer}\n\n{table(('test', 'holdfast', 'better', 'by'), lines)}"


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.0f} %"


def value(cell: Any) -> float | None:
    """Return the number in a cell."""
    return cell.value if isinstance(cell, Spread) else cell


def _image_losses() -> list[tuple[object, ...]]:
    """Return who is ahead of the better of PI and its recipe on colored MNIST, by selection rule and domain."""
    lines: list[tuple[object, ...]] = []
    for title, short, columns in (
        (IRM_TITLE, "IRM's colored MNIST, chosen by", {2: "training validation", 3: "the test environment"}),
        (DOMAINBED_TITLE, "DomainBed's ColoredMNIST,", None),
    ):
        board = rivals().get(title, Table("", (), ()))
        names = columns or dict(enumerate(board.columns[2:], start=2))
        for column, name in names.items():
            best = max(value(row[column]) or 0.0 for row in board.rows if row[0] in PI)
            others = [row for row in board.rows if row[0] not in PI]
            top = max(others, key=lambda row: value(row[column]) or 0.0)
            other = value(top[column]) or 0.0
            if other - best >= POINT:
                lines.append((f"{short} {name}", f"PI {best:.1f}", _named(top, f"{other:.1f}"), f"{other - best:.1f}"))
    return lines


def _named(row: Sequence[Any], number: str) -> str:
    return f"{row[0]}{' (published)' if row[1] == BY_OTHERS else ''} {number}"


def _unit_losses() -> list[tuple[object, ...]]:
    """Return the unit tests on which a method has a smaller error than the default, and forecasts that failed."""
    lines: list[tuple[object, ...]] = []
    board = rivals()[UNITS_TITLE]
    for column in range(2, len(board.columns)):
        named = [(row, value(row[column])) for row in board.rows]
        own = next(error for row, error in named if row[0] == STABLE)
        others = [(error, row) for row, error in named if error is not None and row[0] not in (STABLE, "oracle")]
        error, row = min(others, key=lambda entry: entry[0])
        if own is not None and own - error >= ERROR:
            test = f"unit test {board.columns[column]}, error"
            lines.append((test, f"{STABLE} {own:.3f}", _named(row, f"{error:.3f}"), f"{own - error:.3f}"))
    for test, size, n_held in _held():
        if n_held < 2 * SEEDS:
            name = f"forecast, {test}, {size}"
            lines.append((name, f"held in {n_held} of {2 * SEEDS}", "95 % promised", f"{2 * SEEDS - n_held} failed"))
    return lines


def _held() -> list[tuple[str, str, int]]:
    """Return how many forecasts held on each unit test, of two for each seed."""
    board = rivals()[FORECASTS_TITLE]
    return [
        (row[0], board.columns[place].partition(":")[0], row[place] + row[place + 1])
        for row in board.rows
        for place in range(1, len(row), 3)
        if row[place] is not None
    ]


def _package_losses() -> list[tuple[object, ...]]:
    """Return the real tables on which another package or method is ahead of the better of our two defaults."""
    lines: list[tuple[object, ...]] = []
    for suite, kind in (("natural", "as it is"), ("planted", "planted column")):
        for name, found in _by_table(suite).items():
            own = max(score for method, score in found.items() if method.startswith(OURS))
            rest = ((method, score) for method, score in found.items() if not method.startswith(OURS))
            method, best = max(rest, key=lambda entry: entry[1])
            if best - own >= POINT:
                lines.append((f"table {name}, {kind}", f"{own:.1f}", f"{method} {best:.1f}", f"{best - own:.1f}"))
    return lines


def _network_losses() -> list[tuple[object, ...]]:
    """Return the kinds of tasks on which ERM or PI is ahead of `StableClassifier`."""
    lines: list[tuple[object, ...]] = []
    for name, mine in network_kinds().items():
        for place, site in SITES.items():
            means = {method: _mean_accuracy(mine, method, place) for method in ("erm", "pi", "stable")}
            best = max(("erm", "pi"), key=lambda method: means[method])
            if means[best] - means["stable"] >= POINT:
                test, other = f"networks, {name}, {site} site", f"{best.upper()} {means[best]:.1f}"
                by = f"{means[best] - means['stable']:.1f}"
                lines.append((test, f"{STABLE} {means['stable']:.1f}", other, by))
    return lines


def _paper_losses() -> list[tuple[object, ...]]:
    """Return where the paper's PI is ahead of ours."""
    lines: list[tuple[object, ...]] = []
    for data, method, rule, _, printed, ours, *_ in paper_rows():
        if method == "PI" and ours is not None and printed - ours.value >= POINT:
            by = f"{printed - ours.value:.1f}"
            lines.append((f"Table 1, {data}, {rule}", f"PI {ours.value:.1f}", f"the paper's PI {printed:.1f}", by))
    return lines


def _promised() -> list[tuple[object, ...]]:
    """Return every target of speed, those that are missed first."""
    records = read_records(RECORDS)
    lines = [line for name in TARGETS if name in records for line in TARGETS[name](records[name])]
    return sorted(lines, key=lambda line: line[-1] != MISSED)


def _missed() -> list[tuple[object, ...]]:
    return [line for line in _promised() if line[-1] == MISSED]


# --- The field's benchmarks -------------------------------------------------------------------------------------------


def irm() -> str:
    """Return IRM's colored MNIST: what training rows choose comes first, for a user has no others."""
    board = rivals().get(IRM_TITLE)
    if board is None:
        return NOT_MEASURED
    own = {row[0]: value(row[2]) or 0.0 for row in board.rows if row[1] == BY_US}
    others = max(accuracy for name, accuracy in own.items() if name not in PI)
    answer = (
        f"With settings chosen by training rows, PI reaches {own['PI']:.0f} % and its robust recipe "
        f"{own['PI, robust']:.0f} %. No other method here is above {others:.0f} %."
    )
    return f"{answer}\n\n{shown(board)}"


def domainbed() -> str:
    """Return DomainBed's ColoredMNIST."""
    board = rivals().get(DOMAINBED_TITLE)
    if board is None:
        return NOT_MEASURED
    column = next(place for place, name in enumerate(board.columns) if name.startswith("training") and "-90" in name)
    cells = {(row[0], row[1]): value(row[column]) or 0.0 for row in board.rows}
    others = max(accuracy for (name, _), accuracy in cells.items() if name not in PI)
    answer = (
        f"In the −90 % domain, with settings chosen by training domains, PI reaches {cells['PI', BY_US]:.0f} % and its "
        f"robust recipe {cells['PI, robust', BY_US]:.0f} %. All others, published ones included, stay at "
        f"{others:.0f} % or below. In the other two domains ERM is better than PI."
    )
    return f"{answer}\n\n{shown(board)}"


def units() -> str:
    """Return the errors on the linear unit tests."""
    board = rivals().get(UNITS_TITLE)
    if board is None:
        return NOT_MEASURED
    own = next(row for row in board.rows if row[0] == STABLE)
    largest = {
        size: max((value(cell) or 0.0, name) for name, cell in zip(board.columns, own, strict=True) if size in name)
        for size in ("10 env.", "3 env.")
    }
    answer = (
        f"With ten environments, the error of `{STABLE}` is at most {largest['10 env.'][0]:.3f}. With three it reaches "
        f"{largest['3 env.'][0]:.3f} (Example {largest['3 env.'][1].partition(',')[0]})."
    )
    return f"{answer}\n\n{shown(board)}"


def forecasts() -> str:
    """Return how often forecasts held on the unit tests."""
    board = rivals().get(FORECASTS_TITLE)
    if board is None:
        return NOT_MEASURED
    held = [n_held for _, _, n_held in _held()]
    answer = f"The 95 % forecasts of its accuracy held in {sum(held)} of {2 * SEEDS * len(held)} cases, {SEEDS} a cell."
    return f"{answer}\n\n{shown(board, note=False)}"


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
    boards = {suite: _by_table(suite) for suite in ("natural", "planted")}
    lines = []
    for method in versions:
        mine = [record for record in records if record["key"]["method"] == method]
        means = [_mean_of(scores.get(method) for scores in boards[suite].values()) for suite in boards]
        failed = sum("error" in record for record in mine)
        lines.append((method, *means, float(np.mean([record["seconds"] for record in mine])), failed))
    lines.sort(key=lambda line: -line[2])
    best = {own: max((line for line in lines if line[0].startswith(OURS) == own), key=lambda x: x[2]) for own in BOTH}
    most = max(lines, key=lambda line: line[1])
    n_splits = len({(r["key"]["table"], r["key"]["left_out"]) for r in records})
    answer = (
        f"With the planted column, `{STABLE}` reaches {best[True][2]:.1f} % and the best of the others "
        f"{best[False][2]:.1f} % ({best[False][0]}). As the tables are, `{STABLE}` reaches "
        f"{max(line[1] for line in lines if line[0].startswith(OURS)):.1f} %, and the best method {most[1]:.1f} %. "
        f"Mean accuracy in percent over {n_splits} left-out environments of {len(boards['natural'])} tables:"
    )
    head = ("method", "as they are", "planted column", "processor s a fit", "failed fits")
    rows = [
        (f"{method} {versions[method]}", f"{a:.1f}", f"{b:.1f}", f"{seconds:.2f}", failed or None)
        for method, a, b, seconds, failed in lines
    ]
    return f"{answer}\n\n{table(head, rows)}"


def _mean_of(values: Iterable[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def real_tables() -> str:
    """Return what `StableClassifier` changes on real tables, and what it recovers with a planted column."""
    natural, planted = (list(trust.Records(suite, EVIDENCE).found.values()) for suite in ("natural", "planted"))
    lines, costs, shares = [], [], []
    for group, estimator in itertools.product(trust.GROUPS, ("logistic", "boosting")):
        mine, turned = (
            [r for r in _of(records, estimator) if r["key"]["table"] in trust.GROUPS[group]]
            for records in (natural, planted)
        )
        changes = [float(np.mean(points)) for points in trust._differences(mine, "accuracy").values()]
        closed = list(trust._shares(turned).values())
        held = np.mean(
            [r["stable"]["forecast"][0] <= r["stable"]["accuracy"] <= r["stable"]["forecast"][1] for r in mine]
        )
        named = np.mean([r["named_planted"] for r in turned])
        costs.append(float(np.mean(changes)))
        shares.append(float(np.mean(closed)))
        lines.append(
            (
                f"{group}, {len(changes)}",
                estimator,
                f"{costs[-1]:+.2f}",
                f"{min(changes):+.1f}",
                f"{percent(held)}",
                f"{percent(shares[-1])}",
                f"{percent(min(closed))}",
                f"{percent(named)}",
            )
        )
    answer = (
        f"As the tables are, `{STABLE}` changes the mean accuracy by {min(costs):+.2f} to {max(costs):+.2f} points. "
        f"With a planted column it recovers {percent(min(shares))} to {percent(max(shares))} of the lost accuracy."
    )
    head = (
        "tables",
        "estimator",
        "as they are: change, points",
        "worst table",
        "forecasts that held",
        "planted: recovered",
        "worst table",
        "column named",
    )
    return f"{answer}\n\n{table(head, lines)}"


def synthetic_worlds() -> str:
    """Return what `StableClassifier` costs where nothing changes, and recovers where a column does."""
    records = read_lines("worlds")
    same = [record for record in records if record["key"]["suite"] == "same"]
    lost, acts = worlds._lost(same, "new"), worlds._acts(same).replace("%", " %")
    lines: list[tuple[object, ...]] = [
        ("nothing changes", "any", len(same), acts, f"{lost.mean():.2f}", f"{lost.max():.1f}", None, None)
    ]
    planted = [record for record in records if record["key"]["suite"] == "planted"]
    shares = {}
    for name, chosen in (
        ("500 or more", [r for r in planted if r["key"]["rows"] >= 500]),
        ("100 to 300", [r for r in planted if r["key"]["rows"] < 500]),
    ):
        cells = trust.grouped(chosen, "world", "sites", "rows", "estimator").values()
        closed = np.array([worlds.gap_closed([r["new"] for r in mine]) for mine in cells])
        shares[name] = float(np.nanmean(closed))
        spans = f"{percent(shares[name])}", f"{percent(np.nanmin(closed))}"
        lines.append(
            ("a planted column turns", name, len(chosen), worlds._acts(chosen).replace("%", " %"), None, None, *spans)
        )
    answer = (
        f"Where P(y|x) is the same at every site, `{STABLE}` acts in {acts} of the fits. Where a planted "
        f"column turns, it recovers {percent(shares['500 or more'])} of the lost accuracy with 500 or more rows a site."
    )
    head = (
        "world",
        "rows a site",
        "fits",
        "acts",
        "points lost at a new site",
        "worst fit",
        "recovered",
        "worst world",
    )
    return f"{answer}\n\n{table(head, lines)}"


# --- Networks ---------------------------------------------------------------------------------------------------------


def network_kinds() -> dict[str, list[dict[str, Any]]]:
    """Return the records of networks.py by the kind of task."""
    tasks = {task.name: task for task in importlib.import_module("networks").TASKS}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in KINDS.values()}
    for record in read_lines("networks"):
        task = tasks[record["key"]["task"]]
        found[KINDS[task.planted, task.held_out]].append(record)
    return {name: mine for name, mine in found.items() if mine}


def _mean_accuracy(records: Iterable[Mapping[str, Any]], method: str, place: str) -> float:
    return 100 * float(np.mean([record[method][place] for record in records]))


def networks() -> str:
    """Return what the verdict for networks does on tasks of either kind, from the records of networks.py."""
    kinds = network_kinds()
    if not kinds:
        return NOT_MEASURED
    lines = []
    for name, mine in kinds.items():
        means = [_mean_accuracy(mine, method, place) for place in SITES for method in ("erm", "pi", "stable")]
        lines.append((name, len(mine), _said(mine), *(f"{mean:.1f}" for mean in means)))
    planted, natural = (
        [r for name, mine in kinds.items() if name.startswith(kind) for r in mine] for kind in ("planted", "nothing")
    )
    gains = [_mean_accuracy(planted, m, "turned") - _mean_accuracy(planted, "erm", "turned") for m in ("stable", "pi")]
    answer = (
        f"`{STABLE}` finds what is planted in {_said(planted)} of {len(planted)} runs. At the new site it gains "
        f"{percent(gains[0] / gains[1])} of what PI gains. With nothing planted it acts in "
        f"{_said(natural)} of {len(natural)} runs."
    )
    sites = (f"{site} site: {method}" for site in SITES.values() for method in ("ERM", "PI", STABLE))
    return f"{answer}\n\n{table(('tasks', 'runs', 'found unstable', *sites), lines)}"


def _said(records: Iterable[Mapping[str, Any]]) -> int:
    return sum(record["outcome"] == "unstable" for record in records)


# --- The paper --------------------------------------------------------------------------------------------------------


def paper_rows() -> tuple[tuple[Any, ...], ...]:
    """Return the rows of Table 1."""
    return compare_recorded("table1", DOCS / "reproduction" / "table1.jsonl").tables[0].rows


def paper_table() -> str:
    """Return Table 1 of the paper next to ours, a row for each method."""
    rows = paper_rows()
    cells = {(row[0], row[2], row[1]): row for row in rows}
    places = [(data, rule) for data in dict.fromkeys(r[0] for r in rows) for rule in ("as training", "as test")]
    lines = []
    for method in dict.fromkeys(row[1] for row in rows):
        mine = [cells.get((*place, method)) for place in places]
        lines.append((method, *(cell for row in mine for cell in _paper_cells(row))))
    main, robust, oracle = (cells["MNIST", "as training", name] for name in ("PI", "PI, robust", "oracle"))
    answer = (
        f"On MNIST, PI reaches {main[5].value:.1f} % (paper: {main[4]:.1f}), and the robust recipe "
        f"{robust[5].value:.1f} %, above the paper's oracle ({oracle[4]:.1f})."
        if robust[5].value > oracle[4]
        else f"On MNIST, PI reaches {main[5].value:.1f} % (paper: {main[4]:.1f})."
    )
    head = ("method", *(f"{data}, {rule}: {whose}" for data, rule in places for whose in ("paper", "ours")))
    return f"{answer}\n\n{table(head, lines)}"


def _paper_cells(row: Any) -> tuple[str, str]:
    """Return the paper's number and ours; a mean of fewer than three seeds says how many."""
    if row is None:
        return "–", "–"
    printed = "–" if row[4] is None else f"{row[4]:.1f}"
    seeds = "" if row[5] is None or row[7] >= 3 else f" ({row[7]} seed{'s' if row[7] > 1 else ''})"
    return printed, "–" if row[5] is None else f"{_spread(row[5])}{seeds}"


# --- Speed ------------------------------------------------------------------------------------------------------------


def speed() -> str:
    """Return every target of speed, missed ones first."""
    lines = _promised()
    absent = [name for name in TARGETS if name not in read_records(RECORDS)]
    answer = f"{len(lines) - len(_missed())} of {len(lines)} targets are met."
    text = table(("what", "target", "measured", "met"), lines)
    return f"{answer}\n\n{text}" + (f"\n\nWithout a record: {', '.join(absent)}." if absent else "")


def growth() -> str:
    """Return how fits grow with rows, columns, sites and classes."""
    record = read_records(RECORDS).get("sizes")
    return "Not measured yet: `./scripts/bench --only sizes`." if record is None else sizes(record)


BLOCKS: Mapping[str, Callable[[], str]] = {
    "losses": losses,
    "irm": irm,
    "domainbed": domainbed,
    "units": units,
    "forecasts": forecasts,
    "packages": packages,
    "real_tables": real_tables,
    "worlds": synthetic_worlds,
    "networks": networks,
    "paper": paper_table,
    "speed": speed,
    "sizes": growth,
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
    table1 = {row[1]: row for row in paper_rows() if row[0] == "MNIST" and row[2] == "as training"}
    names = {"erm": "ERM", "irm": "IRM", "vrex": "V-REx", "pi": "PI", "robust": "PI, robust", "oracle": "oracle"}
    mnist = {f"mnist_{key}": table1[names[key]] for key in ("erm", "pi", "robust", "oracle")}
    board = {row[0]: row for row in rivals()[IRM_TITLE].rows if row[1] == BY_US}
    return {
        "natural": f"{max(changes):.1f}",
        "planted": f"{100 * shares[0]:.0f} % and {100 * shares[1]:.0f} %",
        **{key: _spread(row[5]) for key, row in mnist.items()},
        "mnist_seeds": str(min(row[7] for row in mnist.values())),
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
