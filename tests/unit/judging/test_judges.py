"""Stage 1."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast import NeuralClassifier
from holdfast.environments import split_environments
from holdfast.exceptions import FeaturesError, ParameterError, SingleClassEnvironmentWarning, UnseenLabelWarning
from holdfast.judging.judges import cross_predict, cross_probabilities, deal_folds, fit_environment_classifiers
from holdfast.learners import fit_rows
from holdfast.seeding import Seeding


def fit(estimator, X, y, labels, **options):
    """Fit with the settings that most tests share."""
    environments = split_environments(labels, len(y))
    return fit_environment_classifiers(
        estimator, X, y, environments, classes=np.unique(y), seeding=Seeding(0), **options
    )


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
    predictions = cross_predict(fit(LogisticRegression(C=100), X, y, labels), X, y)
    assert (predictions[0, 20:] == X[20:, 0]).all()
    assert (predictions[1, :20] == 1 - X[:20, 0]).all()


def test_own_rows_are_unknown_without_folds(two_sites):
    """A judge never predicts rows that it was fitted on."""
    X, y, labels = two_sites
    classifiers = fit(LogisticRegression(), X, y, labels)
    assert (cross_predict(classifiers, X, y)[0, :20] == -1).all()
    assert np.isnan(cross_probabilities(classifiers, X, y, 2)[0][0, :20]).all()


def test_own_rows_are_predicted_out_of_fold():
    """A forest that memorizes noise is at chance on its own environment, because its folds are held out."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(400, 5)), generator.integers(2, size=400)
    classifiers = fit(RandomForestClassifier(20), X, y, np.repeat([0, 1], 200), n_folds=2)
    own = (cross_predict(classifiers, X, y)[0, :200] == y[:200]).mean()
    assert 0.35 < own < 0.65
    assert (classifiers[0].estimator.predict(X[:200]) == y[:200]).mean() > 0.95


def test_given_folds_are_kept():
    """Rows with one fold number are held out together."""
    folds = np.array([0, 0, 1, 1, 0, 1])
    parts = deal_folds(np.array([0, 1, 2, 3]), np.zeros(6, dtype=int), 2, folds, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3]]


def test_dealt_folds_cover_every_row_once_with_labels_spread():
    """Folds are disjoint, cover the environment and hold each label equally."""
    y = np.array([0] * 6 + [1] * 4)
    parts = deal_folds(np.arange(10), y, 2, None, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))
    assert [y[part].sum() for part in parts] == [2, 2]


def test_probabilities_cover_labels_that_an_environment_lacks():
    """A label unseen at a judge's site has probability zero, and the site is named."""
    X = np.arange(12.0).reshape(-1, 1)
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2])
    with pytest.warns(UnseenLabelWarning, match=r"a \(never 2\): some labels are unseen there"):
        classifiers = fit(LogisticRegression(), X, y, np.repeat(["a", "b"], 6))
    probabilities, _ = cross_probabilities(classifiers, X, y, 3)
    assert (probabilities[0, 6:, 2] < 2e-3).all()
    np.testing.assert_allclose(probabilities[0, 6:].sum(axis=1), 1.0)


def test_probabilities_are_calibrated_out_of_fold():
    """A forest that memorizes noise is sure of itself; its calibrated probabilities are near one half."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(600, 3)), generator.integers(2, size=600)
    classifiers = fit(DecisionTreeClassifier(random_state=0), X, y, np.repeat([0, 1], 300), n_folds=2)
    probabilities, _ = cross_probabilities(classifiers, X, y, 2)
    assert np.isfinite(probabilities).all()
    assert np.abs(probabilities - 0.5).max() < 0.15


def test_scores_of_a_linear_svm_become_probabilities():
    """An estimator without predict_proba is calibrated from its decision scores."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=600)
    X = generator.normal(size=(600, 2)) + y[:, None]
    classifiers = fit(LinearSVC(), X, y, np.repeat([0, 1], 300), n_folds=3)
    p = cross_probabilities(classifiers, X, y, 2)[0][0, 300:, 1]
    assert abs(p.mean() - y[300:].mean()) < 0.06
    assert abs(p[p > 0.8].mean() - y[300:][p > 0.8].mean()) < 0.1


def test_single_class_environment_becomes_a_constant():
    """One class needs no fit; the judge says that class."""
    X, y = np.arange(8.0).reshape(-1, 1), np.array([1, 1, 1, 1, 0, 1, 0, 1])
    with pytest.warns(SingleClassEnvironmentWarning, match=r"a \(only 1\): one class only"):
        classifiers = fit(LogisticRegression(), X, y, np.repeat(["a", "b"], 4))
    assert (cross_predict(classifiers, X, y)[0, 4:] == 1).all()


def test_sample_weight_reaches_the_fit(two_sites):
    """Rows of weight zero do not teach."""
    X, y, labels = two_sites
    wrong = np.concatenate([X, X]), np.concatenate([y, 1 - y]), np.concatenate([labels, labels])
    weights = np.repeat([1.0, 0.0], len(y))
    classifiers = fit(LogisticRegression(C=100), *wrong, sample_weight=weights)
    assert (classifiers[0].estimator.predict([[0.0], [1.0]]) == [0, 1]).all()


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
    judges = fit_environment_classifiers(
        Ridge(), X, y + 0.5, split_environments(labels, 180), classes=None, seeding=Seeding(0)
    )
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
    network = NeuralClassifier("linear", max_epochs=2, steps_per_epoch=1, batch_size=4, precision="fp32")
    judges = fit(network, X.astype(np.float32), y, labels, selection="other_environments")
    assert [len(judge.estimator.history_) for judge in judges] == [2, 2]
    assert all(entry["other_environments_score"] is not None for entry in judges[0].estimator.history_)


@pytest.mark.parametrize(("n_rows", "n_folds", "n_parts"), [(1, 2, 0), (2, 2, 2), (4, 1, 0), (4, 3, 3)])
def test_folds_need_two_of_each(n_rows, n_folds, n_parts):
    """Fewer than two folds or rows are not dealt."""
    parts = deal_folds(np.arange(n_rows), np.zeros(n_rows, dtype=int), n_folds, None, np.random.default_rng(0))
    assert len(parts) == n_parts
