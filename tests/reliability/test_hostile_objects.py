"""A saved object is checked after it was decoded: right hashes, allowed types, and numbers or parameters that harm.

Every case has all checksums right. It is loaded in a child, which would die in the place of this process.
"""

import copy
import ctypes
import json
import mmap
import os
import signal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, Sum
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC, SVR, NuSVC
from sklearn.tree import DecisionTreeClassifier

from holdfast.exceptions import HoldfastError, UntrustedFileError
from holdfast.fitting.calibration import Calibration
from holdfast.interpolation.reweight import WeightedEnsemble
from holdfast.neural import NeuralClassifier
from holdfast.saving import codec, models
from holdfast.saving.checks import _CHECKS, check_value
from holdfast.saving.models import load, save
from holdfast.stable.removal import MixedClassifier
from holdfast.tables.classifier import TableClassifier
from holdfast.tables.preprocessing import NativeColumns

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(60, 3)))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=60) > 0.7, 1, 0)
LEVELS = RNG.choice(np.array(["a", "b", "c", "d"], dtype=object), p=[0.6, 0.2, 0.1, 0.1], size=(60, 3))
TEXTS = np.array(["one two three", "two four", "five six one"], dtype=object)
ROWS = np.abs(RNG.normal(size=(20, 3)))


def forge(value, folder, monkeypatch):
    """Save what holdfast would refuse to save."""
    with monkeypatch.context() as patch:
        patch.setattr(models, "check_value", lambda *args, **options: None)
        save(value, folder)


def load_and_use(folder, rows):
    """Return the error's class and message, or that the model was loaded and used."""
    try:
        model = load(folder)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    use(model, rows)
    return "used"


def use(model, rows):
    """Call everything that answers rows; errors are answers, too."""
    for name in ("predict", "predict_proba", "decision_function", "transform", "apply", "decision_path", "kneighbors"):
        try:
            answer = getattr(model, name)(rows)
            answer = answer[0] if isinstance(answer, tuple) else answer
            if sparse.issparse(answer):
                answer.check_format(full_check=True)
                answer @ np.ones(answer.shape[1])
        except Exception:
            continue


def changed(estimator, inside="", **attributes):
    """Return a copy with other attributes; a function changes the one that is there, None deletes it."""
    result = copy.deepcopy(estimator)
    for last, value in attributes.items():
        target = result
        for part in inside.split():
            target = target[int(part)] if part.isdigit() else getattr(target, part)
        if value is None:
            del vars(target)[last]
        else:
            vars(target)[last] = value(vars(target)[last]) if callable(value) else value
    return result


def retree(estimator, **state):
    """Return a copy of a tree whose compiled part is in another state."""
    result = copy.deepcopy(estimator)
    cls, arguments, before = result.tree_.__reduce__()
    result.tree_ = cls(*arguments)
    result.tree_.__setstate__(before | {name: change(before[name]) for name, change in state.items()})
    return result


def edited(array, place, value, field=None):
    """Return a copy of an array with another number in one place."""
    array = np.array(array)
    (array if field is None else array[field])[place] = value
    return array


BINS = KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf").fit(X)
KNN = KNeighborsClassifier(algorithm="brute").fit(X, Y)
SVM = SVC().fit(X, Y)
ONE_HOT = OneHotEncoder(handle_unknown="ignore").fit(LEVELS)
GROUPED = OneHotEncoder(max_categories=3, drop="first").fit(LEVELS)
TWO_AND_MORE = np.column_stack([np.where(LEVELS[:, 0] == "a", "a", "b").astype(object), LEVELS[:, 1]])
MIXED = OneHotEncoder(max_categories=3).fit(TWO_AND_MORE)
WORDS = TfidfVectorizer().fit(TEXTS)
TREE = DecisionTreeClassifier(max_depth=3).fit(X, Y)
FOREST = RandomForestClassifier(3, random_state=0).fit(X, Y)
STAGES = GradientBoostingClassifier(n_estimators=2).fit(X, Y)
BOOSTING = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5, categorical_features=[2]).fit(
    np.c_[X[:, :2], np.arange(60) % 5], np.isin(np.arange(60) % 5, [1, 3])
)
LINEAR = LogisticRegression().fit(X, Y)
NETWORK = MLPClassifier((4,), solver="lbfgs", max_iter=5000, random_state=0).fit(X, Y)
SEARCH = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, Y)


