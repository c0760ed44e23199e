"""Predict then interpolate: the mistakes that environments' classifiers make about each other tell what is unstable."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from holdfast.environments import Group, Partition, listed, take_rows
from holdfast.estimators.base import StableClassifier, StableEstimator, check_choice, warn_single_environment
from holdfast.estimators.erm import fit_erm
from holdfast.exceptions import EnvironmentsError, ParameterError, PrevalenceWarning
from holdfast.interpolation import SOLVERS, Solution
from holdfast.interpolation.invariant import solve_invariant
from holdfast.interpolation.worst_case import choose_solver, minimize_worst_case_risk
from holdfast.judging.judges import (
    EnvironmentClassifier,
    cross_predict,
    cross_probabilities,
    fit_environment_classifiers,
)
from holdfast.learners import last_step
from holdfast.partition import (
    accuracy_matrix,
    halves_as_groups,
    halves_at_chance,
    large_halves,
    partition_by_correctness,
    partition_by_probability,
    warn_of_constant_judges,
)
from holdfast.rows import TrainingRows
from holdfast.seeding import RandomState, Seeding

if TYPE_CHECKING:
    from holdfast.audit import Audit

UNLIKE_PREVALENCE = 0.25  # range of a class's share over environments from which on a warning is due


def class_shares(training: TrainingRows, n_classes: int) -> NDArray[np.float64]:
    """Return the class shares of each environment, (n_environments, n_classes)."""
    weights = np.ones(training.n_rows) if training.sample_weight is None else training.sample_weight
    counts = [np.bincount(training.y[e.rows], weights[e.rows], minlength=n_classes) for e in training.environments]
    return np.stack([count / max(count.sum(), 1e-12) for count in counts])


def warn_of_prevalence(training: TrainingRows, classes: NDArray[Any], *, stacklevel: int = 5) -> None:
    """Say where label frequencies differ much between environments."""
    shares = class_shares(training, len(classes))
    unlike = [
        f"{classes[code]} ({shares[:, code].min():.0%} to {shares[:, code].max():.0%})"
        for code in range(len(classes))
        if np.ptp(shares[:, code]) > UNLIKE_PREVALENCE
    ]
    if unlike:
        warnings.warn(
            f"label frequencies differ between environments: {listed(unlike)}. Frequencies are taken out of the "
            "comparison and risks are balanced over classes; at a new environment probabilities assume the frequencies "
            "of all rows. If its own are known, multiply the odds accordingly.",
            PrevalenceWarning,
            stacklevel=stacklevel,
        )


log = logging.getLogger(__name__)


def refine_halves(
    partitions: tuple[Partition, ...],
    training: TrainingRows,
    fit_judge: Callable[[Sequence[Group], str, int], Solution],
    *,
    rounds: int,
    min_group_size: int,
) -> tuple[list[Group], int]:
    """Cut the halves again until `rounds` are done, nothing changes or the halves get too small.

    Parameters
    ----------
    partitions : tuple of Partition
        Of the first round, hard halves.
    training : TrainingRows
    fit_judge : callable
        `(groups, environment, round) -> Solution`, the least worst-case risk over the halves of one environment.
    rounds : int
        Largest number of rounds, the first one included.
    min_group_size : int
        A cut that leaves less than this on either side is not made.

    Returns
    -------
    list of Group, int
        The last round's halves and the number of rounds that changed anything.
    """
    halves = {(p.judge, p.judged): [half for half in p.groups() if len(half)] for p in partitions}
    for number in range(2, rounds + 1):
        refined = _cut_again(halves, training, fit_judge, number, min_group_size)
        n_before, n_after = (sum(map(len, pairs.values())) for pairs in (halves, refined))
        log.info("round %d: %d halves cut into %d", number, n_before, n_after)
        if n_after == n_before:
            return list(itertools.chain(*halves.values())), number - 1
        halves = refined
    return list(itertools.chain(*halves.values())), rounds


def _cut_again(
    halves: dict[tuple[str, str], list[Group]],
    training: TrainingRows,
    fit_judge: Callable[[Sequence[Group], str, int], Solution],
    number: int,
    min_group_size: int,
) -> dict[tuple[str, str], list[Group]]:
    """Return the halves of every pair, each cut by the judge's new classifier where both sides are large enough."""
    judges = {}
    for environment in dict.fromkeys(judge for judge, _ in halves):
        own = [half for (_, judged), parts in halves.items() if judged == environment for half in parts]
        large = [half for half in own if len(half) >= min_group_size] or own
        groups = [half.weighted(training.sample_weight) for half in large]
        judges[environment] = fit_judge(groups, environment, number).estimator
    return {
        (judge, judged): [part for half in parts for part in _cut(half, judges[judge], training, min_group_size)]
        for (judge, judged), parts in halves.items()
    }


