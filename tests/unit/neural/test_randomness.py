"""Random numbers of a training: its own, whatever other threads draw."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from holdfast.environments import Group
from holdfast.neural.estimator import NeuralClassifier
from holdfast.neural.monitors import Monitor, watch
from holdfast.neural.networks import build_network
from holdfast.neural.objectives import RGM
from holdfast.neural.randomness import Dropout, RandomStream, active_generator, borrowing, draw_from_stream


class DrawsItself(nn.Module):
    """A user's network that calls torch's random functions itself, besides a dropout layer."""

    def __init__(self, input_shape, n_classes):
        super().__init__()
        self.first, self.last, self.dropout = nn.Linear(*input_shape, 8), nn.Linear(8, n_classes), nn.Dropout(0.2)

    def forward(self, inputs):
        """Drop units twice."""
        hidden = F.dropout(F.relu(self.first(inputs)), 0.3, training=self.training)
        return self.last(self.dropout(hidden))


def plain(input_shape, n_classes):
    """Return a user's network of torch's layers."""
    return nn.Sequential(nn.Linear(*input_shape, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, n_classes))


def rows(n=120):
    """Return random rows, labels and two groups."""
    X = np.random.default_rng(0).normal(size=(n, 5)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int), [Group("a", np.arange(n // 2)), Group("b", np.arange(n // 2, n))]


def fit(network, seed, *, objective="erm", steps=30, **options):
    """Train for a few steps and return all weights as one vector."""
    X, y, groups = rows()
    X = X.repeat(20, axis=1).reshape(-1, 1, 10, 10) if network == "cnn" else X
    options |= {} if callable(network) else {"network__dropout": 0.3}
    model = NeuralClassifier(
        network, max_epochs=1, steps_per_epoch=steps, learning_rate=0.01, random_state=seed, **options
    )
    model.fit_groups(X, y, groups, objective=objective)
    return torch.cat([tensor.flatten() for tensor in model.network_.state_dict().values()])


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("mlp", {}),
        ("mlp", {"objective": RGM(hidden=4), "steps": 8}),
        ("cnn", {"network__shift": 2, "steps": 4}),
        (plain, {}),
        (DrawsItself, {}),
    ],
    ids=["mlp", "heads of rgm", "shifted images", "torch's layers", "draws itself"],
)
@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")  # a few steps on images
def test_fits_in_threads_are_those_in_sequence(network, options):
    """Dropout, shifts and initialization do not depend on what other threads draw meanwhile."""
    before = torch.get_rng_state()
    in_sequence = [fit(network, seed, **options) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        in_threads = list(pool.map(lambda seed: fit(network, seed, **options), range(4)))
    assert all(torch.equal(one, other) for one, other in zip(in_sequence, in_threads, strict=True))
    assert not torch.equal(in_sequence[0], in_sequence[1])
    assert torch.equal(torch.get_rng_state(), before)


class Looks(Monitor):
    """Notes torch's own random state after every epoch."""

    def __init__(self):
        self.states = []

    def epoch(self, report):
        """Note the state."""
        self.states.append(torch.get_rng_state())


@pytest.mark.parametrize(("network", "untouched"), [("mlp", True), (plain, True), (DrawsItself, False)])
def test_a_training_leaves_torchs_own_state_alone_while_it_runs(network, untouched):
    """Only a network that draws from it itself moves it, and it is put back afterwards."""
    looks, before = Looks(), torch.get_rng_state()
    with watch(looks):
        fit(network, 0)
    assert [torch.equal(state, before) for state in looks.states] == [untouched]
    assert torch.equal(torch.get_rng_state(), before)


def test_other_threads_wait_for_a_network_that_draws_itself():
    """While torch's own generators are borrowed, no other training borrows them."""
    stream, entered = RandomStream(), threading.Event()

    def borrow():
        with RandomStream().borrowing():
            entered.set()

    with stream.borrowing():
        thread = threading.Thread(target=borrow)
        thread.start()
        assert not entered.wait(0.2)
    thread.join(5)
    assert entered.is_set()


class Stops(Monitor):
    """Keeps the state of the first epoch, or starts from one."""

    def __init__(self, saved=None):
        self.saved = saved

    def start(self, stage):
        """Continue, where there is a state."""
        return self.saved

    def epoch(self, report):
        """Keep the first state."""
        self.saved = self.saved or report.state.save()


@pytest.mark.parametrize("network", ["mlp", plain, DrawsItself])
def test_a_training_continues_where_its_stream_stood(network):
    """Continued from the first epoch, a fit ends as if it had never stopped; torch's own state plays no part."""
    X, y, _ = rows()

    def weights(monitor):
        model = NeuralClassifier(network, max_epochs=3, steps_per_epoch=5, random_state=0)
        with watch(monitor):
            model.fit(X, y)
        return torch.cat([tensor.flatten() for tensor in model.network_.state_dict().values()])

    first = Stops()
    whole = weights(first)
    torch.rand(3)
    assert torch.equal(weights(Stops(first.saved)), whole)


@pytest.mark.parametrize(
    ("kind", "shape"), [(nn.Dropout, (6, 5)), (nn.Dropout1d, (6, 5, 4)), (nn.Dropout2d, (6, 5, 4, 3))]
)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_from_a_stream_is_torchs_own_with_that_seed(kind, shape, p):
    """The same entries or channels are zero, and torch's own state stays; in place, too."""
    inputs = torch.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected = kind(p)(inputs)
    stream, before = RandomStream(), torch.get_rng_state()
    stream.seed(7)
    for inplace in (False, True):
        stream.seed(7)
        with stream.active():
            assert torch.equal(draw_from_stream(kind(p, inplace=inplace))(inputs.clone()), expected)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(draw_from_stream(kind(p)).eval()(inputs), inputs)


def test_images_without_a_batch_go_to_torchs_own_dropout():
    """Inputs of another number of axes have no channels where ours look for them."""
    stream = RandomStream()
    with stream.active(), stream.borrowing(), pytest.warns(UserWarning, match="dropout2d"):
        draw_from_stream(nn.Dropout2d(0.5))(torch.ones(4, 3, 2))


def test_outside_of_a_training_layers_draw_from_torch():
    """A fitted network is an ordinary module."""
    layer = draw_from_stream(nn.Dropout(0.5))
    assert type(layer) is Dropout
    assert active_generator(torch.device("cpu")) is None
    with torch.random.fork_rng(), borrowing():
        torch.manual_seed(0)
        first = layer(torch.ones(100))
        torch.manual_seed(0)
        assert torch.equal(layer(torch.ones(100)), first)


def test_loading_a_network_leaves_torchs_state_alone():
    """The weights that a new network draws are overwritten, so nobody should notice them."""
    X, y, _ = rows()
    state = NeuralClassifier(max_epochs=1, steps_per_epoch=1, random_state=0).fit(X, y).get_state()
    before = torch.get_rng_state()
    NeuralClassifier.from_state(*state)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng():
        build_network("mlp", input_shape=(5,), n_classes=2)
        assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_that_it_has_not():
    """The lock of another thread is held for ever in a copy of the process, so the copy gets a new one."""
    entered, done = threading.Event(), threading.Event()

    def borrow():
        with RandomStream().borrowing():
            entered.set()
            done.wait(30)

    thread = threading.Thread(target=borrow)
    thread.start()
    entered.wait(5)
    child = os.fork()
    if child == 0:
        with RandomStream().borrowing():
            os._exit(7)
    try:
        for _ in range(100):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            done.wait(0.1)
        assert ended
        assert os.waitstatus_to_exitcode(status) == 7
    finally:
        done.set()
        thread.join()
