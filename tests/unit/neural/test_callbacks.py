"""Callbacks, optimizers, schedulers and the progress line: what users add to the training loop."""

import functools
import re

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import ParameterError
from holdfast.neural.estimator import NeuralClassifier
from holdfast.neural.monitors import Monitor, watch

FAST = {"max_epochs": 3, "steps_per_epoch": 4, "batch_size": 8, "learning_rate": 0.05, "random_state": 0}
X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
Y = (X[:, 0] + np.random.default_rng(1).normal(size=60) > 0).astype(int)
SITES = np.repeat(["a", "b"], 30)


class Recorder:
    """Writes down every hook, with the stage and the number of epochs so far."""

    def __init__(self, stop_after=None):
        self.seen, self.stop_after = [], stop_after

    def on_train_begin(self, net):
        """Called once the network is built."""
        self.seen.append(("begin", net.stage_, len(net.history_)))

    def on_batch_end(self, net):
        """Called after each step."""
        self.seen.append(("batch", net.stage_, len(net.history_)))

    def on_epoch_end(self, net, **kwargs):
        """Called after each evaluation."""
        assert net.history[-1]["epoch"] == len(net.history_)
        self.seen.append(("epoch", net.stage_, len(net.history_)))
        if len(net.history_) == self.stop_after:
            raise StopIteration

    def on_train_end(self, net, **kwargs):
        """Called with the trained network."""
        assert not net.network_.training
        self.seen.append(("end", net.stage_, len(net.history_)))


def test_hooks_come_in_skorchs_order():
    """Begin, steps, epoch, end; the estimator shows its stage and history at that moment."""
    recorder = Recorder()
    NeuralClassifier(callbacks=[recorder], **(FAST | {"max_epochs": 2, "steps_per_epoch": 2})).fit(X, Y)
    assert [name for name, _, _ in recorder.seen] == [
        *("begin", "batch", "batch", "epoch", "batch", "batch", "epoch", "end")
    ]
    assert recorder.seen[-1] == ("end", "training", 2)


def test_a_callback_stops_the_training():
    """StopIteration ends it after the epoch, and what was selected is kept."""
    fitted = NeuralClassifier(callbacks=[Recorder(stop_after=2)], **FAST).fit(X, Y)
    assert len(fitted.history_) == 2
    assert fitted.predict(X).shape == (60,)


def test_all_judges_share_the_callbacks():
    """Copies keep the very same objects, so that a callback sees the judges and the last stage."""
    recorder = Recorder()
    network = NeuralClassifier(callbacks=[recorder], **FAST)
    assert clone(network).callbacks[0] is recorder
    PIClassifier(network, random_state=0, min_group_size=1).fit(X, Y, environments=SITES)
    assert {stage for _, stage, _ in recorder.seen} == {"stage 1: a", "stage 1: b", "stage 3"}


def test_callbacks_are_not_copied():
    """They may hold what cannot be: a module, a lock, an open file."""
    network = NeuralClassifier(callbacks=[functools.partial(print, re)])
    assert clone(network).callbacks is network.callbacks


def test_a_callback_of_skorch_works():
    """A subclass of skorch's own base class is called as it is there."""
    callbacks = pytest.importorskip("skorch.callbacks")

    class Counter(callbacks.Callback):
        def initialize(self):
            self.n_epochs = 0
            return self

        def on_epoch_end(self, net, **kwargs):
            self.n_epochs += 1
            assert "risk" in net.history[-1]

    counter = Counter()
    NeuralClassifier(callbacks=[counter], **FAST).fit(X, Y)
    assert counter.n_epochs == 3


def weights(**settings):
    """Return the weights of a linear network after a short training."""
    fitted = NeuralClassifier(nn.Linear(3, 2), **(FAST | {"max_epochs": 1, "steps_per_epoch": 1} | settings))
    torch.manual_seed(0)
    fitted.set_params(network=nn.Linear(3, 2))
    start = torch.cat([p.detach().flatten() for p in fitted.network.parameters()])
    fitted.fit(X, Y)
    return torch.cat([p.detach().flatten() for p in fitted.network_.parameters()]) - start


