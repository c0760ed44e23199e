"""Networks as scikit-learn estimators."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, Unpack
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import _clone_parametrized
from sklearn.utils import Tags
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data
from torch import Tensor, nn

from holdfast.environments import (
    Environment,
    Group,
    PerRow,
    Rows,
    cross_groups,
    is_lazy,
    label_array,
    take_rows,
    unique_labels,
)
from holdfast.exceptions import (
    EnvironmentsError,
    FeaturesError,
    LabelsError,
    NewSiteWarning,
    ParameterError,
    warn,
)
from holdfast.fitting.bases import BaseEstimator, ClassifierMixin, RegressorMixin
from holdfast.neural.batches import RowSource, Vocabulary, make_source
from holdfast.neural.evaluation import HeldOut, evenly, minus_squared_error, outputs_on, right_class, union_of
from holdfast.neural.monitors import ProgressLine, current_monitor
from holdfast.neural.networks import (
    NETWORKS,
    Factory,
    Network,
    build_network,
    check_network_options,
    reads_text,
    takes_option,
)
from holdfast.neural.objectives import Objective, make_objective
from holdfast.neural.options import DataSettings, Options, Part, check_name, check_options, current_names, part_of
from holdfast.neural.risks import Loss, make_loss
from holdfast.neural.selection import LEAVE_ONE_OUT, choose_rule
from holdfast.neural.settings import (
    PREFIXED,
    OptimizerFactory,
    SchedulerFactory,
    TrainingSettings,
    autocast,
    is_number,
    resolve_device,
    resolve_precision,
)
from holdfast.neural.sources import Inputs, ItemSource, RowShape, labeled_items, read_items, rows_to_predict
from holdfast.neural.state import TrainingState
from holdfast.neural.stored import attributes_of, state_of, with_state
from holdfast.neural.training import TrainingTask, train
from holdfast.rows.kinds import FEW_ROWS, holds_items, is_text
from holdfast.rows.reading import (
    as_ours,
    hold_out,
    is_share,
    known_codes,
    no_labels,
    read_column,
    read_held_out,
    read_labels,
    read_weights,
)
from holdfast.seeding import RandomState, Seeding

HOOKS = ("on_train_begin", "on_epoch_begin", "on_batch_end", "on_epoch_end", "on_train_end")
SCALES = 20.0  # how many times larger than the fitted rows' the values may be: 8-bit numbers are 255 times too large
FEW = 5  # rows below which small values may be chance, such as one dark picture
_SMALL = 100_000  # parameters: up to here a copy in float64 costs next to nothing
_PATIENCE = 20  # the default; another one says that the training is to end early


class NeuralEstimator(BaseEstimator):
    """A network trained by the one loop; subclasses say what its targets are."""

    def __init__(
        self,
        network: str | Factory = "mlp",
        *,
        max_epochs: int = 100,
        steps_per_epoch: int = 100,
        batch_size: int = 50,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        loss: str | Loss | None = None,
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | Literal["cosine"] | None = None,
        patience: int | None = _PATIENCE,
        callbacks: Sequence[Any] | None = None,
        verbose: int = 0,
        device: str = "auto",
        random_state: RandomState = None,
        **options: Unpack[Options],
    ) -> None:
        self.network = network
        self.max_epochs = max_epochs
        self.steps_per_epoch = steps_per_epoch
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.loss = loss
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.patience = patience
        self.callbacks = callbacks
        self.verbose = verbose
        self.device = device
        self.random_state = random_state
        self._keep_options(options)

    def _keep_options(self, options: Mapping[str, Any]) -> None:
        """Keep parameters with a prefix under their names, as scikit-learn keeps all others."""
        for name, value in options.items():
            check_name(type(self).__name__, name, self._get_param_names(), self.network)
            setattr(self, name, value)

    def options_for(self, part: Part) -> dict[str, Any]:
        """Return the parameters of a part that are set, without its prefix: what ``part__…`` says."""
        return {name.partition("__")[2]: value for name, value in vars(self).items() if part_of(name) == part}

    def takes(self, name: str) -> bool:
        """Return whether there is such a parameter; one with the prefix ``network__`` must be an option of ours."""
        if part_of(name) == "network":
            return takes_option(self.network, name.partition("__")[2])
        return part_of(name) is not None or name in self._get_param_names()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and those with a prefix that are set."""
        found = super().get_params(deep)
        return found | {name: value for name, value in sorted(vars(self).items()) if part_of(name)}

    def set_params(self, **params: Any) -> Self:
        """Change parameters, those with a prefix too."""
        own = self._get_param_names()
        for name in params:
            check_name(type(self).__name__, name, own, self.network)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    takes_items: ClassVar[bool] = True  # X may be a dict or a Dataset
    _score = staticmethod(right_class)
    _dropout: ClassVar[float] = 0.1  # where the parameter is None
    _loss: ClassVar[str] = "cross_entropy"  # where the parameter is None

    def _learn_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        """Return the targets for the loop, and learn what predictions need."""
        raise NotImplementedError

    def _known_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        """Return the targets of validation rows for the loop."""
        raise NotImplementedError

    def _n_outputs(self) -> int:
        raise NotImplementedError

    def _label_columns(self, targets: NDArray[Any]) -> tuple[list[str], list[NDArray[np.intp]], list[list[str]]]:
        """Return the label as a column that validation groups are crossed with."""
        return [], [], []

    def fit(self, X: Any, y: PerRow = None, sample_weight: PerRow = None, validation: Any = None) -> Self:
        """Train on all rows.

        Parameters
        ----------
        X : array, frame, sparse matrix, images, texts, dict or Dataset
            Vectors (n_rows, n_features), images (n_rows, channels, height, width), or n_rows texts. Features are used
            as they are: scale them first, for example with a Pipeline. Images of 8-bit integers are divided by 255.
            A dict of arrays, or a map-style `torch.utils.data.Dataset` with items ``(x, y)``, ``(x, y, environment)``
            or dicts, whose integers stay integers; entries of a dict go to the network's `forward` by name.
        y : array of shape (n_rows,), optional
            Targets; None: those in the dict or in the Dataset's items ("labels", "label" or "y" of dicts).
        sample_weight : array of shape (n_rows,), optional
            Rows are drawn in proportion to it.
        validation : (X, y), (X, y, group_labels), Dataset or float, optional
            Rows that select the epoch. A number such as 0.2 holds out that share of the rows, of every label alike.
        """
        if is_share(validation):
            X, y, sample_weight, validation = self._hold_out(X, y, sample_weight, float(validation))
        self.check_training(validation=validation)
        source, targets = self._read_training(X, y)
        weights = read_weights(sample_weight, len(source))
        groups = [Group("all rows", np.arange(len(source)), weights)]
        return self._train(source, targets, groups, objective="erm", validation=validation)

    def fit_groups(
        self,
        X: Any,
        y: PerRow,
        groups: Sequence[Group],
        *,
        objective: str | Objective,
        environments: Sequence[Environment] | None = None,
        validation: Any = None,
        selection: str | None = None,
        stage: str = "training",
    ) -> Self:
        """Train on groups of rows under an objective: the way every method uses a network.

        Parameters
        ----------
        X, y : as in `fit`
            All rows; the groups refer to them by number.
        groups : sequence of Group
            What the objective is about: environments for "erm", "pooled", "irm", "vrex" and "rgm", halves or label
            groups for "balanced", "max" and "online". They may overlap; a batch has `batch_size` rows of each.
        objective : str or Objective
            A name in `holdfast.neural.objectives.OBJECTIVES`, or an instance with its settings:
            ``IRM(weight=10)``.
        environments : sequence of Environment, optional
            All training environments, for selection="other_environments": those that share no row with the groups
            are scored.
        validation : (X, y) or (X, y, group_labels), optional
            Rows that select the epoch; group labels are crossed with the label for "worst_group_validation".
        selection : str, optional
            Overrides `training__selection`.
        stage : str
            What monitors call this training, see `holdfast.neural.monitors.watch`.
        """
        source, targets = self._read_training(X, y)
        return self._train(
            source,
            targets,
            groups,
            objective=objective,
            environments=environments or (),
            validation=validation,
            selection=selection,
            stage=stage,
        )

    def check_training(
        self, *, selection: str | None = None, validation: Any = None, other_environments: bool = False
    ) -> None:
        """Refuse what a training would refuse later: parameters, callbacks, and a rule without what it selects by.

        Parameters
        ----------
        selection, validation
            As for `fit_groups`.
        other_environments : bool
            Whether there are environments beside those trained on.
        """
        self.check_parameters()
        resolve_device(self.device)
        callbacks = self.callbacks if self.callbacks is not None else ()
        if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
            raise ParameterError(f"The 'callbacks' parameter must be a list of objects. Got {callbacks!r} instead.")
        for callback in callbacks:
            if isinstance(callback, type) or not any(callable(getattr(callback, hook, None)) for hook in HOOKS):
                raise ParameterError(
                    f"A callback must be an object with at least one of {', '.join(HOOKS)}. Got {callback!r} instead."
                )
        selection = self.selection_rule(selection)
        if selection is None and validation is None and self.patience not in (None, _PATIENCE):
            raise ParameterError(
                f"patience={self.patience} ends a training whose validation score no longer improves, but there are no "
                "validation rows. Pass fit(X, y, validation=(X, y)) or fit(X, y, validation=0.2), or leave patience "
                "out."
            )
        if selection != LEAVE_ONE_OUT:
            grouped = holds_items(validation) or (validation is not None and validation[-1] is not None)
            choose_rule(
                selection,
                validation=validation is not None,
                validation_groups=grouped and (holds_items(validation) or len(validation) == 3),
                other_environments=other_environments,
            )

    def _hold_out(self, X: Any, y: Any, sample_weight: PerRow, share: float) -> tuple[Any, Any, Any, Any]:
        """Return rows, labels and weights to train on, and validation rows, a share of those of every label."""
        if holds_items(X):
            X, y, _ = read_items(X, y, (), n_workers=self._data_settings().n_workers)
        if y is None:
            raise no_labels(self, X)
        labels = np.asarray(read_column(y))
        codes = np.unique(labels, return_inverse=True)[1] if isinstance(self, ClassifierMixin) else np.zeros(len(y))
        kept, held = hold_out(share, [codes.astype(np.intp)], Seeding(self.random_state))
        weights = None if sample_weight is None else np.asarray(sample_weight)[kept]
        X = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
        return take_rows(X, kept), labels[kept], weights, (take_rows(X, held), labels[held])

    def _train(
        self,
        source: RowSource,
        targets: NDArray[Any],
        groups: Sequence[Group],
        *,
        objective: str | Objective,
        environments: Sequence[Environment] = (),
        validation: Any = None,
        selection: str | None = None,
        stage: str = "training",
    ) -> Self:
        """Run the loop and keep what it learned."""
        self.input_shape_ = source.row_shape
        with source.reading():
            self.input_scale_ = _scale_of(source.take(evenly(np.arange(len(source)), 8)))
        task = TrainingTask(
            source=source,
            targets=targets,
            groups=groups,
            objective=make_objective(objective),
            loss=self.row_loss(),
            score=self._score,
            selection=self.selection_rule(selection),
            validation=self._read_validation(validation),
            others=_other_environments(source, targets, groups, environments),
            stage=stage,
            n_outputs=self._n_outputs(),
            notify=self._notify if self.callbacks else None,
        )
        self.stage_ = stage
        build = functools.partial(build_network, self.network, **self.network_arguments())
        monitor = ProgressLine(current_monitor(), self._computing()) if self.verbose else None
        for callback in self.callbacks or ():
            getattr(callback, "initialize", lambda: None)()
        trained = train(build, task, self._settings(), Seeding(self.random_state), monitor)
        self.network_ = trained.network
        self.selected_ = trained.selected
        self.history_ = trained.history
        self.group_weights_ = trained.mixture
        self.device_ = str(trained.device)
        self.precision_ = trained.precision
        self._call("on_train_end")
        return self

    def _computing(self) -> str:
        """Return where and how the training computes, in words."""
        device = resolve_device(self.device)
        precision = self._settings().precision
        found = {"fp32": "float32", "bf16": "bfloat16"}[resolve_precision(precision, device)]
        return f"computing in {found} on {device.type} (training__precision={precision!r}, device={self.device!r})"

    def _notify(self, hook: str, state: TrainingState) -> None:
        """Show callbacks where the training stands; StopIteration ends it after this epoch."""
        self.network_, self.history_ = state.evaluated, state.history
        try:
            self._call(hook)
        except StopIteration:
            state.finished = True

    def _call(self, hook: str) -> None:
        for callback in self.callbacks or ():
            if hasattr(callback, hook):
                getattr(callback, hook)(self)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The epochs so far, under the name that skorch gives them."""
        return self.history_

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same callbacks: they may hold what cannot be copied, such as open files."""
        copied: Self = _clone_parametrized(copy.copy(self).set_params(callbacks=None))
        copied.callbacks = self.callbacks
        return copied

    def _settings(self) -> TrainingSettings:
        """Return the loop's settings, checked."""
        routed = {name: value for name, value in self.options_for("training").items() if name in PREFIXED}
        return TrainingSettings(
            max_epochs=self.max_epochs,
            steps_per_epoch=self.steps_per_epoch,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
            device=self.device,
            optimizer=self.optimizer,
            optimizer_options=self.options_for("optimizer"),
            scheduler=self.scheduler,
            scheduler_options=self.options_for("scheduler"),
            **routed,
        )

    def _data_settings(self) -> DataSettings:
        """Return how rows are read, checked."""
        return DataSettings(**self.options_for("data"))

    def selection_rule(self, selection: str | None = None) -> str | None:
        """Return the name of the rule that selects the epoch: the one given, or `training__selection`."""
        chosen: str | None = self.options_for("training").get("selection")
        return chosen if selection is None else selection

    def check_parameters(self) -> None:
        """Refuse values that no training takes, and options that network, optimizer or scheduler do not take."""
        self._settings()
        self._data_settings()
        self.row_loss()
        options = self.options_for("network")
        dropout = options.get("dropout")
        if dropout is not None and not (is_number(dropout) and 0 <= dropout < 1):
            raise ParameterError(f"The 'network__dropout' parameter must be in [0, 1). Got {dropout!r} instead.")
        check_network_options(self.network, options)
        optimizer = torch.optim.Adam if self.optimizer is None else self.optimizer
        check_options(_called("optimizer", optimizer), "optimizer", optimizer, self.options_for("optimizer"))
        routed = self.options_for("scheduler")
        if callable(self.scheduler):
            check_options(_called("scheduler", self.scheduler), "scheduler", self.scheduler, routed)
        elif routed:
            raise ParameterError(
                f"scheduler__{next(iter(routed))} is set, but scheduler={self.scheduler!r} has no options. Pass a "
                "class such as scheduler=torch.optim.lr_scheduler.StepLR."
            )

    def network_arguments(self) -> dict[str, Any]:
        """Return what the network is built with."""
        options = self.options_for("network")
        if self.vocabulary_ is not None and isinstance(options.get("vectors"), Mapping):
            options["vectors"] = self.vocabulary_.vectors(options["vectors"])
        dropout = options.pop("dropout", None)
        return {
            "input_shape": self.input_shape_,
            "n_classes": self._n_outputs(),
            "dropout": self._dropout if dropout is None else float(dropout),
            **options,
        }

    def _read_training(self, X: Any, y: PerRow) -> tuple[RowSource, NDArray[Any]]:
        """Check rows and targets, and learn the vocabulary of texts."""
        if holds_items(X):
            X, y, _ = read_items(X, y, (), n_workers=self._data_settings().n_workers)
        if y is None:
            raise no_labels(self, X)
        X = self._check_rows(X, reset=True)
        if not holds_items(X):
            self._refuse_wrong_kind(is_texts=isinstance(X, list))
        self.vocabulary_ = None
        if isinstance(X, list):
            settings = self._data_settings()
            given = settings.vocabulary
            self.vocabulary_ = Vocabulary.build(X, min_count=settings.min_count) if given is None else given
        source = self._make_source(X)
        named = NETWORKS[self.network] if isinstance(self.network, str) and self.network in NETWORKS else None
        if isinstance(source.row_shape, dict) and getattr(named, "__module__", "").startswith("holdfast."):
            raise FeaturesError(
                f"X is a dict, or its items are, with the entries {list(source.row_shape)}, but network "
                f"{self.network!r} reads one array. Pass a network whose forward takes these names."
            )
        return source, self._learn_targets(y, len(source))

    def _make_source(self, X: Any) -> RowSource:
        """Return checked rows as a source."""
        settings = self._data_settings()
        return make_source(
            X,
            self.vocabulary_,
            row_transform=settings.row_transform,
            collate_fn=settings.collate_fn,
            n_workers=settings.n_workers,
        )

    def _refuse_wrong_kind(self, *, is_texts: bool) -> None:
        """Refuse texts for a network of numbers and the other way round."""
        wanted = reads_text(self.network)
        if wanted is None or wanted == is_texts:
            return
        able = sorted(name for name in NETWORKS if reads_text(name) == is_texts)
        came, reads = ("texts", "numbers") if is_texts else ("numbers", "texts")
        raise FeaturesError(f"X contains {came}, but network {self.network!r} reads {reads}. Use one of {able}.")

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Return X checked: texts as a list, all else as array or sparse matrix."""
        if is_text(X) or _is_token_lists(X):
            return list(X)
        if not reset and self.vocabulary_ is not None:
            raise FeaturesError(f"{type(self).__name__} was fitted on texts. Got {type(X).__name__} instead.")
        if holds_items(X):
            return read_items(X if reset else rows_to_predict(X), (), ())[0]
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        with as_ours(FeaturesError, X):
            if is_lazy(X):  # converted to dense a batch at a time, never as a whole
                _check_n_features(self, X, reset=reset)
            else:
                X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", allow_nd=True)
        return X

    def _known_source(self, X: Any) -> RowSource:
        """Return rows like those of the fit as a source."""
        source = self._make_source(self._check_rows(X, reset=False))
        if not _same_shape(source.row_shape, self.input_shape_, exactly=not isinstance(source, ItemSource)):
            raise FeaturesError(f"X has rows of shape {source.row_shape}, but {self.input_shape_} were fitted.")
        return source

    def _read_validation(self, validation: Any) -> HeldOut | None:
        """Return the validation rows, with groups where group labels are given."""
        if validation is None:
            return None
        X, y, group_labels = read_held_out((validation, None) if holds_items(validation) else validation)
        if holds_items(X):
            X, y, group_labels = read_items(X, y, group_labels, n_workers=self._data_settings().n_workers)
        source = self._known_source(X)
        targets = self._known_targets(y, len(source))
        if group_labels is None:
            return HeldOut(source, targets)
        what: dict[str, Any] = {"what": "validation's group_labels", "error": EnvironmentsError}
        labels = label_array(group_labels, len(source), example="frame['sex']", **what)
        values, codes = unique_labels(labels, **what)
        names, columns, texts = self._label_columns(targets)
        groups = cross_groups([*names, "group"], [*columns, codes], [*texts, [str(value) for value in values]])
        return HeldOut(source, targets, groups)

    def row_loss(self) -> Loss:
        """Return the loss that is trained with: a function of outputs and targets that gives a number for each row."""
        return make_loss(self._loss if self.loss is None else self.loss)

    def outputs(self, X: Any, rows: Rows | None = None) -> Tensor:
        """Return the network's outputs on all rows (or those listed), (n_rows, n_outputs), chunk by chunk.

        They are computed in float32 in every training precision; small networks on vectors in float64, so that the last
        digits of a row's outputs do not depend on the other rows.
        """
        check_is_fitted(self, "network_")
        plain = self._plain_rows(X) if rows is None else None
        source = self._known_source(X) if plain is None else plain
        device = resolve_device(self.device_)
        network = self._exact_network(source.row_shape)
        context = autocast("fp32", device)
        settings: dict[str, Any] = {"rows": rows, "n_outputs": self._n_outputs(), "look": self._warn_of_scale}
        with source.reading():
            return outputs_on(network, source, device=device, autocast=context, **settings)

    def _plain_rows(self, X: Any) -> RowSource | None:
        """Return few rows of an array that are as those of the fit without any change; None: look closer."""
        as_fitted = (
            type(X) is np.ndarray
            and X.dtype in (np.float32, np.float64)
            and 0 < len(X) <= FEW_ROWS
            and X.shape[1:] == self.input_shape_
            and getattr(self, "data__row_transform", None) is None
            and self.vocabulary_ is None
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )
        return make_source(X) if as_fitted else None

    def _exact_network(self, shape: RowShape) -> nn.Module:
        """Return the network, a small one on vectors in float64."""
        exact = isinstance(shape, tuple) and len(shape) == 1 and isinstance(self.network_, Network)
        return _in_float64(self.network_) if exact else self.network_

    def _warn_of_scale(self, inputs: Inputs) -> None:
        """Warn of inputs whose values are many times larger or smaller than those of the fit."""
        fitted = getattr(self, "input_scale_", None)  # models of older versions have none
        if not fitted:
            return
        found = _scale_of(inputs)
        n_rows = len(next(iter(inputs.values())) if isinstance(inputs, dict) else inputs)
        for name, scale in fitted.items():
            times = found.get(name, scale) / scale
            if times > SCALES or (times * SCALES < 1 and n_rows >= FEW):
                what = f"Entry {name!r} of X" if name else "X"
                warn(
                    f"{what} is on another scale than the rows that were fitted: its largest values are about "
                    f"{found[name]:.3g}, and were {scale:.3g}. Scale it in the same way, for example divide pictures "
                    "by 255.",
                    NewSiteWarning,
                )

    def inputs(self, X: Any, most: int) -> Inputs:
        """Return the first rows, `most` of them, as the network gets them: a tensor, or a dict of tensors."""
        check_is_fitted(self, "network_")
        source = self._known_source(X)
        with source.reading():
            return source.take(np.arange(min(most, len(source))))

    def get_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the fitted estimator as values for JSON, and the network's tensors by name."""
        check_is_fitted(self, "network_")
        return state_of(self)

    def saved_attributes(self) -> dict[str, Any]:
        """Return what is saved of an estimator that is not fitted: parameters, but for those of a training alone."""
        return attributes_of(self)

    @staticmethod
    def current_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return saved attributes under the names that they have in this version."""
        return current_names(attributes)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], tensors: Mapping[str, Any]) -> Self:
        """Return the fitted estimator that `get_state` described."""
        return with_state(cls(), state, tensors)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# Tools that ask the class for its parameters, such as the checks of scikit-learn, take `options` for one.
_signature = inspect.signature(NeuralEstimator)
NeuralEstimator.__signature__ = _signature.replace(  # type: ignore[attr-defined]
    parameters=[parameter for parameter in _signature.parameters.values() if parameter.name != "options"]
)


_DOUBLES: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()  # copies in float64: making one takes long


def _in_float64(network: nn.Module) -> nn.Module:
    """Return a copy of a small network in float64, with the weights of this moment; a large network as it is."""
    if sum(parameter.numel() for parameter in network.parameters()) > _SMALL:
        return network
    double = _DOUBLES.get(network)
    now = [*network.parameters(), *network.buffers()]
    kept = [] if double is None else [*double.parameters(), *double.buffers()]
    if double is None or [tensor.shape for tensor in kept] != [tensor.shape for tensor in now]:
        double = _DOUBLES[network] = copy.deepcopy(network).double()
        return double
    with torch.no_grad():
        torch._foreach_copy_(kept, now)
    return double


def _called(part: str, factory: Callable[..., Any]) -> str:
    """Return a class or function in words, for errors."""
    return f"The {part} {getattr(factory, '__name__', type(factory).__name__)}"


def _same_shape(found: RowShape, fitted: RowShape, *, exactly: bool) -> bool:
    """Return whether rows look like those of the fit; sequences that are read one by one may have other lengths."""
    if exactly or isinstance(found, tuple) != isinstance(fitted, tuple):
        return found == fitted
    pairs = {"X": found}, {"X": fitted}
    of_found, of_fitted = (shape["X"] if isinstance(shape["X"], dict) else shape for shape in pairs)
    return of_found.keys() == of_fitted.keys() and all(
        len(shape) == len(of_fitted[name]) and (len(shape) < 2 or shape == of_fitted[name])
        for name, shape in of_found.items()
    )


def _scale_of(rows: Inputs) -> dict[str, float]:
    """Return the size of the values of rows, by entry: the median over rows of the largest one; nothing for tokens.

    Examples
    --------
    >>> _scale_of(torch.tensor([[1.0, -2.0], [3.0, 0.0], [1e6, 0.0]]))
    {'': 3.0}
    """
    parts = rows if isinstance(rows, dict) else {"": rows}
    parts = {name: part[:: max(len(part) // 32, 1)] for name, part in parts.items()}
    found = {name: part for name, part in parts.items() if part.is_floating_point() and part.ndim > 1 and part.numel()}
    scales = {
        name: float(part.abs().max() if len(part) == 1 else part.flatten(1).abs().amax(1).median())
        for name, part in found.items()
    }
    return {name: scale for name, scale in scales.items() if scale > 0}


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


__all__ = ["NeuralClassifier", "NeuralRegressor"]


class NeuralClassifier(ClassifierMixin, NeuralEstimator):
    """A network as a scikit-learn classifier.

    Parameters
    ----------
    network : str, callable or nn.Module, default="mlp"
        A name in `holdfast.neural.networks.NETWORKS`; a callable that returns an `nn.Module` and takes any of
        ``input_shape``, ``n_classes``, ``dropout`` and what you set with ``network__…``; or a module, which is copied.
    max_epochs : int, default=100
        Largest number of evaluations.
    steps_per_epoch : int, default=100
        Batches between two evaluations.
    batch_size : int, default=50
        Rows of each group in a batch; a smaller group is used whole.
    learning_rate, weight_decay : float
        Of the optimizer; Adam's decay is coupled L2.
    loss : {"cross_entropy", "gce", "smoothed", "squared"} or callable, optional
        ``(logits, codes) -> (n,) losses``; None: the cross-entropy, and the squared error for a regressor.
    optimizer : callable, optional
        A class such as `torch.optim.AdamW`, which gets `learning_rate` and `weight_decay`; or a function of the
        parameters that learn, or of ``network``, that returns an optimizer with rates of its own. None: Adam.
    scheduler : "cosine" or callable, optional
        Of the learning rate: "cosine" lets it fall to zero over `max_epochs`; or a class such as
        `torch.optim.lr_scheduler.StepLR`, or a function of the optimizer. None: the rate is constant.
    patience : int or None, default=20
        Evaluations without improvement before training stops. It needs validation rows, or the other environments that
        select a judge of `PIClassifier`; without them a value of your own is an error.
    callbacks : list of objects, optional
        With any of skorch's hooks ``on_train_begin(net)``, ``on_epoch_begin(net)``, ``on_batch_end(net)``,
        ``on_epoch_end(net)`` and ``on_train_end(net)``. `net` is the estimator, with its `network_`, `history_` and
        `stage_` at that moment. ``raise StopIteration`` ends the training after the epoch.
    verbose : int, default=0
        1: a line for each epoch with the worst group and the time left.
    device : str, default="auto"
        CUDA where there is one, else the CPU.
    random_state : int, RandomState, Generator or None
        Seed of initialization, dropout and batches. They come from generators of the fit's own, so that fits in threads
        give the answers of fits in sequence. A network of your own that calls random functions itself, such as
        `torch.nn.functional.dropout`, is trained by one thread at a time.
    **options
        Parameters with the prefix of the part that they are for; `get_params` has those that are set.

    Notes
    -----
    A network, an optimizer and a scheduler take whatever their signature names: ``network__hidden=(64, 64)``,
    ``optimizer__momentum=0.9``, ``scheduler__step_size=10``. These are always there:

    ===================================  ====================  =========================================================
    parameter                            default               meaning
    ===================================  ====================  =========================================================
    ``network__dropout``                 0.1; regressor: 0     probability that a unit is dropped
    ``training__precision``              "auto"                "fp32", "bf16", or bfloat16 where the hardware has it
    ``training__selection``              None                  rule that selects the epoch, see below
    ``training__selection_rows``         1000                  rows of each other environment that are scored after each
                                                               epoch, evenly spaced; None: all
    ``training__weight_averaging``       None                  decay of an exponential average of the weights, for
                                                               example 0.999; the average is evaluated and kept
    ``training__gradient_clipping``      None                  largest norm of the gradient
    ``training__scheduler_interval``     "epoch"               the scheduler takes its step after each "epoch" or "step"
    ``data__row_transform``              None                  applied to each row as it is read, for example to an
                                                               8-bit image; for training and for prediction
    ``data__collate_fn``                 None                  Datasets, dicts: from a list of items without labels to a
                                                               batch; None: tensors are stacked, and sequences of
                                                               different lengths end with zeros
    ``data__n_workers``                  0                     Datasets: processes that read the items of a batch
                                                               together; 0: this process
    ``data__vocabulary``                 None                  texts: the words, if not those of the training rows
    ``data__min_count``                  1                     texts: words that occur less often are unknown
    ===================================  ====================  =========================================================

    ``training__selection`` is a rule of `holdfast.neural.selection`; None is validation_accuracy with validation rows,
    else last. With "other_environments" the environments that are not trained on select the epoch: so `PIClassifier`
    selects its judges. For text networks ``network__vectors`` may map words to fixed vectors. A module that is passed
    as `network` has its settings already.

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
    stage_ : str
        Which training of a method this is, for example "stage 1: hospital A".
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

    def _learn_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        """Set `classes_` and return the class codes."""
        self.classes_, codes = read_labels(y, n_rows)
        return codes.astype(np.int64, copy=False)

    def _known_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        _check_length(np.asarray(y), n_rows)
        return known_codes(y, self.classes_).astype(np.int64, copy=False)

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _label_columns(self, targets: NDArray[Any]) -> tuple[list[str], list[NDArray[np.intp]], list[list[str]]]:
        return ["y"], [targets], [[str(label) for label in self.classes_]]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row."""
        codes = self.outputs(X).argmax(1).numpy()
        return self.classes_[codes]  # type: ignore[no-any-return]

    def score(self, X: Any, y: PerRow = None, sample_weight: PerRow = None) -> float:
        """Return the accuracy; y may be left out where X is a dict or Dataset with labels."""
        X, y = labeled_items(X, y, n_workers=self._data_settings().n_workers)
        return float(super().score(X, y, sample_weight))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label, columns in the order of `classes_`."""
        return torch.softmax(self.outputs(X).double(), dim=1).numpy()


