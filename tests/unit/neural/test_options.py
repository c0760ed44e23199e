"""Parameters with a prefix: network__dropout=0.5 and the like."""

import inspect
import re

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import ParameterError
from holdfast.neural.estimator import NeuralClassifier, NeuralRegressor
from holdfast.neural.networks import NETWORKS
from holdfast.neural.options import KNOWN, PARTS, DataSettings, Options, part_of
from holdfast.neural.settings import PREFIXED, TrainingSettings
from holdfast.saving import load, save

pytestmark = pytest.mark.filterwarnings("ignore::holdfast.exceptions.HoldfastWarning")  # such short trainings collapse
FAST = {"max_epochs": 2, "steps_per_epoch": 10, "learning_rate": 0.05, "random_state": 0}
X = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
SITES = np.repeat(["a", "b"], 40)
OURS = ("linear", "mlp", "cnn", "text_cnn", "resnet50", "mobilenet_v2")


def test_there_are_fourteen_parameters_without_a_prefix():
    """The list that a user must know is short; nothing returns to it unseen."""
    own = list(inspect.signature(NeuralClassifier).parameters)
    assert own == [
        *("network", "max_epochs", "steps_per_epoch", "batch_size", "learning_rate", "weight_decay", "loss"),
        *("optimizer", "scheduler", "patience", "callbacks", "verbose", "device", "random_state"),
    ]
    assert sorted(NeuralClassifier().get_params()) == sorted(own)


def test_type_checkers_know_what_there_is():
    """The options that are written down are those of our networks, of the loop and of reading, no more and no less."""
    listed = {part: {name.partition("__")[2] for name in KNOWN if part_of(name) == part} for part in PARTS}
    of_networks = {name for network in OURS for name in inspect.signature(NETWORKS[network]).parameters}
    assert listed["network"] == of_networks - {"input_shape", "n_classes"}
    assert listed["training"] == {"selection", *PREFIXED}
    assert set(PREFIXED) <= set(inspect.signature(TrainingSettings).parameters)
    assert listed["data"] == set(inspect.signature(DataSettings).parameters)
    schedulers = [made for made in vars(torch.optim.lr_scheduler).values() if isinstance(made, type)]
    schedulers = [made for made in schedulers if issubclass(made, torch.optim.lr_scheduler.LRScheduler)]
    for part, classes in (("optimizer", [torch.optim.Adam, torch.optim.SGD]), ("scheduler", schedulers)):
        assert listed[part] <= {name for made in classes for name in inspect.signature(made).parameters}
    assert set(Options.__annotations__) == set(KNOWN)


def test_scikit_learn_sets_and_copies_them():
    """clone, get_params, set_params, a search, and a network inside a method and a pipeline."""
    network = NeuralClassifier(network__hidden=(4,), **FAST)
    assert clone(network).get_params() == network.get_params()
    assert network.get_params()["network__hidden"] == (4,)
    assert network.set_params(training__precision="fp32").training__precision == "fp32"
    assert "network__hidden=(4,)" in repr(network)
    model = PIClassifier(make_pipeline(StandardScaler(), network), random_state=0)
    model.set_params(estimator__neuralclassifier__network__dropout=0.3)
    assert model.get_params()["estimator__neuralclassifier__network__dropout"] == 0.3
    assert clone(model).estimator[-1].options_for("network") == {"hidden": (4,), "dropout": 0.3}
    found = GridSearchCV(network, {"network__hidden": [(2,), (5, 3)]}, cv=2).fit(X, Y)
    width = found.best_estimator_.network_.classifier.in_features
    assert (found.best_params_["network__hidden"], width) in [((2,), 2), ((5, 3), 3)]


