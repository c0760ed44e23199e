import numpy as np
import pytest

from holdfast.environments import Group
from holdfast.interpolation.convex import minimax as linear_curvature
from holdfast.interpolation.convex import minimax as linear_minimax
from holdfast.interpolation.convex.losses import BinaryLogLoss, SoftmaxLogLoss, SquaredLoss
from holdfast.interpolation.convex.minimax import minimize_worst_case
from holdfast.interpolation.convex.problem import Design, LinearProblem, group_matrix


def random_problem(seed: int) -> LinearProblem:
    """Return a small problem with overlapping weighted groups: any loss, any penalty, columns of any scale."""
    generator = np.random.default_rng(seed)
    n_rows, n_features = int(generator.integers(10, 120)), int(generator.integers(1, 6))
    X = generator.normal(size=(n_rows, n_features)) * 10 ** generator.uniform(-2, 2, n_features)
    n_classes = int(generator.integers(2, 5))
    y = np.argmax(
        X @ generator.normal(size=(n_features, n_classes)) + generator.normal(size=(n_rows, n_classes)), axis=1
    )
    loss = BinaryLogLoss() if n_classes == 2 else SoftmaxLogLoss(n_classes)
    if seed % 4 == 0:
        loss, y = SquaredLoss(), y + generator.normal(size=n_rows)
    groups = []
    for g in range(int(generator.integers(1, 9))):
        rows = generator.choice(n_rows, size=int(generator.integers(1, n_rows)), replace=False)
        groups.append(Group(str(g), rows, generator.random(len(rows)) ** 2))
    penalty = 10 ** generator.uniform(-6, 0)
    return LinearProblem(Design(X, fit_intercept=seed % 3 > 0), loss, y, group_matrix(groups, n_rows), penalty)


@pytest.mark.parametrize("seed", range(24))
def test_every_gap_is_an_upper_bound_on_what_is_left(seed: int):
    """Stopped after any number of iterations, the objective is at most its gap above the optimum."""
    problem = random_problem(seed)
    optimum = minimize_worst_case(problem, tolerance=1e-9, max_iterations=200)
    assert optimum.gap <= 1e-9
    for n_iterations in (1, 2, 4):
        early = minimize_worst_case(problem, tolerance=1e-3, max_iterations=n_iterations)
        assert early.point.objective - optimum.point.objective <= early.gap + 1e-12
        assert early.lower_bound <= optimum.point.objective + 1e-12


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_bound_holds_for_any_mixture_and_any_step(seed: int, monkeypatch: pytest.MonkeyPatch):
    """A poor mixture and systems solved hardly at all make the certificate loose, never wrong."""
    problem = random_problem(seed)
    optimum = minimize_worst_case(problem, tolerance=1e-9, max_iterations=200).point.objective
    monkeypatch.setattr(linear_curvature, "MAX_MATRIX", 0)
    monkeypatch.setattr(linear_curvature, "MAX_CG_ITERATIONS", 2)
    generator = np.random.default_rng(seed)
    for _ in range(5):
        coefficients = problem.gauge(generator.normal(size=problem.shape) / problem.design.n_rows)
        point = linear_minimax._evaluate(problem, coefficients, problem.design.forward(coefficients))
        q = generator.dirichlet(np.ones(problem.group_rows.shape[1]))
        model = linear_minimax.TangentModel(problem, point, q, precision=0.5)
        assert linear_minimax.certified_bound(problem, point, model) <= optimum + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_conjugate_gradients_reach_the_same_optimum(seed: int, monkeypatch: pytest.MonkeyPatch):
    """The method for many coefficients certifies the same value as the one for few."""
    problem = random_problem(seed)
    exact = minimize_worst_case(problem, tolerance=1e-8, max_iterations=100)
    monkeypatch.setattr(linear_curvature, "MAX_MATRIX", 0)
    other = minimize_worst_case(problem, tolerance=1e-5, max_iterations=100)
    assert other.gap <= 1e-5
    assert other.point.objective == pytest.approx(exact.point.objective, abs=1e-5)


def test_a_start_worse_than_zero_is_not_used():
    """A bad warm start costs nothing."""
    problem = random_problem(2)
    far = np.full(problem.shape, 1e3)
    far[:, 0] = -1e3
    found = minimize_worst_case(problem, tolerance=1e-6, max_iterations=1, start=far)
    plain = minimize_worst_case(problem, tolerance=1e-6, max_iterations=1)
    assert found.point.objective == plain.point.objective


