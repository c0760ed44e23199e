"""A sweep: 24 short runs through the experiment engine, against one after another with default threads.

    python benchmarks/sweep.py [--quick] [--repetitions 5] [--record DIR]

The one after another is what a shell loop does: a process for each run, with as many threads as torch and numpy like.
The engine makes the same runs in as many processes of one thread as there are cores. By turns; on the clock, and in
processor time, which does not see cores that another program has.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, THREADS, parser, ratio, rounded, write_record

N_RUNS, TARGET = 24, 3.5
EXPERIMENT = """
name = "bench"
seeds = [{seeds}]
[run]
dataset = "colored_digits"
validations = ["train"]
max_epochs = 2
steps_per_epoch = 50
[[methods]]
name = "erm"
method = "erm"
[[methods]]
name = "pi"
method = "pi"
"""
COMMAND = "from holdfast.cli import main; main()"


def main() -> None:
    """Time both ways by turns."""
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, default=N_RUNS)
    options = arguments.parse_args()
    n_runs, repetitions = (4, 1) if options.quick else (options.runs, options.repetitions)
    jobs = os.cpu_count() or 1
    clock: dict[str, list[float]] = {"one after another": [], "engine": []}
    processor: dict[str, list[float]] = {name: [] for name in clock}
    for _ in range(repetitions):
        for name in clock:
            with tempfile.TemporaryDirectory() as folder:
                before, begin = _children(), time.perf_counter()
                if name == "engine":
                    sweep(Path(folder), range(n_runs // 2), jobs)
                else:
                    for seed in range(n_runs // 2):
                        sweep_alone(Path(folder), seed)
                clock[name].append(time.perf_counter() - begin)
                processor[name].append(_children() - before)
                print(name, clock[name][-1], processor[name][-1], file=sys.stderr, flush=True)
    seconds = {name: median(values) for name, values in clock.items()}
    spent = {name: median(values) for name, values in processor.items()}
    row: dict[str, Any] = {
        "n_runs": n_runs,
        "processes": jobs,
        "one_by_one_seconds": rounded(seconds["one after another"]),
        "engine_seconds": rounded(seconds["engine"]),
        "one_by_one_processor_seconds": rounded(spent["one after another"]),
        "engine_processor_seconds": rounded(spent["engine"]),
        "ratio": ratio(seconds["one after another"], seconds["engine"]),
        "processor_ratio": ratio(spent["one after another"], spent["engine"]),
        "target": TARGET,
    }
    write_record(options, [row])


def sweep(folder: Path, seeds: range, jobs: int) -> None:
    """Make all runs with the engine."""
    file = folder / "bench.toml"
    file.write_text(EXPERIMENT.format(seeds=", ".join(map(str, seeds))), encoding="utf-8")
    run(["sweep", str(file), "--out", str(folder / "runs"), "--jobs", str(jobs)])


def sweep_alone(folder: Path, seed: int) -> None:
    """Make the two runs of a seed, each in a process of its own that decides about its threads."""
    program = (
        "import sys; from pathlib import Path; from holdfast.lab.experiments import read_experiment; "
        "from holdfast.lab.runner import run; "
        "run(read_experiment(Path(sys.argv[1])).runs[int(sys.argv[2])].config, cache=Path(sys.argv[3]))"
    )
    file = folder / "bench.toml"
    file.write_text(EXPERIMENT.format(seeds=seed), encoding="utf-8")
    for number in range(2):
        run([str(file), str(number), str(folder)], program)


def run(arguments: list[str], program: str = COMMAND) -> None:
    """Run Python without any limit on its threads."""
    environment = {key: value for key, value in os.environ.items() if key not in THREADS}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(
        command, env=environment | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"a run failed:\n{done.stderr}")


def _children() -> float:
    """Return the processor seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