def long(array):
    """Return an array with more rows than it has."""
    return np.concatenate([array] * 1000)


CASES = {  # name: object, rows, part of the message
    "one hot: narrower": (changed(ONE_HOT, _n_features_outs=[1, 1, 1]), LEVELS, "categories that do not add up"),
    "one hot: wider": (changed(ONE_HOT, _n_features_outs=[9, 9, 9]), LEVELS, "categories that do not add up"),
    "one hot: negative": (changed(ONE_HOT, _n_features_outs=[-5, 3, 3]), LEVELS, "categories that do not add up"),
    "one hot: disorder": (
        changed(OneHotEncoder().fit(X[:5]), categories_=lambda found: [column[::-1] for column in found]),
        X[:5],
        "categories in disorder",
    ),
    "one hot: groups": (
        changed(GROUPED, _default_to_infrequent_mappings=lambda found: [edited(found[0], 0, 10**6), *found[1:]]),
        LEVELS,
        "categories out of range",
    ),
    "one hot: groups where there are none": (
        changed(MIXED, _default_to_infrequent_mappings=lambda found: [np.array([10**6, 0]), *found[1:]]),
        TWO_AND_MORE,
        "categories out of range",
    ),
    "one hot: dropped": (
        changed(GROUPED, _drop_idx_after_grouping=lambda found: edited(found, 0, 10**6)),
        LEVELS,
        "a dropped category that is not there",
    ),
    "bins: one hot inside": (
        changed(BINS, "_encoder", _n_features_outs=[1] * 3),
        X,
        "_encoder holds categories that do not add up",
    ),
    "neighbors: short labels": (changed(KNN, _y=lambda y: y[:1]), ROWS, "neighbors without labels"),
    "neighbors: far labels": (changed(KNN, _y=lambda y: y + 10**6), ROWS, "labels that are no class"),
    "neighbors: negative labels": (changed(KNN, _y=lambda y: y - 10**6), ROWS, "labels that are no class"),
    "neighbors: no rows": (changed(KNN, _fit_X=lambda rows: rows[:0]), ROWS, "rows do not add up"),
    "neighbors: few columns": (changed(KNN, _fit_X=lambda rows: rows[:, :1]), ROWS, "rows do not add up"),
    "neighbors: too many": (changed(KNN, n_neighbors=10**6), ROWS, "rows do not add up"),
    "neighbors: NaN": (changed(KNN, _fit_X=lambda rows: rows * np.nan), ROWS, "not finite"),
    "neighbors of a radius": (
        changed(RadiusNeighborsClassifier(9.0, algorithm="brute").fit(X, Y), _y=lambda y: y + 10**6),
        ROWS,
        "labels that are no class",
    ),
    "neighbors: regression": (
        changed(KNeighborsRegressor(algorithm="brute").fit(X, X[:, 0]), _y=lambda y: y * np.inf),
        ROWS,
        "not finite",
    ),
    "hashing: nothing": (changed(HashingVectorizer(), n_features=0), TEXTS, "0 hashed features"),
    "hashing: everything": (changed(HashingVectorizer(), n_features=2**40), TEXTS, "hashed features"),
    "hasher: nothing": (changed(FeatureHasher(input_type="string"), n_features=0), [["a"]], "0 hashed features"),
    "vocabulary: far": (changed(WORDS, vocabulary_=lambda found: {**found, "one": 10**6}), TEXTS, "not numbered"),
    "vocabulary: twice": (
        changed(CountVectorizer().fit(TEXTS), vocabulary_=lambda found: dict.fromkeys(found, 0)),
        TEXTS,
        "not numbered",
    ),
    "vocabulary of dicts": (
        changed(DictVectorizer().fit([{"a": 1, "b": 2}]), vocabulary_={"a": 0, "b": 10**6}),
        [{"a": 1, "b": 2}],
        "not numbered",
    ),
    "svm: negative counts": (changed(SVM, _n_support=lambda n: n * -1), ROWS, "counts do not add up"),
    "svm: large counts": (changed(SVM, _n_support=lambda n: n + 1000), ROWS, "counts do not add up"),
    "svm: one count": (changed(SVM, _n_support=lambda n: n[:1]), ROWS, "counts do not add up"),
    "svm: short coefficients": (changed(SVM, _dual_coef_=lambda c: c[:, :1].copy()), ROWS, "counts do not add up"),
    "svm: few columns": (changed(SVM, support_vectors_=lambda v: v[:, :1].copy()), ROWS, "counts do not add up"),
    "svm: any columns": (changed(SVM, n_features_in_=None), np.zeros((3, 1)), "not a valid fitted SVC"),
    "svm: pairs": (
        changed(NuSVC().fit(X, np.arange(60) % 3), _intercept_=lambda b: b[:1]),
        ROWS,
        "counts do not add up",
    ),
    "svm: regression": (changed(SVR().fit(X, X[:, 0]), _n_support=lambda n: n[:1]), ROWS, "counts do not add up"),
    "svm: another machine": (changed(SVM, _impl="one_class"), ROWS, "a value in the place of '_impl'"),
    "svm: NaN": (changed(SVM, _dual_coef_=lambda c: c * np.nan), ROWS, "not finite"),
    "linear: shape": (changed(LINEAR, coef_=lambda c: c[:, :1]), ROWS, "coefficients for other columns"),
    "linear: classes": (changed(LINEAR, coef_=long), ROWS, "coefficients of other classes"),
    "linear: NaN": (changed(LINEAR, coef_=lambda c: c * np.nan), ROWS, "estimator.coef_ holds weights that are not"),
    "linear: infinite": (changed(LINEAR, intercept_=lambda c: c + np.inf), ROWS, "not finite"),
    "linear: regression": (changed(Ridge().fit(X, X[:, 0]), coef_=lambda c: c[:1]), ROWS, "coefficients for other"),
    "linear: stochastic": (
        changed(SGDClassifier(random_state=0).fit(X, Y), coef_=lambda c: c[:, :1]),
        ROWS,
        "coefficients for other columns",
    ),
    "pipeline: NaN inside": (
        changed(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), "steps 1 1", coef_=np.nan),
        ROWS,
        "not finite",
    ),
    "mlp: NaN": (changed(NETWORK, coefs_=lambda layers: [layer * np.nan for layer in layers]), ROWS, "not finite"),
    "bayes: NaN": (changed(GaussianNB().fit(X, Y), theta_=lambda m: m * np.nan), ROWS, "not finite"),
    "components: NaN": (changed(PCA(2).fit(X), components_=lambda c: c * np.inf), ROWS, "not finite"),
    "factors: columns": (changed(NMF(2, max_iter=999).fit(X), _n_components=50), ROWS, "components of other columns"),
    "centers: columns": (
        changed(KMeans(2, n_init=1).fit(X), cluster_centers_=lambda c: c[:, :1].copy()),
        ROWS,
        "centers of other columns",
    ),
    "classes: more than there are": (changed(FOREST, n_classes_=10**9), ROWS, "another number of classes"),
    "columns: more than memory": (changed(FOREST, n_features_in_=10**12), ROWS, "1000000000000 columns"),
    "reads a file named in the text": (changed(CountVectorizer(), input="filename"), TEXTS, "which reads files"),
    "reads what is open": (changed(WORDS, input="file"), TEXTS, "which reads files"),
    "takes forever": (changed(WORDS, token_pattern=r"(?u)(\w+)+!"), TEXTS, "which could take forever"),
    "keeps files elsewhere": (
        changed(Pipeline([("scale", StandardScaler())]).fit(X), memory="/tmp/elsewhere"),
        ROWS,
        "would read and write files elsewhere",
    ),
    "runs a program": (changed(SEARCH, pre_dispatch="__import__('os').getpid()"), ROWS, "that is a program"),
    "replaces a method": (changed(LINEAR, predict_proba=1), ROWS, "a value in the place of 'predict_proba'"),
}
TREES = {
    "far child": retree(TREE, nodes=lambda nodes: edited(nodes, 0, 10**6, "left_child")),
    "child before its parent": retree(TREE, nodes=lambda nodes: edited(nodes, 0, 0, "left_child")),
    "child of two": retree(TREE, nodes=lambda nodes: edited(nodes, 0, nodes["right_child"][0], "left_child")),
    "negative child": retree(TREE, nodes=lambda nodes: edited(nodes, 0, -7, "left_child")),
    "far column": retree(TREE, nodes=lambda nodes: edited(nodes, 0, 3, "feature")),
    "less depth": retree(TREE, max_depth=lambda depth: 0),
    "endless depth": retree(TREE, max_depth=lambda depth: 2**30),
    "no nodes": retree(TREE, node_count=lambda n: 0),
    "NaN": retree(TREE, values=lambda values: values * np.nan),
    "other columns": changed(TREE, n_features_in_=2),
    "forest of other columns": changed(FOREST, n_features_in_=2),
    "stages of other columns": changed(STAGES, n_features_in_=2),
    "stages of other shape": changed(STAGES, estimators_=lambda stages: np.concatenate([stages] * 9, axis=1)),
    "boosting: column": changed(BOOSTING, "_predictors 0 0", nodes=lambda n: edited(n, 0, 10**6, "feature_idx")),
    "boosting: category": changed(BOOSTING, "_predictors 0 0", raw_left_cat_bitsets=lambda bits: bits[:, :1].copy()),
    "boosting: NaN": changed(BOOSTING, "_predictors 0 0", nodes=lambda n: edited(n, slice(None), np.nan, "value")),
    "boosting: in its fit": changed(BOOSTING, _in_fit=True),
    "boosting: shape": changed(BOOSTING, n_trees_per_iteration_=10**9),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_and_parameters_that_harm_are_refused(name, tmp_path, monkeypatch, in_child):
    """The decoded object is checked; the part is named."""
    value, rows, message = CASES[name]
    forge(value, tmp_path / "model", monkeypatch)
    child = in_child(load_and_use, tmp_path / "model", rows)
    assert child.ended_by == 0
    assert child.text.startswith("UntrustedFileError: ")
    assert f"{tmp_path / 'model'}' was not loaded: estimator" in child.text
    assert message in child.text


@pytest.mark.parametrize("name", TREES)
def test_trees_that_harm_are_refused(name, tmp_path, monkeypatch, in_child):
    """Branches, columns, depth and values of compiled trees are checked."""
    forge(TREES[name], tmp_path / "model", monkeypatch)
    child = in_child(load_and_use, tmp_path / "model", ROWS)
    assert child.ended_by == 0
    assert child.text.startswith("UntrustedFileError: ")


@pytest.mark.parametrize("end", [0, -(10**6)])
def test_sparse_matrices_that_harm_are_refused(end, tmp_path, monkeypatch, in_child):
    """scipy checks no row of a matrix that says it is empty, and reads out of bounds when it is multiplied."""
    projection = SparseRandomProjection(2, random_state=0).fit(X)
    hostile = changed(projection, "components_", indptr=lambda rows: edited(rows, -1, end))
    forge(hostile, tmp_path / "model", monkeypatch)
    child = in_child(load_and_use, tmp_path / "model", ROWS)
    assert child.ended_by == 0
    assert "a sparse matrix whose rows do not add up" in child.text
    with pytest.raises(HoldfastError, match="components_ holds a sparse matrix whose rows do not add up"):
        check_value(hostile, "estimator")


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_networks_with_weights_that_are_not_finite_are_refused(tmp_path, monkeypatch):
    """A NaN among the weights of a network would be a NaN in every answer."""
    import torch

    model = NeuralClassifier(max_epochs=1, steps_per_epoch=1, random_state=0).fit(X.astype(np.float32), Y)
    with torch.no_grad():
        next(model.network_.parameters()).view(-1)[0] = float("nan")
    with pytest.raises(HoldfastError, match="network_ holds weights that are not finite"):
        save(model, tmp_path / "model")
    forge(model, tmp_path / "model", monkeypatch)
    with pytest.raises(HoldfastError, match="was not loaded: estimator.network_ holds weights that are not finite"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", [*CASES, *TREES])
def test_what_is_refused_when_loading_is_refused_when_saving(name, tmp_path):
    """Nobody finds out later."""
    value = CASES[name][0] if name in CASES else TREES[name]
    with pytest.raises(HoldfastError, match=r"\w"):
        save(value, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_file_does_not_start_processes(tmp_path, monkeypatch):
    """`n_jobs` is not part of what was learned: it is None after loading, wherever it stands."""
    transformer = ColumnTransformer([("a", StandardScaler(), [0]), ("b", StandardScaler(), [1, 2])], n_jobs=500)
    model = Pipeline([("columns", transformer), ("neighbors", KNeighborsClassifier(algorithm="brute", n_jobs=500))])
    vars(transformer)["n_jobs"] = 1
    model.fit(X, Y)
    vars(transformer)["n_jobs"] = 500
    forge(model, tmp_path / "model", monkeypatch)
    copied = load(tmp_path / "model")
    assert (copied["columns"].n_jobs, copied["neighbors"].n_jobs) == (None, None)
    vars(transformer)["n_jobs"] = vars(model["neighbors"])["n_jobs"] = None
    assert copied.predict(ROWS).tolist() == model.predict(ROWS).tolist()


def test_a_file_does_not_start_threads(tmp_path):
    """Nor do the threads of k-means come from the file."""
    model = changed(KMeans(2, n_init=1).fit(X), _n_threads=2**31)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model")._n_threads == 1


@pytest.mark.parametrize(
    "vectorizer",
    [
        CountVectorizer(token_pattern=r"(?u)\b\w+\b"),
        TfidfVectorizer(token_pattern=r"[a-z]+[0-9]*"),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)),
        HashingVectorizer(n_features=64),
    ],
    ids=["words", "pattern", "letters", "hashing"],
)
def test_ordinary_vectorizers_pass(vectorizer, tmp_path):
    """What people use is saved and loaded."""
    vectorizer.fit(TEXTS)
    save(vectorizer, tmp_path / "model")
    copied = load(tmp_path / "model")
    assert (copied.transform(TEXTS) != vectorizer.transform(TEXTS)).nnz == 0


ORDINARY = {
    "support vectors": SVM,
    "support vectors, three classes": NuSVC().fit(X, np.arange(60) % 3),
    "support vector regression": SVR().fit(X, X[:, 0]),
    "one machine with probabilities": changed(SVM, _probA=np.array([-1.0]), _probB=np.array([0.0]), probability=True),
    "neighbors": KNN,
    "neighbors, two outputs": KNeighborsClassifier(algorithm="brute").fit(X, np.column_stack([Y, 1 - Y])),
    "neighbors, regression": KNeighborsRegressor(algorithm="brute").fit(X, X[:, 0]),
    "no labels": NearestNeighbors(algorithm="brute").fit(X),
    "one hot": ONE_HOT,
    "one hot, grouped": GROUPED,
    "one hot, some grouped": MIXED,
    "one hot, numbers with NaN": OneHotEncoder().fit(np.where(X[:5] > 1, np.nan, X[:5])),
    "bins": BINS,
    "words": WORDS,
    "tree": TREE,
    "forest": FOREST,
    "stages": STAGES,
    "stages from zero": GradientBoostingClassifier(n_estimators=2, init="zero").fit(X, Y),
    "boosting": BOOSTING,
    "linear, three classes": LogisticRegression().fit(X, np.arange(60) % 3),
    "factors": NMF(2, max_iter=999).fit(X),
    "centers": KMeans(2, n_init=1).fit(X),
    "sparse matrix": SparseRandomProjection(2, random_state=0).fit(X),
    "search": SEARCH,
}


@pytest.mark.parametrize("name", ORDINARY)
def test_what_a_fit_leaves_passes(name):
    """No check refuses an estimator that nobody changed."""
    check_value(copy.deepcopy(ORDINARY[name]), "estimator", loaded=True)


def test_every_check_has_classes_to_look_at():
    """A class that scikit-learn renames does not lose its check unnoticed."""
    from sklearn.utils import all_estimators

    names = {base.__name__ for _, cls in all_estimators() for base in cls.__mro__}
    assert set(_CHECKS) <= names


def fenced(array):
    """Return a copy of an array whose end is the end of readable memory: reading past it kills the process."""
    page = mmap.PAGESIZE
    size = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, size + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + size), page, 0) == 0
    result = np.ndarray(array.shape, array.dtype, memory, offset=size - array.nbytes)
    result[...] = array
    return result


