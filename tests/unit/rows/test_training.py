"""What `fit` was handed, where it is unusual: lists with gaps, rare environments, settings by column, refits."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from holdfast import ERMClassifier, GroupDROClassifier, PIClassifier, PIRegressor, StableClassifier
from holdfast.environments import split_environments
from holdfast.exceptions import EnvironmentsError, FeaturesError, LabelsError, ParameterError
from holdfast.neural import NeuralClassifier
from holdfast.rows.keys import row_keys
from holdfast.rows.kinds import is_sparse
from holdfast.rows.mapped import MappedRows
from holdfast.rows.reading import known_codes, read_labels
from holdfast.rows.training import TrainingRows

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def made(n_rows=400, seed=0):
    """Return two columns, of which the second follows the label less in the second site."""
    rng = np.random.default_rng(seed)
    y, site = rng.integers(2, size=n_rows), np.repeat(["a", "b"], n_rows // 2)
    stable = np.where(rng.random(n_rows) < 0.75, y, 1 - y)
    unstable = np.where(rng.random(n_rows) < np.where(site == "a", 0.95, 0.7), y, 1 - y)
    return np.column_stack([stable, unstable]).astype(float), y, site


@pytest.mark.parametrize("classifier", [ERMClassifier(), PIClassifier(), NeuralClassifier("linear", max_epochs=1)])
def test_a_gap_in_a_list_is_no_label(classifier):
    """Numpy would write NaN as the text 'nan' beside other texts."""
    X, y, _ = made(20)
    labels = [*np.where(y, "ill", "well").tolist()[:-1], float("nan")]
    with pytest.raises(LabelsError, match="contains NaN or None"):
        classifier.fit(X, labels)


def test_a_gap_in_a_list_is_no_environment():
    """Neither is a number beside texts the same as its text."""
    X, y, site = made(20)
    with pytest.raises(EnvironmentsError, match=r"environments is missing \(NaN or None\) in 1 of 20 rows"):
        PIClassifier().fit(X, y, environments=[*site.tolist()[:-1], float("nan")])
    with pytest.raises(EnvironmentsError, match="environments mixes labels of types int, str"):
        PIClassifier().fit(X, y, environments=[*site.tolist()[:-1], 1])


def test_only_judges_are_limited_in_number():
    """Methods without pairs of environments take any number of them."""
    X, y, _ = made(4000)
    many = np.arange(4000) % 400
    assert len(ERMClassifier().fit(X, y, environments=many).environments_) == 400
    assert len(GroupDROClassifier().fit(X, y, environments=many).environments_) == 400
    for classifier in (PIClassifier(), PIClassifier(min_group_size=1)):
        with pytest.raises(EnvironmentsError, match="environments has 400 different labels; every pair of them is"):
            classifier.fit(X, y, environments=many)


def test_settings_by_column_are_those_of_the_users_columns():
    """Judges with environment columns behind the rows would ask for four settings where the user has two."""
    X, y, site = made()
    for estimator in (
        DecisionTreeClassifier(monotonic_cst=[1, 0], max_depth=2),
        HistGradientBoostingClassifier(categorical_features=[False, True], max_iter=5),
    ):
        for method in (PIClassifier(estimator, random_state=0), StableClassifier(estimator, random_state=0)):
            method.fit(X, y, environments=site)
        assert method.score(X, y) > 0.6


def test_frames_reach_estimators_that_choose_columns_by_name_or_type():
    """By a name in a setting, a category's type, or a pipeline inside of a search."""
    X, y, site = made()
    frame = pd.DataFrame(X, columns=["stable", "unstable"])
    by_name = HistGradientBoostingClassifier(categorical_features=["unstable"], max_iter=5)
    model = StableClassifier(by_name, random_state=0).fit(frame, y, environments=site)
    assert model.ordinary_.is_categorical_.tolist() == [False, True]
    judges = PIClassifier(by_name, random_state=0).fit(frame, y, environments=site).environment_classifiers_
    assert judges["a"].is_categorical_.tolist() == [False, True]
    typed = frame.assign(unstable=frame["unstable"].astype("category"))
    model = ERMClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(typed, y, environments=site)
    assert model.estimator_.is_categorical_.tolist() == [False, True]
    search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 1.0]})
    model = ERMClassifier(search).fit(frame, y, environments=site)
    assert model.estimator_.best_estimator_.feature_names_in_.tolist() == ["stable", "unstable"]
    by_column = make_pipeline(make_column_transformer((StandardScaler(), ["stable"])), LogisticRegression())
    for ensemble in (VotingClassifier([("one", by_column)], voting="soft"), StackingClassifier([("one", by_column)])):
        alone = clone(ensemble).fit(frame, y).predict_proba(frame)
        model = ERMClassifier(ensemble).fit(frame, y, environments=site)
        np.testing.assert_array_equal(model.predict_proba(frame), alone)


