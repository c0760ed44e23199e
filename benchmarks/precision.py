"""Does bf16 cost accuracy? PI on colored digits in bf16 and in fp32, paired over seeds.

    python benchmarks/precision.py [--quick] [--repetitions 5] [--record DIR]

Every repetition is a seed, which deals the digits, colors them, and trains the paper's CNN twice from the same
initialization with the same batches, once in each precision. A processor without bf16 emulates it, slowly but with the
same rounding: accuracies hold for one that has it, times do not.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from statistics import mean, stdev
from typing import Any

import torch
from measuring import parser, rounded, write_record

from holdfast import PIClassifier
from holdfast.datasets import load_dataset
from holdfast.neural import NeuralClassifier
from holdfast.neural.settings import resolve_precision

BUDGET = {"max_epochs": 3, "steps_per_epoch": 30, "patience": None, "learning_rate": 1e-3}


def main() -> None:
    """Fit every seed in both precisions."""
    options = parser(__doc__).parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    budget = BUDGET | ({"max_epochs": 1, "steps_per_epoch": 10} if options.quick else {})
    rows: list[dict[str, Any]] = []
    for seed in range(2 if options.quick else options.repetitions):
        found = {precision: fit(seed, precision, budget) for precision in ("fp32", "bf16")}
        row = {"seed": seed}
        row |= {f"{key}_{name}": value for name, result in found.items() for key, value in result.items()}
        rows.append(row)
        print(rows[-1], file=sys.stderr, flush=True)
    differences = [row["test_bf16"] - row["test_fp32"] for row in rows]
    error = stdev(differences) / math.sqrt(len(differences))
    write_record(
        options,
        rows,
        budget=budget,
        auto=resolve_precision("auto", torch.device("cpu")),
        difference=rounded(mean(differences), 3),
        standard_error=rounded(error, 3),
        spread_of_seeds=rounded(stdev(row["test_fp32"] for row in rows), 3),
    )


def fit(seed: int, precision: str, budget: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracies of one fit."""
    data = load_dataset("colored_digits", seed=seed, representation="channels")
    network = NeuralClassifier(
        "cnn", training__precision=precision, training__selection="validation_accuracy", **budget
    )
    model = PIClassifier(network, n_folds=0, random_state=seed)
    begin = time.process_time()
    model.fit(
        data.train.X,
        data.train.y,
        environments=data.train.environments,
        validation=(data.validation["test"].X, data.validation["test"].y),
    )
    spent = time.process_time() - begin
    if model.estimator_.precision_ != precision:
        raise SystemExit(f"asked for {precision}, computed in {model.estimator_.precision_}")
    return {
        "validation": rounded(model.validation_score_),
        "test": rounded(float(model.score(data.test.X, data.test.y))),
        "processor_seconds": rounded(spent, 3),
    }


if __name__ == "__main__":
    main()
