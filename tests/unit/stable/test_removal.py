"""Tables without some of their columns, and with columns of other rows; classifiers of them, mixed."""

import datetime
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from holdfast.environments import split_environments
from holdfast.fitting.calibration import Calibration
from holdfast.rows.training import TrainingRows
from holdfast.stable.removal import (
    MixedClassifier,
    Removal,
    join_removals,
    mix_scores,
    plan_removal,
    shuffled_partners,
)

NUMBERS = np.array([[1.0, 10.0, 5.0], [2.0, 20.0, 5.0], [4.0, 30.0, 5.0], [9.0, 50.0, 5.0]])


def dense(X):
    """Return any table of numbers as an array."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)


KINDS = {
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b", "c"], index=[7, 3, 3, 0]),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b", "c"]),
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_column_is_constant_and_the_others_stay(kind):
    """In every kind of table; the median stands in, zero in sparse ones, and X itself is not changed."""
    X = KINDS[kind](NUMBERS)
    removal = plan_removal(X, [1], ["b"])
    without = removal.apply(X)
    expected = NUMBERS.copy()
    expected[:, 1] = 0.0 if sp.issparse(X) else 25.0
    np.testing.assert_array_equal(dense(without), expected)
    np.testing.assert_array_equal(dense(X), NUMBERS)
    assert len(removal) == 1
    if hasattr(X, "columns"):
        assert type(without) is type(X)
        assert list(without.columns) == list(X.columns)
        assert list(without.dtypes) == list(X.dtypes)
    else:
        assert dense(without).dtype == dense(X).dtype
    if kind == "pandas":
        assert without.index.tolist() == [7, 3, 3, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_get_the_columns_of_their_partners(kind):
    """Only the removed columns move, and only of the rows that are asked for."""
    X = KINDS[kind](NUMBERS)
    moved = plan_removal(X, [0, 1], ["a", "b"]).exchange(X, np.array([0, 3]), np.array([2, 1]))
    np.testing.assert_array_equal(dense(moved), [[4.0, 30.0, 5.0], [2.0, 20.0, 5.0]])
    np.testing.assert_array_equal(dense(X), NUMBERS)
    if kind == "pandas":
        assert moved.index.tolist() == [7, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_removed_cannot_be_seen_after_an_exchange(kind):
    """A classifier without the column sees the same table, whatever row the column came from."""
    X = KINDS[kind](NUMBERS)
    removal = plan_removal(X, [1], ["b"])
    rows = np.arange(4)
    np.testing.assert_array_equal(dense(removal.apply(removal.exchange(X, rows, rows[::-1]))), dense(removal.apply(X)))


@pytest.mark.parametrize("kind", KINDS)
def test_without_removed_columns_tables_are_themselves(kind):
    """Nothing is copied, and an exchange is the rows as they are."""
    X = KINDS[kind](NUMBERS)
    assert Removal().apply(X) is X
    assert len(Removal()) == 0
    taken = Removal().exchange(X, np.array([2, 0]), np.array([1, 1]))
    np.testing.assert_array_equal(dense(taken), NUMBERS[[2, 0]])


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_columns_of_frames_keep_their_types(library):
    """Whole numbers, texts and truth values have a value of their own kind instead: median or most frequent."""
    frame = library.DataFrame(
        {
            "count": [1, 2, 9, 12],
            "ward": ["x", "y", "y", None],
            "smoker": [True, False, True, True],
            "dose": [0.5, None, 1.5, 2.5],
        }
    )
    without = plan_removal(frame, [0, 1, 2, 3], ["count", "ward", "smoker", "dose"]).apply(frame)
    assert list(without.dtypes) == list(frame.dtypes)
    assert list(without["count"]) == [5] * 4
    assert list(without["ward"]) == ["y"] * 4
    assert list(without["smoker"]) == [True] * 4
    assert list(without["dose"]) == [1.5] * 4


def test_categories_of_pandas_stay_categories():
    """Applied and exchanged, with all their values, so that an encoder fitted on them still knows them."""
    kind = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    frame = pd.DataFrame({"dose": pd.Series(["high", "low", "low", None], dtype=kind), "age": [1.0, 2.0, 3.0, 4.0]})
    removal = plan_removal(frame, [0], ["dose"])
    without = removal.apply(frame)
    assert without["dose"].dtype == kind
    assert without["dose"].tolist() == ["low"] * 4
    moved = removal.exchange(frame, np.array([0, 1]), np.array([1, 3]))
    assert moved["dose"].dtype == kind
    assert moved["dose"].isna().tolist() == [False, True]
    assert moved["dose"][0] == "low"


def test_categories_of_polars_stay_categories():
    """The same for polars' own type."""
    frame = pl.DataFrame({"dose": ["high", "low", "low"], "age": [1.0, 2.0, 3.0]}).with_columns(
        pl.col("dose").cast(pl.Categorical)
    )
    without = plan_removal(frame, [0], ["dose"]).apply(frame)
    assert without["dose"].dtype == pl.Categorical
    assert without["dose"].to_list() == ["low"] * 3


