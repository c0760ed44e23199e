"""Predict then interpolate, whole."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast import ERMClassifier, GroupDROClassifier, PIClassifier
from holdfast.datasets import load_dataset
from holdfast.environments import Partition, split_environments
from holdfast.estimators.pi import refine_halves
from holdfast.exceptions import (
    AllMistakenWarning,
    CollapseWarning,
    ConstantJudgeWarning,
    EmptyPartitionWarning,
    EnvironmentsError,
    FeaturesError,
    InputTypeError,
    LabelsError,
    ParameterError,
    SingleClassEnvironmentWarning,
    SingleEnvironmentWarning,
    SmallGroupWarning,
    UnseenLabelWarning,
)
from holdfast.judging import judgements
from holdfast.metrics import correlation
from holdfast.neural import NeuralClassifier
from holdfast.rows.training import TrainingRows

# In few rows with a noisy stable column the worst case is a constant; what the warnings say is tested below.
pytestmark = [
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.EmptyPartitionWarning"),
    pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning"),
]
CELLS = np.array(list(itertools.product([0.0, 1.0], [0.0, 1.0])))  # every (x1, x2)


def paper(estimator=None, **settings):
    """Return PI with its defaults, which are the paper's: hard halves, worst case."""
    return PIClassifier(estimator, **settings)


def toy(**options):
    """Return the training rows of the paper's toy example."""
    return load_dataset("toy", **options).train


def shifted(n_rows=600, n_environments=3, n_classes=2, seed=0):
    """Return rows with a stable and an unstable column whose agreement with the label differs by environment."""
    generator = np.random.default_rng(seed)
    y = generator.integers(n_classes, size=n_rows)
    environments = np.arange(n_rows) % n_environments
    agreement = np.linspace(0.95, 0.75, n_environments)[environments]
    other = (y + generator.integers(1, n_classes, size=n_rows)) % n_classes
    stable = np.where(generator.random(n_rows) < 0.8, y, other)
    unstable = np.where(generator.random(n_rows) < agreement, y, other)
    X = np.eye(n_classes)[np.stack([stable, unstable], axis=1)].reshape(n_rows, -1)  # (n_rows, 2 · n_classes)
    return X, y, environments


# -- the paper's toy example -----------------------------------------------------------------------------------------


def test_toy_halves_flip_the_unstable_correlation():
    """On exact counts x2 correlates +1 with the label in E2's correct half and -1 in its mistaken half."""
    rows = toy(exact=True)
    model = paper().fit(rows.X, rows.y, environments=rows.environments)
    (cut,) = [p for p in model.partitions_ if p.judged == str(model.environments_[1])]
    x2 = rows.X[:, 1]
    assert correlation(x2[cut.correct], rows.y[cut.correct]) == pytest.approx(1.0)
    assert correlation(x2[cut.mistaken], rows.y[cut.mistaken]) == pytest.approx(-1.0)
    assert len(cut.mistaken) == 100


def test_toy_final_probabilities_ignore_the_unstable_feature():
    """With the exact solver the probabilities depend on x1 alone, to 1e-3, and are right with probability 0.8."""
    rows = toy(exact=True)
    model = paper(LogisticRegression(C=1e4)).fit(rows.X, rows.y, environments=rows.environments)
    p = model.predict_proba(CELLS)[:, 1].reshape(2, 2)  # rows x1, columns x2
    assert np.abs(p[:, 0] - p[:, 1]).max() < 1e-3
    np.testing.assert_allclose(p[:, 0], [0.2, 0.8], atol=2e-3)
    assert model.solver_ == "convex"
    assert model.gap_ <= 1e-4
    assert model.worst_case_risk_ == pytest.approx(-(0.8 * np.log(0.8) + 0.2 * np.log(0.2)), abs=2e-3)


def test_toy_default_estimator_ignores_the_unstable_feature():
    """The paper's setting needs no estimator for the same."""
    rows = toy(exact=True)
    p = paper().fit(rows.X, rows.y, environments=rows.environments).predict_proba(CELLS)[:, 1].reshape(2, 2)
    assert np.abs(p[:, 0] - p[:, 1]).max() < 1e-3


