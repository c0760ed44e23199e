"""Networks as scikit-learn estimators, trained by the one loop on one group of rows or on many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from holdfast.batches import RowSource, Vocabulary, make_source
from holdfast.environments import Environment, Group, cross_groups, label_array, missing_labels, unique_labels
from holdfast.estimators import neural_state
from holdfast.estimators.reading import as_ours, is_text, read_weights
from holdfast.exceptions import EnvironmentsError, FeaturesError, InputTypeError, LabelsError, ParameterError
from holdfast.networks import Factory, build_network
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
    minus_squared_error,
    outputs_on,
    resolve_device,
    right_class,
    train,
    union_of,
)


class _NeuralEstimator(BaseEstimator):
    """What the classifier and the regressor share."""

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

    # -- what differs between labels and numbers -------------------------------------------------------------------------

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

    # -- fitting -----------------------------------------------------------------------------------------------------------

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

    # -- reading -----------------------------------------------------------------------------------------------------------

    def _read_training(self, X: Any, y: Any) -> tuple[Any, RowSource, NDArray[Any]]:
        """Check rows and targets, and learn the vocabulary of texts."""
        if y is None:
            raise LabelsError(f"{type(self).__name__}.fit requires y to be passed, but the target y is None.")
        X = self._check_rows(X, reset=True)
        self.vocabulary_ = None
        if isinstance(X, list):
            given = self.vocabulary
            self.vocabulary_ = Vocabulary.build(X, min_count=self.min_count) if given is None else given
        source = make_source(X, self.vocabulary_)
        return X, source, self._learn_targets(y, len(source))

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Return X checked: texts as a list, all else as array or sparse matrix."""
        if is_text(X) or _is_token_lists(X):
            return list(X)
        if not reset and self.vocabulary_ is not None:
            raise FeaturesError(f"{type(self).__name__} was fitted on texts. Got {type(X).__name__} instead.")
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        with as_ours(FeaturesError):
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
            validation[2], len(source), what="validation's group_labels", error=EnvironmentsError, example="frame['sex']"
        )
        values, codes = unique_labels(labels, what="validation's group_labels", error=EnvironmentsError)
        names, columns, texts = self._label_columns(targets)
        groups = cross_groups([*names, "group"], [*columns, codes], [*texts, [str(value) for value in values]])
        return HeldOut(source, targets, groups)

    # -- predicting --------------------------------------------------------------------------------------------------------

    def _outputs(self, X: Any) -> Tensor:
        """Return the network's outputs, (n_rows, n_outputs), in float32 whatever the training's precision."""
        check_is_fitted(self, "network_")
        source = make_source(self._check_rows(X, reset=False), self.vocabulary_)
        device = resolve_device(self.device_)
        return outputs_on(self.network_, source, device=device, autocast=autocast("fp32", device))

    # -- saving without pickle ---------------------------------------------------------------------------------------------

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


