"""Heat maps of correlations with the label in every environment and in its halves, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast.datasets.values import Split
from holdfast.environments import Group, Partition, PerRow, split_environments
from holdfast.exceptions import InputError
from holdfast.reports.values import HeatMap
from holdfast.rows.kinds import as_dense, is_frame

if TYPE_CHECKING:
    from holdfast.auditing import Audit
    from holdfast.estimators.base import MethodEstimator

Floats = NDArray[np.float64]

MOST_COLUMNS, MOST_PAIRS = 40, 16  # shown for one label, and for each label against the rest
MOST_PARTITIONS = 12
MOST_FEATURES = 2_000  # columns of X that are looked at
MOST_NUMBERS = 100_000_000  # rows × columns that are looked at
MOST_VALUES = 20  # a whole-number attribute with more values is a quantity


def correlation_maps(
    fitted: MethodEstimator,
    training: Split,
    class_names: Mapping[Any, str],
    feature_names: Sequence[str] | None = None,
    audit: Audit | None = None,
    attributes: Sequence[str] | None = None,
) -> tuple[HeatMap, ...]:
    """Return a heat map of the attributes, and one of the features, in environments and halves.

    `training` are the rows that the estimator was fitted on, in the same order. Features that the audit names come
    first; `feature_names` are those of the columns of an array.
    """
    partitions = tuple(getattr(fitted, "partitions_", ()))
    if not partitions or not class_names:
        return ()
    _check_same_rows(partitions, training)
    rows = _picture_rows(partitions, training)
    targets = _targets(training.y, class_names)
    named = tuple(getattr(audit, "named", ()))
    shown = list(training.attributes) if attributes is None else list(attributes)
    found = []
    for what, columns in (
        ("Attributes", attribute_columns({name: training.attributes[name] for name in shown})),
        ("Features", _feature_columns(training.X, feature_names)),
    ):
        if columns is not None and columns[0]:
            found.append(_map(what, columns, targets, rows, named))
    return tuple(found)


def _check_same_rows(partitions: Sequence[Partition], training: Split) -> None:
    """Refuse rows that cannot be those the estimator was fitted on."""
    labels = np.asarray(training.environments).astype(str)
    known = set(labels.tolist())
    for p in partitions:
        rows = np.concatenate([p.correct, p.mistaken])
        if len(rows) and rows.max() >= len(training):
            raise InputError(
                f"training has {len(training)} rows, but the estimator was fitted on more than {rows.max()}. "
                "Pass the rows it was fitted on, in the same order."
            )
        if p.judged in known and (labels[rows] != p.judged).any():  # small environments were merged under a new name
            raise InputError(
                f"training has rows of other environments where the estimator was fitted on {p.judged!r}. "
                "Pass the rows it was fitted on, in the same order."
            )


def attribute_columns(attributes: Mapping[str, Any]) -> tuple[list[str], Floats] | None:
    """Return attributes as named columns of numbers: two values are one column, several one for each value.

    Examples
    --------
    >>> attribute_columns({"sex": np.array(["f", "m"]), "color": np.array([0, 1])})[0]
    ['sex=m', 'color']
    """
    names, columns = [], []
    for name, given in attributes.items():
        values = np.asarray(given)
        if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(np.unique(values)) > MOST_VALUES):
            names.append(name)
            columns.append(values.astype(np.float64))
            continue
        texts = values.astype(str)
        found, counts = np.unique(texts, return_counts=True)
        if len(found) == 2:
            names.append(name if values.dtype.kind in "biu" else f"{name}={found[1]}")
            columns.append((texts == found[1]).astype(np.float64))
            continue
        for value in found[np.argsort(-counts, kind="stable")][:50]:
            names.append(f"{name}={value}")
            columns.append((texts == value).astype(np.float64))
    return (names, np.column_stack(columns)) if columns else None


def _feature_columns(X: Any, feature_names: Sequence[str] | None) -> tuple[list[str], Floats] | None:
    """Return the columns of a table as numbers; None for texts, images and tables that are too wide."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or shape[1] > MOST_FEATURES or shape[0] * shape[1] > MOST_NUMBERS:
        return None
    if is_frame(X):
        from holdfast.auditing import encode_table

        encoded = encode_table(X)
        values = encoded.values
        return list(encoded.names), as_dense(values)
    values = as_dense(X)
    if values.dtype.kind not in "biuf":
        return None
    names = [f"x{i}" for i in range(shape[1])] if feature_names is None else [str(name) for name in feature_names]
    if len(names) != shape[1]:
        raise InputError(f"feature_names has {len(names)} names for {shape[1]} columns. Pass one for each.")
    return names, values.astype(np.float64)


