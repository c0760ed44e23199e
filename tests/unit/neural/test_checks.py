"""What is refused or said before, during and after the training of a network."""

import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from holdfast.estimators.balanced import BalancedClassifier
from holdfast.estimators.erm import ERMClassifier
from holdfast.estimators.group_dro import GroupDROClassifier
from holdfast.estimators.penalties import IRMClassifier
from holdfast.estimators.pi import PIClassifier
from holdfast.estimators.stable_regression import StableRegressor
from holdfast.exceptions import (
    CollapseWarning,
    FeaturesError,
    HoldfastWarning,
    InputTypeError,
    NewSiteWarning,
    ParameterError,
    SmallGroupWarning,
)
from holdfast.neural.estimator import NeuralClassifier, NeuralRegressor

SHORT = {
    "max_epochs": 2,
    "steps_per_epoch": 20,
    "learning_rate": 0.02,
    "training__precision": "fp32",
    "random_state": 0,
}


def rows(n_rows=400, seed=0):
    """Return features, labels and two sites; the first feature decides in nine of ten rows."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n_rows, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int) ^ (draw.random(n_rows) < 0.1)
    return X, y, np.array(["north", "south"])[np.arange(n_rows) % 2]


class Calls:
    """A callback that counts the trainings that begin."""

    n = 0

    def on_train_begin(self, net):
        """Count."""
        Calls.n += 1


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        ({"training__selection": "best"}, {}, "'selection' parameter must be one of"),
        ({"training__selection": "worst_group_validation"}, {}, "needs validation rows with group labels"),
        ({"callbacks": [Calls(), 3]}, {}, "A callback must be an object with at least one of on_train_begin"),
        ({"callbacks": [Calls]}, {}, "A callback must be an object"),
        ({"callbacks": Calls()}, {}, "'callbacks' parameter must be a list"),
        ({"loss": "hinge"}, {}, "hinge"),
        ({}, {"validation": 2}, "must be between 0 and 1. Got 2"),
    ],
)
@pytest.mark.parametrize("method", [None, PIClassifier])
def test_parameters_are_refused_before_anything_is_trained(method, options, fit, message):
    """Neither a network alone nor stage 1 of PI begins."""
    X, y, sites = rows()
    Calls.n = 0
    network = NeuralClassifier("mlp", **(SHORT | {"callbacks": [Calls()]} | options))
    with pytest.raises(ParameterError, match=message):
        if method is None:
            network.fit(X, y, **fit)
        else:
            method(network).fit(X, y, environments=sites, **fit)
    assert Calls.n == 0


def test_patience_without_validation_is_an_error():
    """Patience that nothing could act on is refused with what to pass; the default and patience=None are not."""
    X, y, _ = rows()
    with pytest.raises(ParameterError, match=r"there are no validation rows. Pass fit\(X, y, validation=\(X, y\)\)"):
        NeuralClassifier("mlp", patience=3, **SHORT).fit(X, y)
    NeuralClassifier("mlp", patience=None, **SHORT).fit(X, y)
    stopped = NeuralClassifier("mlp", patience=1, **(SHORT | {"max_epochs": 50})).fit(X, y, validation=0.25)
    assert len(stopped.history_) < 50


@pytest.mark.parametrize("method", [ERMClassifier, GroupDROClassifier, BalancedClassifier, IRMClassifier])
def test_methods_refuse_patience_without_validation(method):
    """No method trains on in silence."""
    X, y, sites = rows()
    network = NeuralClassifier("mlp", patience=3, **SHORT)
    with pytest.raises(ParameterError, match="patience=3 ends .* there are no validation rows"):
        method(network).fit(X, y, environments=sites)
    method(network).fit(X, y, environments=sites, validation=0.25)


def test_the_stable_regressor_refuses_patience():
    """It has no validation rows, and says so before anything is trained."""
    X, _, sites = rows()
    Calls.n = 0
    with pytest.raises(ParameterError, match="patience=3 ends"):
        network = NeuralRegressor("mlp", patience=3, callbacks=[Calls()], **SHORT)
        StableRegressor(network).fit(X, X[:, 0], environments=sites)
    assert Calls.n == 0


def test_patience_of_pi_is_for_what_is_scored():
    """Judges are scored on the other environments; where they are not, the final network needs validation rows."""
    X, y, sites = rows()
    network = NeuralClassifier("mlp", patience=3, **SHORT)
    PIClassifier(network).fit(X, y, environments=sites)
    with pytest.warns(HoldfastWarning, match="costs"):
        PIClassifier(network, judge_selection="last").fit(X, y, environments=sites, validation=0.25)
    with pytest.raises(ParameterError, match="patience=3 ends .* there are no validation rows"):
        PIClassifier(network, judge_selection="last").fit(X, y, environments=sites)


def test_a_share_is_held_out_of_every_label():
    """validation=0.25 trains on the other rows; the score is that of the held-out ones, and seeds repeat it."""
    X, y, _ = rows()
    first, again = (NeuralClassifier("mlp", **SHORT).fit(X, y, validation=0.25) for _ in range(2))
    assert first.selected_.rule == "validation_accuracy"
    assert first.selected_.scores.validation_score == again.selected_.scores.validation_score
    n_held = round(0.25 * (y == 0).sum()) + round(0.25 * (y == 1).sum())
    hits = first.selected_.scores.validation_score * n_held
    assert hits == pytest.approx(round(hits))
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    assert NeuralClassifier("mlp", **SHORT).fit(data, validation=0.25).history_ == first.history_
    regressor = NeuralRegressor("linear", **SHORT).fit(X, X[:, 0], validation=0.25)
    assert regressor.selected_.scores.validation_score < 0


@pytest.mark.filterwarnings("ignore:PIClassifier costs")
@pytest.mark.parametrize("method", [ERMClassifier, PIClassifier])
def test_methods_hold_out_a_share_of_every_environment_and_label(method):
    """The diagonal of PI's accuracies is from the held-out rows: a quarter of those of each site."""
    X, y, sites = rows()
    model = method(NeuralClassifier("mlp", **SHORT)).fit(X, y, environments=sites, validation=0.25)
    assert model.validation_score_ == pytest.approx(round(100 * model.validation_score_) / 100)
    if method is PIClassifier:
        n_judged = [len(part.correct) + len(part.mistaken) for part in model.partitions_]
        assert n_judged == [150, 150]
        assert (np.diag(model.accuracies_) * 50 == np.round(np.diag(model.accuracies_) * 50)).all()


