"""scikit-learn's 1,797 real 8x8 digits, colored: the embedded data set of the demo, with nothing to download."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.coloring import N_COLORS, Codes, Digits, color_digits, color_images
from holdfast.datasets.options import check_choice, check_count, check_probabilities, check_probability
from holdfast.datasets.splits import deal_rows
from holdfast.datasets.values import Dataset, DatasetEntry
from holdfast.seeding import Seeding


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
    folder : path, optional
        Not used: the digits come with scikit-learn.
    seed : int, default=0
        Deals the digits to the splits and draws labels and colors.
    etas : sequence of float, default=(0.9, 0.8)
        Probability that the color is the label's, for each training environment.
    test_eta : float, default=0.1
        The same in the test environment.
    label_noise : float, default=0.05
        Probability that the label is another digit than the one drawn.
    representation : {"one_hot", "channels", "flat"}, default="one_hot"
        "one_hot": 64 pixels, then ten color columns, (n_rows, 74). "channels": ten color channels, (n_rows, 10, 8, 8).
        "flat": the channels as columns, (n_rows, 640).
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

    etas, test_eta = check_probabilities("etas", etas), check_probability("test_eta", test_eta)
    label_noise = check_probability("label_noise", label_noise)
    test_colorings = check_count("test_colorings", test_colorings)
    represent = _representation(representation, color_weight)
    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16
    streams = Seeding(seed)
    deal = deal_rows(
        digits,
        len(etas),
        validation_share=validation_share,
        test_share=test_share,
        generator=streams.generator("deal"),
    )

    parts = [
        Digits(images[rows], digits[rows].astype(np.intp)) for rows in (*deal.environments, deal.validation, deal.test)
    ]
    return color_digits(
        "colored_digits",
        parts[:-2],
        *parts[-2:],
        represent=represent,
        etas=etas,
        test_eta=test_eta,
        label_noise=label_noise,
        test_colorings=test_colorings,
        streams=streams.child("coloring"),
    )


def _representation(name: str, color_weight: float) -> Callable[[NDArray[Any], Codes], NDArray[Any]]:
    """Return the function that turns images and colors into X."""

    def one_hot(images: NDArray[Any], colors: Codes) -> NDArray[Any]:
        return np.hstack([images.reshape(len(images), 64), color_weight * np.eye(N_COLORS)[colors]])

    def channels(images: NDArray[Any], colors: Codes) -> NDArray[Any]:
        return color_images(images, colors, N_COLORS)

    def flat(images: NDArray[Any], colors: Codes) -> NDArray[Any]:
        return channels(images, colors).reshape(len(images), 640)  # (n_rows, 10, 8, 8) -> (n_rows, 640)

    known: Mapping[str, Callable[[NDArray[Any], Codes], NDArray[Any]]] = {
        "one_hot": one_hot,
        "channels": channels,
        "flat": flat,
    }
    return known[check_choice("representation", name, known)]


COLORED_DIGITS = DatasetEntry(
    summary="1,797 real 8x8 digits that come with scikit-learn, colored.",
    loader=load_colored_digits,
)
