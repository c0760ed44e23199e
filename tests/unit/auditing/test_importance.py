from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from holdfast.auditing.importance import relied_on, word_importance
from holdfast.exceptions import FeaturesError, ParameterError


class FollowsColumn(ClassifierMixin, BaseEstimator):
    """Predicts the value of one column."""

    def __init__(self, column: int = 0) -> None:
        self.column = column

    def predict(self, X: object) -> np.ndarray:
        """Return the column as labels."""
        values = X.toarray() if sp.issparse(X) else np.asarray(X)
        return values[:, self.column].astype(int)


ROWS = np.array([[0, 1], [1, 0], [0, 0], [1, 1]] * 50)


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "sparse"])
def test_shuffling_hurts_the_column_a_classifier_uses(kind: str) -> None:
    """Half of the predictions change with the column that is followed, none with the other."""
    X = {
        "array": ROWS,
        "pandas": pd.DataFrame(ROWS, columns=["x0", "x1"], index=np.arange(200)[::-1]),
        "polars": pl.DataFrame(ROWS, schema=["x0", "x1"]),
        "sparse": sp.csr_array(ROWS),
    }[kind]
    found = relied_on({"ERM": FollowsColumn(1), "PI": FollowsColumn(0)}, X, ROWS[:, 0])
    frame = found.to_frame().set_index("feature")
    assert frame.loc["x0", "PI: fall"] == pytest.approx(0.5, abs=0.07)
    assert frame.loc["x0", "ERM: changed"] == 0.0
    assert frame.loc["x1", "PI: fall"] == 0.0
    assert frame.loc["x1", "ERM: changed"] == pytest.approx(0.5, abs=0.07)
    assert found.accuracies.tolist() == [0.5, 1.0]
    assert found.features == ("x0", "x1")
    assert found.n_rows.tolist() == [200, 200]


def test_columns_of_a_group_are_shuffled_together() -> None:
    """A classifier that compares two columns does not notice when both move; an unknown column is refused."""

    class Compares(FollowsColumn):
        def predict(self, X: object) -> np.ndarray:
            return (np.asarray(X)[:, 0] == np.asarray(X)[:, 1]).astype(int)

    X = np.column_stack([ROWS[:, 0], ROWS[:, 0]])
    labels = np.ones(len(X), dtype=int)
    together = relied_on({"f": Compares()}, X, labels, groups={"both": ["x0", "x1"]})
    assert (together.features, together.falls.tolist()) == (("both",), [[0.0]])
    assert relied_on({"f": Compares()}, X, labels).falls.min() > 0.3
    with pytest.raises(FeaturesError, match="X has no column 'x7'"):
        relied_on({"f": Compares()}, X, labels, groups={"both": ["x0", "x7"]})


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_words_of_a_text_column_are_taken_out(library: object) -> None:
    """In a table with a text column its words are features beside the columns; words that no row has are left out."""

    class Reads(FollowsColumn):
        def predict(self, X: object) -> np.ndarray:
            return np.array(["good" in text for text in list(X["note"])]).astype(int)

    labels = ROWS[:, 0]
    frame = library.DataFrame({"note": ["good ale" if y else "an ale" for y in labels], "age": ROWS[:, 1].tolist()})
    found = relied_on({"f": Reads()}, frame, labels, words={"note": ["Good", "ale", "stout"]})
    falls = dict(zip(found.features, found.falls[:, 0].tolist(), strict=True))
    assert set(falls) == {"note", "age", "note: good", "note: ale"}
    assert (falls["note: good"], falls["note: ale"], falls["age"]) == (0.5, 0.0, 0.0)
    assert dict(zip(found.features, found.n_rows.tolist(), strict=True))["note: good"] == 100


def test_data_are_left_alone() -> None:
    """Shuffling works on copies."""
    X = ROWS.copy()
    relied_on({"f": FollowsColumn()}, X, ROWS[:, 0])
    assert np.array_equal(X, ROWS)


def texts() -> tuple[list[str], np.ndarray]:
    """Return texts whose first word tells the label to a careless reader."""
    y = np.array([0, 1] * 30)
    return [f"{'<art_positive>' if label else '<art_negative>'} a {'fine' if label else 'poor'} beer" for label in y], y


def test_words_are_taken_out_where_they_occur() -> None:
    """The classifier of marker words changes its mind without them, the one of adjectives does not."""
    X, y = texts()
    careless = make_pipeline(CountVectorizer(vocabulary=["art_positive"]), LogisticRegression()).fit(X, y)
    careful = make_pipeline(CountVectorizer(vocabulary=["fine"]), LogisticRegression()).fit(X, y)
    found = relied_on({"ERM": careless, "PI": careful}, X, y)
    frame = found.to_frame().set_index("feature")
    assert frame.loc["<art_positive>", ["ERM: fall", "PI: fall"]].tolist() == [0.5, 0.0]
    assert frame.loc["fine", ["ERM: fall", "PI: fall"]].tolist() == [0.0, 0.5]
    assert frame.loc["<art_positive>", "n_rows"] == 30
    assert "beer" not in found.features  # in every text


def test_chosen_words_only() -> None:
    """Words can be named; those that do not occur are left out."""
    X, y = texts()
    careful = make_pipeline(CountVectorizer(vocabulary=["fine"]), LogisticRegression()).fit(X, y)
    assert relied_on({"PI": careful}, X, y, features=["Fine", "beer", "wine"]).features == ("fine", "beer")
    with pytest.raises(FeaturesError, match="none of the words occurs"):
        relied_on({"PI": careful}, X, y, features=["wine"])


def test_word_importance_of_one_text() -> None:
    """Only the word a classifier uses lowers the probability of its prediction."""
    X, y = texts()
    careless = make_pipeline(CountVectorizer(vocabulary=["art_positive"]), LogisticRegression()).fit(X, y)
    careful = make_pipeline(CountVectorizer(vocabulary=["fine"]), LogisticRegression()).fit(X, y)
    found = word_importance({"ERM": careless, "PI": careful}, "<art_positive> a poor beer")
    assert found.words == ("<art_positive>", "a", "poor", "beer")
    assert found.predictions == ("1", "0")
    assert found.drops[0, 0] > 0.5
    assert found.drops[1:, 0].tolist() == [0, 0, 0]
    assert found.drops[:, 1].tolist() == [0, 0, 0, 0]
    with pytest.raises(FeaturesError, match="no words"):
        word_importance({"PI": careful}, " ? ")


@pytest.mark.parametrize(
    ("X", "features", "error", "message"),
    [
        (ROWS, ["x7"], FeaturesError, "X has no column 'x7'. Its columns are x0, x1"),
        (ROWS[:5], None, FeaturesError, "X has 5 rows where y has 200"),
    ],
)
def test_unusable_rows_are_refused(
    X: np.ndarray, features: list[str] | None, error: type[Exception], message: str
) -> None:
    """Errors say what was asked and what came."""
    with pytest.raises(error, match=message):
        relied_on({"f": FollowsColumn()}, X, ROWS[:, 0], features=features)


def test_no_estimators_are_refused() -> None:
    """There must be something to compare."""
    with pytest.raises(ParameterError, match="at least one fitted classifier"):
        relied_on({}, ROWS, ROWS[:, 0])
