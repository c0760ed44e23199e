"""What classifiers reach now, and if unstable columns vanish or reverse, on rows whose answers are known."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import BaseEstimator, ClassifierMixin

from holdfast.environments import split_environments
from holdfast.rows.training import TrainingRows
from holdfast.stable.removal import Removal, plan_removal
from holdfast.stable.scenarios import Part, Scenarios, next_reach, try_scenarios
from holdfast.stable.verdict import Accuracy


class Follows(ClassifierMixin, BaseEstimator):
    """Predicts the value of one column, or a constant."""

    classes_ = np.array([0, 1])

    def __init__(self, column=0):
        self.column = column

    def predict_proba(self, X):
        """Return 0.9 for the column's value."""
        return np.where(np.eye(2)[X[:, self.column].astype(int)] > 0, 0.9, 0.1)


STABLE, UNSTABLE = 0.75, (0.95, 0.85)
N = 2000


@pytest.fixture(scope="module")
def training():
    """Return two sites: the first column agrees with the label in 0.75 of the rows, the second in 0.95 and 0.85."""
    generator = np.random.default_rng(0)
    parts = []
    for agreement in UNSTABLE:
        y = np.repeat([0, 1], N // 2)
        columns = [np.where(np.tile(np.arange(N // 2), 2) < share * N / 2, y, 1 - y) for share in (STABLE, agreement)]
        columns[0] = np.concatenate([generator.permutation(half) for half in np.split(columns[0], 2)])
        parts.append((np.stack(columns, axis=1).astype(float), y))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return TrainingRows(X, y, split_environments(np.repeat(["a", "b"], N), 2 * N))


@pytest.fixture(scope="module")
def test(training):
    """Return the test of a classifier that follows the unstable column, and of one that follows the stable one."""
    rows = np.arange(training.n_rows)
    folds = [rows[::2], rows[1::2]]
    removal = plan_removal(training.X, [1], ["x1"])
    parts = [Part(Removal(), [Follows(1)] * 2, folds), Part(removal, [Follows(0)] * 2, folds)]
    return try_scenarios(parts, training, 2, n_draws=1)


ORDINARY, STABLE_ONLY = [1.0, 0.0], [0.0, 1.0]


def test_known_accuracies_are_the_agreements(test):
    """As the rows are, by environment."""
    np.testing.assert_allclose(test.accuracies("known", ORDINARY), UNSTABLE)
    np.testing.assert_allclose(test.accuracies("known", STABLE_ONLY), [STABLE, STABLE])
    assert test.compare("known", STABLE_ONLY).ordinary == pytest.approx(0.9)
    assert test.compare("known", STABLE_ONLY).fitted == pytest.approx(STABLE)


def test_what_vanishes_is_a_coin(test):
    """A classifier of the shuffled column is at chance; the other one does not notice."""
    np.testing.assert_allclose(test.accuracies("vanished", ORDINARY), 0.5, atol=0.05)
    np.testing.assert_allclose(test.accuracies("vanished", STABLE_ONLY), STABLE)


def test_what_reverses_is_wrong_as_often_as_it_was_right(test):
    """With the columns of the other label the agreement is 1 − agreement; the other classifier does not notice."""
    np.testing.assert_allclose(test.accuracies("reversed", ORDINARY), [0.05, 0.15], atol=0.03)
    np.testing.assert_allclose(test.accuracies("reversed", STABLE_ONLY), STABLE)
    assert test.compare("reversed", STABLE_ONLY).ordinary == pytest.approx(0.1, abs=0.03)


def test_a_mixture_lies_between(test):
    """With more than half of the weight, the surer part decides; equal parts disagree at the tie's mercy."""
    assert test.compare("reversed", [0.2, 0.8]).fitted == pytest.approx(STABLE)
    assert test.compare("reversed", [0.8, 0.2]).fitted == pytest.approx(0.1, abs=0.03)


def test_the_price_has_its_interval(test):
    """What is lost at known environments, their mean, with the error of paired differences."""
    price = test.price(STABLE_ONLY)
    assert price.value == pytest.approx(0.9 - STABLE)
    lost = test.right("known", ORDINARY) - test.right("known", STABLE_ONLY)
    error = np.sqrt(sum(lost[rows].var() / N for rows in (slice(0, N), slice(N, None)))) / 2
    assert (price.high - price.low) / 2 == pytest.approx(1.96 * error)
    nothing = test.price(ORDINARY)
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)


def test_the_forecast_reaches_from_vanished_to_known(test):
    """Its ends lie beyond both by the usual spread between environments, and within 0 and 1."""
    forecast = test.forecast(ORDINARY, np.array(UNSTABLE))
    assert forecast.value == pytest.approx(0.9)
    assert forecast.low < test.accuracies("vanished", ORDINARY).mean() < 0.9 < forecast.high <= 1.0
    narrow = test.forecast(STABLE_ONLY, np.array([STABLE, STABLE]))
    assert narrow.high - narrow.low < forecast.high - forecast.low
    spread = np.sqrt((0.0 * 1 + 2 * 0.05**2) / 3)  # two environments alike, as much prior as two more
    half = student.ppf(0.975, 3) * spread * np.sqrt(1.5)
    assert (narrow.low, narrow.high) == pytest.approx((STABLE - half, STABLE + half))


def test_a_loss_at_left_out_environments_lowers_the_forecast(test):
    """A classifier that was fitted elsewhere and is worse here lowers value and lower end by as much or more."""
    same, worse = (test.forecast(STABLE_ONLY, np.full(2, accuracy)) for accuracy in (STABLE, STABLE - 0.1))
    assert worse.value == pytest.approx(same.value - 0.1)
    assert worse.low <= same.low - 0.1 + 1e-9
    assert worse.high == pytest.approx(same.high)


def test_weights_count_rows(training):
    """Rows of weight zero are not asked, and environments count alike whatever their weight."""
    scores = np.zeros((2, training.n_rows, 2))
    scores[0, :, 1] = np.where(training.X[:, 1] > 0, 1.0, -1.0)
    right = training.X[:, 1] == training.y
    weights = np.where(right, 1.0, 0.0)
    weights[:N] *= 7.0
    weighted = TrainingRows(training.X, training.y, training.environments, weights)
    test = Scenarios(scores, (scores,), (scores,), weighted)
    np.testing.assert_allclose(test.accuracies("known", ORDINARY), 1.0)
    assert test.price(ORDINARY).value == 0.0
    none = TrainingRows(training.X, training.y, training.environments, np.zeros(training.n_rows))
    assert Scenarios(scores, (scores,), (scores,), none).compare("known", ORDINARY).fitted == 0.0


def test_without_removed_columns_nothing_changes(training):
    """Nothing is exchanged, and the three questions have one answer."""
    rows = np.arange(training.n_rows)
    test = try_scenarios([Part(Removal(), [Follows(1)], [rows])], training, 2, n_draws=3)
    assert test.vanished[0] is test.reversed[0] is test.known
    assert test.price([1.0]).value == 0.0


def test_every_answer_is_out_of_fold(training):
    """Each row is asked of the estimator that was fitted without its fold, again only where its columns change."""
    asked = []

    class Notes(Follows):
        def predict_proba(self, X):
            """Note how many rows came."""
            asked.append((self.column, len(X)))
            return super().predict_proba(X)

    rows = np.arange(training.n_rows)
    folds = [rows[:1000], rows[1000:]]
    removal = plan_removal(training.X, [1], ["x1"])
    parts = [Part(Removal(), [Notes(0), Notes(1)], folds), Part(removal, [Notes(0), Notes(0)], folds)]
    try_scenarios(parts, training, 2, n_draws=2)
    assert {(0, 1000), (1, 3000), (0, 3000)} == set(asked)
    assert len(asked) == 4 + 2 * 2 * 2  # the second part does not see the columns that change


class Adds(Follows):
    """Adds the log-odds of both columns, each with its own."""

    def predict_proba(self, X):
        """Return what a logistic regression of both columns would."""
        log_odds = (2 * X - 1) @ [np.log(STABLE / (1 - STABLE)), np.log(9.0)]
        ill = 1 / (1 + np.exp(-log_odds))
        return np.stack([1 - ill, ill], axis=1)


def test_several_draws_are_several_answers(training):
    """A row is right in a share of the draws; scores are not averaged, which would take the noise out of the column."""
    rows = np.arange(training.n_rows)
    removal = plan_removal(training.X, [1], ["x1"])
    parts = [Part(Removal(), [Adds()], [rows]), Part(removal, [Follows(0)], [rows])]
    one, five = (try_scenarios(parts, training, 2, n_draws=n) for n in (1, 5))
    assert len(five.vanished) == len(five.reversed) == 5
    assert set(np.unique(one.right("vanished", ORDINARY))) == {0.0, 1.0}
    assert len(np.unique(five.right("vanished", ORDINARY))) == 6
    for question, accuracy in (("vanished", 0.5), ("reversed", 0.1)):
        assert one.compare(question, ORDINARY).fitted == pytest.approx(accuracy, abs=0.05)
        assert five.compare(question, ORDINARY).fitted == pytest.approx(accuracy, abs=0.03)


def test_ranks_are_areas_by_environment(training, test):
    """With two scores the AUROC is the mean of sensitivity and specificity; a site with one label has none."""
    found = test.ranks(STABLE_ONLY)
    assert found["known"] == Accuracy(pytest.approx(np.mean(UNSTABLE)), pytest.approx(STABLE))
    assert found["vanished"].ordinary == pytest.approx(0.5, abs=0.03)
    assert found["reversed"] == Accuracy(pytest.approx(1 - np.mean(UNSTABLE), abs=0.02), pytest.approx(STABLE))
    y = np.where(training.environment_codes == 1, 0, training.y)
    one = dataclasses.replace(test, training=dataclasses.replace(training, y=y), asked={})
    assert one.ranks(STABLE_ONLY)["known"].ordinary == pytest.approx(UNSTABLE[0])
    none = dataclasses.replace(test, training=dataclasses.replace(training, y=np.zeros_like(y)), asked={})
    assert none.ranks(STABLE_ONLY) == {}


def test_ranks_count_weights(training, test):
    """Rows of weight zero are not there."""
    weights = np.where(training.X[:, 1] == training.y, 1.0, 0.0)
    weighted = dataclasses.replace(test, training=dataclasses.replace(training, sample_weight=weights), asked={})
    assert weighted.ranks(ORDINARY)["known"].ordinary == 1.0


def test_a_site_of_few_rows_hardly_counts(training, test):
    """Four rows that are all wrong neither lower the mean nor widen the forecast much; in full they would."""
    rows = np.concatenate([np.arange(training.n_rows), np.flatnonzero(training.X[:, 1] != training.y)[:4]])
    sites = np.where(np.arange(len(rows)) < N, "a", np.where(np.arange(len(rows)) < 2 * N, "b", "few"))
    more = TrainingRows(training.X[rows], training.y[rows], split_environments(sites, len(rows)))
    with_few = Scenarios(test.known[:, rows], (test.known[:, rows],), (test.known[:, rows],), more)
    assert with_few.accuracies("known", ORDINARY)[2] == 0.0
    mean = (sum(UNSTABLE) + 0.2 * 0.0) / 2.2
    assert with_few.compare("known", ORDINARY).ordinary == pytest.approx(mean)
    assert with_few.price(STABLE_ONLY).value == pytest.approx(mean - with_few.compare("known", STABLE_ONLY).fitted)
    whole = next_reach(with_few.accuracies("known", ORDINARY), np.ones(3))
    forecast = with_few.forecast(ORDINARY, with_few.accuracies("known", ORDINARY))
    assert forecast.high - forecast.low < 0.8 * 2 * whole
