"""Stage 3, interpolate: choose a solver and minimize the worst-case risk over groups.

The risk of a mixture of groups is linear in the mixing weights, so the worst mixture is a single group:
max over the simplex of sum_g q_g R_g(f) = max_g R_g(f). What is solved is min_f max_g R_g(f), by one of three solvers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.environments import Group, take_rows
from holdfast.exceptions import ParameterError
from holdfast.fitting.estimators import fit_rows, is_network, last_step, sample_weight_name, seeded_clone
from holdfast.fitting.kinds import Estimator
from holdfast.interpolation import SOLVERS, Solution, SolverSettings
from holdfast.rows.mapped import is_mapped
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import Seeding

log = logging.getLogger(__name__)


def choose_solver(estimator: Estimator, solver: str = "auto") -> str:
    """Return the solver for an estimator: exact for linear models, gradients for networks, else reweighting."""
    from holdfast.interpolation.convex.solver import supports_convex

    fits = {
        "convex": supports_convex(estimator),
        "gradient": is_network(estimator),
        "reweight": sample_weight_name(estimator) is not None,
    }
    name = type(last_step(estimator)).__name__
    if solver == "auto":
        chosen = next((candidate for candidate, suits in fits.items() if suits), None)
        if chosen is None:
            raise ParameterError(
                f"no solver fits {name}: it is neither a linear model that the convex solver knows nor a "
                "NeuralClassifier, and its fit takes no sample_weight. Use for example LogisticRegression or "
                "HistGradientBoostingClassifier."
            )
        return chosen
    if solver not in SOLVERS:
        raise ParameterError(
            f"The 'solver' parameter must be one of 'auto', {', '.join(map(repr, SOLVERS))}. Got {solver!r} instead."
        )
    if not fits[solver]:
        suited = [candidate for candidate, suits in fits.items() if suits]
        raise ParameterError(
            f"solver={solver!r} does not work for {name}. Use solver='auto'"
            + (f" or {suited[0]!r}." if suited else " and an estimator whose fit takes sample_weight.")
        )
    return solver


def minimize_worst_case_risk(
    estimator: Estimator,
    training: TrainingRows,
    groups: Sequence[Group],
    settings: SolverSettings,
    seeding: Seeding,
    *,
    n_classes: int | None,
    validation: ValidationRows | None = None,
) -> Solution:
    """Minimize the largest group risk over the parameters of an estimator, which is cloned.

    Groups may overlap; their weights include any sample weights. `n_classes` is None for regression, and `validation`
    rows are for the selection rules of networks.
    """
    chosen = choose_solver(estimator, settings.solver)
    estimator = seeded_clone(estimator, seeding, "stage 3")
    if chosen == "convex":
        from holdfast.interpolation.convex.solver import solve_convex

        solution = solve_convex(estimator, *_weighing(training, groups), n_classes=n_classes)
    elif chosen == "gradient":
        from holdfast.interpolation.gradient import NetworkFit, solve_gradient

        fit = NetworkFit(objective=settings.objective, validation=validation, selection=settings.selection)
        solution = solve_gradient(estimator, training, groups, seeding, fit)
    else:
        from holdfast.interpolation.reweight import solve_reweight

        solution = solve_reweight(estimator, training, groups, settings, seeding, n_classes=n_classes)
    worst = groups[int(np.argmax(solution.group_risks))].name
    log.info("stage 3: %s, worst-case risk %.4f in %s, gap %.2g", chosen, solution.worst_case_risk, worst, solution.gap)
    return solution


def minimize_mixture_risk(
    estimator: Estimator,
    training: TrainingRows,
    groups: Sequence[Group],
    mixture: NDArray[np.float64],
    seeding: Seeding,
    *,
    validation: ValidationRows | None = None,
    selection: str | None = None,
) -> Any:
    """Return the estimator with the least risk in one mixture of the groups, sum_g q_g R_g.

    `mixture` are the weights q_g on the simplex; networks take equal ones.
    """
    estimator = seeded_clone(estimator, seeding, "mixture")
    if is_network(estimator):
        from holdfast.interpolation.gradient import NetworkFit, fit_network

        fit = NetworkFit(objective="balanced", validation=validation, selection=selection, stage="training")
        return fit_network(estimator, training, groups, seeding, fit)
    weights = np.zeros(training.n_rows)
    for group, share in zip(groups, mixture, strict=True):
        np.add.at(weights, group.rows, share * group.probabilities())
    used = np.flatnonzero(weights > 0)
    # Their sum is that of the sample weights: the estimator's own penalty keeps its strength.
    return fit_rows(estimator, training.X, training.y, used, weights[used] * training.weights[used].sum())


def _weighing(training: TrainingRows, groups: Sequence[Group]) -> tuple[TrainingRows, Sequence[Group]]:
    """Leave out rows that weigh nothing in any group, so that they do not affect scaling or the penalty."""
    heavy = [group.weighing() for group in groups]
    used = np.unique(np.concatenate([group.rows for group in heavy])) if heavy else np.arange(training.n_rows)
    if len(used) == training.n_rows or is_mapped(training.X):
        return training, groups
    renumbered = [replace(group, rows=np.searchsorted(used, group.rows)) for group in heavy]
    weights = None if training.sample_weight is None else training.sample_weight[used]
    return TrainingRows(take_rows(training.X, used), training.y[used], (), weights), renumbered