PANDAS = {
    "Int64": pd.array([1, 2, None, 5, 6], dtype="Int64"),
    "Float64": pd.array([1.5, None, 2.0, 3.0, 4.0], dtype="Float64"),
    "boolean": pd.array([True, None, False, True, True], dtype="boolean"),
    "string": pd.array(["x", None, "y", "y", "x"], dtype="string"),
    "arrow": pd.array([1, 2, None, 4, 9], dtype="int64[pyarrow]"),
    "float32": np.array([1.0, 2.0, 3.0, 4.0, 6.0], dtype=np.float32),
    "dates": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-02", None, "2020-01-04"]),
    "zones": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-02", None, "2020-01-04"]).tz_localize("UTC"),
    "mixed": pd.Series([1, "a", None, "a", 2.5], dtype=object),
}
POLARS = {
    "whole": pl.Series([1, 2, None, 5, 6]),
    "Int8": pl.Series([1, 2, None, 5, 6], dtype=pl.Int8),
    "Float32": pl.Series([1.0, None, 2.0, 3.0, float("nan")], dtype=pl.Float32),
    "truth": pl.Series([True, None, False, True, True]),
    "dates": pl.Series([None, *[datetime.date(2020, 1, day) for day in (1, 2, 2, 4)]]),
    "enum": pl.Series(["a", "b", "b", None, "a"], dtype=pl.Enum(["a", "b", "c"])),
}


@pytest.mark.parametrize("kind", PANDAS)
def test_every_type_of_pandas(kind):
    """Removed and exchanged, a column with missing values has the type that it had."""
    frame = pd.DataFrame({"column": PANDAS[kind], "other": range(5)})
    removal = plan_removal(frame, [0], ["column"])
    without = removal.apply(frame)["column"]
    assert without.dtype == frame["column"].dtype
    assert without.nunique() == 1
    assert not without.isna().any()
    moved = removal.exchange(frame, np.arange(5), np.array([4, 3, 2, 1, 0]))["column"]
    assert moved.dtype == frame["column"].dtype
    assert moved.astype(str).tolist() == frame["column"].astype(str).tolist()[::-1]


@pytest.mark.parametrize("kind", POLARS)
def test_every_type_of_polars(kind):
    """The same for polars."""
    frame = pl.DataFrame({"column": POLARS[kind], "other": range(5)})
    removal = plan_removal(frame, [0], ["column"])
    without = removal.apply(frame)["column"]
    assert without.dtype == frame["column"].dtype
    assert without.n_unique() == 1
    assert without.null_count() == 0
    moved = removal.exchange(frame, np.arange(5), np.array([4, 3, 2, 1, 0]))["column"]
    assert moved.dtype == frame["column"].dtype
    assert str(moved.to_list()[::-1]) == str(frame["column"].to_list())


def test_many_different_texts_are_counted_once():
    """A column of 20,000 texts that are nearly all different does not take a comparison of each with each."""
    frame = pd.DataFrame({"note": [f"note {row % 19_990}" for row in range(20_000)], "age": 1.0})
    started = time.process_time()
    assert plan_removal(frame, [0], ["note"]).stand_ins == ("note 0",)
    assert time.process_time() - started < 1.0


def test_a_column_without_any_value_stays_one():
    """Nothing is typical of it, so that it has zeros or nothing."""
    frame = pd.DataFrame({"dose": [np.nan, np.nan], "note": pd.Series([None, None], dtype=object)})
    without = plan_removal(frame, [0, 1], ["dose", "note"]).apply(frame)
    assert without["dose"].tolist() == [0.0, 0.0]
    assert without["note"].tolist() == [None, None]


