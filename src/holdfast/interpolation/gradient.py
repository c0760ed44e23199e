"""The solver for networks: stochastic gradients of the worst group, or of exponentiated weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor

from holdfast.environments import Group, take_rows
from holdfast.exceptions import ParameterError
from holdfast.fitting.estimators import network_in, trained_network
from holdfast.fitting.kinds import Estimator, Network, Predictor, TrainedNetwork
from holdfast.fitting.splitter import leave_out
from holdfast.interpolation import Solution
from holdfast.neural.evaluation import evenly
from holdfast.neural.objectives import Objective
from holdfast.neural.selection import LEAVE_ONE_OUT
from holdfast.rows.mapped import MappedRows, fit_transformers, is_mapped
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import Seeding

_RISK_ROWS = 1000  # of each group, evenly spaced: all rows of an image set take as long as training epochs


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkFit:
    """What a network is trained for, and by what its epoch is selected."""

    objective: str | Objective = "max"  # see holdfast.neural.objectives
    validation: ValidationRows | None = None  # rows that select the epoch, with class codes
    selection: str | None = None  # selection rule; None: the estimator's
    stage: str = "stage 3"  # what monitors call the training


def fit_network(
    estimator: Estimator, training: TrainingRows, groups: Sequence[Group], seeding: Seeding, fit: NetworkFit
) -> Any:
    """Train a network, or a pipeline that ends in one, on groups of rows; return the estimator, fitted itself.

    A pipeline's transformers are fitted on all rows. Groups may overlap. The training's environments are those of the
    selection rules "other_environments" and "leave_one_environment_out".
    """
    _train(estimator, training, groups, seeding, fit)
    return estimator


def solve_gradient(
    estimator: Estimator, training: TrainingRows, groups: Sequence[Group], seeding: Seeding, fit: NetworkFit
) -> Solution:
    """Minimize the largest group risk of a network; parameters as for `fit_network`.

    There is no certificate: `gap` is NaN. As in the paper the group risks are those of training rows (at most 1,000 of
    each group), which a network that memorizes them makes look better than they are.
    """
    X = _train(estimator, training, groups, seeding, fit)
    network = trained_network(estimator)
    assert network is not None, "it was trained"
    return Solution(
        estimator=cast("Predictor", estimator),
        group_risks=_group_risks(network, X, training.y, groups),
        gap=float("nan"),
        group_weights=network.group_weights_,
        solver="gradient",
        history=network.history_,
    )


def _train(
    estimator: Estimator, training: TrainingRows, groups: Sequence[Group], seeding: Seeding, fit: NetworkFit
) -> Any:
    """Fit the estimator; return the rows as its network saw them."""
    network = network_in(estimator)
    assert network is not None, "the solver is for networks"
    X, transform = fit_transformers(estimator, training.X, training.y, training.sample_weight)
    if fit.validation is not None:
        fit = replace(fit, validation=fit.validation._replace(X=transform(fit.validation.X)))
    if network.get_params(deep=False)["random_state"] is None:
        network.set_params(random_state=seeding.integer("random_state", fit.stage) % 2**31)
    if network.selection_rule(fit.selection) == LEAVE_ONE_OUT:
        network.set_params(max_epochs=_epochs_left_out(network, replace(training, X=X), groups, fit))
        fit = replace(fit, selection="last")
    network.fit_groups(
        X,
        training.y,
        groups,
        objective=fit.objective,
        environments=training.environments,
        validation=fit.validation,
        selection=fit.selection,
        stage=fit.stage,
    )
    return X


def _epochs_left_out(network: Network, training: TrainingRows, groups: Sequence[Group], fit: NetworkFit) -> int:
    """Return for how many epochs to train: the median of trainings that each leave one environment out to select by."""
    if len(training.environments) < 2:
        raise ParameterError(
            f"selection={LEAVE_ONE_OUT!r} trains without each environment in turn and so needs at least 2. "
            f"Got {len(training.environments)}."
        )
    X, y = training.X, training.y
    epochs = []
    for part in leave_out(training.environments):
        kept = np.ones(len(y), dtype=bool)
        kept[part.out] = False
        inside = [_part(group, kept) for group in groups if kept[group.rows].any()]
        left_out = MappedRows(X, part.out) if is_mapped(X) else take_rows(X, part.out)
        trained = clone(network).fit_groups(
            X,
            y,
            inside,
            objective=fit.objective,
            validation=(left_out, y[part.out]),
            selection="validation_accuracy",
            stage=f"{fit.stage} without {part.names[0]}",
        )
        epochs.append(trained.selected_.scores.epoch)
    return int(np.median(epochs))


def _part(group: Group, mask: NDArray[np.bool_]) -> Group:
    """Return the group's rows inside the mask; all of them where that would leave none."""
    inside = mask[group.rows]
    if inside.all() or not inside.any():
        return group
    return group.part(inside)


def _group_risks(network: TrainedNetwork, X: Any, y: NDArray[Any], groups: Sequence[Group]) -> NDArray[np.float64]:
    """Return each group's risk under the training loss, from one pass over some rows of each group."""
    import torch  # not above: where it is missing, holdfast.neural says what to install

    places = [evenly(np.arange(len(group)), _RISK_ROWS) for group in groups]
    rows = np.unique(np.concatenate([group.rows[some] for group, some in zip(groups, places, strict=True)]))
    outputs = network.outputs(X, rows)
    if is_regressor(network):
        targets = torch.from_numpy(np.asarray(y, dtype=np.float32)[rows])
    else:
        targets = torch.from_numpy(np.searchsorted(network.classes_, y[rows]))
    losses = np.zeros(len(y))
    losses[rows] = network.row_loss()(outputs, targets).double().numpy()
    return np.array(
        [
            np.average(losses[group.rows[some]], weights=None if group.weights is None else group.weights[some])
            for group, some in zip(groups, places, strict=True)
        ]
    )