@pytest.mark.parametrize("agreement", [0.0, 0.1, 0.5, 1.0])
def test_toy_accuracy_is_the_stable_one_whatever_x2_does(agreement):
    """PI scores 0.8 for any test agreement of x2; ERM falls to 0.2 or below when x2 turns around."""
    rows = toy(exact=True)
    test = load_dataset("toy", exact=True, test_etas=[1 - agreement]).test
    erm = ERMClassifier().fit(rows.X, rows.y, environments=rows.environments)
    for pi in (paper(), paper(halves="soft")):
        assert pi.fit(rows.X, rows.y, environments=rows.environments).score(test.X, test.y) == pytest.approx(0.8)
    assert erm.score(test.X, test.y) == pytest.approx(agreement)


def test_toy_sampled_rows_depend_little_on_x2():
    """On 20,000 sampled rows the dependence on x2 stays below 0.02."""
    rows = toy(exact=False, n_rows=10_000, seed=3)
    p = paper().fit(rows.X, rows.y, environments=rows.environments).predict_proba(CELLS)[:, 1].reshape(2, 2)
    assert np.abs(p[:, 0] - p[:, 1]).max() < 0.02


# -- any number of environments and classes, any estimator -----------------------------------------------------------


@pytest.mark.parametrize("n_environments", [2, 3, 5])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_any_number_of_environments_and_classes(n_environments, n_classes):
    """Every ordered pair is judged, and what is fitted has the documented shapes."""
    X, y, environments = shifted(n_rows=2000, n_environments=n_environments, n_classes=n_classes)
    model = paper(random_state=0).fit(X, y, environments=environments)
    n_pairs = n_environments * (n_environments - 1)
    assert len(model.partitions_) == n_pairs
    assert model.accuracies_.shape == (n_environments, n_environments)
    assert np.isfinite(model.accuracies_).all()
    assert len(model.groups_) == len(model.group_risks_) == 2 * n_pairs
    assert model.worst_case_risk_ == model.group_risks_.max()
    assert sorted(model.environment_classifiers_) == list(range(n_environments))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    for partition in model.partitions_:
        judged = np.flatnonzero(environments == int(partition.judged))
        assert sorted([*partition.correct, *partition.mistaken]) == judged.tolist()


@pytest.mark.parametrize(
    ("estimator", "solver"),
    [
        (None, "convex"),
        (LogisticRegression(), "convex"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "convex"),
        (make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)), "reweight"),
        (HistGradientBoostingClassifier(max_iter=10), "reweight"),
        (RandomForestClassifier(10, max_depth=4), "reweight"),
    ],
)
def test_any_estimator_inside(estimator, solver):
    """Linear models are solved exactly, everything else that takes weights by reweighting, each with its gap."""
    X, y, environments = shifted()
    model = paper(estimator, reweight_rounds=4, random_state=0).fit(X, y, environments=environments)
    assert model.solver_ == solver
    assert np.isfinite(model.gap_)
    assert len(model.history_) >= 1
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("n_environments", [2, 3, 5])
@pytest.mark.parametrize(
    ("estimator", "solver"),
    [
        (LogisticRegression(), "convex"),
        (LinearSVC(), "reweight"),
        (HistGradientBoostingClassifier(max_iter=10), "reweight"),
        (RandomForestClassifier(10, max_depth=4), "reweight"),
        (NeuralClassifier("mlp", max_epochs=2, steps_per_epoch=50, training__selection="last"), "gradient"),
    ],
    ids=["logistic", "svm", "boosting", "forest", "mlp"],
)
def test_every_kind_of_estimator_with_many_environments(estimator, solver, n_environments):
    """Each kind is fitted, judged and interpolated with 2, 3 and 5 environments."""
    X, y, environments = shifted(n_rows=400 * n_environments, n_environments=n_environments)
    model = paper(estimator, reweight_rounds=3, random_state=0).fit(X, y, environments=environments)
    assert model.solver_ == solver
    assert len(model.partitions_) == n_environments * (n_environments - 1)
    assert model.worst_case_risk_ == model.group_risks_.max()
    if solver == "convex":  # saying nothing costs log 2 in every half, and the optimum is no worse
        assert model.worst_case_risk_ <= np.log(2) + model.gap_ + 1e-9


@pytest.mark.filterwarnings("ignore:PIClassifier costs")
def test_validation_rows_are_scored_by_every_solver():
    """Validation rows select nothing for a logistic regression, and are not dropped silently either."""
    X, y, environments = shifted()
    model = paper().fit(X, y, environments=environments, validation=(X[:50], y[:50]))
    assert model.validation_score_ == pytest.approx(model.score(X[:50], y[:50]))


