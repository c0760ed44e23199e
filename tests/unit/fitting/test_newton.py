"""Penalized logistic regression: scikit-learn's coefficients, and the evidence of a model that can be integrated."""

import numpy as np
import pytest
from scipy import integrate, special
from sklearn.linear_model import LogisticRegression

from holdfast.fitting.newton import fit_logistic


def rows(n_rows=300, seed=0):
    """Return a design of an intercept and two columns, and labels that go with one of them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_rows, 2))
    y = (generator.random(n_rows) < special.expit(0.5 + 1.5 * X[:, 0])).astype(float)
    return np.column_stack([np.ones(n_rows), X]), y


@pytest.mark.parametrize("ridge", [0.1, 1.0, 30.0])
def test_coefficients_are_those_of_scikit_learn(ridge):
    """The same ridge on all columns, the intercept as one of them."""
    design, y = rows()
    found = fit_logistic(design, y, np.full(3, ridge))
    expected = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-10, max_iter=1000).fit(design, y)
    np.testing.assert_allclose(found.coefficients, expected.coef_[0], atol=1e-3)
    chances = expected.predict_proba(design)[:, 1]
    assert found.log_likelihood == pytest.approx(np.log(np.where(y == 1, chances, 1 - chances)).sum(), abs=1e-3)


def test_weights_count_rows():
    """A weight of two is the row twice, to rounding; a weight of zero is no row."""
    design, y = rows()
    weights = np.arange(len(y)) % 3.0
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = fit_logistic(design, y, np.ones(3), weights=weights)
    twice = fit_logistic(design[repeated], y[repeated], np.ones(3))
    np.testing.assert_allclose(weighted.coefficients, twice.coefficients, rtol=1e-9)
    assert weighted.log_evidence == pytest.approx(twice.log_evidence, rel=1e-9)


def test_the_start_does_not_matter():
    """The objective has one maximum."""
    design, y = rows()
    far = fit_logistic(design, y, np.ones(3), start=np.array([3.0, -4.0, 5.0]))
    np.testing.assert_allclose(far.coefficients, fit_logistic(design, y, np.ones(3)).coefficients, atol=1e-3)


def test_the_information_is_that_of_the_maximum():
    """The negative second derivative: X' W X + precision."""
    design, y = rows()
    found = fit_logistic(design, y, np.array([1.0, 2.0, 3.0]))
    chances = special.expit(design @ found.coefficients)
    expected = design.T @ ((chances * (1 - chances))[:, None] * design) + np.diag([1.0, 2.0, 3.0])
    np.testing.assert_allclose(found.information, expected)


def test_the_evidence_is_the_integral_over_the_prior():
    """Of one coefficient with prior N(0, 1), by quadrature; Laplace's method is close with 300 rows."""
    design, y = rows()
    x = design[:, 1]

    def joint(w):
        return np.exp(y @ (w * x) - np.logaddexp(0, w * x).sum() + 150 - w**2 / 2) / np.sqrt(2 * np.pi)

    exact = np.log(integrate.quad(joint, -5, 8)[0]) - 150
    assert fit_logistic(x[:, None], y, np.ones(1)).log_evidence == pytest.approx(exact, abs=0.02)


def test_separable_labels_have_finite_coefficients():
    """The prior holds them where labels alone would not."""
    design = np.column_stack([np.ones(10), np.linspace(-1, 1, 10)])
    found = fit_logistic(design, (np.arange(10) >= 5).astype(float), np.full(2, 1e-2))
    assert np.isfinite(found.coefficients).all()
    assert found.coefficients[1] > 5