def _cut(half: Group, classifier: Any, training: TrainingRows, min_group_size: int) -> list[Group]:
    """Cut one half by correctness, or keep it whole."""
    right = np.asarray(classifier.predict(take_rows(training.X, half.rows))) == training.y[half.rows]
    if min(right.sum(), (~right).sum()) < min_group_size:
        return [half]
    return [Group(f"{half.name}, correct", half.rows[right]), Group(f"{half.name}, mistaken", half.rows[~right])]


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


class PIClassifier(PredictThenInterpolate, StableClassifier):
    """Train a classifier on what holds in every environment.

    One classifier is fitted on each environment; each judges the other environments, cutting them into correct and
    mistaken rows; the final classifier is fitted to an interpolation of these halves: the one under which its risk is
    the same in every environment (the default for tables), or the worst one (the paper's, and the default for
    networks).

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
        Fitted on each environment and, in the end, on the groups. None: columns scaled to unit variance, then a
        logistic regression. A Pipeline works; its last step must take `sample_weight`.
    solver : "auto", "convex", "gradient" or "reweight"
        How the min–max problem is solved: exactly for logistic regression, by gradients for networks, by reweighted
        fits for everything else.
    halves : "auto", "hard" or "soft"
        Rows cut by whether the judge is right, or every row in both halves, weighted by the judge's probability. Auto:
        soft for the invariant interpolation, hard for the worst case.
    interpolation : "auto", "worst_case" or "invariant"
        The least worst-case risk over all mixtures of the halves, as in the paper; or the one (geometric) mixture under
        which the risk is the same in every environment, found by risks out of fold and approached as far as the judges
        can be trusted, which keeps what environments share where the worst case is too harsh. The latter then is one
        fit of the estimator; `groups_` are the environments, and `gap_` is the difference of their risks. Plain ERM,
        with a warning, where nothing differs.
        Auto: invariant, but the worst case for networks, with `group_labels`, and wherever a setting asks for it
        (`halves="hard"`, a `solver`, `rounds` above 1, `n_folds` below 2).
    rounds : int
        Largest number of rounds of stages 1 and 2: each further one cuts the halves again, by judges that are already
        best in the worst half of their own environment, for a second unstable feature behind the first. It stops by
        itself when nothing changes. Needs hard halves.
    reweight_rounds : int
        Largest number of fits of each fold by the reweighting solver.
    objective : "max", "online" or "chance"
        For networks: differentiate the worst group alone, or weight the groups by exponentiated risks, or take the one
        mixture in which every judge is right as often as chance (1/K correct, 1 − 1/K mistaken rows).
    selection : str or None
        For networks: the rule that selects the final classifier's epoch; None: the network's own.
    judge_selection : str or None
        For networks: the rule that selects each judge's epoch, by default the accuracy on the environments it was not
        trained on, as in the paper's code.
    min_group_size : int
        Environments with fewer rows are merged; halves with fewer (effective) rows are dropped; both with a warning.
    n_folds : int
        Folds for predicting rows out of fold: a judge's own rows, and the groups of the reweighting solver. With 0 a
        judge's accuracy on its own environment stays unknown (NaN). The invariant interpolation has folds of its own.
    n_jobs : int or None
        Fits that run at the same time.
    random_state : int or None

    Attributes
    ----------
    environments_ : array of shape (n_environments,)
        Environment labels.
    environment_classifiers_ : dict of label to fitted estimator
        Stage 1; they predict class codes.
    partitions_ : tuple of Partition
        Stage 2: judge, judged, and the row numbers of both halves.
    accuracies_ : array of shape (n_environments, n_environments)
        Accuracy of each judge (row) in each environment (column); the diagonal is out of fold.
    groups_ : tuple of Group
        The halves that entered stage 3; with the invariant interpolation, the environments.
    group_risks_, worst_case_risk_, gap_ : array, float, float
        Risk of each group under the final classifier, the largest one, and how far from the optimum it can be (the
        duality gap of the convex solver, the ensemble's for reweighting, NaN for networks; with the invariant
        interpolation, by how much the environments' risks differ).
    group_weights_ : array of shape (n_groups,)
        The worst mixture of the groups; with the invariant interpolation, by what each environment's judge is weighted
        in the step away from ERM: sum zero, all zero for plain ERM.
    estimator_ : fitted estimator over class codes
    halves_, interpolation_ : str
        What was used.
    solver_ : str
        With the invariant interpolation, "invariant".
    rounds_ : int
        Rounds that changed the halves.
    history_ : list of dict, one for each iteration, round or epoch
    validation_score_ : float
        Accuracy on the validation rows, where some were given.
    classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = PIClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> float(model.score(toy.test.X, toy.test.y))
    0.8
    """

    __metadata_request__fit = {"environments": True, "group_labels": True}  # scikit-learn reads this

    def __init__(
        self,
        estimator: Any = None,
        *,
        solver: Literal["auto", "convex", "gradient", "reweight"] = "auto",
        halves: Literal["auto", "hard", "soft"] = "auto",
        interpolation: Literal["auto", "worst_case", "invariant"] = "auto",
        rounds: int = 1,
        reweight_rounds: int = 20,
        objective: Literal["max", "online", "chance"] = "max",
        selection: str | None = None,
        judge_selection: str | None = "other_environments",
        min_group_size: int = 5,
        n_folds: int = 2,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.solver = solver
        self.halves = halves
        self.interpolation = interpolation
        self.rounds = rounds
        self.reweight_rounds = reweight_rounds
        self.objective = objective
        self.selection = selection
        self.judge_selection = judge_selection
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
    ) -> PIClassifier:
        """Fit in three stages.

        Parameters
        ----------
        X : array, sparse matrix, frame, images of shape (n_rows, …) or list of texts
        y : labels of shape (n_rows,)
        environments : labels of shape (n_rows,)
            Which environment each row came from. None, or one label only: plain ERM, with a warning.
        group_labels : labels of shape (n_rows,), optional
            A bias that is known; it refines the halves.
        sample_weight : array of shape (n_rows,), optional
            Reaches every stage.
        validation : (X, y) or (X, y, group_labels), optional
            For networks: rows to select the epoch by; the others are only scored on them (`validation_score_`).
        folds : labels of shape (n_rows,), optional
            Fold of each row, so that rows of one patient stay together.
        """
        self._check_parameters(known_groups=group_labels is not None)
        training = self._read_training(
            X, y, environments, sample_weight=sample_weight, group_labels=group_labels, folds=folds
        )
        validation = self._read_validation(validation)
        seeding = Seeding(self.random_state)
        self.halves_, self.interpolation_ = self._choose_stages(known_groups=group_labels is not None)
        if warn_single_environment(len(training.environments), type(self).__name__):
            self.accuracies_ = np.full((1, 1), np.nan)
            return self._fit_alone(training, seeding, validation)
        if self.halves_ == "soft":
            training.check_folds()
        estimator = self._base_estimator(training.X)
        # Before any work: an estimator that no solver fits is refused now, not after stage 1.
        worst_case = self.interpolation_ == "worst_case"
        self.solver_ = choose_solver(estimator, self.solver) if worst_case else "invariant"
        if self.objective == "chance" and self.solver_ != "gradient":
            raise ParameterError("objective='chance' is for networks. Use a NeuralClassifier, or leave it out.")
        if self.objective == "chance" and self.rounds > 1:
            raise ParameterError("objective='chance' takes the halves of one round. Set rounds to 1.")

        # Stage 1: one classifier for each environment, then ask each about the rows it was not fitted on.
        classifiers = self._fit_environments(estimator, training, seeding)
        predictions = cross_predict(classifiers, training.X, training.y)
        warn_of_constant_judges(predictions, training.environments, self.classes_)

        # Stage 2: cut every judged environment by correctness.
        if self.halves_ == "hard":
            self.partitions_ = partition_by_correctness(
                predictions, training.y, training.environments, sample_weight=training.sample_weight
            )
        else:
            probabilities, _ = cross_probabilities(
                classifiers, training.X, training.y, len(self.classes_), sample_weight=training.sample_weight
            )
            self.partitions_ = partition_by_probability(
                probabilities, training.y, training.environments, sample_weight=training.sample_weight
            )
        self.accuracies_ = accuracy_matrix(predictions, training.y, training.environments, training.sample_weight)

        # Stage 3: the least worst-case risk over all interpolations of the halves, or the invariant one.
        interpolate = self._interpolate if self.interpolation_ == "worst_case" else self._interpolate_invariantly
        interpolate(estimator, training, seeding, n_classes=len(self.classes_), validation=validation)
        return self

    def audit(
        self,
        X: Any,
        y: Any,
        environments: Any = None,
        *,
        attributes: Any = None,
        judge: Any = None,
        names: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        level: float = 0.05,
        correction: Literal["holm", "yekutieli", "hochberg"] = "holm",
        n_permutations: int | Literal["auto"] = "auto",
        n_folds: int = 20,
        min_group_size: int = 30,
        min_count: int = 10,
        n_words: tuple[int, int] = (1, 2),
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> Audit:
        """Rank the columns, words or attributes whose correlation with the label changes between environments.

        Parameters
        ----------
        X, y : rows and labels
        environments : labels of shape (n_rows,), optional
            None: the rows are those of `fit`, in the same order.
        attributes, judge, names, groups, level, correction, n_permutations, n_folds, min_group_size, min_count, \
n_words, n_jobs, random_state
            As in `holdfast.audit.audit_data`. Pass `judge=model.estimator` to judge with this estimator.
        """
        check_is_fitted(self)
        if environments is None:
            environments = self._fitted_environments(len(y))
        run = import_module("holdfast.audit").audit_data  # a layer above this one: it is looked up, not imported
        audit: Audit = run(
            X,
            y,
            environments,
            attributes=attributes,
            judge=judge,
            names=names,
            groups=groups,
            level=level,
            correction=correction,
            n_permutations=n_permutations,
            n_folds=n_folds,
            min_group_size=min_group_size,
            min_count=min_count,
            n_words=n_words,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        return audit

    def _fitted_environments(self, n_rows: int) -> np.ndarray[Any, Any]:
        """Return the environment of each row of `fit`, for as many rows as were fitted."""
        judged = {p.judged: np.concatenate([p.correct, p.mistaken]) for p in self.partitions_}
        n_fitted = max((int(rows.max()) + 1 for rows in judged.values()), default=0)
        if n_fitted != n_rows:
            raise EnvironmentsError(
                f"Without environments an audit takes the rows of fit, which were {n_fitted} in several environments. "
                f"Got {n_rows} labels instead. Pass environments=, one label for each row."
            )
        labels = np.empty(n_rows, dtype=object)
        for name, rows in judged.items():
            labels[rows] = name
        return labels

    def _choose_stages(self, *, known_groups: bool) -> tuple[str, str]:
        """Return the halves and the interpolation that "auto" stands for."""
        network = hasattr(last_step(self.estimator), "fit_groups")
        asked = self.halves == "hard" or self.solver != "auto" or self.rounds > 1 or self.n_folds < 2
        interpolation: str = self.interpolation
        if interpolation == "auto":
            interpolation = "worst_case" if network or asked or known_groups else "invariant"
        halves: str = self.halves
        if halves == "auto":
            halves = "soft" if interpolation == "invariant" and self.n_folds >= 2 else "hard"
        return halves, interpolation

    def _check_parameters(self, *, known_groups: bool) -> None:
        """Refuse values outside of what the parameters may be."""
        check_choice(self, "halves", ("auto", "hard", "soft"))
        check_choice(self, "interpolation", ("auto", "worst_case", "invariant"))
        check_choice(self, "objective", ("max", "online", "chance"))
        check_choice(self, "solver", ("auto", *SOLVERS))
        if self.interpolation == "invariant" and (self.solver != "auto" or known_groups):
            what = f"solver={self.solver!r}" if self.solver != "auto" else "group_labels"
            raise ParameterError(
                f"interpolation='invariant' compares environments and has a solver of its own, so that {what} would "
                "have no effect. Leave it out, or set interpolation='worst_case'."
            )
        if self.halves == "soft" and self.n_folds < 2:
            raise ParameterError("halves='soft' needs probabilities out of fold. Set n_folds to 2 or more.")
        if not isinstance(self.rounds, int | np.integer) or self.rounds < 1:
            raise ParameterError(
                f"The 'rounds' parameter of PIClassifier must be an integer >= 1. Got {self.rounds!r} instead."
            )
        if self.rounds > 1 and self.interpolation == "invariant":
            raise ParameterError("The 'rounds' parameter of PIClassifier above 1 needs interpolation='worst_case'.")
        if self.rounds > 1 and self.halves == "soft":
            raise ParameterError(
                "The 'rounds' parameter of PIClassifier above 1 needs halves='hard'. Set one of the two."
            )