TEXTS = ["A good Beer, isn't it?", "beer is bad", "<art_positive> wine", "nothing"]


def test_words_are_taken_out_of_texts():
    """Whole words in any case; markers and apostrophes belong to their word."""
    removal = plan_removal(TEXTS, [0, 1], ["beer", "<art_positive>"])
    without = [" ".join(text.split()) for text in removal.apply(TEXTS)]
    assert without == ["A good , isn't it?", "is bad", "wine", "nothing"]
    assert len(removal) == 2
    assert plan_removal(TEXTS, [0], ["is"]).apply(TEXTS)[0] == TEXTS[0]  # isn't is another word


def test_words_of_other_texts():
    """A text has the removed words of its partner, where that has any."""
    removal = Removal(words=("beer", "wine"))
    moved = removal.exchange(TEXTS, np.array([0, 3]), np.array([2, 1]))
    assert moved[0].split() == ["A", "good", ",", "isn't", "it?", "wine"]
    assert moved[1].split() == ["nothing", "beer"]


def test_removals_are_joined():
    """Columns with their stand-ins, and words, in order."""
    first, second = plan_removal(NUMBERS, [1], ["b"]), plan_removal(NUMBERS, [0], ["a"])
    both = join_removals([first, second])
    assert both.columns == (1, 0)
    np.testing.assert_array_equal(both.apply(NUMBERS)[:, :2], np.tile([3.0, 25.0], (4, 1)))
    assert join_removals([Removal(words=("a",)), Removal(words=("b", "c"))]).words == ("a", "b", "c")
    assert len(join_removals([])) == 0


# -- partners --------------------------------------------------------------------------------------------------------


