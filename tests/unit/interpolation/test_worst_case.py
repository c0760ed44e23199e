"""Stage 3: which solver, and that it is handed what it needs."""

import logging

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast.environments import Group, split_environments
from holdfast.exceptions import ParameterError
from holdfast.interpolation import SolverSettings
from holdfast.interpolation.worst_case import (
    choose_solver,
    minimize_mixture_risk,
    minimize_worst_case_risk,
)
from holdfast.neural import NeuralClassifier
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import Seeding

NETWORK = NeuralClassifier("linear", max_epochs=2, steps_per_epoch=2, batch_size=4, training__precision="fp32")


@pytest.fixture
def rows():
    """Return forty rows, class codes, and two groups that share ten rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=40) > 0).astype(int)
    return X, y, [Group("a", np.arange(25)), Group("b", np.arange(15, 40))]


def training(X, y, folds=None):
    """Return rows of one environment."""
    return TrainingRows(X, y, split_environments(["e"] * len(y), len(y)), folds=folds)


def solve(estimator, X, y, groups, *, seed=0, folds=None, validation=None, **settings):
    """Minimize the worst-case risk of two classes."""
    return minimize_worst_case_risk(
        estimator,
        training(X, y, folds),
        groups,
        SolverSettings(**settings),
        Seeding(seed),
        n_classes=2,
        validation=validation,
    )


@pytest.mark.parametrize(
    ("estimator", "solver"),
    [
        (LogisticRegression(), "convex"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "convex"),
        (Ridge(), "convex"),
        (NETWORK, "gradient"),
        (make_pipeline(StandardScaler(), NETWORK), "gradient"),
        (DecisionTreeClassifier(), "reweight"),
    ],
    ids=["logistic", "pipeline", "ridge", "network", "network in a pipeline", "tree"],
)
def test_the_solver_follows_from_the_estimator(estimator, solver):
    """Exact for linear models, gradients for networks, reweighting for all else; naming it changes nothing."""
    assert choose_solver(estimator) == solver
    assert choose_solver(estimator, solver) == solver


def test_an_estimator_may_be_reweighted_although_an_exact_solver_exists():
    """A solver that fits is taken when it is named."""
    assert choose_solver(LogisticRegression(), "reweight") == "reweight"


def test_an_estimator_that_no_solver_fits():
    """Neighbors cannot be weighted."""
    with pytest.raises(ParameterError, match=r"^no solver fits KNeighborsClassifier: it is neither a linear model"):
        choose_solver(KNeighborsClassifier())


@pytest.mark.parametrize(
    ("estimator", "solver", "message"),
    [
        (LogisticRegression(), "simplex", r"must be one of 'auto', 'convex', .*Got 'simplex' instead\.$"),
        (
            DecisionTreeClassifier(),
            "convex",
            r"^solver='convex' does not work for DecisionTreeClassifier\. Use solver='auto' or 'reweight'\.$",
        ),
        (
            KNeighborsClassifier(),
            "gradient",
            r"Use solver='auto' and an estimator whose fit takes sample_weight\.$",
        ),
    ],
    ids=["unknown", "another fits", "none fits"],
)
def test_a_solver_that_does_not_fit(estimator, solver, message):
    """The message names one that does, if there is any."""
    with pytest.raises(ParameterError, match=message):
        choose_solver(estimator, solver)


def test_the_exact_solver_sees_the_groups(rows, caplog):
    """The worst case is the same for both groups, the estimator's own settings hold, and the worst group is logged."""
    X, y, groups = rows
    with caplog.at_level(logging.INFO, logger="holdfast"):
        found = solve(LogisticRegression(C=0.5), X, y, groups)
    assert (found.solver, found.estimator.C) == ("convex", 0.5)
    assert found.worst_case_risk == max(found.group_risks)
    worst = "ab"[int(np.argmax(found.group_risks))]
    assert f"stage 3: convex, worst-case risk {found.worst_case_risk:.4f} in {worst}, gap" in caplog.messages[-1]


@pytest.mark.filterwarnings("ignore")
def test_reweighting_gets_rounds_and_folds(rows):
    """The number of rounds and each row's fold reach the solver; unset random states come from the seed."""
    X, y, groups = rows
    folds = np.arange(40) % 2

    def reweighted(rounds, seed=0, **options):
        tree = DecisionTreeClassifier(max_depth=2, max_features=1)
        return solve(tree, X, y, groups, seed=seed, reweight_rounds=rounds, **options)

    found = reweighted(1, folds=folds)
    assert found.solver == "reweight"
    assert len(found.estimator.estimators) == 2  # one round of two folds
    assert len(reweighted(2, n_folds=3).estimator.estimators) == 6
    assert len(reweighted(1, n_folds=0).estimator.estimators) == 2  # fewer folds cannot judge
    assert np.array_equal(found.group_risks, reweighted(1, folds=folds).group_risks)
    assert not np.array_equal(found.group_risks, reweighted(1, folds=folds, seed=1).group_risks)


def test_a_solver_that_is_named_is_used(rows):
    """The settings' solver reaches the choice."""
    X, y, groups = rows
    assert solve(LogisticRegression(), X, y, groups, solver="reweight", reweight_rounds=1).solver == "reweight"


@pytest.mark.filterwarnings("ignore")
def test_networks_get_objective_selection_and_validation(rows):
    """What the gradient solver takes reaches it."""
    X, y, groups = rows
    found = solve(
        NETWORK,
        X,
        y,
        groups,
        objective="online",
        validation=ValidationRows(X[:10], y[:10]),
        selection="validation_accuracy",
    )
    assert found.solver == "gradient"
    assert [entry["validation_score"] is not None for entry in found.history] == [True, True]
    assert found.group_weights.sum() == pytest.approx(1)
    with pytest.raises(ParameterError, match="objective"):
        solve(NETWORK, X, y, groups, objective="none")


def test_a_mixture_weights_rows_by_group(rows):
    """Rows of both groups have the sum of their shares, rows of none stay out, and the mean weight is one."""
    X, y, groups = rows
    seen = {}

    class Recorder(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            """Note what came."""
            seen.update(n=len(X), weights=sample_weight)
            return super().fit(X, y, sample_weight=sample_weight)

    groups = [groups[0], Group("b", np.arange(15, 30))]
    minimize_mixture_risk(Recorder(), training(X, y), groups, np.array([0.75, 0.25]), Seeding(0))
    expected = np.zeros(30)
    expected[:25] += 0.75 / 25
    expected[15:30] += 0.25 / 15
    assert seen["n"] == 30
    np.testing.assert_allclose(seen["weights"], expected * 30)


@pytest.mark.filterwarnings("ignore")
def test_a_mixture_of_a_network_takes_groups_alike(rows):
    """Networks are trained on the mean of the groups' risks."""
    X, y, groups = rows
    fitted = minimize_mixture_risk(NETWORK, training(X, y), groups, np.array([0.5, 0.5]), Seeding(0))
    again = minimize_mixture_risk(NETWORK, training(X, y), groups, np.array([0.5, 0.5]), Seeding(0))
    assert len(fitted.history_) == 2
    np.testing.assert_array_equal(fitted.predict_proba(X), again.predict_proba(X))


@pytest.mark.filterwarnings("ignore")
def test_three_folds_by_default(rows):
    """Each round fits one estimator for each of three folds."""
    X, y, groups = rows
    found = solve(DecisionTreeClassifier(max_depth=1), X, y, groups, reweight_rounds=1)
    assert len(found.estimator.estimators) == 3
