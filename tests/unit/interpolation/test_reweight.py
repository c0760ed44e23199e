"""The reweighting solver: Hedge over groups, judged out of fold."""

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast.environments import Group
from holdfast.exceptions import DivergedError, ParameterError
from holdfast.interpolation import SolverSettings
from holdfast.interpolation.convex.solver import minimize_worst_case_log_loss
from holdfast.interpolation.reweight import WeightedEnsemble, WeightedMean, assign_folds, group_masses, solve_reweight
from holdfast.rows.training import TrainingRows
from holdfast.seeding import Seeding


@pytest.fixture(scope="module")
def rows():
    """300 rows whose second feature agrees with the label in 80 % of them, and the two groups of (dis)agreement."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=300)
    unstable = np.where(generator.random(300) < 0.8, y, 1 - y)
    X = np.column_stack([y + generator.normal(size=300), unstable])
    groups = [Group("agree", np.flatnonzero(unstable == y)), Group("disagree", np.flatnonzero(unstable != y))]
    return X, y, groups


def solve(estimator, rows, **settings):
    """Solve with few rounds and two classes unless told otherwise."""
    X, y, groups = rows
    settings = {"rounds": 8, "n_folds": 2, **settings}
    seeding, folds = settings.pop("seeding", Seeding(0)), settings.pop("folds", None)
    own = {name: settings.pop(name) for name in ("n_classes", "tolerance") if name in settings}
    chosen = SolverSettings(reweight_rounds=settings.pop("rounds"), **settings)
    training = TrainingRows(X, y, (), folds=folds)
    return solve_reweight(estimator, training, groups, chosen, seeding, **{"n_classes": 2, **own})


def test_a_constant_classifier_meets_the_min_max_of_label_groups():
    """Over the two label groups with useless features the value is log 2, at equal weights, from the first round on."""
    y = np.repeat([0, 1], [90, 30])
    groups = [Group("0", np.flatnonzero(y == 0)), Group("1", np.flatnonzero(y == 1))]
    solution = solve(LogisticRegression(), (np.zeros((120, 1)), y, groups), rounds=20)
    np.testing.assert_allclose(solution.group_risks, np.log(2), atol=1e-3)
    np.testing.assert_allclose(solution.group_weights, 0.5)
    assert len(solution.history) == 1
    assert solution.worst_case_risk == solution.group_risks.max()
    assert solution.solver == "reweight"


def test_weight_moves_to_the_worse_group(rows):
    """The group with the larger risk gets the larger weight, and the classifier drops the unstable feature."""
    solution = solve(LogisticRegression(), rows, rounds=30)
    first = solution.history[0]["group_risks"]
    assert np.argmax(solution.history[1]["group_weights"]) == np.argmax(first)
    accuracy = [np.mean(solution.estimator.predict(rows[0][g.rows]) == rows[1][g.rows]) for g in rows[2]]
    assert abs(accuracy[0] - accuracy[1]) < 0.15
    natural = LogisticRegression().fit(rows[0], rows[1]).predict(rows[0])
    assert np.mean((natural == rows[1])[rows[2][1].rows]) < accuracy[1] - 0.2


def test_the_gap_is_the_ensembles_distance_from_the_hardest_mixture(rows):
    """The gap is the worst-case risk minus the largest risk of a round in its own mixture."""
    solution = solve(LogisticRegression(), rows, rounds=2, tolerance=0)
    q = np.array([entry["group_weights"] for entry in solution.history])
    risks = np.array([entry["group_risks"] for entry in solution.history])
    assert solution.gap == pytest.approx(solution.worst_case_risk - (q * risks).sum(axis=1).max())
    assert solution.gap > 0
    np.testing.assert_allclose(solution.group_weights, q.mean(axis=0))


def test_the_gap_shrinks_with_rounds(rows):
    """Four times and sixteen times the rounds leave a smaller gap, below the bound of Hedge."""
    X, y, _ = rows
    groups = [
        Group(f"{label} {side}", np.flatnonzero((y == label) & (X[:, 1] == side)))
        for label in (0, 1)
        for side in (0, 1)
    ]
    gaps = {}
    for n in (2, 8, 32):
        solution = solve(LogisticRegression(), (X, y, groups), rounds=n, tolerance=0)
        spread = max(np.ptp(entry["group_risks"]) for entry in solution.history)
        gaps[n] = solution.gap
        assert solution.gap <= spread * np.sqrt(2 * np.log(4) / n)
    assert gaps[32] < gaps[8] < gaps[2]


def test_a_closed_gap_ends_the_rounds(rows):
    """The exact min–max value is reached within the tolerance long before the rounds are used up."""
    X, y, groups = rows
    solution = solve(LogisticRegression(), rows, rounds=200, tolerance=0.01)
    assert solution.gap < 0.01
    assert len(solution.history) < 30
    exact = minimize_worst_case_log_loss(X, y, groups, n_classes=2)
    assert solution.worst_case_risk == pytest.approx(exact.group_risks.max(), abs=0.03)


def test_out_of_fold_risks_reveal_a_learner_that_memorizes(rows):
    """A full tree has no risk on its rows; out of fold the disagreeing group is seen to be worse and reweighted."""
    solution = solve(DecisionTreeClassifier(min_samples_leaf=3), rows)
    first = solution.history[0]["group_risks"]
    assert min(first) > 0.2
    assert solution.history[1]["group_weights"] != [0.5, 0.5]


def test_cost_is_rounds_times_folds(rows):
    """No further fit follows the rounds; the ensemble holds every model with the same weight."""
    solution = solve(LogisticRegression(), rows, rounds=3, folds=2, tolerance=0)
    assert len(solution.estimator.estimators) == 6
    np.testing.assert_allclose(solution.estimator.weights, 1 / 6)


def test_given_folds_keep_rows_together(rows):
    """With folds handed in, the first round's risks are those of models fitted without the row's own fold."""
    X, y, groups = rows
    folds = np.repeat([7, 3, 5], 100)
    solution = solve(LogisticRegression(), rows, rounds=1, folds=folds)
    masses = group_masses(groups, 300)
    weights = masses @ np.array([0.5, 0.5])
    losses = np.zeros(300)
    for fold in (3, 5, 7):
        out = folds == fold
        scaled = weights[~out] / weights[~out].mean()
        model = LogisticRegression().fit(X[~out], y[~out], sample_weight=scaled)
        losses[out] = -np.log(model.predict_proba(X[out])[np.arange(100), y[out]])
    np.testing.assert_allclose(solution.history[0]["group_risks"], masses.T @ losses, rtol=1e-6)


def test_default_folds_are_stratified(rows):
    """Each fold holds its share of every group and label."""
    X, y, groups = rows
    folds = assign_folds(3, y, group_masses(groups, 300), Seeding(0))
    for group in groups:
        for label in (0, 1):
            counts = np.bincount(folds[group.rows][y[group.rows] == label], minlength=3)
            assert np.ptp(counts) <= 1


def test_soft_groups_weight_rows(rows):
    """A row in two groups counts with both weights; groups of equal weights equal unweighted ones."""
    X, y, groups = rows
    soft = [
        Group("a", np.arange(300), (X[:, 1] == y).astype(float)),
        Group("b", np.arange(300), (X[:, 1] != y).astype(float)),
    ]
    folds = np.arange(300) % 2
    hard, weighted = (
        solve(LogisticRegression(), rows, folds=folds),
        solve(LogisticRegression(), (X, y, soft), folds=folds),
    )
    np.testing.assert_allclose(hard.group_risks, weighted.group_risks)


@pytest.mark.parametrize("routing", [False, True])
def test_pipeline_gets_weights_with_and_without_metadata_routing(rows, routing):
    """A pipeline's last step is weighted, whatever the global routing setting is."""
    X, y, groups = rows
    with sklearn.config_context(enable_metadata_routing=routing):
        solution = solve(make_pipeline(StandardScaler(), LogisticRegression()), rows, rounds=3, tolerance=0)
    assert solution.history[1]["group_weights"] != [0.5, 0.5]
    assert solution.estimator.predict_proba(X).shape == (300, 2)


