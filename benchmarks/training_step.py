"""A training step of stage 3 on colored-MNIST-like rows, against the straightforward torch loop.

    OMP_NUM_THREADS=1 python benchmarks/training_step.py [--quick] [--threads 1]

4 groups × 50 rows of 10 × 28 × 28, the paper's CNN, Adam. The reference is fp32 with contiguous tensors, a DataLoader
with a batch sampler for each group, one forward of all groups, the maximum of the group losses and one backward through
everything. Both sides are timed by turns in one process, in processor time and on the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Subset, TensorDataset

from holdfast.batches import GroupBatches, make_source
from holdfast.environments import Group
from holdfast.networks import build_network
from holdfast.objectives import Problem, make_objective
from holdfast.risks import make_loss
from holdfast.seeding import Seeding
from holdfast.training.settings import autocast, resolve_precision

N_GROUPS, BATCH, SHAPE = 4, 50, (10, 28, 28)


def make_rows(n_rows: int) -> tuple[np.ndarray, np.ndarray, list[Group]]:
    """Return images with one lit color channel of ten, labels, and four groups."""
    generator = np.random.default_rng(0)
    X = np.zeros((n_rows, *SHAPE), dtype=np.float32)
    X[np.arange(n_rows), generator.integers(10, size=n_rows)] = generator.random((n_rows, 28, 28))
    groups = [Group(f"group {g}", np.arange(g, n_rows, N_GROUPS)) for g in range(N_GROUPS)]
    return X, generator.integers(10, size=n_rows), groups


def make_network() -> torch.nn.Module:
    """Return the paper's CNN."""
    torch.manual_seed(0)
    return build_network("cnn", input_shape=SHAPE, n_classes=10, dropout=0.5)


def reference_step(X: np.ndarray, y: np.ndarray, groups: list[Group]):
    """Return the plain loop's step."""
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    loaders = []
    for group in groups:
        subset = Subset(rows, group.rows.tolist())
        sampler = BatchSampler(RandomSampler(subset, replacement=True, num_samples=10**8), BATCH, drop_last=True)
        loaders.append(iter(DataLoader(subset, batch_sampler=sampler)))
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-2)

    def step() -> None:
        batches = [next(loader) for loader in loaders]
        logits = network(torch.cat([images for images, _ in batches]))
        parts = zip(logits.split(BATCH), batches, strict=True)
        loss = torch.stack([F.cross_entropy(part, labels) for part, (_, labels) in parts]).max()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def holdfast_step(X: np.ndarray, y: np.ndarray, groups: list[Group]):
    """Return a step of `objective="max"`."""
    device, seeding = torch.device("cpu"), Seeding(0)
    network = make_network().to(memory_format=torch.channels_last)
    batches = GroupBatches(make_source(X), y, groups, batch_size=BATCH, seeding=seeding, device=device)
    context = autocast(resolve_precision("auto", device), device)

    def score(outputs, targets):
        return (outputs.argmax(1) == targets).float()

    problem = Problem(network, batches, make_loss("cross_entropy"), seeding, score, context)
    run = make_objective("max").start(problem)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    counter = iter(range(10**9))

    def step() -> None:
        optimizer.zero_grad()
        run.backward(next(counter))
        optimizer.step()

    return step


def main() -> None:
    """Measure both sides and print their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repetition of two steps")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    repetitions, n_steps = (1, 2) if options.quick else (7, 8)
    rows = make_rows(2000)
    sides = {"reference": reference_step(*rows), "holdfast": holdfast_step(*rows)}
    clock: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    for step in sides.values():
        step()
    for _ in range(repetitions):
        for name, step in sides.items():
            begin, spent = time.perf_counter(), time.process_time()
            for _ in range(n_steps):
                step()
            clock[name].append((time.perf_counter() - begin) / n_steps)
            processor[name].append((time.process_time() - spent) / n_steps)
    result = {
        "precision": resolve_precision("auto", torch.device("cpu")),
        "threads": options.threads,
        "clock_ms": {name: round(1e3 * statistics.median(values), 1) for name, values in clock.items()},
        "processor_ms": {name: round(1e3 * statistics.median(values), 1) for name, values in processor.items()},
    }
    for kind in ("clock", "processor"):
        times = result[f"{kind}_ms"]
        result[f"{kind}_ratio"] = round(times["reference"] / times["holdfast"], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
