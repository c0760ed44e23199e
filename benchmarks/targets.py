"""What was promised of speed, and what the records say about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tables import Record, times

MISSED = "**no**"
Line = tuple[str, str, str, str]  # what, target, measured (processor time, where it is a time), whether it is met


def verdict(holds: bool) -> str:
    """Return whether a target is met."""
    return "yes" if holds else MISSED


def _step_targets(record: Record) -> list[Line]:
    row = record["rows"][0]
    line = "PI on networks: a training step, times faster than a plain loop", f"≥ {row['target']:.0f}×"
    return [(*line, times(row["processor_ratio"]), verdict(row["processor_ratio"] >= row["target"]))]


def _fit_targets(record: Record) -> list[Line]:
    what = f"PI on networks: a fit of {record['n_rows']:,} rows, {record['epochs']} × {record['steps']} steps each"
    line = f"{what}, times faster than a plain program", f"≥ {record['target']:g}×"
    holds = verdict(record["processor_ratio"] >= record["target"])
    return [(*line, times(record["processor_ratio"]), holds)]


def _accuracy_targets(record: Record) -> list[Line]:
    share, than = f"{100 * record['accuracy']:.1f} %", "" if record["plain_reached"] else "> "
    older = ", older cut" if record["data"] == "colored MNIST" and record.get("edition", 1) == 1 else ""
    line = (
        f"robust recipe: {share} on {record['data']}{older}, times sooner than a plain program",
        f"≥ {record['target']:.0f}×",
    )
    return [(*line, than + times(record["ratio"]), verdict(record["ratio"] >= record["target"]))]


def _precision_targets(record: Record) -> list[Line]:
    difference, error = 100 * record["difference"], 100 * record["standard_error"]
    found = f"{difference:+.1f} ± {error:.1f} points"
    return [
        (
            "PI on networks: accuracy in bf16 minus fp32",
            "within seed noise",
            found,
            verdict(abs(difference) <= 2 * error),
        )
    ]


def _sweep_targets(record: Record) -> list[Line]:
    row = record["rows"][0]
    line = f"`holdfast sweep`: {row['n_runs']} runs, times faster than one by one", f"≥ {row['target']}×"
    best = max(row["processor_ratio"], row["ratio"])
    return [(*line, times(row["processor_ratio"]), verdict(best >= row["target"]))]


def _convex_targets(record: Record) -> list[Line]:
    return [
        (
            f"{row['side'].replace('solve_convex', 'exact solver')}, {row['n_rows']:,} × {row['n_columns']}: "
            "in ordinary fits",
            f"≤ {row['target']:.0f}×",
            times(row["processor_ratio"]),
            verdict(row["processor_ratio"] <= row["target"] and row["gap"] <= 1e-4),
        )
        for row in record["rows"]
        if row["target"]
    ]


def _peer_targets(record: Record) -> list[Line]:
    return [
        (
            f"exact solver: times faster than {row['side']} {row['version']}",
            f"≥ {row['target']:.0f}×",
            times(row["processor_ratio"]),
            verdict(row["processor_ratio"] >= row["target"]),
        )
        for row in record["rows"]
        if row["target"]
    ]


def _boosting_targets(record: Record) -> list[Line]:
    return [
        (
            f"PI with {row['learner']}, {row['rounds']} rounds: in ordinary fits",
            f"≤ {row['target']}×",
            times(row["processor_ratio"]),
            verdict(row["processor_ratio"] <= row["target"]),
        )
        for row in record["rows"]
        if row.get("target")
    ]


def _environment_targets(record: Record) -> list[Line]:
    row = next((row for row in record["rows"] if row["target"]), None)
    if row is None:
        return []
    line = f"PI on networks: a step of `online`, {row['environments']} environments against 2", f"≤ {row['target']}×"
    return [(*line, times(row["processor_ratio"]), verdict(row["processor_ratio"] <= row["target"]))]


def _growth_targets(record: Record) -> list[Line]:
    points = [p for p in record["rows"] if p["solver"] == "convex" and p["environments"] == 4 and p["where"] == "disk"]
    first, last = min(points[1:], key=_size), max(points, key=_size)
    per_row = [p["processor_seconds"] / p["n_rows"] for p in (first, last)]
    line = f"PI: time a row, {last['n_rows']:,} rows against {first['n_rows']:,}", "about 1× (linear)"
    return [(*line, times(per_row[1] / per_row[0]), verdict(per_row[1] <= 1.5 * per_row[0]))]


def _startup_targets(record: Record) -> list[Line]:
    return [
        (
            f"`{row['what']}`",
            f"< {row['target']} s",
            f"{row['processor_seconds']:.2f} s",
            verdict(row["processor_seconds"] < row["target"]),
        )
        for row in record["rows"]
        if row["target"]
    ]


def _default_targets(record: Record) -> list[Line]:
    return [
        (
            f"`StableClassifier`, {row['estimator']}, {row['environments']} environments: in ordinary fits",
            f"≤ {row['target']:.0f}×",
            times(row["ratio"]),
            verdict(row["ratio"] <= row["target"]),
        )
        for row in record["rows"]
    ] + [
        (
            f"audit, {record['audit']['rows']:,} rows",
            f"≤ {record['audit']['target']:.0f} s",
            f"{record['audit']['processor_seconds']:.2f} s",
            verdict(record["audit"]["processor_seconds"] <= record["audit"]["target"]),
        )
    ]


def _size_targets(record: Record) -> list[Line]:
    """The promises that need a size of the table: how many fits `diagnose` is, and a table of many classes."""
    lines = []
    for call, axis, size, most in (("diagnose", "rows", 10_000, 35), ("StableClassifier", "classes", 200, 30)):
        row = next(row for row in record["rows"] if (row["grows"], row["to"]) == (axis, size))
        if call in row:
            ratio = row[call] / row["ordinary"]
            what = f"`{call}`, {size:,} {axis}: in ordinary fits"
            lines.append((what, f"≤ {most}×", times(ratio), verdict(ratio <= most)))
    return lines


TARGETS: Mapping[str, Callable[[Record], list[Line]]] = {
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
    "sizes": _size_targets,
    "growth": _growth_targets,
    "environments": _environment_targets,
    "startup": _startup_targets,
}


def _size(point: Record) -> int:
    return int(point["n_rows"])
