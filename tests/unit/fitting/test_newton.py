"""Penalized logistic regression: scikit-learn's coefficients, and the evidence of a model that can be integrated."""

import numpy as np
import pytest
from scipy import integrate, special
from sklearn.linear_model import LogisticRegression

from holdfast.fitting.newton import Newton, add_up, fit_logistic, minimize_log_loss


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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sums_of_blocks_lead_to_the_fit_of_all_rows(n_classes):
    """Steps with sums of blocks end at the coefficients of scikit-learn, also with several classes."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3))
    y = (X @ rng.normal(size=(3, n_classes)) + rng.gumbel(size=(400, n_classes))).argmax(axis=1)
    expected = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(X, y)
    design, n_outputs = np.hstack([X, np.ones((400, 1))]), 1 if n_classes == 2 else n_classes
    precision = np.full((n_outputs, 4), 2.0)
    precision[:, -1] = 0.0
    newton = Newton(np.zeros((n_outputs, 4)), precision)
    for _ in range(20):
        blocks = [add_up(design[i::3], y[i::3], newton.coefficients) for i in range(3)]
        if newton.step(blocks[0] + blocks[1] + blocks[2]):
            break
    else:
        pytest.fail("it did not end")
    np.testing.assert_allclose(newton.coefficients[:, :3], expected.coef_, atol=1e-4)


def test_a_step_that_leads_upwards_is_halved():
    """From a start where the logistic curve is flat, Newton's step is far too long."""
    design, y = np.ones((10, 1)), np.repeat([0.0, 1.0], [4, 6])
    found, is_done = minimize_log_loss(design, y, np.array([1e-3]), start=np.array([4.0]))
    assert is_done
    assert found[0] == pytest.approx(np.log(1.5), abs=1e-3)
