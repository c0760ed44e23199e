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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as chain
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags

from holdfast.exceptions import TableError
from holdfast.learners import last_step
from holdfast.tables.roles import DATE_PARTS, TableSchema

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INDICATOR = "missingindicator_"  # scikit-learn's name of a column that says where another one is missing
MIN_FREQUENCY = 5
MAX_LEVELS = 100
MAX_WORDS = 20_000
MAX_DENSE_WORDS = 300


def make_preprocessor(schema: TableSchema, *, dense: bool = False) -> ColumnTransformer:
    """Return an unfitted transformer of `schema.features(frame)`.

    `dense` is for estimators that take no sparse matrix. Without text columns the result is dense in any case.
    """
    places = {name: place for place, name in enumerate(schema.feature_names())}  # scikit-learn is slow with names
    dates = schema.names("date")
    numbers = schema.names("numeric") + [f"{name} (days)" for name in dates]
    levels = schema.names("categorical") + [f"{name} ({part})" for name in dates for part in DATE_PARTS]
    words = schema.names("text")
    parts: list[tuple[str, Any, Any]] = []
    if numbers:
        scale = chain(SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler())
        parts.append(("numeric", scale, _columns(places, numbers)))
    if levels:
        encode = chain(
            SimpleImputer(strategy="constant", fill_value="missing", keep_empty_features=True),
            OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=MIN_FREQUENCY, max_categories=MAX_LEVELS),
        )
        parts.append(("categorical", encode, _columns(places, levels)))
    for place, name in enumerate(words):
        n_words = MAX_DENSE_WORDS if dense else MAX_WORDS
        count = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=n_words, sublinear_tf=True)
        parts.append((f"text {place}", count, places[name]))
    return ColumnTransformer(parts, sparse_threshold=0.0 if dense or not words else 1.0)


def _columns(places: Mapping[str, int], names: Sequence[str]) -> slice | list[int]:
    """Return where columns are; neighbors as a slice, which takes no space in a saved model however many they are."""
    found = [places[name] for name in names]
    first, last = found[0], found[-1]
    return slice(first, last + 1) if found == list(range(first, last + 1)) else found


def needs_dense(estimator: Any) -> bool:
    """Return whether a classifier takes no sparse matrix; networks get few columns, and so dense ones."""
    inner = last_step(estimator)
    return hasattr(inner, "fit_groups") or (inner is not None and not get_tags(inner).input_tags.sparse)


def make_pipeline(schema: TableSchema, method: Any) -> Pipeline:
    """Return the preprocessing of a table's columns and a method, both unfitted.

    The matrix of all columns is computed once, before the method. A method that `reads_columns`, to tell which are
    unstable, gets the columns themselves, and its estimator the preprocessing; texts are columns of words for it.
    """
    preprocessor = make_preprocessor(schema, dense=needs_dense(method.estimator))
    if getattr(method, "reads_columns", False) and not schema.names("text"):
        inside = Pipeline([("features", preprocessor), ("classifier", method.estimator)])
        return Pipeline([("classifier", clone(method).set_params(estimator=inside))])
    return Pipeline([("features", preprocessor), ("classifier", method)])


def matrix_names(preprocessor: ColumnTransformer, schema: TableSchema) -> list[str]:
    """Return what the columns of a preprocessed matrix are: `age`, `age is missing`, `scanner=B`, `note: pain`."""
    names: list[str] = []
    texts = dict(enumerate(schema.names("text")))
    for part, step, _ in preprocessor.transformers_:
        if part.startswith("text"):
            names += [f"{texts[int(part.split()[1])]}: {word}" for word in step.get_feature_names_out()]
        elif part == "numeric":
            found = step[:1].get_feature_names_out()
            names += [f"{n.removeprefix(_INDICATOR)} is missing" if n.startswith(_INDICATOR) else n for n in found]
        elif part == "categorical":
            encoder = step[-1]
            levels_of = zip(encoder.categories_, encoder.infrequent_categories_, strict=True)
            for name, (levels, rare) in zip(step[0].get_feature_names_out(), levels_of, strict=True):
                # The rare levels share a column, after the others.
                few = () if rare is None else set(rare)
                names += [f"{name}={level}" for level in levels if level not in few] + [f"{name}=rare"] * bool(few)
    return names


def fit_pipeline(pipeline: Pipeline, X: Any, y: NDArray[Any], environments: Any = None) -> Pipeline:
    """Fit a pipeline whose last step is a method, which alone sees the environments."""
    try:
        # Outside of metadata routing a keyword goes straight to the step it names, whatever the global setting is.
        with sklearn.config_context(enable_metadata_routing=False):
            return pipeline.fit(X, y, **{f"{pipeline.steps[-1][0]}__environments": environments})
    except ValueError as problem:
        if "vocabulary" in str(problem) or "no terms remain" in str(problem):
            raise TableError(
                "A text column has no word that two rows share. Leave it out with drop=, or take it for levels: "
                "do not name it in text=."
            ) from problem
        raise
