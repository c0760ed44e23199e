import json

import numpy as np
import pandas as pd
import pytest

from holdfast.exceptions import SavedModelError, TableError
from holdfast.tables.decimals import decimal_sign, read_numbers, written_number
from holdfast.tables.remarks import looks_like_text, odd_tokens
from holdfast.tables.roles import TableOptions, read_rows
from holdfast.tables.schema import Column, TableSchema


def small_frame():
    """Return a frame with a column of each kind."""
    return pd.DataFrame(
        {
            "age": [30, 40, 50],
            "score": [1.5, np.nan, 2.0],
            "smoker": [True, False, True],
            "scanner": ["A", None, "B"],
            "note": ["two words", "", None],
            "visit": pd.to_datetime(["1970-01-02 12:00", None, "2026-11-15 00:00"]),
        }
    )


def test_kinds_are_inferred_from_values():
    """Numbers and booleans are numeric, strings categorical unless called text, dates dates."""
    schema = TableSchema.infer(small_frame(), text=["note"])
    assert schema.columns == (
        Column("age", "numeric", "number"),
        Column("score", "numeric", "number"),
        Column("smoker", "numeric", "boolean"),
        Column("scanner", "categorical", "string"),
        Column("note", "text", "string"),
        Column("visit", "date", "date"),
    )
    assert schema.names("categorical", "text") == ["scanner", "note"]
    assert schema.types["visit"] == "string"


def test_features_are_plain_numbers_and_texts():
    """Dates become days since 1970 with month and weekday levels; missing stays missing, but empty in text."""
    frame = small_frame()
    features = TableSchema.infer(frame, text=["note"]).features(frame)
    assert list(features.columns) == [
        *("age", "score", "smoker", "scanner", "note"),
        *("visit (days)", "visit (month)", "visit (weekday)"),
    ]
    np.testing.assert_array_equal(features["smoker"], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(features["visit (days)"], [1.5, np.nan, 20772.0])
    assert features["visit (month)"].tolist()[::2] == ["1", "11"]
    assert features["visit (weekday)"].tolist()[::2] == ["4", "6"]
    assert features["note"].tolist() == ["two words", "", ""]
    assert features["scanner"].isna().tolist() == [False, True, False]


def test_numbers_called_categorical_are_levels():
    """The level of 3 is the same whether missing values made the column decimal or not."""
    schema = TableSchema.infer(pd.DataFrame({"code": [3, 1]}), categorical=["code"])
    assert schema.columns == (Column("code", "categorical", "number"),)
    assert schema.features(pd.DataFrame({"code": [3.0, np.nan, 2.5]}))["code"].tolist()[::2] == ["3", "2.5"]


def test_empty_and_nameless_columns_are_left_out_with_a_reason():
    """They say nothing, or the row's place in the file."""
    schema = TableSchema.infer(pd.DataFrame({"unnamed_1": [0, 1], "a": [1, 2], "gone": [None, None]}))
    assert schema.names() == ["a"]
    assert schema.left_out == {"unnamed_1": "has no name (a saved row index?)", "gone": "missing in every row"}


def test_schema_survives_json():
    """What is saved with a classifier comes back equal."""
    schema = TableSchema.infer(small_frame())
    assert TableSchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"is not valid \(KeyError\('columns'\)\). Fit again."),
        ({"columns": [{"name": "a", "kind": "image", "storage": "number"}], "left_out": {}}, "unknown kind 'image'"),
    ],
)
def test_foreign_schema_is_refused(values, message):
    """A schema of another program or version is named."""
    with pytest.raises(SavedModelError, match=message):
        TableSchema.from_dict(values)


def test_reordered_and_extra_columns_are_fine():
    """Only the fitted columns are taken, in the fitted order."""
    schema = TableSchema.infer(pd.DataFrame({"a": [1.0], "b": ["x"]}))
    features = schema.features(pd.DataFrame({"z": [0], "b": ["y"], "a": [2]}))
    assert features.to_dict("list") == {"a": [2.0], "b": ["y"]}


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("agee", [1], r"Column 'age' is missing, and the classifier needs it\. Did you mean 'agee'\?"),
        ("age", ["old"], "Column 'age' contains string values such as 'old', but it contained number values when"),
        ("age", [np.inf], r"Column 'age' is infinite or beyond 1e\+100 in 1 rows \(first in data row 1\)"),
        ("age", [-1e200], "is infinite or beyond"),
        ("age", [[1]], "Column 'age' contains values of types list"),
    ],
)
def test_columns_that_do_not_fit_are_refused(column, values, message):
    """Missing columns, other types and infinite numbers at predict time."""
    schema = TableSchema.infer(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(TableError, match=message):
        schema.features(pd.DataFrame({column: values}))


def test_dates_must_stay_dates():
    """ISO texts (as a CSV file holds them) with or without zone are dates; others are refused."""
    schema = TableSchema.infer(pd.DataFrame({"visit": pd.to_datetime(["2026-01-01"])}))
    for text in ("1970-01-03", "1970-01-03T02:00:00+02:00"):
        assert schema.features(pd.DataFrame({"visit": [text]}))["visit (days)"].tolist() == [2.0]
    with pytest.raises(TableError, match="now a text that is not an ISO date"):
        schema.features(pd.DataFrame({"visit": ["3 January"]}))
    with pytest.raises(TableError, match="Column 'visit' contains number values, but it contained dates when"):
        schema.features(pd.DataFrame({"visit": [7]}))


def test_a_wholly_missing_column_at_predict_time_is_missing_values():
    """A chunk in which a column is empty is no error, whatever type the empty column has."""
    frame = small_frame()
    schema = TableSchema.infer(frame, text=["note"])
    features = schema.features(pd.DataFrame({name: [None] for name in frame.columns}))
    assert features["note"].tolist() == [""]
    assert features.drop(columns="note").isna().all(axis=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": ["nota"]}, r"There is no feature column 'nota'\. Did you mean 'note'\?"),
        ({"text": ["age"]}, "Text column 'age' contains number values, expected text. Name another one."),
    ],
)
def test_columns_named_by_the_user_are_checked(options, message):
    """Names and types of the columns called text."""
    with pytest.raises(TableError, match=message):
        TableSchema.infer(small_frame(), **options)