def test_pi_beats_erm_when_the_unstable_feature_turns():
    """Where the unstable column is reversed, PI keeps most of the stable accuracy and ERM loses it."""
    X, y, environments = shifted(n_rows=3000)
    turned = X.copy()
    turned[:, 2:] = turned[:, :1:-1]
    pi = paper().fit(X, y, environments=environments)
    erm = ERMClassifier().fit(X, y)
    assert pi.score(turned, y) > erm.score(turned, y) + 0.2


def test_labels_of_any_type_come_back():
    """Class labels are predicted as they were given."""
    X, y, environments = shifted()
    names = np.array(["ill", "well"])[y]
    model = paper().fit(X, names, environments=np.array(["A", "B", "C"])[environments])
    assert model.classes_.tolist() == ["ill", "well"]
    assert model.environments_.tolist() == ["A", "B", "C"]
    assert set(model.predict(X)) <= {"ill", "well"}
    assert "A" in model.environment_classifiers_


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_categories_reach_a_pipeline(frame):
    """A column transformer inside sees the frame's own columns, by name."""
    X, y, environments = shifted()
    table = frame({"a": X[:, 0], "b": np.array(["u", "v"])[X[:, 2].astype(int)]})
    inside = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough"), LogisticRegression()
    )
    model = paper(inside).fit(table, y, environments=environments)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_features_in_ == 2
    assert model.predict(table).shape == y.shape


def test_sparse_rows_give_the_dense_result():
    """A sparse matrix is accepted, and the solution is the dense one."""
    X, y, environments = shifted()
    estimator = LogisticRegression()
    dense = paper(estimator).fit(X, y, environments=environments)
    sparse = paper(estimator).fit(sp.csr_array(X), y, environments=environments)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-4)


# -- weights, known biases, seeds ------------------------------------------------------------------------------------


def test_sample_weight_of_zero_is_like_leaving_rows_out():
    """Zero-weight rows change neither stage."""
    X, y, environments = shifted()
    weights = (np.arange(len(y)) % 4 > 0).astype(float)
    kept = weights > 0
    estimator = LogisticRegression(C=1e6)
    weighted = paper(estimator, n_folds=0).fit(X, y, environments=environments, sample_weight=weights)
    without = paper(estimator, n_folds=0).fit(X[kept], y[kept], environments=environments[kept])
    np.testing.assert_allclose(weighted.predict_proba(X), without.predict_proba(X), atol=2e-3)


def test_group_labels_refine_the_halves():
    """A known bias doubles the groups, and its names appear in them."""
    X, y, environments = shifted(n_environments=2)
    known = np.array(["old", "new"])[np.arange(len(y)) // 2 % 2]
    model = paper().fit(X, y, environments=environments, group_labels=known)
    assert len(model.groups_) == 8
    assert sum("group old" in group.name for group in model.groups_) == 4


def test_same_seed_same_model_and_refit_is_fresh():
    """random_state repeats a fit exactly, and a second fit of one object equals a fresh one."""
    X, y, environments = shifted()
    settings = {"reweight_rounds": 3, "random_state": 7}
    model = paper(RandomForestClassifier(5), **settings).fit(X, y, environments=environments)
    first = model.predict_proba(X)
    again = model.fit(X, y, environments=environments).predict_proba(X)
    fresh = paper(RandomForestClassifier(5), **settings).fit(X, y, environments=environments).predict_proba(X)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, fresh)


def test_folds_may_be_given():
    """Rows of one patient stay in one fold."""
    X, y, environments = shifted()
    patients = np.arange(len(y)) // 6 % 3
    model = paper(DecisionTreeClassifier(), reweight_rounds=2, random_state=0)
    together = model.fit(X, y, environments=environments, folds=patients).group_risks_
    apart = model.fit(X, y, environments=environments, folds=np.arange(len(y)) % 3).group_risks_
    assert together.shape == apart.shape
    assert not np.allclose(together, apart)


def test_soft_halves_hold_every_row_twice():
    """halves='soft' weights each row of the judged environment in both halves."""
    X, y, environments = shifted(n_environments=2)
    model = paper(halves="soft").fit(X, y, environments=environments)
    for partition in model.partitions_:
        np.testing.assert_array_equal(partition.correct, partition.mistaken)
        np.testing.assert_allclose(partition.correct_weights + partition.mistaken_weights, 1.0)