def _picture_rows(partitions: Sequence[Partition], training: Split) -> list[list[tuple[str, Group]]]:
    """Return blocks of named rows of the picture: each environment, then the halves that its judges cut of it."""
    shown = list(partitions)
    if len(shown) > MOST_PARTITIONS:  # those whose judges do worst
        shown = sorted(partitions, key=lambda p: p.accuracy)[:MOST_PARTITIONS]
    blocks = []
    for environment in split_environments(training.environments, len(training)):
        members = [(environment.name, Group(environment.name, environment.rows))]
        for p in (p for p in shown if p.judged == environment.name):
            halves = zip(("correct", "mistaken"), p.groups(), strict=True)
            members += [(f"{p.judged} by {p.judge}: {kind}", half) for kind, half in halves if len(half)]
        if len(members) > 1 or len(partitions) <= MOST_PARTITIONS:
            blocks.append([(f"{name} ({group.effective_size():,.0f})", group) for name, group in members])
    return blocks


def _targets(y: PerRow, class_names: Mapping[Any, str]) -> list[tuple[str, Floats]]:
    """Return one indicator for each class; of two classes the second says it all."""
    labels = np.asarray(y)
    pairs = list(class_names.items())
    return [(name, (labels == label).astype(np.float64)) for label, name in (pairs[1:] if len(pairs) == 2 else pairs)]


def _map(
    what: str,
    columns: tuple[list[str], Floats],
    targets: list[tuple[str, Floats]],
    blocks: list[list[tuple[str, Group]]],
    named: tuple[str, ...],
) -> HeatMap:
    """Return the picture of the columns whose correlation moves most between an environment and its mistaken half."""
    names, values = columns
    pairs = [(name, target) for target in range(len(targets)) for name in range(len(names))]
    groups = [group for members in blocks for _, group in members]
    indicators = np.column_stack([indicator for _, indicator in targets])
    found = np.stack([correlations(values, indicators, group) for group in groups])  # (n_groups, n_names, n_targets)
    known = np.nan_to_num(found)
    starts = np.cumsum([0, *(len(members) for members in blocks)])[:-1]
    whole = np.repeat(starts, [len(members) for members in blocks])
    moved = np.abs(known - known[whole]).max(axis=0)  # (n_names, n_targets)
    order = sorted(pairs, key=lambda pair: (names[pair[0]] not in named, -moved[pair[0], pair[1]], pair))
    several = len(targets) > 1
    shown = order[: MOST_PAIRS if several else MOST_COLUMNS]
    note = "Numbers are correlations; – means that one side does not vary."
    if len(order) > len(shown):
        note += f" Of {len(order):,} columns the {len(shown)} that move most are shown."
    label = "each label against the rest" if several else f"label {targets[0][0]}"
    return HeatMap(
        f"{what}: correlation with {label}",
        tuple(name for members in blocks for name, _ in members),
        tuple(f"{names[i]} → {targets[t][0]}" if several else names[i] for i, t in shown),
        tuple(tuple(float(found[g, i, t]) for i, t in shown) for g in range(len(groups))),
        "correlation",
        "rows",
        what.lower(),
        note,
        tuple(int(start) for start in starts[1:]),
    )


def correlations(values: Floats, indicators: Floats, group: Group) -> Floats:
    """Return the (weighted) correlation of every column with every indicator in a group; NaN where one is constant."""
    share = group.probabilities()

    def standardized(block: Floats) -> Floats:
        centered = block - share @ block
        spread = np.sqrt(share @ centered**2)
        varies = spread > 1e-9 * np.maximum(np.abs(block).max(axis=0), 1e-300)
        return np.divide(centered, spread, out=np.full_like(centered, np.nan), where=varies)

    if not len(group):
        return np.full((values.shape[1], indicators.shape[1]), np.nan)
    left, right = standardized(values[group.rows]), standardized(indicators[group.rows])
    return np.clip((left * share[:, None]).T @ right, -1.0, 1.0)
