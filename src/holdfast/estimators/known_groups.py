"""Groups that somebody defined: environment × label, given labels, or what the oracle knows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Group, cross_groups, label_array, listed, unique_labels
from holdfast.estimators.reading import TrainingRows
from holdfast.exceptions import EnvironmentsError, SmallGroupWarning


def known_groups(training: TrainingRows, classes: NDArray[Any]) -> tuple[Group, ...]:
    """Return the groups that the caller gave, or environment × label."""
    if training.group_labels is not None:
        codes, names = training.group_labels
        return cross_groups(["group"], [codes], [[name.removeprefix("group ") for name in names]])
    labels = [str(label) for label in classes]
    return cross_groups(
        ["environment", "label"], [_environment_codes(training), training.y], [_environment_names(training), labels]
    )


def agreement_groups(training: TrainingRows, classes: NDArray[Any], attribute: Any) -> tuple[Group, ...]:
    """Return environment × (attribute equals the label): the oracle as the authors' code has it."""
    values = _attribute(attribute, training.n_rows)
    agrees = np.array([str(value) == str(classes[code]) for value, code in zip(values, training.y, strict=True)])
    if not agrees.any():
        raise EnvironmentsError(
            f"the attribute never equals the label: it takes {listed(sorted(set(map(str, values))))}, the labels are "
            f"{listed([str(label) for label in classes])}. Code both alike, or use form='label_attribute'."
        )
    return cross_groups(
        ["environment", "attribute equals label"],
        [_environment_codes(training), agrees.astype(np.intp)],
        [_environment_names(training), ["no", "yes"]],
    )


def attribute_groups(training: TrainingRows, classes: NDArray[Any], attribute: Any) -> tuple[Group, ...]:
    """Return label × attribute: the oracle as the paper's text has it."""
    values, codes = unique_labels(_attribute(attribute, training.n_rows), what="attribute", error=EnvironmentsError)
    return cross_groups(
        ["label", "attribute"], [training.y, codes], [[str(c) for c in classes], [str(v) for v in values]]
    )


def large_groups(groups: Sequence[Group], min_group_size: int) -> tuple[Group, ...]:
    """Return the groups that are large enough, saying which are not; all of them when none is."""
    kept = tuple(group for group in groups if group.effective_size() >= min_group_size)
    small = [f"{g.name} ({g.effective_size():.0f})" for g in groups if g.effective_size() < min_group_size]
    if small and kept:
        warnings.warn(
            f"{len(small)} of {len(groups)} groups are below min_group_size={min_group_size} (effective) rows and are "
            f"dropped: {listed(small)}. Lower min_group_size to keep them.",
            SmallGroupWarning,
            stacklevel=4,
        )
    return kept or tuple(groups)


def _attribute(attribute: Any, n_rows: int) -> NDArray[Any]:
    return label_array(attribute, n_rows, what="attribute", error=EnvironmentsError, example="frame['color']")


def _environment_codes(training: TrainingRows) -> NDArray[np.intp]:
    codes = np.empty(training.n_rows, dtype=np.intp)
    for number, environment in enumerate(training.environments):
        codes[environment.rows] = number
    return codes


def _environment_names(training: TrainingRows) -> list[str]:
    return [environment.name for environment in training.environments]
