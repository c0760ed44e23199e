import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge

from holdfast.environments import Group
from holdfast.exceptions import FeaturesError, LabelsError, ParameterError, SmallGroupWarning, SolverWarning
from holdfast.interpolation.convex.solver import (
    LinearSettings,
    minimize_worst_case_log_loss,
    minimize_worst_case_squared_loss,
)

STABLE_LOG_LOSS = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))  # 0.5004: all that x1 can tell about y


def paper_toy():
    """Return x1, x2, y of the paper's second environment with exact counts, and its halves by whether x2 equals y."""
    rows = [
        ((x1, x2), y)
        for x1, x2, y in product((0, 1), repeat=3)
        for _ in range((40 if x1 == y else 10) * (9 if x2 == y else 1))
    ]
    X, y = np.array([row for row, _ in rows], dtype=float), np.array([label for _, label in rows])
    agree = X[:, 1] == y
    return X, y, [Group("correct", np.flatnonzero(agree)), Group("mistaken", np.flatnonzero(~agree))]


def three_classes(seed=0, n_rows=90):
    """Return rows of three classes in overlapping weighted groups."""
    generator = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    X = generator.normal(size=(n_rows, 2)) + np.eye(3)[y][:, :2]
    groups = [
        Group("first", np.arange(0, 60)),
        Group("last", np.arange(30, 90), generator.random(60)),
        Group("some", generator.choice(n_rows, 15, replace=False)),
    ]
    return X, y, groups


def objective_by_hand(parameters, X, y, groups, n_classes, C):
    """Return (group risks, penalty), written independently of the package."""
    n_outputs = 1 if n_classes == 2 else n_classes
    W = parameters.reshape(n_outputs, -1)
    logits = X @ W[:, :-1].T + W[:, -1]
    if n_classes == 2:
        logits = np.hstack([np.zeros((len(X), 1)), logits])
    losses = logsumexp(logits, axis=1) - logits[np.arange(len(X)), y]
    risks = [np.average(losses[g.rows], weights=g.weights) for g in groups]
    return np.array(risks), (W[:, :-1] ** 2).sum() / (2 * C * len(X))