def test_each_part_gets_its_options():
    """The network is built, the optimizer and the scheduler are made, and rows are read with them."""
    seen = {}

    class Watch:
        def on_train_end(self, net):
            seen["network"] = net.network_

    def optimizer(parameters, speed, momentum=0.0):
        seen["optimizer"] = torch.optim.SGD(parameters, lr=speed, momentum=momentum)
        return seen["optimizer"]

    NeuralClassifier(
        network__hidden=(7,),
        network__dropout=0.25,
        optimizer=optimizer,
        optimizer__speed=0.5,
        optimizer__momentum=0.9,
        scheduler=torch.optim.lr_scheduler.StepLR,
        scheduler__step_size=1,
        scheduler__gamma=0.5,
        callbacks=[Watch()],
        **FAST,
    ).fit(X, Y)
    assert seen["network"].classifier.in_features == 7
    assert seen["network"].dropout.p == 0.25
    assert seen["optimizer"].param_groups[0]["momentum"] == 0.9
    assert seen["optimizer"].param_groups[0]["lr"] == 0.5 * 0.5**2  # halved after each of two epochs
    doubled = NeuralClassifier(data__row_transform=lambda row: 2 * row, **FAST).fit(X, Y)
    assert doubled.predict_proba(X) == pytest.approx(
        NeuralClassifier(**FAST).fit(2 * X, Y).predict_proba(2 * X), abs=1e-6
    )


def test_without_dropout_a_class_has_its_own_and_a_regressor_none():
    """0.1 for classifiers, 0 for regressors; None says the same."""
    for given in ({}, {"network__dropout": None}):
        assert NeuralClassifier(**given, **FAST).fit(X, Y).network_.dropout.p == 0.1
        assert NeuralRegressor(**given, **FAST).fit(X, X[:, 0]).network_.dropout.p == 0.0


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("dropout", "It is 'network__dropout' now."),
        ("row_transform", "It is 'data__row_transform' now."),
        ("precision", "It is 'training__precision' now."),
        ("schedule", "Use scheduler='cosine', or leave it out."),
        ("network_options", "network_options={'hidden': 8} is network__hidden=8."),
        ("netwrok__dropout", "Did you mean 'network__dropout'?"),
        ("training__n_workers", "Did you mean 'data__n_workers'?"),
        ("data__nworkers", "Did you mean 'data__n_workers'?"),
        ("optimizer__lr", "Did you mean 'learning_rate'?"),
        ("network__", "Did you mean 'network'?"),
    ],
)
@pytest.mark.parametrize("way", ["made", "set"])
def test_unknown_names_are_refused_with_the_right_one(name, advice, way):
    """Former spellings, wrong prefixes and names of other libraries, when it is made and when it is changed."""
    with pytest.raises(ParameterError, match=rf"^NeuralClassifier has no parameter '{name}'\. .*{re.escape(advice)}$"):
        NeuralClassifier(**{name: 1}) if way == "made" else NeuralClassifier().set_params(**{name: 1})


def own_network(input_shape, n_classes, width=4):
    """Return a network without dropout."""
    return nn.Sequential(nn.Linear(*input_shape, width), nn.ReLU(), nn.Linear(width, n_classes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network__hiden": 3}, "Network 'mlp' has no option 'hiden'. Did you mean 'network__hidden'"),
        ({"network": own_network, "network__widht": 3}, "Network 'own_network' has no option .* 'network__width'"),
        ({"network": own_network, "network__dropout": 0.1}, "'own_network' has no option 'dropout'"),
        ({"optimizer__momentum": 0.9}, "The optimizer Adam has no option 'momentum'. It has optimizer__betas,"),
        ({"optimizer": torch.optim.SGD, "optimizer__momentm": 0.9}, "SGD has .* Did you mean 'optimizer__momentum'"),
        ({"scheduler__gamma": 0.5}, "scheduler__gamma is set, but scheduler=None has no options"),
        ({"data__row_transform": "x"}, "'data__row_transform' parameter must be a function or None. Got 'x'"),
        ({"data__n_workers": -1}, "'data__n_workers' parameter must be 0 or more. Got -1"),
        ({"data__min_count": 0}, "'data__min_count' parameter must be a positive integer. Got 0"),
        ({"network__dropout": "x"}, r"'network__dropout' parameter must be in \[0, 1\). Got 'x'"),
    ],
    ids=",".join,  # the names of the options: a function's own text has its address, which differs between workers
)
def test_options_that_a_part_does_not_take_are_refused_before_training(options, message):
    """By its signature, before the first judge of a method is trained as well."""
    network = NeuralClassifier(**options, **FAST)
    with pytest.raises(ParameterError, match=message):
        network.check_training()
    with pytest.raises(ParameterError, match=message):
        PIClassifier(network, random_state=0).fit(X, Y, environments=SITES)


