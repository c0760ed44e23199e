import numpy as np
import pytest

import holdfast.interpolation.convex.problem
from holdfast.environments import Group
from holdfast.interpolation.convex.losses import BinaryLogLoss, SoftmaxLogLoss
from holdfast.interpolation.convex.problem import Design, LinearProblem, group_matrix


def make_problem(loss, groups, n_rows=30):
    """Return a problem on random rows."""
    generator = np.random.default_rng(0)
    y = generator.integers(max(2, loss.n_outputs), size=n_rows)
    return LinearProblem(Design(generator.normal(size=(n_rows, 3))), loss, y, group_matrix(groups, n_rows), 0.1)


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch):
    """Let group matrices be plain arrays, or sparse ones."""
    if request.param == "large":
        monkeypatch.setattr(holdfast.interpolation.convex.problem, "SMALL_MATRIX", 0)
    return request.param


def test_group_matrix_holds_distributions(size):
    """Columns sum to one, groups may overlap, and zero weights are no entries."""
    groups = [Group("a", np.array([0, 2])), Group("b", np.array([1, 2, 3]), np.array([1.0, 3.0, 0.0]))]
    matrix = group_matrix(groups, 4)
    if size == "large":
        assert matrix.nnz == 4
        matrix = matrix.toarray()
    assert matrix.tolist() == [[0.5, 0.0], [0.0, 0.25], [0.5, 0.75], [0.0, 0.0]]


@pytest.mark.parametrize("loss", [BinaryLogLoss(), SoftmaxLogLoss(3)], ids=["binary", "three classes"])
def test_gradients_are_those_of_the_risks(loss, size):
    """Each group's gradient agrees with central differences of its risk, for all groups and for some."""
    groups = [
        Group("a", np.arange(0, 20)),
        Group("b", np.arange(10, 30), np.linspace(0, 1, 20)),
        Group("c", np.array([4])),
    ]
    problem = make_problem(loss, groups)
    coefficients = np.random.default_rng(1).normal(size=problem.shape)
    z = problem.design.forward(coefficients)
    gradients = problem.gradients(z, np.arange(3))
    for index in np.ndindex(*problem.shape):
        step = np.zeros(problem.shape)
        step[index] = 1e-5
        ahead, behind = (problem.risks(problem.design.forward(coefficients + s * step)) for s in (1, -1))
        np.testing.assert_allclose(gradients[(slice(None), *index)], (ahead - behind) / 2e-5, atol=1e-8)
    np.testing.assert_allclose(problem.gradients(z, np.array([0, 2])), gradients[[0, 2]], atol=1e-14)


def test_the_intercept_is_not_penalized():
    """The last row of the penalties is zero."""
    problem = make_problem(BinaryLogLoss(), [Group("all", np.arange(30))])
    assert problem.penalties.ravel().tolist() == [0.1, 0.1, 0.1, 0.0]


def test_a_sample_takes_rows_of_every_group():
    """Even the smallest group keeps rows, and their weights stay a distribution."""
    groups = [Group("large", np.arange(970)), Group("small", np.arange(970, 1000), np.linspace(1, 2, 30))]
    sample = make_problem(BinaryLogLoss(), groups, n_rows=1000).sample(groups, 100)
    assert sample is not None
    assert sample.design.n_rows == len(sample.y) == 79  # every 20th of 970, and the 30 whole
    np.testing.assert_allclose(sample.group_rows.sum(axis=0), 1.0)
    assert (sample.group_rows > 0).sum(axis=0).tolist() == [49, 30]


def test_a_sample_that_saves_little_is_not_taken():
    """Half of the rows are not worth a problem of their own."""
    groups = [Group("all", np.arange(30))]
    assert make_problem(BinaryLogLoss(), groups).sample(groups, 15) is None


def test_a_quarter_of_the_rows_is_a_sample():
    """One row more is not."""
    groups = [Group("all", np.arange(40))]
    problem = make_problem(BinaryLogLoss(), groups, n_rows=40)
    sample = problem.sample(groups, 10)
    assert sample is not None
    assert sample.design.n_rows == 10
    assert problem.sample(groups, 11) is None
