"""Classifiers that see different columns, mixed."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from holdfast.interpolation.mixture import MixedClassifier, mix_scores
from holdfast.interpolation.removal import Removal, plan_removal
from holdfast.judging.calibration import Calibration

PLAIN = Calibration(1.0, np.zeros(2))


@pytest.fixture(scope="module")
def rows():
    """Return rows of three columns and labels that follow the first two."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    return X, (X[:, 0] + X[:, 1] + generator.normal(size=200) > 0).astype(int)


def mixed(estimator, rows, weight, calibration=PLAIN):
    """Return a mixture of a classifier of all columns, weight `weight`, and one without the second."""
    X, y = rows
    removal = plan_removal(X, [1], ["x1"])
    parts = [estimator.fit(X, y), type(estimator)(**estimator.get_params()).fit(removal.apply(X), y)]
    return MixedClassifier(parts, [Removal(), removal], [weight, 1 - weight], calibration)


def test_scores_are_centered_and_added():
    """A constant that one part adds to all classes of a row says nothing."""
    first, second = np.array([[1.0, 2.0, 6.0]]), np.array([[0.0, 3.0, 3.0]])
    np.testing.assert_allclose(mix_scores([first, second], [0.5, 0.5]), [[-2.0, 0.0, 2.0]])
    np.testing.assert_allclose(mix_scores([first + 7, second - 5], [0.5, 0.5]), [[-2.0, 0.0, 2.0]])
    np.testing.assert_allclose(mix_scores(np.stack([first, second]), [1.0, 0.0]), first - 3)
    np.testing.assert_array_equal(first, [[1.0, 2.0, 6.0]])


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(), DecisionTreeClassifier(max_depth=3)])
def test_a_weight_of_one_predicts_as_that_part(rows, estimator):
    """The whole weight on one part is that classifier's predictions."""
    X, _ = rows
    for weight, part in ((1.0, 0), (0.0, 1)):
        mixture = mixed(estimator, rows, weight)
        shown = mixture.removals[part].apply(X)
        np.testing.assert_array_equal(mixture.predict(X), mixture.estimators[part].predict(shown))


def test_log_odds_of_linear_models_are_mixed(rows):
    """For logistic regressions the mixture is the logistic regression of the mixed coefficients."""
    X, _ = rows
    mixture = mixed(LogisticRegression(), rows, 0.3)
    first, second = mixture.estimators
    removed = X.copy()
    removed[:, 1] = np.median(X[:, 1])
    expected = 0.3 * first.decision_function(X) + 0.7 * second.decision_function(removed)
    probabilities = mixture.predict_proba(X)
    np.testing.assert_allclose(np.log(probabilities[:, 1] / probabilities[:, 0]), expected, atol=1e-8)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_a_part_without_the_column_does_not_see_it(rows):
    """With no weight on the part that sees it, the column's values do not matter."""
    X, _ = rows
    changed = X.copy()
    changed[:, 1] = -5 * X[:, 1] + 3
    without = mixed(LogisticRegression(), rows, 0.0)
    np.testing.assert_array_equal(without.predict_proba(changed), without.predict_proba(X))
    assert (mixed(LogisticRegression(), rows, 1.0).predict_proba(changed) != without.predict_proba(X)).any()


def test_the_calibration_is_applied(rows):
    """Half the scale halves the log-odds."""
    X, _ = rows
    sharp, blunt = (mixed(LogisticRegression(), rows, 0.5, Calibration(scale, np.zeros(2))) for scale in (1.0, 0.5))

    def log_odds(p):
        return np.log(p[:, 1] / p[:, 0])

    np.testing.assert_allclose(log_odds(blunt.predict_proba(X)), log_odds(sharp.predict_proba(X)) / 2)


def test_it_is_a_fitted_classifier_over_codes(rows):
    """It has classes, counts as fitted, and a fit changes nothing."""
    mixture = mixed(LogisticRegression(), rows, 0.5)
    check_is_fitted(mixture)
    assert mixture.classes_.tolist() == [0, 1]
    assert mixture.fit(*rows) is mixture


def test_a_class_that_one_part_has_not_seen(rows):
    """A part that saw two of three classes is mixed with one that saw all."""
    X, y = rows
    y = np.where(np.arange(200) % 10 == 0, 2, y)
    known = y < 2
    parts = [LogisticRegression().fit(X, y), LogisticRegression().fit(X[known], y[known])]
    mixture = MixedClassifier(parts, [Removal(), Removal()], [0.5, 0.5], Calibration(1.0, np.zeros(3)))
    assert mixture.predict_proba(X).shape == (200, 3)
    assert set(mixture.predict(X)) <= {0, 1}
