"""The records of the benchmarks as Markdown tables."""

from __future__ import annotations

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


def step(record: Record) -> str:
    """Return the training step's table."""
    row = record["rows"][0]
    lines = [
        ("plain loop", row["reference_processor_ms"], row["reference_ms"]),
        ("holdfast", row["holdfast_processor_ms"], row["holdfast_ms"]),
        (f"{row['gigaflop']} GFLOP in fp32, at {row['peak_gigaflops']} GFLOP/s", row["limit_ms"], None),
    ]
    share = f"{100 * row['share_of_limit']:.0f} % of the processor's largest speed in fp32"
    return table((f"a step, {row['precision']}", "processor ms", "clock ms"), lines) + f"\n\nThe step reaches {share}."


def precision(record: Record) -> str:
    """Return the paired accuracies."""
    lines = [
        (row["seed"], row["test_fp32"], row["test_bf16"], row["validation_fp32"], row["validation_bf16"])
        for row in record["rows"]
    ]
    text = table(("seed", "test, fp32", "test, bf16", "validation, fp32", "validation, bf16"), lines)
    return (
        f"{text}\n\nbf16 − fp32 on the test rows: {100 * record['difference']:+.1f} ± "
        f"{100 * record['standard_error']:.1f} points (mean and standard error of paired differences); the "
        f'standard deviation over seeds is {100 * record["spread_of_seeds"]:.1f} points. `precision="auto"` chose '
        f"{record['auto']} here."
    )


def whole_fit(record: Record) -> str:
    """Return the times of both programs."""
    sides = ("reference", "holdfast")
    lines = [
        (
            row["seed"],
            *(row[f"{side}_{kind}"] for kind in ("processor_seconds", "seconds", "accuracy") for side in sides),
        )
        for row in record["rows"]
    ]
    head = (
        "seed",
        "plain, processor s",
        "holdfast",
        "plain, clock s",
        "holdfast",
        "plain, validation accuracy",
        "holdfast",
    )
    stages = record.get("stages_ratio")
    price = "" if stages is None else f" Without the fit of ERM, which the price needs: {times(stages)}."
    return table(head, lines) + (
        f"\n\n{record['n_rows']:,} training rows; each network takes {record['epochs']} × {record['steps']} steps. "
        f"Ratio: {times(record['processor_ratio'])} in processor time, {times(record['ratio'])} on the clock; in the "
        f"last epoch of stage 3, {times(record['last_epoch_ratio'])} in processor time.{price}"
    )


def time_to_accuracy(record: Record) -> str:
    """Return when each seed is there, and how far the plain program was."""
    share = f"{100 * record['accuracy']:.1f} %"
    lines = [
        (row["seed"], row["reached_seconds"] or "–", row["seconds"], f"{100 * row['accuracy']:.1f} %")
        for row in record["rows"]
    ]
    last = record["plain_points"][-1]
    n_epochs = sum(stage.startswith("judge") for _, stage, _ in record["plain_points"])
    plain = (
        f"The plain program reached it after {record['plain_seconds']} s of processor time"
        if record["plain_reached"]
        else f"The plain program, seed 0, was stopped after {last[0]} s of processor time and {n_epochs} epochs of its "
        f"judges. At {record['plain_epoch_seconds']} s for an epoch, and at least 21 of them for each judge, its third "
        f"stage cannot begin before {record['plain_seconds']} s"
    )
    head = ("seed", f"{share} reached, processor s", "whole fit", "test accuracy in the end")
    than = "" if record["plain_reached"] else "more than "
    return f"{table(head, lines)}\n\n{plain}: {than}{times(record['ratio'])}."


def sweep(record: Record) -> str:
    """Return the times of both ways."""
    row = record["rows"][0]
    lines = [
        ("one after another, default threads", row["one_by_one_processor_seconds"], row["one_by_one_seconds"]),
        (f"engine, {row['processes']} processes", row["engine_processor_seconds"], row["engine_seconds"]),
    ]
    return table((f"{row['n_runs']} runs", "processor s", "clock s"), lines)


def convex(record: Record) -> str:
    """Return the fits of a large table."""
    lines = [
        (
            r["side"],
            r["n_groups"],
            r["iterations"],
            None if r["gap"] is None else f"{r['gap']:.0e}",
            r["processor_seconds"],
            times(r["processor_ratio"]),
            times(r["ratio"]),
        )
        for r in record["rows"]
    ]
    return table(("fit", "groups", "iterations", "gap", "processor s", "ratio", "on the clock"), lines)


def peers(record: Record) -> str:
    """Return the fits of the toy."""
    lines = [
        (
            f"{r['side']} {r['version'] or ''}".strip(),
            r["worst_case_risk"],
            f"{1e3 * r['processor_seconds']:.3g}",
            times(r["processor_ratio"]),
            times(r["ratio"]),
        )
        for r in record["rows"]
    ]
    return table(("side", "worst-case risk", "processor ms", "ratio", "on the clock"), lines)


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
    return table(("processor time", *(f"n = {n}" for n in ns)), lines)


def boosting(record: Record) -> str:
    """Return PI in plain fits."""
    lines = [
        (
            r["learner"],
            r["side"].replace("_", " "),
            r.get("rounds"),
            r["processor_seconds"],
            times(r["processor_ratio"]) if "ratio" in r else "1×",
            r.get("target"),
        )
        for r in record["rows"]
    ]
    head = ("learner", "method", "rounds", "processor s", "in plain fits", "allowed")
    return f"{record['n_rows']:,} rows, {record['n_columns']} columns, 4 environments, 2 folds.\n\n" + table(
        head, lines
    )


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
            f"{p['features_mib']:.0f}",
            p["repetitions"],
        )
        for p in record["rows"]
    ]
    head = (
        "solver",
        "rows",
        "environments",
        "features on",
        "processor s",
        "µs a row",
        "MiB more",
        "MiB of features",
        "repetitions",
    )
    return table(head, lines)


def startup(record: Record) -> str:
    """Return the processes."""
    lines = [(r["what"], r["processor_seconds"], r["seconds"], r["fastest_seconds"]) for r in record["rows"]]
    share = 100 * record["rows"][-1]["import_share"]
    return (
        table(("process", "processor s", "clock s", "fastest"), lines)
        + f"\n\n{share:.0f} % of the prediction is importing."
    )


def default(record: Record) -> str:
    """Return the default in ordinary fits."""
    names = ("estimator", "environments", "ordinary_processor_ms", "stable_processor_ms", "ratio")
    head = ("estimator", "environments", "ordinary fit, processor ms", "StableClassifier", "ratio")
    seconds = record["audit"]["processor_seconds"]
    return (
        table(head, [[row[name] for name in names] for row in record["rows"]])
        + f"\n\nAn audit of {record['audit']['rows']:,} rows: {seconds:.2f} s of processor time."
    )


SECTIONS: Mapping[str, Callable[[Record], str]] = {
    "training_step": step,
    "precision": precision,
    "user_fit": whole_fit,
    "whole_fit": whole_fit,
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
