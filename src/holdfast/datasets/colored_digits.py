"""Colored digits: the 1,797 digits of scikit-learn, and the coloring that MNIST uses too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.drawing import (
    Codes,
    agreeing_codes,
    check_choice,
    check_count,
    check_probabilities,
    check_probability,
    deal_rows,
)
from holdfast.datasets.values import Dataset, DatasetEntry, LazyRows, Split, join_splits
from holdfast.exceptions import ParameterError
from holdfast.seeding import Seeding

N_COLORS = 10  # one for each digit


def load_colored_digits(
    *,
    folder: Path | str | None = None,
    seed: int = 0,
    etas: Sequence[float] = (0.9, 0.8),
    test_eta: float = 0.1,
    label_noise: float = 0.05,
    representation: str = "one_hot",
    color_weight: float = 4.0,
    validation_share: float = 0.1,
    test_share: float = 0.2,
    test_colorings: int = 10,
) -> Dataset:
    """Color digits so that color predicts the label in training and misleads in the test environment.

    Parameters
    ----------
    folder, seed
        Nothing is read; the seed deals the digits to the splits and draws labels and colors.
    etas : sequence of float, default=(0.9, 0.8)
        Probability that the color is the label's, for each training environment.
    test_eta : float, default=0.1
        The same in the test environment.
    label_noise : float, default=0.05
        Probability that the label is another digit than the one drawn.
    representation : {"one_hot", "channels"}, default="one_hot"
        "one_hot": 64 pixels, then ten color columns, (n_rows, 74). "channels": ten color channels, (n_rows, 10, 8, 8).
    color_weight : float, default=4.0
        Value of the color columns in "one_hot". The pixels of a digit have a mean length of 3.9, so that both blocks
        weigh about the same.
    validation_share, test_share : float, default=0.1, 0.2
        Shares of each digit's images; the rest is dealt evenly to the training environments.
    test_colorings : int, default=10
        How often the test digits are drawn again with new labels and colors (attribute ``coloring``).

    Returns
    -------
    Dataset
        The attributes are ``color`` and ``digit`` (the digit drawn, before label noise).
    """
    from sklearn.datasets import load_digits

    coloring = Coloring(etas, test_eta, label_noise, test_colorings)
    check_choice("representation", representation, ("one_hot", "channels"))

    def represent(images: NDArray[Any], colors: Codes) -> NDArray[Any]:
        if representation == "channels":
            return color_images(images, colors, N_COLORS)
        return np.hstack([images.reshape(len(images), 64), color_weight * np.eye(N_COLORS)[colors]])

    pixels, digits = load_digits(return_X_y=True)
    everything = Digits(pixels.reshape(-1, 8, 8) / 16, digits.astype(np.intp))
    streams = Seeding(seed)
    deal = deal_rows(
        digits,
        len(coloring.etas),
        validation_share=validation_share,
        test_share=test_share,
        generator=streams.generator("deal"),
    )
    parts = [everything.take(rows) for rows in (*deal.environments, deal.validation, deal.test)]
    return color_digits(
        "colored_digits",
        parts[:-2],
        *parts[-2:],
        represent=represent,
        coloring=coloring,
        streams=streams.child("coloring"),
    )


@dataclass(frozen=True, eq=False)
class Digits:
    """Gray digits, before labels and colors are drawn for them."""

    images: NDArray[Any]  # (n_rows, height, width)
    digits: Codes  # (n_rows,)

    def take(self, rows: Any) -> Digits:
        """Return the digits of these rows."""
        return Digits(self.images[rows], self.digits[rows])


@dataclass(frozen=True)
class Coloring:
    """How labels and colors are drawn; the options are checked here."""

    etas: Sequence[float]  # probability that the color is the label's, for each training environment
    test_eta: float  # the same in the test environment
    label_noise: float  # probability that the label is another digit than the one drawn
    test_colorings: int  # how often the test digits are drawn

    def __post_init__(self) -> None:
        check_probabilities("etas", self.etas)
        check_probability("test_eta", self.test_eta)
        check_probability("label_noise", self.label_noise)
        check_count("test_colorings", self.test_colorings)


def color_digits(
    name: str,
    environments: Sequence[Digits],
    validation: Digits,
    test: Digits,
    *,
    represent: Callable[[NDArray[Any], Codes], Any],
    coloring: Coloring,
    streams: Seeding,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """Draw labels and colors for digits: color predicts the label in training and misleads in the test environment.

    Both validation settings hold the same digits with the same labels; only the colors differ. The first one agrees as
    the last training environment does.
    """
    etas, test_eta = coloring.etas, coloring.test_eta
    split = partial(draw_split, represent=represent, label_noise=coloring.label_noise, streams=streams)
    names = [f"E{i}" for i in range(1, len(etas) + 1)]
    train = [split(part, eta, label, label, 0) for part, eta, label in zip(environments, etas, names, strict=True)]
    validations = {
        "train": split(validation, etas[-1], names[-1], "validation", 0),
        "test": split(validation, test_eta, "test", "validation", 0),
    }
    tests = [split(test, test_eta, "test", "test", number) for number in range(coloring.test_colorings)]
    classes = tuple(str(digit) for digit in range(N_COLORS))
    return Dataset(name, join_splits(train), validations, join_splits(tests), classes, ("color",), "color", notes)


def draw_split(
    part: Digits,
    eta: float,
    environment: str,
    *stream: object,
    represent: Callable[[NDArray[Any], Codes], Any],
    label_noise: float,
    streams: Seeding,
    n_colors: int = N_COLORS,
) -> Split:
    """Draw labels and colors for some digits; `stream` names the generators, its last entry is the coloring."""
    y = agreeing_codes(part.digits, 1 - label_noise, n_colors, streams.generator("labels", *stream))
    colors = agreeing_codes(y, eta, n_colors, streams.generator("colors", environment, *stream))
    attributes = {"color": colors, "digit": part.digits, "coloring": np.full(len(y), stream[-1])}
    return Split(represent(part.images, colors), y, np.full(len(y), environment), attributes)


def color_images(images: NDArray[Any], colors: Codes, n_colors: int) -> NDArray[np.float32]:
    """Put each image, (n_rows, height, width), into the channel of its color: (n_rows, n_colors, height, width).

    All other channels are zero. Bytes are scaled to [0, 1]; floats are taken as they are.
    """
    colored = np.zeros((len(images), n_colors, *images.shape[1:]), dtype=np.float32)
    rows = np.arange(len(images))
    if images.dtype == np.uint8:
        colored[rows, colors] = images.astype(np.float32) / 255
    else:
        colored[rows, colors] = images
    return colored


class ColoredImages(LazyRows):
    """Gray images and a color code each: dense, one channel for each color, (n_rows, n_colors, height, width) float32.

    `images` have the shape (n_rows, height, width), `colors` are codes from 0 to n_colors - 1. 14,995 MNIST digits are
    12 MB like this and 470 MB as a dense array.
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

    def __len__(self) -> int:
        return len(self.images)

    def dense(self, rows: Any) -> NDArray[np.float32]:
        """Return these rows (numbers, a slice or a mask) as one array, (n_rows, n_colors, height, width)."""
        return color_images(self.images[rows], self.colors[rows], self.n_colors)

    def _take(self, rows: Any) -> ColoredImages:
        return ColoredImages(self.images[rows], self.colors[rows], self.n_colors)

    @staticmethod
    def concatenate(parts: Sequence[ColoredImages]) -> ColoredImages:
        """Return the images of several, one after the other."""
        images = np.concatenate([part.images for part in parts])
        return ColoredImages(images, np.concatenate([part.colors for part in parts]), parts[0].n_colors)


COLORED_DIGITS = DatasetEntry(
    summary="1,797 real 8x8 digits that come with scikit-learn, colored.", loader=load_colored_digits
)