@pytest.mark.parametrize("method", [ERMClassifier, PIClassifier, StableClassifier])
@pytest.mark.parametrize("estimator", [None, HistGradientBoostingClassifier(max_iter=5)], ids=["default", "boosting"])
def test_a_table_of_arrow_is_a_frame(method, estimator):
    """The columns have names, and the answers are those of the frame."""
    X, y, site = made()
    frame = pd.DataFrame(X, columns=["stable", "unstable"])
    table = pa.Table.from_pandas(frame)
    model = method(estimator, random_state=0).fit(table, pa.array(y), environments=pa.array(site.tolist()))
    assert model.feature_names_in_.tolist() == ["stable", "unstable"]
    same = method(estimator, random_state=0).fit(frame, y, environments=site)
    for rows in (table, table.to_batches()[0]):
        np.testing.assert_array_equal(model.predict_proba(rows), same.predict_proba(frame))


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["A", "B"])], ids=["categorical", "enum"])
def test_categories_of_polars_are_categories(kind):
    """They reach histogram boosting as what they are, and can be given up."""
    X, y, site = made()
    frame = pl.DataFrame({"stable": X[:, 0], "unstable": np.where(X[:, 1] > 0, "A", "B")})
    frame = frame.with_columns(pl.col("unstable").cast(kind))
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    model = ERMClassifier(boosting).fit(frame, y, environments=site)
    assert model.estimator_.is_categorical_.tolist() == [False, True]
    model = StableClassifier(boosting, random_state=0).fit(frame, y, environments=site)
    assert list(model.verdict_.kept) == ["unstable"]
    assert model.score(frame, y) > 0.6


@pytest.mark.parametrize(
    ("package", "name", "settings"),
    [
        ("xgboost", "XGBClassifier", {"monotone_constraints": {"unstable": -1}}),
        ("xgboost", "XGBClassifier", {"interaction_constraints": [["stable", "unstable"]]}),
        ("catboost", "CatBoostClassifier", {"monotone_constraints": "unstable:-1", "verbose": 0}),
        ("catboost", "CatBoostClassifier", {"ignored_features": ("unstable",), "verbose": 0}),
    ],
)
def test_settings_of_boosters_may_name_columns(tmp_path, monkeypatch, package, name, settings):
    """Constraints, and columns to ignore."""
    monkeypatch.chdir(tmp_path)  # CatBoost writes files
    booster = getattr(pytest.importorskip(package), name)(n_estimators=5, random_state=0, **settings)
    X, y, site = made()
    frame = pd.DataFrame(X, columns=["stable", "unstable"])
    model = ERMClassifier(booster).fit(frame, y, environments=site)
    np.testing.assert_array_equal(model.predict_proba(frame), clone(booster).fit(frame, y).predict_proba(frame))


def test_rows_without_weight_change_nothing():
    """Neither the scaler nor the penalty of the exact solver sees them."""
    X, y, site = made()
    far = np.vstack([X, np.full((50, 2), 1e3)])
    longer = {"environments": np.append(site, ["a"] * 50), "sample_weight": np.append(np.ones(400), np.zeros(50))}
    for method in (PIClassifier(random_state=0), GroupDROClassifier(random_state=0)):
        plain = method.fit(X, y, environments=site, sample_weight=np.ones(400)).predict_proba(X)
        weighted = method.fit(far, np.append(y, [0, 1] * 25), **longer).predict_proba(X)
        np.testing.assert_allclose(weighted, plain, atol=2e-3)


def test_folds_that_hold_a_whole_environment_are_refused():
    """Its classifier could not be calibrated out of fold."""
    X, y, site = made()
    with pytest.raises(EnvironmentsError, match="folds puts all rows of environment 'a' into one fold"):
        PIClassifier(halves="soft").fit(X, y, environments=site, folds=site)


