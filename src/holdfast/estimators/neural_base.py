"""What networks as scikit-learn estimators share: reading rows, training on groups, predicting in chunks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data
from torch import Tensor

from holdfast.batches import RowSource, Vocabulary, make_source
from holdfast.environments import Environment, Group, Rows, cross_groups, is_lazy, label_array, unique_labels
from holdfast.estimators import neural_state
from holdfast.estimators.reading import as_ours, is_text, read_weights
from holdfast.exceptions import EnvironmentsError, FeaturesError, InputTypeError, LabelsError, ParameterError
from holdfast.networks import NETWORKS, Factory, Network, build_network, reads_text
from holdfast.objectives import Objective, make_objective
from holdfast.risks import Loss, make_loss
from holdfast.seeding import RandomState, Seeding
from holdfast.training import (
    HeldOut,
    Monitor,
    Precision,
    Schedule,
    TrainingSettings,
    autocast,
    outputs_on,
    resolve_device,
    right_class,
    train,
    union_of,
)

_SMALL = 100_000  # parameters: up to here a copy in float64 costs next to nothing


class NeuralEstimator(BaseEstimator):
    """A network trained by the one loop; subclasses say what its targets are."""

    network: str | Factory

    def __init__(
        self,
        network: str | Factory = "mlp",
        *,
        max_epochs: int = 100,
        steps_per_epoch: int = 100,
        batch_size: int = 50,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        dropout: float = 0.1,
        loss: str | Loss = "cross_entropy",
        weight_averaging: float | None = None,
        schedule: Schedule = "constant",
        patience: int | None = 20,
        selection: str | None = None,
        network_options: Mapping[str, Any] | None = None,
        min_count: int = 1,
        vocabulary: Vocabulary | None = None,
        precision: Precision = "auto",
        device: str = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.network = network
        self.max_epochs = max_epochs
        self.steps_per_epoch = steps_per_epoch
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.loss = loss
        self.weight_averaging = weight_averaging
        self.schedule = schedule
        self.patience = patience
        self.selection = selection
        self.network_options = network_options
        self.min_count = min_count
        self.vocabulary = vocabulary
        self.precision = precision
        self.device = device
        self.random_state = random_state

    _score = staticmethod(right_class)

    def _learn_targets(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return the targets for the loop, and learn what predictions need."""
        raise NotImplementedError

    def _known_targets(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return the targets of validation rows for the loop."""
        raise NotImplementedError

    def _n_outputs(self) -> int:
        raise NotImplementedError

    def _label_columns(self, targets: NDArray[Any]) -> tuple[list[str], list[NDArray[np.intp]], list[list[str]]]:
        """Return the label as a column that validation groups are crossed with."""
        return [], [], []

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Train on all rows.

        Parameters
        ----------
        X : array, frame, sparse matrix, images or texts
            Vectors (n_rows, n_features), images (n_rows, channels, height, width), or n_rows texts. Features are used
            as they are: scale them first, for example with a Pipeline. Images of 8-bit integers are divided by 255.
        y : array of shape (n_rows,)
            Targets.
        sample_weight : array of shape (n_rows,), optional
            Rows are drawn in proportion to it.
        validation : (X, y) or (X, y, group_labels), optional
            Rows that select the epoch.
        """
        X, source, targets = self._read_training(X, y)
        weights = read_weights(sample_weight, len(source))
        groups = [Group("all rows", np.arange(len(source)), weights)]
        return self._train(source, targets, groups, "erm", (), validation, None, "training", None)

    def fit_groups(
        self,
        X: Any,
        y: Any,
        groups: Sequence[Group],
        *,
        objective: str | Objective,
        environments: Sequence[Environment] | None = None,
        validation: Any = None,
        selection: str | None = None,
        stage: str = "training",
        monitor: Monitor | None = None,
    ) -> Self:
        """Train on groups of rows under an objective: the way every method uses a network.

        Parameters
        ----------
        X, y : as in `fit`
            All rows; the groups refer to them by number.
        groups : sequence of Group
            What the objective is about: environments for "erm", "pooled", "irm", "vrex" and "rgm", halves or label
            groups for "balanced", "max" and "online". They may overlap; a batch holds `batch_size` rows of each.
        objective : str or Objective
            A name in `holdfast.objectives.OBJECTIVES`, or an instance with its settings, such as ``IRM(weight=10)``.
        environments : sequence of Environment, optional
            All training environments, for selection="other_environments": those that share no row with the groups
            are scored.
        validation : (X, y) or (X, y, group_labels), optional
            Rows that select the epoch; group labels are crossed with the label for "worst_group_validation".
        selection : str, optional
            Overrides the `selection` parameter.
        stage : str
            What monitors call this training.
        monitor : Monitor, optional
            Sees every epoch; by default the one of ``with holdfast.training.watch(…)``.
        """
        X, source, targets = self._read_training(X, y)
        return self._train(
            source, targets, groups, objective, environments or (), validation, selection, stage, monitor
        )

    def _train(
        self,
        source: RowSource,
        targets: NDArray[Any],
        groups: Sequence[Group],
        objective: str | Objective,
        environments: Sequence[Environment],
        validation: Any,
        selection: str | None,
        stage: str,
        monitor: Monitor | None,
    ) -> Self:
        """Run the loop and keep what it learned."""
        self.input_shape_ = source.row_shape
        seeding = Seeding(self.random_state)
        trained = train(
            lambda: build_network(self.network, **self._network_arguments()),
            source,
            targets,
            groups,
            objective=make_objective(objective),
            loss=make_loss(self.loss),
            score=self._score,
            settings=self._settings(),
            seeding=seeding,
            selection=self.selection if selection is None else selection,
            validation=self._read_validation(validation),
            others=_other_environments(source, targets, groups, environments),
            stage=stage,
            monitor=monitor,
        )
        self.network_ = trained.network
        self.selected_ = trained.selected
        self.history_ = trained.history
        self.group_weights_ = trained.mixture
        self.device_ = str(trained.device)
        self.precision_ = trained.precision
        return self

    def _settings(self) -> TrainingSettings:
        """Return the loop's settings, checked."""
        if not 0 <= self.dropout < 1:
            raise ParameterError(f"The 'dropout' parameter must be in [0, 1). Got {self.dropout!r} instead.")
        return TrainingSettings(
            max_epochs=self.max_epochs,
            steps_per_epoch=self.steps_per_epoch,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
            schedule=self.schedule,
            weight_averaging=self.weight_averaging,
            precision=self.precision,
            device=self.device,
        )

    def _network_arguments(self) -> dict[str, Any]:
        """Return what the network is built with."""
        options = dict(self.network_options or {})
        if self.vocabulary_ is not None and isinstance(options.get("vectors"), Mapping):
            options["vectors"] = self.vocabulary_.vectors(options["vectors"])
        return {
            "input_shape": self.input_shape_,
            "n_classes": self._n_outputs(),
            "dropout": float(self.dropout),
            **options,
        }

    def _read_training(self, X: Any, y: Any) -> tuple[Any, RowSource, NDArray[Any]]:
        """Check rows and targets, and learn the vocabulary of texts."""
        if y is None:
            raise LabelsError(f"{type(self).__name__}.fit requires y to be passed, but the target y is None.")
        X = self._check_rows(X, reset=True)
        self._refuse_wrong_kind(is_texts=isinstance(X, list))
        self.vocabulary_ = None
        if isinstance(X, list):
            given = self.vocabulary
            self.vocabulary_ = Vocabulary.build(X, min_count=self.min_count) if given is None else given
        source = make_source(X, self.vocabulary_)
        return X, source, self._learn_targets(y, len(source))

    def _refuse_wrong_kind(self, *, is_texts: bool) -> None:
        """Refuse texts for a network of numbers and the other way round."""
        wanted = reads_text(self.network)
        if wanted is None or wanted == is_texts:
            return
        able = sorted(name for name in NETWORKS if reads_text(name) == is_texts)
        came, reads = ("texts", "numbers") if is_texts else ("numbers", "texts")
        raise FeaturesError(f"X holds {came}, but network {self.network!r} reads {reads}. Use one of {able}.")

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Return X checked: texts as a list, all else as array or sparse matrix."""
        if is_text(X) or _is_token_lists(X):
            return list(X)
        if not reset and self.vocabulary_ is not None:
            raise FeaturesError(f"{type(self).__name__} was fitted on texts. Got {type(X).__name__} instead.")
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        with as_ours(FeaturesError):
            if is_lazy(X):  # made dense a batch at a time, never as a whole
                _check_n_features(self, X, reset=reset)
            else:
                X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", allow_nd=True)
        if not reset and tuple(X.shape[1:]) != self.input_shape_:
            raise FeaturesError(f"X has rows of shape {tuple(X.shape[1:])}, but {self.input_shape_} were fitted.")
        return X

    def _read_validation(self, validation: Any) -> HeldOut | None:
        """Return the validation rows, with groups where group labels are given."""
        if validation is None:
            return None
        if not isinstance(validation, tuple | list) or len(validation) not in (2, 3):
            raise InputTypeError(
                f"validation must be (X, y) or (X, y, group_labels). Got {type(validation).__name__} instead."
            )
        source = make_source(self._check_rows(validation[0], reset=False), self.vocabulary_)
        targets = self._known_targets(validation[1], len(source))
        if len(validation) == 2 or validation[2] is None:
            return HeldOut(source, targets)
        labels = label_array(
            validation[2],
            len(source),
            what="validation's group_labels",
            error=EnvironmentsError,
            example="frame['sex']",
        )
        values, codes = unique_labels(labels, what="validation's group_labels", error=EnvironmentsError)
        names, columns, texts = self._label_columns(targets)
        groups = cross_groups([*names, "group"], [*columns, codes], [*texts, [str(value) for value in values]])
        return HeldOut(source, targets, groups)

    def outputs(self, X: Any, rows: Rows | None = None) -> Tensor:
        """Return the network's outputs on all rows (or those listed), (n_rows, n_outputs), chunk by chunk.

        Whatever the training's precision, they are computed in float32; small networks on vectors even in float64, so
        that a row's outputs do not depend in the last digits on the rows beside it.
        """
        check_is_fitted(self, "network_")
        source = make_source(self._check_rows(X, reset=False), self.vocabulary_)
        device = resolve_device(self.device_)
        network = self.network_
        n_parameters = sum(parameter.numel() for parameter in network.parameters())
        if isinstance(network, Network) and len(source.row_shape) == 1 and n_parameters <= _SMALL:
            network = copy.deepcopy(network).double()
        return outputs_on(network, source, device=device, autocast=autocast("fp32", device), rows=rows)

    def get_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the fitted estimator as values for JSON and tensors by name."""
        check_is_fitted(self, "network_")
        return neural_state.get_state(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], tensors: Mapping[str, Any]) -> Self:
        """Return the fitted estimator that `get_state` described."""
        estimator = cls()
        neural_state.set_state(estimator, state, tensors)
        return estimator

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_token_lists(X: Any) -> bool:
    """Return whether X is a list of texts that are cut into tokens already."""
    return isinstance(X, list) and len(X) > 0 and isinstance(X[0], list) and len(X[0]) > 0 and isinstance(X[0][0], str)


def _other_environments(
    source: RowSource, targets: NDArray[Any], groups: Sequence[Group], environments: Sequence[Environment]
) -> HeldOut | None:
    """Return the environments that share no row with the groups."""
    if not environments or not groups:
        return None
    trained = np.zeros(len(source), dtype=bool)
    trained[union_of(groups)] = True
    others = tuple(Group(e.name, e.rows) for e in environments if not trained[e.rows].any())
    return HeldOut(source, targets, others) if others else None
