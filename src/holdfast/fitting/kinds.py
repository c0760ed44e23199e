"""Protocols: the kinds of estimators, and what the library asks of each.

scikit-learn has no types, so its objects are `Any` to a type checker. These protocols say what our functions need. Only
`Network` is used with `isinstance`: scikit-learn's estimators decide at run time which methods they have, and
`isinstance` looks at their classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from holdfast.environments import Group, PerRow, Rows, Weights

if TYPE_CHECKING:
    from torch import Tensor, nn

    from holdfast.neural.risks import Loss
    from holdfast.neural.selection import Selected


class Estimator(Protocol):
    """What is fitted: an estimator by scikit-learn's rules, whose `fit` may take more than rows and labels."""

    @property
    def fit(self) -> Callable[..., Any]:
        """Fit on rows and labels, and return itself."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""

    def set_params(self, **params: Any) -> Any:
        """Change parameters."""


EstimatorT = TypeVar("EstimatorT", bound=Estimator)


class Predictor(Protocol):
    """What answers: a fitted classifier or regressor."""

    def predict(self, X: Any, /) -> Any:
        """Return a label or a number for each row."""


class ProbabilisticClassifier(Predictor, Protocol):
    """A classifier that gives probabilities; `fitting.estimators.has_probabilities` says whether one does."""

    @property
    def classes_(self) -> Any:
        """The classes, columns of the probabilities."""

    def predict_proba(self, X: Any, /) -> Any:
        """Return a probability for each row and class."""


@runtime_checkable
class Network(Protocol):
    """An estimator that trains a network on several groups of rows, as every method uses it."""

    def fit_groups(self, X: Any, y: PerRow, groups: Sequence[Group], *, objective: Any, **options: Any) -> Any:
        """Train under an objective of the groups' risks."""

    def check_training(self, **options: Any) -> None:
        """Refuse what a training would refuse, before it begins."""

    def selection_rule(self, selection: str | None = None) -> str | None:
        """Return the rule that selects the epoch: the one given, or the estimator's own."""

    def options_for(self, part: Literal["network", "optimizer", "scheduler", "training", "data"]) -> Mapping[str, Any]:
        """Return the parameters with the prefix of a part."""

    def row_loss(self) -> Loss:
        """Return the loss of each row that is trained with."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""

    def set_params(self, **params: Any) -> Any:
        """Change parameters."""


class TrainedNetwork(Network, Protocol):
    """A network with what its training found."""

    network_: nn.Module
    selected_: Selected
    history_: list[dict[str, Any]]
    group_weights_: Weights
    classes_: Any  # of a classifier

    def outputs(self, X: Any, rows: Rows | None = None) -> Tensor:
        """Return the network's outputs, (n_rows, n_outputs)."""
