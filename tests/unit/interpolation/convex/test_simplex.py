import numpy as np
import pytest

from holdfast.interpolation.convex.minimax import maximize_on_simplex


def test_one_group_gets_everything():
    """A single vertex is the whole simplex."""
    assert maximize_on_simplex(np.array([3.0]), np.array([[2.0]])).tolist() == [1.0]


def test_without_curvature_the_largest_slope_wins():
    """A linear program has its optimum at a vertex."""
    q = maximize_on_simplex(np.array([0.2, 0.7, 0.1]), np.zeros((2, 3)))
    np.testing.assert_allclose(q, [0.0, 1.0, 0.0], atol=1e-8)


def test_opposite_gradients_balance():
    """Gradients 1 and −3 cancel in the mixture (3/4, 1/4)."""
    q = maximize_on_simplex(np.zeros(2), np.array([[1.0, -3.0]]))
    np.testing.assert_allclose(q, [0.75, 0.25], atol=1e-5)


def test_equal_vertices_are_left_alone():
    """A program without any difference between vertices is answered by the first one."""
    assert maximize_on_simplex(np.ones(4), np.zeros((1, 4))).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_a_program_of_zeros_keeps_its_start():
    """Where every mixture is as good, the given one stays."""
    start = np.array([0.25, 0.75, 0.0])
    assert maximize_on_simplex(np.zeros(3), np.zeros((2, 3)), start=start).tolist() == start.tolist()


def test_copies_are_told_apart_even_without_the_ridge(monkeypatch):
    """Exactly singular systems have a mixture too."""
    monkeypatch.setattr("holdfast.interpolation.convex.minimax.RIDGE", 0.0)
    factor = np.array([[1.0, 1.0, -3.0, -3.0]])
    q = maximize_on_simplex(np.zeros(4), factor, start=np.array([0.5, 0.5, 0.0, 0.0]))
    assert factor @ q == pytest.approx(0.0, abs=1e-12)


def test_a_start_changes_the_way_and_not_the_answer():
    """From any mixture the same optimum is reached."""
    generator = np.random.default_rng(0)
    factor, linear = generator.normal(size=(6, 12)), generator.normal(size=12)
    optimum = maximize_on_simplex(linear, factor)
    for start in (optimum, np.eye(12)[3], np.eye(12)[:5].mean(axis=0), np.full(12, 1 / 12)):
        np.testing.assert_allclose(maximize_on_simplex(linear, factor, start=start), optimum, atol=1e-9)


@pytest.mark.parametrize(("n_groups", "rank"), [(2, 1), (8, 20), (24, 5), (600, 10)])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_no_vertex_promises_more(n_groups: int, rank: int, scale: float):
    """At the optimum no vertex has a larger slope than the mixture, also when half the groups are copies."""
    generator = np.random.default_rng([n_groups, rank])
    factor, linear = scale * generator.normal(size=(rank, n_groups)), generator.normal(size=n_groups)
    half = n_groups // 2
    factor[:, half : 2 * half], linear[half : 2 * half] = factor[:, :half], linear[:half]
    q = maximize_on_simplex(linear, factor)
    slope = linear - factor.T @ (factor @ q)
    assert q.min() >= 0
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    assert slope.max() - q @ slope <= 1e-9 * (np.ptp(linear) + (factor**2).sum(axis=0).max())
