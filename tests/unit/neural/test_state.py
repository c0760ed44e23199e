"""Saving a training in the middle and continuing it."""

import json

import numpy as np
import pytest
import torch

from holdfast.environments import Group
from holdfast.exceptions import SavedModelError
from holdfast.neural.estimator import NeuralClassifier
from holdfast.neural.monitors import Monitor, watch
from holdfast.neural.objectives import IRM, OnlineGroups
from holdfast.neural.state import flatten, unflatten


class Checkpoints(Monitor):
    """Keeps the state after one epoch as JSON and tensors, as a file would."""

    def __init__(self, at, saved=None):
        self.at, self.saved, self.epochs = at, saved, []

    def start(self, stage):
        """Continue where a state is at hand."""
        return None if self.saved is None else (json.loads(self.saved[0]), self.saved[1])

    def epoch(self, report):
        """Save at the epoch asked for."""
        self.epochs.append(report.epoch)
        if report.epoch == self.at:
            document, tensors = report.state.save()
            self.saved = json.dumps(document), tensors


def data():
    """Return 6 overlapping groups, some weighted, of noisy rows."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = (X[:, 0] + generator.normal(size=200) > 0).astype(int)
    rows = [generator.choice(200, 60, replace=False) for _ in range(6)]
    groups = [Group(f"g{g}", r, generator.random(60) if g % 2 else None) for g, r in enumerate(rows)]
    return X, y, groups


def fit(objective, monitor, **options):
    """Train a network with dropout and weight averaging."""
    X, y, groups = data()
    settings = {"max_epochs": 5, "steps_per_epoch": 4, "batch_size": 20, "random_state": 3}
    classifier = NeuralClassifier(
        "mlp",
        network__dropout=0.4,
        training__weight_averaging=0.9,
        scheduler="cosine",
        patience=4,
        **(settings | options),
    )
    with watch(monitor):
        return classifier.fit_groups(X, y, groups, objective=objective, validation=(X, y))


@pytest.mark.parametrize("objective", ["erm", "pooled", "max", "online", OnlineGroups(groups_per_step=8), IRM(), "rgm"])
def test_a_continued_training_is_bit_identical(objective):
    """Interrupted after epoch 2 and continued, weights, history and selection are those of the whole run."""
    whole = fit(objective, Checkpoints(at=None))
    first = Checkpoints(at=2)
    fit(objective, first)
    second = Checkpoints(at=None, saved=first.saved)
    continued = fit(objective, second)
    assert second.epochs == [3, 4, 5]
    assert continued.history_ == whole.history_
    assert continued.selected_.scores == whole.selected_.scores
    for name, weight in whole.network_.state_dict().items():
        assert torch.equal(weight, continued.network_.state_dict()[name])
    assert np.array_equal(whole.group_weights_, continued.group_weights_)


def test_a_finished_training_is_not_repeated():
    """A state saved at the end gives the result without a step."""
    saved = Checkpoints(at=5)
    whole = fit("erm", saved)
    again = Checkpoints(at=None, saved=saved.saved)
    repeated = fit("erm", again)
    assert again.epochs == []
    assert repeated.selected_.scores == whole.selected_.scores


def test_a_state_of_another_run_is_refused():
    """Another seed or setting cannot continue it; the message names what differs."""
    first = Checkpoints(at=2)
    fit("erm", first)
    with pytest.raises(SavedModelError, match="belongs to another run: seed was 3, now it is 4"):
        fit("erm", Checkpoints(at=None, saved=first.saved), random_state=4)
    with pytest.raises(SavedModelError, match="belongs to another run: settings was"):
        fit("erm", Checkpoints(at=None, saved=first.saved), batch_size=10)


def test_flatten_copies_tensors_and_keeps_keys_of_any_kind():
    """What is saved does not change with the training, and integer keys survive JSON."""
    weight = torch.ones(2)
    document, tensors = flatten({"state": {0: {"step": weight}, "x": [1, None, weight]}})
    weight.zero_()
    restored = unflatten(json.loads(json.dumps(document)), tensors)
    assert restored["state"][0]["step"].tolist() == [1.0, 1.0]
    assert restored["state"]["x"][:2] == [1, None]
