"""Colored MNIST with ten classes, from the four idx files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.checks import check_count, check_probabilities, check_probability
from holdfast.datasets.coloring import N_COLORS, Codes, ColoredImages, Digits, color_digits
from holdfast.datasets.folders import candidate_folders, find_file, missing_file
from holdfast.datasets.idx import MNIST_MD5, other_names, read_idx
from holdfast.datasets.values import Dataset
from holdfast.environments import Rows
from holdfast.exceptions import DatasetError
from holdfast.seeding import Seeding

SUBFOLDERS = ("mnist", "MNIST/raw", "colored_mnist")
N_QUARTERS = 4
PAPER_ROWS = {"environment": 14_995, "validation": 2_497, "test": 2_497}


def load_colored_mnist(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    etas: Sequence[float] = (0.9, 0.8),
    test_eta: float = 0.1,
    label_noise: float = 0.25,
    test_colorings: int = 1,
    verify: bool = True,
) -> Dataset:
    """Color MNIST so that color predicts the label in training and misleads in the test environment.

    Each digit class is cut into four equal quarters in file order; what does not divide is left out. Quarters 1 and 2
    of the training files are E1 and E2, quarters 3 and 4 of the test files are validation and test. More than two
    environments take further quarters, more than four cut the classes into as many parts.

    Parameters
    ----------
    folder : path, optional
        Holds the four idx files, plain or gzip, or a subfolder ``mnist`` or ``MNIST/raw`` with them. None: the cache.
    seed : int, default=0
        Draws labels and colors. Which digits are in which split never changes.
    etas : sequence of float, default=(0.9, 0.8)
        Probability that the color is the label's, for each training environment.
    test_eta : float, default=0.1
        The same in the test environment.
    label_noise : float, default=0.25
        Probability that the label is another digit than the one drawn.
    test_colorings : int, default=1
        How often the test digits get new labels and colors (attribute ``coloring``). Once leaves a standard error of
        0.9 %.
    verify : bool, default=True
        Refuse files that are not the original ones. False also takes other data in idx files, such as Fashion-MNIST.

    Returns
    -------
    Dataset
        X is `ColoredImages`: bytes and color codes, dense (n_rows, 10, 28, 28) when asked for.
    """
    etas, test_eta = check_probabilities("etas", etas), check_probability("test_eta", test_eta)
    label_noise = check_probability("label_noise", label_noise)
    test_colorings = check_count("test_colorings", test_colorings)
    training, testing = read_mnist(folder, verify=verify)
    parts = class_parts(training.digits, max(N_QUARTERS, len(etas)))[: len(etas)]
    if not len(parts[0]):
        raise DatasetError(
            f"{len(etas)} etas leave no training digit for each environment: each class is cut into as many parts, and "
            f"there are {len(training.digits):,} training digits. Pass fewer etas, or files with more digits."
        )
    quarters = class_parts(testing.digits, N_QUARTERS)
    return color_digits(
        "colored_mnist",
        [_take(training, rows) for rows in parts],
        _take(testing, quarters[2]),
        _take(testing, quarters[3]),
        represent=lambda images, colors: ColoredImages(images, colors, N_COLORS),
        etas=etas,
        test_eta=test_eta,
        label_noise=label_noise,
        test_colorings=test_colorings,
        streams=Seeding(seed).child("coloring"),
        notes=_notes(len(parts[0]), len(quarters[2]), len(quarters[3]), len(etas), verify),
    )


def read_mnist(folder: Path | str | None, *, verify: bool = True) -> tuple[Digits, Digits]:
    """Read the training and test digits from the four idx files."""
    folders = candidate_folders(folder, SUBFOLDERS)
    arrays = []
    for name, md5 in MNIST_MD5.items():
        path = find_file(name, folders, *other_names(name))
        if path is None:
            raise missing_file("colored_mnist", f"{name} (plain or .gz)", folder)
        arrays.append((path, read_idx(path, md5=md5 if verify else None)))
    return _digits(*arrays[:2]), _digits(*arrays[2:])


def class_parts(digits: Codes, n_parts: int) -> list[Rows]:
    """Cut each class into equal parts in file order, and return the rows of each part over all classes, ascending.

    Examples
    --------
    >>> [rows.tolist() for rows in class_parts(np.array([0, 1, 0, 0, 1, 0, 0]), 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    parts: list[list[Rows]] = [[] for _ in range(n_parts)]
    for digit in np.unique(digits):
        rows = np.flatnonzero(digits == digit)
        size = len(rows) // n_parts
        for i in range(n_parts):
            parts[i].append(rows[i * size : (i + 1) * size])
    return [np.sort(np.concatenate(rows)) for rows in parts]


def _digits(images: tuple[Path, NDArray[np.uint8]], labels: tuple[Path, NDArray[np.uint8]]) -> Digits:
    """Pair images with their labels."""
    (image_path, pixels), (label_path, codes) = images, labels
    if pixels.ndim != 3 or codes.ndim != 1 or len(pixels) != len(codes):
        raise DatasetError(
            f"{image_path} holds an array of shape {pixels.shape} and {label_path} one of {codes.shape}: not as many "
            "images as labels. Get both files from the same source."
        )
    if not len(codes):
        raise DatasetError(f"{label_path} holds no labels. Get both files from the same source.")
    if codes.max() >= N_COLORS:
        raise DatasetError(f"{label_path} holds the label {codes.max()}, but ten classes, 0 to 9, were expected.")
    return Digits(pixels, codes.astype(np.intp))


def _take(part: Digits, rows: Rows) -> Digits:
    return Digits(part.images[rows], part.digits[rows])


def _notes(n_environment: int, n_validation: int, n_test: int, n_environments: int, verify: bool) -> tuple[str, ...]:
    """Compare the sizes with the paper's."""
    found = {"environment": n_environment, "validation": n_validation, "test": n_test}
    notes = [
        f"{name}: {n:,} rows, the paper has {PAPER_ROWS[name]:,}" for name, n in found.items() if n != PAPER_ROWS[name]
    ]
    if n_environments != 2:
        notes.append(f"{n_environments} training environments, the paper has 2")
    return (*notes, *(() if verify else ("the files' checksums were not compared with MNIST's",)))
