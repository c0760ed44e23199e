"""Stage 1: one judge for each environment."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from holdfast.environments import split_environments
from holdfast.exceptions import (
    EmptyColumnWarning,
    FeaturesError,
    ParameterError,
    SingleClassEnvironmentWarning,
    UnseenLabelWarning,
)
from holdfast.fitting.estimators import fit_rows
from holdfast.judging.judgements import ask_for_predictions
from holdfast.judging.judges import JudgeSettings, deal_folds, fit_folds, fit_judges
from holdfast.neural import NeuralClassifier
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding


def rows_of(X, y, labels, sample_weight=None, folds=None):
    """Return what the judges are fitted on."""
    return TrainingRows(X, y, split_environments(labels, len(y)), sample_weight, folds=folds)


def fit(estimator, X, y, labels, *, sample_weight=None, n_folds=0, **settings):
    """Fit with the settings that most tests share."""
    training = rows_of(X, y, labels, sample_weight)
    settings = JudgeSettings(n_folds=n_folds, **settings)
    folds = deal_folds(training, n_folds)
    return fit_judges(estimator, training, settings, Seeding(0), classes=np.unique(y), folds=folds)


def predictions(judges, X, y, labels):
    """Return what the judges predict for the rows."""
    return ask_for_predictions(judges, rows_of(X, y, labels))


@pytest.fixture
def two_sites():
    """Two sites with opposite rules: y = x at a, y = 1 - x at b."""
    X = np.tile([[0.0], [1.0]], (20, 1))
    labels = np.repeat(["a", "b"], 20)
    y = np.where(labels == "a", X[:, 0], 1 - X[:, 0]).astype(int)
    return X, y, labels


def test_each_environment_gets_its_own_classifier(two_sites):
    """A classifier knows its own environment's rule and applies it to the other one."""
    X, y, labels = two_sites
    asked = predictions(fit(LogisticRegression(C=100), X, y, labels), X, y, labels)
    assert (asked[0, 20:] == X[20:, 0]).all()
    assert (asked[1, :20] == 1 - X[:20, 0]).all()


def test_a_judge_may_speak_about_rows_it_was_not_fitted_on(two_sites):
    """Its own estimator about the others' rows, the fits of its folds about its own, each row once."""
    X, y, labels = two_sites
    judge, _ = fit(LogisticRegression(), X, y, labels, n_folds=2)
    (whole, others), *own = judge.unseen_rows(40)
    assert whole is judge.estimator
    assert others.tolist() == list(range(20, 40))
    assert [model for model, _ in own] == list(judge.fold_estimators)
    assert sorted(np.concatenate([rows for _, rows in own]).tolist()) == list(range(20))
    without, _ = fit(LogisticRegression(), X, y, labels)
    assert [rows.tolist() for _, rows in without.unseen_rows(40)] == [list(range(20, 40))]


def test_single_class_environment_becomes_a_constant():
    """One class needs no fit; the judge says that class."""
    X, y = np.arange(8.0).reshape(-1, 1), np.array([1, 1, 1, 1, 0, 1, 0, 1])
    labels = np.repeat(["a", "b"], 4)
    with pytest.warns(SingleClassEnvironmentWarning, match=r"^There is only one class in a \(only 1\)\."):
        judges = fit(LogisticRegression(), X, y, labels)
    assert (predictions(judges, X, y, labels)[0, 4:] == 1).all()


def test_sample_weight_reaches_the_fit(two_sites):
    """Rows of weight zero do not teach."""
    X, y, labels = two_sites
    wrong = np.concatenate([X, X]), np.concatenate([y, 1 - y]), np.concatenate([labels, labels])
    weights = np.repeat([1.0, 0.0], len(y))
    judges = fit(LogisticRegression(C=100), *wrong, sample_weight=weights)
    assert (judges[0].estimator.predict([[0.0], [1.0]]) == [0, 1]).all()


def test_weights_need_an_estimator_that_takes_them(two_sites):
    """An estimator without sample_weight is refused with a suggestion."""
    X, y, labels = two_sites
    with pytest.raises(ParameterError, match="weighting rows needs an estimator whose fit takes sample_weight"):
        fit(KNeighborsClassifier(), X, y, labels, sample_weight=np.ones(len(y)))


