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
from holdfast.estimators import stable as module
from holdfast.exceptions import EnvironmentsError, FeaturesError, HoldfastWarning, ParameterError, SmallGroupWarning


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


def test_a_certain_change_of_a_tiny_effect_leaves_the_answer_as_it_is():
    """Beside a column that turns, one that says next to nothing is kept whole, and not blamed."""
    generator, n_rows = np.random.default_rng(0), 60_000
    sites, y = generator.integers(3, size=n_rows), generator.integers(2, size=n_rows)
    shares = np.array([[0.50, 0.52, 0.54], [0.95, 0.8, 0.65]])[:, sites]
    X = np.where(generator.random((2, n_rows)) < shares, y, 1 - y).T.astype(float)
    verdict = StableClassifier().fit(X, y, environments=sites).verdict_
    assert verdict.kept == {"x1": 0.0, "x0": 1.0}
    assert verdict.answer.startswith("Stable classifier: the effect of `x1` differs between sites (probability")


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


def test_caution_zero_is_the_ordinary_classifier_to_the_last_bit():
    """Also where columns are named; the verdict says so, and what more caution would give."""
    X, y, sites = hospitals()
    model = StableClassifier(caution=0.0).fit(X, y, environments=sites)
    erm = ERMClassifier().fit(X, y, environments=sites)
    np.testing.assert_array_equal(model.predict_proba(X), erm.predict_proba(X))
    assert model.verdict_.fitted == "ordinary"
    assert "caution is 0, so nothing is given up" in model.verdict_.answer
    assert [point.caution for point in model.path_] == list(module.CAUTIONS)
    assert model.path_[-1].vanished.fitted > model.path_[0].vanished.fitted + 0.1


def test_along_the_dial_the_price_rises_and_so_does_the_gain():
    """Caution 0 costs nothing; every further step uses less of the column."""
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
    ("agreements", "most"),
    [((0.8, 0.8), 5), ((0.95, 0.8), 8), (tuple(np.linspace(0.98, 0.6, 40)), 11)],
    ids=["nothing changes", "one column", "forty sites"],
)
def test_a_fit_costs_few_fits(agreements, most):
    """All rows, two folds, and at most five rounds of left-out sites; three more for one removal."""
    X, y, sites = hospitals(agreements, 1000 if len(agreements) == 2 else 60)
    Counting.fits = 0
    StableClassifier(Counting()).fit(X, y, environments=sites)
    assert most - 1 <= Counting.fits <= most


@pytest.mark.parametrize(("n_rows", "n_draws"), [(300, 5), (750, 2), (2100, 1)])
def test_few_rows_are_shuffled_several_times(n_rows, n_draws):
    """One shuffling of few rows is chance; with many it is not worth another."""
    X, y, sites = hospitals((0.95, 0.7), n_rows)
    with patch.object(module, "try_scenarios", wraps=module.try_scenarios) as test:
        StableClassifier().fit(X, y, environments=sites)
    assert test.call_args.kwargs["n_draws"] == n_draws


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


def test_a_stable_column_that_other_sites_label_worse_is_kept():
    """Labels flipped at one site weaken every effect there; no column is given up for it."""
    X, y, sites = hospitals((0.9, 0.9), 2000)
    flipped = (sites == "s1") & (np.random.default_rng(0).random(len(y)) < 0.15)
    verdict = StableClassifier().fit(X, np.where(flipped, 1 - y, y), environments=sites).verdict_
    assert verdict.fitted == "ordinary"
    assert set(verdict.reasons.values()) <= {"label_noise", "weak_evidence"}


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caution", [-0.1, 1.5, np.nan, "all", None])
def test_caution_lies_between_0_and_1(caution):
    """Anything else is refused before any work."""
    X, y, sites = hospitals(n_rows=20)
    with pytest.raises(ParameterError, match="'caution' parameter of StableClassifier must lie between 0 and 1. Got"):
        StableClassifier(caution=caution).fit(X, y, environments=sites)


