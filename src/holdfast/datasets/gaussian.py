"""Synthetic tables: Gaussian stable features, and unstable ones that agree with the label more or less often.

The stable features of each class are unit Gaussians around a corner of a regular simplex. An unstable feature is a unit
Gaussian around the corner of a *code*. The code is the label with the environment's agreement as probability, else
another class. Two columns of noise are added. With noisy stable features the best stable classifier errs often. Then
many rows that an environment's classifier gets wrong are rows whose stable feature misleads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.drawing import agreeing_codes, check_choice, check_count, check_probabilities
from holdfast.datasets.values import Dataset, DatasetEntry, Split, join_splits
from holdfast.environments import Rows
from holdfast.exceptions import ParameterError
from holdfast.seeding import Seeding

# Distance of the classes' centers in standard deviations: accuracy of the best stable classifier 0.77 and 0.70 (noisy),
# 0.93 and 0.90 (clean) for two and three classes.
STABLE_DISTANCE = {"noisy": {2: 1.5, 3: 1.8}, "clean": {2: 3.0, 3: 3.3}}
UNSTABLE_DISTANCE = 4.0
SECOND_IS_WEAKER_BY = 0.1  # agreement of the second unstable feature, everywhere in training
FLIPPED = 0.1  # agreement of every unstable feature in the flipped test environment
N_NOISE = 2  # columns that mean nothing


def load_gaussian(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    n_classes: int = 3,
    n_environments: int = 3,
    stable: str = "noisy",
    n_unstable: int = 1,
    prevalence: str = "equal",
    n_rows: int = 1000,
    n_test_rows: int = 2000,
    agreements: Sequence[float] | None = None,
) -> Dataset:
    """Make a table with stable, unstable and meaningless columns.

    Parameters
    ----------
    folder, seed
        Nothing is read; the seed draws the rows.
    n_classes : int, default=3
        Two or more.
    n_environments : int, default=3
        Training environments, when `agreements` is not given.
    stable : "noisy" or "clean"
        How far apart the classes are in the stable features.
    n_unstable : 1 or 2
        Unstable features; the second agrees with the label less often than the first.
    prevalence : "equal" or "unequal"
        Whether the first class is as frequent as the others, or in turn 1.6 and 0.4 times so. The test is always equal.
    n_rows : int, default=1000
        Rows of each training environment.
    n_test_rows : int, default=2000
        Rows of each test environment.
    agreements : sequence of float, optional
        Agreement of the first unstable feature in each training environment; by default evenly from 0.9 to 0.7.

    Returns
    -------
    Dataset
        Training environments E1, E2, …; test environments "natural" (the training environments' mean agreement),
        "shuffled" (the unstable features mean nothing) and "flipped" (they agree with the label once in ten).
    """
    n_classes = check_count("n_classes", n_classes, least=2)
    check_choice("stable", stable, STABLE_DISTANCE)
    check_choice("prevalence", prevalence, ("equal", "unequal"))
    if n_unstable not in (1, 2):
        raise ParameterError(f"The 'n_unstable' option must be 1 or 2. Got {n_unstable!r} instead.")
    n_rows, n_test_rows = check_count("n_rows", n_rows), check_count("n_test_rows", n_test_rows)
    if agreements is None:
        agreements = np.linspace(0.9, 0.7, check_count("n_environments", n_environments)).tolist()
    agreements = check_probabilities("agreements", agreements)
    distances = STABLE_DISTANCE[stable]
    distance = distances.get(n_classes, distances[3])
    streams = Seeding(seed)

    def environment(label: str, agreement: Sequence[float], first_class: float, n: int) -> Split:
        generator = streams.generator("gaussian", label)
        weights = np.array([first_class] + [1.0] * (n_classes - 1))
        y = generator.choice(n_classes, size=n, p=weights / weights.sum())
        codes = [agreeing_codes(y, a, n_classes, generator) for a in agreement]
        X = _columns(y, codes, distance, n_classes, generator)
        names = ("unstable", "unstable_2")
        return Split(X, y, np.full(n, label.split()[0]), dict(zip(names, codes, strict=False)))

    def both(agreement: float) -> list[float]:
        return [agreement, max(agreement - SECOND_IS_WEAKER_BY, 0.0)][:n_unstable]

    first = [1.0] * len(agreements) if prevalence == "equal" else [1.6, 0.4] * ((len(agreements) + 1) // 2)
    natural = both(float(np.mean(agreements)))
    tests = {"natural": natural, "shuffled": [1 / n_classes] * n_unstable, "flipped": [FLIPPED] * n_unstable}
    return Dataset(
        "gaussian",
        join_splits([environment(f"E{i + 1}", both(a), first[i], n_rows) for i, a in enumerate(agreements)]),
        {
            "train": environment("natural validation", natural, 1.0, n_rows),
            "test": environment("flipped validation", tests["flipped"], 1.0, n_rows),
        },
        join_splits([environment(label, agreement, 1.0, n_test_rows) for label, agreement in tests.items()]),
        tuple(str(code) for code in range(n_classes)),
        ("unstable",),
        "unstable",
    )


def stable_columns(n_classes: int, n_unstable: int = 1) -> Rows:
    """Return the numbers of the columns without unstable features: what a stable-only classifier is fitted on.

    Examples
    --------
    >>> stable_columns(3).tolist()
    [0, 1, 4, 5]
    """
    width = n_classes - 1
    noise = width * (1 + n_unstable)
    return np.asarray(np.r_[0:width, noise : noise + N_NOISE])


def simplex_corners(n_classes: int) -> NDArray[np.float64]:
    """Return (n_classes, n_classes - 1) points with distance one from each other and mean zero."""
    left, lengths, _ = np.linalg.svd(np.eye(n_classes) - 1.0 / n_classes)
    return np.asarray((left * lengths)[:, : n_classes - 1] / np.sqrt(2.0))


def _columns(
    y: Rows, codes: list[Rows], distance: float, n_classes: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return stable columns, the unstable features' columns, and noise."""
    corners = simplex_corners(n_classes)
    means = [corners[y] * distance, *(corners[code] * UNSTABLE_DISTANCE for code in codes), np.zeros((len(y), N_NOISE))]
    centers = np.hstack(means)
    return centers + generator.normal(size=centers.shape)


GAUSSIAN = DatasetEntry(
    summary="Tables with noisy or clean stable columns and one or two unstable ones; synthetic.", loader=load_gaussian
)
