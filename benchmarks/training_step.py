"""A training step of stage 3 on colored-MNIST-like rows, against the straightforward torch loop.

    python benchmarks/training_step.py [--quick] [--repetitions 7] [--threads 1] [--profile] [--record DIR]

4 groups × 50 rows of 10 × 28 × 28, the paper's CNN, Adam. The reference is fp32 with contiguous tensors, a DataLoader
with a batch sampler for each group, one forward of all groups, the maximum of the group losses and one backward through
everything. Both sides are timed by turns in one process. The limit of the machine is measured beside them: how fast it
multiplies large float32 matrices, and with that how long the arithmetic of a step would take at least.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from measuring import by_turns, parser, ratio, repeated, rounded, write_record
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Subset, TensorDataset

from holdfast.environments import Group
from holdfast.neural.batches import GroupBatches
from holdfast.neural.networks import build_network
from holdfast.neural.objectives import Problem, make_objective
from holdfast.neural.risks import make_loss
from holdfast.neural.settings import autocast, resolve_precision
from holdfast.neural.sources import make_source
from holdfast.seeding import Seeding

N_GROUPS, BATCH, SHAPE = 4, 50, (10, 28, 28)
TARGET = 8.0  # with bf16 in hardware
MATRIX = 1024  # side of the product that measures the peak


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
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-2)
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    return plain_step(network, optimizer, rows, [group.rows for group in groups])


def plain_step(
    network: torch.nn.Module, optimizer: torch.optim.Optimizer, rows: TensorDataset, groups: list[np.ndarray]
) -> Callable[[], None]:
    """Return a step that lowers the largest loss of the groups."""
    loaders = []
    for group in groups:
        subset = Subset(rows, group.tolist())
        sampler = BatchSampler(RandomSampler(subset, replacement=True, num_samples=10**8), BATCH, drop_last=True)
        loaders.append(iter(DataLoader(subset, batch_sampler=sampler)))

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


def forward_flops() -> int:
    """Return the operations of one row's forward pass: two for each product of the convolutions and linear layers."""
    network, counted = make_network(), []

    def count(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        weight = module.weight
        counted.append(2 * output[0].numel() * weight[0].numel())

    hooks = [m.register_forward_hook(count) for m in network.modules() if hasattr(m, "weight")]
    with torch.no_grad():
        network(torch.zeros(1, *SHAPE))
    for hook in hooks:
        hook.remove()
    return sum(counted)


def multiply() -> Callable[[], object]:
    """Return a product of large matrices, the fastest arithmetic that there is."""
    a, b = torch.randn(MATRIX, MATRIX), torch.randn(MATRIX, MATRIX)
    return lambda: a @ b


def main() -> None:
    """Measure both sides and the peak by turns."""
    options = parser(__doc__, repetitions=7)
    options.add_argument("--profile", action="store_true", help="print where a step's time goes instead")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    repetitions, n_steps = (1, 2) if arguments.quick else (arguments.repetitions, 8)
    rows = make_rows(2000)
    if arguments.profile:
        profile(holdfast_step(*rows), n_steps)
        return
    sides = {"reference": reference_step(*rows), "holdfast": holdfast_step(*rows), "peak": multiply()}
    timed = by_turns({name: repeated(step, n_steps) for name, step in sides.items()}, repetitions, warm_up=True)
    clock = {name: timed[name].seconds / n_steps for name in sides}
    processor = {name: timed[name].processor_seconds / n_steps for name in sides}
    # Every group forward, and the worst one backward, which costs twice its forward pass.
    flops = forward_flops() * BATCH * (N_GROUPS + 2)
    peak = 2 * MATRIX**3 / processor["peak"]  # operations a second
    row = {
        "precision": resolve_precision("auto", torch.device("cpu")),
        "reference_ms": rounded(1e3 * clock["reference"]),
        "holdfast_ms": rounded(1e3 * clock["holdfast"]),
        "reference_processor_ms": rounded(1e3 * processor["reference"]),
        "holdfast_processor_ms": rounded(1e3 * processor["holdfast"]),
        "ratio": ratio(clock["reference"], clock["holdfast"]),
        "processor_ratio": ratio(processor["reference"], processor["holdfast"]),
        "target": TARGET,
        "gigaflop": rounded(flops / 1e9, 3),
        "peak_gigaflops": rounded(peak / 1e9, 3),
        "limit_ms": rounded(1e3 * flops / peak, 3),
        "share_of_limit": rounded(flops / peak / processor["holdfast"], 2),
    }
    write_record(arguments, [row])


def profile(step: Callable[[], None], n_steps: int) -> None:
    """Print the operations that a step's processor time goes to."""
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        repeated(step, n_steps)()
    print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=18, max_name_column_width=40))


if __name__ == "__main__":
    main()