def variations(value):
    """Yield other values for an attribute: shorter, longer, turned, out of range, not finite, of another type."""
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iuf":
        for axis in range(value.ndim):
            yield np.take(value, range(value.shape[axis] - 1), axis=axis)
            yield np.take(value, range(0), axis=axis)
            yield np.concatenate([value] * 50, axis=axis)
        yield value.T.copy()
        yield value.ravel()
        for number in (0, -1, 3, 10**6, -(10**6), 2**31 - 1, np.nan, np.inf):
            for place in (0, -1, ...):
                other = value.copy()
                with np.errstate(all="ignore"):
                    try:
                        (other if place is ... else other.reshape(-1))[place] = number
                    except (ValueError, OverflowError, IndexError):
                        continue
                yield other
        for kind in (np.int32, np.int64, np.float32, np.float64, object):
            with np.errstate(all="ignore"):
                yield value.astype(kind)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        yield from (0, -1, 1, 3, value + 1, 100, 10**6, 2**31, 0.5, None)
    elif isinstance(value, str):
        yield from ("filename", "precomputed", "brute", "auto", "kd_tree", "euclidean", "rbf", "linear", "distance")
    elif type(value) in (list, tuple):
        yield type(value)()
        yield value + value
        for i, part in enumerate(value[:2]):
            yield from (type(value)([*value[:i], other, *value[i + 1 :]]) for other in variations(part))
    elif type(value) is dict:
        yield {}
        for key in list(value)[:2]:
            yield from ({**value, key: other} for other in variations(value[key]))