def test_a_share_does_not_part_rows_of_one_fold():
    """Rows that belong together cannot be held out one by one."""
    X, y, sites = rows()
    with pytest.raises(ParameterError, match="could part rows that share a fold"):
        PIClassifier().fit(X, y, environments=sites, folds=np.arange(400) // 4, validation=0.2)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, np.ndarray.tolist])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_a_row_that_is_not_finite_is_named(kind, value, name):
    """Its number helps to find it, whatever holds the rows."""
    X, y, sites = rows()
    pictures = X.reshape(-1, 1, 1, 3)
    pictures[7, 0, 0, 1] = value
    for model in (NeuralClassifier("mlp", **SHORT), ERMClassifier(NeuralClassifier("mlp", **SHORT))):
        with pytest.raises(FeaturesError, match=f"Row 7 of X.* contains {name}"):
            model.fit(kind(pictures), y)
        with pytest.raises(FeaturesError, match="0 sample"):
            model.fit(pictures[:0], y[:0])


def test_inputs_on_another_scale_are_noticed():
    """Pictures of 0 to 255 for a network of 0 to 1, and the other way round, give a warning; one dark picture none."""
    X, y, _ = rows()
    pictures = np.abs(X).reshape(-1, 1, 1, 3) / np.abs(X).max()
    network = NeuralClassifier("mlp", **SHORT).fit(pictures, y)
    with pytest.warns(NewSiteWarning, match="its largest values are about"):
        network.predict(255 * pictures)
    with pytest.warns(NewSiteWarning, match="X is on another scale"):
        network.predict(pictures / 255)
    with pytest.warns(NewSiteWarning, match="X is on another scale"):
        network.predict(255 * pictures[:1])
    for times in (255, 1 / 255):
        with pytest.warns(NewSiteWarning, match="X is on another scale"):
            network.predict(TensorDataset(torch.from_numpy(times * pictures).float()))
    network.predict(pictures[:1] / 255)  # a dark picture
    network.predict(pictures)


def test_a_data_loader_is_read_in_order_or_refused():
    """A loader in order predicts like its Dataset; one that shuffles is scored, but does not predict."""
    X, y, sites = rows()
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    network = NeuralClassifier("mlp", **SHORT).fit(X, y)
    for model in (network, PIClassifier(network).fit(X, y, environments=sites)):
        assert np.array_equal(model.predict(DataLoader(data, batch_size=32)), model.predict(X))
        assert model.score(DataLoader(data, shuffle=True)) == model.score(X, y)
        with pytest.raises(InputTypeError, match="shuffles or leaves out rows"):
            model.predict(DataLoader(data, shuffle=True))


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"weight_decay": 50.0, "learning_rate": 0.05, "max_epochs": 6}, "The cause is weight_decay=50"),
        ({"learning_rate": 1e-7}, "did not change in 40 steps with learning_rate=1e-07. Use a larger one"),
    ],
)
def test_a_collapse_names_its_cause(options, cause):
    """Weights at zero are due to the weight decay, a risk that stays to the learning rate."""
    X, y, _ = rows()
    with pytest.warns(CollapseWarning, match=cause):
        NeuralClassifier("mlp", **(SHORT | options)).fit(X, y)


