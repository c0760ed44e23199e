"""Preprocess the features of a table into the matrix that an estimator takes.

XGBoost, LightGBM and CatBoost get missing numbers and categories as they are (`NativeColumns`). Every other classifier
gets a matrix:

* numeric (and the days of dates): missing values become the median, with a column that says so; then mean 0 and
  variance 1.
* categorical (and the months and weekdays of dates): missing is a level of its own. One column for each level that at
  least `MIN_FREQUENCY` rows have, at most `MAX_LEVELS`; rarer levels share a column, and levels never seen join them.
* text: words and word pairs that at least two rows have, weighted by TF-IDF: the `MAX_WORDS` most frequent, or
  `MAX_DENSE_WORDS` for estimators that take no sparse matrix.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as chain
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from holdfast.environments import PerRow
from holdfast.exceptions import TableError
from holdfast.fitting.estimators import BOOSTERS, last_step, library_of
from holdfast.fitting.kinds import Estimator, Network
from holdfast.tables.schema import DATE_PARTS, MAX_LEVELS, MIN_FREQUENCY, TableSchema

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_INDICATOR = "missingindicator_"  # scikit-learn's name of a column that says where another one is missing
SUBJECT_FOLDS = 2  # as many as PI asks about rows out of fold
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
    # One job: on a cluster fits and blocks are the tasks, and joblib would send every transformation there.
    return ColumnTransformer(parts, sparse_threshold=0.0 if dense or not words else 1.0, n_jobs=1)


def _columns(places: Mapping[str, int], names: Sequence[str]) -> slice | list[int]:
    """Return where columns are; neighbors as a slice, which takes no space in a saved model however many they are."""
    found = [places[name] for name in names]
    first, last = found[0], found[-1]
    return slice(first, last + 1) if found == list(range(first, last + 1)) else found


def needs_dense(estimator: Estimator) -> bool:
    """Return whether a classifier takes no sparse matrix; networks get few columns, and so dense ones."""
    inner = last_step(estimator)
    return isinstance(inner, Network) or (inner is not None and not get_tags(inner).input_tags.sparse)


class NativeColumns(TransformerMixin, BaseEstimator):
    """Give the plain features of a table to a booster: numbers with gaps as they are, levels as categories.

    Columns are called x0, x1, …, since boosters refuse some characters in names. A level that fewer than
    `MIN_FREQUENCY` rows have, or that is not among the `MAX_LEVELS` most frequent, counts as rare, and so does one that
    was never seen.

    Parameters
    ----------
    levels : sequence of int
        Places of the columns of levels.
    as_numbers : bool
        Give the number of each level, -1 where it is missing, and not a category: CatBoost takes no missing category.

    Attributes
    ----------
    levels_ : list of list of str
        The levels of each such column, in the order of their numbers; one more number stands for rare ones.
    n_features_in_ : int
    """

    def __init__(self, levels: Sequence[int] = (), *, as_numbers: bool = False) -> None:
        self.levels = levels
        self.as_numbers = as_numbers

    def fit(self, X: Any, y: PerRow = None) -> NativeColumns:
        """Learn the levels of each column."""
        self.n_features_in_ = X.shape[1]
        self.levels_ = []
        for place in self.levels:
            counts = X.iloc[:, place].value_counts()
            frequent = counts[counts >= MIN_FREQUENCY].sort_index().nlargest(MAX_LEVELS)
            self.levels_.append(sorted(map(str, frequent.index)))
        return self

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the features as a frame that a booster takes."""
        import pandas as pd

        check_is_fitted(self)
        known, columns = dict(zip(self.levels, self.levels_, strict=True)), {}
        for place in range(self.n_features_in_):
            column = X.iloc[:, place]
            if place in known:
                numbers = pd.Index(known[place], dtype=object).get_indexer(column)
                numbers[(numbers < 0) & column.notna().to_numpy()] = len(known[place])
                codes = pd.Categorical.from_codes(numbers, categories=pd.RangeIndex(len(known[place]) + 1))
                column = pd.Series(numbers if self.as_numbers else codes, index=X.index)
            columns[f"x{place}"] = column
        return pd.DataFrame(columns, index=X.index)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns."""
        return np.array([f"x{place}" for place in range(self.n_features_in_)], dtype=object)


def with_preprocessing(schema: TableSchema, estimator: Estimator) -> Pipeline:
    """Return the preprocessing of a table's columns and a classifier, both unfitted, as one.

    A booster that does not say itself which columns are categories gets them as they are, unless the table has texts.
    """
    package = library_of(estimator)
    settings = ("feature_types", "cat_features", "categorical_feature")
    if package not in BOOSTERS or schema.names("text") or _any_given(estimator, settings):
        preprocessor = make_preprocessor(schema, dense=needs_dense(estimator))
        return Pipeline([("features", preprocessor), ("classifier", estimator)])
    numeric = {*schema.names("numeric"), *(f"{name} (days)" for name in schema.names("date"))}
    levels = tuple(place for place, name in enumerate(schema.feature_names()) if name not in numeric)
    own: dict[str, dict[str, Any]] = {
        "xgboost": {"enable_categorical": True},
        "catboost": {"cat_features": tuple(f"x{i}" for i in levels)},
    }
    chosen = clone(estimator).set_params(**own.get(package, {}) if levels else {})
    columns = NativeColumns(levels, as_numbers=package == "catboost")
    return Pipeline([("features", columns), ("classifier", chosen)])


def _any_given(estimator: Estimator, names: Sequence[str]) -> bool:
    given = estimator.get_params(deep=False)
    return any(given.get(name) is not None for name in names)


def make_pipeline(schema: TableSchema, method: Any) -> Pipeline:
    """Return the preprocessing of a table's columns and a method, both unfitted.

    The matrix of all columns is computed once, before the method. A method that `reads_columns`, to tell which are
    unstable, gets the columns themselves, and its estimator the preprocessing; texts are columns of words for it. So
    does one around a booster, which takes categories.
    """
    takes_columns = getattr(method, "reads_columns", False) or library_of(method.estimator) in BOOSTERS
    if takes_columns and not schema.names("text"):
        inside = with_preprocessing(schema, method.estimator)
        return Pipeline([("classifier", clone(method).set_params(estimator=inside))])
    preprocessor = make_preprocessor(schema, dense=needs_dense(method.estimator))
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


def _matrix_words(preprocessor: ColumnTransformer) -> list[frozenset[str]]:
    """Return the words of each column of a preprocessed matrix; none where it is no word or phrase of a text."""
    words = [frozenset[str]()] * max(places.stop for places in preprocessor.output_indices_.values())
    for part, step, _ in preprocessor.transformers_:
        if part.startswith("text"):
            phrases = [phrase.split() for phrase in step.get_feature_names_out()]
            words[preprocessor.output_indices_[part]] = [frozenset(f"{part}: {word}" for word in p) for p in phrases]
    return words


def fit_pipeline(
    pipeline: Pipeline,
    X: Any,
    y: NDArray[Any],
    environments: PerRow = None,
    sample_weight: PerRow = None,
    subjects: PerRow = None,
) -> Pipeline:
    """Fit a pipeline whose last step is a method, which alone sees environments, weights and subjects.

    A method that knows folds but no subjects gets the subjects dealt to them.
    """
    method = pipeline[-1]
    given = {"environments": environments}
    if sample_weight is not None:
        given["sample_weight"] = sample_weight
    if subjects is not None:
        known = inspect.signature(method.fit).parameters
        if "subjects" in known:
            given["subjects"] = subjects
        elif "folds" in known:
            given["folds"] = np.unique(subjects, return_inverse=True)[1] % SUBJECT_FOLDS
    try:
        # Outside of metadata routing a keyword goes straight to the step it names, whatever the global setting is.
        with sklearn.config_context(enable_metadata_routing=False):
            if len(pipeline) == 1 or not getattr(method, "reads_columns", False):
                return pipeline.fit(X, y, **{f"{pipeline.steps[-1][0]}__{name}": of for name, of in given.items()})
            rows = pipeline[:-1].fit_transform(X, y)
            method.fit(rows, y, **given, words=_matrix_words(pipeline[-2]))
            return pipeline
    except ValueError as problem:
        if "vocabulary" in str(problem) or "no terms remain" in str(problem):
            raise TableError(
                "A text column has no word that two rows share. Leave it out with drop=, or take it for levels: "
                "do not name it in text=."
            ) from problem
        raise
