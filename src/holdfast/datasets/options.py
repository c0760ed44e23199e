"""Checks of the options that loaders take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from holdfast.exceptions import ParameterError


def check_probability(name: str, value: Any) -> float:
    """Return the value as a float in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise ParameterError(f"The {name!r} option must be a probability from 0 to 1. Got {value!r} instead.")
    return float(value)


def check_probabilities(name: str, values: Any) -> tuple[float, ...]:
    """Return one probability for each environment."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
        raise ParameterError(
            f"The {name!r} option must hold one probability for each environment. Got {values!r} instead."
        )
    return tuple(check_probability(name, value) for value in values)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ParameterError(f"The {name!r} option must be a whole number of at least {least}. Got {value!r} instead.")
    return int(value)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return the value, which must be one of the choices."""
    known = list(choices)
    if value not in known:
        raise ParameterError(f"The {name!r} option must be one of {known}. Got {value!r} instead.")
    return str(value)
