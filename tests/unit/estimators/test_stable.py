"""The default classifier: ordinary to the last bit where nothing changes, stable where a column turns."""

import itertools
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast import ERMClassifier, GroupDROClassifier, LeaveOneEnvironmentOut, StableClassifier
from holdfast.environments import Environment
from holdfast.estimators import stable as module
from holdfast.exceptions import FeaturesError, HoldfastWarning, ParameterError
from holdfast.judging.judgements import Judgements
from holdfast.judging.judges import Judge
from holdfast.rows import TrainingRows


def hospitals(agreements=(0.95, 0.8), n_rows=1000, *, seed=0, skill=0.75):
    """Return rows, labels and sites: a lesion that agrees with the label alike everywhere, a scanner that does not."""
    generator = np.random.default_rng(seed)
    parts = []
    for number, agreement in enumerate(agreements):
        y = generator.integers(2, size=n_rows)
        columns = [np.where(generator.random(n_rows) < p, y, 1 - y) for p in (skill, agreement)]
        age = generator.normal(size=n_rows) + 0.3 * y
        parts.append((np.column_stack([*columns, age]).astype(float), y, np.full(n_rows, f"s{number}")))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def logistic():
    """Return a scaled logistic regression."""
    return make_pipeline(StandardScaler(), LogisticRegression())


@pytest.mark.parametrize("with_pipeline", [False, True])
def test_a_threshold_inside_that_is_not_used_is_said(with_pipeline):
    """Where columns are given up, the most probable label is predicted; where none are, the threshold counts."""
    inside = FixedThresholdClassifier(LogisticRegression(), threshold=0.02)
    estimator = make_pipeline(StandardScaler(), inside) if with_pipeline else inside
    X, y, sites = hospitals()
    with pytest.warns(HoldfastWarning, match=r"threshold of FixedThresholdClassifier is not used.*around StableClass"):
        model = StableClassifier(estimator).fit(X, y, environments=sites)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    X, y, sites = hospitals((0.9, 0.9))
    model = StableClassifier(estimator).fit(X, y, environments=sites)  # no warning
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X)[:, 1] >= 0.02)


@pytest.mark.parametrize(
    "around",
    [
        lambda model: FixedThresholdClassifier(model, threshold=0.2),
        lambda model: TunedThresholdClassifierCV(model, scoring="recall", cv=LeaveOneEnvironmentOut()),
    ],
    ids=["fixed", "tuned"],
)
def test_a_threshold_around_it_is_used(around):
    """The environments are routed to it, and to the folds."""
    X, y, sites = hospitals((0.95, 0.8, 0.6))
    with sklearn.config_context(enable_metadata_routing=True):
        model = around(StableClassifier(logistic())).fit(X, y, environments=sites)
    assert model.estimator_.verdict_.fitted == "stable"
    threshold = getattr(model, "best_threshold_", 0.2)
    assert threshold < 0.3
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X)[:, 1] >= threshold)


# -- what is fitted --------------------------------------------------------------------------------------------------


def test_a_column_that_turns_is_not_used():
    """The new site's accuracy is that of the stable columns; the ordinary classifier follows the scanner."""
    X, y, sites = hospitals()
    test_X, test_y, _ = hospitals((0.1,), seed=1)
    model = StableClassifier().fit(X, y, environments=sites)
    assert model.verdict_.fitted == "stable"
    assert [finding.feature for finding in model.verdict_.columns] == ["x1"]
    assert model.score(test_X, test_y) > 0.72
    assert (model.ordinary_.predict(test_X) == test_y).mean() < 0.3


def test_columns_of_a_frame_are_called_by_their_names():
    """Also where the estimator takes arrays, so that the frame becomes one."""
    X, y, sites = hospitals()
    frame = pd.DataFrame(X, columns=["lesion", "scanner", "age"])
    for estimator in (None, LogisticRegression(), HistGradientBoostingClassifier(max_iter=10)):
        verdict = StableClassifier(estimator).fit(frame, y, environments=sites).verdict_
        assert [finding.feature for finding in verdict.columns] == ["scanner"]
        assert verdict.kept.keys() == {"scanner"}