def test_an_objective_that_does_not_exist_is_refused():
    """Before anything is fitted."""
    X, _, site = made()
    with pytest.raises(ParameterError, match="'objective' parameter of PIRegressor must be one of"):
        PIRegressor(objective="mean").fit(X, X[:, 0], environments=site)


def test_a_text_that_is_missing_is_named():
    """By its row, before anything is fitted."""
    texts = ["good beer", "bad beer", None, "beer"] * 5
    model = ERMClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    with pytest.raises(FeaturesError, match="5 of them are missing or not text, the first in row 2. Drop those rows"):
        model.fit(texts, [0, 1, 0, 1] * 5)


def test_validation_labels_are_counted_before_the_fit():
    """One label for each row."""
    X, y, site = made()
    with pytest.raises(LabelsError, match="validation has 40 labels for 50 rows"):
        ERMClassifier().fit(X, y, environments=site, validation=(X[:50], y[:40]))


def test_nothing_of_an_earlier_fit_stays():
    """A score of other rows, and weights of groups that are gone."""
    X, y, site = made()
    model = PIClassifier().fit(X, y, environments=site, validation=(X, y))
    assert model.validation_score_ > 0.5
    model.fit(X, y)
    assert not hasattr(model, "validation_score_")
    assert len(model.group_weights_) == len(model.groups_) == 0


@pytest.mark.parametrize("method", [ERMClassifier, PIClassifier, StableClassifier])
def test_tuples_in_a_column_are_labels_as_they_are(method):
    """Not rows of a table of labels."""
    X, y, site = made(40)
    pairs = pd.Series([(name, 1) for name in site])
    model = method(random_state=0).fit(X, y, environments=pairs)
    assert model.environments_.tolist() == [("a", 1), ("b", 1)]
    assert model.environments_.shape == (2,)


def test_merged_environments_keep_the_labels_of_the_others():
    """Numbers stay numbers beside the name of the merged ones, as in `environment_classifiers_`."""
    X, y, _ = made()
    sites = np.append(np.arange(397) % 2, [2, 3, 4])
    model = PIClassifier(random_state=0).fit(X, y, environments=sites)
    assert list(model.environments_) == [0, 1, "2, 3, 4 (3 small environments)"]
    assert set(model.environment_classifiers_) == set(model.environments_)


# -- keys: numbers that depend on what a row contains ----------------------------------------------------------------


def kinds_of(X):
    """Return the same numbers as arrays of several types, frames and sparse matrices."""
    names = [f"column {number}" for number in range(X.shape[1])]
    return {
        "array": X,
        "fortran": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "whole numbers": X.astype(np.int64),
        "pandas": pd.DataFrame(X, columns=names, index=np.arange(len(X))[::-1]),
        "polars": pl.DataFrame(X, schema=names),
        "csr": sp.csr_array(X),
        "csc": sp.csc_matrix(X),
        "coo": sp.coo_array(X),
    }


NUMBERS = np.random.default_rng(0).integers(-3, 4, size=(60, 5)).astype(float)


@pytest.mark.parametrize("kind", kinds_of(NUMBERS))
def test_keys_do_not_depend_on_how_rows_are_stored(kind):
    """Dense, sparse, of any type and in frames: equal numbers have equal keys."""
    np.testing.assert_array_equal(row_keys(kinds_of(NUMBERS)[kind]), row_keys(NUMBERS))


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "csr", "texts"])
def test_keys_follow_the_rows(kind):
    """In another order, and in a part of the table, a row keeps its key."""
    order = np.random.default_rng(1).permutation(60)[:40]
    texts = [f"row {' '.join(map(str, row))}" for row in NUMBERS]
    X = texts if kind == "texts" else kinds_of(NUMBERS)[kind]
    part = [texts[row] for row in order] if kind == "texts" else kinds_of(NUMBERS[order])[kind]
    np.testing.assert_array_equal(row_keys(part), row_keys(X)[order])


def test_keys_tell_rows_apart():
    """Rows that differ anywhere have other keys: exchanged columns, one bit, a zero more."""
    rows = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, np.nextafter(2.0, 3.0)], [1.0, 0.0], [0.0, 1.0], [1.0, -2.0]])
    assert len(np.unique(row_keys(rows))) == len(rows)
    many = np.random.default_rng(0).normal(size=(20_000, 3))
    assert len(np.unique(row_keys(many))) == 20_000


