"""From the plain features of a table to the matrix a classifier takes.

Parts of scikit-learn only, with nothing of our own inside, so that a fitted transformer can be saved safely.

* numeric (and the days of dates): missing values become the median, with a column that says so; then mean 0 and
  variance 1.
* categorical (and the months and weekdays of dates): missing is a level of its own. One column for each level that at
  least `MIN_FREQUENCY` rows have, at most `MAX_LEVELS`; rarer levels share a column, and levels never seen join them.
* text: words and word pairs that at least two rows have, weighted by TF-IDF: the `MAX_WORDS` most frequent, or
  `MAX_DENSE_WORDS` for estimators that take no sparse matrix.
"""

from __future__ import annotations

from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from holdfast.tables.schema import DATE_PARTS, TableSchema

MIN_FREQUENCY = 5
MAX_LEVELS = 100
MAX_WORDS = 20_000
MAX_DENSE_WORDS = 300


def make_preprocessor(schema: TableSchema, *, dense: bool = False) -> ColumnTransformer:
    """Return an unfitted transformer of `schema.features(frame)`.

    Parameters
    ----------
    schema : TableSchema
        The columns.
    dense : bool
        Whether the estimator takes no sparse matrix. Without text columns the result is dense in any case.
    """
    dates = schema.names("date")
    numbers = schema.names("numeric") + [f"{name} (days)" for name in dates]
    levels = schema.names("categorical") + [f"{name} ({part})" for name in dates for part in DATE_PARTS]
    words = schema.names("text")
    parts: list[tuple[str, Any, Any]] = []
    if numbers:
        scale = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
        parts.append(("numeric", scale, numbers))
    if levels:
        encode = make_pipeline(
            SimpleImputer(strategy="constant", fill_value="missing"),
            OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=MIN_FREQUENCY, max_categories=MAX_LEVELS),
        )
        parts.append(("categorical", encode, levels))
    for place, name in enumerate(words):
        n_words = MAX_DENSE_WORDS if dense else MAX_WORDS
        count = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=n_words, sublinear_tf=True)
        parts.append((f"text {place}", count, name))
    return ColumnTransformer(parts, sparse_threshold=0.0 if dense or not words else 1.0)
