"""How often the intervals of `holdfast.metrics` hold the true value, over draws from known accuracies.

    python benchmarks/coverage.py [--draws 10000]   # measures, writes the record and the table
    python benchmarks/coverage.py --table           # only rewrites the table of docs/intervals.md from the record

Each row draws the number of correct rows of every group and counts how often each 95 % interval holds the truth. The
misses are counted on both sides: an interval that only ever misses on one side is honest but lopsided.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from measuring import ROOT, versions

from holdfast.metrics import average_interval, difference_interval, exact_interval

RECORD = ROOT / "docs" / "evidence" / "intervals.json"
PAGE = ROOT / "docs" / "intervals.md"
TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", flags=re.DOTALL)
LEVEL = 0.95

# The true accuracy and the size of every group.
GROUPS: dict[str, tuple[tuple[float, ...], tuple[int, ...]]] = {
    "1 group of 3, accuracy 0.95": ((0.95,), (3,)),
    "1 group of 30, 0.995": ((0.995,), (30,)),
    "1 group of 100, 0.5": ((0.5,), (100,)),
    "1 group of 10,000, 0.9": ((0.9,), (10_000,)),
    "2 groups of 200 and 5, 0.95": ((0.95,) * 2, (200, 5)),
    "2 groups of 200 and 5, 1 and 0.6": ((1.0, 0.6), (200, 5)),
    "2 groups of 1,000 and 900, 0.9": ((0.9,) * 2, (1000, 900)),
    "4 groups of 100, 0.9": ((0.9,) * 4, (100,) * 4),
    "4 groups of 1,000, 300, 40 and 12, 0.95, 0.9, 0.8 and 0.6": ((0.95, 0.9, 0.8, 0.6), (1000, 300, 40, 12)),
    "4 groups of 1,000, 300, 40 and 12, 0.99": ((0.99,) * 4, (1000, 300, 40, 12)),
    "10 groups of 30, 0.9": ((0.9,) * 10, (30,) * 10),
    "40 groups of 5, 0.9": ((0.9,) * 40, (5,) * 40),
    "40 groups of 1, 0.9": ((0.9,) * 40, (1,) * 40),
    "40 groups of 5 to 200, 0.5 to 1": (tuple(np.linspace(0.5, 1, 40)), tuple(5 * (1 + k) for k in range(40))),
    "40 groups of 5 to 200, 1 to 0.5": (tuple(np.linspace(1, 0.5, 40)), tuple(5 * (1 + k) for k in range(40))),
}
# The shares of rows that only the first and only the second classifier gets right, and the number of rows.
DIFFERENCES: dict[str, tuple[float, float, int]] = {
    "5 rows, 0.3 gained and 0.1 lost": (0.3, 0.1, 5),
    "30 rows, 0.1 and 0.1": (0.1, 0.1, 30),
    "100 rows, 0.02 and 0.02": (0.02, 0.02, 100),
    "1,000 rows, 0.002 and 0": (0.002, 0.0, 1000),
    "1,000 rows, 0.1 and 0.05": (0.1, 0.05, 1000),
    "10,000 rows, 0.1 and 0.1": (0.1, 0.1, 10_000),
}
Interval = tuple[float, float]


def main() -> None:
    """Measure, or only write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table", action="store_true", help="measure nothing, rewrite the table from the record")
    options = parser.parse_args()
    if not options.table:
        record = {
            "benchmark": "coverage",
            "command": f"python benchmarks/coverage.py --draws {options.draws}",
            "level": LEVEL,
            "versions": versions(("numpy", "scipy")),
            "rows": measure(options.draws),
        }
        options.record.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.record == RECORD:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), json.loads(RECORD.read_text(encoding="utf-8"))))


def measure(n_draws: int) -> list[dict[str, Any]]:
    """Return a row for each case and interval."""
    rows = []
    for number, (case, (accuracies, sizes)) in enumerate(GROUPS.items()):
        hits = np.random.default_rng([number, 1]).binomial(sizes, accuracies, size=(n_draws, len(sizes)))
        if len(sizes) == 1:
            rows.append(covered("one group", case, hits, accuracies[0], lambda k, n=sizes: single(k, n)))
        else:
            rows.append(covered("worst group", case, hits, min(accuracies), lambda k, n=sizes: worst(k, n)))
            average = float(np.mean(accuracies))
            rows.append(covered("average", case, hits, average, lambda k, n=sizes: average_interval(k, n)))
    for number, (case, (gained, lost, n_rows)) in enumerate(DIFFERENCES.items()):
        counts = np.random.default_rng([number, 2]).multinomial(n_rows, [gained, lost, 1 - gained - lost], size=n_draws)
        rows.append(covered("difference", case, counts, gained - lost, difference))
    return rows


def covered(
    interval: str, case: str, draws: np.ndarray, truth: float, limits: Callable[[tuple[int, ...]], Interval]
) -> dict[str, Any]:
    """Count the draws whose interval holds the truth, and those that lie above and below it."""
    cached = cache(limits)  # small groups repeat their outcomes
    low, high = np.array([cached(tuple(draw)) for draw in draws.tolist()]).T
    above, below = int((low > truth + 1e-12).sum()), int((high < truth - 1e-12).sum())
    row = {
        "interval": interval,
        "case": case,
        "draws": len(draws),
        "held": len(draws) - above - below,
        "above": above,
        "below": below,
        "width": round(float(np.mean(high - low)), 4),
    }
    print(json.dumps(row), flush=True)
    return row


def single(hits: Sequence[int], sizes: Sequence[int]) -> Interval:
    """Return the interval of the only group."""
    low, high = exact_interval(hits, sizes, level=LEVEL)
    return float(low[0]), float(high[0])


def worst(hits: Sequence[int], sizes: Sequence[int]) -> Interval:
    """Return the worst group's interval, as `score_groups` has it (a test compares)."""
    low, _ = exact_interval(hits, sizes, level=LEVEL)
    _, high = exact_interval(hits, sizes, level=1 - (1 - LEVEL) / len(sizes))
    return float(low.min()), float(high.min())


def difference(counts: Sequence[int]) -> Interval:
    """Return the interval of the difference from the numbers of rows gained, lost and equal."""
    gained, lost, equal = counts
    first = np.repeat([1, 0, 1], [gained, lost, equal])
    second = np.repeat([0, 1, 1], [gained, lost, equal])
    return difference_interval(np.ones_like(first), first, second, level=LEVEL)[1:]


def fill(page: str, record: dict[str, Any]) -> str:
    """Return the page with the table of a record: the lowest and highest coverage of each kind of interval."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        kinds.setdefault(row["interval"], []).append(row)
    lines = [
        f"`{record['command']}`:",
        "",
        "| interval | cases | lowest coverage | in the case | highest coverage |",
        "|---|--:|--:|---|--:|",
    ]
    for kind, rows in kinds.items():
        rows.sort(key=lambda row: row["held"] / row["draws"])
        lowest, highest = (f"{row['held'] / row['draws']:.2%}" for row in (rows[0], rows[-1]))
        lines.append(f"| {kind} | {len(rows)} | {lowest} | {rows[0]['case']} | {highest} |")
    body = "\n".join(lines) + "\n"
    return TABLE.sub(lambda found: found[1] + body + found[2], page)


if __name__ == "__main__":
    main()