def test_keys_of_equal_rows_are_equal():
    """Also 0 and -0, which are the same number, and missing values."""
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [np.nan, 1.0], [np.nan, 1.0]])
    first, second, *missing = row_keys(rows)
    assert first == second
    assert missing[0] == missing[1] != first


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_keys_of_frames_read_texts_and_categories(frame):
    """A text is a part of the row's key; missing ones are values too."""
    table = frame({"age": [1.0, 1.0, 1.0, 2.0], "ward": ["a", "b", None, "a"]})
    assert len(np.unique(row_keys(table))) == 4
    if frame is pd.DataFrame:
        typed = table.assign(ward=table["ward"].astype("category"))
        assert row_keys(typed)[:2].tolist() == row_keys(table)[:2].tolist()


def test_keys_of_texts():
    """Texts of the same words have the same keys, as a list, a tuple, an array and a column."""
    texts = ["good beer", "bad beer", "good beer"]
    keys = row_keys(texts)
    assert keys[0] == keys[2] != keys[1]
    for same in (tuple(texts), np.array(texts), pd.Series(texts), pl.Series(texts)):
        np.testing.assert_array_equal(row_keys(same), keys)


def test_rows_on_disk_keep_their_place_as_key(tmp_path):
    """They are not read for it."""
    np.save(tmp_path / "rows.npy", NUMBERS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert row_keys(mapped).tolist() == list(range(60))
    assert row_keys(MappedRows(mapped, np.arange(3))).tolist() == [0, 1, 2]


def test_images_have_a_key_for_each_picture():
    """All numbers of a row count, whatever its shape."""
    images = NUMBERS[:, :4].reshape(60, 2, 2)
    np.testing.assert_array_equal(row_keys(images), row_keys(NUMBERS[:, :4]))


# -- what the stages share -------------------------------------------------------------------------------------------


def test_training_rows_know_their_environments_and_weights():
    """The number of each row's environment, and weights of one where none are given."""
    environments = split_environments(["b", "a", "b", "c"], 4)
    rows = TrainingRows(np.zeros((4, 1)), np.array([0, 1, 0, 1]), environments)
    assert rows.environment_codes.tolist() == [1, 0, 1, 2]
    assert rows.weights.tolist() == [1.0, 1.0, 1.0, 1.0]
    weights = np.array([1.0, 2.0, 3.0, 0.0])
    assert TrainingRows(rows.X, rows.y, environments, weights).weights is weights


def test_sparse_rows_are_told_from_others():
    """Arrays and frames are not sparse; matrices of every format are."""
    assert [is_sparse(X) for X in kinds_of(NUMBERS).values()] == [False] * 6 + [True] * 3


def test_what_the_stable_classifier_cannot_use_is_refused_before_any_fit(tmp_path, monkeypatch):
    """A large memory map, whose columns cannot be changed."""
    X, y, site = made(40)
    monkeypatch.setattr("holdfast.estimators.stable.MOST_COPIED", 0)
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_, **__: pytest.fail("fitted"))
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(FeaturesError, match="X is a memory map of 0.0 GiB. Pass an array in memory, or use PI"):
        StableClassifier(LogisticRegression()).fit(np.load(tmp_path / "rows.npy", mmap_mode="r"), y, environments=site)


def test_labels_are_read_as_codes():
    """Classes are sorted, and validation rows get the same codes."""
    classes, codes = read_labels(["ill", "well", "ill"], 3)
    assert (classes.tolist(), codes.tolist()) == (["ill", "well"], [0, 1, 0])
    assert known_codes(["well", "ill"], classes).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "b"], "y has 2 labels for 3 rows. Pass one label for each row of X"),
        (["a", None, "b"], "y is missing in 1 of 3 rows: .* Drop those rows"),
        ([1.0, np.inf, 2.0], "infinity"),
        ([0.5, 1.5, 2.5], "Unknown label type: continuous"),
        (["a", "a", "a"], r"y has one class only \('a'\), but a classifier needs at least two classes"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(y, message):
    """Each mistake has its own sentence."""
    with pytest.raises(LabelsError, match=message):
        read_labels(y, 3)


def test_labels_that_training_has_not_are_refused():
    """Validation rows of another class cannot be scored."""
    with pytest.raises(LabelsError, match="validation has labels that do not occur in the training rows: c"):
        known_codes(["a", "c"], np.array(["a", "b"]))
