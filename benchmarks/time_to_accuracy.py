"""Time until a network has the paper's accuracy on colored MNIST, all rows: the robust recipe against a plain program.

    python benchmarks/time_to_accuracy.py [--quick] [--repetitions 5] [--factor 16] [--data DIR] [--keep DIR]

holdfast is ``PIClassifier(NeuralClassifier("cnn"), recipe="robust")``. The plain program is the authors' algorithm and
settings: judges trained until 20 evaluations of all rows of the other environment bring nothing better, then the
largest loss of the halves. After every epoch the current network is scored on the test environment, in which color
misleads; this time is not counted, and neither side chooses anything by it. A side is there when an epoch's network
reaches 69.7 %, the paper's figure. The plain program is stopped at `factor` times holdfast's median time.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import torch
from measuring import parser, ratio, rounded, write_record
from torch.utils.data import Subset, TensorDataset
from whole_fit import SETTINGS, answers, dense, make_cnn, train_plainly

from holdfast import PIClassifier
from holdfast.datasets import DATASETS, load_dataset
from holdfast.exceptions import HoldfastError
from holdfast.neural import NeuralClassifier
from holdfast.neural.monitors import EpochReport, Monitor, watch

STEPS, PATIENCE, MOST = 100, 20, 1000  # the authors': steps an epoch, epochs without a better one, epochs at most
COLORINGS = 2  # draws of the test digits' labels and colors: a standard error of 0.65 points

Points: TypeAlias = list[tuple[float, str, float | None]]  # processor seconds, stage, accuracy


@dataclass(frozen=True)
class Task:
    """What is learned: rows, the accuracy to reach, and the authors' settings."""

    name: str
    dataset: str
    accuracy: float
    target: float  # times faster than the plain program
    read: Callable[..., dict[str, Any]]  # (folder, seed, quick=): see `read_mnist`
    settings: Mapping[str, float]


class OutOfTime(Exception):
    """The plain program has used its time."""


class Course:
    """Accuracy in the test environment over processor time; scoring is not counted."""

    def __init__(self, test: TensorDataset, accuracy: float, limit: float) -> None:
        self.test, self.accuracy, self.limit = test, accuracy, limit
        self.points: Points = []
        self.begin(None)

    def begin(self, keep: Path | None) -> None:
        """Start the clock; the points are kept in a file."""
        self.keep, self._begin = keep, time.process_time()

    @property
    def seconds(self) -> float:
        """Processor seconds so far."""
        return time.process_time() - self._begin

    def note(self, stage: str, network: torch.nn.Module | None = None) -> None:
        """Note the time, and the accuracy where the network is the final one."""
        seconds, begin = self.seconds, time.process_time()
        accuracy = None
        if network is not None:
            was_training = network.training
            accuracy = rounded(float(answers(network, self.test).mean()))
            network.train(was_training)
        self.points.append((rounded(seconds), stage, accuracy))
        print(*self.points[-1], file=sys.stderr, flush=True)
        if self.keep is not None:
            self.keep.write_text(json.dumps(self.points), encoding="utf-8")
        self._begin += time.process_time() - begin
        if seconds > self.limit:
            raise OutOfTime


def read_mnist(folder: Path | None, seed: int, *, quick: bool) -> dict[str, Any]:
    """Return training, validation and test rows; validation rows are like the training environments.

    `network` is what holdfast's classifier is made of, `make` makes the plain program's, `dense` its rows.
    """
    mnist = load_dataset("colored_mnist", folder=folder, seed=seed, test_colorings=1 if quick else COLORINGS)
    every = slice(None, None, 100) if quick else slice(None)
    parts = {"train": mnist.train, "validation": mnist.validation["train"], "test": mnist.test}
    found: dict[str, Any] = {name: (part.X[every], part.y[every]) for name, part in parts.items()}
    found |= {"environments": np.asarray(mnist.train.environments)[every]}
    return found | {"network": {"network": "cnn"}, "make": make_cnn, "dense": lambda X: torch.from_numpy(dense(X))}


def tensors(data: dict[str, Any], part: str) -> TensorDataset:
    """Return rows as the plain program has them."""
    X, y = data[part]
    return TensorDataset(data["dense"](X), torch.from_numpy(y.astype(np.int64)))