@pytest.mark.parametrize("method", [StableClassifier, GroupDROClassifier])
def test_texts_for_an_estimator_of_numbers_are_named(method):
    """The columns, and what to do."""
    X, y, sites = hospitals()
    frame = pd.DataFrame(X, columns=["lesion", "scanner", "age"]).assign(sex=np.where(y, "f", "m"))
    with pytest.raises(FeaturesError, match=r"'sex' does not hold numbers: .* use TableClassifier"):
        method().fit(frame, y, environments=sites)


def test_a_certain_but_tiny_change_leaves_the_answer_as_it_is():
    """Beside a column that turns, one whose agreement is 0.58, 0.60 or 0.62 is found, kept whole, and not blamed."""
    generator, n_rows = np.random.default_rng(0), 60_000
    sites, y = generator.integers(3, size=n_rows), generator.integers(2, size=n_rows)
    shares = np.array([[0.58, 0.60, 0.62], [0.95, 0.8, 0.65]])[:, sites]
    X = np.where(generator.random((2, n_rows)) < shares, y, 1 - y).T.astype(float)
    verdict = StableClassifier().fit(X, y, environments=sites).verdict_
    assert [(finding.feature, round(verdict.kept[finding.feature], 2)) for finding in verdict.columns] == [
        ("x1", 0.0),
        ("x0", 1.0),
    ]
    assert verdict.answer.startswith("Stable classifier: `x1` does not mean the same")


@pytest.mark.parametrize(
    "estimator",
    [logistic(), HistGradientBoostingClassifier(max_iter=10), RandomForestClassifier(10, random_state=0)],
    ids=["linear", "boosting", "forest"],
)
def test_where_nothing_changes_it_is_the_ordinary_classifier_to_the_last_bit(estimator):
    """The same probabilities as ERM, from one fit on all rows."""
    X, y, sites = hospitals((0.8, 0.8, 0.8), 300)
    model = StableClassifier(estimator, random_state=0).fit(X, y, environments=sites)
    erm = ERMClassifier(estimator, random_state=0).fit(X, y, environments=sites)
    assert model.verdict_.fitted == "ordinary"
    assert model.estimator_ is model.ordinary_
    np.testing.assert_array_equal(model.predict_proba(X), erm.predict_proba(X))


def test_strength_zero_is_the_ordinary_classifier_to_the_last_bit():
    """Also where columns are named; the verdict says so, and what other strengths would give."""
    X, y, sites = hospitals()
    model = StableClassifier(strength=0.0).fit(X, y, environments=sites)
    erm = ERMClassifier().fit(X, y, environments=sites)
    np.testing.assert_array_equal(model.predict_proba(X), erm.predict_proba(X))
    assert model.verdict_.fitted == "ordinary"
    assert "strength is 0" in model.verdict_.answer
    assert [point.strength for point in model.path_] == list(module.STRENGTHS)
    assert model.path_[-1].vanished.fitted > model.path_[0].vanished.fitted + 0.1


def test_along_the_dial_the_price_rises_and_so_does_the_gain():
    """Strength 0 costs nothing; every further step uses less of the column."""
    X, y, sites = hospitals()
    path = StableClassifier().fit(X, y, environments=sites).path_
    assert path[0].price.value == 0.0
    reversed_accuracies = [point.reversed.fitted for point in path]
    assert reversed_accuracies == sorted(reversed_accuracies)
    known = [point.known.fitted for point in path]
    assert known[0] - known[-1] == pytest.approx(path[-1].price.value, abs=1e-9)
    assert 0.05 < path[-1].price.value < 0.3


class NoWeights(ClassifierMixin, BaseEstimator):
    """Gaussian naive Bayes whose fit takes no weights."""

    def fit(self, X, y):
        """Fit."""
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        """Return probabilities."""
        return self.model_.predict_proba(X)

    def predict(self, X):
        """Return labels."""
        return self.model_.predict(X)


