import numpy as np
import pytest

from holdfast.interpolation.convex.losses import BinaryLogLoss, SoftmaxLogLoss, SquaredLoss

LOSSES = [BinaryLogLoss(), SoftmaxLogLoss(3), SquaredLoss()]


def outputs_and_labels(loss, seed=0, n_rows=7):
    """Return random outputs with labels that the loss takes."""
    generator = np.random.default_rng(seed)
    z = 2.0 * generator.normal(size=(n_rows, loss.n_outputs))
    if isinstance(loss, SquaredLoss):
        return z, generator.normal(size=n_rows)
    y = generator.integers(max(loss.n_outputs, 2), size=n_rows)
    y[:3] = [0, 1, max(loss.n_outputs, 2) - 1]  # every class at least once
    return z, y


def test_known_values():
    """log 2 at zero outputs of two classes, log 3 of three, the square of the error for regression."""
    assert BinaryLogLoss().values(np.zeros((1, 1)), np.array([1]))[0] == pytest.approx(np.log(2))
    assert SoftmaxLogLoss(3).values(np.zeros((1, 3)), np.array([2]))[0] == pytest.approx(np.log(3))
    assert SquaredLoss().values(np.array([[3.0]]), np.array([1.0]))[0] == 4.0


def test_huge_outputs_stay_finite():
    """An output of ±1000 costs 0 or 1000 nats, without overflow."""
    z = np.array([[1000.0], [-1000.0]])
    assert BinaryLogLoss().values(z, np.array([1, 1])).tolist() == [0.0, 1000.0]
    assert SoftmaxLogLoss(2).values(np.hstack([-z, z]), np.array([1, 1])).tolist() == [0.0, 2000.0]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_derivatives_are_those_of_the_values(loss):
    """Gradients and curvatures agree with central differences."""
    z, y = outputs_and_labels(loss)
    step = 1e-5
    for k in range(loss.n_outputs):
        ahead, behind = z.copy(), z.copy()
        ahead[:, k] += step
        behind[:, k] -= step
        slope = (loss.values(ahead, y) - loss.values(behind, y)) / (2 * step)
        np.testing.assert_allclose(loss.gradients(z, y)[:, k], slope, atol=1e-8)
        bend = (loss.gradients(ahead, y) - loss.gradients(behind, y)) / (2 * step)
        np.testing.assert_allclose(loss.curvatures(z)[:, k], bend, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_own_curvatures_and_bend_read_the_curvature_matrix(loss):
    """The diagonal and the products come from the same matrix."""
    z, _ = outputs_and_labels(loss)
    directions = np.random.default_rng(1).normal(size=(len(z), 4, loss.n_outputs))
    matrix = loss.curvatures(z)
    np.testing.assert_allclose(loss.own_curvatures(z), np.einsum("ikk->ik", matrix), atol=1e-12)
    np.testing.assert_allclose(loss.bend(z, directions), np.einsum("ikl,idl->idk", matrix, directions), atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("size", [0.0, 0.3, 30.0])
def test_a_dual_point_bounds_the_weighted_loss_from_below(loss, size):
    """Σ ω ℓ(z') ≥ Σ ω u·z' + dual value for every z' (Fenchel), and Σ ω u = 0 when centered."""
    z, y = outputs_and_labels(loss)
    generator = np.random.default_rng(2)
    weights = generator.random(len(z))
    u, value = loss.dual_point(z, size * generator.normal(size=z.shape), y, weights, centered=True)
    np.testing.assert_allclose(weights @ u, 0.0, atol=1e-14)
    for spread in (0.1, 1.0, 10.0, 100.0):
        other = spread * generator.normal(size=z.shape)
        linear = float(weights @ (u * other).sum(axis=1))
        assert weights @ loss.values(other, y) >= linear + value - 1e-9 * (1 + abs(linear))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_dual_point_at_the_outputs_touches_the_loss(loss):
    """Without a change and without centering Fenchel's inequality is an equality at z."""
    z, y = outputs_and_labels(loss)
    weights = np.ones(len(z))
    u, value = loss.dual_point(z, np.zeros_like(z), y, weights, centered=False)
    assert (u * z).sum() + value == pytest.approx(loss.values(z, y).sum(), abs=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_dual_point_follows_a_small_change(loss):
    """It is the gradient at the changed outputs, up to the square of the change."""
    z, y = outputs_and_labels(loss)
    change = 1e-4 * np.random.default_rng(3).normal(size=z.shape)
    u, _ = loss.dual_point(z, change, y, np.ones(len(z)), centered=False)
    np.testing.assert_allclose(u, loss.gradients(z + change, y), atol=1e-7)


def test_a_class_without_weight_gets_no_probability():
    """A class that the mixture never shows is left out of the dual point, and the shares still match."""
    loss, y = SoftmaxLogLoss(3), np.array([0, 1, 0, 2])
    weights = np.array([1.0, 1.0, 1.0, 0.0])
    u, value = loss.dual_point(np.zeros((4, 3)), np.zeros((4, 3)), y, weights, centered=True)
    assert u[:3, 2].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(weights @ u, 0.0, atol=1e-15)
    assert value == pytest.approx(-3 * (2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)))
