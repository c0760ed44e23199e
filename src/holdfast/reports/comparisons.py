"""Accuracies of several classifiers as figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast.datasets.values import Split
from holdfast.environments import Group, split_environments
from holdfast.exceptions import InputError
from holdfast.metrics import Interval, Score, label_attribute_groups, score_groups
from holdfast.reports.values import Dot, Dots

if TYPE_CHECKING:
    from holdfast.tables.comparison import Comparison

MOST_PLACES = 40  # environments that get dots of their own
MOST_VALUES = 50  # an attribute with more values makes no groups


def compare_on_rows(
    methods: Mapping[str, Any],
    test: Split,
    *,
    known: Sequence[str] | None = None,
    attributes: Sequence[str] | None = None,
) -> Dots:
    """Return the accuracies of fitted classifiers on the same rows, with 95% intervals.

    Parameters
    ----------
    methods : mapping of name to fitted classifier, or to its labels for the rows of `test`
    test : Split
    known : sequence of str, optional
        Environments the classifiers were fitted on; the others are marked as new.
    attributes : sequence of str, optional
        Which attributes to cross with the label; all by default.

    Returns
    -------
    Dots
        Places: worst and average over environments, each environment, worst and average group of each attribute.
    """
    if not methods:
        raise InputError("methods is empty. Pass at least one fitted classifier under its name.")
    environments = split_environments(test.environments, len(test))
    groups = [Group(e.name if known is None or e.name in known else f"{e.name} (new)", e.rows) for e in environments]
    crossed = {
        name: label_attribute_groups(test.y, test.attributes[name], name)
        for name in (test.attributes if attributes is None else attributes)
        if len(np.unique(np.asarray(test.attributes[name]).astype(str))) <= MOST_VALUES
    }
    answers = {
        name: np.asarray(method.predict(test.X) if hasattr(method, "predict") else method)
        for name, method in methods.items()
    }
    places: dict[str, list[Dot]] = {}
    for method, predicted in answers.items():
        for place, score in _scores(test.y, predicted, groups, crossed):
            places.setdefault(place, []).append(Dot(place, method, score.value, score.low, score.high))
    return Dots(
        "Accuracy by method",
        "accuracy",
        tuple(dot for dots in places.values() for dot in dots),
        "95% intervals; the worst group's holds whichever group is truly the worst. Attributes are crossed with the "
        "label.",
        percent=True,
        best=True,
    )


def comparison_dots(found: Comparison) -> Dots:
    """Return the `Comparison` of `holdfast.tables.comparison.compare_methods` as dots without intervals."""
    fitted = [score for score in found.scores if score.problem is None]
    parts = list(dict.fromkeys(part for score in fitted for part in score.parts))
    values = [("mean", {s.method: s.mean for s in fitted}), ("worst", {s.method: s.worst for s in fitted})]
    values += [(part, {s.method: s.parts[part] for s in fitted if part in s.parts}) for part in parts[:MOST_PLACES]]
    dots = [Dot(place, method, value, math.nan, math.nan) for place, of in values for method, value in of.items()]
    note = f"{found.protocol}. {found.recommendation}"
    return Dots("Accuracy where a method was not fitted", "accuracy", tuple(dots), note, percent=True, best=True)


def seeds_interval(values: Sequence[float]) -> Interval:
    """Return the mean over seeds with Student's 95 % interval; unknown limits for a single seed.

    Examples
    --------
    >>> seeds_interval([0.5, 0.7]).value
    0.6
    """
    if not len(values):
        raise InputError("there are no values to average. Pass one for each seed.")
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    from scipy import special

    reach = float(special.stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Interval(mean, mean - reach, mean + reach)


def _scores(
    y: ArrayLike, predicted: ArrayLike, environments: list[Group], attributes: Mapping[str, Sequence[Group]]
) -> list[tuple[str, Score]]:
    """Return one method's scores by place."""
    scores = score_groups(y, predicted, environments)
    found = []
    if len(environments) > 1:
        found = [("worst environment", scores.worst), ("average over environments", scores.average)]
    found += [(f"environment {score.name}", score) for score in scores.groups[:MOST_PLACES]]
    for name, groups in attributes.items():
        crossed = score_groups(y, predicted, groups)
        found += [
            (f"attribute {name}: worst group", crossed.worst),
            (f"attribute {name}: average over groups", crossed.average),
        ]
    return found