def test_more_groups_than_the_working_set_holds():
    """Two thousand overlapping groups are solved with tangents of a few."""
    generator = np.random.default_rng(0)
    n_rows, n_groups = 4000, 2000
    X = generator.normal(size=(n_rows, 3))
    y = (X[:, 0] + generator.normal(size=n_rows) > 0).astype(int)
    groups = [Group(str(g), generator.choice(n_rows, size=200, replace=False)) for g in range(n_groups)]
    problem = LinearProblem(Design(X), BinaryLogLoss(), y, group_matrix(groups, n_rows), 1e-4)
    found = minimize_worst_case(problem, tolerance=1e-6, max_iterations=30)
    assert found.gap <= 1e-6
    assert found.point.risks.shape == (n_groups,)
    assert found.mixture.sum() == pytest.approx(1.0)
    assert found.mixture @ found.point.risks == pytest.approx(found.point.risks.max(), abs=1e-5)


@pytest.mark.parametrize("seed", [1, 2, 5, 7, 10])
def test_without_a_penalty_no_point_of_the_box_is_below_the_bound(seed: int):
    """The certificate of an unpenalized fit holds for every coefficient vector near the one found, and for others."""
    penalized = random_problem(seed)
    problem = LinearProblem(penalized.design, penalized.loss, penalized.y, penalized.group_rows, penalty=0.0)
    found = minimize_worst_case(problem, tolerance=1e-6, max_iterations=100)
    assert found.gap <= 1e-6
    generator = np.random.default_rng(seed)
    for spread in (1e-3, 1e-1, 1.0, 10.0):
        for _ in range(20):
            other = found.point.coefficients * (1 + spread * generator.normal(size=problem.shape))
            assert problem.risks(problem.design.forward(other)).max() >= found.lower_bound - 1e-12


def test_the_bound_without_a_penalty_has_a_known_value():
    """The dual value less the moments that a box, 1000 times the coefficients plus one over the spread, can use."""
    X, y = np.array([[-1.0], [1.0], [3.0], [1.0]]), np.array([0, 1, 1, 0])
    design = Design(X)
    problem = LinearProblem(design, BinaryLogLoss(), y, np.full((4, 1), 0.25), penalty=0.0)
    coefficients = np.array([[0.5], [0.0]])
    point = linear_minimax._evaluate(problem, coefficients, design.forward(coefficients))
    model = linear_minimax.TangentModel(problem, point, np.ones(1), precision=0.0)
    model.newton_step = np.zeros_like(coefficients)
    shares = 1 / (1 + np.exp(-0.5 * X[:, 0]))
    amount = 1 - 0.5 / shares.mean()  # mixing in so much of a constant makes the mean share that of class 1
    shares = (1 - amount) * shares + 0.5 - (1 - amount) * shares.mean()
    entropy = -(shares * np.log(shares) + (1 - shares) * np.log(1 - shares)).mean()
    moment = abs(((shares - y) * X[:, 0]).mean())
    expected = entropy - 1000 * (0.5 + 1 / X.std()) * moment
    assert linear_minimax.certified_bound(problem, point, model) == pytest.approx(expected, rel=1e-9)


def test_the_best_step_has_the_value_it_says():
    """At the step, the largest tangent plus curvature and penalty is the value; no other step is lower."""
    problem = random_problem(1)
    generator = np.random.default_rng(0)
    coefficients = problem.gauge(generator.normal(size=problem.shape)) * 0.01
    point = linear_minimax._evaluate(problem, coefficients, problem.design.forward(coefficients))
    q = np.full(len(point.risks), 1.0 / len(point.risks))
    model = linear_minimax.TangentModel(problem, point, q, precision=0.0)
    curvature = linear_curvature.ProductCurvature(problem, point.z, model.row_weights)
    pull = (problem.penalties * coefficients).ravel()

    def value(step):
        tangents = point.risks[model.groups] + (model.gradients + pull) @ step
        return tangents.max() + 0.5 * float(step @ curvature.product(step[:, None])[:, 0]) + model.program.penalty

    _, step, least = model.best_step(point.risks[model.groups])
    assert value(step.ravel()) == pytest.approx(least, rel=1e-6)
    for _ in range(20):
        other = problem.gauge(step * (1 + 0.3 * generator.normal(size=step.shape))).ravel()
        assert value(other) >= least - 1e-9


