"""The tables of docs/beyond-the-worst-case.md, from the records in docs/evidence."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "beyond-the-worst-case.md"
SHOWN = {
    "erm": "ERM",
    "balanced": "balanced",
    "hard worst case": "PI hard, worst case",
    "soft worst case": "PI soft, worst case",
    "invariant": "**PI soft, invariant**",
    "extrapolate": "extrapolate",
    "erm network": "ERM, network",
    "irm": "IRM",
    "vrex": "V-REx",
    "oracle": "oracle",
    "stable only": "stable only",
}
FELL_BACK = {"IdenticalEnvironmentsWarning", "SolverWarning"}  # plain ERM was fitted
Records = Sequence[Mapping[str, Any]]
Scores = dict[tuple[Any, ...], dict[int, float]]  # what was measured -> seed -> accuracy


def write_tables(read_records: Callable[[str], list[dict[str, Any]]]) -> None:
    """Replace what stands between the marks of each table."""
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(with_tables(text, read_records), encoding="utf-8")


def with_tables(text: str, read_records: Callable[[str], list[dict[str, Any]]]) -> str:
    """Return the text with every table made anew from the records."""
    generators = read_records("generators")
    tables = {
        "aim": aim_lines(generators),
        "short": short_lines(generators),
        "closed": closed_table(generators),
        "summary": summary_table(generators),
        "accuracy": accuracy_table(generators),
        "digits": left_out_table(read_records("digits")),
        "adult": left_out_table(read_records("adult")),
        "guards": guard_table(read_records("guards")),
    }
    for name, lines in tables.items():
        pattern = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise SystemExit(f"{DOCUMENT.name} has no marks for the table {name!r}.")
        body = "\n".join(lines) + "\n"
        text = pattern.sub(lambda found, body=body: found[1] + body + found[2], text)
    return text


def generator_scores(records: Records, test: str) -> Scores:
    """Return accuracies by (data, environments, estimator, method) and seed."""
    scores: Scores = defaultdict(dict)
    for record in records:
        key = (record["data"], record["environments"], record["estimator"], record["method"])
        scores[key][record["seed"]] = record["accuracy"][test]
    return scores


def closed(scores: Scores, cell: tuple[Any, ...], method: str = "invariant") -> tuple[float, float, float] | None:
    """Return the share of the gap that is closed, its standard error over seeds, and the mean gain over ERM."""
    parts = [scores.get((*cell, name), {}) for name in ("erm", "stable only", method)]
    seeds = sorted(set.intersection(*(set(part) for part in parts)))
    if not seeds:
        return None
    erm, stable, reached = (np.array([part[seed] for seed in seeds]) for part in parts)
    gap = (stable - erm).mean()
    share = (reached - erm).mean() / gap
    error = (
        np.std(reached - erm - share * (stable - erm), ddof=1) / np.sqrt(len(seeds)) / abs(gap)
        if len(seeds) > 1
        else np.nan
    )
    return float(share), float(error), float((reached - erm).mean())


def cells(records: Records) -> list[tuple[Any, ...]]:
    """Return (data, environments, estimator), sorted."""
    return sorted({(r["data"], r["environments"], r["estimator"]) for r in records})


def closed_table(records: Records) -> list[str]:
    """Return the share of the gap that the default closes, for every cell and both tests."""
    flipped, shuffled = (generator_scores(records, test) for test in ("flipped", "shuffled"))
    numbers = sorted({r["environments"] for r in records})
    lines = [
        "| data | estimator | "
        + " | ".join(f"{test}, {n} env." for test in ("flipped", "shuffled") for n in numbers)
        + " |"
    ]
    lines.append("|---|---|" + "---:|" * (2 * len(numbers)))
    for data, estimator in dict.fromkeys((data, estimator) for data, _, estimator in cells(records)):
        shares = [closed(scores, (data, n, estimator)) for scores in (flipped, shuffled) for n in numbers]
        written = ["–" if share is None else _share(share) for share in shares]
        lines.append(f"| {data} | {estimator} | " + " | ".join(written) + " |")
    return lines


def _share(share: tuple[float, float, float]) -> str:
    """Return a share of the gap, with its standard error where there are several seeds."""
    return f"{share[0]:.2f}" if np.isnan(share[1]) else f"{share[0]:.2f} ± {share[1]:.2f}"


def short_lines(records: Records) -> list[str]:
    """Return the cells in which the default closes less than half of the gap, in either test."""
    warned = defaultdict(set)
    for record in records:
        if record["method"] == "invariant":
            warned[record["data"], record["environments"], record["estimator"]].update(record["warnings"])
    lines = [
        "| test | data | environments | estimator | share of the gap | seeds | what was said |",
        "|---|---|---:|---|---:|---:|---|",
    ]
    for test in ("flipped", "shuffled"):
        scores = generator_scores(records, test)
        for cell in cells(records):
            share = closed(scores, cell)
            if share is not None and share[0] < 0.5:
                seeds = len(scores[(*cell, "invariant")])
                said = ", ".join(sorted(warned[cell])) or "nothing"
                lines.append(f"| {test} | {cell[0]} | {cell[1]} | {cell[2]} | {_share(share)} | {seeds} | {said} |")
    return lines


def aim_lines(records: Records) -> list[str]:
    """Return, for each method, in how many cells half of the gap is closed and in how many ERM is missed."""
    lines = ["| method | test | cells | half closed | least share | median share | below ERM beyond 2 s.e. | seeds |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for method in SHOWN:
        if method in ("erm", "stable only"):
            continue
        for test in ("flipped", "shuffled"):
            scores = generator_scores(records, test)
            found = {cell: closed(scores, cell, method) for cell in cells(records)}
            shares = [share for share in found.values() if share is not None]
            if not shares:
                continue
            counts = [len(scores[(*cell, method)]) for cell in found if (*cell, method) in scores]
            seeds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
            half = sum(share[0] >= 0.5 for share in shares)
            below = sum(_below(scores, cell, method) for cell in found)
            values = [share[0] for share in shares]
            lines.append(
                f"| {SHOWN[method]} | {test} | {len(shares)} | {half} | {min(values):.2f} | {np.median(values):.2f} | "
                f"{below} | {seeds} |"
            )
    return lines


def _below(scores: Scores, cell: tuple[Any, ...], method: str) -> bool:
    """Whether a method is below ERM by more than two standard errors over seeds (or over test rows, with one seed)."""
    erm, reached = scores.get((*cell, "erm"), {}), scores.get((*cell, method), {})
    seeds = sorted(set(erm) & set(reached))
    if not seeds:
        return False
    differences = np.array([reached[seed] - erm[seed] for seed in seeds])
    error = np.std(differences, ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else 0.01
    return bool(differences.mean() < -2 * error and differences.mean() < 0)


def summary_table(records: Records) -> list[str]:
    """Return mean accuracy over all made tables for each estimator and method, in each test environment."""
    lines = ["| estimator | test | " + " | ".join(SHOWN.values()) + " |", "|---|---|" + "---:|" * len(SHOWN)]
    for estimator in sorted({r["estimator"] for r in records}):
        for test in ("natural", "shuffled", "flipped"):
            scores = generator_scores(records, test)
            row = []
            for method in SHOWN:
                means = [np.mean(list(scores[(*c, method)].values())) for c in cells(records)
                         if c[2] == estimator and scores.get((*c, method))]  # fmt: skip
                row.append(f"{np.mean(means):.3f}" if means else "–")
            lines.append(f"| {estimator} | {test} | " + " | ".join(row) + " |")
    return lines


def accuracy_table(records: Records) -> list[str]:
    """Return the accuracy of every method in the flipped environment of every cell."""
    scores = generator_scores(records, "flipped")
    lines = [
        "| data | env. | estimator | " + " | ".join(SHOWN.values()) + " |",
        "|---|---:|---|" + "---:|" * len(SHOWN),
    ]
    for cell in cells(records):
        row = [_entry(scores, cell, method) for method in SHOWN]
        lines.append(f"| {cell[0]} | {cell[1]} | {cell[2]} | " + " | ".join(row) + " |")
    return lines


def _entry(scores: Scores, cell: tuple[Any, ...], method: str) -> str:
    """Return a mean accuracy; "n/a" where the method has no such estimator."""
    if method in ("erm network", "irm", "vrex") and cell[2] in ("boosting", "forest"):
        return "n/a"
    return _mean(scores.get((*cell, method), {}).values())


def _mean(values: Iterable[float]) -> str:
    """Return the mean, and over several seeds its standard error."""
    found = np.array(list(values))
    if len(found) == 0:
        return "–"
    if len(found) == 1:
        return f"{found[0]:.3f}"
    return f"{found.mean():.3f} ± {found.std(ddof=1) / np.sqrt(len(found)):.3f}"


def left_out_table(records: Records) -> list[str]:
    """Return mean and worst accuracy over left-out environments, and the paired difference from ERM."""
    lines = ["| data | estimator | method | mean | worst | against ERM (95 % interval) | plain ERM fitted | seeds |"]
    lines.append("|---|---|---|---:|---:|---:|---:|---:|")
    by_cell: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        turned = " (turned colors)" if record["left out"] == "turned" else ""
        by_cell[(record["data"] + turned, record["estimator"], record["method"])].append(record)
    order = list(SHOWN)
    for (data, estimator, method), found in sorted(
        by_cell.items(), key=lambda item: (*item[0][:2], order.index(item[0][2]))
    ):
        environments: dict[str, list[float]] = defaultdict(list)
        for record in found:
            environments[record["left out"]].append(record["accuracy"]["left out"])
        means = [np.mean(values) for values in environments.values()]
        difference = paired_difference(found, by_cell.get((data, estimator, "erm"), []))
        fallback = sum(bool(FELL_BACK & set(r["warnings"])) for r in found)
        seeds = len({record["seed"] for record in found})
        lines.append(
            f"| {data} | {estimator} | {SHOWN[method]} | {np.mean(means):.3f} | {min(means):.3f} | {difference} | "
            f"{f'{fallback} of {len(found)}' if method in ('invariant', 'extrapolate') else ''} | {seeds} |"
        )
    return lines


def guard_table(records: Records) -> list[str]:
    """Return in how many draws the default moved away from ERM, by what the environments differ in and rows."""
    sizes = sorted({record["rows"] for record in records})
    lines = ["| what differs | " + " | ".join(f"{n} rows" for n in sizes) + " |", "|---|" + "---:|" * len(sizes)]
    for data in dict.fromkeys(record["data"] for record in records):
        row = []
        for n in sizes:
            found = [record for record in records if record["data"] == data and record["rows"] == n]
            moved = sum(not FELL_BACK & set(record["warnings"]) for record in found)
            row.append(f"{moved} of {len(found)}")
        lines.append(f"| {data} | " + " | ".join(row) + " |")
    return lines


def paired_difference(found: Records, erm: Records) -> str:
    """Return the mean difference of accuracy from ERM on the same rows, environments counted alike."""
    by_key = {(r["left out"], r["seed"]): r for r in erm}
    means, variances = defaultdict(list), defaultdict(list)
    for record in found:
        other = by_key.get((record["left out"], record["seed"]))
        if other is None or record["method"] == "erm":
            continue
        difference = _right(record) - _right(other)
        means[record["left out"]].append(difference.mean())
        variances[record["left out"]].append(difference.var(ddof=1) / len(difference))
    if not means:
        return ""
    # The same rows are left out under every seed: seeds are averaged, not counted as more rows.
    mean = np.mean([np.mean(values) for values in means.values()])
    error = np.sqrt(sum(np.mean(values) for values in variances.values())) / len(variances)
    return f"{mean:+.3f} ({mean - 1.96 * error:+.3f}, {mean + 1.96 * error:+.3f})"


def _right(record: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return 1.0 for each test row that was predicted right."""
    bits = np.frombuffer(bytes.fromhex(record["right"]), dtype=np.uint8)
    return np.unpackbits(bits)[: record["n_test"]].astype(np.float64)