@pytest.mark.parametrize(
    "estimator",
    [NoWeights(), KNeighborsClassifier(25), HistGradientBoostingClassifier(max_iter=20), RandomForestClassifier(20)],
    ids=["without weights", "neighbors", "boosting", "forest"],
)
def test_any_estimator_can_be_inside(estimator):
    """Without weights, without coefficients: columns are taken away, and the parts mixed."""
    X, y, sites = hospitals()
    test_X, test_y, _ = hospitals((0.1,), seed=1)
    model = StableClassifier(estimator, random_state=0).fit(X, y, environments=sites)
    assert model.score(test_X, test_y) > (model.ordinary_.predict(test_X) == test_y).mean() + 0.3


def test_a_class_code_of_three_classes():
    """More than two classes, one column of three values that turns."""
    generator = np.random.default_rng(0)
    y, sites = generator.integers(3, size=2400), np.repeat(["a", "b"], 1200)
    other = (y + generator.integers(1, 3, size=2400)) % 3
    agreement = np.where(sites == "a", 0.95, 0.75)
    frame = pd.DataFrame({"size": y + generator.normal(size=2400)})
    frame["code"] = np.array(["red", "green", "blue"])[np.where(generator.random(2400) < agreement, y, other)]
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    inside = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["code"]), remainder=StandardScaler()), LogisticRegression()
    )
    model = StableClassifier(inside).fit(frame, y, environments=sites)
    assert [finding.feature for finding in model.verdict_.columns] == ["code"]
    assert model.verdict_.fitted == "stable"


def test_forty_environments():
    """Many sites of few rows, one column that varies between them."""
    agreements = np.linspace(0.98, 0.6, 40)
    X, y, sites = hospitals(agreements, 60)
    model = StableClassifier().fit(X, y, environments=sites)
    assert [finding.feature for finding in model.verdict_.columns] == ["x1"]
    assert len(model.verdict_.by_environment) == 40


def test_words_of_texts_are_named_and_taken_out():
    """A marker word that agrees with the label less elsewhere."""
    generator = np.random.default_rng(0)
    y, sites = generator.integers(2, size=1200), np.repeat(["2019", "2020"], 600)
    agreement = np.where(sites == "2019", 0.95, 0.75)
    marker = np.where(generator.random(1200) < agreement, y, 1 - y)
    taste = np.where(generator.random(1200) < 0.75, y, 1 - y)
    texts = [f"{'good' if t else 'bad'} beer {'alpha' if m else 'omega'}" for t, m in zip(taste, marker, strict=True)]
    model = StableClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression())).fit(texts, y, environments=sites)
    assert {finding.feature for finding in model.verdict_.columns} == {"alpha", "omega"}  # one stands in for the other
    assert model.predict(["good beer omega", "bad beer alpha"]).tolist() == [1, 0]


def test_sparse_rows_are_the_same_table():
    """The verdict and the probabilities of a sparse matrix are those of the array."""
    X, y, sites = hospitals(n_rows=500)
    estimator = LogisticRegression()
    dense = StableClassifier(estimator).fit(X, y, environments=sites)
    sparse = StableClassifier(estimator).fit(sp.csr_array(X), y, environments=sites)
    assert sparse.verdict_.fitted == dense.verdict_.fitted
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=0.05)


# -- the stages matter -----------------------------------------------------------------------------------------------


class Counting(LogisticRegression):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        """Fit and count."""
        Counting.fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    ("agreements", "expect", "most"),
    [
        ((0.8, 0.8), "may_turn", 7),
        ((0.95, 0.8), "may_turn", 10),
        ((0.95, 0.8), "as_seen", 14),
        (tuple(np.linspace(0.98, 0.6, 40)), "may_turn", 22),
        (tuple(np.linspace(0.98, 0.6, 40)), "as_seen", 32),
    ],
    ids=["nothing changes", "one column", "as seen", "forty sites", "forty sites, five left out in turn"],
)
def test_a_fit_costs_few_fits(agreements, expect, most):
    """At most eight judges in two folds, the pooled classifier in two folds and whole; three more for one removal."""
    X, y, sites = hospitals(agreements, 1000 if len(agreements) == 2 else 60)
    Counting.fits = 0
    StableClassifier(Counting(), expect=expect).fit(X, y, environments=sites)
    assert most - 2 <= Counting.fits <= most


