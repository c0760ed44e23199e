"""How often an audit names a feature when nothing changes, and how often it finds the one that does.

    python benchmarks/audit_error_rates.py [--quick] [--draws 400] [--jobs 2] [--cells words ...]

Each cell draws data sets from a known law and audits them with the defaults. A false alarm is a draw in which any
stable feature is named; where a feature is planted, "found" is a draw that names it. docs/audit.md has its tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast.audit import audit_data
from holdfast.metrics import wilson_interval

PLANTED = "planted"
Generator = np.random.Generator


@dataclass(frozen=True)
class Draw:
    """One data set: rows, labels, environments, and attributes no judge sees."""

    X: np.ndarray | list[str]
    y: np.ndarray
    environments: np.ndarray
    names: tuple[str, ...] | None = None
    attributes: np.ndarray | None = None
    judge: Any = None


def numeric(
    generator: Generator,
    sizes: Sequence[int],
    *,
    strength: Sequence[float] = (1.0, 0.5, 0.5),
    prevalence: Sequence[float] | None = None,
    n_noise: int = 6,
    correlation: float = 0.0,
    binary: bool = False,
    planted: Sequence[float] | None = None,
    hidden: bool = False,
) -> Draw:
    """Stable columns whose law given y is shared, noise (one column of it shifted), and maybe a planted flip rate."""
    blocks, labels = [], []
    for number, size in enumerate(sizes):
        y = (generator.random(size) < (0.5 if prevalence is None else prevalence[number])).astype(int)
        pull = (2 * y - 1)[:, None] * np.array([*strength, *[0.0] * n_noise])
        common = generator.normal(size=(size, 1))
        X = pull + np.sqrt(1 - correlation) * generator.normal(size=pull.shape) + np.sqrt(correlation) * common
        X[:, -1] += number  # another camera: the column moves, its relation to y does not
        if binary:
            X = (X > 0).astype(float)
        if planted is not None:
            X = np.column_stack([X, np.where(generator.random(size) < planted[number], 1 - y, y)])
        blocks.append(X)
        labels.append(y)
    X, names = np.concatenate(blocks), [f"x{column}" for column in range(blocks[0].shape[1])]
    if planted is not None:
        names[-1] = PLANTED
    environments = np.repeat([f"site {number}" for number in range(len(sizes))], sizes)
    if hidden:  # the first stable column is no input: the judges' errors follow it, at home as well
        return Draw(X[:, 1:], np.concatenate(labels), environments, tuple(names[1:]), X[:, :1])
    return Draw(X, np.concatenate(labels), environments, tuple(names))


def covariate_shift(generator: Generator, sizes: Sequence[int]) -> Draw:
    """P(y | x) is shared, but the second environment's inputs lie elsewhere and spread more."""
    shifts = ((0.0, 1.0), (1.0, 1.5))
    X = np.concatenate([generator.normal(*shifts[number], size=(size, 8)) for number, size in enumerate(sizes)])
    chance = 1 / (1 + np.exp(1 - 2 * X[:, 0] - X[:, 1]))
    y = (generator.random(len(X)) < chance).astype(int)
    return Draw(X, y, np.repeat(["site 0", "site 1"], sizes))


def curved(generator: Generator, sizes: Sequence[int], *, straight: bool = False, steps: bool = False) -> Draw:
    """P(y | x) is shared but not monotone, and inputs shift: a straight judge is wrong in another way elsewhere."""
    X = np.concatenate([generator.normal(number, 1.0, size=(size, 6)) for number, size in enumerate(sizes)])
    bend = 3.0 * (np.abs(X[:, 0]) > 1) if steps else X[:, 0] ** 2
    y = (generator.random(len(X)) < 1 / (1 + np.exp(1.5 - bend))).astype(int)
    judge = make_pipeline(StandardScaler(), LogisticRegression()) if straight else None
    return Draw(X, y, np.repeat(["site 0", "site 1"], sizes), judge=judge)


