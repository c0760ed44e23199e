"""Every method under the same contract: environments, classes and kinds of rows in any combination."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from holdfast.estimators.methods import METHODS
from holdfast.neural import NeuralClassifier

KINDS = {"tabular": "mlp", "image": "cnn", "text": "text_cnn"}
# Two steps on few rows cut odd halves and predict one class; what such warnings say is tested where they are born.
pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")


def make_rows(kind, n_environments, n_classes):
    """Return rows of a kind whose first feature shows the label, with environments and an unstable attribute."""
    n_rows = 40 * n_environments
    generator = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    environments = np.arange(n_rows) // 40
    attribute = np.where(generator.random(n_rows) < 0.8, y, (y + 1) % n_classes)
    if kind == "text":
        X = [f"good{label} the word{value}" for label, value in zip(y, attribute, strict=True)] if n_rows else []
    elif kind == "image":
        X = generator.normal(size=(n_rows, 2, 8, 8)).astype(np.float32) + y[:, None, None, None]
    else:
        X = generator.normal(size=(n_rows, 4)) + y[:, None]
    return X, y, environments, attribute


def make_method(name, kind, **parameters):
    """Return a method around a network that trains for two steps."""
    network = NeuralClassifier(
        KINDS[kind], max_epochs=1, steps_per_epoch=2, batch_size=8, random_state=0, training__selection="last"
    )
    return METHODS[name](network, random_state=0, **parameters)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_environments", "n_classes"), list(itertools.product([2, 3], [2, 10])))
@pytest.mark.parametrize("name", METHODS)
def test_every_method_on_every_kind_of_rows(name, n_environments, n_classes, kind):
    """Fit, predict, probabilities: any number of environments and classes, tabular, image and text."""
    X, y, environments, attribute = make_rows(kind, n_environments, n_classes)
    known = {"attribute": attribute} if name == "oracle" else {}
    method = make_method(name, kind).fit(X, y, environments=environments, **known)
    assert method.predict(X).shape == (len(y),)
    assert method.predict_proba(X).shape == (len(y), n_classes)
    assert method.environments_.tolist() == list(range(n_environments))
    np.testing.assert_allclose(method.predict_proba(X).sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_refit_equals_a_fresh_fit(name):
    """A second fit of one object forgets the first; the same seed gives the same classifier."""
    X, y, environments, attribute = make_rows("tabular", 3, 2)
    known = {"attribute": attribute} if name == "oracle" else {}
    method = make_method(name, "tabular")
    fresh = clone(method).fit(X, y, environments=environments, **known).predict_proba(X)
    method.fit(X[::-1], y[::-1], environments=environments[::-1], **({"attribute": attribute[::-1]} if known else {}))
    again = method.fit(X, y, environments=environments, **known).predict_proba(X)
    np.testing.assert_array_equal(again, fresh)


RULES = ["validation_accuracy", "worst_group_validation", "min_train_validation", "leave_one_environment_out", "last"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "stable"])  # it mixes several networks
def test_every_method_takes_every_selection_rule(name, rule):
    """One word selects the epoch of any method; what is selected belongs to one epoch of the history."""
    X, y, environments, attribute = make_rows("tabular", 3, 2)
    known = {"attribute": attribute} if name == "oracle" else {}
    network = NeuralClassifier("linear", max_epochs=3, steps_per_epoch=3, batch_size=8, random_state=0)
    method = METHODS[name](network, random_state=0, selection=rule)
    method.fit(X, y, environments=environments, validation=(X, y, attribute), **known)
    selected = method.estimator_.selected_
    entry = method.history_[selected.scores.epoch - 1]
    assert entry["epoch"] == selected.scores.epoch
    assert entry["training_score"] == selected.scores.training_score
    assert entry["validation_score"] == selected.scores.validation_score
    assert selected.rule == ("last" if rule == "leave_one_environment_out" else rule)