def test_no_feature_left_is_refused():
    """A table of empty columns has nothing to learn from."""
    with pytest.raises(TableError, match="No feature column is left"):
        TableSchema.infer(pd.DataFrame({"a": [None]}))


def test_names_of_date_parts_are_taken():
    """A column may not be called like what a date column becomes."""
    frame = pd.DataFrame({"d": pd.to_datetime(["2026-01-01"]), "d (month)": [1]})
    with pytest.raises(
        TableError, match=r"Column 'd \(month\)' has the name of a part of the date column 'd'\. Rename it"
    ):
        TableSchema.infer(frame)


def test_prose_is_told_from_levels():
    """Distinct sentences are prose; repeated or short values are levels."""
    assert looks_like_text(pd.Series([f"this is report number {i}" for i in range(20)]))
    assert not looks_like_text(pd.Series(["a b c d e"] * 20))
    assert not looks_like_text(pd.Series([f"id{i}" for i in range(20)]))


def test_dates_beyond_nanoseconds():
    """Years that nanoseconds cannot hold are days all the same."""
    frame = pd.DataFrame({"day": np.array(["0001-01-01", "9999-12-31", "1970-01-02"], dtype="datetime64[s]")})
    schema = TableSchema.infer(frame)
    assert schema.features(frame)["day (days)"].tolist() == [-719162.0, 2932896.0, 1.0]


def test_texts_that_say_no_date_are_missing():
    """A column of dates may come as texts that are all missing."""
    schema = TableSchema.infer(pd.DataFrame({"day": pd.to_datetime(["2026-01-01", "2026-01-02"])}))
    features = schema.features(pd.DataFrame({"day": ["NaT", "NaT"]}))
    assert features.isna().to_numpy().all()


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        (["1", "2.5", "?", "?", "-"], ("?", "-")),
        (["1", "2", "Unknown"], ("Unknown",)),
        ([str(number) for number in range(12)] + ["low"], ("low",)),
        (["1", "2", "low"], ()),  # levels that have names
        (["1", "2", "a", "b", "c", "d"], ()),
        ([str(number) for number in range(12)] + ["<5", "5 mg"], ()),  # a unit: these are values
        ([f"{number},5" for number in range(12)] + ["<0,5", "n.b."], ("<0,5", "n.b.")),  # below what can be measured
        (["1", "2", None], ()),
        (["a", "?"], ()),
    ],
)
def test_words_among_numbers_are_found(values, tokens):
    """Signs and words for a gap among numbers are odd, any word among many numbers, and nothing among levels."""
    assert odd_tokens(pd.Series(values, dtype=object)) == tokens


def test_dates_that_are_not_iso_dates_are_noted():
    """Days and months in another order are ambiguous: they stay categories, and a note says so."""
    frame = pd.DataFrame({"day": ["31.1.2026", "1.2.2026"] * 3, "site": ["a", "b"] * 3, "ill": [0, 1] * 3})
    rows = read_rows(frame, TableOptions(label="ill", environment=["site"]))
    assert rows.notes == ("'day' has dates such as 31.1.2026, read as categories; write them as 2026-01-31",)


