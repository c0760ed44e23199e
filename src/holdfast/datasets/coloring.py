"""An unstable feature for digits: codes that agree with the label with a given probability, painted as a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.values import Dataset, Split, join_splits
from holdfast.exceptions import ParameterError
from holdfast.seeding import Seeding

Codes: TypeAlias = NDArray[np.intp]

N_COLORS = 10  # one for each digit


def agreeing_codes(codes: Codes, agreement: float, n_codes: int, generator: np.random.Generator) -> Codes:
    """Draw a code for each row: its own with probability `agreement`, else one of the others, all equally likely.

    Examples
    --------
    >>> agreeing_codes(np.array([0, 1, 2]), 1.0, 3, np.random.default_rng(0)).tolist()
    [0, 1, 2]
    >>> agreeing_codes(np.array([0, 1, 1]), 0.0, 2, np.random.default_rng(0)).tolist()
    [1, 0, 0]
    """
    other = (codes + generator.integers(1, n_codes, size=len(codes))) % n_codes
    return np.where(generator.random(len(codes)) < agreement, codes, other).astype(np.intp)


def color_images(images: NDArray[Any], colors: Codes, n_colors: int) -> NDArray[np.float32]:
    """Put each image into the channel of its color.

    Parameters
    ----------
    images : array of shape (n_rows, height, width)
        Bytes are scaled to [0, 1]; floats are taken as they are.
    colors : array of shape (n_rows,)
        Channel of each image.
    n_colors : int
        Number of channels.

    Returns
    -------
    array of shape (n_rows, n_colors, height, width)
        All channels but one are zero.
    """
    colored = np.zeros((len(images), n_colors, *images.shape[1:]), dtype=np.float32)
    rows = np.arange(len(images))
    if images.dtype == np.uint8:
        colored[rows, colors] = images.astype(np.float32) / 255
    else:
        colored[rows, colors] = images
    return colored


class ColoredImages:
    """Gray images and a color code each, dense only when asked for.

    `np.asarray(X[rows])` is (n_rows, n_colors, height, width) float32; `X[rows]` and `X[a:b]` stay compact, and `X[3]`
    is one dense image. 14,995 MNIST digits are 12 MB like this and 470 MB as a dense array.

    Parameters
    ----------
    images : array of shape (n_rows, height, width)
        Bytes or floats.
    colors : array of shape (n_rows,)
        Codes from 0 to n_colors - 1.
    n_colors : int
        Number of channels.
    """

    def __init__(self, images: NDArray[Any], colors: Codes, n_colors: int) -> None:
        if images.ndim != 3 or colors.shape != (len(images),):
            raise ParameterError(
                f"ColoredImages needs images (n_rows, height, width) and one color for each. "
                f"Got shapes {images.shape} and {colors.shape}."
            )
        self.images = images
        self.colors = colors
        self.n_colors = n_colors

    @property
    def shape(self) -> tuple[int, ...]:
        """(n_rows, n_colors, height, width)."""
        return (len(self.images), self.n_colors, *self.images.shape[1:])

    @property
    def ndim(self) -> int:
        """4."""
        return 4

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the dense form."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # scikit-learn takes rows as X[rows, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                return np.asarray(self)[key]
            key = key[0]
        if isinstance(key, int | np.integer):
            return np.asarray(self[[int(key)]])[0]
        return ColoredImages(self.images[key], self.colors[key], self.n_colors)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("ColoredImages has no dense array to share; it has to make one.")
        dense = color_images(self.images, self.colors, self.n_colors)
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def dense(self, rows: Any) -> NDArray[np.float32]:
        """Return these rows (numbers, a slice or a mask) as one array, (n_rows, n_colors, height, width)."""
        return color_images(self.images[rows], self.colors[rows], self.n_colors)

    def recolor(self, colors: Codes) -> ColoredImages:
        """Return the same images in other colors."""
        return ColoredImages(self.images, colors, self.n_colors)

    @staticmethod
    def concatenate(parts: Sequence[ColoredImages]) -> ColoredImages:
        """Return the images of several, one after the other."""
        images = np.concatenate([part.images for part in parts])
        return ColoredImages(images, np.concatenate([part.colors for part in parts]), parts[0].n_colors)


@dataclass(frozen=True, eq=False)
class Digits:
    """Gray digits, before labels and colors are drawn for them."""

    images: NDArray[Any]  # (n_rows, height, width)
    digits: Codes  # (n_rows,)


def color_digits(
    name: str,
    environments: Sequence[Digits],
    validation: Digits,
    test: Digits,
    *,
    represent: Callable[[NDArray[Any], Codes], Any],
    etas: Sequence[float],
    test_eta: float,
    label_noise: float,
    test_colorings: int,
    streams: Seeding,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """Draw labels and colors for digits: color predicts the label in training and misleads in the test environment.

    Both validation settings hold the same digits with the same labels; only the colors differ. The first one agrees as
    the last training environment does.
    """

    def split(part: Digits, eta: float, environment: str, *stream: object) -> Split:
        y = agreeing_codes(part.digits, 1 - label_noise, N_COLORS, streams.generator("labels", *stream))
        colors = agreeing_codes(y, eta, N_COLORS, streams.generator("colors", environment, *stream))
        attributes = {"color": colors, "digit": part.digits, "coloring": np.full(len(y), stream[-1])}
        return Split(represent(part.images, colors), y, np.full(len(y), environment), attributes)

    names = [f"E{i}" for i in range(1, len(etas) + 1)]
    train = [split(part, eta, label, label, 0) for part, eta, label in zip(environments, etas, names, strict=True)]
    validations = {
        "train": split(validation, etas[-1], names[-1], "validation", 0),
        "test": split(validation, test_eta, "test", "validation", 0),
    }
    tests = [split(test, test_eta, "test", "test", coloring) for coloring in range(test_colorings)]
    classes = tuple(str(digit) for digit in range(N_COLORS))
    return Dataset(name, join_splits(train), validations, join_splits(tests), classes, ("color",), "color", notes)