def places(item, seen=None):
    """Yield every object inside of an estimator that has attributes."""
    seen = set() if seen is None else seen
    if id(item) in seen or isinstance(item, type):
        return
    seen.add(id(item))
    if isinstance(item, dict):
        parts = list(item.values())[:3]
    elif isinstance(item, list | tuple):
        parts = item[:3]
    elif isinstance(item, np.ndarray):
        parts = item.ravel()[:1] if item.dtype == object else ()
    else:
        parts = list(getattr(item, "__dict__", {}).values())
        if hasattr(item, "__dict__"):
            yield item
    for part in parts:
        yield from places(part, seen)


def vary(estimator, rows, first, last):
    """Change one attribute after the other, check, use what passes; return how many were refused and used."""
    signal.alarm(540)
    number, counts = -1, {"refused": 0, "used": 0}
    n_places = len(list(places(estimator)))
    for place in range(n_places):
        owner = list(places(estimator))[place]
        for name in list(vars(owner)):
            for other in variations(vars(owner)[name]):
                number += 1
                if not first <= number < last:
                    continue
                model = copy.deepcopy(estimator)
                vars(list(places(model))[place])[name] = other
                try:
                    check_value(model, "estimator", loaded=True)
                except HoldfastError:
                    counts["refused"] += 1
                    continue
                for item in places(model):
                    for key, value in vars(item).items():
                        if isinstance(value, np.ndarray) and value.dtype.kind in "iufV" and not value.dtype.hasobject:
                            vars(item)[key] = fenced(value)
                use(model, rows)
                counts["used"] += 1
    return json.dumps(counts | {"of": number + 1})


