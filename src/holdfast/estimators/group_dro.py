"""Group DRO: the least worst-case risk over groups that somebody defined, environment × label by default."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from holdfast.environments import Group, cross_groups, listed
from holdfast.estimators.base import StableClassifier, TrainingRows, check_choice
from holdfast.exceptions import SmallGroupWarning
from holdfast.seeding import RandomState, Seeding
from holdfast.stages.interpolate import minimize_worst_case_risk


class GroupDROClassifier(StableClassifier):
    """Minimize the largest risk over known groups (Sagawa et al., 2020).

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
    solver, reweight_rounds, objective, selection, min_group_size, n_folds, n_jobs, random_state
        As for `PIClassifier`.

    Attributes
    ----------
    groups_, group_risks_, group_weights_, worst_case_risk_, gap_, solver_, history_, estimator_, environments_
    """

    __metadata_request__fit = {"environments": True, "group_labels": True}  # noqa: RUF012 - scikit-learn reads it

    def __init__(
        self,
        estimator: Any = None,
        *,
        solver: Literal["auto", "convex", "gradient", "reweight"] = "auto",
        reweight_rounds: int = 20,
        objective: Literal["max", "online"] = "max",
        selection: str | None = None,
        min_group_size: int = 5,
        n_folds: int = 2,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.solver = solver
        self.reweight_rounds = reweight_rounds
        self.objective = objective
        self.selection = selection
        self.min_group_size = min_group_size
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        environments: Any = None,
        group_labels: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        folds: Any = None,
    ) -> GroupDROClassifier:
        """Fit on the groups.

        Parameters
        ----------
        X, y : rows and labels
        environments : labels of shape (n_rows,), optional
            Groups are environment × label; the labels alone without environments.
        group_labels : labels of shape (n_rows,), optional
            The groups themselves, instead of environment × label.
        sample_weight : array of shape (n_rows,), optional
        validation : (X, y) or (X, y, group_labels), optional
            For networks: rows to select the epoch by.
        folds : labels of shape (n_rows,), optional
            Fold of each row for the reweighting solver.
        """
        check_choice(self, "objective", ("max", "online"))
        training = self._read_training(
            X, y, environments, sample_weight=sample_weight, group_labels=group_labels, folds=folds
        )
        self._solve(training, self._known_groups(training), self._read_validation(validation))
        return self

    def _known_groups(self, training: TrainingRows) -> tuple[Group, ...]:
        """Return the groups given by the caller, or environment × label."""
        if training.group_labels is not None:
            codes, names = training.group_labels
            return cross_groups(["group"], [codes], [[name.removeprefix("group ") for name in names]])
        environment_of_row = np.empty(training.n_rows, dtype=np.intp)
        for number, environment in enumerate(training.environments):
            environment_of_row[environment.rows] = number
        names = [environment.name for environment in training.environments]
        return cross_groups(
            ["environment", "label"], [environment_of_row, training.y], [names, [str(label) for label in self.classes_]]
        )

    def _solve(self, training: TrainingRows, groups: tuple[Group, ...], validation: Any) -> None:
        """Minimize the worst-case risk over the groups and keep what was found."""
        groups = drop_small_groups([g.weighted(training.sample_weight) for g in groups], self.min_group_size)
        solution = minimize_worst_case_risk(
            self._base_estimator(training.X),
            training.X,
            training.y,
            groups,
            n_classes=len(self.classes_),
            seeding=Seeding(self.random_state),
            solver=self.solver,
            objective=self.objective,
            reweight_rounds=self.reweight_rounds,
            folds=max(self.n_folds, 2) if training.folds is None else training.folds,
            validation=validation,
            selection=self.selection,
            n_jobs=self.n_jobs,
        )
        self.estimator_, self.solver_ = solution.estimator, solution.solver
        self.groups_, self.group_risks_, self.group_weights_ = groups, solution.group_risks, solution.group_weights
        self.worst_case_risk_, self.gap_, self.history_ = solution.worst_case_risk, solution.gap, solution.history


def drop_small_groups(groups: list[Group], min_group_size: int) -> tuple[Group, ...]:
    """Return the groups that are large enough, saying which are not; all of them when none is."""
    kept = tuple(group for group in groups if group.effective_size() >= min_group_size)
    small = [f"{g.name} ({g.effective_size():.0f})" for g in groups if g.effective_size() < min_group_size]
    if small and kept:
        warnings.warn(
            f"{len(small)} of {len(groups)} groups are below min_group_size={min_group_size} (effective) rows and are "
            f"dropped: {listed(small)}. Lower min_group_size to keep them.",
            SmallGroupWarning,
            stacklevel=4,
        )
    return kept or tuple(groups)