def test_a_learning_rate_that_is_too_large_is_named():
    """Adam with a rate of 300 ends with huge weights: labels without a relation then get one class."""
    draw = np.random.default_rng(0)
    X, y = np.ones((300, 2), np.float32), (draw.random(300) < 0.4).astype(int)
    with pytest.warns(CollapseWarning, match="The cause is learning_rate=300"):
        NeuralClassifier("linear", **(SHORT | {"learning_rate": 300.0})).fit(X, y)


def test_many_small_sites_are_pooled_with_a_warning():
    """100 sites with 6 rows become 10 pools: 180 halves at most, not 19,800."""
    X, y, _ = rows(600)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PIClassifier(NeuralClassifier("mlp", **SHORT)).fit(X, y, environments=np.repeat(np.arange(100), 6))
    said = [str(entry.message) for entry in caught if issubclass(entry.category, SmallGroupWarning)]
    assert "pooled into 10, in the order of their labels." in said[0]
    assert len(model.environments_) == 10
    assert len(model.groups_) <= 180


def test_the_cost_of_many_sites_is_said_before_the_start():
    """24 sites with enough rows stay apart, and the number of rows of a step is said before stage 1."""
    X, y, _ = rows(960)
    Calls.n = 0
    network = NeuralClassifier("mlp", callbacks=[Calls()], **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        with pytest.raises(HoldfastWarning, match=r"24 environments make 24 networks that judge and 1,104 halves"):
            PIClassifier(network).fit(X, y, environments=np.repeat(np.arange(24), 40))
    assert Calls.n == 0


def test_auto_precision_says_what_it_chose(capsys):
    """The first line of verbose=1 has the number format and the device."""
    X, y, _ = rows()
    network = NeuralClassifier("mlp", verbose=1, **(SHORT | {"training__precision": "auto", "device": "cpu"})).fit(X, y)
    name = {"fp32": "float32", "bf16": "bfloat16"}[network.precision_]
    assert f"training: computing in {name} on cpu (training__precision='auto', device='cpu')" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "needed"), [(0.7, False), (None, True)])
def test_a_price_without_evidence_is_said(share, needed):
    """PI warns of its price where the second signal is alike at both sites, and not where it differs."""
    draw, n_rows = np.random.default_rng(0), 5000
    y, sites = draw.integers(2, size=2 * n_rows), np.repeat(["north", "south"], n_rows)
    agrees = np.repeat([0.95, 0.85] if share is None else [share, share], n_rows)
    signals = np.stack([y ^ (draw.random(2 * n_rows) > 0.8), y ^ (draw.random(2 * n_rows) > agrees)], axis=1)
    X = (2 * signals - 1 + 0.4 * draw.normal(size=(2 * n_rows, 2))).astype(np.float32)
    network = NeuralClassifier(
        "mlp", **(SHORT | {"max_epochs": 4, "steps_per_epoch": 50, "training__selection": "last"})
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PIClassifier(network, random_state=0).fit(X, y, environments=sites, validation=0.5)
    said = [str(entry.message) for entry in caught if "points of accuracy on the validation rows" in str(entry.message)]
    assert model.price_.low > 0.02
    assert len(said) == (0 if needed else 1)
    assert needed or "There is no evidence that ERM relies on something unstable" in said[0]
