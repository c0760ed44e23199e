"""The two-bit example: x1 is stable, and x2 agrees with the label more or less often in each environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.drawing import Codes, agreeing_codes, check_count, check_probabilities, check_probability
from holdfast.datasets.values import Dataset, DatasetEntry, Split, join_splits
from holdfast.seeding import Seeding


def load_toy(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    etas: Sequence[float] = (0.0, 0.1),
    noise: float = 0.2,
    test_etas: Sequence[float] = (0.0, 0.5, 1.0),
    n_rows: int = 1000,
    n_classes: int = 2,
    exact: bool = True,
) -> Dataset:
    """Make the toy data: x1 is uniform, y is x1 flipped with `noise`, x2 is y flipped with the environment's eta.

    Parameters
    ----------
    folder, seed
        Nothing is read; the seed draws the rows, or only their order when `exact`.
    etas : sequence of float, default=(0.0, 0.1)
        Probability that x2 differs from y, for each training environment.
    noise : float, default=0.2
        Probability that y differs from x1.
    test_etas : sequence of float, default=(0.0, 0.5, 1.0)
        The same for each test environment: x2 follows the label, means nothing, contradicts it.
    n_rows : int, default=1000
        Rows of each environment.
    n_classes : int, default=2
        With more than two, a flipped code becomes any other one, and both features are one-hot.
    exact : bool, default=True
        Every combination occurs as often as its probability says (up to rounding, which is noted); else rows are drawn.

    Returns
    -------
    Dataset
        X has the columns (x1, x2), or n_classes columns for each when n_classes > 2. The attributes are x1 and x2.
    """
    etas, test_etas = check_probabilities("etas", etas), check_probabilities("test_etas", test_etas)
    noise = check_probability("noise", noise)
    n_rows, n_classes = check_count("n_rows", n_rows), check_count("n_classes", n_classes, least=2)
    streams = Seeding(seed)

    def environment(label: str, eta: float) -> Split:
        generator = streams.generator("toy", label)
        draw = _exact_rows if exact else _sampled_rows
        x1, y, x2 = draw(n_rows, n_classes, noise, eta, generator)
        X = _columns(x1, x2, n_classes)
        return Split(X, y, np.full(n_rows, label.split()[0]), {"x1": x1, "x2": x2})

    train = join_splits([environment(f"E{i}", eta) for i, eta in enumerate(etas, start=1)])
    test = join_splits([environment(f"eta={eta:g}", eta) for eta in test_etas])
    validation = {
        "train": environment(f"E{len(etas)} validation", etas[-1]),
        "test": environment(f"eta={test_etas[-1]:g} validation", test_etas[-1]),
    }
    classes = tuple(str(code) for code in range(n_classes))
    notes = _rounding_notes(n_rows, n_classes, noise, (*etas, *test_etas)) if exact else ()
    return Dataset("toy", train, validation, test, classes, ("x2",), "x2", notes)


def cell_probabilities(n_classes: int, noise: float, eta: float) -> NDArray[np.float64]:
    """Return P(x1, y, x2), an (n_classes, n_classes, n_classes) array.

    Examples
    --------
    >>> cell_probabilities(2, 0.2, 0.1)[1, 1].round(3).tolist()
    [0.04, 0.36]
    """
    same = np.eye(n_classes)
    label = (1 - noise) * same + noise / (n_classes - 1) * (1 - same)  # (x1, y): P(y | x1)
    unstable = (1 - eta) * same + eta / (n_classes - 1) * (1 - same)  # (y, x2): P(x2 | y)
    cells: NDArray[np.float64] = label[:, :, None] * unstable[None, :, :] / n_classes
    return cells


def _exact_rows(
    n_rows: int, n_classes: int, noise: float, eta: float, generator: np.random.Generator
) -> tuple[Codes, Codes, Codes]:
    """Return (x1, y, x2) with every combination as often as its probability says, in random order."""
    expected = cell_probabilities(n_classes, noise, eta).ravel() * n_rows
    counts = np.floor(expected + 1e-9).astype(int)
    left = n_rows - counts.sum()
    counts[np.argsort(counts - expected, kind="stable")[:left]] += 1  # largest remainders
    cells = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    x1, y, x2 = np.unravel_index(cells, (n_classes, n_classes, n_classes))
    return x1.astype(np.intp), y.astype(np.intp), x2.astype(np.intp)


def _sampled_rows(
    n_rows: int, n_classes: int, noise: float, eta: float, generator: np.random.Generator
) -> tuple[Codes, Codes, Codes]:
    """Return (x1, y, x2) drawn row by row."""
    x1 = generator.integers(n_classes, size=n_rows)
    y = agreeing_codes(x1, 1 - noise, n_classes, generator)
    return x1, y, agreeing_codes(y, 1 - eta, n_classes, generator)


def _columns(x1: Codes, x2: Codes, n_classes: int) -> NDArray[np.float64]:
    """Return the two features as columns, one-hot where a code is not a number."""
    if n_classes == 2:
        return np.stack([x1, x2], axis=1).astype(np.float64)
    one_hot = np.eye(n_classes)
    return np.hstack([one_hot[x1], one_hot[x2]])


def _rounding_notes(n_rows: int, n_classes: int, noise: float, etas: Sequence[float]) -> tuple[str, ...]:
    """Say so where n_rows cannot meet the probabilities exactly."""
    for eta in etas:
        expected = cell_probabilities(n_classes, noise, eta) * n_rows
        if np.abs(expected - expected.round()).max() > 1e-6:
            return (f"{n_rows} rows cannot meet the probabilities at eta={eta:g} exactly; counts are rounded.",)
    return ()


TOY = DatasetEntry(summary="Two binary features, one stable, one not; synthetic.", loader=load_toy)
