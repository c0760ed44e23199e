"""Networks as scikit-learn estimators."""

import json
import pickle  # noqa: S403  (what scikit-learn's users do with estimators; nothing is read from a file)

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from holdfast.datasets.colored_digits import ColoredImages
from holdfast.environments import Environment, Group
from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import (
    EnvironmentsError,
    FeaturesError,
    InputTypeError,
    LabelsError,
    ParameterError,
    SavedModelError,
)
from holdfast.neural.estimator import NeuralClassifier, NeuralRegressor
from holdfast.neural.networks import NETWORKS, register_network
from holdfast.neural.sources import Vocabulary

FAST = {"max_epochs": 2, "steps_per_epoch": 25, "learning_rate": 0.05, "random_state": 0}
# A row of weight 2 is drawn twice as often and sees one dropout mask, two copies see two: equal on average only.
DRAWN = "rows are drawn by weight, so weighting equals repeating on average only"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": DRAWN,
    "check_sample_weight_equivalence_on_sparse_data": DRAWN,
}


@parametrize_with_checks(
    [NeuralClassifier(**FAST), NeuralRegressor(**FAST)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it(estimator, check):
    """Every check of scikit-learn's contract."""
    check(estimator)


def rows(n=120, seed=0):
    """Return rows whose first column decides the label."""
    X = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return X, np.where(X[:, 0] > 0, "yes", "no")


X, Y = rows()
GROUPS = [Group("a", np.arange(60)), Group("b", np.arange(60, 120))]


@pytest.mark.parametrize(
    "container",
    [
        lambda X: X,
        lambda X: X.astype(np.float64).tolist(),
        lambda X: pd.DataFrame(X, columns=["p", "q", "r"]),
        lambda X: pl.DataFrame(X, schema=["p", "q", "r"]),
        sp.csr_array,
        torch.from_numpy,
    ],
    ids=["array", "list", "pandas", "polars", "sparse", "tensor"],
)
def test_any_container_of_numbers_gives_the_same_classifier(container):
    """Arrays, frames, sparse rows and tensors train to the same probabilities."""
    expected = NeuralClassifier(**FAST).fit(X, Y).predict_proba(X)
    found = NeuralClassifier(**FAST).fit(container(X), Y).predict_proba(container(X))
    assert found == pytest.approx(expected, abs=1e-6)


def test_images_and_bytes():
    """N-d rows reach the cnn; 8-bit images train like the same images in [0, 1]."""
    images = np.random.default_rng(0).integers(0, 256, size=(40, 2, 8, 8), dtype=np.uint8)
    y = np.arange(40) % 2
    images[y == 0] //= 4
    settings = FAST | {"learning_rate": 0.001}
    bytes_ = NeuralClassifier("cnn", **settings).fit(images, y)
    shares = NeuralClassifier("cnn", **settings).fit((images / 255).astype(np.float32), y)
    assert bytes_.predict_proba(images) == pytest.approx(shares.predict_proba(images / 255), abs=1e-4)
    with pytest.raises(FeaturesError, match=r"X has rows of shape \(2, 8, 9\), but \(2, 8, 8\) were fitted"):
        bytes_.predict(np.zeros((1, 2, 8, 9)))


class Bag(nn.Module):
    """The mean word vector, then a linear layer."""

    def __init__(self, *, input_shape, n_classes, dropout=0.0, vectors=None):
        super().__init__()
        self.words = nn.EmbeddingBag(input_shape[0], 8, padding_idx=0)
        if vectors is not None:
            self.words = nn.EmbeddingBag.from_pretrained(vectors, padding_idx=0)
        self.classifier = nn.Linear(self.words.embedding_dim, n_classes)

    def forward(self, inputs):
        """Return the logits."""
        return self.classifier(self.words(inputs))


if "bag of the tests" not in NETWORKS:
    register_network("bag of the tests")(Bag)
TEXTS = ["good beer", "bad beer", "very good", "very bad", "good", "bad"] * 5
STARS = [1, 0] * 15


def test_texts_and_their_vocabulary():
    """Words become numbers; unknown words at prediction are unknown, not an error; token lists are texts."""
    classifier = NeuralClassifier("bag of the tests", **FAST).fit(TEXTS, STARS)
    assert classifier.vocabulary_.tokens == ("bad", "beer", "good", "very")
    assert classifier.predict(["a good ale", "bad", ""])[:2].tolist() == [1, 0]
    split = NeuralClassifier("bag of the tests", **FAST).fit([text.split() for text in TEXTS], STARS)
    assert split.predict_proba(TEXTS) == pytest.approx(classifier.predict_proba(TEXTS))
    few = NeuralClassifier("bag of the tests", data__min_count=11, **FAST).fit(TEXTS, STARS)
    assert few.vocabulary_.tokens == ("bad", "good")
    given = NeuralClassifier("bag of the tests", data__vocabulary=Vocabulary(("good",)), **FAST).fit(TEXTS, STARS)
    assert given.network_.words.num_embeddings == 3
    with pytest.raises(FeaturesError, match="was fitted on texts. Got ndarray instead"):
        classifier.predict(X)


def test_texts_and_numbers_are_not_confused():
    """A network of numbers refuses texts and a text network numbers, and each message names networks that fit."""
    with pytest.raises(
        FeaturesError, match=r"X contains texts, but network 'mlp' reads numbers. Use one of .*'text_cnn'"
    ):
        NeuralClassifier(**FAST).fit(TEXTS, STARS)
    with pytest.raises(
        FeaturesError, match=r"X contains numbers, but network 'text_cnn' reads texts. Use one of .*'mlp'"
    ):
        NeuralClassifier("text_cnn", **FAST).fit(X, Y)


def test_fixed_word_vectors_are_used():
    """network__vectors=… fixes the words' vectors in the order of the vocabulary."""
    vectors = {"good": np.array([1.0, 0.0]), "bad": np.array([0.0, 1.0])}
    classifier = NeuralClassifier("bag of the tests", network__vectors=vectors, **FAST).fit(TEXTS, STARS)
    assert classifier.network_.words.weight[2].tolist() == [0.0, 1.0]  # "bad" comes first
    restored = NeuralClassifier.from_state(*classifier.get_state())
    assert restored.predict_proba(TEXTS) == pytest.approx(classifier.predict_proba(TEXTS))


def test_a_users_network_works_with_every_objective():
    """A callable that returns a plain module needs no features()."""
    for objective in ("erm", "pooled", "balanced", "max", "online", "irm", "vrex", "rgm"):
        classifier = NeuralClassifier(lambda: nn.Linear(3, 2), **FAST)
        assert classifier.fit_groups(X, Y, GROUPS, objective=objective).score(X, Y) > 0.85


def test_labels_and_codes_give_the_same_network():
    """fit_groups learns from labels as from their codes; predictions come back in the caller's own."""
    labels = NeuralClassifier(**FAST).fit_groups(X, Y, GROUPS, objective="max")
    codes = NeuralClassifier(**FAST).fit_groups(X, (Y == "yes").astype(int), GROUPS, objective="max")
    assert np.array_equal(labels.predict_proba(X), codes.predict_proba(X))
    assert labels.predict(X).tolist() == ["yes" if code else "no" for code in codes.predict(X)]


def test_sample_weight_decides_what_is_drawn():
    """Rows of weight zero teach nothing: with the upper half silent, the labels of the lower half win."""
    y = np.where(np.arange(120) < 60, Y, np.where(Y == "yes", "no", "yes"))
    weights = np.where(np.arange(120) < 60, 1.0, 0.0)
    classifier = NeuralClassifier(**FAST).fit(X, y, sample_weight=weights)
    assert (classifier.predict(X) == Y).mean() > 0.9


def test_validation_selects_the_epoch():
    """Validation rows may bring group labels; labels are crossed with them."""
    validation = (*rows(seed=1), np.arange(120) % 2)
    classifier = NeuralClassifier(training__selection="worst_group_validation", **FAST).fit(X, Y, validation=validation)
    names = set(classifier.selected_.scores.validation_group_scores)
    assert names == {f"y={label}, group={group}" for label in ("no", "yes") for group in (0, 1)}
    environments = [Environment("a", np.arange(60)), Environment("b", np.arange(60, 120))]
    judge = NeuralClassifier(**FAST).fit_groups(
        X, Y, GROUPS[:1], objective="erm", environments=environments, selection="other_environments"
    )
    accuracy = (judge.predict(X[60:]) == Y[60:]).mean()
    assert judge.selected_.scores.other_environments_score == pytest.approx(accuracy)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"validation": X}, InputTypeError, r"validation must be \(X, y\), \(X, y, group_labels\), .*Got ndarray"),
        ({"validation": (X, np.full(120, "maybe"))}, LabelsError, "validation has labels that do not occur in.*maybe"),
        ({"validation": (X, Y[:5])}, LabelsError, r"y has shape \(5,\) for 120 rows"),
        ({"validation": (X, Y, [1])}, EnvironmentsError, "validation's group_labels has 1 labels for 120 rows"),
        ({"selection": "validation_accuracy"}, ParameterError, "needs validation rows"),
        ({"selection": "other_environments"}, ParameterError, "needs other training environments"),
    ],
)
def test_bad_validation_is_refused(arguments, error, message):
    """Every mistake has its own message."""
    with pytest.raises(error, match=message):
        NeuralClassifier(**FAST).fit_groups(X, Y, GROUPS, objective="erm", **arguments)


