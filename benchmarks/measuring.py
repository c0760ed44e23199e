"""What the benchmarks share: their options, timing by turns, and the record of a measurement.

A record is one JSON file with what was measured (`rows`), by which command, on which machine, with which versions and
threads, and how busy the machine was. `docs/benchmarks/` holds those that `docs/benchmarks.md` is made of.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "benchmarks"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")
# What decides how fast a processor multiplies: 16 floats at a time, 8-bit and bf16 products, tiles.
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def parser(description: str | None, *, repetitions: int = 5) -> argparse.ArgumentParser:
    """Return the options that every benchmark has."""
    result = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    result.add_argument("--quick", action="store_true", help="small and once: does it run?")
    result.add_argument("--repetitions", type=int, default=repetitions)
    result.add_argument("--threads", type=int, default=1)
    result.add_argument("--record", type=Path, help="folder to write the record to")
    return result


def set_threads(n: int) -> None:
    """Let numpy, OpenMP and torch compute with n threads; only before numpy is imported."""
    os.environ.update(dict.fromkeys(THREADS, str(n)))


@dataclass(frozen=True)
class Timed:
    """What one side took, in each repetition, and what came of it."""

    clock: tuple[float, ...]  # seconds
    processor: tuple[float, ...]  # seconds of this process
    result: Any  # of the last repetition

    def summary(self) -> dict[str, float]:
        """Return the medians, rounded for a record."""
        return {"seconds": rounded(self.seconds), "processor_seconds": rounded(self.processor_seconds)}

    @property
    def seconds(self) -> float:
        """Median on the clock."""
        return statistics.median(self.clock)

    @property
    def processor_seconds(self) -> float:
        """Median of processor time."""
        return statistics.median(self.processor)


def by_turns(sides: Mapping[str, Callable[[], Any]], repetitions: int, *, warm_up: bool = False) -> dict[str, Timed]:
    """Time every side once in each repetition, one after the other, so that whatever disturbs disturbs all."""
    clock: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    results: dict[str, Any] = {}
    for repetition in range(repetitions + warm_up):
        for name, run in sides.items():
            start = time.perf_counter(), time.process_time()
            results[name] = run()
            end = time.perf_counter(), time.process_time()
            if repetition >= warm_up:
                clock[name].append(end[0] - start[0])
                processor[name].append(end[1] - start[1])
    return {name: Timed(tuple(clock[name]), tuple(processor[name]), results[name]) for name in sides}


def repeated(step: Callable[[], object], n: int) -> Callable[[], None]:
    """Return something that does a step n times."""

    def steps() -> None:
        for _ in range(n):
            step()

    return steps


def ratio(a: float, b: float) -> float:
    """Return a / b to three digits."""
    return rounded(a / b, 3)


def rounded(value: float, digits: int = 4) -> float:
    """Return a number to so many significant digits."""
    return float(f"{value:.{digits}g}")


def write_record(
    options: argparse.Namespace, rows: Sequence[Mapping[str, Any]], *, packages: Sequence[str] = (), **more: Any
) -> None:
    """Print the rows as JSON lines and, where `--record` names a folder, write the record there."""
    for row in rows:
        print(json.dumps(row))
    if options.record is None:
        return
    record = {
        "benchmark": Path(sys.argv[0]).stem,
        "command": command(sys.argv),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "threads": options.threads,
        "repetitions": options.repetitions,
        "load": round(os.getloadavg()[0], 1),  # processes that wanted a core, at the end
        "machine": machine(),
        "versions": {"python": platform.python_version()} | versions((*PACKAGES, *packages)),
        **more,
        "rows": list(rows),
    }
    options.record.mkdir(parents=True, exist_ok=True)
    path = options.record / f"{record['benchmark']}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path}", file=sys.stderr)


def command(arguments: Sequence[str]) -> str:
    """Return the command without the options that only say where files are."""
    told, skip = [f"python benchmarks/{Path(arguments[0]).name}"], False
    for argument in arguments[1:]:
        is_place = argument in ("--record", "--data", "--folder", "--points", "--keep")
        if not (skip or is_place or argument == "--inside"):
            told.append(argument)
        skip = is_place
    return " ".join(told)


def machine() -> dict[str, Any]:
    """Return what the processor is and has."""
    facts = {"system": platform.system(), "architecture": platform.machine(), "cores": os.cpu_count()}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        memory = Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]
    except OSError:
        return facts
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
    has = found.get("flags", "").split()
    return facts | {
        "processor": found.get("model name", "unknown"),
        "has": [feature for feature in FEATURES if feature in has],
        "lacks": [feature for feature in FEATURES if feature not in has],
        "memory_gib": round(int(memory) / 2**20, 1),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of the packages that are there."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
