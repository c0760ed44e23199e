"""The exact worst-case fit against the group DRO of other packages, on the paper's toy with PI's halves.

    python benchmarks/peers.py [--quick] [--repetitions 5] [--folder DIR] [--record DIR]

Makes a virtual environment of its own (numpy, scikit-learn and torch come from the one that runs this script), installs
the PyPI packages dro, fairlearn and spuco into it, and times them and holdfast by turns in one process with one thread.
Every side fits a linear classifier without a penalty to the same rows and groups; the worst-case risk is the largest
mean log loss of a group, computed here for all of them. Where the packages cannot be installed it says so and skips.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import types
import venv
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, THREADS, parser, ratio, rounded, write_record

PEERS = ("dro==0.4.3", "fairlearn==0.15.0", "spuco==2.0.3")
NEEDED = ("cvxpy>=1.5", "requests")
# Imported by the peers at the top of the package for images, texts, trees and downloads, which group DRO never touches;
# torchvision does not load beside a CPU build of torch.
STUBBED = (
    "lightgbm",
    "pytorch_grad_cam",
    "torchattacks",
    "torchvision",
    "transformers",
    "ucimlrepo",
    "umap",
    "wilds",
    "xgboost",
)
TARGETS = {"dro": 50.0, "fairlearn": 10.0, "spuco": 10.0}


def main() -> int:
    """Make the environment, run the measurement in it, and pass its output on."""
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "holdfast-peers")
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.inside:
        measure(arguments)
        return 0
    python, problem = make_environment(arguments.folder)
    if problem:
        print(f"skipped: the peers could not be installed in {arguments.folder}: {problem}")
        return 0
    one_thread = dict.fromkeys(THREADS, "1")
    command = [str(python), __file__, *sys.argv[1:], "--inside"]
    environment = os.environ | one_thread | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, check=False).returncode


def make_environment(folder: Path) -> tuple[Path, str]:
    """Return the environment's Python and why it cannot be used, if so."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        own = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        (own / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        for requirements in (NEEDED, ["--no-deps", *PEERS]):
            command = [str(python), "-m", "pip", "install", "--quiet", *requirements]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return python, (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        (folder / "complete").touch()
    return python, ""


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for every package in `STUBBED`, whose every name is an empty class."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Claim the stubbed packages and what is below them."""
        if name.split(".")[0] not in STUBBED:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the empty module."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = _empty_class  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Run nothing."""


def _empty_class(name: str) -> type:
    """Return a class for a name that a stubbed package would have; names of the import system it has not."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


def toy(n_rows: int = 2_000) -> tuple[Any, Any, Any, list[Any]]:
    """Return X (x1, x2), y, the number of each row's group, and PI's halves of two environments."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from holdfast.environments import Group

    generator = np.random.default_rng(0)
    x1 = generator.integers(2, size=n_rows)
    y = np.where(generator.random(n_rows) < 0.2, 1 - x1, x1)
    environment = np.arange(n_rows) % 2
    x2 = np.where(generator.random(n_rows) < 0.1 * environment, 1 - y, y)
    X = np.column_stack([x1, x2]).astype(float)
    judges = [LogisticRegression().fit(X[environment == e], y[environment == e]) for e in (0, 1)]
    correct = np.where(environment == 0, judges[1].predict(X), judges[0].predict(X)) == y
    _, cell = np.unique(2 * environment + correct, return_inverse=True)
    return X, y, cell, [Group(str(g), np.flatnonzero(cell == g)) for g in range(cell.max() + 1)]


def worst_case_risk(probabilities: Any, y: Any, groups: Sequence[Any]) -> float:
    """Return the largest mean log loss of a group; probabilities are those of class 1."""
    import numpy as np

    own = np.clip(np.where(y == 1, probabilities, 1.0 - probabilities), 1e-15, 1.0)
    return float(max(-np.log(own[group.rows]).mean() for group in groups))


def fit_holdfast(X: Any, y: Any, cell: Any, groups: list[Any]) -> Any:
    """Fit with the convex solver; the gap of 1e-4 is its default."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from holdfast.interpolation.convex.solver import solve_convex
    from holdfast.rows.training import TrainingRows

    solution = solve_convex(LogisticRegression(C=np.inf), TrainingRows(X, y, ()), groups, n_classes=2)
    return lambda: solution.estimator.predict_proba(X)[:, 1]


def fit_dro(X: Any, y: Any, cell: Any, groups: list[Any]) -> Any:
    """Fit dro's exact group DRO, a cone program; the column that names the group is one of its features."""
    import numpy as np
    from dro.linear_model import GroupDRO

    model = GroupDRO(input_dim=X.shape[1], group_idx=X.shape[1] - 1, model_type="logistic")
    model.fit(X, 2 * y - 1)
    return lambda: 1.0 / (1.0 + np.exp(-(X @ model.theta + model.b)))


def fit_fairlearn(X: Any, y: Any, cell: Any, groups: list[Any]) -> Any:
    """Fit fairlearn's exponentiated gradient with a bound on every group's log loss, just below what can be reached."""
    import numpy as np
    from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient
    from sklearn.linear_model import LogisticRegression

    class Probability(LogisticRegression):
        def predict(self, X: Any) -> Any:
            return self.predict_proba(X)[:, 1]

    class LogLoss:
        min, max = 0.0, 5.0

        def eval(self, y_true: Any, y_pred: Any) -> Any:
            return -np.log(np.clip(np.where(y_true == 1, y_pred, 1.0 - y_pred), 1e-15, 1.0))

    mitigator = ExponentiatedGradient(Probability(C=1e6), BoundedGroupLoss(LogLoss(), upper_bound=0.49))
    mitigator.fit(X, y, sensitive_features=cell)
    used = [(weight, mitigator.predictors_[i]) for i, weight in mitigator.weights_.items() if weight > 0]
    return lambda: sum(weight * predictor.predict(X) for weight, predictor in used)


def fit_spuco(X: Any, y: Any, cell: Any, groups: list[Any], *, n_epochs: int) -> Any:
    """Fit a linear network with spuco's group DRO."""
    import torch
    from spuco.datasets import GroupLabeledDatasetWrapper
    from spuco.robust_train import GroupDRO

    rows = torch.utils.data.TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
    partition = {(g, 0): group.rows.tolist() for g, group in enumerate(groups)}
    network = torch.nn.Linear(X.shape[1], 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    trainset = GroupLabeledDatasetWrapper(rows, partition)
    trainer = GroupDRO(network, trainset, batch_size=64, optimizer=optimizer, num_epochs=n_epochs)
    trainer.train()
    return lambda: network(rows.tensors[0]).softmax(1)[:, 1].detach().double().numpy()


def measure(options: argparse.Namespace) -> None:
    """Time every side by turns."""
    quick, n_repetitions = options.quick, 1 if options.quick else options.repetitions
    sys.meta_path.insert(0, StubFinder())
    import numpy as np
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y, cell, groups = toy()
    named = np.column_stack([X, cell])  # what dro is given
    sides: dict[str, tuple[Callable[..., Any], Any]] = {
        "holdfast": (fit_holdfast, X),
        "holdfast, dro's columns": (fit_holdfast, named),
        "dro": (fit_dro, named),
        "fairlearn": (fit_fairlearn, X),
        "spuco": (lambda *a: fit_spuco(*a, n_epochs=1 if quick else 5), X),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    risks: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(n_repetitions + 1):
        for name, (fit, columns) in sides.items():
            for _ in range(
                5 if name.startswith("holdfast") else 1
            ):  # milliseconds: one slice lost to others would show
                clocks = time.perf_counter(), time.process_time()
                predict = fit(columns, y, cell, groups)
                if repetition:  # the first round pays for imports
                    seconds[name].append(time.perf_counter() - clocks[0])
                    processor[name].append(time.process_time() - clocks[1])
                    risks[name].append(worst_case_risk(predict(), y, groups))
    rows = []
    for name in sides:
        own = "holdfast, dro's columns" if name == "dro" else "holdfast"
        rows.append(
            {
                "side": name,
                "version": version(name) if name in TARGETS else None,
                "seconds": rounded(median(seconds[name])),
                "processor_seconds": rounded(median(processor[name])),
                "worst_case_risk": rounded(median(risks[name])),
                "ratio": ratio(median(seconds[name]), median(seconds[own])),
                "processor_ratio": ratio(median(processor[name]), median(processor[own])),
                "target": TARGETS.get(name),
            }
        )
    write_record(options, rows, packages=tuple(TARGETS), n_rows=len(y), n_groups=len(groups))


if __name__ == "__main__":
    sys.exit(main())
