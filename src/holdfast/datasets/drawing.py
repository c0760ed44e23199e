"""Checks of loaders' options, and random draws: codes that agree with the label, and stratified splits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Rows
from holdfast.exceptions import DatasetError, ParameterError

Codes: TypeAlias = NDArray[np.intp]


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


@dataclass(frozen=True, eq=False)
class Deal:
    """Disjoint row numbers, stratified by class."""

    environments: tuple[Rows, ...]  # one for each training environment
    validation: Rows
    test: Rows


def deal_rows(
    labels: NDArray[Any],
    n_environments: int,
    *,
    validation_share: float,
    test_share: float,
    generator: np.random.Generator,
) -> Deal:
    """Shuffle each class and deal it: test, validation, and the rest in turn to the training environments.

    The shares are those of each class, rounded down.
    """
    check_probability("validation_share", validation_share)
    check_probability("test_share", test_share)
    if not len(labels):
        raise DatasetError(
            "There are no rows to split into training, validation and test. Check that the files have rows, and that "
            "the options leave some."
        )
    environments: list[list[Rows]] = [[] for _ in range(n_environments)]
    validation, test = [], []
    n_dealt = 0  # whose turn it is carries over, so that no environment gets every class's odd row
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        n_test, n_validation = int(len(rows) * test_share), int(len(rows) * validation_share)
        rest = rows[n_test + n_validation :]
        if n_test + n_validation > len(rows) or len(rest) < n_environments:
            raise ParameterError(
                f"validation_share={validation_share} and test_share={test_share} leave {len(rest)} of {len(rows)} "
                f"rows of class {label} for {n_environments} environments. Lower the shares, or ask for fewer "
                "environments."
            )
        test.append(rows[:n_test])
        validation.append(rows[n_test : n_test + n_validation])
        for i in range(n_environments):
            environments[(i + n_dealt) % n_environments].append(rest[i::n_environments])
        n_dealt += len(rest)
    in_file_order = [np.sort(np.concatenate(rows)) for rows in (*environments, validation, test)]
    return Deal(tuple(in_file_order[:-2]), in_file_order[-2], in_file_order[-1])