@pytest.mark.parametrize("halves", ["hard", "soft"])
def test_the_halves_decide_what_is_fitted(monkeypatch, halves):
    """Judges that answer the other way around leave another classifier: stage 3 stands on stage 1."""
    X, y, environments = shifted(n_environments=2)
    plain = paper(halves=halves).fit(X, y, environments=environments)
    real = judgements.ask_for_predictions, judgements.ask_for_scores

    def turned_predictions(judges, training):
        asked = real[0](judges, training)
        return np.where(asked >= 0, 1 - asked, asked)

    def turned_scores(judges, training, n_classes):
        return real[1](judges, training, n_classes)[:, :, ::-1]

    monkeypatch.setattr(judgements, "ask_for_predictions", turned_predictions)
    monkeypatch.setattr(judgements, "ask_for_scores", turned_scores)
    turned = paper(halves=halves).fit(X, y, environments=environments)
    for before, after in zip(plain.partitions_, turned.partitions_, strict=True):
        if halves == "hard":
            np.testing.assert_array_equal(before.correct, after.mistaken)
        else:
            np.testing.assert_allclose(before.correct_weights, after.mistaken_weights, atol=1e-6)

    def one_answer(judges, training):
        return np.zeros_like(real[0](judges, training))

    def one_score(judges, training, n_classes):
        return np.log(np.full((len(judges), training.n_rows, n_classes), [0.9, 0.1]))

    monkeypatch.setattr(judgements, "ask_for_predictions", one_answer)
    monkeypatch.setattr(judgements, "ask_for_scores", one_score)
    with pytest.warns(ConstantJudgeWarning, match="always 0"):
        blind = paper(halves=halves).fit(X, y, environments=environments)
    assert np.abs(plain.predict_proba(X) - blind.predict_proba(X)).max() > 0.05


@pytest.mark.parametrize(
    ("settings", "hard"),
    [({}, True), ({"halves": "soft"}, False), ({"n_folds": 0}, True), ({"rounds": 2}, True)],
    ids=str,
)
def test_what_is_asked_is_what_is_done(settings, hard):
    """The defaults are the paper's, nothing turns them into something else, and the parameters stay as they are."""
    rows = toy(exact=True)
    model = PIClassifier(**settings)
    before = model.get_params()
    model.fit(rows.X, rows.y, environments=rows.environments)
    assert all((partition.correct_weights is None) == hard for partition in model.partitions_)
    assert model.get_params() == before
    assert model.solver_ == "convex"
    assert not hasattr(model, "interpolation")


def test_networks_and_known_biases_have_hard_halves_too():
    """A network, and group labels to cross the halves with, change no setting."""
    rows = toy(exact=True)
    network = NeuralClassifier("linear", max_epochs=1, steps_per_epoch=50, learning_rate=0.1, random_state=0)
    model = PIClassifier(network, n_folds=0).fit(rows.X, rows.y, environments=rows.environments)
    assert model.solver_ == "gradient"
    assert all(partition.correct_weights is None for partition in model.partitions_)
    known = rows.X[:, 0].astype(int)
    model = PIClassifier().fit(rows.X, rows.y, environments=rows.environments, group_labels=known)
    assert all(partition.correct_weights is None for partition in model.partitions_)
    assert all(", group " in group.name for group in model.groups_)


def test_a_classifier_that_learned_nothing_says_so():
    """Where the worst half contradicts the rest, a constant is the least worst case: warned, with what to do."""
    generator = np.random.default_rng(0)
    environments = np.repeat(["a", "b"], 500)
    y = generator.integers(2, size=1000)
    X = 0.3 * y[:, None] + generator.normal(size=(1000, 3))  # weak and stable: mistakes are turned around
    with pytest.warns(CollapseWarning, match=r"learned almost nothing: .* Use StableClassifier"):
        paper().fit(X, y, environments=environments)


def two_unstable(n_rows=4000, agreements=((0.95, 0.9), (0.8, 0.7)), stable=0.65, seed=0):
    """Return one stable and two unstable columns in -1/+1, the first unstable one stronger."""
    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=2 * n_rows)
    environments = np.repeat([0, 1], n_rows)

    def column(agreement):
        return np.where(generator.random(2 * n_rows) < agreement, y, 1 - y) * 2.0 - 1.0

    X = np.stack([column(stable), *(column(np.repeat(pair, n_rows)) for pair in agreements)], axis=1)
    return X, y, environments


