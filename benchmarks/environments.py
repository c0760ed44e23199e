"""What n environments cost: a step of stage 3, and a whole fit, at n = 2 … 32.

    python benchmarks/environments.py [--quick] [--repetitions 7] [--record DIR]

With n environments there are n(n-1) partitions and 2n(n-1) groups. The same rows are dealt to more environments;
steps of all n are interleaved in one process, and the median over the repetitions is compared with that at n = 2.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import numpy as np
import torch
from measuring import by_turns, parser, ratio, repeated, write_record

from holdfast import PIClassifier
from holdfast.environments import split_environments
from holdfast.neural import NeuralClassifier
from holdfast.neural.batches import GroupBatches
from holdfast.neural.networks import build_network
from holdfast.neural.objectives import Problem, make_objective
from holdfast.neural.risks import make_loss
from holdfast.neural.sources import make_source
from holdfast.partition import halves_as_groups, partition_by_correctness
from holdfast.seeding import Seeding

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
    sides = {str(n): repeated(step, n_steps) for n, (step, _) in steps.items()}
    timed = by_turns(sides, repetitions, warm_up=True)
    return rows_of(f"step, {objective}", ns, [steps[n][1] for n in ns], timed, n_steps)


def time_fits(ns: list[int], n_rows: int, repetitions: int) -> list[dict[str, object]]:
    """Return the median milliseconds of a whole fit at each n, interleaved."""
    network = NeuralClassifier("mlp", max_epochs=1, steps_per_epoch=100, random_state=0, training__selection="last")
    networks = {"objective": "online", "judge_selection": "last", "n_folds": 0}
    models = {
        "fit, logistic": PIClassifier(random_state=0),
        "fit, network online": PIClassifier(network, random_state=0, **networks),
    }
    rows = []
    for name, model in models.items():

        def fit(n: int, model: PIClassifier = model) -> Callable[[], PIClassifier]:
            X, y, environments = make_rows(n_rows, n)
            return lambda: model.fit(X, y, environments=environments)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            timed = by_turns({str(n): fit(n) for n in ns}, repetitions)
        rows += rows_of(name, ns, [2 * n * (n - 1) for n in ns], timed)
    return rows


def rows_of(what: str, ns: list[int], n_groups: list[int], timed: dict, count: int = 1) -> list[dict[str, object]]:
    """Return a row for each n, with the ratio to the first one in processor time."""
    first = timed[str(ns[0])]
    return [
        {
            "what": what,
            "environments": n,
            "groups": groups,
            "milliseconds": round(1e3 * timed[str(n)].seconds / count, 3),
            "processor_milliseconds": round(1e3 * timed[str(n)].processor_seconds / count, 3),
            "ratio": ratio(timed[str(n)].seconds, first.seconds),
            "processor_ratio": ratio(timed[str(n)].processor_seconds, first.processor_seconds),
            "target": 1.3 if what == "step, online" and n == 32 else None,
        }
        for n, groups in zip(ns, n_groups, strict=True)
    ]


def main() -> None:
    """Measure steps of both objectives and whole fits."""
    options = parser(__doc__, repetitions=7).parse_args()
    torch.set_num_threads(options.threads)
    ns, n_rows = ([2, 4], 1600) if options.quick else ([2, 4, 8, 16, 32], 12_800)
    repetitions, n_steps = (1, 20) if options.quick else (options.repetitions, 200)
    rows = time_steps(ns, n_rows, "online", repetitions, n_steps)
    rows += time_steps(ns[:3], n_rows, "max", repetitions, max(n_steps // 10, 5))
    rows += time_fits(ns, n_rows, 1 if options.quick else 3)
    write_record(options, rows, n_rows=n_rows, n_columns=N_COLUMNS)


if __name__ == "__main__":
    main()