def three_classes(generator: Generator, sizes: Sequence[int], planted: Sequence[float] | None = None) -> Draw:
    """Three labels of unequal frequency; planted: a column that names the label but for a flip rate."""
    environments = np.repeat(np.arange(len(sizes)), sizes)
    y = generator.choice(3, p=[0.5, 0.3, 0.2], size=len(environments))
    centers = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [-1.0, 0.0, 0.5]])
    X = np.column_stack([centers[y] + generator.normal(size=(len(y), 3)), generator.normal(size=(len(y), 5))])
    names = [f"x{column}" for column in range(8)]
    if planted is not None:
        wrong = generator.random(len(y)) < np.array(planted)[environments]
        said = np.where(wrong, generator.integers(3, size=len(y)), y)
        X, names = np.column_stack([X, said == 2]), [*names, PLANTED]
    return Draw(X, y, environments.astype(str), tuple(names))


def words(generator: Generator, sizes: Sequence[int], planted: Sequence[float] | None = None) -> Draw:
    """Texts of 25 words from 400 with frequencies like a language's; 20 words lean to a label."""
    frequency = 1.0 / np.arange(5, 405)
    lean = np.zeros(400)
    lean[generator.permutation(200)[:20]] = generator.choice([-1.0, 1.0], size=20)
    law = [frequency * np.exp(sign * lean) for sign in (-1, 1)]
    y = generator.integers(2, size=sum(sizes))
    environments = np.repeat(np.arange(len(sizes)), sizes)
    texts = []
    for label, environment in zip(y, environments, strict=True):
        chosen = generator.choice(400, size=25, p=law[label] / law[label].sum())
        tokens = [f"w{word}" for word in chosen]
        if planted is not None and (label == 1) != (generator.random() < planted[environment]):
            tokens.insert(0, f"<{PLANTED}>")
        texts.append(" ".join(tokens))
    return Draw(texts, y, environments.astype(str))


NOTHING_CHANGES: dict[str, Callable[[Generator], Draw]] = {
    "100 + 100 rows": lambda g: numeric(g, (100, 100)),
    "500 + 500 rows": lambda g: numeric(g, (500, 500)),
    "150 + 1,000 rows": lambda g: numeric(g, (150, 1000)),
    "strong stable columns, 200 + 600": lambda g: numeric(g, (200, 600), strength=(1.5, 1.0, 0.7)),
    "0/1 columns, 200 + 400": lambda g: numeric(g, (200, 400), binary=True),
    "30 correlated columns, 300 + 300": lambda g: numeric(g, (300, 300), n_noise=27, correlation=0.5),
    "label shift 0.5 / 0.2, 400 + 200": lambda g: numeric(g, (400, 200), prevalence=(0.5, 0.2)),
    "covariate shift, 300 + 300": lambda g: covariate_shift(g, (300, 300)),
    "covariate shift, 150 + 800": lambda g: covariate_shift(g, (150, 800)),
    "bend in a shifted column, 500 + 500": lambda g: curved(g, (500, 500)),
    "three classes, 400 + 300": lambda g: three_classes(g, (400, 300)),
    "four environments, 150 to 400": lambda g: numeric(g, (150, 200, 300, 400)),
    "attribute no judge sees, 300 + 300": lambda g: numeric(g, (300, 300), hidden=True),
    "words, 400 + 400 texts": lambda g: words(g, (400, 400)),
}
JUDGE_IS_WRONG: dict[str, Callable[[Generator], Draw]] = {
    "bend in a shifted column, straight judge, 500 + 500": lambda g: curved(g, (500, 500), straight=True),
    "steps in a shifted column, default judge, 500 + 500": lambda g: curved(g, (500, 500), steps=True),
}
ONE_CHANGES: dict[str, Callable[[Generator], Draw]] = {
    "flip rate 0.05 / 0.25, 400 + 400": lambda g: numeric(g, (400, 400), planted=(0.05, 0.25)),
    "flip rate 0.05 / 0.25, 700 + 700": lambda g: numeric(g, (700, 700), planted=(0.05, 0.25)),
    "flip rate 0.1 / 0.3, 400 + 400": lambda g: numeric(g, (400, 400), planted=(0.1, 0.3)),
    "flip rate 0.1 / 0.3, 800 + 800": lambda g: numeric(g, (800, 800), planted=(0.1, 0.3)),
    "flip rate 0.1 / 0.3, 400 + 2,000": lambda g: numeric(g, (400, 2000), planted=(0.1, 0.3)),
    "flip rate 0.1 / 0.2, 2,000 + 2,000": lambda g: numeric(g, (2000, 2000), planted=(0.1, 0.2)),
    "flip rate 0.1 / 0.9, 150 + 150": lambda g: numeric(g, (150, 150), planted=(0.1, 0.9)),
    "strong stable columns, 0.1 / 0.3, 1,500 + 1,500": lambda g: numeric(
        g, (1500, 1500), strength=(1.5, 1.0, 0.7), planted=(0.1, 0.3)
    ),
    "strong stable columns, 0.1 / 0.3, 3,000 + 3,000": lambda g: numeric(
        g, (3000, 3000), strength=(1.5, 1.0, 0.7), planted=(0.1, 0.3)
    ),
    "three classes, 0.1 / 0.4, 1,000 + 1,000": lambda g: three_classes(g, (1000, 1000), planted=(0.1, 0.4)),
    "three environments, 0.05 / 0.2 / 0.3, 400 each": lambda g: numeric(g, (400,) * 3, planted=(0.05, 0.2, 0.3)),
    "words, 0.1 / 0.3, 1,000 + 1,000 texts": lambda g: words(g, (1000, 1000), planted=(0.1, 0.3)),
}