def test_second_round_removes_what_the_first_leaves():
    """The first round's halves flip the stronger unstable column only; the second round's flip the weaker one too."""
    X, y, environments = two_unstable()
    turned, labels, _ = two_unstable(n_rows=10_000, agreements=((0.5, 0.5), (0.2, 0.2)), seed=1)
    once = paper(LogisticRegression(C=1e3)).fit(X, y, environments=environments)
    twice = paper(LogisticRegression(C=1e3), rounds=2).fit(X, y, environments=environments)
    assert (once.rounds_, twice.rounds_) == (1, 2)
    assert len(twice.groups_) > len(once.groups_)
    weight = np.abs(once.estimator_.coef_[0])
    assert weight[1] < 0.1 < 0.5 < weight[2]  # the weaker one is left
    assert np.abs(twice.estimator_.coef_[0])[1:].max() < 0.1
    assert once.score(turned, labels) < 0.3
    assert twice.score(turned, labels) > 0.62


def test_a_round_that_leaves_nothing_to_learn_does_not_count():
    """The third round takes the stable column away as well: the classifier is that of the second."""
    X, y, environments = two_unstable()
    twice, thrice = (
        paper(LogisticRegression(C=1e3), rounds=rounds).fit(X, y, environments=environments) for rounds in (2, 3)
    )
    assert thrice.rounds_ == 2
    np.testing.assert_array_equal(thrice.estimator_.coef_, twice.estimator_.coef_)


def test_halves_as_environments_are_cut_by_each_others_classifiers():
    """Four halves, by hand: x2 is the label in one, its opposite in the next; a third feature cuts two of them."""
    y = np.tile([0, 1], 20)
    rows = np.arange(40).reshape(4, 10)
    X = np.zeros((40, 2))
    X[rows[0], 0], X[rows[1], 0] = y[rows[0]], 1 - y[rows[1]]  # decided by the first column, in both directions
    X[rows[2], 0], X[rows[3], 0] = [0, 1, 0, 1, 0, 1, 0, 1, 1, 0], y[rows[3]]  # two of ten against it
    partitions = (Partition("b", "a", rows[0], rows[1]), Partition("a", "b", rows[3], rows[2]))
    training = TrainingRows(X, y, split_environments(np.repeat(["a", "b"], 20), 40))
    names = []

    def fit_judge(groups, name, number):
        names.append((name, number, len(groups)))
        return SimpleNamespace(estimator=LogisticRegression(C=100).fit(X[groups[0].rows], y[groups[0].rows]))

    first, second = refine_halves(
        partitions, training, fit_judge, rounds=2, min_group_size=2, refinement="environments"
    )
    assert [name for name, *_ in names] == [half.name for half in first]
    assert {(number, n_groups) for _, number, n_groups in names} == {(2, 1)}
    # Whole halves stay; only the mixed one is cut, always in the same way: 8 rows and 2 rows.
    assert sorted(len(half) for half in second) == [2, 8, 10, 10, 10]


def test_the_papers_refinement_is_an_option():
    """On two unstable columns the plain classifiers of the halves cut nothing: one round counts."""
    X, y, environments = two_unstable()
    model = paper(LogisticRegression(C=1e3), rounds=2, refinement="environments").fit(X, y, environments=environments)
    assert model.rounds_ == 1
    with pytest.raises(ParameterError, match="'refinement' parameter of PIClassifier must be one of 'worst_case'"):
        paper(rounds=2, refinement="halves").fit(X, y, environments=environments)


def test_refinement_stops_when_nothing_changes():
    """On the toy example the refined judges find no second cut, and rounds_ says so."""
    rows = toy(exact=True)
    model = paper(rounds=5, min_group_size=50).fit(rows.X, rows.y, environments=rows.environments)
    assert model.rounds_ < 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rounds": 0}, "The 'rounds' parameter of PIClassifier must be an integer >= 1. Got 0 instead"),
        ({"halves": "soft", "n_folds": 0}, "halves='soft' needs out-of-fold predictions"),
        ({"halves": "auto"}, "The 'halves' parameter of PIClassifier must be one of 'hard', 'soft'. Got 'auto'"),
        ({"rounds": 2, "halves": "soft"}, "The 'rounds' parameter of PIClassifier above 1 needs halves='hard'"),
    ],
)
def test_rounds_are_checked(parameters, message):
    """Rounds are counted from one, and soft halves are not cut again."""
    X, y, environments = shifted()
    with pytest.raises(ParameterError, match=message):
        paper(**parameters).fit(X, y, environments=environments)


