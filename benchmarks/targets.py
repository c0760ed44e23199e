"""What was promised of speed, and what the records say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tables import Record, table, times


def verdict(holds: bool | None) -> str:
    """Return whether a target is met."""
    return "–" if holds is None else "yes" if holds else "**no**"


def targets(records: Mapping[str, Record]) -> str:
    """Return one line for each target."""
    lines = [line for name in TARGETS if name in records for line in TARGETS[name](records[name])]
    missing = [name for name in TARGETS if name not in records]
    text = table(("what", "target", "processor", "clock", "met"), lines)
    return text + (f"\n\nWithout a record: {', '.join(missing)}." if missing else "")


def _step_targets(record: Record) -> list[tuple[object, ...]]:
    row = record["rows"][0]
    line = "stage-3 step against the plain loop", f"≥ {row['target']:.0f}×"
    return [
        (*line, times(row["processor_ratio"]), times(row["ratio"]), verdict(row["processor_ratio"] >= row["target"]))
    ]


def _fit_targets(record: Record) -> list[tuple[object, ...]]:
    what = (
        f"fit of {record['n_rows']:,} rows, {record['epochs']} × {record['steps']} steps a network, against the plain"
    )
    line = f"{what} program", f"≥ {record['target']:g}×"
    holds = verdict(record["processor_ratio"] >= record["target"])
    return [(*line, times(record["processor_ratio"]), times(record["ratio"]), holds)]


def _accuracy_targets(record: Record) -> list[tuple[object, ...]]:
    share, than = f"{100 * record['accuracy']:.1f} %", "" if record["plain_reached"] else "> "
    older = ", older cut" if record["data"] == "colored MNIST" and record.get("edition", 1) == 1 else ""
    line = f"time to {share} on {record['data']}{older} against the plain program", f"≥ {record['target']:.0f}×"
    return [(*line, than + times(record["ratio"]), None, verdict(record["ratio"] >= record["target"]))]


def _precision_targets(record: Record) -> list[tuple[object, ...]]:
    difference, error = 100 * record["difference"], 100 * record["standard_error"]
    found = f"{difference:+.1f} ± {error:.1f} points"
    return [("bf16 against fp32, accuracy", "within seed noise", found, None, verdict(abs(difference) <= 2 * error))]


def _sweep_targets(record: Record) -> list[tuple[object, ...]]:
    row = record["rows"][0]
    line = f"{row['n_runs']} runs, engine against one by one", f"≥ {row['target']}×"
    best = max(row["processor_ratio"], row["ratio"])
    return [(*line, times(row["processor_ratio"]), times(row["ratio"]), verdict(best >= row["target"]))]


def _convex_targets(record: Record) -> list[tuple[object, ...]]:
    return [
        (
            f"{row['side']}, {row['n_rows']:,} rows × {row['n_columns']} columns, against LogisticRegression",
            f"≤ {row['target']:.0f}×",
            times(row["processor_ratio"]),
            times(row["ratio"]),
            verdict(row["processor_ratio"] <= row["target"] and row["gap"] <= 1e-4),
        )
        for row in record["rows"]
        if row["target"]
    ]


def _peer_targets(record: Record) -> list[tuple[object, ...]]:
    return [
        (
            f"{row['side']} {row['version']} against the exact solver",
            f"≥ {row['target']:.0f}×",
            times(row["processor_ratio"]),
            times(row["ratio"]),
            verdict(row["processor_ratio"] >= row["target"]),
        )
        for row in record["rows"]
        if row["target"]
    ]


def _boosting_targets(record: Record) -> list[tuple[object, ...]]:
    return [
        (
            f"PI with {row['learner']}, {row['rounds']} rounds, in plain fits",
            f"≤ {row['target']}×",
            times(row["processor_ratio"]),
            times(row["ratio"]),
            verdict(row["processor_ratio"] <= row["target"]),
        )
        for row in record["rows"]
        if row.get("target")
    ]


def _environment_targets(record: Record) -> list[tuple[object, ...]]:
    row = next((row for row in record["rows"] if row["target"]), None)
    if row is None:
        return []
    line = f"online step at n = {row['environments']} against n = 2", f"≤ {row['target']}×"
    return [
        (*line, times(row["processor_ratio"]), times(row["ratio"]), verdict(row["processor_ratio"] <= row["target"]))
    ]


def _growth_targets(record: Record) -> list[tuple[object, ...]]:
    points = [p for p in record["rows"] if p["solver"] == "convex" and p["environments"] == 4 and p["where"] == "disk"]
    first, last = min(points[1:], key=_size), max(points, key=_size)
    per_row = [p["processor_seconds"] / p["n_rows"] for p in (first, last)]
    line = f"time a row, {last['n_rows']:.0e} rows against {first['n_rows']:.0e}", "about 1× (linear)"
    return [(*line, times(per_row[1] / per_row[0]), None, verdict(per_row[1] <= 1.5 * per_row[0]))]


def _startup_targets(record: Record) -> list[tuple[object, ...]]:
    return [
        (
            f"`{row['what']}`",
            f"< {row['target']} s",
            f"{row['processor_seconds']:.2f} s",
            f"{row['seconds']:.2f} s",
            verdict(row["processor_seconds"] < row["target"]),
        )
        for row in record["rows"]
        if row["target"]
    ]


def _default_targets(record: Record) -> list[tuple[object, ...]]:
    return [
        (
            f"`StableClassifier` with {row['estimator']}, {row['environments']} environments, in ordinary fits",
            f"≤ {row['target']:.0f}×",
            times(row["ratio"]),
            None,
            verdict(row["ratio"] <= row["target"]),
        )
        for row in record["rows"]
    ] + [
        (
            f"audit, {record['audit']['rows']:,} rows",
            f"≤ {record['audit']['target']:.0f} s",
            f"{record['audit']['processor_seconds']:.2f} s",
            None,
            verdict(record["audit"]["processor_seconds"] <= record["audit"]["target"]),
        )
    ]


TARGETS: Mapping[str, Callable[[Record], list[tuple[object, ...]]]] = {
    "training_step": _step_targets,
    "precision": _precision_targets,
    "user_fit": _fit_targets,
    "whole_fit": _fit_targets,
    "time_to_accuracy": _accuracy_targets,
    "time_to_accuracy_text": _accuracy_targets,
    "sweep": _sweep_targets,
    "convex": _convex_targets,
    "wide": _convex_targets,
    "peers": _peer_targets,
    "boosting": _boosting_targets,
    "default": _default_targets,
    "growth": _growth_targets,
    "environments": _environment_targets,
    "startup": _startup_targets,
}


def _size(point: Record) -> int:
    return int(point["n_rows"])
