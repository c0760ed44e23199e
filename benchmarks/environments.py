"""What n environments cost: a step of stage 3, and a whole fit, at n = 2 … 32.

    OMP_NUM_THREADS=1 python benchmarks/environments.py [--quick]

With n environments there are n(n-1) partitions and 2n(n-1) groups. The same rows are dealt to more environments;
steps of all n are interleaved in one process, and the median over the repetitions is compared with that at n = 2.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
import warnings

import numpy as np
import torch

from holdfast import NeuralClassifier, PIClassifier
from holdfast.batches import GroupBatches, make_source
from holdfast.environments import split_environments
from holdfast.networks import build_network
from holdfast.objectives import Problem, make_objective
from holdfast.risks import make_loss
from holdfast.seeding import Seeding
from holdfast.stages.partition import halves_as_groups, partition_by_correctness

N_COLUMNS = 20


def make_rows(n_rows: int, n_environments: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with a stable and an unstable column among noise, dealt to the environments."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=n_rows)
    environments = np.arange(n_rows) % n_environments
    agreement = np.linspace(0.95, 0.7, n_environments)[environments]
    X = generator.normal(size=(n_rows, N_COLUMNS))
    X[:, 0] += np.where(generator.random(n_rows) < 0.8, y, 1 - y) * 3.0
    X[:, 1] += np.where(generator.random(n_rows) < agreement, y, 1 - y) * 3.0
    return X, y, environments


def make_step(n_rows: int, n_environments: int, objective: str):
    """Return a function that does one training step, and the number of groups."""
    X, y, labels = make_rows(n_rows, n_environments)
    environments = split_environments(labels, n_rows)
    guesses = np.random.default_rng(1).random((n_environments, n_rows)) < 0.8
    partitions = partition_by_correctness(np.where(guesses, y, 1 - y), y, environments)
    groups = halves_as_groups(partitions, min_group_size=1)
    seeding = Seeding(0)
    network = build_network("mlp", input_shape=(N_COLUMNS,), n_classes=2, dropout=0.0)
    batches = GroupBatches(make_source(X), y, groups, batch_size=50, seeding=seeding, device=torch.device("cpu"))

    def score(outputs, targets):
        return (outputs.argmax(1) == targets).float()

    problem = Problem(network, batches, make_loss("cross_entropy"), seeding, score, contextlib.nullcontext)
    run, optimizer = make_objective(objective).start(problem), torch.optim.Adam(network.parameters(), fused=True)
    counter = iter(range(10**9))

    def step() -> None:
        optimizer.zero_grad()
        run.backward(next(counter))
        optimizer.step()

    return step, len(groups)


def time_steps(ns: list[int], n_rows: int, objective: str, repetitions: int, n_steps: int) -> list[dict[str, object]]:
    """Return the median milliseconds of a step at each n, interleaved."""
    steps = {n: make_step(n_rows, n, objective) for n in ns}
    for step, _ in steps.values():
        for _ in range(20):
            step()
    seconds: dict[int, list[float]] = {n: [] for n in ns}
    for _ in range(repetitions):
        for n, (step, _) in steps.items():
            begin = time.perf_counter()
            for _ in range(n_steps):
                step()
            seconds[n].append((time.perf_counter() - begin) / n_steps)
    base = statistics.median(seconds[ns[0]])
    return [
        {
            "what": f"step, {objective}",
            "environments": n,
            "groups": steps[n][1],
            "milliseconds": round(1e3 * statistics.median(seconds[n]), 3),
            "ratio": round(statistics.median(seconds[n]) / base, 2),
        }
        for n in ns
    ]


def time_fits(ns: list[int], n_rows: int, repetitions: int) -> list[dict[str, object]]:
    """Return the median seconds of a whole fit at each n, interleaved."""
    network = NeuralClassifier("mlp", max_epochs=5, steps_per_epoch=100, random_state=0, selection="last")
    models = {
        "fit, logistic": lambda: PIClassifier(random_state=0),
        "fit, network online": lambda: PIClassifier(
            network, objective="online", judge_selection="last", n_folds=0, random_state=0
        ),
    }
    rows = []
    for name, make in models.items():
        seconds: dict[int, list[float]] = {n: [] for n in ns}
        for _ in range(repetitions):
            for n in ns:
                X, y, environments = make_rows(n_rows, n)
                begin = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    make().fit(X, y, environments=environments)
                seconds[n].append(time.perf_counter() - begin)
        base = statistics.median(seconds[ns[0]])
        rows += [
            {
                "what": name,
                "environments": n,
                "groups": 2 * n * (n - 1),
                "milliseconds": round(1e3 * statistics.median(seconds[n]), 1),
                "ratio": round(statistics.median(seconds[n]) / base, 2),
            }
            for n in ns
        ]
    return rows


def main() -> None:
    """Measure and print a table, then one JSON object for each line of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions, n up to 8")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    ns, n_rows = ([2, 4, 8], 1600) if quick else ([2, 4, 8, 16, 32], 12_800)
    repetitions, n_steps = (3, 50) if quick else (7, 200)
    rows = time_steps(ns, n_rows, "online", repetitions, n_steps)
    rows += time_steps(ns[:3], n_rows, "max", repetitions, max(n_steps // 10, 5))
    rows += time_fits(ns, n_rows, 1 if quick else 3)
    print(f"{'what':22} {'n':>3} {'groups':>7} {'ms':>10} {'ratio':>7}")
    for row in rows:
        print(f"{row['what']:22} {row['environments']:3} {row['groups']:7} {row['milliseconds']:10} {row['ratio']:7}")
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
