"""Fits for the decision about networks: the ordinary network, and PI on its halves, for each fold of the rows."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from holdfast.environments import Environment, Partition, label_array, split_environments, take_rows, unique_labels
from holdfast.estimators.base import fit_erm
from holdfast.estimators.mixing import N_FOLDS
from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import EnvironmentsError, HoldfastWarning, warn
from holdfast.fitting.calibration import class_scores
from holdfast.fitting.estimators import (
    fit_rows,
    is_network,
    last_step,
    network_in,
    predicted_codes,
    seeded_clone,
    trained_network,
)
from holdfast.fitting.folds import deal_evenly
from holdfast.judging.judgements import Judgements
from holdfast.partition import pool_judges
from holdfast.rows.training import TrainingRows
from holdfast.seeding import RandomState, Seeding
from holdfast.stable.network import read_skill
from holdfast.stable.removal import centered

Array = NDArray[np.float64]
T = TypeVar("T")
ASKED_ROWS = 2000  # of all other sites together, by which a judge's epoch is selected
MANY_SITES = 20  # beyond which it is said before the start how long it takes

log = logging.getLogger(__name__)


class Owner(Protocol):
    """The `StableClassifier` that the fits are for."""

    classes_: NDArray[Any]
    n_jobs: int | None
    random_state: RandomState


@dataclass(eq=False, repr=False)
class _PooledPI(PIClassifier):
    """PI whose judges cut a site together, so that a step takes no longer with many sites; the same with two."""

    def _split(self, X: Any, environments: Any, n_rows: int) -> tuple[Environment, ...]:
        return split_environments(environments, n_rows)  # the owner has merged small ones

    def _partition(self, judgements: Judgements, training: TrainingRows) -> tuple[Partition, ...]:
        return pool_judges(super()._partition(judgements, training))


@dataclass(eq=False, repr=False)
class _NetworkPI(_PooledPI):
    """PI that goes on from the ordinary network, with judges that take half the steps.

    So it keeps what the ordinary network has learned, and differs from it where the halves ask for it: networks that
    are trained anew differ in much else, which hides evidence.
    """

    _: KW_ONLY
    ordinary: Any = None  # fitted on the same rows

    def _judge_and_final(self, estimator: Any) -> tuple[Any, Any]:
        if not is_network(estimator):
            return estimator, estimator
        judge = _half_as_long(estimator)
        n_asked = ASKED_ROWS // (len(self.environments_) - 1)
        if n_asked < (last_step(judge).options_for("training").get("selection_rows") or ASKED_ROWS):
            last_step(judge).set_params(training__selection_rows=max(n_asked, 1))
        return judge, from_network(clone(estimator), last_step(self.ordinary).network_)


def warn_of_cost(estimator: Any, n_sites: int) -> None:
    """Say before the start how long the decision takes."""
    n_networks, n_fits = 2 * n_sites + 5, n_sites + 5
    cost = f"StableClassifier trains {n_networks} networks to decide, in about {n_fits} times an ordinary fit's steps"
    log.info("%d environments: %s", n_sites, cost)
    if is_network(estimator) and n_sites > MANY_SITES:
        warn(
            f"{n_sites} environments: {cost}. Pass a coarser label, such as the region, to make it faster.",
            HoldfastWarning,
        )


def trained_as_long(estimator: Any, ordinary: Any) -> Any:
    """Return an unfitted copy whose network trains for as many epochs as were selected for the ordinary one."""
    copied = clone(estimator)
    network, trained = network_in(copied), trained_network(ordinary)
    if network is not None and trained is not None:
        network.set_params(max_epochs=trained.selected_.scores.epoch, patience=None)
    return copied


def _half_as_long(estimator: Any) -> Any:
    """Return an unfitted network of half the steps."""
    copied = clone(estimator)
    network = last_step(copied)
    network.set_params(steps_per_epoch=-(-network.steps_per_epoch // 2))
    return copied


def from_network(estimator: Any, network: Any) -> Any:
    """Return the estimator with another `network` parameter."""
    last_step(estimator).set_params(network=network)
    return estimator


@dataclass(frozen=True, eq=False)
class _Fold:
    """A half of the rows, the classifiers of the others, and the seeds that they were fitted with."""

    asked: NDArray[np.intp]
    fitted: TrainingRows
    ordinary: Any
    pi: PIClassifier
    seeding: Seeding


@dataclass(frozen=True, eq=False)
class FoldAnswers:
    """What classifiers of the other fold say about every row, (n_rows, n_classes)."""

    folds: list[_Fold]
    training: TrainingRows
    n_classes: int

    def scores(self, ask: Callable[[_Fold, Any], Array]) -> Array:
        """Return an answer for each row; `ask` gives those about a fold and its rows."""
        found = np.zeros((self.training.n_rows, self.n_classes))
        for fold in self.folds:
            found[fold.asked] = ask(fold, take_rows(self.training.X, fold.asked))
        return found

    def ordinary(self) -> Array:
        """Return the scores of the ordinary classifier."""
        return self.scores(lambda fold, X: class_scores(fold.ordinary, X, self.n_classes))

    def stable(self) -> Array:
        """Return the scores of PI."""
        return self.scores(lambda fold, X: class_scores(fold.pi.estimator_, X, self.n_classes))

    def started_anew(self, estimator: Any) -> Array:
        """Return the scores of PI with the same judges, whose network does not go on from the ordinary one."""

        def ask(fold: _Fold, X: Any) -> Array:
            pi = _quietly(lambda: fold.pi.with_final(estimator, fold.fitted, fold.seeding))
            return class_scores(pi.estimator_, X, self.n_classes)

        return self.scores(ask)

    def left_out(self) -> Array:
        """Return the scores of the judges of the other sites together."""
        sites = self.training.environment_codes

        def ask(fold: _Fold, X: Any) -> Array:
            judges = list(fold.pi.environment_classifiers_.values())
            answers = np.stack([centered(class_scores(judge, X, self.n_classes)) for judge in judges])
            others = 1.0 - np.eye(len(judges))[sites[fold.asked]].T  # (n_judges, n_asked)
            return np.asarray(np.einsum("jr,jrc->rc", others, answers) / (len(judges) - 1))

        return self.scores(ask)

    def read_sites(self, estimator: Any, seeding: Seeding) -> float:
        """Return how well the site can be read off the input, by the same estimator: 0 chance, 1 always."""
        asked, X, sites = self.folds[0].asked, self.training.X, self.training.environment_codes
        reader = _half_as_long(estimator) if is_network(estimator) else estimator
        fitted = np.setdiff1d(np.arange(self.training.n_rows), asked)
        unfitted = seeded_clone(reader, seeding, "sites")
        reader = _quietly(lambda: fit_rows(unfitted, X, sites, fitted, None))
        return read_skill(predicted_codes(reader, take_rows(X, asked)), sites[asked])


def ask_folds(
    owner: Owner, estimator: Any, training: TrainingRows, folds: NDArray[np.intp], seeding: Seeding
) -> FoldAnswers:
    """Fit the ordinary classifier, and one on PI's halves to compare it with, without each fold."""
    asked = []
    for number in range(N_FOLDS):
        part, seeds = training.take(np.flatnonzero(folds != number)), seeding.child("fold", number)
        ordinary = _quietly(partial(fit_erm, estimator, part, seeds))
        pi = fit_pi(owner, estimator, part, seeds, ordinary)
        asked.append(_Fold(np.flatnonzero(folds == number), part, ordinary, pi, seeds))
    return FoldAnswers(asked, training, len(owner.classes_))