def training(n_rows=400, n_classes=2, seed=0):
    """Return rows of two sites, in mixed order."""
    generator = np.random.default_rng(seed)
    sites = generator.permutation(np.repeat(["a", "b"], n_rows // 2))
    y = generator.integers(n_classes, size=n_rows)
    return TrainingRows(generator.normal(size=(n_rows, 2)), y, split_environments(sites, n_rows)), sites


@pytest.mark.parametrize("other_label", [False, True])
def test_partners_are_of_the_same_environment(other_label):
    """A column keeps the values that it has in an environment."""
    rows, sites = training()
    partners = shuffled_partners(rows, other_label=other_label)
    assert (sites[partners] == sites).all()


def test_shuffled_partners_are_a_permutation_that_knows_nothing_of_labels():
    """Every row is the partner of one row, and labels of partners agree as often as chance."""
    rows, _ = training(4000)
    partners = shuffled_partners(rows, other_label=False)
    assert sorted(partners) == list(range(4000))
    assert abs((rows.y[partners] == rows.y).mean() - 0.5) < 0.04


@pytest.mark.parametrize("n_classes", [2, 4])
def test_partners_of_another_label(n_classes):
    """Each partner has another label; where an environment has only one, rows keep their own columns."""
    rows, _ = training(n_classes=n_classes)
    assert (rows.y[shuffled_partners(rows, other_label=True)] != rows.y).all()
    one = TrainingRows(rows.X, np.zeros(rows.n_rows, dtype=int), rows.environments)
    assert shuffled_partners(one, other_label=True).tolist() == list(range(rows.n_rows))


@pytest.mark.parametrize("other_label", [False, True])
def test_partners_do_not_depend_on_the_order_of_rows(other_label):
    """The same rows in another order have the same partners; another draw has others."""
    rows, sites = training()
    partners = shuffled_partners(rows, other_label=other_label)
    order = np.random.default_rng(1).permutation(400)
    other = TrainingRows(rows.X[order], rows.y[order], split_environments(sites[order], 400))
    np.testing.assert_array_equal(order[shuffled_partners(other, other_label=other_label)], partners[order])
    assert (shuffled_partners(rows, other_label=other_label, draw=1) != partners).mean() > 0.9


# -- mixtures ----------------------------------------------------------------------------------------------------------

PLAIN = Calibration(1.0, np.zeros(2))


@pytest.fixture(scope="module")
def rows():
    """Return rows of three columns and labels that follow the first two."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    return X, (X[:, 0] + X[:, 1] + generator.normal(size=200) > 0).astype(int)


def mixed(estimator, rows, weight, calibration=PLAIN):
    """Return a mixture of a classifier of all columns, weight `weight`, and one without the second."""
    X, y = rows
    removal = plan_removal(X, [1], ["x1"])
    parts = [estimator.fit(X, y), type(estimator)(**estimator.get_params()).fit(removal.apply(X), y)]
    return MixedClassifier(parts, [Removal(), removal], [weight, 1 - weight], calibration)


def test_scores_are_centered_and_added():
    """A constant that one part adds to all classes of a row says nothing."""
    first, second = np.array([[1.0, 2.0, 6.0]]), np.array([[0.0, 3.0, 3.0]])
    np.testing.assert_allclose(mix_scores([first, second], [0.5, 0.5]), [[-2.0, 0.0, 2.0]])
    np.testing.assert_allclose(mix_scores([first + 7, second - 5], [0.5, 0.5]), [[-2.0, 0.0, 2.0]])
    np.testing.assert_allclose(mix_scores(np.stack([first, second]), [1.0, 0.0]), first - 3)
    np.testing.assert_array_equal(first, [[1.0, 2.0, 6.0]])


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(), DecisionTreeClassifier(max_depth=3)])
def test_a_weight_of_one_predicts_as_that_part(rows, estimator):
    """The whole weight on one part is that classifier's predictions."""
    X, _ = rows
    for weight, part in ((1.0, 0), (0.0, 1)):
        mixture = mixed(estimator, rows, weight)
        shown = mixture.removals[part].apply(X)
        np.testing.assert_array_equal(mixture.predict(X), mixture.estimators[part].predict(shown))


def test_log_odds_of_linear_models_are_mixed(rows):
    """For logistic regressions the mixture is the logistic regression of the mixed coefficients."""
    X, _ = rows
    mixture = mixed(LogisticRegression(), rows, 0.3)
    first, second = mixture.estimators
    removed = X.copy()
    removed[:, 1] = np.median(X[:, 1])
    expected = 0.3 * first.decision_function(X) + 0.7 * second.decision_function(removed)
    probabilities = mixture.predict_proba(X)
    np.testing.assert_allclose(np.log(probabilities[:, 1] / probabilities[:, 0]), expected, atol=1e-8)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_a_part_without_the_column_does_not_see_it(rows):
    """With no weight on the part that sees it, the column's values do not matter."""
    X, _ = rows
    changed = X.copy()
    changed[:, 1] = -5 * X[:, 1] + 3
    without = mixed(LogisticRegression(), rows, 0.0)
    np.testing.assert_array_equal(without.predict_proba(changed), without.predict_proba(X))
    assert (mixed(LogisticRegression(), rows, 1.0).predict_proba(changed) != without.predict_proba(X)).any()


def test_the_calibration_is_applied(rows):
    """Half the scale halves the log-odds."""
    X, _ = rows
    sharp, blunt = (mixed(LogisticRegression(), rows, 0.5, Calibration(scale, np.zeros(2))) for scale in (1.0, 0.5))

    def log_odds(p):
        return np.log(p[:, 1] / p[:, 0])

    np.testing.assert_allclose(log_odds(blunt.predict_proba(X)), log_odds(sharp.predict_proba(X)) / 2)


def test_it_is_a_fitted_classifier_over_codes(rows):
    """It has classes, counts as fitted, and a fit changes nothing."""
    mixture = mixed(LogisticRegression(), rows, 0.5)
    check_is_fitted(mixture)
    assert mixture.classes_.tolist() == [0, 1]
    assert mixture.fit(*rows) is mixture


def test_a_class_that_one_part_has_not_seen(rows):
    """A part that saw two of three classes is mixed with one that saw all."""
    X, y = rows
    y = np.where(np.arange(200) % 10 == 0, 2, y)
    known = y < 2
    parts = [LogisticRegression().fit(X, y), LogisticRegression().fit(X[known], y[known])]
    mixture = MixedClassifier(parts, [Removal(), Removal()], [0.5, 0.5], Calibration(1.0, np.zeros(3)))
    assert mixture.predict_proba(X).shape == (200, 3)
    assert set(mixture.predict(X)) <= {0, 1}