# -- degenerate cases are results ------------------------------------------------------------------------------------


@pytest.mark.parametrize("environments", [None, ["only"] * 600])
def test_one_environment_is_plain_erm(environments):
    """Nothing to compare: ERM, warned."""
    X, y, _ = shifted()
    with pytest.warns(SingleEnvironmentWarning, match="PIClassifier compares environments, but there is only one"):
        model = paper(random_state=0).fit(X, y, environments=environments)
    np.testing.assert_array_equal(model.predict_proba(X), ERMClassifier(random_state=0).fit(X, y).predict_proba(X))
    assert model.partitions_ == ()
    assert model.solver_ == "erm"


def test_reversed_environments_interpolate_themselves():
    """Alpha = 0: the environments are the groups, and the reversed feature is not used."""
    X = np.tile(CELLS, (40, 1))
    environments = np.repeat([0, 1], 80)
    y = np.where(environments == 0, X[:, 1], 1 - X[:, 1]).astype(int)
    with pytest.warns(AllMistakenWarning, match="Every row is mistaken"):
        model = paper().fit(X, y, environments=environments)
    assert len(model.groups_) == 2
    np.testing.assert_allclose(model.predict_proba(CELLS), 0.5, atol=1e-3)


def test_identical_rules_leave_no_mistakes():
    """Alpha = 1 everywhere: the empty halves are dropped and the model is as good as ERM."""
    X = np.tile(CELLS, (40, 1))
    y = X[:, 0].astype(int)
    with pytest.warns(EmptyPartitionWarning, match="No row is mistaken"):
        model = paper().fit(X, y, environments=np.repeat([0, 1], 80))
    assert model.score(X, y) == 1.0


