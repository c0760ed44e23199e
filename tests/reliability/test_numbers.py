"""The numbers are right: every solver against another way to the answer, and what must not change does not."""

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog, minimize, minimize_scalar
from scipy.special import log_softmax
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

from holdfast import PIClassifier, StableClassifier
from holdfast.environments import Group
from holdfast.interpolation import SolverSettings
from holdfast.interpolation.convex.minimax import maximize_on_simplex
from holdfast.interpolation.convex.solver import solve_convex
from holdfast.interpolation.gradient import NetworkFit, solve_gradient
from holdfast.interpolation.reweight import solve_reweight
from holdfast.neural import NeuralClassifier
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding


def cases(n_short, n_long, n_parts=1):
    """Run a test on a few cases by default, and on many, in parts of their own, as slow tests."""
    long = [
        pytest.param(n_long // n_parts, part, marks=pytest.mark.slow, id=f"long-{part}")
        for part in range(1, n_parts + 1)
    ]
    return pytest.mark.parametrize(("n_cases", "part"), [pytest.param(n_short, 0, id="short"), *long])


@pytest.fixture(autouse=True)
def quiet():
    """Leave warnings about tiny environments aside; the numbers are what counts here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def small_problem(rng, n_classes=2):
    """Return rows, codes and two to four groups, which may overlap and carry weights."""
    n_rows, n_columns = int(rng.integers(8, 30)), int(rng.integers(1, 4))
    X = rng.normal(size=(n_rows, n_columns)) * rng.choice([0.3, 1.0, 3.0])
    y = rng.integers(0, n_classes, n_rows)
    y[:n_classes] = np.arange(n_classes)
    groups = []
    for number in range(rng.integers(2, 5)):
        rows = np.sort(rng.choice(n_rows, size=rng.integers(2, n_rows + 1), replace=False))
        groups.append(Group(str(number), rows, rng.uniform(0.1, 2, len(rows)) if rng.random() < 0.5 else None))
    return X, y, groups


# -- solvers -----------------------------------------------------------------------------------------------------------


@cases(100, 5_000, 2)
def test_simplex(n_cases, part):
    """No vertex is better than the mixture: the optimality conditions of the concave program, checked directly."""
    rng = np.random.default_rng((1, part))
    for _ in range(n_cases):
        rank, n_groups = int(rng.integers(1, 6)), int(rng.integers(1, 9))
        linear = rng.normal(size=n_groups) * rng.choice([0.0, 1e-3, 1.0, 1e3])
        factor = rng.normal(size=(rank, n_groups)) * rng.choice([1e-3, 1.0, 1e2])
        if n_groups > 1 and rng.random() < 0.2:  # copies of a group
            linear[1], factor[:, 1] = linear[0], factor[:, 0]
        q = maximize_on_simplex(linear, factor)
        slope = linear - factor.T @ (factor @ q)
        size = np.ptp(linear) + (factor**2).sum(axis=0).max()
        assert q.min() >= 0
        assert q.sum() == pytest.approx(1)
        assert slope.max() - slope @ q <= 1e-6 * size


def least_worst_case(risks, gradients, penalty, penalty_gradient, start):
    """Return min over w of max_g R_g(w) + penalty(w), by sequential quadratic programs on its epigraph."""
    found = minimize(
        lambda v: v[-1] + penalty(v[:-1]),
        np.append(start, risks(start).max()),
        jac=lambda v: np.append(penalty_gradient(v[:-1]), 1.0),
        constraints={
            "type": "ineq",
            "fun": lambda v: v[-1] - risks(v[:-1]),
            "jac": lambda v: np.hstack([-gradients(v[:-1]), np.ones((len(risks(v[:-1])), 1))]),
        },
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-10},
    )
    return float(risks(found.x[:-1]).max() + penalty(found.x[:-1]))


def log_loss_problem(X, y, groups, n_classes, C):
    """Return risks, gradients and penalty of a logistic regression with one weight vector, or one for each class."""
    n_rows, n_columns = X.shape
    n_vectors = 1 if n_classes == 2 else n_classes
    design = np.hstack([X, np.ones((n_rows, 1))])
    masses = np.array([np.bincount(g.rows, g.probabilities(), n_rows) for g in groups])
    is_weight = np.tile(np.append(np.ones(n_columns), 0.0), n_vectors)

    def scores(w):
        own = design @ w.reshape(n_vectors, -1).T
        return np.hstack([np.zeros((n_rows, 1)), own]) if n_vectors == 1 else own

    def risks(w):
        return masses @ -log_softmax(scores(w), axis=1)[np.arange(n_rows), y]

    def gradients(w):
        errors = np.exp(log_softmax(scores(w), axis=1)) - np.eye(n_classes)[y]
        errors = errors[:, 1:] if n_vectors == 1 else errors
        return np.array([((mass[:, None] * errors).T @ design).ravel() for mass in masses])

    strength = 1 / (C * n_rows)
    return (
        risks,
        gradients,
        lambda w: 0.5 * strength * (is_weight * w**2).sum(),
        lambda w: strength * is_weight * w,
        np.zeros(n_vectors * (n_columns + 1)),
    )


@cases(20, 1_200, 4)
def test_convex_log_loss(n_cases, part):
    """The worst-case log loss is the least there is, within the gap that is certified."""
    rng = np.random.default_rng((2, part))
    for _ in range(n_cases):
        n_classes = int(rng.choice([2, 2, 2, 3]))
        X, y, groups = small_problem(rng, n_classes)
        C = float(rng.choice([0.1, 1.0, 10.0]))
        found = solve_convex(LogisticRegression(C=C), TrainingRows(X, y, ()), groups, n_classes=n_classes)
        problem = log_loss_problem(X, y, groups, n_classes, C)
        coefficients = np.hstack([found.estimator.coef_, found.estimator.intercept_[:, None]]).ravel()
        risks, _, penalty, _, _ = problem
        np.testing.assert_allclose(found.group_risks, risks(coefficients), rtol=1e-6, atol=1e-9)
        ours, theirs = risks(coefficients).max() + penalty(coefficients), least_worst_case(*problem)
        assert ours <= theirs + found.gap + 1e-6
        assert found.gap <= 1.01e-4 or ours <= theirs + 1e-4


@cases(20, 800, 2)
def test_convex_squared_error(n_cases, part):
    """The worst-case squared error is the least there is, within the gap that is certified."""
    rng = np.random.default_rng((3, part))
    for _ in range(n_cases):
        X, _, groups = small_problem(rng)
        y, alpha = rng.normal(size=len(X)), float(rng.choice([0.1, 1.0]))
        found = solve_convex(Ridge(alpha=alpha), TrainingRows(X, y, ()), groups, n_classes=None)
        design = np.hstack([X, np.ones((len(X), 1))])
        masses = np.array([np.bincount(g.rows, g.probabilities(), len(X)) for g in groups])
        weights = np.append(np.ones(X.shape[1]), 0.0)

        def risks(w, design=design, masses=masses, y=y):
            return masses @ (design @ w - y) ** 2

        def gradients(w, design=design, masses=masses, y=y):
            return masses * (2 * (design @ w - y)) @ design

        strength = alpha / len(X)
        w = np.append(found.estimator.coef_, found.estimator.intercept_)
        theirs = least_worst_case(
            risks,
            gradients,
            lambda w, s=strength, keep=weights: s * (keep * w**2).sum(),
            lambda w, s=strength, keep=weights: 2 * s * keep * w,
            np.zeros(X.shape[1] + 1),
        )
        np.testing.assert_allclose(found.group_risks, risks(w), rtol=1e-6, atol=1e-9)
        assert risks(w).max() + strength * (weights * w**2).sum() <= theirs + max(found.gap, 1e-4 * y.var()) + 1e-6


@cases(5, 300, 2)
def test_reweight(n_cases, part):
    """With one probability for all rows the least worst case is a search along a line; we are within our gap of it."""
    rng = np.random.default_rng((4, part))
    for _ in range(n_cases):
        n_rows, n_groups = int(rng.integers(20, 60)), int(rng.integers(2, 4))
        y = np.tile(rng.integers(0, 2, n_rows), 2)  # every row twice, once in each fold: out of fold is in fold
        y[[0, 1, n_rows, n_rows + 1]] = 0, 1, 0, 1
        groups = []
        for number in range(n_groups):
            rows = np.append(rng.choice(np.arange(2, n_rows), size=rng.integers(3, n_rows - 2), replace=False), [0, 1])
            groups.append(Group(str(number), np.sort(np.append(rows, rows + n_rows))))
        folds = np.repeat([0, 1], n_rows)
        training = TrainingRows(np.zeros((2 * n_rows, 1)), y, (), folds=folds)
        found = solve_reweight(
            DummyClassifier(), training, groups, SolverSettings(reweight_rounds=30), Seeding(0), n_classes=2
        )
        shares = np.array([y[g.rows].mean() for g in groups])

        def worst(p, shares=shares):
            return float((-shares * np.log(p) - (1 - shares) * np.log1p(-p)).max())

        best = minimize_scalar(worst, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-10}).fun
        p = float(found.estimator.predict_proba(np.zeros((1, 1)))[0, 1])
        assert found.worst_case_risk == pytest.approx(worst(p), abs=1e-6)
        assert best - 1e-6 <= found.worst_case_risk <= best + found.gap + 1e-6


@cases(1, 8, 2)
def test_gradient(n_cases, part):
    """A linear network that is trained on the worst group ends near the exact optimum."""
    for seed in range(n_cases):
        rng = np.random.default_rng((100, part, seed))
        X = rng.normal(size=(80, 2)).astype(np.float32)
        y = (X @ rng.normal(size=2) + rng.normal(size=80) > 0).astype(int)
        groups = [Group("a", np.arange(50)), Group("b", np.arange(30, 80))]
        network = NeuralClassifier(
            "linear",
            max_epochs=30,
            steps_per_epoch=20,
            batch_size=80,
            learning_rate=0.03,
            network__dropout=0.0,
            training__precision="fp32",
        )
        found = solve_gradient(network, TrainingRows(X, y, ()), groups, Seeding(seed), NetworkFit())
        exact = solve_convex(LogisticRegression(C=np.inf), TrainingRows(X.astype(float), y, ()), groups, n_classes=2)
        assert exact.worst_case_risk - 1e-3 <= found.worst_case_risk <= exact.worst_case_risk + 0.02


@cases(50, 1_000)
def test_the_worst_mixture_is_a_vertex(n_cases, part):
    """The largest risk over all mixtures of groups, by a linear program, is the risk of one group."""
    import torch

    from holdfast.neural.risks import worst_case_risk

    rng = np.random.default_rng((5, part))
    for _ in range(n_cases):
        risks = rng.uniform(0, 3, int(rng.integers(1, 8)))
        program = linprog(-risks, A_eq=np.ones((1, len(risks))), b_eq=[1.0], bounds=(0, 1))
        assert float(worst_case_risk(torch.tensor(risks))) == pytest.approx(-program.fun)


# -- what must not change ----------------------------------------------------------------------------------------------

EXACT = LogisticRegression(tol=1e-10, max_iter=200, solver="newton-cholesky")


def training_rows(rng):
    """Return rows of two to four environments with a stable and an unstable column."""
    n_environments, n_rows = int(rng.integers(2, 5)), int(rng.integers(30, 90))
    environments = np.sort(rng.integers(0, n_environments, n_rows))
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 2)) + np.stack([y, y * rng.normal(size=n_environments)[environments]], axis=1)
    return X, y, np.array([f"e{e}" for e in environments])


def fitted(X, y, environments, estimator=EXACT, **options):
    """Fit PI as the paper states it."""
    settings = {"n_folds": 0, "random_state": 0, **options}
    return PIClassifier(estimator, **settings).fit(X, y, environments=environments)


def halves(model, names=lambda name: name, rows=lambda rows: rows):
    """Return the partitions as sets of rows, under other names and numbers."""
    return {
        (names(p.judge), names(p.judged)): (set(map(int, rows(p.correct))), set(map(int, rows(p.mistaken))))
        for p in model.partitions_
    }


def assert_same(model, other, X, X_other, rows=None):
    """Both have the same worst case and say the same about the same rows, as far as their certificates go."""
    scale = model.gap_ + other.gap_ + 1e-6
    assert model.worst_case_risk_ == pytest.approx(other.worst_case_risk_, abs=2 * scale)
    ours, theirs = model.predict_proba(X), other.predict_proba(X_other)
    # A gap of g in a problem that is strongly convex leaves room of about its root for the answers.
    np.testing.assert_allclose(ours if rows is None else ours[rows], theirs, atol=1e-3 + 3 * np.sqrt(scale))


@cases(8, 700, 7)
def test_renaming_environments(n_cases, part):
    """Other names, in another order, rename the partitions and change nothing else."""
    rng = np.random.default_rng((6, part))
    for _ in range(n_cases):
        X, y, environments = training_rows(rng)
        labels = np.unique(environments)
        names = dict(zip(labels, rng.permutation([f"site {n}" for n in range(len(labels))]), strict=True))
        model = fitted(X, y, environments)
        other = fitted(X, y, np.array([names[e] for e in environments]))
        assert halves(model, lambda name, names=names: names.get(name, name)) == halves(other)
        assert_same(model, other, X, X)


@cases(8, 700, 7)
def test_permuting_rows(n_cases, part):
    """Rows in another order are the same rows."""
    rng = np.random.default_rng((7, part))
    for _ in range(n_cases):
        X, y, environments = training_rows(rng)
        order = rng.permutation(len(y))
        model, other = fitted(X, y, environments), fitted(X[order], y[order], environments[order])
        assert halves(model) == halves(other, rows=lambda rows, order=order: order[rows])
        assert_same(model, other, X, X[order], rows=order)


@cases(8, 600, 6)
def test_duplicating_rows(n_cases, part):
    """Every row twice, with half the C, states the same problem."""
    rng = np.random.default_rng((8, part))
    for _ in range(n_cases):
        X, y, environments = training_rows(rng)
        half = LogisticRegression(tol=1e-10, max_iter=200, solver="newton-cholesky", C=0.5)
        model = fitted(X, y, environments, min_group_size=1)
        other = fitted(np.repeat(X, 2, axis=0), np.repeat(y, 2), np.repeat(environments, 2), half, min_group_size=1)
        assert halves(model) == halves(other, rows=lambda rows: rows // 2)
        assert_same(model, other, X, X)


@cases(8, 600, 6)
def test_rescaling_columns(n_cases, part):
    """The default estimator scales columns itself: other units change nothing."""
    rng = np.random.default_rng((9, part))
    for _ in range(n_cases):
        X, y, environments = training_rows(rng)
        scale, shift = 10.0 ** rng.uniform(-3, 3, 2) * rng.choice([-1, 1], 2), rng.normal(size=2)
        model, other = fitted(X, y, environments, None), fitted(X * scale + shift, y, environments, None)
        assert_same(model, other, X, X * scale + shift)


@cases(4, 300, 3)
def test_swapping_classes(n_cases, part):
    """With the classes swapped, probabilities swap, and the halves stay."""
    rng = np.random.default_rng((10, part))
    for _ in range(n_cases):
        X, y, environments = training_rows(rng)
        model, other = fitted(X, y, environments), fitted(X, 1 - y, environments)
        assert halves(model) == halves(other)
        scale = model.gap_ + other.gap_ + 1e-6
        np.testing.assert_allclose(
            model.predict_proba(X)[:, ::-1], other.predict_proba(X), atol=1e-3 + 3 * np.sqrt(scale)
        )


@cases(1, 20, 4)
def test_environments_that_are_alike_whatever_their_names(n_cases, part):
    """Soft halves, reweighting and the stable classifier also do not care about names that keep their order."""
    rng = np.random.default_rng((11, part))
    for _ in range(n_cases):
        X, y, environments = training_rows(rng)
        renamed = np.array([f"site {name[1:]}" for name in environments])
        for estimator, options in ((EXACT, {"halves": "soft", "n_folds": 2}), (GaussianNB(), {"reweight_rounds": 3})):
            models = [fitted(X, y, names, estimator, **options) for names in (environments, renamed)]
            np.testing.assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))
        stable = [StableClassifier(EXACT).fit(X, y, environments=names) for names in (environments, renamed)]
        np.testing.assert_array_equal(stable[0].predict_proba(X), stable[1].predict_proba(X))