VARIED = {
    "neighbors": (KNN, ROWS),
    "radius": (RadiusNeighborsClassifier(9.0, algorithm="brute").fit(X, Y), ROWS),
    "nearest": (NearestNeighbors(algorithm="brute").fit(X), ROWS),
    "svm": (SVM, ROWS),
    "svr": (SVR().fit(X, X[:, 0]), ROWS),
    "one hot": (ONE_HOT, LEVELS),
    "grouped": (GROUPED, LEVELS),
    "words": (WORDS, TEXTS),
    "hashing": (HashingVectorizer(n_features=64), TEXTS),
    "tree": (TREE, ROWS),
    "forest": (FOREST, ROWS),
    "regression forest": (ExtraTreesRegressor(2, random_state=0).fit(X, X[:, 0]), ROWS),
    "stages": (STAGES, ROWS),
    "boosting": (BOOSTING, ROWS),
    "linear": (LINEAR, ROWS),
    "mlp": (NETWORK, ROWS),
    "factors": (NMF(2, max_iter=999).fit(X), ROWS),
    "centers": (KMeans(2, n_init=1).fit(X), ROWS),
    "projection": (SparseRandomProjection(2, random_state=0).fit(X), ROWS),
}


def run_variations(in_child, names, last):
    """Vary estimators in children; none may die."""
    total = {"refused": 0, "used": 0}
    for name in names:
        child = in_child(vary, *VARIED[name], 0, last)
        assert child.ended_by == 0, f"{name} crashed"
        counts = json.loads(child.text)
        total = {key: total[key] + counts[key] for key in total}
    return total