def test_the_working_set_is_the_worst_groups_and_those_of_the_mixture():
    """All groups where they are few."""
    risks, q = np.array([0.1, 0.5, 0.3, 0.4]), np.array([1.0, 0.0, 0.0, 0.0])
    assert linear_minimax._working_groups(risks, q, 4).tolist() == [0, 1, 2, 3]
    assert linear_minimax._working_groups(risks, q, 2).tolist() == [0, 1, 3]


@pytest.mark.parametrize("seed", [0, 4, 8])
def test_the_guess_at_the_bound_is_right_for_squares(seed: int):
    """Newton's step reaches the minimum of a quadratic risk, so that what it would leave is the least risk itself."""
    problem = random_problem(seed)
    coefficients = np.random.default_rng(seed).normal(size=problem.shape) / 10
    point = linear_minimax._evaluate(problem, coefficients, problem.design.forward(coefficients))
    n_groups = problem.group_rows.shape[1]
    q = np.full(n_groups, 1 / n_groups)
    model = linear_minimax.TangentModel(problem, point, q, precision=1e-12)
    least = linear_minimax._evaluate(problem, after := coefficients + model.newton_step, problem.design.forward(after))
    penalty = least.objective - least.risks.max()
    assert model.estimated_bound == pytest.approx(float(q @ least.risks) + penalty, rel=1e-6)


@pytest.mark.parametrize("predicted", [1.0, 200.0])
def test_a_step_that_leads_too_far_is_halved(predicted: float):
    """From 1 a step of -8 overshoots the minimum at 0 of w²; an eighth of it is the first part that is lower."""
    design = Design(np.ones((2, 1)), fit_intercept=False)
    problem = LinearProblem(design, SquaredLoss(), np.zeros(2), np.full((2, 2), 0.5), penalty=0.0)
    point = linear_minimax._evaluate(problem, np.ones((1, 1)), np.ones((2, 1)))
    model = linear_minimax.TangentModel(problem, point, np.array([1.0, 0.0]), precision=0.0)
    model.best_step = lambda constants: (np.array([1.0, 0.0]), np.array([[-8.0]]), 1.0 - predicted)
    q, found = linear_minimax._next_point(problem, point, model, tolerance=1e-6)
    assert found.coefficients.tolist() == [[0.0]]
    assert q.tolist() == pytest.approx([0.95, 0.05])  # the next curvature sees a tenth of all groups alike


def test_a_step_that_helps_at_no_length_is_not_taken():
    """The point stays, and so does the mixture where nothing is left to gain."""
    design = Design(np.ones((2, 1)), fit_intercept=False)
    problem = LinearProblem(design, SquaredLoss(), np.zeros(2), np.full((2, 2), 0.5), penalty=0.0)
    point = linear_minimax._evaluate(problem, np.ones((1, 1)), np.ones((2, 1)))
    model = linear_minimax.TangentModel(problem, point, np.array([1.0, 0.0]), precision=0.0)
    model.best_step = lambda constants: (np.array([1.0, 0.0]), np.array([[1.0]]), 1.0 - 1e-9)
    q, found = linear_minimax._next_point(problem, point, model, tolerance=1e-6)
    assert found is point
    assert q.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("seed", "n_iterations", "n_products"), [(5, 14, 130), (13, 28, 225), (22, 43, 179)])
def test_many_coefficients_cost_few_products(seed, n_iterations, n_products, monkeypatch: pytest.MonkeyPatch):
    """What precision the systems are solved to, and from when on, decides what a fit costs: at most twice as much."""
    monkeypatch.setattr(linear_curvature, "MAX_MATRIX", 0)
    asked, product = [], linear_curvature.ProductCurvature.product

    def counted(self, vectors):
        asked.append(vectors.shape[1])
        return product(self, vectors)

    monkeypatch.setattr(linear_curvature.ProductCurvature, "product", counted)
    found = minimize_worst_case(random_problem(seed), tolerance=1e-5, max_iterations=100)
    assert found.gap <= 1e-5
    assert len(found.history) <= 2 * n_iterations
    assert 0 < sum(asked) <= 2 * n_products


def test_five_iterations_without_any_progress_are_the_end():
    """Columns of zeros leave nothing to do, and a tolerance below zero cannot be reached."""
    problem = LinearProblem(
        Design(np.zeros((4, 1))), BinaryLogLoss(), np.array([0, 1, 0, 1]), np.full((4, 1), 0.25), 1.0
    )
    found = minimize_worst_case(problem, tolerance=-1.0, max_iterations=100)
    assert len(found.history) == 5
    assert found.point.objective == pytest.approx(np.log(2))
