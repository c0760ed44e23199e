import numpy as np
import pytest
from scipy import sparse

from holdfast.exceptions import FeaturesError
from holdfast.interpolation.convex import minimax as linear_curvature
from holdfast.interpolation.convex.losses import BinaryLogLoss, SoftmaxLogLoss, SquaredLoss
from holdfast.interpolation.convex.minimax import (
    MatrixCurvature,
    ProductCurvature,
    RememberedCurvature,
    _evaluate,
    curvature_at,
)
from holdfast.interpolation.convex.problem import Design, LinearProblem


def make_problem(loss, *, kind=np.asarray, penalty=0.1, n_features=4):
    """Return a problem of one group with outputs, weights and right-hand sides."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, n_features)) * (generator.random((60, n_features)) < 0.5)
    problem = LinearProblem(Design(kind(X)), loss, np.zeros(60, int), sparse.csr_matrix(np.ones((60, 1)) / 60), penalty)
    z, weights = generator.normal(size=(60, loss.n_outputs)), generator.random(60) / 60
    right = generator.normal(size=(*problem.shape, 3))
    if loss.n_outputs > 1:
        right -= right.mean(axis=1, keepdims=True)  # as gradients are
    return problem, z, weights, right.reshape(-1, 3)


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SoftmaxLogLoss(3)], ids=["binary", "three classes"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_matrix_and_products_are_one_curvature(loss, kind):
    """Both solve the same systems, and the factor squares to rightᵀ M⁻¹ right."""
    problem, z, weights, right = make_problem(loss, kind=kind)
    exact, factor = MatrixCurvature(problem, z, weights).solve(right, precision=0.0)
    products = ProductCurvature(problem, z, weights)
    close, other = products.solve(right, precision=1e-10)
    np.testing.assert_allclose(products.product(exact), right, atol=1e-9)
    np.testing.assert_allclose(close, exact, atol=1e-6 * np.abs(exact).max())
    np.testing.assert_allclose(factor.T @ factor, right.T @ exact, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(other.T @ other, factor.T @ factor, rtol=1e-4)


def test_collinear_columns_without_a_penalty_are_solved():
    """A singular curvature is lifted just enough to factorize."""
    problem, z, weights, right = make_problem(BinaryLogLoss(), kind=lambda X: X[:, [0, 0, 1, 2]], penalty=0.0)
    right[1] = right[0]  # gradients of equal columns are equal
    solution, _ = MatrixCurvature(problem, z, weights).solve(right, precision=0.0)
    np.testing.assert_allclose(ProductCurvature(problem, z, weights).product(solution), right, atol=1e-6)


def test_many_coefficients_are_not_put_into_a_matrix(monkeypatch):
    """Beyond the limit only products are taken."""
    problem, z, weights, _ = make_problem(BinaryLogLoss())
    assert isinstance(curvature_at(problem, z, weights), MatrixCurvature)
    monkeypatch.setattr(linear_curvature, "MAX_MATRIX", 4)
    assert isinstance(curvature_at(problem, z, weights), ProductCurvature)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_values_that_are_not_finite_are_refused(value):
    """NaN is refused where it is born."""
    problem, z, weights, _ = make_problem(BinaryLogLoss())
    problem.design.X[3, 1] = value
    with np.errstate(all="ignore"), pytest.raises(FeaturesError, match="X contains NaN or infinite values"):
        MatrixCurvature(problem, z, weights)


def test_conjugate_gradients_need_a_step_for_each_coefficient(monkeypatch):
    """Directions are conjugate: five coefficients are solved in five steps, which steepest descent is not."""
    problem, z, weights, right = make_problem(BinaryLogLoss(), penalty=1e-4)
    problem.design.X[:] *= [1.0, 3.0, 9.0, 27.0]
    problem.design.X[:, 1] += problem.design.X[:, 0]
    monkeypatch.setattr(linear_curvature, "MAX_CG_ITERATIONS", 5)
    exact, _ = MatrixCurvature(problem, z, weights).solve(right, precision=0.0)
    close, _ = ProductCurvature(problem, z, weights).solve(right, precision=0.0)
    np.testing.assert_allclose(close, exact, rtol=1e-6)


def make_groups(scales=(1.0, 1.0, 1.0)):
    """Return squared errors of three groups of rows, whose curvature is the same everywhere."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 3)) * scales
    shares = generator.random((30, 3))
    return LinearProblem(Design(X), SquaredLoss(), generator.normal(size=30), shares / shares.sum(axis=0), 0.1)


