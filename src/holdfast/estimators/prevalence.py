"""Label frequencies that differ between environments: taken out of every comparison, and said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import listed
from holdfast.estimators.reading import TrainingRows
from holdfast.exceptions import PrevalenceWarning

UNLIKE_PREVALENCE = 0.25  # range of a class's share over environments from which on a warning is due


def class_shares(training: TrainingRows, n_classes: int) -> NDArray[np.float64]:
    """Return the class shares of each environment, (n_environments, n_classes)."""
    weights = np.ones(training.n_rows) if training.sample_weight is None else training.sample_weight
    counts = [np.bincount(training.y[e.rows], weights[e.rows], minlength=n_classes) for e in training.environments]
    return np.stack([count / max(count.sum(), 1e-12) for count in counts])


def warn_of_prevalence(training: TrainingRows, classes: NDArray[Any], *, stacklevel: int = 5) -> None:
    """Say where label frequencies differ much between environments."""
    shares = class_shares(training, len(classes))
    unlike = [
        f"{classes[code]} ({shares[:, code].min():.0%} to {shares[:, code].max():.0%})"
        for code in range(len(classes))
        if np.ptp(shares[:, code]) > UNLIKE_PREVALENCE
    ]
    if unlike:
        warnings.warn(
            f"label frequencies differ between environments: {listed(unlike)}. Frequencies are taken out of the "
            "comparison and risks are balanced over classes; at a new environment probabilities assume the frequencies "
            "of all rows. If its own are known, multiply the odds accordingly.",
            PrevalenceWarning,
            stacklevel=stacklevel,
        )
