"""Predict then Interpolate: classifiers of other environments cut the rows into correct and mistaken halves."""

from __future__ import annotations

import copy
import inspect
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from holdfast.auditing import Audit, AuditSettings, audit_data
from holdfast.environments import Group, Partition, PerRow, take_rows
from holdfast.estimators.base import MethodClassifier, MethodEstimator, check_choice, fit_erm, warn_single_environment
from holdfast.exceptions import CollapseWarning, HoldfastWarning, ParameterError, warn
from holdfast.fitting.estimators import (
    code_probabilities,
    has_probabilities,
    is_network,
    last_step,
    network_in,
    predicted_codes,
)
from holdfast.fitting.kinds import Estimator, Predictor
from holdfast.interpolation import SOLVERS, Solution
from holdfast.interpolation.worst_case import choose_solver
from holdfast.judging.judgements import Judgements, accuracy_matrix, judge_environments
from holdfast.judging.judges import JudgeSettings
from holdfast.metrics import Interval
from holdfast.partition import (
    halves_as_groups,
    halves_at_chance,
    large_halves,
    partition_by_correctness,
    partition_by_probability,
    warn_of_constant_judges,
)
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.network import DETECTABLE, LIKELY, weigh

if TYPE_CHECKING:
    from holdfast.neural.estimator import NeuralEstimator

# A classifier that gives this share of the rows one label, where the label's own share is at most the second number.
CONSTANT, SHARED = 0.98, 0.9
HIGH_PRICE = 0.02  # accuracy that PI may lose on validation rows before its need is asked about
MANY_HALVES = 1000  # from which on networks take so long that it is said before they start

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Collapse:
    """What a classifier that has learned nothing predicts."""

    label: Any  # its most frequent prediction
    share: float  # of the rows that have it
    chance: float  # the risk of guessing


@dataclass(frozen=True)
class Recipe:
    """How networks are trained at chance where the defaults are not the best: parameters that the user has not set."""

    judges: Mapping[str, Any]  # parameters of the judges' network
    final: Mapping[str, Any]  # of the final classifier's network
    images: Mapping[str, Any]  # parameters of the network "cnn" in the final classifier

    def network(self, estimator: Estimator, *, final: bool) -> Any:
        """Return a copy of a network, or of a pipeline that ends in one, with the recipe's parameters."""
        copied = clone(estimator)
        network = last_step(copied)
        network.set_params(**_unset(network, self.final if final else self.judges))
        if final and network.network == "cnn":
            network.set_params(**_unset(network, self.images))
        return copied