def visit(remembered, q, seed, groups=(0, 1, 2)):
    """Let a memory see one more point, and return the point with its gradients."""
    problem = remembered.problem
    coefficients = np.random.default_rng(seed).normal(size=problem.shape)
    point = _evaluate(problem, coefficients, problem.design.forward(coefficients))
    gradients = problem.gradients(point.z, np.array(groups)).reshape(len(groups), -1)
    remembered.see(point, q, np.array(groups), gradients)
    return point, gradients


def test_a_remembered_step_is_solved_exactly():
    """The curvature of squares is the same at all points: the change of the gradient is its product with the step."""
    problem, q = make_groups(), np.array([0.5, 0.2, 0.3])
    remembered = RememberedCurvature(problem, 1e-6)
    first, _ = visit(remembered, q, seed=1)
    second, _ = visit(remembered, q, seed=2)
    third, _ = visit(remembered, q, seed=3)
    matrix = ProductCurvature(problem, first.z, problem.group_rows @ q)
    for (step, change, _), before, after in zip(remembered.pairs, [first, second], [second, third], strict=True):
        np.testing.assert_allclose(step, (after.coefficients - before.coefficients).ravel())
        np.testing.assert_allclose(change, matrix.product(step[:, None])[:, 0])
    step, change, _ = remembered.pairs[-1]
    np.testing.assert_allclose(remembered.nearly(change[:, None])[:, 0], step)


def test_a_memory_without_steps_knows_the_units_of_columns():
    """Columns of very different spread are divided by their mean squares, others are left alone."""
    right = np.arange(4.0)[:, None]
    assert RememberedCurvature(make_groups(), 1e-6).nearly(right).tolist() == right.tolist()
    problem = make_groups(scales=(1.0, 1.0, 1e4))
    squares = 2 * np.append((problem.design.X**2).mean(axis=0) + 0.05, 1.0)
    np.testing.assert_allclose(RememberedCurvature(problem, 1e-6).nearly(right), right / squares[:, None])


def test_a_memory_is_enough_until_the_gap_is_small(monkeypatch):
    """From 300 times the tolerance on, by the mixture's gradient alone, or after so many steps, systems are solved."""
    problem, q = make_groups(), np.array([0.5, 0.2, 0.3])
    point = _evaluate(problem, np.zeros(problem.shape), np.zeros((30, 1)))
    right = np.ones((4, 3))
    gap = 4.0 / (2 * 0.1)  # the squared norm of the mixture's gradient over twice the penalty
    for tolerance, near in ((1.01 * gap / 300, True), (0.99 * gap / 300, False)):
        remembered = RememberedCurvature(problem, tolerance)
        remembered.solve(point, problem.group_rows @ q, right, q)
        assert remembered.is_near == near
    monkeypatch.setattr(linear_curvature, "MOST_REMEMBERED", 2)
    remembered, near = RememberedCurvature(problem, 1e-9), []
    for _ in range(3):
        remembered.solve(point, problem.group_rows @ q, right, q)
        near.append(remembered.is_near)
    assert near == [False, False, True]


@pytest.mark.parametrize(("tolerance", "error"), [(1e-3, 0.02), (1e6, 0.2)])
def test_near_the_optimum_every_group_has_its_own_system(tolerance, error):
    """The mixture's is solved to a tenth or better, and so is what a group differs by from it."""
    problem, q = make_groups(), np.array([0.5, 0.2, 0.3])
    remembered = RememberedCurvature(problem, tolerance)
    visit(remembered, q, seed=1)
    point, gradients = visit(remembered, q, seed=2)
    remembered.is_near = True
    weights = problem.group_rows @ q
    right = (gradients + (problem.penalties * point.coefficients).ravel()).T
    solution, factor = remembered.solve(point, weights, right, q)
    exact, _ = MatrixCurvature(problem, point.z, weights).solve(right, precision=0.0)
    np.testing.assert_allclose(solution @ q, exact @ q, atol=error * np.abs(exact @ q).max())
    np.testing.assert_allclose(solution, exact, atol=0.2 * np.abs(exact).max())
    np.testing.assert_allclose(factor.T @ factor, right.T @ exact, atol=0.2 * np.abs(right.T @ exact).max())