def test_a_small_memory_map_is_the_array_and_a_large_one_is_refused(tmp_path, monkeypatch):
    """Columns have to be changed, so rows are copied into memory: joblib maps every array above a megabyte."""
    X, y, sites = hospitals(n_rows=500)
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
    model = StableClassifier(logistic(), caution=0.5, n_jobs=2)
    assert clone(model).get_params(deep=False).keys() == {"estimator", "caution", "n_jobs", "random_state"}
    assert (clone(model).caution, clone(model).n_jobs) == (0.5, 2)


def test_notebooks_show_the_verdict_above_the_diagram():
    """Fitted, the HTML begins with the verdict, escaped; unfitted it is scikit-learn's diagram alone."""
    X, y, sites = hospitals()
    columns = ["lesion", "<scanner>", "age"]
    model = StableClassifier(logistic())
    assert model._repr_html_().startswith("<style>")
    shown = model.fit(pd.DataFrame(X, columns=columns), y, environments=sites)._repr_html_()
    verdict, diagram = shown.split("<style>", maxsplit=1)
    assert "<strong>Stable classifier: the effect of `&lt;scanner&gt;` differs between sites" in verdict
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


@pytest.mark.parametrize("goes_with_others", [True, False])
def test_one_of_several_causes_is_kept_though_its_effect_varies(goes_with_others):
    """Causes of one label go together within it, which a code of the label does not: the effect is expected to stay."""
    X, y, sites = counties(goes_with_others)
    verdict = StableClassifier(logistic()).fit(X, y, environments=sites).verdict_
    assert verdict.fitted == "ordinary"
    assert verdict.reasons["x0"] == "part_of_mechanism"
    assert verdict.answer.endswith("part of one mechanism.")


@pytest.mark.parametrize("seed", range(2))
def test_a_noisy_copy_of_a_column_that_is_given_up_is_given_up_too(seed):
    """Otherwise the classifier would rely on the copy instead."""
    rng, sites = np.random.default_rng(seed), np.repeat(np.arange(4), 1000)
    stable = rng.normal(size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-stable.sum(axis=1)))).astype(int)
    spurious = np.array([0.3, 1.2, 0.3, 1.2])[sites] * (2 * y - 1) + rng.normal(size=4000)
    copy = 0.8 * spurious + 0.5 * rng.normal(size=4000)
    verdict = (
        StableClassifier(logistic()).fit(np.column_stack([spurious, stable, copy]), y, environments=sites).verdict_
    )
    assert verdict.kept == {"x0": 0.0, "x3": 0.0}


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


# -- rows that belong together ---------------------------------------------------------------------------------------


def test_rows_of_one_subject_count_once():
    """Four visits of each patient with the same values are no more evidence than one, and share a fold."""
    X, y, sites = hospitals((0.9, 0.8), 150)
    X[:, 2] += 1e-9 * np.arange(len(X))
    once = StableClassifier().fit(X, y, environments=sites)
    patients = np.repeat(np.arange(len(y)), 4)
    visits = StableClassifier().fit(X[patients], y[patients], environments=sites[patients], subjects=patients)
    assert visits.verdict_.posterior == pytest.approx(once.verdict_.posterior, abs=0.02)
    assert visits.verdict_.known.ordinary == pytest.approx(once.verdict_.known.ordinary, abs=0.02)


def test_copies_of_rows_are_said_and_count_once():
    """Exact copies in number are one subject each, also where a site has a single row."""
    X, y, sites = hospitals((0.8, 0.8), 200)
    rows = np.concatenate([np.arange(400), np.arange(100), [0]])
    sites = np.where(np.arange(501) == 500, "few", sites[rows])
    with (
        pytest.warns(HoldfastWarning, match="100 of 501 rows are exact copies of others. Copies count as one row"),
        pytest.warns(SmallGroupWarning, match="few"),
    ):
        model = StableClassifier().fit(X[rows], y[rows], environments=sites)
    assert model.verdict_.fitted == "ordinary"


def test_one_subject_is_refused():
    """Its rows share a fold, so no other fold is left."""
    X, y, sites = hospitals(n_rows=50)
    with pytest.raises(EnvironmentsError, match="subjects has one label only"):
        StableClassifier().fit(X, y, environments=sites, subjects=np.zeros(len(y)))
    with pytest.raises(EnvironmentsError, match="subjects has 3 labels for 100 rows"):
        StableClassifier().fit(X, y, environments=sites, subjects=["a", "b", "c"])
