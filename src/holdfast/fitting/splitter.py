"""The splitter `LeaveOneEnvironmentOut` for scikit-learn's cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from holdfast.environments import Environment, PerRow, Rows, split_environments
from holdfast.exceptions import EnvironmentsError
from holdfast.fitting.folds import rows_without


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A round of leaving environments out: which ones, their rows, and all other rows."""

    names: tuple[str, ...]
    out: Rows
    rest: Rows


def leave_out(environments: Sequence[Environment], *, most: int | None = None) -> list[LeftOut]:
    """Return a round for each environment, or `most` rounds that each leave out several.

    Examples
    --------
    >>> sites = split_environments(["a", "b", "a", "c"], 4)
    >>> [(part.names, part.out.tolist(), part.rest.tolist()) for part in leave_out(sites, most=2)]
    [(('a', 'c'), [0, 2, 3], [1]), (('b',), [1], [0, 2, 3])]
    """
    n_rows = sum(map(len, environments))
    n_rounds = len(environments) if most is None else min(len(environments), most)
    found = []
    for group in (environments[number::n_rounds] for number in range(n_rounds)):
        out = np.concatenate([environment.rows for environment in group])
        found.append(LeftOut(tuple(environment.name for environment in group), out, rows_without(out, n_rows)))
    return found


class LeaveOneEnvironmentOut(BaseCrossValidator):
    """Each environment in turn is the test set, all others are the training set.

    Parameters
    ----------
    environments : labels of shape (n_rows,), optional
        For use without metadata routing; otherwise pass them to `split` or route them.

    Examples
    --------
    >>> sites = ["a", "b", "a", "c"]
    >>> for train, test in LeaveOneEnvironmentOut(sites).split(sites):
    ...     print(train, test)
    [1 3] [0 2]
    [0 2 3] [1]
    [0 1 2] [3]
    """

    __metadata_request__split = {"environments": True}  # scikit-learn reads this

    def __init__(self, environments: PerRow = None) -> None:
        self.environments = environments

    def split(
        self, X: Any, y: PerRow = None, groups: Any = None, *, environments: PerRow = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the row numbers of the training and the test set of each split."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        for part in leave_out(self._split_environments(n_rows, environments, groups)):
            yield part.rest, part.out

    def get_n_splits(self, X: Any = None, y: PerRow = None, groups: Any = None, *, environments: PerRow = None) -> int:
        """Return the number of environments."""
        labels = _first_given(environments, self.environments, groups)
        return len(self._split_environments(len(labels), environments, groups))

    def _split_environments(self, n_rows: int, environments: PerRow, groups: Any) -> tuple[Environment, ...]:
        split = split_environments(_first_given(environments, self.environments, groups), n_rows)
        if len(split) < 2:
            raise EnvironmentsError("leaving one environment out needs at least two environments. Got one label only.")
        return split


def _first_given(*candidates: Any) -> Any:
    for candidate in candidates:
        if candidate is not None:
            return candidate
    raise EnvironmentsError(
        "LeaveOneEnvironmentOut needs the environment of each row. "
        "Pass it, for example LeaveOneEnvironmentOut(environments=frame['site'])."
    )
