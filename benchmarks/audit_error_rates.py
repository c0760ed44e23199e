"""How often an audit names a feature when nothing changes, and how often it finds the one that does.

    python benchmarks/audit_error_rates.py [--draws 200] [--cells words ...]   # measures what is missing
    python benchmarks/audit_error_rates.py --tables                            # prints the tables of docs/audit.md

Each cell draws data sets from a known law and audits them with the defaults. A false alarm is a draw in which any
stable feature is named; where a feature is planted, "found" is a draw that names it. Every 20 draws become a line of
docs/evidence/audit.jsonl, so that it can be stopped at any time; the tables are made from these lines alone.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast.audit.run import audit_data
from holdfast.metrics import exact_interval

PLANTED = "planted"
RECORDS = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "audit.jsonl"
FIRST_SEED = 40_000_000  # other seeds than those that anything was tried on
AT_ONCE = 20  # draws of one line
Generator = np.random.Generator


@dataclass(frozen=True)
class Draw:
    """One data set: rows, labels, environments, and attributes no judge sees."""

    X: np.ndarray | pd.DataFrame | list[str]
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
    label_noise: Sequence[float] | None = None,
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
        if label_noise is not None:
            y = np.where(generator.random(size) < label_noise[number], 1 - y, y)
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


def categories(generator: Generator, sizes: Sequence[int], planted: Sequence[float] | None = None) -> Draw:
    """Three categorical columns that lean to the label, two that do not, one of which moves; maybe a planted one."""
    environments = np.repeat(np.arange(len(sizes)), sizes)
    y = generator.integers(2, size=len(environments))
    table: dict[str, np.ndarray] = {"age": 0.7 * (2 * y - 1) + generator.normal(size=len(y))}
    for number, n_values in enumerate((2, 4, 6)):
        law = np.stack([generator.dirichlet(np.full(n_values, 3.0)) for _ in range(2)])
        table[f"stable {number}"] = _choose(generator, law[y])
    table["ward"] = _choose(generator, np.full((len(y), 5), 0.2))
    moving = np.array([[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5]])
    table["camera"] = _choose(generator, moving[np.minimum(environments, 1)])
    if planted is not None:  # six codes, of which the first three go with label 1
        wrong = generator.random(len(y)) < np.array(planted)[environments]
        table[PLANTED] = np.char.add(
            "code ", (3 * np.where(wrong, y, 1 - y) + generator.integers(3, size=len(y))).astype(str)
        )
    return Draw(pd.DataFrame(table), y, environments.astype(str))


def _choose(generator: Generator, chances: np.ndarray) -> np.ndarray:
    """Return a value for each row of chances."""
    return np.char.add("v", (chances.cumsum(axis=1) < generator.random((len(chances), 1))).sum(axis=1).astype(str))


def three_classes(
    generator: Generator,
    sizes: Sequence[int],
    planted: Sequence[float] | None = None,
    label_noise: Sequence[float] = (0.0, 0.0),
) -> Draw:
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
    wrong = generator.random(len(y)) < np.array(label_noise)[environments]
    y = np.where(wrong, (y + generator.integers(1, 3, size=len(y))) % 3, y)
    return Draw(X, y, environments.astype(str), tuple(names))


def colors(generator: Generator, sizes: Sequence[int], agreement: Sequence[float]) -> Draw:
    """Eight labels with noisy measurements, and a color out of eight that agrees with the label so often."""
    environments = np.repeat(np.arange(len(sizes)), sizes)
    y = generator.integers(8, size=len(environments))
    centers = np.random.default_rng(0).normal(size=(8, 6))
    agrees = generator.random(len(y)) < np.array(agreement)[environments]
    color = np.where(agrees, y, (y + generator.integers(1, 8, size=len(y))) % 8)
    table = {f"x{column}": values for column, values in enumerate((centers[y] + generator.normal(size=(len(y), 6))).T)}
    table[PLANTED if len(set(agreement)) > 1 else "color"] = np.char.add("c", color.astype(str))
    return Draw(pd.DataFrame(table), y, environments.astype(str))


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
    "label noise 0.02 / 0.15, 500 + 500": lambda g: numeric(g, (500, 500), label_noise=(0.02, 0.15)),
    "label noise 0.02 / 0.15, 1,500 + 1,500": lambda g: numeric(g, (1500, 1500), label_noise=(0.02, 0.15)),
    "50 columns, 400 + 300": lambda g: numeric(g, (400, 300), n_noise=47),
    "categorical columns, 400 + 300": lambda g: categories(g, (400, 300)),
    "covariate shift, 300 + 300": lambda g: covariate_shift(g, (300, 300)),
    "covariate shift, 150 + 800": lambda g: covariate_shift(g, (150, 800)),
    "bend in a shifted column, 500 + 500": lambda g: curved(g, (500, 500)),
    "three classes, 400 + 300": lambda g: three_classes(g, (400, 300)),
    "three classes, label noise 0.02 / 0.15, 800 + 800": lambda g: three_classes(
        g, (800, 800), label_noise=(0.02, 0.15)
    ),
    "eight classes and colors, 500 + 400": lambda g: colors(g, (500, 400), (0.8, 0.8)),
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
    "categorical column, 0.1 / 0.3, 800 + 800": lambda g: categories(g, (800, 800), planted=(0.1, 0.3)),
    "50 columns, 0.1 / 0.3, 1,000 + 1,000": lambda g: numeric(g, (1000, 1000), n_noise=46, planted=(0.1, 0.3)),
    "label noise 0.02 / 0.15 too, 0.1 / 0.4, 1,000 + 1,000": lambda g: numeric(
        g, (1000, 1000), label_noise=(0.02, 0.15), planted=(0.1, 0.4)
    ),
    "eight classes and colors, 0.9 / 0.7, 800 + 800": lambda g: colors(g, (800, 800), (0.9, 0.7)),
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


TABLES = {
    "Nothing changes": NOTHING_CHANGES,
    "One feature changes": ONE_CHANGES,
    "Nothing changes, but the judge is of the wrong form": JUDGE_IS_WRONG,
}


def measure(cell: str, make: Callable[[Generator], Draw], first_seed: int) -> dict[str, Any]:
    """Return the record of some draws."""
    start = time.process_time()
    results = [audit_once(make, seed) for seed in range(first_seed, first_seed + AT_ONCE)]
    return {
        "cell": cell,
        "first_seed": first_seed,
        "draws": AT_ONCE,
        "found": sum(found for found, _ in results),
        "others": sum(others for _, others in results),
        "cpu_seconds": round(time.process_time() - start, 2),
    }


def tables(records: Sequence[dict[str, Any]]) -> str:
    """Return the tables as Markdown."""
    lines = []
    for title, cells in TABLES.items():
        plants = title.startswith("One")
        lines += [f"### {title}", "", f"| data | draws |{' found |' if plants else ''} others named | CPU s |"]
        lines.append("|---|--:|" + ("---|" if plants else "") + "---|--:|")
        for cell in cells:
            if about := [record for record in records if record["cell"] == cell]:
                total = {
                    key: sum(record[key] for record in about) for key in ("draws", "found", "others", "cpu_seconds")
                }
                shares = [share(total["found"], total["draws"])] if plants else []
                shares.append(share(total["others"], total["draws"]))
                seconds = f"{total['cpu_seconds'] / total['draws']:.2f}"
                lines.append("| " + " | ".join([cell, str(total["draws"]), *shares, seconds]) + " |")
        lines.append("")
    return "\n".join(lines).strip()


def share(hits: int, draws: int) -> str:
    """Write a share with its 95 % interval."""
    low, high = exact_interval(hits, draws)
    return f"{hits / draws:.1%} ({float(low):.1%}–{float(high):.1%})"


def read(file: Path) -> list[dict[str, Any]]:
    """Return the records that are there."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def main() -> None:
    """Measure every cell, or those whose name holds a given word, as far as records are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument(
        "--first-seed", type=int, default=FIRST_SEED, help="others than the tables', to try a change on"
    )
    parser.add_argument("--cells", nargs="*", default=[""], help="only cells whose name holds one of these")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that long")
    parser.add_argument("--tables", action="store_true", help="measure nothing, print the tables")
    options = parser.parse_args()
    if options.tables:
        print(tables(read(options.records)))
        return
    cells = {cell: make for part in TABLES.values() for cell, make in part.items()}
    chosen = {cell: make for cell, make in cells.items() if any(word in cell for word in options.cells)}
    known = {(record["cell"], record["first_seed"]) for record in read(options.records)}
    end = time.monotonic() + 60 * options.minutes
    options.records.parent.mkdir(parents=True, exist_ok=True)
    for first_seed in range(options.first_seed, options.first_seed + options.draws, AT_ONCE):  # all cells grow together
        for cell, make in chosen.items():
            if (cell, first_seed) in known:
                continue
            if time.monotonic() > end:
                return
            record = measure(cell, make, first_seed)
            with options.records.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