def test_bad_parameters_are_refused_in_fit():
    """The constructor stores; fit complains."""
    with pytest.raises(ParameterError, match=r"'network__dropout' parameter must be in \[0, 1\). Got 1.5 instead"):
        NeuralClassifier(network__dropout=1.5).fit(X, Y)
    with pytest.raises(LabelsError, match="y has one class only"):
        NeuralClassifier().fit(X, np.zeros(120))
    with pytest.raises(LabelsError, match="Input y contains NaN or None"):
        NeuralClassifier().fit(X, np.where(np.arange(120) == 3, np.nan, 1.0))


def test_estimator_habits():
    """clone, pickle, pipelines and grid search work; a refit equals a fresh fit."""
    fitted = NeuralClassifier(**FAST).fit(X, Y)
    assert np.array_equal(clone(fitted).fit(X, Y).predict_proba(X), fitted.predict_proba(X))
    before = fitted.predict_proba(X)
    assert np.array_equal(fitted.fit(X, Y).predict_proba(X), before)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), before)  # noqa: S301
    pipeline = make_pipeline(StandardScaler(), NeuralClassifier(**FAST))
    search = GridSearchCV(pipeline, {"neuralclassifier__weight_decay": [0.0, 0.01]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.8


def test_prediction_in_chunks_is_the_same(monkeypatch):
    """More rows than a chunk holds give what each chunk alone gives."""
    classifier = NeuralClassifier(**FAST).fit(X, Y)
    whole = classifier.predict_proba(X)
    monkeypatch.setattr("holdfast.neural.evaluation._CHUNK_VALUES", 1)  # chunks of the smallest size, 64
    assert np.allclose(classifier.predict_proba(X), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("y", [Y, np.arange(120) % 3, (np.arange(120) % 2).astype(bool), Y.astype(object)])
def test_state_without_pickle_restores_everything(y):
    """JSON and tensors are enough: same predictions, classes, parameters, selection and history."""
    frame = pd.DataFrame(X, columns=["p", "q", "r"])
    fitted = NeuralClassifier(network__hidden=(6, 5), **FAST).fit(frame, y, validation=(frame, y))
    state, tensors = fitted.get_state()
    restored = NeuralClassifier.from_state(json.loads(json.dumps(state)), tensors)
    assert np.array_equal(restored.predict_proba(frame), fitted.predict_proba(frame))
    assert np.array_equal(restored.predict(frame), fitted.predict(frame))
    assert restored.classes_.dtype == fitted.classes_.dtype
    assert restored.feature_names_in_.tolist() == ["p", "q", "r"]
    assert (restored.history_, restored.selected_.scores) == (fitted.history_, fitted.selected_.scores)
    assert restored.get_params() == {**fitted.get_params(), "network__hidden": [6, 5]}


def test_state_of_a_regressor():
    """The regressor is restored as well."""
    fitted = NeuralRegressor(**FAST).fit(X, X[:, 0])
    assert np.array_equal(NeuralRegressor.from_state(*fitted.get_state()).predict(X), fitted.predict(X))


def test_what_cannot_be_saved_says_what_to_do():
    """Code does not go into files; unknown networks and foreign weights are refused when loading."""
    with pytest.raises(
        SavedModelError, match="register a network by name with holdfast.neural.networks.register_network"
    ):
        NeuralClassifier(lambda: nn.Linear(3, 2), **FAST).fit(X, Y).get_state()
    state, tensors = NeuralClassifier(**FAST).fit(X, Y).get_state()
    unknown = state | {"parameters": state["parameters"] | {"network": "mine"}}
    with pytest.raises(SavedModelError, match="network is 'mine', which is not registered here"):
        NeuralClassifier.from_state(unknown, tensors)
    with pytest.raises(SavedModelError, match="The saved weights do not fit network 'mlp'"):
        NeuralClassifier.from_state(state, {})
    with pytest.raises(SavedModelError, match="format 9; this version reads formats 1 to 2"):
        NeuralClassifier.from_state(state | {"format": 9}, tensors)


def test_training_from_a_memory_map_equals_training_from_memory(tmp_path):
    """Rows on disk are drawn by number."""
    np.save(tmp_path / "rows.npy", X)
    on_disk = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = NeuralClassifier(**FAST).fit(on_disk, Y).predict_proba(on_disk)
    assert np.array_equal(found, NeuralClassifier(**FAST).fit(X, Y).predict_proba(X))


def test_losses_by_name_and_callable():
    """Noise-robust, smoothed and own losses train."""
    for loss in ("gce", "smoothed", lambda logits, y: torch.nn.functional.cross_entropy(logits, y, reduction="none")):
        assert NeuralClassifier(loss=loss, **FAST).fit(X, Y).score(X, Y) > 0.9
    with pytest.raises(ParameterError, match="'loss' parameter must be one of"):
        NeuralClassifier(loss="hinge").fit(X, Y)


def test_regressor_minimizes_the_worst_group():
    """Two groups with targets 0 and 1 at the same x: the worst-case optimum is the middle, the mean is not."""
    X = np.zeros((120, 1), dtype=np.float32)
    y = np.where(np.arange(120) < 20, 0.0, 1.0)
    groups = [Group("few", np.arange(20)), Group("many", np.arange(20, 120))]
    settings = {"max_epochs": 6, "learning_rate": 0.02, "scheduler": "cosine", "random_state": 0}
    worst = NeuralRegressor("linear", **settings).fit_groups(X, y, groups, objective="max")
    pooled = NeuralRegressor("linear", **settings).fit_groups(X, y, groups, objective="pooled")
    assert worst.predict(X[:1])[0] == pytest.approx(0.5, abs=0.03)
    assert pooled.predict(X[:1])[0] == pytest.approx(5 / 6, abs=0.05)


class Watched(ColoredImages):
    """Images that must not become dense as a whole."""

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("made dense as a whole")

    def __getitem__(self, key):
        part = super().__getitem__(key)
        return Watched(part.images, part.colors, part.n_colors)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")
def test_lazy_images_go_through_all_three_stages():
    """Colored images reach every network of PI in batches and give the classifier of the same dense images."""
    generator = np.random.default_rng(0)
    colors = generator.integers(2, size=60)
    lazy = Watched(generator.integers(0, 255, size=(60, 8, 8), dtype=np.uint8), colors, 2)
    y = np.where(generator.random(60) < 0.8, colors, 1 - colors)
    places = np.arange(60) % 2
    found, expected = (
        PIClassifier(NeuralClassifier("cnn", **FAST | {"learning_rate": 0.002}), n_folds=0, random_state=0)
        .fit(images, y, environments=places, validation=(images, y))
        .predict_proba(images)
        for images in (lazy, lazy.dense(slice(None)))
    )
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_saved_network_does_not_need_the_weights_it_started_from():
    """The file that pretrained weights came from is not among the saved options."""
    classifier = NeuralClassifier("bag of the tests", **FAST).fit(TEXTS, STARS)
    classifier.network__weights = "gone.pth"
    state, tensors = classifier.get_state()
    assert state["network_options"] == {}
    assert NeuralClassifier.from_state(state, tensors).predict(TEXTS).tolist() == STARS


@pytest.mark.parametrize(
    ("option", "meant"),
    [("lr", "learning_rate"), ("epochs", "max_epochs"), ("learning_rat", "learning_rate"), ("module", "network")],
)
def test_an_unknown_option_suggests_the_right_one(option, meant):
    """Names of other libraries and slips of the pen."""
    with pytest.raises(ParameterError, match=f"NeuralClassifier has no parameter '{option}'. Did you mean '{meant}'"):
        NeuralClassifier(**{option: 1})


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_a_row_alone_is_answered_as_among_many(network):
    """Few rows take a shorter way, which gives the same answers and refuses the same rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 8) if network == "mlp" else (100, 1, 8, 8)).astype(np.float32)
    y = (X.reshape(100, -1)[:, 0] > 0).astype(int)
    model = NeuralClassifier(network, max_epochs=1, steps_per_epoch=20, random_state=0).fit(X, y)
    alone = np.concatenate([model.predict_proba(X[row : row + 1]) for row in range(5)])
    np.testing.assert_allclose(alone, model.predict_proba(X)[:5], rtol=0, atol=1e-6)
    broken = X[:1].copy()
    broken.reshape(-1)[0] = np.nan
    with pytest.raises(FeaturesError, match="NaN"):
        model.predict(broken)
    with pytest.raises(FeaturesError, match="features|shape"):
        model.predict(X[:1, ..., :4])


def test_predictions_follow_a_weight_that_is_changed():
    """The copy in float64, by which small networks predict, has the weights of the moment."""
    X = np.random.default_rng(0).standard_normal((60, 4))
    model = NeuralClassifier("mlp", max_epochs=1, steps_per_epoch=20, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    before = model.predict_proba(X[:3])
    for parameter in model.network_.parameters():
        parameter.data.zero_()
    assert not np.allclose(before, 0.5, atol=0.01)
    np.testing.assert_allclose(model.predict_proba(X[:3]), 0.5)
