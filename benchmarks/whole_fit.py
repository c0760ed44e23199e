"""A whole PI fit on colored MNIST against the same algorithm as a plain torch program.

    python benchmarks/whole_fit.py [--quick] [--repetitions 5] [--epochs 3] [--rows N] [--data DIR] [--record DIR]

Stages 1, 2 and 3 with an evaluation after every epoch, the paper's CNN, the authors' hyper-parameters and batches (50
rows of each group, 100 steps an epoch), the same numbers of steps and evaluations on both sides. The plain program is
fp32 with contiguous tensors, a DataLoader for everything, one forward of all groups and one backward through it. Every
repetition is a seed; both sides' validation accuracies stand beside their times, and the processor time of every epoch
of stage 3 shows what a longer training would take. Without MNIST (in --data or $HOLDFAST_DATA) it says so and skips.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from measuring import parser, ratio, rounded, write_record
from torch.utils.data import DataLoader, Subset, TensorDataset
from training_step import plain_step

from holdfast import PIClassifier
from holdfast.datasets import DATASETS, load_dataset
from holdfast.exceptions import HoldfastError
from holdfast.neural import NeuralClassifier
from holdfast.neural.monitors import EpochReport, Monitor, watch
from holdfast.neural.networks import build_network

BATCH, EVALUATED = 50, 500  # rows of each group in a step, rows in a batch of an evaluation
EPOCHS, STEPS = 3, 100
SETTINGS = {"learning_rate": 1e-3, "weight_decay": 1e-2, "dropout": 0.5}
TARGET, USER_TARGET = 8.0, 4.0  # of all rows and the authors' settings; of a call with few rows and epochs


def main(description: str | None = __doc__, *, n_epochs: int = EPOCHS, n_rows: int | None = None) -> int:
    """Fit every seed both ways by turns."""
    options = parser(description)
    options.add_argument("--data", type=Path, help="folder with MNIST's files")
    options.add_argument("--epochs", type=int, default=n_epochs, help="of 100 steps, for each network")
    options.add_argument("--rows", type=int, default=n_rows, help="training rows, evenly spaced; all by default")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    seeds = 1 if arguments.quick else arguments.repetitions
    budget = (1, 2) if arguments.quick else (arguments.epochs, STEPS)
    rows: list[dict[str, Any]] = []
    for seed in range(seeds):
        try:
            data = read(arguments, seed)
        except HoldfastError as problem:
            print(f"skipped: {problem}")
            return 0
        row: dict[str, Any] = {"seed": seed}
        for name, fit in (("reference", fit_plainly), ("holdfast", fit_holdfast)):
            begin = time.perf_counter(), time.process_time()
            accuracy, epochs, erm = fit(data, seed, *budget)
            row[f"{name}_accuracy"] = rounded(accuracy)
            row[f"{name}_epochs"] = [rounded(seconds) for seconds in epochs]
            row[f"{name}_seconds"] = rounded(time.perf_counter() - begin[0])
            row[f"{name}_processor_seconds"] = rounded(time.process_time() - begin[1])
            row[f"{name}_stages_processor_seconds"] = rounded(time.process_time() - begin[1] - erm)
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    target = TARGET if n_rows is None else USER_TARGET
    facts = {"epochs": budget[0], "steps": budget[1], "n_rows": len(data["y"])}
    facts["edition"] = DATASETS["colored_mnist"].edition
    write_record(arguments, rows, **summary(rows), target=target, **facts)
    return 0


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the ratios of the medians and the mean accuracies."""
    middle = {key: median(row[key] for row in rows) for key in rows[0] if key.endswith("seconds")}
    last = [median(row[f"{side}_epochs"][-1] for row in rows) for side in ("reference", "holdfast")]
    return {
        "ratio": ratio(middle["reference_seconds"], middle["holdfast_seconds"]),
        "processor_ratio": ratio(middle["reference_processor_seconds"], middle["holdfast_processor_seconds"]),
        # Both sides do the three stages; holdfast also fits ERM, which its price is compared with.
        "stages_ratio": ratio(middle["reference_processor_seconds"], middle["holdfast_stages_processor_seconds"]),
        "last_epoch_ratio": ratio(*last),
        "reference_accuracy": rounded(mean(row["reference_accuracy"] for row in rows), 3),
        "holdfast_accuracy": rounded(mean(row["holdfast_accuracy"] for row in rows), 3),
    }


