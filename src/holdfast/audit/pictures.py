"""The average picture of each half: what an image audit can show without any attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Group, Partition
from holdfast.exceptions import FeaturesError

Floats = NDArray[np.float64]
ROWS_AT_ONCE = 256  # of a memory map


@dataclass(frozen=True, eq=False)
class AveragePicture:
    """The weighted mean of a half's pictures, for one label."""

    half: str  # "correct" or "mistaken"
    label: str
    size: float  # effective number of pictures
    picture: Floats  # of the pictures' shape


def average_pictures(
    images: Any, y: NDArray[np.intp], classes: NDArray[Any], partition: Partition
) -> tuple[AveragePicture, ...]:
    """Return the average picture of both halves for every label they hold.

    What belongs to a label shows in both halves. What only a judge takes for the label (a background, a color) changes
    places between them.

    Parameters
    ----------
    images : array or memory map of shape (n_rows, ...)
    y : array of shape (n_rows,)
        Class codes.
    classes : array of shape (n_classes,)
    partition : Partition
        Hard or soft, from stage 2.
    """
    if getattr(images, "ndim", 0) < 3:
        raise FeaturesError("average_pictures needs images of shape (n_rows, height, width) or with channels.")
    pictures = []
    for half, group in zip(("correct", "mistaken"), partition.groups(), strict=True):
        for code, label in enumerate(classes):
            inside = y[group.rows] == code
            part = Group(half, group.rows[inside], None if group.weights is None else group.weights[inside])
            if part.effective_size() > 0:
                pictures.append(AveragePicture(half, str(label), part.effective_size(), _mean(images, part)))
    return tuple(pictures)


def _mean(images: Any, group: Group) -> Floats:
    """Return the weighted mean picture, a few rows at a time."""
    total = np.zeros(images.shape[1:])
    shares = group.probabilities()
    for start in range(0, len(group), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        total += np.tensordot(shares[part], np.asarray(images[group.rows[part]], dtype=np.float64), axes=1)
    return total
