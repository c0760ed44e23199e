"""The records of the benchmarks as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


def table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in rows)


def times(value: float) -> str:
    """Return a ratio with its sign."""
    return f"{value:.3g}×"


def seconds_of(value: float) -> str:
    """Return seconds with a unit that is easy to read."""
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s" if value >= 0.1 else f"{1e3 * value:.3g} ms"


def step(record: Record) -> str:
    """Return what a training step takes."""
    row = record["rows"][0]
    return (
        f"A step takes {row['holdfast_processor_ms']:.0f} ms in {row['precision']}, and "
        f"{row['reference_processor_ms']:.0f} ms in the plain loop (fp32). Its {row['gigaflop']} GFLOP "
        f"would take {row['limit_ms']:.0f} ms at {row['peak_gigaflops']:.0f} GFLOP/s, the speed of a large fp32 matrix "
        "product."
    )


def precision(record: Record) -> str:
    """Return what bf16 changes."""
    return (
        f"bf16 changes the test accuracy of PI by {100 * record['difference']:+.1f} ± "
        f"{100 * record['standard_error']:.1f} points (mean and standard error of {len(record['rows'])} paired seeds). "
        f"The standard deviation over seeds is {100 * record['spread_of_seeds']:.1f} points."
    )


def fits(*records: Record) -> str:
    """Return the times of both programs, a row for each record: medians over its seeds."""
    lines = []
    for record in records:
        middle = {
            key: statistics.median(row[key] for row in record["rows"])
            for key in ("reference_processor_seconds", "holdfast_processor_seconds")
        }
        stages = record.get("stages_ratio")
        lines.append(
            (
                f"{record['n_rows']:,}",
                f"{record['epochs']} × {record['steps']}",
                len(record["rows"]),
                *(f"{value:.0f}" for value in middle.values()),
                times(record["processor_ratio"]),
                None if stages is None else times(stages),
                times(record["last_epoch_ratio"]),
                *(f"{100 * record[f'{side}_accuracy']:.1f} %" for side in ("reference", "holdfast")),
            )
        )
    head = (
        "rows",
        "steps a network",
        "seeds",
        "plain, s",
        "holdfast, s",
        "ratio",
        "without the price",
        "ratio in stage 3",
        "validation accuracy: plain",
        "holdfast",
    )
    answer = f"A whole fit is {' and '.join(line[5] for line in lines)} as fast as the plain program."
    return f"{answer}\n\n{table(head, lines)}"


def time_to_accuracy(record: Record) -> str:
    """Return when each seed is there, and how far the plain program was."""
    share, data = f"{100 * record['accuracy']:.1f} %", f"{record['data'][0].upper()}{record['data'][1:]}"
    stopped, stage_3 = record["plain_points"][-1][0], f"{record['plain_seconds']:.0f}"
    reached = ["–" if row["reached_seconds"] is None else f"{row['reached_seconds']:.0f}" for row in record["rows"]]
    whole = [f"{row['seconds']:.0f}" for row in record["rows"]]
    ends = [f"{100 * row['accuracy']:.1f} %" for row in record["rows"]]
    than = "" if record["plain_reached"] else "more than "
    lines = [
        (f"until {share}, s", " / ".join(reached), stage_3 if record["plain_reached"] else f"> {stage_3}"),
        ("whole fit, s", " / ".join(whole), None if record["plain_reached"] else f"stopped after {stopped:.0f}"),
        ("accuracy at the end", " / ".join(ends), None),
    ]
    answer = f"{data}: the recipe reaches {share} {than}{int(record['ratio'])} times faster (median of the runs)."
    shown = f"{answer}\n\n{table(('processor time', 'recipe', 'plain program'), lines)}"
    if record["plain_reached"]:
        return shown
    return (
        f"{shown}\n\n{stage_3} s is calculated, not measured: stage 1 of the plain program fits two classifiers "
        f"with at least 21 epochs each, and an epoch takes {record['plain_epoch_seconds']} s."
    )


def sweep(record: Record) -> str:
    """Return the times of both ways."""
    row = record["rows"][0]
    return (
        f"{row['n_runs']} short runs take {row['one_by_one_processor_seconds']:.0f} s of processor time if each is a "
        f"process of its own, and {row['engine_processor_seconds']:.0f} s with `holdfast sweep --jobs "
        f"{row['processes']}`, which imports torch once a process."
    )


def convex(record: Record) -> str:
    """Return the fits of a large table."""
    own = [row for row in record["rows"] if row["target"]]
    first = record["rows"][0]
    lines = [
        (
            r["side"],
            r["n_groups"],
            r["iterations"],
            None if r["gap"] is None else f"{r['gap']:.0e}",
            r["processor_seconds"],
            times(r["processor_ratio"]),
        )
        for r in record["rows"]
    ]
    ratios = " and ".join(times(row["processor_ratio"]) for row in own)
    answer = (
        f"{own[0]['n_rows']:,} rows × {own[0]['n_columns']} columns: {ratios} the time of "
        f"`{first['side']}` on the same rows."
    )
    return f"{answer}\n\n" + table(("fit", "groups", "iterations", "gap", "processor s", "ratio"), lines)


def peers(record: Record) -> str:
    """Return the fits of the toy."""
    lines = [
        (
            f"{r['side']} {r['version'] or ''}".strip(),
            r["worst_case_risk"],
            f"{1e3 * r['processor_seconds']:.3g}",
            times(r["processor_ratio"]),
        )
        for r in record["rows"]
    ]
    others = [row["processor_ratio"] for row in record["rows"] if row["target"]]
    answer = (
        f"Other packages with group DRO need {min(others):.0f} to {max(others):.0f} times as long on the paper's toy."
    )
    return f"{answer}\n\n{table(('package', 'worst-case risk', 'processor ms', 'ratio'), lines)}"


def environments(record: Record) -> str:
    """Return steps and fits by the number of environments."""
    ns = sorted({row["environments"] for row in record["rows"]})
    whats = list(dict.fromkeys(row["what"] for row in record["rows"]))
    by = {(row["what"], row["environments"]): row for row in record["rows"]}
    lines: list[tuple[object, ...]] = [("groups, 2n(n−1)", *(2 * n * (n - 1) for n in ns))]
    for what in whats:
        first = by[what, ns[0]]
        cells = [times(by[what, n]["processor_ratio"]) if (what, n) in by else "–" for n in ns[1:]]
        lines.append((what, f"{first['processor_milliseconds']:.3g} ms", *cells))
    told = ("fit, logistic", "fit, network online", "step, online")
    fit, network, step = (times(by[what, ns[-1]]["processor_ratio"]) for what in told)
    answer = (
        f"From {ns[0]} to {ns[-1]} environments an exact fit grows to {fit}, a network fit to {network}, although a "
        f"step of `online` grows only to {step}."
    )
    return f"{answer}\n\n{table(('processor time', *(f'n = {n}' for n in ns)), lines)}"


def boosting(record: Record) -> str:
    """Return PI in plain fits."""
    own = [row for row in record["rows"] if row.get("target")]
    lines = [(row["learner"], row["rounds"], f"{row['processor_ratio']:.1f}", row["target"]) for row in own]
    answer = "The time of one `PIClassifier` fit, in ordinary fits of its learner"
    rows = f"{record['n_rows']:,} rows × {record['n_columns']} columns, 2 folds"
    return f"{answer}: {rows}.\n\n{table(('learner', 'rounds', 'ordinary fits', 'allowed'), lines)}"


def growth(record: Record) -> str:
    """Return every point."""
    lines = [
        (
            p["solver"],
            f"{p['n_rows']:,}",
            p["environments"],
            p["where"],
            p["processor_seconds"],
            f"{1e6 * p['processor_seconds'] / p['n_rows']:.3g}",
            f"{p['mib_most'] - p['mib_before']:.0f}",
        )
        for p in record["rows"]
    ]
    largest = max(record["rows"], key=lambda p: p["n_rows"])
    answer = (
        f"Convex solver: {largest['n_rows']:,} rows on disk take {seconds_of(largest['processor_seconds'])} and add "
        f"{(largest['mib_most'] - largest['mib_before']) / 1024:.1f} GiB. From a million rows on, both are "
        "proportional."
    )
    head = ("solver", "rows", "environments", "features on", "processor s", "µs per row", "MiB added")
    return f"{answer}\n\n{table(head, lines)}"


def startup(record: Record) -> str:
    """Return what starting takes."""
    rows = {row["what"]: row["processor_seconds"] for row in record["rows"]}
    return (
        f"{100 * record['rows'][-1]['import_share']:.0f} % of the time of `holdfast predict` with 1,000 rows goes to "
        f"imports. scikit-learn's linear models alone take {rows['import sklearn.linear_model']:.2g} s to import."
    )


def default(record: Record) -> str:
    """Return the default in ordinary fits."""
    names = ("estimator", "environments", "ordinary_processor_ms", "stable_processor_ms", "ratio")
    head = ("estimator", "environments", "ordinary fit, ms", "`StableClassifier`, ms", "ratio")
    ratios = [row["ratio"] for row in record["rows"]]
    answer = (
        f"A fit of `StableClassifier` takes {min(ratios):.0f} to {max(ratios):.0f} ordinary fits, more with "
        f"more environments. An audit of {record['audit']['rows']:,} rows takes "
        f"{record['audit']['processor_seconds']:.2f} s."
    )
    return f"{answer}\n\n" + table(head, [[row[name] for name in names] for row in record["rows"]])


def sizes(record: Record) -> str:
    """Return how a fit grows with each size: seconds, and ordinary fits of the same rows."""
    calls = ("ordinary", "StableClassifier", "diagnose", "PIClassifier")
    compared = calls[1:3]
    lines = []
    ends: dict[str, str] = {}
    for row in record["rows"]:
        found = {call: row[call] for call in calls if row.get(call) is not None}
        cells = [f"{found[c]:.2g}" if c in found else "refused" if c in row else "stopped" for c in calls]
        ratios = {call: f"{found[call] / found['ordinary']:.0f}" for call in compared if call in found}
        size = f"{row['to']:,} {row['grows']}"
        lines.append((size, *cells, *(ratios.get(call) for call in compared)))
        if compared[0] in ratios:
            ends[row["grows"]] = f"{ratios[compared[0]]} at {size}"
    answer = f"The time of `{compared[0]}` in ordinary fits of the same rows: {', '.join(ends.values())}."
    head = ("size", "ordinary fit, s", *(f"`{call}`, s" for call in calls[1:]), *(f"`{c}`, fits" for c in compared))
    limit = f"A size was stopped after {record['limit']} s." if any("stopped" in line for line in lines) else ""
    return f"{answer}\n\n{table(head, lines)}\n\n{limit}".strip()


SECTIONS: Mapping[str, Callable[[Record], str]] = {
    "training_step": step,
    "precision": precision,
    "time_to_accuracy": time_to_accuracy,
    "time_to_accuracy_text": time_to_accuracy,
    "sweep": sweep,
    "convex": convex,
    "wide": convex,
    "peers": peers,
    "environments": environments,
    "boosting": boosting,
    "default": default,
    "growth": growth,
    "startup": startup,
}
