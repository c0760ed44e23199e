"""Stage 1: what every judge says about every row that it was not fitted on."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast.environments import split_environments
from holdfast.exceptions import UnseenLabelWarning
from holdfast.judging.judgements import accuracy_matrix, judge_environments
from holdfast.judging.judges import JudgeSettings
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding


def judge(estimator, X, y, labels, *, n_folds=0, sample_weight=None, folds=None, probabilities=True, **options):
    """Ask judges about rows, with the settings that most tests share."""
    training = TrainingRows(X, y, split_environments(labels, len(y)), sample_weight, folds=folds)
    return judge_environments(
        estimator,
        training,
        JudgeSettings(n_folds=n_folds),
        Seeding(0),
        classes=np.unique(y),
        probabilities=probabilities,
        **options,
    )


@pytest.fixture
def noise():
    """Return rows of two sites whose labels say nothing."""
    generator = np.random.default_rng(0)
    return generator.normal(size=(600, 3)), generator.integers(2, size=600), np.repeat([0, 1], 300)


@pytest.fixture(scope="module")
def three_classes():
    """Return 600 rows of three noisy classes, of two sites."""
    generator = np.random.default_rng(0)
    y = generator.integers(3, size=600)
    X = np.column_stack([np.cos(2 * y) * 1.2, np.sin(2 * y) * 1.2]) + generator.normal(size=(600, 2))
    return X, y, np.arange(600) % 2


def log_loss(scores, y):
    """Return the mean log loss of log-probabilities."""
    return -scores[np.arange(len(y)), y].mean()


def test_own_rows_are_unknown_without_folds():
    """A judge never predicts rows that it was fitted on."""
    X = np.tile([[0.0], [1.0]], (20, 1))
    judgements = judge(LogisticRegression(), X, X[:, 0].astype(int), np.repeat(["a", "b"], 20))
    assert (judgements.predictions[0, :20] == -1).all()
    assert np.isnan(judgements.probabilities[0, :20]).all()
    assert np.isfinite(judgements.probabilities[0, 20:]).all()
    hard = judge(LogisticRegression(), X, X[:, 0].astype(int), np.repeat(["a", "b"], 20), probabilities=False)
    assert (hard.predictions[0, :20] == -1).all()
    assert (hard.predictions[0, 20:] == X[20:, 0]).all()
    assert judgements.folds is None
    assert [environment.name for environment in judgements.environments] == ["a", "b"]


def test_own_rows_are_predicted_out_of_fold(noise):
    """A forest that memorizes noise is at chance on its own environment, because its folds are held out."""
    X, y, labels = noise
    judgements = judge(RandomForestClassifier(20), X, y, labels, n_folds=2)
    assert 0.35 < (judgements.predictions[0, :300] == y[:300]).mean() < 0.65
    assert (judgements.judges[0].estimator.predict(X[:300]) == y[:300]).mean() > 0.95


def test_probabilities_cover_labels_that_an_environment_lacks():
    """A label unseen at a judge's site has probability zero, and the site is named."""
    X = np.arange(12.0).reshape(-1, 1)
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2])
    with pytest.warns(UnseenLabelWarning, match=r"^Some classes are missing in a \(never 2\)\."):
        judgements = judge(LogisticRegression(), X, y, np.repeat(["a", "b"], 6))
    assert (judgements.probabilities[0, 6:, 2] < 2e-3).all()
    # Without folds they are not calibrated, and an impossible label has the floor's probability.
    np.testing.assert_allclose(judgements.probabilities[0, 6:].sum(axis=1), 1.0, atol=2e-3)


def test_probabilities_are_calibrated_out_of_fold(noise):
    """A tree that memorizes noise is sure of itself; its calibrated probabilities are near one half."""
    judgements = judge(DecisionTreeClassifier(random_state=0), *noise, n_folds=2)
    assert np.isfinite(judgements.probabilities).all()
    assert np.abs(judgements.probabilities - 0.5).max() < 0.15


def test_a_forest_has_the_loss_of_fresh_rows(three_classes):
    """On its own rows a forest has next to no loss; what is returned has the loss of rows that it has not seen."""
    X, y, labels = three_classes
    judgements = judge(RandomForestClassifier(25, random_state=0), X, y, labels, n_folds=2)
    own = np.maximum(judgements.judges[0].estimator.predict_proba(X[labels == 0]), 1e-3)
    assert -np.log(own[np.arange(300), y[labels == 0]]).mean() < 0.3
    for scores in judgements.scores:
        assert 0.6 < log_loss(scores, y) < 0.95
        np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1.0)


