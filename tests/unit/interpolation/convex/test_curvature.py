import numpy as np
import pytest
from scipy import sparse

from holdfast.exceptions import FeaturesError
from holdfast.interpolation.convex import minimax as linear_curvature
from holdfast.interpolation.convex.losses import BinaryLogLoss, SoftmaxLogLoss
from holdfast.interpolation.convex.minimax import MatrixCurvature, ProductCurvature, curvature_at
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