class NeuralClassifier(ClassifierMixin, _NeuralEstimator):
    """A network as a scikit-learn classifier.

    Parameters
    ----------
    network : str, callable or nn.Module, default="mlp"
        A name in `holdfast.networks.NETWORKS`; a callable that returns an `nn.Module` and takes whichever it likes of
        ``input_shape``, ``n_classes`` and ``dropout``; or a module, which is copied.
    max_epochs : int, default=100
        Largest number of evaluations.
    steps_per_epoch : int, default=100
        Batches between two evaluations.
    batch_size : int, default=50
        Rows of each group in a batch; a smaller group is used whole.
    learning_rate, weight_decay : float
        Of Adam; the decay is coupled L2.
    dropout : float, default=0.1
        Probability that a unit is dropped.
    loss : {"cross_entropy", "gce", "smoothed"} or callable
        ``(logits, codes) -> (n,) losses``.
    weight_averaging : float, optional
        Decay of an exponential average of the weights, for example 0.999; the average is evaluated and kept.
    schedule : {"constant", "cosine"}
        Of the learning rate over `max_epochs`.
    patience : int or None, default=20
        Evaluations without improvement before training stops.
    selection : str, optional
        Rule that selects the epoch (`holdfast.selection`); None: validation_accuracy with validation rows, else last.
    network_options : mapping, optional
        Further settings of the network, for example ``{"hidden": (64, 64)}``; for text networks ``{"vectors": …}`` may
        map words to fixed vectors.
    min_count : int, default=1
        Texts: words that occur less often are unknown.
    vocabulary : Vocabulary, optional
        Texts: the words, if not those of the training rows.
    precision : {"auto", "fp32", "bf16"}
        "auto" trains in bfloat16 where the hardware has it.
    device : str, default="auto"
        CUDA where there is one, else the CPU.
    random_state : int, RandomState, Generator or None
        Seed of initialization, dropout and batches.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    network_ : nn.Module
        With the selected weights, in evaluation mode.
    selected_ : Selected
        Rule, epoch, scores and weights of what was selected.
    history_ : list of dict
        One entry for each epoch.
    group_weights_ : array of shape (n_groups,)
        The groups' share in the training.
    precision_, device_ : str

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0]] * 20)
    >>> y = np.array(["no", "yes"] * 20)
    >>> classifier = NeuralClassifier("linear", max_epochs=2, learning_rate=0.1, random_state=0).fit(X, y)
    >>> classifier.predict([[0.0], [1.0]]).tolist()
    ['no', 'yes']
    """

    def _learn_targets(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Set `classes_` and return the class codes."""
        with as_ours(LabelsError):
            labels = column_or_1d(y, warn=True)
        _check_length(labels, n_rows)
        if missing_labels(labels).any():
            raise LabelsError("Input y contains NaN or None. Drop those rows before fitting.")
        with as_ours(LabelsError):
            check_classification_targets(labels)
        self.classes_, codes = unique_labels(labels, what="y", error=LabelsError)
        if len(self.classes_) < 2:
            raise LabelsError(
                f"y has one class only ({self.classes_[0]!r}), but a classifier needs at least two classes. "
                "Check that the label column is the right one."
            )
        return codes.astype(np.int64, copy=False)

    def _known_targets(self, y: Any, n_rows: int) -> NDArray[Any]:
        labels = np.asarray(y)
        _check_length(labels, n_rows)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise LabelsError(f"validation has labels that training has not, for example {unknown[0]!r}.")
        return np.searchsorted(self.classes_, labels).astype(np.int64, copy=False)

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _label_columns(self, targets: NDArray[Any]) -> tuple[list[str], list[NDArray[np.intp]], list[list[str]]]:
        return ["y"], [targets], [[str(label) for label in self.classes_]]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row."""
        return self.classes_[self._outputs(X).argmax(1).numpy()]  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label, columns in the order of `classes_`."""
        return torch.softmax(self._outputs(X).double(), dim=1).numpy()


class NeuralRegressor(RegressorMixin, _NeuralEstimator):
    """A network as a scikit-learn regressor, with the squared loss; parameters as in `NeuralClassifier`.

    Targets are used as they are: scale them first where they are far from mean 0 and variance 1, for example with
    `sklearn.compose.TransformedTargetRegressor`. In selection rules "accuracy" reads minus the mean squared error.
    """

    def __init__(
        self,
        network: str | Factory = "mlp",
        *,
        max_epochs: int = 100,
        steps_per_epoch: int = 100,
        batch_size: int = 50,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        loss: str | Loss = "squared",
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
        super().__init__(
            network,
            max_epochs=max_epochs,
            steps_per_epoch=steps_per_epoch,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            dropout=dropout,
            loss=loss,
            weight_averaging=weight_averaging,
            schedule=schedule,
            patience=patience,
            selection=selection,
            network_options=network_options,
            min_count=min_count,
            vocabulary=vocabulary,
            precision=precision,
            device=device,
            random_state=random_state,
        )

    _score = staticmethod(minus_squared_error)

    def _learn_targets(self, y: Any, n_rows: int) -> NDArray[Any]:
        with as_ours(LabelsError):
            targets = np.asarray(column_or_1d(y, warn=True), dtype=np.float32)
        _check_length(targets, n_rows)
        if not np.isfinite(targets).all():
            raise LabelsError("Input y contains NaN or infinity. Drop those rows before fitting.")
        return targets

    def _known_targets(self, y: Any, n_rows: int) -> NDArray[Any]:
        return self._learn_targets(y, n_rows)

    def _n_outputs(self) -> int:
        return 1

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of each row."""
        return self._outputs(X)[:, 0].double().numpy()


def _check_length(labels: NDArray[Any], n_rows: int) -> None:
    if labels.shape != (n_rows,):
        raise LabelsError(
            f"Found input variables with inconsistent numbers of samples: y has shape {labels.shape} for {n_rows} "
            "rows. Pass one target for each row of X."
        )


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
