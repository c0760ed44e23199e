"""The linear unit tests of invariance (Aubin et al., 2021): Examples 2 and 3, plain and scrambled.

There are ten columns: five have the same relation with the label everywhere, five are spurious. In Example 2 the
spurious block follows the label (cows on grass), more or less in each environment, and is a hundred times larger. In
Example 3 the spurious block has a mean of its own in each environment, drawn from N(0, 1). "s" stands for scrambled: a
random orthogonal matrix mixes the columns, so that no single column is stable. In the test the spurious block is
shuffled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.drawing import check_choice, check_count
from holdfast.datasets.values import Dataset, DatasetEntry, Split, join_splits
from holdfast.seeding import Seeding

EXAMPLES = ("2", "2s", "3", "3s")
N_BLOCK = 5  # columns of each block
GIVEN = ((0.95, 0.3), (0.97, 0.5), (0.99, 0.7))  # Example 2: how often grass follows cows, share of cows
Rows = tuple[NDArray[np.float64], NDArray[np.intp]]


def load_units(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    example: str = "2s",
    n_environments: int = 3,
    n_rows: int = 1000,
    n_new_rows: int = 5000,
    scaled: bool = False,
) -> Dataset:
    """Draw one of the linear unit tests of invariance.

    Parameters
    ----------
    folder, seed
        Nothing is read; the seed draws environments and rows.
    example : {"2", "2s", "3", "3s"}, default="2s"
        "s": the columns are scrambled.
    n_environments : int, default=3
    n_rows : int, default=1000
        Of each environment, in training, validation and test.
    n_new_rows : int, default=5000
        Of an environment that was never seen.
    scaled : bool, default=False
        Divide every column by its standard deviation in the training rows, as the default estimators do.

    Returns
    -------
    Dataset
        The test has two environments: ``shuffled``, rows of the known environments whose spurious block is shuffled
        within each of them, and ``new``. Validation ``"train"`` is like the training rows, ``"test"`` like the
        shuffled ones.
    """
    check_choice("example", example, EXAMPLES)
    for name, count in (("n_environments", n_environments), ("n_rows", n_rows), ("n_new_rows", n_new_rows)):
        check_count(name, count, 2 if name == "n_environments" else 1)
    rng = Seeding(seed).generator("units", example, n_environments)
    turn = np.eye(2 * N_BLOCK)
    if example.endswith("s"):
        from scipy.stats import ortho_group

        turn = ortho_group.rvs(2 * N_BLOCK, random_state=rng)
    known = [unit_environment(example[0], rng, number) for number in range(n_environments)]
    names = [f"E{number:02d}" for number in range(1, n_environments + 1)]
    size: Any = 1.0

    def drawn(environment: str | None = None, *, shuffled: bool = False) -> Split:
        parts = []
        for name, rows in zip(names, known, strict=True):
            X, y = rows(n_rows)
            if shuffled:
                X = np.hstack([X[:, :N_BLOCK], rng.permutation(X[:, N_BLOCK:])])
            parts.append(Split(X @ turn / size, y, np.full(n_rows, environment or name)))
        return join_splits(parts)

    train = drawn()
    if scaled:
        size = train.X.std(axis=0)
        train = replace(train, X=train.X / size)
    validation = {"train": drawn(), "test": drawn(shuffled=True)}
    X, y = unit_environment(example[0], rng, -1)(n_new_rows)
    new = Split(X @ turn / size, y, np.full(n_new_rows, "new"))
    test = join_splits([drawn("shuffled", shuffled=True), new])
    return Dataset("units", train, validation, test, ("0", "1"), ())


def unit_environment(example: str, rng: np.random.Generator, number: int) -> Callable[[int], Rows]:
    """Return a function that draws so many rows of an environment, whose parameters are drawn or given here.

    Examples
    --------
    >>> X, y = unit_environment("3", np.random.default_rng(0), 0)(4)
    >>> X.shape, y.tolist()
    ((4, 10), [1, 1, 1, 1])
    """
    if example == "2":
        follows, cows = GIVEN[number] if 0 <= number < len(GIVEN) else (rng.uniform(0.9, 1), rng.uniform(0.3, 0.7))

        def rows(n: int) -> Rows:
            cow = np.where(rng.random(n) < cows, 1, -1)
            grass = np.where(rng.random(n) < follows, cow, -cow)
            noise = rng.normal(size=(n, 2 * N_BLOCK)) / np.sqrt(10)
            invariant = (noise[:, :N_BLOCK] + cow[:, None]) / 100
            y = (invariant.sum(axis=1) > 0).astype(np.intp)
            return np.hstack([invariant, noise[:, N_BLOCK:] + grass[:, None]]), y

        return rows
    means = rng.normal(size=N_BLOCK)

    def signed(n: int) -> Rows:
        y = rng.integers(2, size=n)
        sign: Any = 2 * y[:, None] - 1
        return np.hstack([0.1 * sign * np.ones(N_BLOCK), sign * means]) + 0.1 * rng.normal(size=(n, 2 * N_BLOCK)), y

    return signed


UNITS = DatasetEntry(
    summary="Linear unit tests of invariance (Aubin et al., 2021), Examples 2, 2s, 3, 3s; synthetic.",
    loader=load_units,
)
