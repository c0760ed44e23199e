"""Calibrated probabilities of rows that a classifier was not fitted on."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast.exceptions import ParameterError
from holdfast.judging.calibration import calibrate, class_scores, fit_calibrated, out_of_fold_probabilities
from holdfast.seeding import Seeding


@pytest.fixture(scope="module")
def rows():
    """600 rows of three noisy classes."""
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=600)
    return np.column_stack([np.cos(2 * y) * 1.2, np.sin(2 * y) * 1.2]) + generator.normal(size=(600, 2)), y


def log_loss(probabilities, y):
    """Return the mean log loss."""
    return -np.log(probabilities[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize("factor", [0.25, 1.0, 3.0])
def test_temperature_undoes_any_sharpening(factor):
    """Log-probabilities times a factor are brought back to the frequencies they came from."""
    truth = np.repeat([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], 1000, axis=0)
    y = np.concatenate([np.repeat([0, 1, 2], [700, 200, 100]), np.repeat([0, 1, 2], [100, 300, 600])])
    calibration = calibrate(np.log(truth) * factor, y)
    assert calibration.scale == pytest.approx(1 / factor, rel=0.02)
    np.testing.assert_allclose(calibration.probabilities(np.log(truth) * factor), truth, atol=0.01)


def test_offsets_restore_the_frequencies_of_scores():
    """Scores that say nothing become the label frequencies, with offsets that sum to zero."""
    y = np.repeat([0, 1, 2], [700, 200, 100])
    calibration = calibrate(np.zeros((1000, 3)), y, offsets=True)
    np.testing.assert_allclose(calibration.probabilities(np.zeros((1, 3))), [[0.7, 0.2, 0.1]], atol=0.01)
    assert calibration.offsets.sum() == pytest.approx(0)


def test_weights_count_rows():
    """A row of weight two counts as two rows."""
    z = np.log([[0.8, 0.2]] * 3)
    twice = calibrate(np.repeat(z, [1, 1, 2], axis=0), np.array([0, 1, 0, 0]))
    weighted = calibrate(z, np.array([0, 1, 0]), np.array([1.0, 1.0, 2.0]))
    assert weighted.scale == pytest.approx(twice.scale, rel=0.1)


def test_forest_is_calibrated_out_of_fold(rows):
    """On its own rows a forest has next to no loss; what is returned has the loss of fresh rows."""
    X, y = rows
    forest = RandomForestClassifier(50)
    _, probabilities = fit_calibrated(forest, X[:400], y[:400], np.arange(400), n_classes=3, seeding=Seeding(1))
    own = log_loss(np.maximum(clone(forest).set_params(random_state=0).fit(X, y).predict_proba(X), 1e-3), y)
    assert own < 0.3 < 0.6 < log_loss(probabilities, y[:400]) < 0.95
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_classifier_answers_rows_that_it_has_not_seen(rows):
    """The classifier for other environments is the folds' mean, calibrated as its own rows are."""
    X, y = rows
    classifier, _ = fit_calibrated(DecisionTreeClassifier(), X, y, np.arange(400), n_classes=3, seeding=Seeding(0))
    assert classifier.scale < 0.5  # full trees answer 0 and 1
    assert log_loss(classifier.predict_proba(X[400:]), y[400:]) < np.log(3)
    assert classifier.classes_.tolist() == [0, 1, 2]
    assert (clone(classifier).predict(X[400:]) == y[400:]).mean() > 0.5


@pytest.mark.parametrize("estimator", [LinearSVC(), Perceptron(), NearestCentroid()])
def test_estimators_without_probabilities_are_calibrated(rows, estimator):
    """Scores, or plain predictions, become probabilities that beat guessing, near those of logistic regression."""
    X, y = rows
    probabilities = out_of_fold_probabilities(estimator, X, y, np.arange(600), 3)
    logistic = out_of_fold_probabilities(LogisticRegression(), X, y, np.arange(600), 3)
    assert log_loss(logistic, y) - 0.01 < log_loss(probabilities, y) < log_loss(logistic, y) + 0.2
    assert log_loss(probabilities, y) < np.log(3)


def test_two_classes_with_one_score(rows):
    """A binary decision score is the difference of the two classes' scores."""
    X, y = rows
    machine = LinearSVC().fit(X, y > 0)
    scores = class_scores(machine, X, 2)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], machine.decision_function(X))
    assert out_of_fold_probabilities(LinearSVC(), X, (y > 0).astype(int), np.arange(600), 2).shape == (600, 2)


def test_scores_of_unseen_classes_are_the_lowest(rows):
    """A machine that never saw a class scores it as low as its lowest score."""
    X, y = rows
    machine = LinearSVC().fit(X, np.where(y == 0, 0, y + 1))
    scores = class_scores(machine, X, 4)
    assert (scores[:, 1] == machine.decision_function(X).min()).all()


def test_given_folds_and_weights(rows):
    """Rows of one fold are never fitted on together with being asked; weights reach the fits."""
    X, y = rows
    folds = np.arange(600) % 2

    weights = np.where(y == 0, 5.0, 1.0)
    _, probabilities = fit_calibrated(
        LogisticRegression(), X, y, np.arange(600), n_classes=3, folds=folds, sample_weight=weights, seeding=Seeding(0)
    )
    part = LogisticRegression().fit(
        X[folds == 1], y[folds == 1], sample_weight=weights[folds == 1] / weights[folds == 1].mean()
    )
    raw = part.predict_proba(X[folds == 0])
    np.testing.assert_allclose(probabilities[folds == 0].argmax(1), raw.argmax(1))
    assert probabilities[:, 0].mean() > 0.45


@pytest.mark.parametrize(
    ("folds", "message"),
    [(1, "need at least 2 folds and 2 rows. Got folds=1 and 600 rows"), (np.zeros(600), "are in one fold")],
)
def test_too_few_folds_are_refused(rows, folds, message):
    """Without a second fold no row is out of fold."""
    X, y = rows
    with pytest.raises(ParameterError, match=message):
        fit_calibrated(LogisticRegression(), X, y, np.arange(600), n_classes=3, folds=folds)