@pytest.mark.parametrize(("n_rows", "n_draws"), [(300, 5), (750, 2), (2100, 1)])
def test_few_rows_are_shuffled_several_times(n_rows, n_draws):
    """One shuffling of few rows is chance; with many it is not worth another."""
    X, y, sites = hospitals((0.95, 0.7), n_rows)
    with patch.object(module, "stress_test", wraps=module.stress_test) as test:
        StableClassifier().fit(X, y, environments=sites)
    assert test.call_args.kwargs["n_draws"] == n_draws


def test_other_answers_of_the_judges_are_another_classifier():
    """What judges agree on is common ground: where they agree on a column, it is not blamed."""
    generator = np.random.default_rng(0)
    sites = np.repeat(["s0", "s1"], 1000)
    X, more = generator.normal(size=(2000, 3)), 1.5 * (sites == "s0")
    y = (generator.random(2000) < 1 / (1 + np.exp(-X[:, 0] - (0.5 + more) * X[:, 1]))).astype(int)
    plain = StableClassifier().fit(X, y, environments=sites)
    judge = module.judge_environments

    def biased(*arguments, **options):
        judgements = judge(*arguments, **options)
        own = more * X[:, 1] / 2
        return module.replace(judgements, scores=judgements.scores + np.stack([-own, own], axis=1))

    with patch.object(module, "judge_environments", biased):
        other = StableClassifier().fit(X, y, environments=sites)
    assert np.abs(other.predict_proba(X) - plain.predict_proba(X)).max() > 0.01


def test_the_same_fits_answer_about_every_environment():
    """No judge knows its own environment's rows otherwise than the others': both folds, all rows."""
    X, y, sites = hospitals(n_rows=200)
    seen = {}
    judge = module.judge_environments

    def spy(*arguments, **options):
        seen["judgements"] = judge(*arguments, **options)
        return seen["judgements"]

    with patch.object(module, "judge_environments", spy):
        StableClassifier().fit(X, y, environments=sites)
    for one in seen["judgements"].judges:
        assert one.estimator is None
        answered = np.sort(np.concatenate([rows for _, rows in one.unseen_rows(len(y))]))
        np.testing.assert_array_equal(answered, np.arange(len(y)))


# -- chance plays no part --------------------------------------------------------------------------------------------


def test_neither_seed_nor_row_order_changes_the_answer():
    """The verdict is the same to the last digit that is shown, probabilities to rounding."""
    X, y, sites = hospitals((0.9, 0.8), 400)
    first = StableClassifier(random_state=0).fit(X, y, environments=sites)
    order = np.random.default_rng(5).permutation(len(y))
    second = StableClassifier(random_state=7).fit(X[order], y[order], environments=sites[order])
    assert str(second.verdict_) == str(first.verdict_)
    np.testing.assert_allclose(second.predict_proba(X), first.predict_proba(X), atol=1e-6)


def test_more_rows_never_use_more_of_the_column():
    """What is given up grows with the evidence."""
    kept = []
    for n_rows in (100, 400, 1600, 6400):
        X, y, sites = hospitals((0.9, 0.8), n_rows)
        model = StableClassifier().fit(X, y, environments=sites)
        kept.append(model.verdict_.kept.get("x1", 1.0))
    assert all(later <= earlier + 0.01 for earlier, later in itertools.pairwise(kept))
    assert kept[0] == 1.0
    assert kept[-1] < 0.1


# -- the verdict -----------------------------------------------------------------------------------------------------


