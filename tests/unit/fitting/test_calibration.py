"""Calibrated probabilities of rows that a classifier was not fitted on."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast.fitting.calibration import PROBABILITY_FLOOR, calibrate, class_scores


@pytest.fixture(scope="module")
def rows():
    """600 rows of three noisy classes."""
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=600)
    return np.column_stack([np.cos(2 * y) * 1.2, np.sin(2 * y) * 1.2]) + generator.normal(size=(600, 2)), y


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


def test_a_map_undoes_certainty_that_is_not_earned():
    """Answers of 0 and 1 that are right seven times in ten become probabilities of 0.7."""
    y = np.repeat([0, 1], 500)
    said = np.where(np.arange(1000) % 10 < 7, y, 1 - y)
    scores = np.log(np.maximum(np.eye(2)[said], PROBABILITY_FLOOR))
    probabilities = calibrate(scores, y).probabilities(scores)
    np.testing.assert_allclose(probabilities[np.arange(1000), said], 0.7, atol=0.01)


def test_log_probabilities_are_those_of_the_probabilities():
    """The two answers of a map belong together, and probabilities sum to one."""
    scores = np.random.default_rng(0).normal(size=(50, 3))
    found = calibrate(scores, np.arange(50) % 3, offsets=True)
    np.testing.assert_allclose(np.exp(found.log_probabilities(scores)), found.probabilities(scores))
    np.testing.assert_allclose(found.probabilities(scores).sum(axis=1), 1.0)


def test_answers_that_are_all_the_same_leave_the_scale_alone():
    """What the rows leave open is decided by the faint pull: scale 1, no offsets."""
    found = calibrate(np.zeros((20, 2)), np.arange(20) % 2, offsets=True)
    assert found.scale == pytest.approx(1.0)
    np.testing.assert_allclose(found.offsets, 0.0, atol=1e-9)


def test_impossible_answers_have_the_floor(rows):
    """A tree's 0 is one in a thousand, and a classifier that only predicts has votes."""
    X, y = rows
    scores = class_scores(DecisionTreeClassifier().fit(X, y), X, 3)
    np.testing.assert_allclose(np.exp(scores[np.arange(600), y]), 1.0)
    assert np.exp(scores).min() == pytest.approx(PROBABILITY_FLOOR)

    class Votes(NearestCentroid):
        """Only predicts."""

        decision_function = predict_proba = property()

    votes = Votes().fit(X, y)
    np.testing.assert_array_equal(class_scores(votes, X, 3).argmax(axis=1), votes.predict(X))


def test_two_classes_with_one_score(rows):
    """A binary decision score is the difference of the two classes' scores."""
    X, y = rows
    machine = LinearSVC().fit(X, y > 0)
    scores = class_scores(machine, X, 2)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], machine.decision_function(X))
    assert scores.shape == (600, 2)


def test_scores_of_unseen_classes_are_the_lowest(rows):
    """A machine that never saw a class scores it as low as its lowest score."""
    X, y = rows
    machine = LinearSVC().fit(X, np.where(y == 0, 0, y + 1))
    scores = class_scores(machine, X, 4)
    assert (scores[:, 1] == machine.decision_function(X).min()).all()


@pytest.mark.parametrize("offsets", [False, True])
def test_few_rows_are_pulled_towards_what_the_scores_say(offsets):
    """The map minimizes the mean log loss plus, for each of n rows, half the squared parameters over n."""
    scores, y = np.log([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3], [0.9, 0.1]]), np.array([0, 1, 0, 0])

    def objective(scale, shift=0.0):
        logs = scale * scores + [shift, -shift]
        loss = -(logs[np.arange(4), y] - np.logaddexp(logs[:, 0], logs[:, 1])).mean()
        return loss + (np.log(scale) ** 2 + 2 * shift**2) / 8

    found = calibrate(scores, y, offsets=offsets)
    least = objective(found.scale, found.offsets[0] if offsets else 0.0)
    shifts = np.linspace(-2, 2, 41) if offsets else [0.0]
    assert least <= min(objective(s, t) for s in np.geomspace(0.1, 10, 201) for t in shifts) + 1e-9


def test_the_scale_of_weights_does_not_matter():
    """Weights are shares."""
    scores, y, weights = np.log([[0.8, 0.2]] * 3), np.array([0, 1, 0]), np.array([1.0, 1.0, 2.0])
    assert calibrate(scores, y, 10 * weights).scale == pytest.approx(calibrate(scores, y, weights).scale, rel=1e-3)


def test_scores_are_sharpened_fifty_times_at_most():
    """Scores that are faint but always right do not become certain."""
    y = np.arange(100_000) % 2
    scores = np.where(np.eye(2)[y] == 1, 1e-3, -1e-3)
    assert calibrate(scores, y).scale == pytest.approx(50.0)


def test_beyond_one_in_a_thousand_counts_of_trees_say_nothing():
    """A forest's zero is one in a thousand; a model with scores of its own is taken at its word down to 1e-12."""
    X, y = np.array([[0.0], [1.0]] * 10), np.array([0, 1] * 10)
    forest = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, y)
    assert class_scores(forest, X[:1], 2)[0, 1] == pytest.approx(np.log(0.001))
    linear = LogisticRegression(C=1e9).fit(100 * X, y)
    assert class_scores(linear, 100 * X[:1], 2)[0, 1] < np.log(0.001)
