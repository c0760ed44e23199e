"""What predict-then-interpolate does alike for classes and for numbers: fitting judges and interpolating halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from holdfast.environments import Group, Partition
from holdfast.estimators.base import StableEstimator
from holdfast.estimators.erm import fit_erm
from holdfast.estimators.prevalence import warn_of_prevalence
from holdfast.estimators.reading import TrainingRows
from holdfast.estimators.refinement import refine_halves
from holdfast.fitting import last_step
from holdfast.seeding import RandomState, Seeding
from holdfast.solvers import Solution
from holdfast.solvers.invariant import solve_invariant
from holdfast.stages.interpolate import minimize_worst_case_risk
from holdfast.stages.partition import halves_as_groups, halves_at_chance, large_halves
from holdfast.stages.predict import EnvironmentClassifier, fit_environment_classifiers


class PredictThenInterpolate(StableEstimator):
    """Stages 1 and 3 and their settings."""

    _judges = True
    solver: str
    rounds: int = 1
    objective: str
    selection: str | None
    judge_selection: str | None
    reweight_rounds: int
    n_folds: int
    n_jobs: int | None
    random_state: RandomState
    partitions_: tuple[Partition, ...]

    def _fit_environments(
        self, estimator: Any, training: TrainingRows, seeding: Seeding
    ) -> tuple[EnvironmentClassifier, ...]:
        """Fit one copy of the estimator on each environment, and keep them."""
        classifiers = fit_environment_classifiers(
            estimator,
            training.X,
            training.y,
            training.environments,
            classes=getattr(self, "classes_", None),
            seeding=seeding,
            sample_weight=training.sample_weight,
            n_folds=self.n_folds,
            folds=training.folds,
            selection=self.judge_selection,
            n_jobs=self.n_jobs,
        )
        self.environment_classifiers_ = {c.environment.label: c.estimator for c in classifiers}
        return classifiers

    def _interpolate(
        self, estimator: Any, training: TrainingRows, seeding: Seeding, *, n_classes: int | None, validation: Any
    ) -> None:
        """Minimize the worst-case risk over the halves, and keep what was found."""
        options: dict[str, Any] = {
            "min_group_size": self.min_group_size,
            "sample_weight": training.sample_weight,
            "group_labels": training.group_labels,
        }
        partitions = self.partitions_
        if self.objective == "chance":
            partitions = halves_at_chance(partitions, n_classes or 2, sample_weight=training.sample_weight)
            options["sample_weight"] = None  # it is in the halves' weights
        groups = halves_as_groups(partitions, **options)
        self.rounds_ = 1
        if self.rounds > 1:
            halves, self.rounds_ = self._refine(estimator, training, seeding, n_classes)
            groups = large_halves(halves, **options)
        self.groups_ = groups or _environment_groups(training)
        solution = self._minimize(estimator, training, self.groups_, seeding, n_classes, validation)
        self._keep(solution)
        self._score_validation(validation)

    def _interpolate_invariantly(
        self, estimator: Any, training: TrainingRows, seeding: Seeding, *, n_classes: int | None, validation: Any
    ) -> None:
        """Fit where the risk is the same in every environment, and keep what was found."""
        warn_of_prevalence(training, getattr(self, "classes_", np.empty(0)))
        solution = solve_invariant(
            estimator,
            training.X,
            training.y,
            training.environments,
            n_classes=n_classes or 0,
            seeding=seeding,
            sample_weight=training.sample_weight,
            folds=training.folds,
            n_jobs=self.n_jobs,
        )
        self.groups_, self.rounds_ = _environment_groups(training), 1
        self._keep(solution)
        self._score_validation(validation)

    def _refine(
        self, estimator: Any, training: TrainingRows, seeding: Seeding, n_classes: int | None
    ) -> tuple[list[Group], int]:
        """Cut the halves again, by judges that are best in the worst half of their own environment."""

        def fit_judge(groups: Sequence[Group], environment: str, number: int) -> Solution:
            streams = seeding.child("round", number, environment)
            return self._minimize(estimator, training, groups, streams, n_classes, None)

        return refine_halves(
            self.partitions_, training, fit_judge, rounds=self.rounds, min_group_size=self.min_group_size
        )

    def _minimize(
        self,
        estimator: Any,
        training: TrainingRows,
        groups: Sequence[Group],
        seeding: Seeding,
        n_classes: int | None,
        validation: Any,
    ) -> Solution:
        """Minimize the worst-case risk over groups with this estimator's settings."""
        return minimize_worst_case_risk(
            estimator,
            training.X,
            training.y,
            groups,
            n_classes=n_classes,
            seeding=seeding,
            solver=self.solver_,
            objective="pooled" if self.objective == "chance" else self.objective,
            reweight_rounds=self.reweight_rounds,
            folds=max(self.n_folds, 2) if training.folds is None else training.folds,
            environments=training.environments,
            validation=validation,
            selection=self.selection,
            n_jobs=self.n_jobs,
        )

    def _fit_alone(self, training: TrainingRows, seeding: Seeding, validation: Any) -> Self:
        """Fit plain ERM: with one environment there is nothing to compare."""
        estimator = self._base_estimator(training.X)
        self.estimator_ = fit_erm(estimator, training, seeding, validation=validation, selection=self.selection)
        self.environment_classifiers_ = {training.environments[0].label: self.estimator_}
        self.partitions_, self.groups_ = (), ()
        self.group_risks_ = self.group_weights_ = np.empty(0)
        self.worst_case_risk_ = self.gap_ = float("nan")
        self.solver_, self.rounds_ = "erm", 1
        self.history_ = getattr(last_step(self.estimator_), "history_", [])
        self._score_validation(validation)
        return self


def _environment_groups(training: TrainingRows) -> tuple[Group, ...]:
    """Return the environments themselves as groups, for when no half is left."""
    return tuple(
        Group(environment.name, environment.rows).weighted(training.sample_weight)
        for environment in training.environments
    )