@pytest.mark.parametrize("estimator", [LinearSVC(), Perceptron(), NearestCentroid()], ids=str)
def test_estimators_without_probabilities_are_calibrated(three_classes, estimator):
    """Scores, or plain predictions, become probabilities that beat guessing, near those of logistic regression."""
    y = three_classes[1]
    scores = judge(estimator, *three_classes, n_folds=5).scores[0]
    logistic = judge(LogisticRegression(), *three_classes, n_folds=5).scores[0]
    assert log_loss(logistic, y) - 0.01 < log_loss(scores, y) < min(log_loss(logistic, y) + 0.2, np.log(3))


def test_scores_of_a_linear_svm_become_probabilities():
    """An estimator without predict_proba is calibrated from its decision scores."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=600)
    X = generator.normal(size=(600, 2)) + y[:, None]
    p = judge(LinearSVC(), X, y, np.repeat([0, 1], 300), n_folds=3).probabilities[0, 300:, 1]
    assert abs(p.mean() - y[300:].mean()) < 0.06
    assert abs(p[p > 0.8].mean() - y[300:][p > 0.8].mean()) < 0.1


def test_hard_halves_need_no_probabilities(noise):
    """Then none are computed, and asking for them is a mistake of ours."""
    judgements = judge(LogisticRegression(), *noise, probabilities=False)
    assert judgements.scores is None
    with pytest.raises(AssertionError, match="hard halves"):
        _ = judgements.probabilities


def test_given_folds_and_weights(three_classes):
    """Rows of one fold are held out together; weights reach the fits and the calibration."""
    X, y, labels = three_classes
    folds, weights = np.arange(600) // 2 % 2, np.where(y == 0, 5.0, 1.0)
    judgements = judge(LogisticRegression(), X, y, labels, n_folds=2, folds=folds, sample_weight=weights)
    assert judgements.folds is folds
    assert judgements.probabilities[:, :, 0].mean() > 0.45
    # With weights of no row of class 2, what a judge says is calibrated as if there were none.
    without = judge(
        DecisionTreeClassifier(random_state=0), X, y, labels, n_folds=2, sample_weight=(y != 2).astype(float)
    )
    assert without.probabilities[0, :, 2].max() < 0.2


def test_the_same_rows_in_another_order_get_the_same_answers(three_classes):
    """Folds follow rows, so that answers do too."""
    X, y, labels = three_classes
    order = np.random.default_rng(1).permutation(600)
    first = judge(LogisticRegression(), X, y, labels, n_folds=2)
    second = judge(LogisticRegression(), X[order], y[order], labels[order], n_folds=2)
    np.testing.assert_allclose(second.scores, first.scores[:, order], atol=1e-3)


def test_numbers_are_predicted_as_numbers():
    """For regression a judge predicts targets, and its own rows are NaN without folds."""
    X = np.arange(20.0)[:, None]
    training = TrainingRows(X, 2 * X[:, 0], split_environments(np.repeat(["a", "b"], 10), 20))
    judgements = judge_environments(Ridge(1e-9), training, JudgeSettings(), Seeding(0), classes=None)
    assert np.isnan(judgements.predictions[0, :10]).all()
    np.testing.assert_allclose(judgements.predictions[0, 10:], 2 * X[10:, 0], rtol=1e-6)


# -- accuracies ------------------------------------------------------------------------------------------------------

SITES = split_environments(list("AAABBB"), 6)
Y = np.array([0, 1, 1, 0, 1, 0])
PREDICTIONS = np.array([[-1, -1, -1, 1, 1, 1], [1, 1, 1, -1, -1, -1]])


def test_accuracy_matrix_has_judges_in_rows():
    """alpha[judge, judged]; what a judge did not predict stays NaN."""
    matrix = accuracy_matrix(PREDICTIONS, Y, SITES, None)
    np.testing.assert_allclose(matrix, [[np.nan, 1 / 3], [2 / 3, np.nan]])


def test_accuracies_are_of_the_rows_that_were_predicted():
    """A negative code is a row without prediction; weights count; a site without any has no accuracy."""
    weights = np.array([1.0, 1.0, 3.0, 1.0, 1.0, 2.0])
    matrix = accuracy_matrix(np.array([[0, 1, -1, 0, 0, 0], [-1, -1, -1, 0, 1, 1]]), Y, SITES, weights)
    np.testing.assert_allclose(matrix, [[1.0, 0.75], [np.nan, 0.5]])
