"""Networks as scikit-learn estimators, trained by the one loop on one group of rows or on many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from holdfast.batches import Vocabulary
from holdfast.environments import missing_labels, unique_labels
from holdfast.estimators.neural_base import NeuralEstimator
from holdfast.estimators.reading import as_ours, read_column
from holdfast.exceptions import LabelsError
from holdfast.networks import Factory
from holdfast.risks import Loss
from holdfast.seeding import RandomState
from holdfast.training import Precision, Schedule, minus_squared_error

__all__ = ["NeuralClassifier", "NeuralRegressor"]


class NeuralClassifier(ClassifierMixin, NeuralEstimator):
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
        labels = read_column(y)
        _check_length(labels, n_rows)
        if missing_labels(labels).any():
            raise LabelsError("Input y contains NaN or None. Drop those rows before fitting.")
        with as_ours(LabelsError), np.errstate(invalid="ignore"):  # infinity has no integer; the check refuses it
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
        codes = self.outputs(X).argmax(1).numpy()
        return self.classes_[codes]  # type: ignore[no-any-return]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each label, columns in the order of `classes_`."""
        return torch.softmax(self.outputs(X).double(), dim=1).numpy()


class NeuralRegressor(RegressorMixin, NeuralEstimator):
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
            targets = np.asarray(read_column(y), dtype=np.float32)
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
        return self.outputs(X)[:, 0].double().numpy()


def _check_length(labels: NDArray[Any], n_rows: int) -> None:
    if labels.shape != (n_rows,):
        raise LabelsError(
            f"Found input variables with inconsistent numbers of samples: y has shape {labels.shape} for {n_rows} "
            "rows. Pass one target for each row of X."
        )