def fit_pi(
    owner: Owner, estimator: Any, training: TrainingRows, seeding: Seeding, ordinary: Any | None
) -> PIClassifier:
    """Fit Predict then Interpolate on rows over class codes, from the ordinary network on, or as PIClassifier does."""
    pi: PIClassifier
    if ordinary is None:
        pi = _PooledPI(estimator, random_state=owner.random_state, n_jobs=owner.n_jobs)
    else:
        seed = seeding.integer("pi") % 2**31
        pi = _NetworkPI(estimator, random_state=seed, n_jobs=owner.n_jobs, ordinary=ordinary)
    labels = np.array([environment.label for environment in training.environments], dtype=object)
    sites, weights = labels[training.environment_codes], training.sample_weight
    return _quietly(lambda: pi.fit(training.X, training.y, environments=sites, sample_weight=weights))


def _quietly(fit: Callable[[], T]) -> T:
    """Fit without warnings: halves and folds are not the user's concern, and the ordinary network has had its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HoldfastWarning)
        return fit()


def deal_network_folds(training: TrainingRows, subjects: Any) -> NDArray[np.intp]:
    """Return a fold for each row, in turn within each environment and label, or by subject."""
    if subjects is None:
        order = np.lexsort((np.arange(training.n_rows), training.y, training.environment_codes))
        return deal_evenly(order, training.environment_codes, N_FOLDS)
    labels = label_array(
        subjects, training.n_rows, what="subjects", error=EnvironmentsError, example="frame['patient']"
    )
    folds = unique_labels(labels, what="subjects", error=EnvironmentsError)[1] % N_FOLDS
    for environment in training.environments:
        if len(np.unique(folds[environment.rows])) < N_FOLDS:
            raise EnvironmentsError(
                f"subjects puts all rows of environment {environment.name!r} into one of {N_FOLDS} folds. Each "
                "environment needs rows of several subjects."
            )
    return folds