@pytest.mark.filterwarnings("ignore")
def test_varied_attributes_are_refused_or_harmless(in_child):
    """Attributes of estimators that count in compiled code, changed one by one: no crash, some refused."""
    total = run_variations(in_child, ["neighbors", "one hot", "svm"], 60)
    assert total["refused"] > 5
    assert total["used"] > 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_varied_attributes_are_refused_or_harmless(in_child):
    """The same for every kind of estimator that counts in compiled code, all attributes."""
    total = run_variations(in_child, VARIED, 10**9)
    assert total["refused"] > 800
    assert total["used"] > 4000


TEXT_PIPELINE = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, [0, 1, 1])
SCALED = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
SILENT = {
    "another number of columns": changed(SCALED, "steps 0 1", n_features_in_=0),
    "scales of other columns": changed(SCALED, "steps 0 1", scale_=np.ones(2)),
    "a parameter that is gone": changed(TEXT_PIPELINE, "steps 0 1", binary=None),
    "a parameter of another type": changed(TEXT_PIPELINE, "steps 0 1", ngram_range=5),
    "a class that is gone": changed(SCALED, "steps 1 1", classes_=None),
    "no intercept": changed(LinearRegression().fit(X, Y), intercept_=np.array([])),
    "no steps": changed(SCALED, steps=None),
    "answers that are NaN": changed(BernoulliNB().fit(X, Y), feature_log_prob_=lambda p: p + 9),
}


