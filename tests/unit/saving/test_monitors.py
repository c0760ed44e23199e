import numpy as np
import pytest

from holdfast.exceptions import CorruptFileError, SavedModelError
from holdfast.neural import NeuralClassifier
from holdfast.neural.monitors import Monitor, watch
from holdfast.saving.checkpoints import write_checkpoint
from holdfast.saving.monitors import CheckpointMonitor

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(40, 3, 14, 14)).astype(np.float32)
LABELS = np.arange(40) % 2


class Stopped(Exception):
    """Ends a training from inside."""


class Counter(Monitor):
    """Counts epochs, and may stop after some."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.epochs = []

    def epoch(self, report):
        """Remember the epoch."""
        self.epochs.append(report.epoch)
        if len(self.epochs) == self.stop_after:
            raise Stopped


def fit(folder, *, network="mlp", stop_after=None, every=1, **settings):
    """Fit a network under a monitor; return it with the epochs that were trained."""
    counter = Counter(stop_after)
    model = NeuralClassifier(network, max_epochs=4, steps_per_epoch=3, batch_size=8, random_state=0, **settings)
    options = {} if every == 1 else {"every": every}  # after every epoch by default
    with watch(CheckpointMonitor(folder, inside=counter, **options)):
        try:
            model.fit(IMAGES if network == "cnn" else IMAGES[:, 0, 0], LABELS)
        except Stopped:
            model = None
    return model, counter.epochs


def weights(model):
    """Return all weights as bytes."""
    return [tensor.numpy().tobytes() for tensor in model.network_.state_dict().values()]


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_a_training_that_was_cut_goes_on(tmp_path, network):
    """Only the epochs that are missing are trained, and the weights and history are those of an undisturbed fit."""
    straight, epochs = fit(tmp_path / "straight", network=network)
    assert epochs == [1, 2, 3, 4]
    assert fit(tmp_path / "cut", network=network, stop_after=3)[1] == [1, 2, 3]  # cut before its third checkpoint
    resumed, epochs = fit(tmp_path / "cut", network=network)
    assert epochs == [3, 4]
    assert weights(resumed) == weights(straight)
    assert repr(resumed.history_) == repr(straight.history_)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_every_epoch_has_a_checkpoint_by_default(tmp_path):
    """A training that is cut in its second epoch repeats that one only."""
    assert fit(tmp_path, stop_after=2)[1] == [1, 2]
    assert fit(tmp_path)[1] == [2, 3, 4]


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_a_finished_training_is_not_repeated(tmp_path):
    """The last epoch is always kept, whatever the distance between checkpoints."""
    first, _ = fit(tmp_path, every=3)
    second, epochs = fit(tmp_path, every=3)
    assert epochs == []
    assert weights(second) == weights(first)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_checkpoints_of_another_run_are_refused(tmp_path):
    """Settings that differ from the checkpoint's are named instead of being mixed."""
    fit(tmp_path)
    with pytest.raises(SavedModelError, match="belongs to another run: settings was .*Remove the old state, or repeat"):
        fit(tmp_path, learning_rate=0.5)


@pytest.mark.filterwarnings("ignore::holdfast.exceptions.CollapseWarning")
def test_ctrl_c_costs_the_epoch_that_it_cuts(tmp_path):
    """However rare the checkpoints are, the last whole epoch is written before the interrupt goes on."""

    class Interrupter(Counter):
        def epoch(self, report):
            """Press Ctrl-C while the third epoch is looked at."""
            super().epoch(report)
            if report.epoch == 3:
                raise KeyboardInterrupt

    model = NeuralClassifier("mlp", max_epochs=4, steps_per_epoch=3, batch_size=8, random_state=0)
    with (
        pytest.raises(KeyboardInterrupt, match="^$"),
        watch(CheckpointMonitor(tmp_path, every=100, inside=Interrupter())),
    ):
        model.fit(IMAGES[:, 0, 0], LABELS)
    resumed, epochs = fit(tmp_path, every=100)
    assert epochs == [3, 4]
    assert weights(resumed) == weights(fit(tmp_path / "straight")[0])


def test_an_interrupt_before_the_first_epoch_writes_nothing(tmp_path):
    """There is nothing to keep yet."""
    with pytest.raises(KeyboardInterrupt, match="^$"), watch(CheckpointMonitor(tmp_path)):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    """A state that no training leaves is an error of ours, whether its form or its content is wrong."""
    write_checkpoint(tmp_path / "training-0001", {"epoch": 1})
    with pytest.raises(CorruptFileError, match="training-0001' is not the state of a training. Remove it"):
        fit(tmp_path)
    write_checkpoint(tmp_path / "training-0001", ({"epoch": 1}, {}))
    with pytest.raises(SavedModelError, match=r"is not valid \(KeyError\('fingerprint'\)\)"):
        fit(tmp_path)
