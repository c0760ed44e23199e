"""All benchmarks one after another, each in a process of its own; then the two pages.

    ./scripts/bench [--quick] [--only NAME …] [--list]

With `--quick` everything runs small and once, and no record or page is touched. A benchmark that fails does not stop
the others; the exit code is then 1. The pages are made of whatever records there are.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from measuring import RECORDS, ROOT

# In this order: what is done in seconds first.
BENCHMARKS = (
    "startup",
    "default",
    "sizes",
    "peers",
    "convex",
    "wide",
    "environments",
    "boosting",
    "training_step",
    "sweep",
    "growth",
    "precision",
    "user_fit",
    "whole_fit",
    "time_to_accuracy",
    "time_to_accuracy_text",
)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and once: does everything run?")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help="this one; repeatable")
    parser.add_argument("--list", action="store_true", help="print the names and what they measure")
    options = parser.parse_args()
    if options.list:
        for name in BENCHMARKS:
            print(f"{name:24}{summary(name)}")
        return 0
    failed = [name for name in options.only or BENCHMARKS if not run(name, quick=options.quick)]
    if not options.quick:
        for page in ("page", "scoreboard"):
            subprocess.run([sys.executable, ROOT / "benchmarks" / f"{page}.py"], check=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def run(name: str, *, quick: bool) -> bool:
    """Run one benchmark; return whether it ended well."""
    command = [sys.executable, ROOT / "benchmarks" / f"{name}.py"]
    command += ["--quick"] if quick else ["--record", RECORDS]
    print(f"==> {name}", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    code = subprocess.run(command, check=False, cwd=ROOT).returncode
    print(f"    {time.perf_counter() - begin:.0f} s, exit code {code}", file=sys.stderr)
    return code == 0


def summary(name: str) -> str:
    """Return the first line of a benchmark's docstring."""
    text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    return text.partition('"""')[2].partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
