"""XGBoost, LightGBM and CatBoost inside every method, with gaps, categories and labels as people have them."""

import numpy as np
import pandas as pd
import pytest

from holdfast import ERMClassifier, GroupDROClassifier, PIClassifier, StableClassifier, TableClassifier, load, save
from holdfast.estimators.methods import METHODS
from holdfast.estimators.named import ESTIMATORS
from holdfast.exceptions import EmptyColumnWarning, FeaturesError, ParameterError
from holdfast.fitting.estimators import RecodedClassifier
from holdfast.tables.comparison import compare_methods, compare_rows
from holdfast.tables.diagnosis import diagnose
from holdfast.tables.roles import TableOptions, read_rows

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
SMALL = {"n_estimators": 8}
BOOSTERS = ["xgboost", "lightgbm", "catboost"]
SIMPLE = [name for name, method in METHODS.loadable().items() if not method.needs_network and name != "oracle"]


@pytest.fixture(params=BOOSTERS)
def booster(request):
    """A small booster of each library that is installed."""
    pytest.importorskip(request.param)
    return ESTIMATORS[request.param].make(**SMALL)


@pytest.fixture
def table():
    """Three sites; a marker with gaps, a scanner whose effect differs, a ward, and a column that Lyon lacks."""
    rng = np.random.default_rng(0)
    n = 360
    site = np.repeat(["Boston", "Lyon", "Oslo"], n // 3)
    ill = rng.integers(0, 2, n)
    follows = np.where(site == "Oslo", 0.1, 0.9)
    scanner = np.where(rng.random(n) < follows, ill, 1 - ill)
    frame = pd.DataFrame(
        {
            "site": site,
            "marker": ill + rng.normal(0, 0.8, n),
            "scanner": np.array(["old", "new"])[scanner],
            "ward": pd.Categorical(rng.choice(list("abcd"), n)),
            "lactate": np.where(site == "Lyon", np.nan, rng.normal(size=n)),
            "ill": np.array(["no", "yes"])[ill],
        }
    )
    frame.loc[rng.random(n) < 0.1, ["marker"]] = np.nan
    frame.loc[rng.random(n) < 0.1, ["scanner"]] = None
    return frame


def arrays(frame):
    """Return the numbers of a table, its labels and sites."""
    return frame[["marker", "lactate"]].to_numpy(), frame["ill"].to_numpy(), frame["site"].to_numpy()


@pytest.mark.parametrize("method", SIMPLE)
def test_every_method_takes_a_booster_with_gaps(method, booster, table, tmp_path):
    """Missing numbers go to the booster as they are; the fitted method is saved and answers the same."""
    X, y, sites = arrays(table)
    fitted = METHODS[method](booster, random_state=0).fit(X, y, environments=sites)
    chances = fitted.predict_proba(X)
    assert (fitted.predict(X) == y).mean() > 0.6
    save(fitted, tmp_path / "model")
    assert load(tmp_path / "model").predict_proba(X).tobytes() == chances.tobytes()


@pytest.mark.parametrize("method", ["stable", "pi", "erm"])
def test_a_tables_categories_reach_the_booster(method, booster, table, tmp_path):
    """Levels are categories of the booster, not columns of zeros and ones, and come back with the saved model."""
    model = TableClassifier(label="ill", environment="site", estimator=booster, method=method).fit(table)
    inside = model.method_.estimator.named_steps
    assert inside["features"].levels == (1, 2)
    model.save(tmp_path / "model")
    loaded = TableClassifier.load(tmp_path / "model")
    new = table.assign(ward="never seen", scanner=None)
    for rows in (table, new):
        assert loaded.predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
    if method == "stable":
        assert [finding.feature for finding in model.verdict_.columns] == ["scanner"]


def test_categories_of_a_frame_go_to_the_booster_as_they_are(table):
    """A frame with category columns reaches XGBoost and LightGBM through a method without preprocessing."""
    X = table[["marker", "scanner", "ward"]].astype({"scanner": "category"})
    for name, options in {"xgboost": {"enable_categorical": True}, "lightgbm": {}}.items():
        pytest.importorskip(name)
        model = StableClassifier(ESTIMATORS[name].make(**SMALL, **options), random_state=0)
        model.fit(X, table["ill"], environments=table["site"])
        assert [finding.feature for finding in model.verdict_.columns] == ["scanner"]
        assert (model.predict(X) == table["ill"]).mean() > 0.6


def test_catboost_chooses_its_categories_by_name(table):
    """Texts reach CatBoost, which has to be told of them with a tuple: it cannot be copied with a list."""
    pytest.importorskip("catboost")
    X = table[["marker", "scanner", "ward"]].fillna({"scanner": "missing"}).astype({"ward": str})
    model = ERMClassifier(ESTIMATORS["catboost"].make(**SMALL, cat_features=("scanner", "ward")))
    model.fit(X, table["ill"], environments=table["site"])
    assert (model.predict(X) == table["ill"]).mean() > 0.6
    with pytest.raises(
        ParameterError, match=r"Pass lists and dicts as tuples, for example CatBoostClassifier\(cat_features="
    ):
        ERMClassifier(ESTIMATORS["catboost"].make(cat_features=["scanner"])).fit(X, table["ill"])


def test_an_environment_may_lack_a_class(booster, table, tmp_path):
    """Three classes, one of them unseen at one site: its judge knows the other two."""
    X, _, sites = arrays(table)
    y = np.digitize(np.nan_to_num(X[:, 0]), [0.0, 1.0])
    y[(sites == "Oslo") & (y == 1)] = 2
    model = PIClassifier(booster, random_state=0).fit(X, y, environments=sites)
    judge = model.environment_classifiers_["Oslo"]
    assert list(judge.classes_) == [0, 2]
    assert isinstance(judge, RecodedClassifier) == (type(booster).__name__ == "XGBClassifier")
    assert set(np.unique(judge.predict(X))) == {0, 2}
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


def test_comparing_and_diagnosing_take_a_booster(booster, table):
    """Every method is ranked and every question answered with a booster inside."""
    X, y, sites = arrays(table)
    found = compare_methods(X, y, sites, estimator=booster, methods=["stable", "balanced"])
    assert {score.method: score.problem for score in found.scores} == {"erm": None, "stable": None, "balanced": None}
    default = compare_rows(read_rows(table, TableOptions(label="ill", environment="site")), metric="accuracy")
    names = [score.method for score in default.scores if score.problem is None]
    first = next(name for name in BOOSTERS if ESTIMATORS[name].is_installed())
    assert {f"erm with {first}", f"stable with {first}", "erm", "stable"} <= set(names)
    answer = diagnose(table.drop(columns=["ill", "site"]), table["ill"], table["site"], estimator=booster)
    assert "scanner" in {finding.feature for finding in answer.verdict.columns}


def test_a_column_without_values_at_a_site_is_named_and_left_unused():
    """Histogram boosting refuses such a column, where it is fitted on that site alone; no change is seen in it."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    rng = np.random.default_rng(0)
    X, sites = rng.normal(size=(200, 3)), np.repeat(["Boston", "Lyon"], 100)
    y = (X[:, 0] + rng.normal(0, 0.3, 200) > 0).astype(int)
    X[100:, 2] = np.nan
    with pytest.warns(EmptyColumnWarning, match="No value of column 2 in Lyon: its effect there is not known"):
        model = StableClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(X, y, environments=sites)
    assert (model.predict(X) == y).mean() > 0.8
    assert model.verdict_.kept == {}
    frame = pd.DataFrame(X, columns=["a", "b", "lactate"]).astype({"b": "category"})
    with pytest.warns(EmptyColumnWarning, match="No value of 'lactate' in Lyon"):
        PIClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(frame, y, environments=sites)
    boosting = HistGradientBoostingClassifier(max_iter=5)
    for inside in (boosting, make_pipeline(FunctionTransformer(), boosting), CalibratedClassifierCV(boosting, cv=2)):
        with pytest.warns(EmptyColumnWarning, match="No value of 'lactate' in Lyon"):
            model = StableClassifier(inside).fit(frame.astype(float), y, environments=sites)
        assert (model.predict(frame.astype(float)) == y).mean() > 0.8


def test_what_a_booster_refuses_is_our_error():
    """CatBoost cannot fit columns that do not vary; the error is ours, with its reason."""
    pytest.importorskip("catboost")
    X, y = np.zeros((40, 2)), np.arange(40) % 2
    with pytest.raises(FeaturesError, match="CatBoostClassifier could not be fitted on these rows: .*constant"):
        GroupDROClassifier(ESTIMATORS["catboost"].make(**SMALL)).fit(X, y, environments=np.repeat([0, 1], 20))


def test_a_tuned_threshold_takes_no_weights():
    """It routes them only, so a method that weights rows says what it needs instead of failing inside a fit."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import TunedThresholdClassifierCV

    rng = np.random.default_rng(0)
    X, sites = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    tuned = TunedThresholdClassifierCV(LogisticRegression(), cv=2, random_state=0)
    with pytest.raises(
        ParameterError, match="no solver fits TunedThresholdClassifierCV: .* its fit takes no sample_weight"
    ):
        GroupDROClassifier(tuned).fit(X, y, environments=sites)
    assert ERMClassifier(tuned).fit(X, y, environments=sites).score(X, y) > 0.6