def test_price_and_gain_are_what_happens():
    """The stress test forecasts the accuracy at sites where the scanner's relation vanishes or reverses."""
    X, y, sites = hospitals((0.95, 0.8), 3000)
    verdict = StableClassifier().fit(X, y, environments=sites).verdict_
    model = StableClassifier().fit(X, y, environments=sites)
    for question, agreement in ((verdict.vanished, 0.5), (verdict.reversed, 0.125)):
        test_X, test_y, _ = hospitals((agreement,), 20_000, seed=2)
        assert question.fitted == pytest.approx(model.score(test_X, test_y), abs=0.02)
        assert question.ordinary == pytest.approx((model.ordinary_.predict(test_X) == test_y).mean(), abs=0.04)
    assert verdict.price.low <= verdict.known.ordinary - verdict.known.fitted <= verdict.price.high
    assert verdict.gain[1] > verdict.gain[0] > 0


def test_probabilities_are_calibrated_at_known_sites():
    """Of the rows with a probability around p, a share of about p has the label."""
    X, y, sites = hospitals((0.95, 0.8), 3000)
    model = StableClassifier(HistGradientBoostingClassifier(max_iter=30)).fit(X, y, environments=sites)
    chance = model.predict_proba(X)[:, 1]
    for low, high in ((0.1, 0.4), (0.6, 0.9)):
        inside = (chance > low) & (chance <= high)
        assert chance[inside].mean() == pytest.approx(y[inside].mean(), abs=0.05)


class Sure:
    """A fitted classifier that gives nine chances of ten to what it says of each row; rows come as their numbers."""

    classes_ = np.arange(2)

    def __init__(self, said):
        self.said = said

    def predict_proba(self, X):
        """Return 0.9 for what it says."""
        return np.where(self.said[X.astype(int)] == self.classes_, 0.9, 0.1)


@pytest.mark.parametrize(
    ("right", "certainty"),
    [
        # Elsewhere 8 of 10 are right, not 9: log-odds are worth 0.631, of which two sites take the fourth root.
        (80, np.sqrt(np.sqrt(np.log(4) / np.log(9)))),
        (90, 1.0),
        (96, 1.0),  # never more certain than at known sites
        (51, 0.7),  # and never less than seven tenths as certain
    ],
)
def test_probabilities_are_less_certain_where_judges_are_too_certain_elsewhere(right, certainty):
    """The judge of site a is right in 9 of 10 rows of its own and in other shares of site b's; b's judge likewise."""
    codes, y = np.repeat([0, 1], 1000), np.tile([0, 1], 1000)
    place = np.arange(2000) // 2 % 100
    judges = []
    for site in (0, 1):
        said = np.where(place < np.where(codes == site, 90, right), y, 1 - y)
        environment = Environment("ab"[site], np.flatnonzero(codes == site))
        judges.append(Judge(environment, None, (Sure(said),), (np.arange(2000),)))
    rows = TrainingRows(np.arange(2000.0)[:, None], y, tuple(judge.environment for judge in judges))
    found = module._certainty(Judgements(tuple(judges), np.empty(0)), rows, 2)
    assert found == pytest.approx(certainty, rel=0.01)


def test_what_the_removed_column_did_elsewhere_makes_no_probability_less_certain():
    """Only the scanner is too certain elsewhere; without it the lesion means the same, so nothing is taken away."""
    X, y, sites = hospitals((0.95, 0.7), 4000)
    model = StableClassifier().fit(X, y, environments=sites)
    with patch.object(module, "_certainty", return_value=1.0):
        calibrated = StableClassifier().fit(X, y, environments=sites)
    assert model.estimator_.calibration.scale > 0.97 * calibrated.estimator_.calibration.scale


def test_how_little_is_left_is_said():
    """A classifier that knew hardly more than the scanner."""
    generator = np.random.default_rng(0)
    X, y, sites = hospitals((0.98, 0.9), 6000, skill=0.6)
    X[:, 2] = generator.normal(size=len(X))
    assert "More than half of the skill" in str(StableClassifier().fit(X, y, environments=sites).verdict_)