@pytest.mark.parametrize("name", SILENT)
def test_models_that_cannot_answer_are_refused_when_loaded(name, tmp_path, monkeypatch):
    """Whoever asks an estimator that was loaded gets an answer, not an error about attributes."""
    forge(SILENT[name], tmp_path / "model", monkeypatch)
    with pytest.raises(UntrustedFileError, match="was not loaded: estimator"):
        load(tmp_path / "model")


def test_models_of_ours_that_cannot_answer_are_refused_when_loaded(tmp_path, monkeypatch):
    """Also where the part that fails is inside of one of our methods."""
    from holdfast import StableClassifier

    model = StableClassifier(random_state=0).fit(X, Y, environments=np.arange(60) % 2)
    scaler = next(part for part in places(model.estimator_) if isinstance(part, StandardScaler))
    scaler.n_features_in_ = 0
    forge(model, tmp_path / "model", monkeypatch)
    with pytest.raises(UntrustedFileError, match="was not loaded: estimator cannot predict rows"):
        load(tmp_path / "model")


def test_codes_of_classes_that_are_not_there_are_refused_when_loaded(tmp_path, monkeypatch):
    """Rows of such a class would end in an error about an index, and others not."""
    from holdfast import ERMClassifier

    model = ERMClassifier(LogisticRegression()).fit(X, Y)
    model.estimator_.classes_ = np.array([0, 16384])
    forge(model, tmp_path / "model", monkeypatch)
    with pytest.raises(UntrustedFileError, match="codes of classes that are not there"):
        load(tmp_path / "model")


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
@pytest.mark.parametrize("change", [{"parameters": {"data__row_transform": "x"}}, {"n_features_in": "x"}], ids=str)
def test_networks_that_cannot_answer_are_refused_when_loaded(change, tmp_path, monkeypatch):
    """A text in the place of a function, or of a number of columns."""
    model = NeuralClassifier(max_epochs=1, steps_per_epoch=1, random_state=0).fit(X, Y)
    state, tensors = model.get_state()
    for name, value in change.items():
        state[name] = state[name] | value if isinstance(value, dict) else value
    monkeypatch.setattr(NeuralClassifier, "get_state", lambda self: (state, tensors))
    save(model, tmp_path / "model")
    with pytest.raises(UntrustedFileError, match="cannot predict rows"):
        load(tmp_path / "model")


FAR = X + 5.0  # from the row that loaded models are asked about


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(OneHotEncoder(), LogisticRegression()).fit(LEVELS, Y),
        make_pipeline(OrdinalEncoder(), LogisticRegression()).fit(FAR.round(), Y),
        RadiusNeighborsClassifier(0.5, algorithm="brute").fit(FAR, Y),
        make_pipeline(DictVectorizer(), LogisticRegression()).fit([{"a": i % 3} for i in range(60)], Y),
        make_pipeline(ColumnTransformer([("word", CountVectorizer(), "word")]), Ridge()).fit(
            pd.DataFrame({"word": TEXTS}), [0, 1, 1]
        ),
        make_pipeline(CountVectorizer(vocabulary=["one", "two"]), Ridge()).fit(TEXTS, [0, 1, 1]),
        make_pipeline(NativeColumns(), GaussianNB()).fit(pd.DataFrame(X), Y),
    ],
    ids=lambda model: type(model[0] if isinstance(model, Pipeline) else model).__name__,
)
def test_models_that_refuse_strange_rows_are_loaded(model, tmp_path):
    """A model is not refused because it takes only rows like those of its fit."""
    save(model, tmp_path / "model")
    assert type(load(tmp_path / "model")) is type(model)


