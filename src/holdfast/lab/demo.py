"""The demo: four methods on colored digits, where trusting the color fails.

Settings were chosen without the test environment: the penalty `C` is the one with the best accuracy on the worst half
of validation rows of the training environments, cut by the judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from holdfast.datasets import Dataset, load_dataset
from holdfast.environments import Group, split_environments
from holdfast.estimators.methods import METHODS as ALL_METHODS
from holdfast.estimators.pi import PIClassifier
from holdfast.metrics import group_correlation
from holdfast.parallel import run_each

C = 0.03
DATA: Mapping[str, Any] = MappingProxyType({"etas": (0.9, 0.8), "test_eta": 0.1, "label_noise": 0.05})
METHODS: Mapping[str, str] = MappingProxyType(
    {
        "erm": "ERM: all rows alike",
        "group_dro": "group DRO: environment × label",
        "pi": "PI: predict, then interpolate",
        "oracle": "oracle: knows the color",
    }
)


def run_demo(n_seeds: int = 5, *, progress: Callable[[str], None] = lambda step: None) -> tuple[dict[str, Any], Any]:
    """Fit every method for several seeds; return the results as JSON values, and the `PIClassifier` of seed 0.

    Each seed deals the digits to the splits and colors them. `progress` is called with a word before each fit.
    """

    def announced() -> Iterator[tuple[str, int]]:
        for seed in range(n_seeds):
            for name in METHODS:
                progress(f"{name}, seed {seed}")
                yield name, seed

    fitted = run_each(_fit_and_score, dict(DATA), announced())
    runs = {name: [scores for scores, _ in fitted[number :: len(METHODS)]] for number, name in enumerate(METHODS)}
    classifier = next(shown for _, shown in fitted if shown is not None)
    data = load_dataset("colored_digits", seed=0, **DATA)
    result = {
        "methods": {name: {"title": METHODS[name], **_summary(scores)} for name, scores in runs.items()},
        "partition_correlations": partition_correlations(data, classifier),
        "data": {"name": "colored_digits", **DATA, "n_train": len(data.train), "n_test": len(data.test)},
        "estimator": f"LogisticRegression(C={C})",
        "seeds": list(range(n_seeds)),
    }
    return result, classifier


def _fit_and_score(options: dict[str, Any], name: str, seed: int) -> tuple[dict[str, float], Any]:
    """Return the accuracies of one run, and the classifier where it is the one that is shown."""
    data = load_dataset("colored_digits", seed=seed, **options)
    classifier = fit_method(name, data, seed)
    splits = {"test": data.test, "validation": data.validation["train"], "train": data.train}
    accuracies = {f"{split}_accuracy": float(classifier.score(part.X, part.y)) for split, part in splits.items()}
    return accuracies, classifier if (name, seed) == ("pi", 0) else None


def fit_method(name: str, data: Dataset, seed: int) -> Any:
    """Fit one method on the training environments; only the oracle sees the color."""
    estimator = LogisticRegression(C=C, max_iter=1000)
    classifier = ALL_METHODS[name](estimator, random_state=seed)
    knows = {"attribute": data.train.attributes["color"]} if name == "oracle" else {}
    # On problems this small a second thread only waits for the first, and on a busy machine for everybody else.
    with threadpool_limits(limits=1):
        return classifier.fit(data.train.X, data.train.y, environments=data.train.environments, **knows)


def partition_correlations(data: Dataset, classifier: PIClassifier) -> list[dict[str, Any]]:
    """Return the correlation of color and label in each training environment and in the halves of each partition."""
    train = data.train
    environments = split_environments(train.environments, len(train))
    groups = [Group(environment.name, environment.rows) for environment in environments]
    groups += [half for partition in classifier.partitions_ for half in partition.groups()]
    return [
        {
            "rows": group.name,
            "n_rows": len(group),
            "correlation": group_correlation(train.attributes["color"], train.y, group),
        }
        for group in groups
        if len(group)
    ]


def _summary(scores: list[dict[str, float]]) -> dict[str, Any]:
    """Return means over seeds, the test accuracy's spread (standard deviation) and its single values."""
    tests = [score["test_accuracy"] for score in scores]
    means: dict[str, Any] = {key: float(np.mean([score[key] for score in scores])) for key in scores[0]}
    spread = float(np.std(tests, ddof=1)) if len(tests) > 1 else float("nan")
    validation = [score["validation_accuracy"] for score in scores]
    return {**means, "test_spread": spread, "test_accuracies": tests, "validation_accuracies": validation}