def test_options_that_a_class_needs_are_named():
    """StepLR cannot be made without its size of a step."""
    with pytest.raises(
        ParameterError, match="scheduler cannot be made: .*step_size.* for example scheduler__step_size"
    ):
        NeuralClassifier(scheduler=torch.optim.lr_scheduler.StepLR, **FAST).fit(X, Y)


def test_a_recipe_leaves_out_what_a_network_does_not_take():
    """The recipe sets dropout, which this network has not."""
    model = PIClassifier(NeuralClassifier(own_network, **FAST), recipe="robust", n_folds=0, random_state=0)
    assert model.fit(X, Y, environments=SITES).estimator_.options_for("network") == {}


FORMER = {
    **{"dropout": 0.2, "schedule": "cosine", "precision": "fp32", "selection": None, "selection_rows": 1000},
    **{"weight_averaging": 0.9, "scheduler_interval": "epoch", "gradient_clipping": None, "min_count": 1},
    **{"row_transform": None, "collate_fn": None},
}


def test_a_model_that_was_saved_before_there_were_prefixes_loads(tmp_path, monkeypatch):
    """A fitted network and the unfitted one inside a method have the former names in their files."""
    options = {"network__dropout": 0.2, "training__precision": "fp32", "training__weight_averaging": 0.9}
    network = NeuralClassifier(network__hidden=(5,), scheduler="cosine", **options, **FAST)
    model = PIClassifier(network, n_folds=0, random_state=0).fit(X, Y, environments=SITES)
    state, own = NeuralClassifier.get_state, ("max_epochs", "steps_per_epoch", "batch_size", "learning_rate")

    def former_state(self):
        document, tensors = state(self)
        parameters = {name: document["parameters"][name] for name in (*own, "weight_decay", "patience", "network")}
        return {**document, "format": 1, "parameters": {**parameters, **FORMER}}, tensors

    def former_attributes(self):
        kept = {name: value for name, value in vars(self).items() if part_of(name) is None}
        code = {"optimizer": None, "scheduler": None, "callbacks": None, "vocabulary": None, "n_workers": 0}
        return {**kept, **code, **FORMER, "network_options": {"hidden": (5,)}}

    monkeypatch.setattr(NeuralClassifier, "get_state", former_state)
    monkeypatch.setattr(NeuralClassifier, "saved_attributes", former_attributes)
    save(model, tmp_path / "model")
    monkeypatch.undo()
    loaded = load(tmp_path / "model")
    assert loaded.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    expected = {"hidden": (5,), "dropout": 0.2}
    assert loaded.estimator.options_for("network") == expected
    assert loaded.estimator_.options_for("network") == {**expected, "hidden": [5]}
    for found in (loaded.estimator, loaded.estimator_):
        assert (found.scheduler, found.training__precision, found.training__weight_averaging) == ("cosine", "fp32", 0.9)
    again = clone(loaded.estimator).set_params(random_state=0).fit(X, Y).predict_proba(X)
    assert again.tolist() == clone(network).fit(X, Y).predict_proba(X).tolist()


def test_saving_keeps_the_cosine_and_leaves_out_what_is_for_training_alone(tmp_path):
    """Optimizers and schedulers are code: they and their options are not saved."""
    options = {"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9, "network__hidden": (5,), "scheduler": "cosine"}
    model = PIClassifier(NeuralClassifier(**options, **FAST), n_folds=0, random_state=0).fit(X, Y, environments=SITES)
    save(model, tmp_path / "model")
    for found in (load(tmp_path / "model").estimator, load(tmp_path / "model").estimator_):
        assert (found.optimizer, found.options_for("optimizer"), found.scheduler) == (None, {}, "cosine")
        assert list(found.options_for("network")["hidden"]) == [5]