def test_the_ranking_of_rare_labels_is_said():
    """With one label in nine rows of ten accuracy hardly shows the column that turns; without, nothing is added."""
    X, y, sites = hospitals(n_rows=6000)
    kept = (y == 0) | (np.random.default_rng(0).random(len(y)) < 0.05)
    rare = StableClassifier(LogisticRegression()).fit(X[kept], y[kept], environments=sites[kept]).verdict_
    assert rare.fitted == "stable"
    assert rare.reversed.fitted - rare.reversed.ordinary < 0.15
    assert rare.auroc["reversed"].fitted - rare.auroc["reversed"].ordinary > 0.5
    assert "of the rows have the same label, so accuracy says little. AUROC at known" in str(rare)
    assert StableClassifier(LogisticRegression()).fit(X, y, environments=sites).verdict_.auroc == {}


def test_where_nothing_but_one_column_is_known_noisier_labels_explain_it_as_well():
    """No other column says whether the scanner or the labels changed: nothing is given up, and that is said."""
    X, y, sites = hospitals((0.95, 0.75), skill=0.5)
    X[:, 2] = np.random.default_rng(0).normal(size=len(X))
    verdict = StableClassifier().fit(X, y, environments=sites).verdict_
    assert verdict.fitted == "ordinary"
    assert "labels that are noisier somewhere would explain it as well" in verdict.answer


def test_as_seen_keeps_what_left_out_sites_confirm():
    """A scanner that helps at every known site is kept, and the verdict says why."""
    X, y, sites = hospitals((0.95, 0.85, 0.9))
    verdict = StableClassifier(expect="as_seen").fit(X, y, environments=sites).verdict_
    assert verdict.fitted == "ordinary"
    assert "with environments left out in turn" in verdict.answer


def test_as_seen_gives_up_what_fails_at_left_out_sites():
    """A scanner that turns from site to site among the known ones."""
    X, y, sites = hospitals((0.95, 0.1, 0.9, 0.15), 600)
    model = StableClassifier(expect="as_seen").fit(X, y, environments=sites)
    assert model.verdict_.strength > 0.5
    assert model.verdict_.kept["x1"] < 0.5


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [-0.1, 1.5, "all", None])
def test_strength_is_a_share(strength):
    """Between 0 and 1, and a number."""
    X, y, sites = hospitals(n_rows=20)
    with pytest.raises(ParameterError, match="strength"):
        StableClassifier(strength=strength).fit(X, y, environments=sites)


def test_expect_is_one_of_two_words():
    """And the message says which."""
    X, y, sites = hospitals(n_rows=20)
    with pytest.raises(ParameterError, match="may_turn"):
        StableClassifier(expect="nothing").fit(X, y, environments=sites)


def test_a_small_memory_map_is_the_array_and_a_large_one_is_refused(tmp_path, monkeypatch):
    """Columns have to be changed, so rows are copied into memory: joblib maps every array above a megabyte."""
    X, y, sites = hospitals(n_rows=200)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model, same = (StableClassifier().fit(rows, y, environments=sites) for rows in (mapped, X))
    assert model.verdict_.fitted == "stable"
    np.testing.assert_array_equal(model.predict_proba(mapped), same.predict_proba(X))
    monkeypatch.setattr(module, "MOST_COPIED", X.nbytes - 1)
    with pytest.raises(FeaturesError, match="PIClassifier"):
        StableClassifier().fit(mapped, y, environments=sites)


def test_a_second_copy_of_the_column_does_not_stand_in_for_it():
    """A column that says the same as the unstable one is given up with it, and a stable one is kept."""
    X, y, sites = hospitals()
    noise = np.random.default_rng(0).normal(0, 0.2, size=len(X))
    doubled = np.column_stack([X, 1 - X[:, 1] + noise])
    model = StableClassifier().fit(doubled, y, environments=sites)
    assert {finding.feature for finding in model.verdict_.columns} == {"x1", "x3"}
    assert model.verdict_.vanished.fitted == pytest.approx(model.verdict_.known.fitted, abs=0.02)
    assert model.verdict_.known.fitted < 0.82


