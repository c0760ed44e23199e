"""Puts the records into docs/benchmarks.md: every block between its two comments, and the plots.

    python benchmarks/page.py

Words outside of the blocks are written by hand; numbers inside come from docs/benchmarks/*.json alone. A test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import RECORDS, ROOT
from tables import SECTIONS, Record, fits

from holdfast.reports.svg import write_svg
from holdfast.reports.values import Curves, Line

PAGE = ROOT / "docs" / "benchmarks.md"
BLOCK = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
Records = Mapping[str, Record]


def main() -> None:
    """Rewrite the page and the plots."""
    records = read_records(RECORDS)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), records), encoding="utf-8")
    for name, text in plots(records).items():
        (RECORDS / name).write_text(text, encoding="utf-8")


def read_records(folder: Path) -> Records:
    """Return the records by the name of their benchmark."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def fill(page: str, records: Records) -> str:
    """Return the page with every block made anew."""
    return BLOCK.sub(lambda block: block[1] + BLOCKS[block[2]](records).strip() + "\n" + block[3], page)


def noted(records: Records, name: str, write: Callable[[Record], str]) -> str:
    """Return what a record tells, under the command that made it; without a record, how to make it."""
    if name not in records:
        return f"Not measured on this machine yet: `./scripts/bench --only {name}`."
    return f"{write(records[name])}\n\n{made_by(records[name])}"


def made_by(*found: Record) -> str:
    """Return the commands that made the records, when, on which machine, and how busy it was."""
    return "; ".join(f"`{r['command']}` ({r['date']}, {_maker(r['machine'])}, load {r['load']})" for r in found) + "."


def _maker(facts: Mapping[str, Any]) -> str:
    """Return the processor's maker, which tells the machines apart."""
    return str(facts.get("processor", facts["architecture"])).split("(")[0]


def whole_fits(records: Records) -> str:
    """Return both comparisons of whole fits in one table."""
    found = [records[name] for name in ("user_fit", "whole_fit") if name in records]
    return f"{fits(*found)}\n\n{made_by(*found)}" if found else noted(records, "whole_fit", fits)


def machine(records: Records) -> str:
    """Return the machines and versions that the records name."""
    told = []
    for record in records.values():
        facts, versions = record["machine"], record["versions"]
        has = f"with {', '.join(facts['has'])} but without {', '.join(facts['lacks'])}" if "has" in facts else ""
        packages = ", ".join(f"{name} {number}" for name, number in versions.items() if name in ("numpy", "torch"))
        line = (
            f"{facts.get('processor', facts['architecture'])}, {facts['cores']} cores, {has}; Python "
            f"{versions['python']}, scikit-learn {versions['scikit-learn']}, {packages}."
        )
        if line not in told:
            told.append(line)
    return "\n\n".join(told)


BLOCKS: Mapping[str, Callable[[Records], str]] = {
    "machine": machine,
    "fits": whole_fits,
    **{name: lambda records, name=name, write=write: noted(records, name, write) for name, write in SECTIONS.items()},
}


def plots(records: Records) -> dict[str, str]:
    """Return the plots by file name."""
    courses = {"": "time_to_accuracy", "-text": "time_to_accuracy_text"}
    drawn = {f"accuracy-over-time{end}.svg": _accuracy_plot(records[n]) for end, n in courses.items() if n in records}
    return drawn | _growth_plots(records.get("growth"))


def _accuracy_plot(record: Record) -> str:
    """Return the test accuracy over processor time, by seed."""
    courses = {f"holdfast, seed {row['seed']}": row["points"] for row in record["rows"]}
    courses["plain program, seed 0"] = record["plain_points"]
    lines = [
        _line(name, [(seconds, 100 * accuracy) for seconds, _, accuracy in points if accuracy is not None])
        for name, points in courses.items()
        if any(accuracy is not None for _, _, accuracy in points)
    ]
    right = max(line.x[-1] for line in lines)
    lines.append(
        _line("the accuracy to reach", [(0, 100 * record["accuracy"]), (right, 100 * record["accuracy"])], dashed=True)
    )
    title = f"{record['data'][0].upper()}{record['data'][1:]}, test environment"
    return write_svg(Curves(title, "processor seconds", "accuracy, percent", tuple(lines)))


def _growth_plots(record: Record | None) -> dict[str, str]:
    """Return the growth plots by file name."""
    if record is None:
        return {}
    points = record["rows"]

    def line(name: str, x: str, value: Callable[[Mapping[str, Any]], float], **which: object) -> Line:
        own = [p for p in points if all(p[key] == wanted for key, wanted in which.items())]
        return _line(name, [(p[x], max(value(p), 0.01)) for p in own])

    def seconds(point: Mapping[str, Any]) -> float:
        return float(point["processor_seconds"])

    def memory(point: Mapping[str, Any]) -> float:
        return float(point["mib_most"] - point["mib_before"])

    four = {"environments": 4, "where": "disk"}
    convex_time = line("convex", "n_rows", seconds, solver="convex", **four)
    x, y = convex_time.x[-1], convex_time.y[-1]
    middle = min(100_000, int(x))
    at_middle = {"solver": "convex", "n_rows": middle, "where": "disk"}
    features = [(p["n_rows"], p["features_mib"]) for p in points if p["solver"] == "gradient"]
    drawn = {
        "time-by-rows.svg": (
            "A whole fit, 4 environments",
            "rows",
            "processor seconds",
            (
                convex_time,
                line("network, online, fixed number of steps", "n_rows", seconds, solver="gradient", **four),
                _line("in proportion to the rows", [(10_000, y * 10_000 / x), (x, y)], dashed=True),
            ),
        ),
        "memory-by-rows.svg": (
            "Memory beyond the start, rows on disk",
            "rows",
            "MiB at most",
            (
                line("convex", "n_rows", memory, solver="convex", **four),
                line("network", "n_rows", memory, solver="gradient", **four),
                _line("the features themselves", features, dashed=True),
            ),
        ),
        "time-by-environments.svg": (
            f"A whole fit of {middle:,} rows, convex",
            "environments",
            "processor seconds",
            (line("convex", "environments", seconds, **at_middle),),
        ),
        "memory-by-environments.svg": (
            f"Memory beyond the start, {middle:,} rows",
            "environments",
            "MiB at most",
            (line("convex", "environments", memory, **at_middle),),
        ),
    }
    return {name: write_svg(Curves(*parts, log=True, log_x=True)) for name, parts in drawn.items()}


def _line(name: str, points: Sequence[tuple[float, float]], *, dashed: bool = False) -> Line:
    """Return points, in the order of their x, as a line."""
    ordered = sorted(points)
    return Line(name, tuple(x for x, _ in ordered), tuple(y for _, y in ordered), dashed)


if __name__ == "__main__":
    main()