def notes_of(n_rows=200, **columns):
    """Return the notes about a table of two sites with these columns."""
    frame = pd.DataFrame({"x": range(n_rows), "site": ["a", "b"] * (n_rows // 2), "ill": [0, 1, 1, 0] * (n_rows // 4)})
    return read_rows(frame.assign(**columns), TableOptions(label="ill", environment=["site"])).notes


@pytest.mark.parametrize(
    ("values", "example"),
    [
        (["12%", "63.1%"], "12%"),
        (["980.5", "2,771.45", None], "2,771.45"),
        (["$81.20", "-$5"], "$81.20"),
        (["1.234,5 €", "7 €"], "1.234,5 €"),
        (["1 234", "5"], "1 234"),
        (["12,5", "13"], "12,5"),
        (["1.5", "2e3", "-.5"], None),  # numbers as they should be, which a frame has as texts
        (["0012", "0013"], None),
        (["555-1234", "12 mg"], None),
        (["12%", "high", "low"], None),  # levels
        ([None], None),
    ],
)
def test_numbers_with_signs_are_found(values, example):
    """Percent signs, currencies, separators of thousands and decimal commas turn numbers into categories."""
    assert written_number(pd.Series(values, dtype=object)) == example


def test_numbers_with_signs_are_noted():
    """The note names the column and a value, and says how it was read; numbers with two readings are categories."""
    assert notes_of(share=["12%", "63.1%"] * 100) == ("'share' has numbers such as '12%', read as 12",)
    (note,) = notes_of(share=["1,234", "5,678"] * 100)
    assert note == (
        "'share' has numbers such as '1,234', read as categories; write them without signs and separators of "
        "thousands, with a decimal point, as 1234.5"
    )


@pytest.mark.parametrize(
    ("texts", "decimal", "numbers"),
    [
        (["980", "2,771.45", None], "decimal point", [980, 2771.45, np.nan]),
        (["980", "2,771"], "decimal point", [980, 2771]),
        (["0,87", "1.2", "1,875"], "decimal last", [0.87, 1.2, 1.875]),  # decimal commas at one site
        (["1,234.50", "1.234,50"], "decimal last", [1234.5, 1234.5]),
        (["1.234,5 €", "-7 €"], "decimal comma", [1234.5, -7]),
        (["2.771 €", "980 €"], "decimal comma", [2771, 980]),
        (["1,234,567", "12"], "decimal point", [1234567, 12]),
        (["$81.20", "-$5"], "decimal point", [81.2, -5]),
        (["1 234", "5"], "decimal point", [1234, 5]),
        (["12%", "63.1%"], "decimal point", [12, 63.1]),
        (["2,771", "3,141"], None, None),  # thousands or decimals
        (["12%", "0.3"], None, None),
        (["$5", "€6"], None, None),
        (["0012", "1,5"], None, None),  # 0012 is no amount
        (["1,234.5", "0,87", "1,234"], None, None),
        (["a", "1,5"], None, None),
    ],
)
def test_numbers_with_signs_are_read(texts, decimal, numbers):
    """Where point and comma have one meaning in all texts of a column, its numbers are read."""
    series = pd.Series(texts, dtype=object)
    assert decimal_sign(series) == decimal
    if decimal is not None:
        np.testing.assert_array_equal(read_numbers(series, decimal)[0], np.array(numbers, dtype=float))


def test_numbers_with_signs_are_features_when_fitted_and_when_predicting(tmp_path):
    """The saved schema reads later rows in the same way, plain numbers too, and refuses what it would misread."""
    frame = pd.DataFrame({"bill": ["1,234.5", "980", None], "share": ["0,5", "0.25", "1,5"]})
    schema = TableSchema.from_dict(TableSchema.infer(frame).to_dict())
    assert [column.kind for column in schema.columns] == ["numeric", "numeric"]
    features = schema.features(frame)
    np.testing.assert_array_equal(features["bill"], [1234.5, 980, np.nan])
    np.testing.assert_array_equal(features["share"], [0.5, 0.25, 1.5])
    later = schema.features(pd.DataFrame({"bill": [7.5, 8.0], "share": ["1,875", "2"]}))
    np.testing.assert_array_equal(later, [[7.5, 1.875], [8.0, 2.0]])
    for text in ("0,87", "many"):
        with pytest.raises(
            TableError, match=f"'bill' contained numbers when the classifier was fitted, but now '{text}'"
        ):
            schema.features(pd.DataFrame({"bill": ["7", text], "share": ["1", "2"]}))
    assert schema.types == {"bill": "string", "share": "string"}


def test_columns_of_many_levels_are_noted():
    """With more levels than are kept, or mostly rare ones, the note says how many there are and how many count."""
    counts = notes_of(n_rows=1200, icd=[f"I{row % 150}" for row in range(1200)])
    assert counts == (
        "column 'icd' has 150 levels: at most 100 count by themselves, the most frequent; the others (33% of rows) "
        "count together",
    )
    assert notes_of(name=[f"n{row}" for row in range(200)]) == (
        "column 'name' has 200 levels, none in 5 rows or more: all count as one",
    )
    assert notes_of(code=[f"n{row}" if row % 3 else "often" for row in range(200)]) == (
        "column 'code' has 134 levels: at most 1 count by themselves, the most frequent; the others (66% of rows) "
        "count together",
    )
    assert notes_of(ward=[f"w{row % 30}" for row in range(200)]) == ()


def test_labels_and_sites_that_differ_in_spaces_or_case_are_noted():
    """They are probably the same, and count as different ones."""
    notes = notes_of(ill=["yes", "yes ", "No", "no"] * 50, site=["A", "B", "A ", "C"] * 50)
    assert notes == (
        "'ill' has 'No' and 'no', 'yes' and 'yes ', which differ only in spaces or case and count as different ones",
        "'site' has 'A' and 'A ', which differ only in spaces or case and count as different ones",
    )