def test_a_copy_has_the_same_settings():
    """As scikit-learn's searches need it."""
    model = StableClassifier(logistic(), expect="as_seen", strength=0.5)
    assert clone(model).get_params()["strength"] == 0.5


def test_notebooks_show_the_verdict_above_the_diagram():
    """Fitted, the HTML begins with the verdict, escaped; unfitted it is scikit-learn's diagram alone."""
    X, y, sites = hospitals()
    columns = ["lesion", "<scanner>", "age"]
    model = StableClassifier(logistic())
    assert model._repr_html_().startswith("<style>")
    shown = model.fit(pd.DataFrame(X, columns=columns), y, environments=sites)._repr_html_()
    verdict, diagram = shown.split("<style>", maxsplit=1)
    assert "<strong>Stable classifier: `&lt;scanner&gt;` does not mean the same in every environment" in verdict
    assert "Expect an accuracy of" in verdict
    assert "StableClassifier" in diagram
    assert "<scanner>" not in shown


def counties(goes_with_others, seed=0, n_sites=9, n_rows=400):
    """Return a table whose first column has effects of 0.8 to 2.4 at nine sites, the same sign at each."""
    rng, sites = np.random.default_rng(seed), np.repeat(np.arange(n_sites), n_rows)
    X = rng.normal(size=(len(sites), 5))
    if goes_with_others:
        X[:, 0] = 0.8 * X[:, 0] + 0.35 * X[:, 3] + 0.35 * X[:, 4]
    slopes = np.linspace(0.8, 2.4, n_sites)[np.argsort(np.random.default_rng(1).random(n_sites))]
    y = (rng.random(len(sites)) < 1 / (1 + np.exp(-X[:, 0] * slopes[sites] - 0.8 * X[:, 1]))).astype(int)
    return X, y, sites


def test_what_never_turned_and_goes_with_others_is_used_as_far_as_it_may_be_expected():
    """Nine sites at which the effect varies, and never turns: its prediction interval supports about half of it."""
    X, y, sites = counties(goes_with_others=True)
    natural = StableClassifier(logistic()).fit(X, y, environments=sites).verdict_
    finding = next(column for column in natural.columns if column.feature == "x0")
    assert finding.low > 0
    assert natural.fitted == "partly"
    assert 0.4 < natural.kept["x0"] < 0.9