def _unset(estimator: NeuralEstimator, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of those parameters that the estimator has and that are still at their defaults."""
    known, given = inspect.signature(type(estimator).__init__).parameters, estimator.get_params(deep=False)
    return {
        name: value
        for name, value in values.items()
        if estimator.takes(name) and (name not in given or (name in known and given[name] == known[name].default))
    }


# For labels of which some are wrong. The cross-entropy learns wrong labels by heart, and the maximum of the risks looks
# for them; the generalized one gives them up, and the mixture at chance takes every half. Judges find what is
# unstable early, so they stop as soon as other environments say so.
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "robust": Recipe(
            judges={"loss": "gce", "steps_per_epoch": 25, "patience": 2, "training__weight_averaging": 0.9},
            final={
                "loss": "gce",
                "max_epochs": 16,
                "steps_per_epoch": 50,
                "batch_size": 100,
                "learning_rate": 2e-3,
                "weight_decay": 1e-4,
                "scheduler": "cosine",
                "network__dropout": 0.3,
                "training__weight_averaging": 0.99,
            },
            images={"network__shift": 1},
        )
    }
)


FitJudge = Callable[[Sequence[Group], str, int], Solution]  # least worst-case risk over groups; name and round seed it


def refine_halves(
    partitions: tuple[Partition, ...],
    training: TrainingRows,
    fit_judge: FitJudge,
    *,
    rounds: int,
    min_group_size: int,
    refinement: Literal["worst_case", "environments"] = "worst_case",
) -> list[list[Group]]:
    """Cut the hard halves of the first round again until `rounds` are done or no half is cut any more.

    `fit_judge(groups, name, round)` finds the least worst-case risk over groups. A cut that leaves less than
    `min_group_size` rows on either side is not made. Returns the halves of every round that changed anything, the first
    one included.
    """
    halves = {(p.judge, p.judged): [half for half in p.groups() if len(half)] for p in partitions}
    history = [list(itertools.chain(*halves.values()))]
    for number in range(2, rounds + 1):
        if refinement == "environments":
            refined = _cut_as_environments(history[-1], training, fit_judge, number, min_group_size)
        else:
            halves = _cut_again(halves, training, fit_judge, number, min_group_size)
            refined = list(itertools.chain(*halves.values()))
        log.info("round %d: %d halves cut into %d", number, len(history[-1]), len(refined))
        if {half.rows.tobytes() for half in refined} <= {half.rows.tobytes() for half in history[-1]}:
            break
        history.append(refined)
    return history


def _cut_as_environments(
    halves: Sequence[Group], training: TrainingRows, fit_judge: FitJudge, number: int, min_group_size: int
) -> list[Group]:
    """Return the halves as the paper refines them: each is an environment, whose classifier cuts all others.

    Parts that several judges cut alike are there once.
    """
    large = [half for half in halves if len(half) >= min_group_size]
    judges = [
        (half, fit_judge([half.weighted(training.sample_weight)], half.name, number).estimator)
        for half in large
        if len(np.unique(training.y[half.rows])) > 1  # of one label there is nothing to learn
    ]
    parts = {
        part.rows.tobytes(): part
        for judged in large
        for judge, classifier in judges
        if judge is not judged
        for part in _cut(judged, classifier, training, min_group_size)
    }
    return list(parts.values())


def _cut_again(
    halves: dict[tuple[str, str], list[Group]],
    training: TrainingRows,
    fit_judge: FitJudge,
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


def _cut(half: Group, classifier: Predictor, training: TrainingRows, min_group_size: int) -> list[Group]:
    """Cut one half by correctness, or keep it whole."""
    right = predicted_codes(classifier, take_rows(training.X, half.rows)) == training.y[half.rows]
    if min(right.sum(), (~right).sum()) < min_group_size:
        return [half]
    return [Group(f"{half.name}, correct", half.rows[right]), Group(f"{half.name}, mistaken", half.rows[~right])]


def _warn_of_cost(estimator: Estimator, n_environments: int) -> None:
    """Say before the start what a network costs with many environments."""
    n_halves, n_rows = 2 * n_environments * (n_environments - 1), last_step(estimator).batch_size
    log.info("%d judges, then %d halves with up to %d rows each in a step", n_environments, n_halves, n_rows)
    if n_halves > MANY_HALVES:
        warn(
            f"{n_environments} environments make {n_environments} networks that judge and {n_halves:,} halves. Each "
            f"step of the final network reads up to {n_halves * n_rows:,} rows, where an ordinary one reads {n_rows:,} "
            "of each environment. Pass a coarser label to make it faster, or objective='equal'.",
            HoldfastWarning,
        )


@dataclass(eq=False, repr=False)
class PredictThenInterpolate(MethodEstimator):
    """The three stages, for classes and for numbers; a subclass says how stage 2 cuts."""

    __metadata_request__fit = {"group_labels": True}  # scikit-learn reads this
    _judges = True
    _objectives: ClassVar[tuple[str, ...]] = ("max", "online")
    _judge_scores: ClassVar[str]  # attribute that has every judge's score in every environment
    # Parameters of the classifier alone: no fields here.
    rounds, recipe = 1, cast("Literal['robust'] | None", None)
    refinement = cast("Any", "worst_case")

    estimator: Estimator | None = None
    _: KW_ONLY
    solver: Literal["auto", "convex", "gradient", "reweight"] = "auto"
    halves: Literal["hard", "soft"] = "hard"
    reweight_rounds: int = 20
    objective: Literal["max", "online", "chance", "equal"] = "max"
    selection: str | None = None
    judge_selection: str | None = "other_environments"
    min_group_size: int = 5
    n_folds: int = 2
    n_jobs: int | None = None
    random_state: RandomState = None

    def fit(
        self,
        X: Any,
        y: PerRow = None,
        *,
        environments: PerRow = None,
        group_labels: PerRow = None,
        sample_weight: PerRow = None,
        validation: Any = None,
        folds: PerRow = None,
    ) -> Self:
        """Fit in three stages.

        Parameters
        ----------
        X : array, sparse matrix, frame, images of shape (n_rows, …) or list of texts
        y : labels, or numbers, of shape (n_rows,)
        environments : labels of shape (n_rows,)
            Which environment each row came from. None, or one label only: plain ERM, with a warning.
        group_labels : labels of shape (n_rows,), optional
            A bias that is known; it refines the halves.
        sample_weight : array of shape (n_rows,), optional
            Reaches every stage.
        validation : (X, y), (X, y, group_labels), Dataset or float, optional
            For networks: rows to select the epoch by; the others are only scored on them (`validation_score_`). A
            number such as 0.2 holds out that share of the rows of every environment and label.
        folds : labels of shape (n_rows,), optional
            Fold of each row, so that rows of one patient stay together.
        """
        self._check_parameters()
        training = self._read_training(
            X, y, environments, sample_weight=sample_weight, group_labels=group_labels, folds=folds
        )
        training, held_out = self._take_validation(training, validation)
        seeding = Seeding(self.random_state)
        if warn_single_environment(training.environments, type(self).__name__):
            return self._fit_alone(training, seeding, held_out)
        if self.halves == "soft":
            training.check_folds()
        estimator = self._coded_estimator(training)
        self.solver_ = choose_solver(estimator, self.solver)  # refuses an estimator before any work
        for name, value in (("objective", "chance"), ("objective", "equal"), ("recipe", "robust")):
            if getattr(self, name) == value and self.solver_ != "gradient":
                raise ParameterError(f"{name}={value!r} is for networks. Use a NeuralClassifier, or leave it out.")
        judge, estimator = self._judge_and_final(estimator)
        self._check_networks(judge, estimator, held_out)
        if self.solver_ == "gradient":
            _warn_of_cost(estimator, len(training.environments))

        # Stage 1: one judge for each environment, asked about every row that it was not fitted on.
        judgements = self._judge(judge, training, seeding)

        # Stage 2: cut every judged environment by correctness.
        self.partitions_ = self._partition(judgements, training)

        # Stage 3: the least worst-case risk over all interpolations of the halves.
        return self._interpolate(estimator, training, seeding, held_out)

    def _judge_and_final(self, estimator: Estimator) -> tuple[Any, Any]:
        """Return the unfitted estimator of stage 1 and that of stage 3."""
        if self.recipe is None:
            return estimator, estimator
        recipe = RECIPES[self.recipe]
        return recipe.network(estimator, final=False), recipe.network(estimator, final=True)

    def _check_networks(self, judge: Estimator, final: Estimator, validation: ValidationRows | None) -> None:
        """Refuse what the trainings of networks would refuse, before the first of them."""
        networks = network_in(judge), network_in(final)
        if networks[0] is None or networks[1] is None:
            return
        judging = networks[0].selection_rule(self.judge_selection) or "last"
        networks[0].check_training(selection=judging, other_environments=True)
        selection = networks[1].selection_rule(self.selection)
        if selection is None and validation is None and judging != "last":
            selection = "last"  # a patience is for the judges
        networks[1].check_training(selection=selection, validation=validation)

    def _partition(self, judgements: Judgements, training: TrainingRows) -> tuple[Partition, ...]:
        """Cut every judged environment by what its judges say, and keep the judges' scores."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        """Refuse values outside of what the parameters may be."""
        check_choice(self, "halves", ("hard", "soft"))
        check_choice(self, "objective", self._objectives)
        check_choice(self, "solver", ("auto", *SOLVERS))
        if self.halves == "soft" and self.n_folds < 2:
            raise ParameterError("halves='soft' needs out-of-fold predictions. Set n_folds to 2 or more.")

    def _chosen_objective(self) -> str:
        """Return the objective: a recipe's, where it is not set."""
        return "chance" if self.recipe is not None and self.objective == "max" else self.objective

    def _judge(self, estimator: Estimator, training: TrainingRows, seeding: Seeding) -> Judgements:
        """Fit one judge for each environment, ask each about the rows it was not fitted on, and keep the judges."""
        network, soft = is_network(estimator), self.halves == "soft"
        settings = JudgeSettings(
            # Hard halves need no answers about a judge's own rows, and networks are too slow to be fitted for them.
            n_folds=self.n_folds if soft or not network else 0,
            selection=self.judge_selection,
            n_jobs=self.n_jobs,
        )
        classes = getattr(self, "classes_", None)
        judgements = judge_environments(
            estimator, training, settings, seeding, classes=classes, probabilities=soft and classes is not None
        )
        self.environment_classifiers_ = {judge.environment.label: judge.estimator for judge in judgements.judges}
        return judgements

    def _interpolate(
        self, estimator: Estimator, training: TrainingRows, seeding: Seeding, validation: ValidationRows | None
    ) -> Self:
        """Minimize the worst-case risk over the halves, and keep what was found."""
        options: dict[str, Any] = {
            "min_group_size": self.min_group_size,
            "sample_weight": training.sample_weight,
            "group_labels": training.group_labels,
        }
        changed: dict[str, Any] = {"solver": self.solver_, "objective": self._chosen_objective()}
        partitions = self.partitions_
        if changed["objective"] in ("chance", "equal"):
            from holdfast.neural.objectives import PooledERM  # torch loads when a network is trained, not before

            n_kinds = len(self.classes_) if changed["objective"] == "chance" else 2
            n_batches = None if self.recipe is None else 1
            if changed["objective"] == "equal":  # as many rows as the ordinary network sees
                n_batches = len(training.environments)
            partitions = halves_at_chance(partitions, n_kinds, sample_weight=training.sample_weight)
            options["sample_weight"] = None  # it is in the halves' weights
            changed["objective"] = PooledERM(n_batches=n_batches)
        groups = halves_as_groups(partitions, **options)
        rounds = [groups]
        if self.rounds > 1:

            def fit_judge(groups: Sequence[Group], environment: str, number: int) -> Solution:
                return self._minimize(
                    estimator, training, groups, seeding.child("round", number, environment), **changed
                )

            further = refine_halves(
                partitions,
                training,
                fit_judge,
                rounds=self.rounds,
                min_group_size=self.min_group_size,
                refinement=self.refinement,
            )[1:]
            rounds += [large_halves(halves, **options) for halves in further]
        # A cut by a judge that leans on a stable feature takes that one away. Where nothing is left to learn, the round
        # before it counts.
        for number, found in reversed(list(enumerate(rounds, start=1))):
            self.groups_, self.rounds_ = found or training.environment_groups(), number
            solution = self._minimize(estimator, training, self.groups_, seeding, validation=validation, **changed)
            if number == 1 or not self._has_collapsed(solution, training):
                break
            log.info("round %d leaves nothing to learn: back to round %d", number, number - 1)
        return self._keep_solution(solution, validation)

    def with_final(self, estimator: Estimator, training: TrainingRows, seeding: Seeding) -> Self:
        """Return a copy with another final classifier, trained on the same halves of the same rows."""
        return copy.copy(self)._interpolate(estimator, training, seeding, None)

    def _has_collapsed(self, solution: Solution, training: TrainingRows) -> bool:
        """Return whether a final classifier has learned nothing."""
        return False

    def _fit_alone(self, training: TrainingRows, seeding: Seeding, validation: ValidationRows | None) -> Self:
        """Fit plain ERM: with one environment there is nothing to compare."""
        estimator = self._coded_estimator(training)
        self._check_network(estimator, validation)
        fitted = fit_erm(estimator, training, seeding, validation=validation, selection=self.selection)
        self.environment_classifiers_ = {training.environments[0].label: fitted}
        self.partitions_, self.groups_ = (), ()
        self.group_risks_ = self.group_weights_ = np.empty(0)
        self.worst_case_risk_ = self.gap_ = float("nan")
        self.solver_, self.rounds_ = "erm", 1
        setattr(self, self._judge_scores, np.full((1, 1), np.nan))
        return self._keep_fitted(fitted, validation)


@dataclass(eq=False, repr=False)
class PIClassifier(PredictThenInterpolate, MethodClassifier):
    r"""Predict then Interpolate (Bao et al., 2021): minimize the worst-group risk over halves of the environments.

    One classifier is fitted on each environment. It divides every other environment into two halves: the rows that it
    predicts correctly and those that it gets wrong. The final classifier minimizes the worst-case risk over all
    mixtures of these halves :math:`g`:

    .. math:: \min_f \max_{q \in \Delta} \sum_g q_g R_g(f) = \min_f \max_g R_g(f).

    This costs accuracy if stable features are noisy or if nothing is unstable. If you do not know whether something is
    unstable, use `StableClassifier`, which tests this first.

    Parameters
    ----------
    estimator : scikit-learn classifier, NeuralClassifier or None
        Fitted on each environment and, in the end, on the groups. None: columns scaled to unit variance, then a
        logistic regression. A Pipeline works; its last step must take `sample_weight`.
    solver : "auto", "convex", "gradient" or "reweight"
        How the min–max problem is solved: exactly for logistic regression, by gradients for networks, by reweighted
        fits for everything else.
    halves : "hard" or "soft"
        Hard: each row is in the correct or in the mistaken half. Soft: each row is in both halves, weighted by the
        judge's probability of its label. (A judge is the classifier of another environment.)
    rounds : int
        Largest number of rounds of stages 1 and 2. Each further round divides the rows again, with judges that minimize
        the worst-case risk over the halves of their own environment. This can find a second unstable feature. The
        rounds stop when nothing changes. A round after which the final classifier learns nothing is not used
        (`rounds_`). Needs hard halves.
    refinement : "worst_case" or "environments"
        Judges of further rounds. "worst_case": classifiers with the least worst-case risk over the halves of one
        environment. "environments": one ordinary classifier for each half, as the paper proposes.
    recipe : "robust" or None
        For networks whose labels are partly wrong. It sets the objective to "chance", stops judges early, and trains
        with a loss that is robust against wrong labels, averaged weights and a falling learning rate
        (`holdfast.estimators.pi.RECIPES` has the values). It does not change parameters that you have set.
    reweight_rounds : int
        Largest number of fits of each fold by the reweighting solver.
    objective : "max", "online", "chance" or "equal"
        For networks. "max": the risk of the worst group. "online": groups weighted by exponentiated risks. "chance":
        the mixture in which every judge is as accurate as chance (a share of 1/K correct and 1 − 1/K mistaken rows).
        "equal": the mean of both halves, which takes no longer than an ordinary fit and loses less if nothing is
        unstable.
    selection : str or None
        For networks: the rule that selects the epoch of the final classifier. None: the rule of the network.
    judge_selection : str or None
        For networks: the rule that selects the epoch of each judge. None: the accuracy on the environments that it was
        not trained on, as in the paper's code.
    min_group_size : int
        Environments with fewer rows are merged, and halves with fewer (effective) rows are dropped, with a warning.
    n_folds : int
        Number of folds for out-of-fold predictions: of a judge's own rows (for networks only with soft halves), and of
        the groups of the reweighting solver. With 0 a judge's accuracy in its own environment is NaN.
    n_jobs : int or None
        Number of fits that run at the same time.
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
        Accuracy of each judge (row) in each environment (column). The diagonal is out of fold. For networks with hard
        halves it comes from validation rows whose group labels are the environments; without these it is NaN.
    groups_ : tuple of Group
        The halves that entered stage 3.
    group_risks_, worst_case_risk_, gap_ : array, float, float
        Risk of each group under the final classifier (for networks: on at most 1,000 of its rows), the largest of them,
        and an upper bound on its distance from the optimum (the duality gap; NaN for networks).
    group_weights_ : array of shape (n_groups,)
        Weights of the worst mixture of the groups; they sum to one.
    estimator_ : fitted estimator over class codes
    solver_ : str
        The solver that was used.
    rounds_ : int
        The round whose halves entered stage 3.
    history_ : list of dict, one for each iteration, round or epoch
    validation_score_ : float
        Accuracy on the validation rows, if there are any.
    price_ : Interval
        Accuracy lost compared with ERM on the validation rows, if there are any. It takes one more fit. A high price
        without evidence that something is unstable gives a warning.
    classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from holdfast.datasets import load_dataset
    >>> toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    >>> model = PIClassifier().fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    >>> float(model.score(toy.test.X, toy.test.y))
    0.8
    """

    _objectives = ("max", "online", "chance", "equal")
    _judge_scores = "accuracies_"

    _: KW_ONLY
    rounds: int = 1
    refinement: Literal["worst_case", "environments"] = "worst_case"
    recipe: Literal["robust"] | None = None

    def audit(self, X: Any, y: PerRow, environments: PerRow, *, settings: AuditSettings | None = None) -> Audit:
        """Name the columns, words or attributes whose relation with the label changes between environments."""
        check_is_fitted(self)
        return audit_data(X, y, environments, settings)

    def _partition(self, judgements: Judgements, training: TrainingRows) -> tuple[Partition, ...]:
        """Cut every judged environment by what its judges get right, and keep the accuracies."""
        rows = training.y, training.environments
        warn_of_constant_judges(judgements.predictions, training.environments, self.classes_)
        self.accuracies_ = accuracy_matrix(judgements.predictions, *rows, training.sample_weight)
        if self.halves == "hard":
            return partition_by_correctness(judgements.predictions, *rows, sample_weight=training.sample_weight)
        return partition_by_probability(judgements.probabilities, *rows, sample_weight=training.sample_weight)

    def _interpolate(
        self, estimator: Estimator, training: TrainingRows, seeding: Seeding, validation: ValidationRows | None
    ) -> Self:
        super()._interpolate(estimator, training, seeding, validation)
        self._fill_diagonal(validation)
        self._warn_of_collapse(training)
        if validation is not None:
            ordinary = fit_erm(estimator, training, seeding, validation=validation, selection=self.selection)
            self._weigh_price(ordinary, *validation)
        return self

    def _weigh_price(self, ordinary: Predictor, X: Any, y: NDArray[np.intp], groups: Any) -> None:
        """Compare with ERM on the validation rows; warn of a high price without evidence that it buys something."""
        right = [predicted_codes(model, X) == y for model in (ordinary, self.estimator_)]
        lost = right[0].astype(np.float64) - right[1]
        value, error = float(lost.mean()), float(lost.std() / np.sqrt(len(lost)))
        self.price_ = Interval(value, value - 1.96 * error, value + 1.96 * error)
        if value <= HIGH_PRICE or self.price_.low <= 0:
            return
        sites = np.argmax(np.asarray(groups)[:, None] == self.environments_, axis=1) if groups is not None else None
        known = sites is not None and (self.environments_[sites] == np.asarray(groups)).all()
        able = all(has_probabilities(model) for model in (ordinary, self.estimator_))
        why = "Whether it is needed was not tested: pass validation=(X, y, environments)."
        if sites is not None and known and able and len(np.unique(sites)) == len(self.environments_):
            scores = [code_probabilities(model, X, len(self.classes_)) for model in (ordinary, self.estimator_)]
            f, g = (np.log(np.maximum(probabilities, 1e-6)) for probabilities in scores)
            evidence = weigh(f, g, y, sites)
            if evidence.probability >= LIKELY:
                return
            why = (
                "There is no evidence that ERM relies on something unstable "
                f"(probability {evidence.probability:.2f} on {len(y):,} validation rows)."
            )
            if evidence.detectable > DETECTABLE:
                why += " So few rows show only large differences; StableClassifier looks for them in all rows."
        warn(
            f"PIClassifier costs {100 * value:.1f} points of accuracy on the validation rows, compared with ERM. {why} "
            "StableClassifier uses PI only where it finds something unstable.",
            HoldfastWarning,
        )

    def _fill_diagonal(self, validation: ValidationRows | None) -> None:
        """Score judges in their own environment on validation rows whose groups are the environments, where unknown."""
        if validation is None or validation[2] is None:
            return
        X, y, groups = validation
        for place, (label, judge) in enumerate(self.environment_classifiers_.items()):
            rows = np.flatnonzero(np.asarray(groups) == label)
            if len(rows) and np.isnan(self.accuracies_[place, place]):
                self.accuracies_[place, place] = np.mean(predicted_codes(judge, take_rows(X, rows)) == y[rows])

    def _has_collapsed(self, solution: Solution, training: TrainingRows) -> bool:
        return self._collapse(solution.estimator, solution.worst_case_risk, training) is not None

    def _collapse(self, estimator: Predictor, worst_case_risk: float, training: TrainingRows) -> Collapse | None:
        """Return what a classifier that has learned nothing predicts; None for one that has learned something.

        It gives nearly every row the same label, or its worst-case risk is that of guessing.
        """
        shares = np.bincount(training.y, training.weights, minlength=len(self.classes_)) / training.weights.sum()
        n_asked = 500 if self.solver_ == "gradient" else 2000  # networks take long
        sample = np.unique(np.linspace(0, training.n_rows - 1, min(training.n_rows, n_asked)).astype(np.intp))
        predicted = predicted_codes(estimator, take_rows(training.X, sample))
        share = np.bincount(predicted, minlength=len(self.classes_)) / len(sample)
        most = int(share.argmax())
        chance = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
        flat = self.solver_ != "gradient" and worst_case_risk > 0.98 * max(chance, np.log(2))
        constant = share[most] >= CONSTANT and shares.max() <= SHARED
        return Collapse(self.classes_[most], float(share[most]), chance) if constant or flat else None

    def _warn_of_collapse(self, training: TrainingRows) -> None:
        """Say when the final classifier has learned nothing."""
        found = self._collapse(self.estimator_, self.worst_case_risk_, training)
        if found is not None:
            warn(
                f"The classifier learned almost nothing: it predicts {found.label} for {found.share:.0%} of the rows, "
                f"and its worst-case risk is {self.worst_case_risk_:.2f} (guessing has {found.chance:.2f}). "
                f"{self._cause_of_collapse()}",
                CollapseWarning,
            )

    def _cause_of_collapse(self) -> str:
        """Return what is wrong with the halves of a classifier that learned nothing, and what to do."""
        if not self.groups_ or len(self.groups_) < len(self.partitions_):  # fewer groups than one half of each pair
            return "Nearly all halves are empty or too small. Use fewer environments, or a smaller min_group_size."
        one_sided = [part for part in self.partitions_ if min(len(part.correct), len(part.mistaken)) == 0]
        if one_sided:
            part = one_sided[0]
            which = "right" if len(part.correct) else "wrong"
            return (
                f"A half is empty: the classifier of {part.judge} gets every row of {part.judged} {which}, so only the "
                "other half counts. Train it for shorter, or leave that environment out."
            )
        network = " For networks a smaller learning_rate or weight_decay or objective='online' can help as well."
        return (
            "The worst half contradicts the rest. Use StableClassifier, or weaken the estimator's penalty."
            f"{network if self.solver_ == 'gradient' else ''}"
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.rounds, int | np.integer) or self.rounds < 1:
            raise ParameterError(
                f"The 'rounds' parameter of PIClassifier must be an integer >= 1. Got {self.rounds!r} instead."
            )
        check_choice(self, "refinement", ("worst_case", "environments"))
        if self.rounds > 1 and self.halves == "soft":
            raise ParameterError(
                "The 'rounds' parameter of PIClassifier above 1 needs halves='hard'. Set one of the two."
            )
        if self.recipe is not None:
            check_choice(self, "recipe", tuple(RECIPES))
        objective = self._chosen_objective()
        if self.rounds > 1 and objective in ("chance", "equal"):
            raise ParameterError(f"objective={objective!r} takes the halves of one round. Set rounds to 1.")