@pytest.mark.parametrize(("n_classes", "C"), [(2, 0.05), (2, 1.0), (3, 0.05), (3, 10.0)])
def test_agrees_with_a_general_solver_of_the_epigraph_form(n_classes, C):
    """SLSQP on min t subject to R_g(w) + penalty ≤ t finds the same value and coefficients."""
    X, y, groups = three_classes()
    y = np.minimum(y, n_classes - 1)
    found = minimize_worst_case_log_loss(
        X, y, groups, n_classes=n_classes, C=C, settings=LinearSettings(tolerance=1e-9)
    )
    size = 3 if n_classes == 2 else 9

    def constraint(v):
        risks, penalty = objective_by_hand(v[:-1], X, y, groups, n_classes, C)
        return v[-1] - risks - penalty

    start = np.append(np.zeros(size), 2.0)
    peer = minimize(
        lambda v: v[-1],
        start,
        constraints={"type": "ineq", "fun": constraint},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    ours = np.hstack([found.coef, found.intercept[:, None]]).ravel()
    risks, penalty = objective_by_hand(ours, X, y, groups, n_classes, C)
    np.testing.assert_allclose(found.group_risks, risks, atol=1e-12)
    assert risks.max() + penalty == pytest.approx(peer.fun, abs=1e-7)
    np.testing.assert_allclose(found.coef.ravel(), np.delete(peer.x[:-1].reshape(-1, 3), 2, axis=1).ravel(), atol=2e-3)


def test_the_papers_toy_ignores_the_unstable_feature():
    """On exact counts the minimum uses x1 only, at the log loss of flipping with probability 0.2."""
    X, y, groups = paper_toy()
    found = minimize_worst_case_log_loss(X, y, groups, n_classes=2, C=1e8, settings=LinearSettings(tolerance=1e-8))
    np.testing.assert_allclose(found.group_risks, STABLE_LOG_LOSS, atol=1e-5)
    logits = {(a, b): float(found.coef[0] @ [a, b] + found.intercept[0]) for a, b in product((0, 1), repeat=2)}
    for x1, probability in ((0, 0.2), (1, 0.8)):
        for x2 in (0, 1):
            assert 1 / (1 + np.exp(-logits[x1, x2])) == pytest.approx(probability, abs=1e-3)
    np.testing.assert_allclose(found.group_weights, [0.5, 0.5], atol=1e-3)


def test_pooling_the_toy_uses_the_unstable_feature():
    """The same rows as one group: plain logistic regression leans on x2."""
    X, y, groups = paper_toy()
    pooled = minimize_worst_case_log_loss(X, y, [Group("all", np.arange(len(y)))], n_classes=2, C=1e8)
    assert pooled.coef[0, 1] > pooled.coef[0, 0] > 1.0


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_group_is_scikit_learns_logistic_regression(n_classes, fit_intercept):
    """Weighted rows in one group give LogisticRegression's coefficients."""
    X, y, _ = three_classes()
    y = np.minimum(y, n_classes - 1)
    weights = np.random.default_rng(1).random(len(y))
    weights *= len(y) / weights.sum()  # scikit-learn divides the penalty by the sum of the weights
    found = minimize_worst_case_log_loss(
        X,
        y,
        [Group("all", np.arange(len(y)), weights)],
        n_classes=n_classes,
        settings=LinearSettings(fit_intercept=fit_intercept, tolerance=1e-12),
    )
    peer = LogisticRegression(tol=1e-10, max_iter=10_000, fit_intercept=fit_intercept).fit(X, y, weights)
    np.testing.assert_allclose(found.coef, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(found.intercept, peer.intercept_, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_group_is_scikit_learns_ridge(fit_intercept):
    """All rows in one group give Ridge's coefficients, whatever the unit of the targets."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    y = 1000 * (X @ [1.0, -2.0, 0.5] + 3.0 + generator.normal(size=60))
    found = minimize_worst_case_squared_loss(
        X,
        y,
        [Group("all", np.arange(60))],
        alpha=2.5,
        settings=LinearSettings(fit_intercept=fit_intercept, tolerance=1e-12),
    )
    peer = Ridge(alpha=2.5, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(found.coef[0], peer.coef_, rtol=1e-8)
    assert found.intercept[0] == pytest.approx(peer.intercept_, rel=1e-8)
    assert found.group_risks[0] == pytest.approx(np.mean((peer.predict(X) - y) ** 2))


def test_worst_case_of_two_constants():
    """For squared error and groups with targets 0 and 4 of unequal spread the best constant equalizes the risks."""
    y = np.array([-1.0, 1.0, 4.0, 4.0])
    groups = [Group("low", np.array([0, 1])), Group("high", np.array([2, 3]))]
    found = minimize_worst_case_squared_loss(
        np.zeros((4, 1)), y, groups, alpha=0.0, settings=LinearSettings(tolerance=1e-10)
    )
    assert found.intercept[0] == pytest.approx(15 / 8)  # c² + 1 = (4 − c)²
    np.testing.assert_allclose(found.group_risks, (17 / 8) ** 2)


def test_copies_of_rows_and_of_groups_change_nothing():
    """Every row of a group twice is the same mean; a repeated group is the same maximum."""
    X, y, groups = three_classes()
    once = minimize_worst_case_log_loss(X, y, groups, n_classes=3, settings=LinearSettings(tolerance=1e-8))
    doubled = [Group(g.name, np.tile(g.rows, 2), None if g.weights is None else np.tile(g.weights, 2)) for g in groups]
    for variant in (doubled, [*groups, *groups, groups[0]]):
        again = minimize_worst_case_log_loss(X, y, variant, n_classes=3, settings=LinearSettings(tolerance=1e-8))
        np.testing.assert_allclose(again.coef, once.coef, atol=1e-3)
        assert again.group_risks.max() == pytest.approx(once.group_risks.max(), abs=1e-6)
    # All of X twice: n_rows doubles, so C has to be halved for the same penalty.
    copies = [Group(g.name, np.concatenate([g.rows, g.rows + len(y)]), None) for g in groups if g.weights is None]
    plain = [g for g in groups if g.weights is None]
    single = minimize_worst_case_log_loss(X, y, plain, n_classes=3, C=1.0, settings=LinearSettings(tolerance=1e-8))
    twice = minimize_worst_case_log_loss(
        np.tile(X, (2, 1)), np.tile(y, 2), copies, n_classes=3, C=0.5, settings=LinearSettings(tolerance=1e-8)
    )
    np.testing.assert_allclose(twice.coef, single.coef, atol=1e-3)


def test_the_order_of_groups_and_of_rows_does_not_matter():
    """Permuted groups give permuted risks, permuted rows the same coefficients."""
    X, y, groups = three_classes()
    first = minimize_worst_case_log_loss(X, y, groups, n_classes=3, settings=LinearSettings(tolerance=1e-9))
    backwards = minimize_worst_case_log_loss(X, y, groups[::-1], n_classes=3, settings=LinearSettings(tolerance=1e-9))
    np.testing.assert_allclose(backwards.group_risks[::-1], first.group_risks, atol=1e-5)
    order = np.random.default_rng(3).permutation(len(y))
    position = np.argsort(order)
    moved = [Group(g.name, position[g.rows], g.weights) for g in groups]
    shuffled = minimize_worst_case_log_loss(
        X[order], y[order], moved, n_classes=3, settings=LinearSettings(tolerance=1e-9)
    )
    np.testing.assert_allclose(shuffled.coef, first.coef, atol=1e-4)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.SolverWarning")
@pytest.mark.parametrize("distance", [1e10, 1e12, 1e13, 1e14, 1e15])
@pytest.mark.parametrize("n_classes", [2, 3, None])
def test_risks_and_gap_are_those_of_the_returned_coefficients(distance, n_classes):
    """Also where a column's mean is 1e15 times its spread, so that rounding spoils what the solver found."""
    X, codes, groups = three_classes(n_rows=90)
    shifted = X + distance
    exact = shifted - distance  # what is left of X
    if n_classes is None:
        y = 5.0 * X[:, 0] + codes
        found = minimize_worst_case_squared_loss(shifted, y, groups)
        best = minimize_worst_case_squared_loss(exact, y, groups)
        losses = ((shifted @ found.coef.T + found.intercept)[:, 0] - y) ** 2
        risks = np.array([np.average(losses[g.rows], weights=g.weights) for g in groups])
        penalty, best_penalty = ((found.coef**2).sum() / 90, (best.coef**2).sum() / 90)
    else:
        y = np.minimum(codes, n_classes - 1)
        found = minimize_worst_case_log_loss(shifted, y, groups, n_classes=n_classes)
        best = minimize_worst_case_log_loss(exact, y, groups, n_classes=n_classes)
        parameters = np.hstack([found.coef, found.intercept[:, None]])
        risks, penalty = objective_by_hand(parameters, shifted, y, groups, n_classes, 1.0)
        best_penalty = (best.coef**2).sum() / (2 * 90)
    np.testing.assert_allclose(found.group_risks, risks, rtol=1e-6)
    left = risks.max() + penalty - (best.group_risks.max() + best_penalty)
    assert left <= found.gap + 1e-6
    assert found.history[-1]["gap"] == found.gap
    assert found.history[-1]["group_risks"] == found.group_risks.tolist()


def test_rounding_that_spoils_the_coefficients_is_said():
    """The warning names the cause and the remedy, and the gap is not said to be closed.

    Which offset is rounded badly depends on the processor.
    """
    X, y, groups = three_classes()
    with pytest.warns(SolverWarning, match="rounding spoils the coefficients: .* Center the columns"):
        found = [
            minimize_worst_case_log_loss(X + offset, y, groups, n_classes=3) for offset in (1e15, 3e15, 8e15, 1e16)
        ]
    assert max(solution.gap for solution in found) > 1e-3


def test_scaled_and_shifted_columns_without_a_penalty_are_the_same_problem():
    """Units of 1e9 and offsets of 1e7 standard deviations cost no accuracy."""
    X, y, groups = three_classes()
    scale, offset = np.array([1e9, 1e-9]), np.array([1e16, 0.3])
    plain = minimize_worst_case_log_loss(X, y, groups, n_classes=3, C=np.inf, settings=LinearSettings(tolerance=1e-7))
    wild = minimize_worst_case_log_loss(
        X * scale + offset, y, groups, n_classes=3, C=np.inf, settings=LinearSettings(tolerance=1e-7)
    )
    np.testing.assert_allclose(wild.coef * scale, plain.coef, rtol=1e-3)
    np.testing.assert_allclose(wild.group_risks, plain.group_risks, atol=1e-5)


def test_scaling_a_column_keeps_the_penalty_as_stated():
    """A column in other units is penalized in those units, as scikit-learn does."""
    X, y, _ = three_classes()
    y, X = np.minimum(y, 1), X * [1e3, 1e-3] + [5e4, 0.0]
    found = minimize_worst_case_log_loss(
        X, y, [Group("all", np.arange(len(y)))], n_classes=2, settings=LinearSettings(tolerance=1e-12)
    )
    peer = LogisticRegression(tol=1e-10, max_iter=10_000, solver="newton-cholesky").fit(X - [5e4, 0.0], y)
    np.testing.assert_allclose(found.coef, peer.coef_, rtol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_rows_are_the_same_rows(n_classes):
    """A CSR matrix gives the dense matrix' coefficients."""
    X, y, groups = three_classes()
    X, y = np.where(X > 0.5, X, 0.0), np.minimum(y, n_classes - 1)
    plain = minimize_worst_case_log_loss(X, y, groups, n_classes=n_classes, settings=LinearSettings(tolerance=1e-9))
    thin = minimize_worst_case_log_loss(
        sparse.csr_matrix(X), y, groups, n_classes=n_classes, settings=LinearSettings(tolerance=1e-9)
    )
    np.testing.assert_allclose(thin.coef, plain.coef, atol=1e-4)
    np.testing.assert_allclose(thin.group_risks, plain.group_risks, atol=1e-7)


def test_a_memory_map_is_solved_like_the_array_and_not_held_in_memory(tmp_path):
    """Blocks are read from disk: the peak of allocations stays far below the size of X."""
    generator = np.random.default_rng(0)
    n_rows, n_features = 250_000, 40
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float64, shape=(n_rows, n_features))
    X[:] = generator.normal(size=(n_rows, n_features))
    y = (X[:, 0] + X[:, 1] + generator.normal(size=n_rows) > 0).astype(int)
    groups = [
        Group("a", np.arange(0, n_rows, 2)),
        Group("b", np.arange(1, n_rows, 2)),
        Group("c", np.arange(n_rows // 2)),
    ]
    stored = np.load(tmp_path / "X.npy", mmap_mode="r")
    tracemalloc.start()
    mapped = minimize_worst_case_log_loss(stored, y, groups, n_classes=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2
    in_memory = minimize_worst_case_log_loss(np.array(X), y, groups, n_classes=2)
    np.testing.assert_array_equal(mapped.coef, in_memory.coef)
    assert mapped.gap <= 1e-4


def test_separable_groups_without_a_penalty_reach_zero_risk():
    """There is no minimum, but the risk falls below the tolerance and no loss is negative: a certificate."""
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    groups = [Group("left", np.array([0, 2])), Group("right", np.array([1, 3]))]
    found = minimize_worst_case_log_loss(X, [0, 0, 1, 1], groups, n_classes=2, C=np.inf)
    assert found.group_risks.max() <= 1e-4
    assert found.gap <= 1e-4


def test_a_class_that_no_row_shows_is_certified_too():
    """Four classes of which three occur: the fourth only loses probability."""
    X, y, groups = three_classes()
    found = minimize_worst_case_log_loss(X, y, groups, n_classes=4)
    known = minimize_worst_case_log_loss(X, y, groups, n_classes=3)
    assert found.gap <= 1e-4
    assert found.coef.shape == (4, 2)
    assert found.group_risks.max() == pytest.approx(known.group_risks.max(), abs=5e-4)


def test_contradicting_groups_leave_the_constant():
    """Groups that differ in the label only force log 2 everywhere, at coefficients of exactly no use."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    both = np.vstack([X, X])
    y = np.repeat([0, 1], 40)
    groups = [Group("no", np.arange(40)), Group("yes", np.arange(40, 80))]
    found = minimize_worst_case_log_loss(both, y, groups, n_classes=2)
    np.testing.assert_allclose(found.group_risks, np.log(2), atol=1e-4)
    np.testing.assert_allclose(found.coef, 0.0, atol=1e-3)


def test_groups_without_any_gradient_are_already_solved():
    """Copies of a row with both labels in every group: zero coefficients are optimal and no system is well posed."""
    groups = [Group("left", np.array([0, 1])), Group("right", np.array([2, 3]))]
    found = minimize_worst_case_log_loss(np.array([[0.0], [0.0], [1.0], [1.0]]), [0, 1, 0, 1], groups, n_classes=2)
    np.testing.assert_allclose(found.group_risks, np.log(2))
    assert found.gap <= 1e-12


def test_history_has_an_entry_for_each_iteration():
    """Risks and gaps are recorded, and the gap never grows."""
    X, y, groups = three_classes()
    history = minimize_worst_case_log_loss(X, y, groups, n_classes=3).history
    assert [entry["iteration"] for entry in history] == list(range(1, len(history) + 1))
    gaps = [entry["gap"] for entry in history]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] <= 1e-4


def test_an_open_gap_warns():
    """Too few iterations end with SolverWarning, and the gap says how much may be left."""
    X, y, groups = three_classes()
    with pytest.warns(SolverWarning, match="stopped after 1 iterations with a certified gap of .* above the tolerance"):
        found = minimize_worst_case_log_loss(
            X, y, groups, n_classes=3, C=100.0, settings=LinearSettings(tolerance=1e-6, max_iterations=1)
        )
    assert found.gap > 1e-6


def test_an_open_gap_is_said_as_a_share_of_the_targets_variance():
    """The tolerance of regression has no unit, and neither has the gap that is compared with it."""
    X, _, groups = three_classes()
    y = 1000.0 * X[:, 0] ** 2
    with pytest.warns(SolverWarning, match="certified gap of") as caught:
        found = minimize_worst_case_squared_loss(
            X, y, groups, settings=LinearSettings(tolerance=1e-9, max_iterations=1)
        )
    said = float(str(caught[0].message).partition("gap of ")[2].partition(",")[0])
    assert said == pytest.approx(found.gap / y.var(), rel=0.1)


def test_the_default_penalty_of_regression_is_that_of_ridge():
    """alpha is 1.0, as in scikit-learn."""
    X, y, _ = three_classes()
    everyone = [Group("all", np.arange(90))]
    found = minimize_worst_case_squared_loss(X, y.astype(float), everyone, settings=LinearSettings(tolerance=1e-12))
    np.testing.assert_allclose(found.coef[0], Ridge().fit(X, y).coef_, atol=1e-6)


def test_a_group_without_weight_is_left_out():
    """It has no risk: reported as 0, weight 0, with a warning; zero weights inside a group are just absent rows."""
    X, y, groups = three_classes()
    empty = [Group("none", np.array([], dtype=np.intp)), Group("zero", np.array([1, 2]), np.zeros(2))]
    partly = Group("first", np.arange(90), (np.arange(90) < 60).astype(float))
    with pytest.warns(
        SmallGroupWarning, match="2 of 5 groups have no row with positive weight and no risk: 'none', 'zero'"
    ):
        found = minimize_worst_case_log_loss(
            X, y, [*empty, partly, *groups[1:]], n_classes=3, settings=LinearSettings(tolerance=1e-8)
        )
    assert found.group_risks[:2].tolist() == found.group_weights[:2].tolist() == [0.0, 0.0]
    assert all(entry["group_risks"][:2] == [0.0, 0.0] and len(entry["group_risks"]) == 5 for entry in found.history)
    plain = minimize_worst_case_log_loss(X, y, groups, n_classes=3, settings=LinearSettings(tolerance=1e-8))
    np.testing.assert_allclose(found.group_risks[2:], plain.group_risks, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"groups": []}, ParameterError, "None of the 0 groups has a row"),
        ({"groups": [Group("g", np.array([0, 90]))]}, ParameterError, "Group 'g' has row numbers outside 0 to 89"),
        ({"groups": [Group("g", np.array([0]), np.array([-1.0]))]}, ParameterError, "negative, NaN or infinite"),
        ({"C": 0.0}, ParameterError, "The 'C' parameter must be a positive number. Got 0.0"),
        ({"y_codes": np.full(90, 3)}, LabelsError, "one integer code from 0 to 2 for each row"),
        ({"y_codes": np.zeros(90)}, LabelsError, "one integer code from 0 to 2 for each row"),
        ({"y_codes": np.zeros(5, int)}, FeaturesError, "X has 90 rows for 5 labels"),
        ({"X": np.zeros((90, 2, 2))}, FeaturesError, "X must be numbers in rows and columns"),
        ({"X": np.full((90, 2), np.nan)}, FeaturesError, "X contains NaN or infinite values"),
    ],
)
def test_what_cannot_be_solved_is_refused(change, error, message):
    """The error says what came and what to do."""
    X, y, groups = three_classes()
    arguments = {"X": X, "y_codes": y, "groups": groups, "n_classes": 3} | change
    with pytest.raises(error, match=message):
        minimize_worst_case_log_loss(**arguments)


def test_targets_that_are_not_finite_are_refused():
    """Regression needs one finite number for each row, and a penalty that is none below zero."""
    group = [Group("all", np.arange(3))]
    with pytest.raises(LabelsError, match="with NaN or infinite values"):
        minimize_worst_case_squared_loss(np.zeros((3, 1)), [0.0, np.nan, 1.0], group)
    with pytest.raises(ParameterError, match="The 'alpha' parameter must be zero or positive. Got -1.0"):
        minimize_worst_case_squared_loss(np.zeros((3, 1)), [0.0, 2.0, 1.0], group, alpha=-1.0)


def test_large_problems_start_from_a_sample(monkeypatch):
    """The sample saves iterations on all rows and changes nothing in the result."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(6000, 4))
    y = (2 * X[:, 0] + generator.normal(size=6000) > 0).astype(int)
    groups = [Group("up", np.flatnonzero(X[:, 1] > 0)), Group("down", np.flatnonzero(X[:, 1] < 0.3))]
    whole = minimize_worst_case_log_loss(X, y, groups, n_classes=2)
    monkeypatch.setattr("holdfast.interpolation.convex.solver.SAMPLED_ROWS", 1000)
    monkeypatch.setattr("holdfast.interpolation.convex.solver.MIN_SAMPLED_ROWS", 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampled = minimize_worst_case_log_loss(X, y, groups, n_classes=2)
    assert len(sampled.history) < len(whole.history)
    np.testing.assert_allclose(sampled.group_risks, whole.group_risks, atol=1e-4)


@pytest.mark.parametrize("seed", [0, 3, 16, 19, 22, 40, 52, 75, 146, 230])
def test_few_binary_rows_without_a_penalty_are_certified(seed):
    """Directions the worst groups do not see, copies of rows and groups, optima at infinity: still a gap of 1e-4."""
    generator = np.random.default_rng(seed)
    n_rows, n_features = int(generator.integers(4, 13)), int(generator.integers(3, 6))
    X = generator.integers(2, size=(n_rows, n_features)).astype(float)
    y = generator.integers(2, size=n_rows)
    groups = [
        Group(str(g), generator.choice(n_rows, size=int(generator.integers(1, n_rows))))
        for g in range(int(generator.integers(2, 10)))
    ]
    assert minimize_worst_case_log_loss(X, y, groups * 2, n_classes=2, C=np.inf).gap <= 1e-4
    assert minimize_worst_case_squared_loss(X, y, groups * 2, alpha=0.0).gap <= 1e-4