def read(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return some rows of colored MNIST, training and validation, dense and on demand."""
    mnist = load_dataset("colored_mnist", folder=options.data, seed=seed)
    held_out = mnist.validation["test"]  # colors flipped, as in the test environment
    some, few = np.arange(len(mnist.train)), np.arange(len(held_out))
    if options.rows is not None:
        some = some[np.linspace(0, len(some) - 1, options.rows).astype(int)]
    if options.quick:
        some, few = some[:: len(some) // 200], few[:50]
    return {
        "X": mnist.train.X[some],
        "y": mnist.train.y[some],
        "environments": np.asarray(mnist.train.environments)[some],
        "validation": (held_out.X[few], held_out.y[few]),
    }


class Clock(Monitor):
    """Keeps the processor time at the end of every epoch of stage 3, and when ERM begins, which the price asks for."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.erm: float | None = None

    def start(self, stage: str) -> None:
        """Note the time."""
        if stage == "stage 3":
            self.times = [time.process_time()]
        elif self.times:
            self.erm = time.process_time()

    def epoch(self, report: EpochReport) -> None:
        """Note the time."""
        if report.stage == "stage 3":
            self.times.append(time.process_time())


def fit_holdfast(data: dict[str, Any], seed: int, n_epochs: int, n_steps: int) -> tuple[float, np.ndarray, float]:
    """Fit `PIClassifier`; return the validation accuracy of the selected epoch, stage 3's times, and that of ERM."""
    settings = {"network__dropout" if name == "dropout" else name: value for name, value in SETTINGS.items()}
    network = NeuralClassifier("cnn", max_epochs=n_epochs, steps_per_epoch=n_steps, batch_size=BATCH, **settings)
    model = PIClassifier(network, min_group_size=1, random_state=seed)
    with watch(Clock()) as clock:
        model.fit(data["X"], data["y"], environments=data["environments"], validation=data["validation"])
    erm = 0.0 if clock.erm is None else time.process_time() - clock.erm
    return model.validation_score_, np.diff(clock.times), erm


def fit_plainly(data: dict[str, Any], seed: int, n_epochs: int, n_steps: int) -> tuple[float, np.ndarray, float]:
    """Run the three stages as a straightforward program; return the same. It has no ERM."""
    torch.manual_seed(seed)
    rows = TensorDataset(torch.from_numpy(dense(data["X"])), torch.from_numpy(data["y"].astype(np.int64)))
    validation = TensorDataset(
        torch.from_numpy(dense(data["validation"][0])), torch.from_numpy(data["validation"][1].astype(np.int64))
    )
    members = [np.flatnonzero(data["environments"] == name) for name in np.unique(data["environments"])]
    groups = []
    for own, other in zip(members, members[::-1], strict=True):  # colored MNIST has two environments
        judge, *_ = train_plainly(rows, [own], Subset(rows, other.tolist()), n_epochs, n_steps)
        correct = answers(judge, Subset(rows, other.tolist()))
        groups += [part for part in (other[correct], other[~correct]) if len(part)]
    return *train_plainly(rows, groups, validation, n_epochs, n_steps)[1:], 0.0


def make_cnn() -> torch.nn.Module:
    """Return the paper's network for colored MNIST."""
    return build_network("cnn", input_shape=(10, 28, 28), n_classes=10, dropout=SETTINGS["dropout"])


def train_plainly(
    rows: TensorDataset,
    groups: list[np.ndarray],
    held_out: Any,
    n_epochs: int,
    n_steps: int,
    *,
    make: Callable[[], torch.nn.Module] = make_cnn,
    settings: Mapping[str, float] = SETTINGS,
    patience: int | None = None,
    watch: Callable[[torch.nn.Module], None] = lambda network: None,
) -> tuple[torch.nn.Module, float, np.ndarray]:
    """Minimize the largest group loss; return the epoch with the best held-out accuracy, that, and epochs' times.

    It ends early after `patience` epochs without a better one; `watch` sees the network after every epoch.
    """
    network = make()
    optimizer = torch.optim.Adam(
        network.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"]
    )
    step = plain_step(network, optimizer, rows, groups)
    best, best_accuracy, n_stale = network, -1.0, 0
    times = [time.process_time()]
    for _ in range(n_epochs):
        network.train()
        for _ in range(n_steps):
            step()
        accuracy = float(answers(network, held_out).mean())
        n_stale += 1
        if accuracy > best_accuracy:
            best, best_accuracy, n_stale = copy.deepcopy(network), accuracy, 0
        times.append(time.process_time())
        watch(network)
        if n_stale == patience:
            break
    return best, best_accuracy, np.diff(times)


@torch.no_grad()
def answers(network: torch.nn.Module, rows: Any) -> np.ndarray:
    """Return which rows a network gets right."""
    network.eval()
    right = [network(images).argmax(1) == labels for images, labels in DataLoader(rows, batch_size=EVALUATED)]
    return torch.cat(right).numpy()


def dense(images: Any) -> np.ndarray:
    """Return colored images as one float array."""
    return np.asarray(images.dense(slice(None)), dtype=np.float32)


if __name__ == "__main__":
    sys.exit(main())
