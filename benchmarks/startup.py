"""Start-up: importing the package, the help of the command line, fitting and predicting 1,000 rows of a table.

    python benchmarks/startup.py [--quick] [--repetitions 9] [--record DIR]

Every time is that of a whole process, an empty Python beside it. How much of a prediction is importing is read from
`-X importtime`, which adds up what each module alone took.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, THREADS, parser, rounded, write_record

COMMAND = "from holdfast.cli import main; main()"
N_ROWS = 1_000
FIT, PREDICT = f"holdfast fit, {N_ROWS:,} rows", f"holdfast predict, {N_ROWS:,} rows"
IMPORT = "from holdfast import PIClassifier"
TARGETS = {"import holdfast": 0.1, "holdfast --help": 0.4, IMPORT: 1.0, FIT: 2.5, PREDICT: 1.5}


def main() -> None:
    """Fit a small classifier, then time the processes by turns."""
    options = parser(__doc__, repetitions=9).parse_args()
    repetitions = 1 if options.quick else options.repetitions
    with tempfile.TemporaryDirectory() as folder:
        fit, predict = prepare(Path(folder))
        sides = {
            "an empty Python": ["-c", "pass"],
            "import holdfast": ["-c", "import holdfast"],
            "holdfast --help": ["-c", COMMAND, "--help"],
            "import sklearn.linear_model": ["-c", "import sklearn.linear_model"],
            IMPORT: ["-c", IMPORT],
            FIT: ["-c", COMMAND, *fit],
            PREDICT: ["-c", COMMAND, *predict],
        }
        clock: dict[str, list[float]] = {name: [] for name in sides}
        processor: dict[str, list[float]] = {name: [] for name in sides}
        for repetition in range(repetitions + 1):
            for name, arguments in sides.items():
                seconds, spent, _ = run(arguments)
                if repetition:  # the first one fills the file cache
                    clock[name].append(seconds)
                    processor[name].append(spent)
        rows: list[dict[str, Any]] = [
            {
                "what": name,
                "seconds": rounded(median(clock[name])),
                "fastest_seconds": rounded(min(clock[name])),
                "processor_seconds": rounded(median(processor[name])),
                "target": TARGETS.get(name),
            }
            for name in sides
        ]
        rows[-1]["import_share"] = median(import_share(predict) for _ in range(min(repetitions, 5)))
    write_record(options, rows)


def prepare(folder: Path) -> tuple[list[str], list[str]]:
    """Write a table and fit it; return the commands that fit it again and predict it."""
    import numpy as np

    generator = np.random.default_rng(0)
    y = generator.integers(2, size=N_ROWS)
    lines = ["a,b,site,label"]
    for label, noise, site in zip(y, generator.normal(size=(N_ROWS, 2)), range(N_ROWS), strict=True):
        lines.append(f"{label + noise[0]:.4f},{label + noise[1]:.4f},{'east' if site % 2 else 'west'},{label}")
    table, fitted = folder / "rows.csv", folder / "fitted"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fit = ["fit", str(table), "--label", "label", "--environment", "site", "--out", str(fitted), "--overwrite"]
    _, _, done = run(["-c", COMMAND, *fit])
    if done.returncode:
        raise SystemExit(f"holdfast fit failed:\n{done.stderr}")
    return fit, ["predict", str(fitted), str(table), "--out", str(folder / "out.csv"), "--overwrite"]


def run(arguments: list[str]) -> tuple[float, float, subprocess.CompletedProcess[str]]:
    """Run Python; return seconds on the clock, of the processor, and what came of it."""
    before, begin = _children(), time.perf_counter()
    path = {"PYTHONPATH": str(ROOT / "src")}
    one_thread = dict.fromkeys(THREADS, "1")
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ | path | one_thread, capture_output=True, text=True, check=False
    )
    return time.perf_counter() - begin, _children() - before, done


def _children() -> float:
    """Return the processor seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def import_share(command: list[str]) -> float:
    """Return which share of a command's time is spent importing."""
    seconds, _, done = run(["-X", "importtime", "-c", COMMAND, *command])
    own = re.findall(r"^import time:\s*(\d+) \|", done.stderr, flags=re.MULTILINE)
    return rounded(sum(map(int, own)) / 1e6 / seconds, 2)


if __name__ == "__main__":
    main()