def test_an_optimizer_of_ones_own():
    """A class gets our rates; a function knows its own, of parameters or of the network."""
    sgd = weights(optimizer=torch.optim.SGD, learning_rate=0.5)
    assert weights(optimizer=functools.partial(torch.optim.SGD, lr=0.5)).tolist() == sgd.tolist()
    assert weights(optimizer=lambda network: torch.optim.SGD(network.parameters(), lr=0.5)).tolist() == sgd.tolist()
    assert weights(optimizer=torch.optim.SGD, learning_rate=1.0).numpy() == pytest.approx(2 * sgd.numpy(), rel=1e-4)
    with pytest.raises(ParameterError, match="'optimizer' must return a torch.optim.Optimizer. It returned 3"):
        weights(optimizer=lambda parameters: 3)
    with pytest.raises(ParameterError, match="'optimizer' parameter must be a callable such as torch.optim.SGD"):
        weights(optimizer="sgd")


def test_gradients_are_clipped():
    """With plain gradient descent the step is as long as learning rate times the largest norm."""
    moved = weights(optimizer=torch.optim.SGD, learning_rate=1.0, training__gradient_clipping=0.01)
    assert float(moved.norm()) == pytest.approx(0.01, rel=1e-3)
    with pytest.raises(
        ParameterError, match="'training__gradient_clipping' parameter must be a positive number or None"
    ):
        weights(training__gradient_clipping=0)


class Rates:
    """Writes down the learning rate at the end of each epoch."""

    def __init__(self):
        self.schedulers = []

    def step_lr(self, optimizer):
        """Return a scheduler that halves the rate at each step."""
        self.schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5))
        return self.schedulers[-1]


@pytest.mark.parametrize(("interval", "rate"), [("epoch", 0.05 * 0.5**3), ("step", 0.05 * 0.5**12)])
def test_a_scheduler_of_ones_own(interval, rate):
    """It takes its step after each epoch, or after each batch."""
    rates = Rates()
    NeuralClassifier(scheduler=rates.step_lr, training__scheduler_interval=interval, **FAST).fit(X, Y)
    assert rates.schedulers[0].get_last_lr() == [pytest.approx(rate)]


def test_a_scheduler_that_waits_for_a_plateau_sees_the_validation():
    """It reads minus the validation score, which should become small; without validation the risk."""
    made = []

    def plateau(optimizer):
        made.append(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0))
        return made[-1]

    fitted = NeuralClassifier(scheduler=plateau, **FAST).fit(X, Y, validation=(X, Y))
    assert made[0].best == -max(epoch["validation_score"] for epoch in fitted.history_)
    fitted = NeuralClassifier(scheduler=plateau, **FAST).fit(X, Y)
    assert made[1].best == min(epoch["risk"] for epoch in fitted.history_)


class Interrupt(Monitor):
    """Keeps the state after some epoch, and hands it out at the next start."""

    def __init__(self, after):
        self.after, self.saved = after, None

    def start(self, stage):
        """Return the kept state."""
        return self.saved

    def epoch(self, report):
        """Stop at the epoch."""
        if report.epoch == self.after and self.saved is None:
            self.saved = report.state.save()
            raise KeyboardInterrupt("stopped here")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_an_interrupted_training_continues_with_its_scheduler():
    """The scheduler's state is part of the training's: an interrupted training ends at the same bits."""
    settings = FAST | {"optimizer": torch.optim.AdamW, "scheduler": Rates().step_lr}
    whole = NeuralClassifier(**settings).fit(X, Y).predict_proba(X)
    monitor = Interrupt(2)
    with pytest.raises(KeyboardInterrupt, match="stopped here"), watch(monitor):
        NeuralClassifier(**settings).fit(X, Y)
    with watch(monitor):
        assert NeuralClassifier(**settings).fit(X, Y).predict_proba(X).tolist() == whole.tolist()


def test_verbose_writes_epoch_worst_group_and_time_left(capsys):
    """A line for the precision and for each epoch to stderr, none to stdout; the monitor of `watch` sees the epochs."""
    seen = []

    class Seen(Monitor):
        def epoch(self, report):
            seen.append(report.epoch)

    with watch(Seen()):
        NeuralClassifier(verbose=1, **FAST).fit(X, Y, validation=(X, Y))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines.pop(0).startswith("training: computing in ")
    assert (out, len(lines), seen) == ("", 3, [1, 2, 3])
    shape = r"training: epoch 1 of 3, worst group all rows \(risk \d\.\d{3}\), validation \d\.\d{3}, \d+ s left at most"
    assert re.fullmatch(shape, lines[0])
    assert lines[2].endswith(", done")
