from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from holdfast.exceptions import FeaturesError
from holdfast.stable.columns import Columns, encode_table, encode_texts, split_categories

TABLE = {
    "age": [30.0, None, 50.0, 40.0],
    "scanner": ["A", "B", "A", "A"],
    "smoker": [True, False, True, True],
}


@pytest.mark.parametrize("frame", [pd.DataFrame(TABLE), pl.DataFrame(TABLE)], ids=["pandas", "polars"])
def test_numbers_stay_and_categories_become_columns(frame: object) -> None:
    """Missing numbers take the mean and get a marker; of a category's two values the rarer one is a 0/1 column."""
    columns = encode_table(frame, min_count=1)
    assert columns.names == ("age", "age is missing", "scanner=B", "smoker")
    assert columns.values.T.tolist() == [
        [30, 40, 50, 40],
        [0, 1, 0, 0],
        [0, 1, 0, 0],
        [1, 0, 1, 1],
    ]
    assert columns.inputs.all()
    assert columns.groups == {"scanner": (2,)}  # a number and its gaps are tested one by one
    assert columns.n_columns == 3  # of the table
    assert columns.grouped({"person": ["age", "smoker"]}).n_columns == 2


def test_rare_categories_are_counted_together() -> None:
    """Values below min_count share one column; missing ones are a value of their own."""
    frame = pd.DataFrame({"ward": ["a"] * 4 + ["b"] * 3 + ["c", "d", "e"] + [None] * 3})
    columns = encode_table(frame, min_count=3)
    assert columns.names == ("ward=a", "ward=(missing)", "ward=b", "ward=(any other)")
    assert columns.values.sum(axis=0).tolist() == [4, 3, 3, 3]


def test_dates_and_boxed_numbers_are_numbers() -> None:
    """Time stamps are seconds, and numbers in an object column stay numbers."""
    frame = pd.DataFrame(
        {"day": pd.to_datetime(["2020-01-01", "2020-01-02"]), "count": pd.Series([1, None], dtype=object)}
    )
    columns = encode_table(frame, min_count=1)
    assert columns.names == ("day", "count", "count is missing")
    assert np.diff(columns.values[:, 0]).tolist() == [86400.0]
    assert columns.values[:, 1].tolist() == [1.0, 1.0]


def test_arrays_get_names() -> None:
    """x0, x1, … or the given ones; a sparse matrix stays sparse."""
    assert encode_table(np.eye(3)).names == ("x0", "x1", "x2")
    sparse = encode_table(sp.coo_matrix(np.eye(2)), names=["a", "b"])
    assert sparse.names == ("a", "b")
    assert isinstance(sparse.values, sp.csr_array)


@pytest.mark.parametrize(
    ("X", "names", "message"),
    [
        (np.zeros((2, 2, 2)), None, "Pass attributes="),
        (np.eye(2), ["a"], "1 names were given for 2 columns"),
        (np.array([[1.0, np.inf]]), None, "'x1' of X holds infinite values"),
        (pd.DataFrame(index=[0, 1]), None, "X has no columns"),
        (
            pd.DataFrame({"id": list("abc")}),
            None,
            "X has nothing to audit: no number, and no category that at least 10",
        ),
    ],
)
def test_unusable_tables_are_refused(X: object, names: list[str] | None, message: str) -> None:
    """The message says which column, and what to do."""
    with pytest.raises(FeaturesError, match=message):
        encode_table(X, names=names)


def test_words_and_phrases_are_columns() -> None:
    """A column is 1 where the text has the word or the pair of words, once or often; markers are one word."""
    texts = ["<art_positive> a nice head", "a nice , nice beer", "flat"]
    columns = encode_texts(texts, min_count=1)
    table = dict(zip(columns.names, columns.values.toarray().T.tolist(), strict=True))
    assert table["nice"] == [1, 1, 0]
    assert table["a nice"] == [1, 1, 0]
    assert table["nice nice"] == [0, 1, 0]
    assert table["<art_positive>"] == [1, 0, 0]


