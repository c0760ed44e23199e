import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse

from holdfast.tables.preprocessing import make_preprocessor, matrix_names
from holdfast.tables.schema import TableSchema


def fit_on(frame, *, dense=False, **kinds):
    """Return the schema, the fitted preprocessor and its matrix."""
    schema = TableSchema.infer(frame, **kinds)
    transformer = make_preprocessor(schema, dense=dense)
    return schema, transformer, transformer.fit_transform(schema.features(frame))


def test_numbers_are_scaled_and_missing_ones_flagged():
    """Missing becomes the median (2), with a column that says so; both scaled to mean 0 and variance 1."""
    _, _, matrix = fit_on(pd.DataFrame({"a": [1.0, 2.0, 3.0, np.nan]}))
    np.testing.assert_allclose(matrix.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(matrix.var(axis=0), 1)
    np.testing.assert_allclose(matrix[1], matrix[3] - [0, 4 / 3**0.5])  # the median row, but for the flag


def test_rare_levels_share_a_column_and_unseen_ones_join_them():
    """Levels of at least five rows have a column, missing too; two rare ones share a third."""
    frame = pd.DataFrame({"c": ["x"] * 6 + [None] * 5 + ["y", "z"]})
    schema, transformer, matrix = fit_on(frame)
    np.testing.assert_array_equal(matrix.sum(axis=0), [5, 6, 2])
    unseen = transformer.transform(schema.features(pd.DataFrame({"c": ["new"]})))
    np.testing.assert_array_equal(unseen, [[0, 0, 1]])


def test_unseen_levels_are_zeros_when_no_level_is_rare():
    """Nothing to join: all columns are zero."""
    schema, transformer, _ = fit_on(pd.DataFrame({"c": ["x"] * 6 + ["y"] * 6}))
    np.testing.assert_array_equal(transformer.transform(schema.features(pd.DataFrame({"c": ["new"]}))), [[0, 0]])


@pytest.mark.parametrize("dense", [False, True])
def test_text_is_sparse_unless_the_estimator_needs_otherwise(dense):
    """Words that two rows share become columns: 'good', 'good beer' and 'beer' here, 'bad' and 'wine' not."""
    frame = pd.DataFrame({"t": ["good beer", "good beer", "bad wine"], "n": [1.0, 2.0, 3.0]})
    _, transformer, matrix = fit_on(frame, dense=dense, text=["t"])
    assert issparse(matrix) is not dense
    assert matrix.shape == (3, 4)
    assert list(transformer.named_transformers_["text 0"].vocabulary_) == ["good", "beer", "good beer"]


def test_dates_give_days_and_levels():
    """One scaled column of days, and months and weekdays as levels."""
    frame = pd.DataFrame({"d": pd.date_range("2026-01-01", periods=56, freq="D")})
    _, _, matrix = fit_on(frame)
    assert matrix.shape == (56, 1 + 2 + 7)


def test_columns_of_the_matrix_have_names():
    """Numbers, where they are missing, levels, rare levels, parts of dates and words; one name for each column."""
    frame = pd.DataFrame(
        {
            "age": [1.0, np.nan, 3.0, 4.0, 5.0, 6.0] * 3,
            "ward": ["x", "y_z", None] * 6,
            "note": ["red dog", "blue dog", "red cat"] * 6,
            "rare": list("uvwxyz") * 3,
            "day": pd.to_datetime(["2026-11-15"] * 18),
        }
    )
    schema, transformer, matrix = fit_on(frame, text=["note"])
    names = matrix_names(transformer, schema)
    assert len(names) == matrix.shape[1]
    assert names[:9] == [
        *("age", "day (days)", "age is missing", "ward=missing", "ward=x", "ward=y_z", "rare=rare"),
        *("day (month)=11", "day (weekday)=6"),
    ]
    assert names[9:] == [f"note: {word}" for word in ("blue", "blue dog", "cat", "dog", "red", "red cat", "red dog")]


def test_names_of_levels_are_not_confused():
    """A column `a` with level `b_c` and a column `a_b` with level `c` are two columns."""
    frame = pd.DataFrame({"a": ["b_c", "x"] * 9, "a_b": ["c", "y"] * 9})
    schema, transformer, _ = fit_on(frame)
    assert matrix_names(transformer, schema) == ["a=b_c", "a=x", "a_b=c", "a_b=y"]