def test_answers_that_are_not_numbers_are_an_error():
    """Whatever made them so, NaN probabilities are not handed over as answers."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": np.arange(60) % 2, "ill": Y})
    fitted = TableClassifier(label="ill", environment="site", method="erm").fit(frame)
    assert np.isfinite(fitted.predict_proba(frame)).all()
    for part in places(fitted):
        if "coef_" in vars(part):
            vars(part)["coef_"] = vars(part)["coef_"] * np.nan
    with pytest.raises(HoldfastError, match="predicts NaN or infinity"):
        fitted.predict_proba(frame)


def test_own_classes_are_walked(tmp_path, monkeypatch):
    """What lies inside of an object of ours, a list or a dictionary is checked all the same."""
    from holdfast import ERMClassifier

    model = ERMClassifier(SVC()).fit(X, Y, environments=np.arange(60) % 2)
    inside = [name for name, value in vars(model).items() if isinstance(value, SVC) and hasattr(value, "support_")]
    assert inside
    vars(model)[inside[0]] = changed(getattr(model, inside[0]), _n_support=lambda n: -n)
    with pytest.raises(HoldfastError, match=f"estimator.{inside[0]} holds support vectors"):
        save(model, tmp_path / "model")
    forge(model, tmp_path / "model", monkeypatch)
    with pytest.raises(HoldfastError, match=f"was not loaded: estimator.{inside[0]} holds support vectors"):
        load(tmp_path / "model")
    assert codec.saved_name(type(model)) == "ERMClassifier"


def nested(depth, wrap, start):
    """Return an object that holds another one twice, which does the same, and so on."""
    for _ in range(depth):
        start = wrap(start)
    return start


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (CountVectorizer(token_pattern="a?" * 40 + "a" * 40), "could take forever"),
        (CountVectorizer(token_pattern=r"\\+" * 10 + "x"), "could take forever"),
        (CountVectorizer(ngram_range=(1, 10**9)), "n-grams of over 100 words"),
        (GaussianProcessClassifier(nested(60, lambda k: Sum(k, k), RBF())), "inside each other without end"),
        (nested(60, lambda m: VotingClassifier([("a", m), ("b", m)]), Ridge()), "inside each other without end"),
    ],
    ids=["optional signs", "escaped signs", "n-grams", "kernels", "ensembles"],
)
def test_what_would_never_end_is_refused(value, message):
    """Patterns, n-grams and parts that are shared, whose cost doubles with each level, are refused at once."""
    with pytest.raises(UntrustedFileError, match=message):
        check_value(value, "model")


def test_parts_may_be_shared_and_patterns_have_options():
    """What does end is not refused."""
    check_value(nested(4, lambda m: VotingClassifier([("a", m), ("b", m)]), Ridge()), "model")
    check_value(CountVectorizer(token_pattern=r"(?u)\b\w+'?[+*?a-z]*\b", ngram_range=(1, 5)), "model")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Calibration(np.nan, np.zeros(2)), "scale"),
        (Calibration(1.0, np.array([np.inf, 0.0])), "offsets"),
        (MixedClassifier([], [], [np.nan], Calibration(1.0, np.zeros(2))), "weights"),
        (WeightedEnsemble([], np.array([np.nan]), 2), "weights"),
    ],
)
def test_parts_of_ours_have_finite_weights_too(value, place):
    """A NaN in what mixes or calibrates answers would be a NaN in every answer."""
    with pytest.raises(UntrustedFileError, match=f"^model.{place} holds weights that are not finite.$"):
        check_value(value, "model")


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_a_saved_network_starts_no_workers(tmp_path, monkeypatch):
    """However many processes its file asks for."""
    model = NeuralClassifier(max_epochs=1, steps_per_epoch=1, random_state=0).fit(X, Y)
    plain = NeuralClassifier.get_state

    def asking(self):
        state, tensors = plain(self)
        return {**state, "parameters": {**state["parameters"], "data__n_workers": 500}}, tensors

    monkeypatch.setattr(NeuralClassifier, "get_state", asking)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").data__n_workers == 0