def test_streams_belong_to_environments():
    """Adding an environment does not change the other ones' random fits."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(90, 4)), generator.integers(2, size=90)
    labels = np.repeat(["a", "b", "c"], 30)
    two = fit(RandomForestClassifier(3), X[:60], y[:60], labels[:60])
    three = fit(RandomForestClassifier(3), X, y, labels)
    np.testing.assert_array_equal(two[0].estimator.predict_proba(X), three[0].estimator.predict_proba(X))


def test_an_environment_without_weight_is_refused():
    """A judge cannot be fitted on rows that all weigh nothing."""
    with pytest.raises(
        FeaturesError, match=r"^All 2 rows that LogisticRegression is to be fitted on .* have weight zero"
    ):
        fit_rows(LogisticRegression(), np.zeros((3, 1)), np.array([0, 1, 0]), np.array([0, 1]), np.zeros(2))


def test_the_pooled_classifier_is_fitted_without_each_fold():
    """It sees all environments but the rows of the fold, their weights where the estimator takes them."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(80, 2)), np.arange(80) % 2
    weights, folds = generator.uniform(1, 2, 80), np.arange(80) // 2 % 2
    training = rows_of(X, y, np.arange(80) // 4 % 2, weights)
    (models,), parts = fit_folds(LogisticRegression(), [training], folds, JudgeSettings(), Seeding(0))
    assert [part.tolist() for part in parts] == [np.flatnonzero(folds == fold).tolist() for fold in (0, 1)]
    expected = LogisticRegression().fit(X[folds == 1], y[folds == 1], sample_weight=weights[folds == 1])
    np.testing.assert_allclose(models[0].coef_, expected.coef_)
    (neighbors,), _ = fit_folds(KNeighborsClassifier(), [training], folds, JudgeSettings(), Seeding(0))
    assert neighbors[0].n_samples_fit_ == 40


@pytest.fixture
def mapped(tmp_path):
    """Return rows of three sites in a memory map, and their labels and sites."""
    rng = np.random.default_rng(0)
    rows = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=(180, 2))
    y = rng.integers(0, 3, 180)
    rows[:] = rng.normal(size=(180, 2)) + y[:, None]
    rows.flush()
    return np.memmap(tmp_path / "rows", dtype=np.float64, mode="r", shape=(180, 2)), y, np.repeat(["a", "b", "c"], 60)


def test_judges_of_a_memory_map_are_those_of_an_array(mapped):
    """The exact solver reads rows from the disk and finds scikit-learn's own coefficients."""
    X, y, labels = mapped
    on_disk, in_memory = fit(LogisticRegression(tol=1e-8), X, y, labels), fit(LogisticRegression(), X[:] + 0, y, labels)
    for judge, expected in zip(on_disk, in_memory, strict=True):
        assert judge.estimator.coef_.shape == (3, 2)
        np.testing.assert_allclose(judge.estimator.coef_, expected.estimator.coef_, atol=0.05)


def test_a_site_of_a_memory_map_that_lacks_a_label(mapped):
    """Codes with a gap, one class alone and weighted rows are fitted by the estimator itself."""
    X, y, labels = mapped
    y = np.where((labels == "a") & (y == 1), 2, y)
    y[labels == "b"] = 0
    with pytest.warns(UnseenLabelWarning, match="never 1"), pytest.warns(SingleClassEnvironmentWarning, match="only 0"):
        gap, one, _ = fit(LogisticRegression(), X, y, labels)
    assert gap.estimator.classes_.tolist() == [0, 2]
    assert (one.estimator.predict(X[:3]) == 0).all()
    y = mapped[1]
    weights = np.where(y == 2, 0.0, 1.0)
    judge, *_ = fit(LogisticRegression(), X, y, labels, sample_weight=weights)
    assert judge.estimator.classes_.tolist() == [0, 1]


def test_numbers_of_a_memory_map(mapped):
    """Targets are no codes: a ridge regression is fitted as one."""
    X, y, labels = mapped
    judges = fit_judges(Ridge(), rows_of(X, y + 0.5, labels), JudgeSettings(), Seeding(0), classes=None)
    expected = Ridge().fit(X[:60], y[:60] + 0.5)
    np.testing.assert_allclose(judges[0].estimator.coef_, expected.coef_, atol=0.01)


def test_the_fits_are_counted(two_sites, caplog):
    """Without folds one fit for each site, with two folds three."""
    X, y, labels = two_sites
    with caplog.at_level("INFO", logger="holdfast.judging.judges"):
        fit(LogisticRegression(), X, y, labels)
        judges = fit(LogisticRegression(), X, y, labels, n_folds=2)
    assert caplog.messages == ["stage 1: 2 fits for 2 environments", "stage 1: 6 fits for 2 environments"]
    for judge in judges:
        assert sorted(np.concatenate(judge.fold_rows).tolist()) == judge.environment.rows.tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_network_judges(two_sites):
    """A network is trained as a judge: its history has an entry for each epoch, the others' score beside it."""
    X, y, labels = two_sites
    network = NeuralClassifier("linear", max_epochs=2, steps_per_epoch=1, batch_size=4, training__precision="fp32")
    judges = fit(network, X.astype(np.float32), y, labels, selection="other_environments")
    assert [len(judge.estimator.history_) for judge in judges] == [2, 2]
    assert all(entry["other_environments_score"] is not None for entry in judges[0].estimator.history_)


@pytest.mark.filterwarnings("ignore")
def test_a_network_of_one_class_is_a_constant(two_sites):
    """A site with one label needs no training, whatever the estimator."""
    X, y, labels = two_sites
    y = np.where(labels == "a", 1, y)
    network = NeuralClassifier("linear", max_epochs=1, steps_per_epoch=1, batch_size=4, training__precision="fp32")
    one, other = fit(network, X.astype(np.float32), y, labels)
    assert not hasattr(one.estimator, "history_")
    assert (one.estimator.predict(X.astype(np.float32)) == 1).all()
    assert len(other.estimator.history_) == 1


def test_columns_without_a_value_are_named(two_sites):
    """Each empty column with its environments, five at most, whether or not a pipeline fills them."""
    _, y, labels = two_sites
    X = np.ones((40, 7))
    X[labels == "b", 1:] = X[labels == "a", 6] = np.nan
    for estimator in (DummyClassifier(), make_pipeline(DummyClassifier())):
        with pytest.warns(EmptyColumnWarning, match="No value of column 6 in a, b, column 1 in b, .*4 in b and 1 more"):
            fit(estimator, X, y, labels)