def fit_plainly(data: dict[str, Any], settings: Mapping[str, float], seed: int, course: Course) -> None:
    """Run the authors' three stages until the accuracy or the limit is reached."""
    torch.manual_seed(seed)
    rows, validation = tensors(data, "train"), tensors(data, "validation")
    members = [np.flatnonzero(data["environments"] == name) for name in np.unique(data["environments"])]
    groups = []
    options: dict[str, Any] = {"patience": PATIENCE, "make": data["make"], "settings": settings}
    for number, (own, other) in enumerate(zip(members, members[::-1], strict=True), 1):
        judged = Subset(rows, other.tolist())
        options["watch"] = lambda network, number=number: course.note(f"judge {number}")
        judge, *_ = train_plainly(rows, [own], judged, MOST, STEPS, **options)
        correct = answers(judge, judged)
        groups += [part for part in (other[correct], other[~correct]) if len(part)]
        course.note(f"halves {number}")

    def score(network: torch.nn.Module) -> None:
        course.note("stage 3", network)
        if reached(course.points, course.accuracy) is not None:
            raise OutOfTime

    train_plainly(rows, groups, validation, MOST, STEPS, **{**options, "watch": score})


class Scorer(Monitor):
    """Scores the final network after every epoch."""

    def __init__(self, course: Course) -> None:
        self.course = course

    def epoch(self, report: EpochReport) -> None:
        """Note where the training stands."""
        self.course.note(report.stage, report.state.evaluated if report.stage == "stage 3" else None)


def fit_holdfast(data: dict[str, Any], seed: int, quick: bool, course: Course) -> None:
    """Fit the robust recipe to its end."""
    network = NeuralClassifier(**data["network"], **({"max_epochs": 2, "steps_per_epoch": 2} if quick else {}))
    model = PIClassifier(network, recipe="robust", min_group_size=1, random_state=seed)
    with watch(Scorer(course)):
        model.fit(*data["train"], environments=data["environments"])


def run(name: str, fit: Callable[[Course], None], course: Course, folder: Path | None) -> Points:
    """Return the course of a fit, up to its limit; one that the folder has is used again."""
    kept = None if folder is None else folder / f"{name}.json"
    if kept is not None and kept.exists():
        points: Points = [tuple(point) for point in json.loads(kept.read_text(encoding="utf-8"))]
        if points[-1][1] == "end":
            return points
    course.begin(kept)
    with contextlib.suppress(OutOfTime):
        fit(course)
    course.limit = float("inf")
    course.note("end")
    return course.points


def reached(points: Points, least: float) -> float | None:
    """Return when the accuracy was reached, None where it was not."""
    return next((s for s, _, accuracy in points if accuracy is not None and accuracy >= least), None)


MNIST = Task(
    "colored MNIST", "colored_mnist", accuracy=0.697, target=8.0, read=read_mnist, settings=SETTINGS
)  # PI's in the paper


def main(description: str | None = __doc__, task: Task = MNIST) -> int:
    """Fit every seed with holdfast, and the first one plainly."""
    options = parser(description)
    options.add_argument("--data", type=Path, help="folder with the data set's files")
    options.add_argument("--factor", type=float, default=16.0, help="of holdfast's time, for the plain program")
    options.add_argument("--keep", type=Path, help="folder for what is done, to continue from")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    quick, folder = arguments.quick, arguments.keep
    rows: list[dict[str, Any]] = []
    for seed in reversed(range(1 if quick else arguments.repetitions)):
        try:
            data = task.read(arguments.data, seed, quick=quick)
        except HoldfastError as problem:
            print(f"skipped: {problem}")
            return 0
        fit = functools.partial(fit_holdfast, data, seed, quick)
        test = tensors(data, "test")
        points = run(f"holdfast-{seed}", fit, Course(test, task.accuracy, float("inf")), folder)
        last = [accuracy for _, _, accuracy in points if accuracy is not None][-1]
        row = {
            "seed": seed,
            "reached_seconds": reached(points, task.accuracy),
            "seconds": points[-1][0],
            "accuracy": last,
        }
        rows.append(row | {"points": points})
    middle = 0.1 if quick else median(row["reached_seconds"] or float("inf") for row in rows)
    fit = functools.partial(fit_plainly, data, task.settings, seed)
    plain = run(f"plain-{seed}", fit, Course(test, task.accuracy, arguments.factor * middle), folder)
    # Where the plain program was stopped early: a judge takes one epoch and `PATIENCE` that bring nothing better.
    epochs = np.diff([0.0, *(second for second, stage, _ in plain if stage == "judge 1")])
    least = len(np.unique(data["environments"])) * (PATIENCE + 1) * float(np.median(epochs))
    plain_reached = reached(plain, task.accuracy)
    seconds = plain_reached or max(plain[-1][0], least)
    write_record(
        arguments,
        rows[::-1],
        data=task.name,
        edition=DATASETS[task.dataset].edition,
        accuracy=task.accuracy,
        target=task.target,
        reached_seconds=rounded(middle),
        plain_seconds=rounded(seconds),
        plain_epoch_seconds=rounded(float(np.median(epochs))),
        plain_reached=plain_reached is not None,
        plain_points=plain,
        ratio=ratio(seconds, middle),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