def test_rare_and_ubiquitous_words_are_left_out() -> None:
    """A word needs min_count texts with it and as many without it; the most frequent are kept."""
    texts = ["the cat sat", "the cat ran", "the dog ran", "the dog sat", "the cat"]
    assert set(encode_texts(texts, n_words=(1, 1), min_count=2).names) == {"cat", "dog", "ran", "sat"}
    assert encode_texts(texts, n_words=(1, 1), min_count=2, max_columns=1).names == ("cat",)


@pytest.mark.parametrize(("texts", "message"), [(["a b", "c"], "at least min_count=10 texts"), (["", "?"], "no words")])
def test_texts_without_columns_are_refused(texts: list[str], message: str) -> None:
    """Nothing to audit is an error that says why."""
    with pytest.raises(FeaturesError, match=message):
        encode_texts(texts)


def test_attributes_stand_beside_inputs() -> None:
    """They are marked as unseen by the judges, and a name that is taken is told apart."""
    inputs = encode_table(np.eye(3), names=["a", "b", "c"])
    attributes = encode_table(np.ones((3, 1)), names=["a"]).as_attributes()
    both = inputs.beside(attributes)
    assert both.names == ("a", "b", "c", "a (attribute)")
    assert both.inputs.tolist() == [True, True, True, False]
    assert encode_texts(["x y", "y", "z"], min_count=1).beside(attributes).values.shape == (3, 5)


def test_attributes_need_one_row_for_each() -> None:
    """Different numbers of rows are refused."""
    with pytest.raises(FeaturesError, match="attributes has 2 rows where X has 3"):
        encode_table(np.eye(3)).beside(encode_table(np.eye(2)))


def test_columns_refuse_names_that_do_not_match() -> None:
    """One name for each column."""
    with pytest.raises(FeaturesError, match="given 1 names for 2 columns"):
        Columns(("a",), np.eye(2), np.array([True]))


def test_a_group_of_a_column_that_is_not_there_is_refused() -> None:
    """The message names the group and the column."""
    columns = encode_table(pd.DataFrame({"age": [30.0, 40.0, 50.0]}), min_count=1)
    with pytest.raises(FeaturesError, match="group 'person' names 'height', which is no column"):
        columns.grouped({"person": ["age", "height"]})


def test_other_rows_are_encoded_alike():
    """A block gets the columns of the rows that were read first, whose mean and levels they have."""
    first = pd.DataFrame({"age": [30.0, None, 50.0, 10.0], "ward": ["a", "b", "a", "c"], "day": [1, 2, 3, 4]})
    first = pd.concat([first, first.assign(ward=["b", "d", "b", "e"])], ignore_index=True)
    columns = encode_table(first, min_count=2)
    assert columns.names == ("age", "age is missing", "ward=b", "ward=a", "ward=(any other)", "day")
    np.testing.assert_array_equal(columns.encode(first), columns.values)
    other = pd.DataFrame({"age": [None, 70.0], "ward": ["new", "b"], "day": [5.0, None]})
    np.testing.assert_array_equal(columns.encode(other), [[30, 1, 0, 0, 1, 5], [70, 0, 1, 0, 0, 2.5]])


def test_split_categories_are_told_from_other_codes():
    """Of every row one is 1, side by side; not so where one row has none, where two are 1, and of known groups."""
    rng = np.random.default_rng(0)
    first, second = ((rng.integers(n, size=200)[:, None] == np.arange(n)).astype(float) for n in (3, 5))
    age = rng.normal(size=(200, 1))
    table = np.hstack([first, second, age])
    assert split_categories(encode_table(table)) == [("x0", "x2"), ("x3", "x7")]
    assert split_categories(encode_table(table[:, 1:])) == [("x2", "x6")]
    assert split_categories(encode_table(sp.csr_array(table))) == []
    table[0, :3] = 0.0
    assert split_categories(encode_table(table)) == [("x3", "x7")]
    table[0, 3:5] = 1.0
    assert split_categories(encode_table(table)) == []
    words = pd.DataFrame({"color": rng.choice(["red", "green", "blue"], size=200)})
    assert split_categories(encode_table(words)) == []
