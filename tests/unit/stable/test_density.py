"""How well mixtures that know no label describe a number, and normal distributions given the label."""

import numpy as np
import pytest

from holdfast.stable.density import log_any, log_given_label


def test_a_normal_number_needs_one_component():
    """Its log likelihood is that of the normal distribution, less log n for two parameters."""
    x = np.random.default_rng(0).normal(size=400)
    expected = -200 * (np.log(2 * np.pi * x.var()) + 1) - np.log(400)
    assert log_any(x, np.ones(400)) == pytest.approx(expected, abs=0.1)


def test_two_labels_look_like_two_components():
    """Then the label follows from the number; where it does not, the label is what a mixture does not know."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=400)
    x = 9.0 * y + generator.normal(size=400)
    given = log_given_label(x, y, np.ones(400))
    assert given == pytest.approx(log_any(x, np.ones(400)), abs=2)
    assert log_given_label(x, 1 - y, np.ones(400)) == pytest.approx(given)
    assert log_given_label(x, generator.permutation(y), np.ones(400)) < given - 300


def test_weights_are_numbers_of_rows():
    """Twice the weight is the row twice; shifts change nothing, a factor costs its logarithm."""
    generator = np.random.default_rng(0)
    x, y, weights = generator.exponential(size=200), generator.integers(2, size=200), generator.integers(1, 3, 200)
    again = np.repeat(np.arange(200), weights)
    ones = np.ones(len(again))
    assert log_any(x, weights.astype(float)) == pytest.approx(log_any(x[again], ones), abs=2)
    assert log_given_label(x, y, weights.astype(float)) == pytest.approx(log_given_label(x[again], y[again], ones))
    assert log_any(10 * x + 3, ones[:200]) == pytest.approx(log_any(x, ones[:200]) - 200 * np.log(10), abs=0.5)


def test_many_rows_are_put_into_cells():
    """The cells lose little."""
    x = np.random.default_rng(0).normal(size=20_000)
    assert log_any(x, np.ones(20_000)) / 20_000 == pytest.approx(-0.5 * (np.log(2 * np.pi) + 1), abs=0.01)


@pytest.mark.parametrize("x", [np.zeros(50), np.repeat([0.0, 1.0], 25), np.array([0.0] * 49 + [1e6])])
def test_constant_and_discrete_numbers_stay_finite(x):
    """Nothing overflows."""
    assert np.isfinite(log_any(x, np.ones(50)))
    assert np.isfinite(log_given_label(x, np.arange(50) % 2, np.ones(50)))