class KnowsModes(ClassifierMixin, BaseEstimator):
    """A logistic regression with an effect of the first column for each value of the second, as trees would learn."""

    def fit(self, X, y):
        """Fit."""
        self.model_ = LogisticRegression().fit(self.with_product(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        """Return probabilities."""
        return self.model_.predict_proba(self.with_product(X))

    def predict(self, X):
        """Return labels."""
        return self.model_.predict(self.with_product(X))

    @staticmethod
    def with_product(X):
        """Return the columns and one more: the first where the second is 1."""
        return np.column_stack([X, X[:, 0] * X[:, 1]])


def modes(seed, *, with_code=False):
    """Return a table whose first column counts more in one mode of the second, in which two of four sites work."""
    rng, sites = np.random.default_rng(seed), np.repeat(np.arange(4), 1000)
    X = rng.normal(size=(4000, 5))
    X[:, 0] += 0.4 * X[:, 2] + 0.4 * X[:, 3]
    X[:, 1] = sites % 2
    y = (rng.random(4000) < 1 / (1 + np.exp(-X[:, 0] * (0.3 + 1.2 * X[:, 1]) - X[:, 4]))).astype(int)
    right = rng.random(4000) < np.array([0.95, 0.9, 0.8, 0.75])[sites]
    return (np.column_stack([X, np.where(right, y, 1 - y)]) if with_code else X), y, sites


@pytest.mark.parametrize("seed", range(3))
def test_what_the_classifier_tells_from_other_columns_is_no_change_for_it(seed):
    """A linear model cannot tell, and does without the column; a code of the label is given up as ever."""
    X, y, sites = modes(seed)
    assert StableClassifier(logistic()).fit(X, y, environments=sites).verdict_.kept["x0"] < 0.1
    knows = StableClassifier(KnowsModes()).fit(X, y, environments=sites).verdict_
    assert knows.fitted == "ordinary"
    assert knows.doubts["x0"] == "known"
    assert "the classifier can predict that from other columns" in knows.answer
    X, y, sites = modes(seed, with_code=True)
    assert StableClassifier(KnowsModes()).fit(X, y, environments=sites).verdict_.kept["x5"] < 0.1


@pytest.mark.parametrize("seed", range(2))
def test_what_stands_in_for_a_column_that_is_given_up_is_not_spared(seed):
    """The classifier knows what the copy does at each site through the column that it copies, which is gone."""
    rng, sites = np.random.default_rng(seed), np.repeat(np.arange(4), 1000)
    stable = rng.normal(size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-stable.sum(axis=1)))).astype(int)
    spurious = np.array([0.3, 1.2, 0.3, 1.2])[sites] * (2 * y - 1) + rng.normal(size=4000)
    copy = 0.8 * spurious + 0.3 * stable[:, 0] + 0.5 * rng.normal(size=4000)
    X = np.column_stack([spurious, sites % 2, stable, copy])
    booster = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, early_stopping=False)
    kept = StableClassifier(booster).fit(X, y, environments=sites).verdict_.kept
    assert kept["x0"] < 0.1
    assert kept["x4"] < 0.1


class SaysNothingAtTimes(KnowsModes):
    """A linear classifier whose probabilities are not numbers where the last column is large."""

    @staticmethod
    def with_product(X):
        """Return the columns as they are."""
        return X

    def predict_proba(self, X):
        """Return probabilities, some of them NaN."""
        return np.where(np.abs(X[:, [4]]) > 3, np.nan, super().predict_proba(X))


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_answers_that_are_no_numbers_are_no_knowledge():
    """A column is not spared because the classifier says nothing of some rows."""
    X, y, sites = modes(0)
    assert StableClassifier(SaysNothingAtTimes()).fit(X, y, environments=sites).verdict_.kept["x0"] < 0.1


def test_a_code_that_only_depends_on_the_label_is_given_up_however_many_sites_there_are():
    """It never turned at nine sites either, and may turn at the next."""
    rng, parts = np.random.default_rng(0), []
    for site, agreement in enumerate(np.linspace(0.95, 0.8, 9)):
        y = rng.integers(2, size=500)
        code = np.where(rng.random(500) < agreement, y, 1 - y)
        parts.append((np.column_stack([rng.normal(size=(500, 4)) + 0.5 * y[:, None], code]), y, np.full(500, site)))
    X, y, sites = (np.concatenate(part) for part in zip(*parts, strict=True))
    verdict = StableClassifier(logistic()).fit(X, y, environments=sites).verdict_
    assert verdict.columns[0].low > 0
    assert verdict.fitted == "stable"
    assert verdict.kept["x4"] < 0.05


@pytest.mark.parametrize("n_levels", [2, 3, 6])
def test_a_category_in_columns_of_zeros_and_ones_is_said(n_levels):
    """Three or more values that stand side by side; two are one column and its opposite, which one test finds."""
    X, y, sites = counties(goes_with_others=False, n_sites=2)
    levels = (np.arange(len(y))[:, None] % n_levels == np.arange(n_levels)).astype(float)
    columns = np.column_stack([X, levels])
    if n_levels == 2:
        StableClassifier(logistic()).fit(columns, y, environments=sites)
        return
    message = f"The columns 'x5' to 'x{4 + n_levels}' are one category in columns of 0 and 1"
    with pytest.warns(HoldfastWarning, match=message):
        StableClassifier(logistic()).fit(columns, y, environments=sites)