def audit_once(make: Callable[[Generator], Draw], seed: int) -> tuple[bool, bool]:
    """Return whether the planted feature was named, and whether any other was."""
    draw = make(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        audit = audit_data(
            draw.X,
            draw.y,
            draw.environments,
            attributes=draw.attributes,
            judge=draw.judge,
            names=draw.names,
            n_words=(1, 1),
        )
    planted = [name for name in audit.named if PLANTED in name]
    return bool(planted), len(planted) < len(audit.named)


def measure(title: str, cells: dict[str, Callable[[Generator], Draw]], seeds: range, parallel: Parallel) -> None:
    """Print one table."""
    draws = len(seeds)
    plants = title.startswith("One")
    print(f"\n### {title}\n\n| data | draws |{' found |' if plants else ''} others named | seconds an audit |")
    print("|---|---|" + ("---|" if plants else "") + "---|---|")
    for name, make in cells.items():
        start = time.perf_counter()
        results = np.array(parallel(delayed(audit_once)(make, seed) for seed in seeds))
        seconds = (time.perf_counter() - start) / draws
        columns = [share(results[:, 0])] if plants else []
        print(
            "| " + " | ".join([name, str(draws), *columns, share(results[:, 1]), f"{seconds:.2f}"]) + " |", flush=True
        )


def share(hits: np.ndarray) -> str:
    """Write a share with its 95 % interval."""
    low, high = wilson_interval(hits.sum(), len(hits))
    return f"{hits.mean():.1%} ({float(low):.1%}–{float(high):.1%})"


def main() -> None:
    """Measure every cell, or those whose name holds a given word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="20 draws a cell")
    parser.add_argument("--first-seed", type=int, default=1_000_000, help="others than the tables', to try a change on")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cells", nargs="*", default=[""], help="only cells whose name holds one of these")
    options = parser.parse_args()
    draws = 20 if options.quick else options.draws
    seeds = range(options.first_seed, options.first_seed + draws)
    parallel = Parallel(n_jobs=options.jobs)
    tables = {
        "Nothing changes": NOTHING_CHANGES,
        "One feature changes": ONE_CHANGES,
        "Nothing changes, but the judge is of the wrong form": JUDGE_IS_WRONG,
    }
    for title, cells in tables.items():
        chosen = {name: make for name, make in cells.items() if any(part in name for part in options.cells)}
        if chosen:
            measure(title, chosen, seeds, parallel)


if __name__ == "__main__":
    main()