def test_constant_judge_cuts_label_groups():
    """A judge that always says one class makes halves that are the labels."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 2))
    environments = np.repeat(["rare", "even"], 200)
    y = np.where(environments == "rare", (np.arange(400) % 50 == 0), generator.integers(2, size=400)).astype(int)
    with pytest.warns(ConstantJudgeWarning, match=r"rare \(always 0\)"):
        model = paper().fit(X, y, environments=environments)
    (cut,) = [p for p in model.partitions_ if p.judge == "rare"]
    assert (y[cut.correct] == 0).all()
    assert (y[cut.mistaken] == 1).all()


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.ConstantJudgeWarning")
def test_single_class_environment_is_warned_about():
    """An environment with one class has a constant judge."""
    X, y, environments = shifted()
    y[environments == 0] = 1
    with pytest.warns(SingleClassEnvironmentWarning, match=r"0 \(only 1\)"):
        paper().fit(X, y, environments=environments)


def test_label_unseen_in_one_environment_is_warned_about():
    """The judge that never saw a label is always mistaken about it."""
    X, y, environments = shifted(n_rows=900, n_classes=3)
    kept = (environments != 0) | (y != 2)
    with pytest.warns(UnseenLabelWarning, match=r"0 \(never 2\)"):
        model = paper().fit(X[kept], y[kept], environments=environments[kept])
    cut = next(p for p in model.partitions_ if p.judge == "0")
    assert not np.isin(2, y[kept][cut.correct])


def test_halves_below_the_minimum_are_dropped():
    """min_group_size is a stated rule, never silent."""
    rows = toy(exact=True)
    with pytest.warns(SmallGroupWarning, match="below min_group_size=150"):
        model = paper(min_group_size=150).fit(rows.X, rows.y, environments=rows.environments)
    assert all(len(group) >= 150 for group in model.groups_)


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"environments": ["a"] * 5}, EnvironmentsError, "environments has 5 labels for 600 rows"),
        ({"y": np.zeros(600)}, LabelsError, "y has one class only"),
        ({"y": np.linspace(0, 1, 600)}, LabelsError, "Unknown label type: continuous"),
        ({"y": np.r_[np.nan, np.ones(599)]}, LabelsError, "y is missing in 1 of 600 rows"),
        ({"y": np.ones(3)}, LabelsError, "y has 3 labels for 600 rows"),
        ({"X": np.full((600, 2), np.inf)}, FeaturesError, "Input X contains infinity"),
        ({"X": np.full((600, 2), np.nan)}, FeaturesError, "Input X contains NaN"),
        ({"X": np.empty((600, 0))}, FeaturesError, r"0 feature\(s\)"),
        ({"sample_weight": np.full(600, -1.0)}, FeaturesError, "sample_weight holds negative, NaN or infinite values"),
        ({"sample_weight": np.zeros(600)}, FeaturesError, "sample_weight is zero in every row"),
        ({"sample_weight": np.ones(2)}, FeaturesError, r"sample_weight.shape == \(2,\), expected \(600,\)!"),
        (
            {"validation": 3},
            ParameterError,
            r"validation as a share of the rows must be between 0 and 1\. Got 3 instead",
        ),
        ({"validation": "x"}, InputTypeError, r"validation must be \(X, y\), .* 0\.2\. Got str instead"),
        ({"folds": np.zeros(600)}, EnvironmentsError, "folds puts every row into one fold"),
        ({"group_labels": [None] * 600}, EnvironmentsError, "group_labels is missing"),
    ],
)
def test_bad_input_is_named(change, error, message):
    """What was handed over is refused with a message that says what came and what to do."""
    X, y, environments = shifted()
    handed = {"X": X, "y": y, "environments": environments} | change
    with pytest.raises(error, match=message):
        paper().fit(handed.pop("X"), handed.pop("y"), **handed)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"halves": "quarter"},
            "The 'halves' parameter of PIClassifier must be one of 'hard', 'soft'. Got 'quarter'",
        ),
        ({"objective": "min"}, "The 'objective' parameter of PIClassifier must be one of 'max', 'online'"),
        (
            {"solver": "magic"},
            "The 'solver' parameter of PIClassifier must be one of 'auto', 'convex', 'gradient', 'reweight'",
        ),
        (
            {"solver": "gradient"},
            "solver='gradient' does not work for LogisticRegression. Use solver='auto'",
        ),
        ({"estimator": KNeighborsClassifier()}, "no solver fits KNeighborsClassifier"),
        ({"estimator": 3}, "The 'estimator' parameter of PIClassifier must be a scikit-learn estimator"),
        (
            {"estimator": make_pipeline(StandardScaler(), Ridge())},
            r"PIClassifier predicts classes, but its estimator is a regressor \(Ridge\). Pass a classifier",
        ),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    """Parameters outside their values are refused before any work."""
    X, y, environments = shifted()
    with pytest.raises(ParameterError, match=message):
        paper(**parameters).fit(X, y, environments=environments)


def test_columns_must_be_the_same_at_predict_time():
    """Another number of columns, or other names, are refused."""
    X, y, environments = shifted()
    model = paper().fit(X, y, environments=environments)
    with pytest.raises(FeaturesError, match="X has 2 features, but PIClassifier is expecting 4 features"):
        model.predict(X[:, :2])
    table = pd.DataFrame(X, columns=list("abcd"))
    model = paper().fit(table, y, environments=environments)
    with pytest.raises(FeaturesError, match="The feature names should match those that were passed during fit"):
        model.predict(table.rename(columns={"a": "z"}))
    with pytest.raises(FeaturesError, match="column 'a' of X contains infinity in 600 rows"):
        model.predict(table.assign(a=np.inf))


def test_group_dro_groups_are_environment_by_label():
    """Groups default to environment × label and may be given instead."""
    X, y, environments = shifted(n_environments=2)
    model = GroupDROClassifier().fit(X, y, environments=environments)
    assert [g.name for g in model.groups_] == [
        "environment=0, label=0",
        "environment=0, label=1",
        "environment=1, label=0",
        "environment=1, label=1",
    ]
    given = GroupDROClassifier().fit(X, y, group_labels=np.array(["p", "q"])[y])
    assert [g.name for g in given.groups_] == ["group=p", "group=q"]
    assert given.gap_ <= 1e-4


def test_oracle_groups_make_the_toy_exact():
    """Group DRO on whether x2 equals the label finds the stable classifier."""
    rows = toy(exact=True)
    model = GroupDROClassifier(LogisticRegression(C=1e4)).fit(rows.X, rows.y, group_labels=rows.X[:, 1] == rows.y)
    p = model.predict_proba(CELLS)[:, 1].reshape(2, 2)
    assert np.abs(p[:, 0] - p[:, 1]).max() < 1e-3