def test_sparse_rows_and_text(rows):
    """Sparse matrices and lists of texts are taken by row."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    X, y, groups = rows
    assert solve(LogisticRegression(), (csr_array(X), y, groups), rounds=2).estimator.predict(csr_array(X)).shape == (
        300,
    )
    texts = [f"word{int(value)} {'good' if label else 'bad'}" for value, label in zip(X[:, 1], y, strict=True)]
    solution = solve(make_pipeline(TfidfVectorizer(), LogisticRegression()), (texts, y, groups), rounds=2)
    assert (solution.estimator.predict(texts) == y).mean() == 1.0


def test_classifier_without_probabilities_is_judged_by_its_errors(rows):
    """A linear SVM is judged by its share of errors, and its ensemble by the share of wrong votes."""
    solution = solve(LinearSVC(), rows)
    assert all(0 <= risk <= 1 for entry in solution.history for risk in entry["group_risks"])
    assert set(np.unique(solution.estimator.predict(rows[0]))) <= {0, 1}


def test_regressors_are_judged_by_squared_error():
    """Two groups of opposite slopes: the min–max line is flat."""
    x = np.linspace(-1, 1, 200)
    y = np.where(np.arange(200) % 2, x, -x)
    groups = [Group("up", np.arange(1, 200, 2)), Group("down", np.arange(0, 200, 2))]
    solution = solve(LinearRegression(), (x[:, None], y, groups), n_classes=None, rounds=5)
    assert isinstance(solution.estimator, WeightedMean)
    np.testing.assert_allclose(solution.estimator.predict(np.array([[1.0]])), 0.0, atol=0.05)
    np.testing.assert_allclose(solution.group_risks, 1 / 3, atol=0.05)


def test_same_seed_same_answer(rows):
    """A random estimator repeats itself with the same seeding and differs with another."""

    def risks(seed):
        tree = HistGradientBoostingClassifier(max_iter=5, max_features=0.5)
        return solve(tree, rows, rounds=2, seeding=Seeding(seed)).group_risks

    np.testing.assert_array_equal(risks(3), risks(3))
    assert (risks(3) != risks(4)).any()


def test_class_missing_from_a_fold_has_probability_zero():
    """A class that only one fold holds is unknown to the other fold's model."""
    X = np.arange(8.0)[:, None]
    y = np.array([0, 1, 0, 1, 0, 1, 0, 2])
    groups = [Group("all", np.arange(8))]
    folds = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    solution = solve(DecisionTreeClassifier(), (X, y, groups), n_classes=3, rounds=1, folds=folds)
    assert solution.estimator.predict_proba(X).shape == (8, 3)
    assert solution.group_risks[0] > 0