class NeuralRegressor(RegressorMixin, NeuralEstimator):
    """A network as a scikit-learn regressor; parameters as in `NeuralClassifier`.

    Targets are used as they are: scale them first where they are far from mean 0 and variance 1, for example with
    `sklearn.compose.TransformedTargetRegressor`. In selection rules "accuracy" reads minus the mean squared error.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, np.newaxis]
    >>> model = NeuralRegressor("linear", max_epochs=20, learning_rate=0.1, random_state=0).fit(X, 2 * X[:, 0])
    >>> model.predict([[0.5]]).round(1).tolist()
    [1.0]
    """

    _score = staticmethod(minus_squared_error)
    _dropout, _loss = 0.0, "squared"

    def _learn_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        with as_ours(LabelsError):
            targets = np.asarray(read_column(y), dtype=np.float32)
        _check_length(targets, n_rows)
        if not np.isfinite(targets).all():
            raise LabelsError("Input y contains NaN or infinity. Drop those rows before fitting.")
        return targets

    def _known_targets(self, y: PerRow, n_rows: int) -> NDArray[Any]:
        return self._learn_targets(y, n_rows)

    def _n_outputs(self) -> int:
        return 1

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of each row."""
        return self.outputs(X)[:, 0].double().numpy()


def _check_length(labels: NDArray[Any], n_rows: int) -> None:
    if labels.shape != (n_rows,):
        raise LabelsError(
            f"Found input variables with inconsistent numbers of samples: y has shape {labels.shape} for {n_rows} "
            "rows. Pass one target for each row of X."
        )