def test_ensemble_averages_and_survives_cloning():
    """Probabilities are averaged by weight, over codes that a part has never seen too."""
    always = [DummyClassifier(strategy="most_frequent").fit(np.zeros((1, 1)), [code]) for code in (0, 2)]
    ensemble = clone(WeightedEnsemble(always, np.array([3.0, 1.0]), 3))
    np.testing.assert_allclose(ensemble.predict_proba(np.zeros((2, 1))), [[0.75, 0.0, 0.25]] * 2)
    assert ensemble.predict(np.zeros((2, 1))).tolist() == [0, 0]
    assert ensemble.classes_.tolist() == [0, 1, 2]


def test_estimator_without_sample_weight_is_refused(rows):
    """Nearest neighbors cannot be reweighted; the message names what can."""
    with pytest.raises(
        ParameterError, match=r"takes sample_weight .* Got KNeighborsClassifier instead\. Use for example"
    ):
        solve(KNeighborsClassifier(), rows)
    with pytest.raises(ParameterError, match="Got Pipeline instead"):
        solve(make_pipeline(StandardScaler(), KNeighborsClassifier()), rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1. Got 0"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"folds": np.zeros(300)}, "at least two different ones. Got an array of shape \\(300,\\) with 1 different"),
        ({"folds": np.arange(5)}, "one fold number for each of the 300 rows"),
    ],
)
def test_bad_settings_are_refused(rows, settings, message):
    """Each bad setting is named with what came."""
    with pytest.raises(ParameterError, match=message):
        solve(LogisticRegression(), rows, **settings)


def test_groups_without_rows_are_refused(rows):
    """An empty half must be dropped before; it has no risk."""
    X, y, groups = rows
    with pytest.raises(ParameterError, match="mistaken without rows"):
        solve(LogisticRegression(), (X, y, [groups[0], Group("mistaken", np.array([], dtype=np.intp))]))
    with pytest.raises(ParameterError, match="Got no groups"):
        solve(LogisticRegression(), (X, y, []))


def test_answers_that_are_not_finite_are_named(rows):
    """A model that answers NaN stops the rounds."""

    class Broken(LogisticRegression):
        def predict_proba(self, X):
            return np.full((len(X), 2), np.nan)

    with pytest.raises(DivergedError, match="round 1: the risk of a group is not finite"):
        solve(Broken(), rows)
