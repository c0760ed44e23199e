"""Killed at any moment: what is on the disk is the old or the new, whole; and a fit goes on bit by bit."""

import hashlib
import os
import signal
import time
import warnings

import numpy as np
import pytest

from holdfast.exceptions import HoldfastWarning, StorageError
from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint
from holdfast.saving.files import inject_faults, remove_leftovers
from holdfast.saving.json_files import read_record, write_record
from holdfast.saving.models import load, save

LARGE = np.arange(300_000.0)  # several write calls


def dying(n_steps):
    """Return a fault that kills its process before a step."""
    counter = iter(range(n_steps))

    def fault(name, path):
        if next(counter, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return fault


def keep_writing(folder, n_steps):
    """Write models, checkpoints and records for ever, or until a step kills the process."""
    from sklearn.linear_model import LogisticRegression

    with inject_faults(dying(n_steps)):
        for number in range(2, 10**6):
            save(LogisticRegression(C=float(number)), folder / "model", overwrite=True)
            write_checkpoint(folder / "checkpoint", {"epoch": number, "weights": LARGE + number})
            write_record(folder / "record.json", {"n": number}, overwrite=True)
    return "not killed"


def count_whole(folder, in_child, n_kills, seed):
    """Kill a writer many times, half of the times inside a write; return after how many kills all was whole."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    save(LogisticRegression(C=1.0), folder / "model")
    write_checkpoint(folder / "checkpoint", {"epoch": 1, "weights": LARGE + 1})
    write_record(folder / "record.json", {"n": 1})
    n_whole = 0
    for kill in range(n_kills):
        inside = kill % 2 == 0
        n_steps = int(rng.integers(0, 60)) if inside else 10**9
        child = in_child(keep_writing, folder, n_steps, kill_after=None if inside else rng.uniform(0, 0.2))
        assert child.ended_by == signal.SIGKILL
        state = read_checkpoint(folder / "checkpoint")
        numbers = {load(folder / "model").C, state["epoch"], read_record(folder / "record.json")["n"]}
        whole = (state["weights"] == LARGE + state["epoch"]).all()
        n_whole += bool(whole) and max(numbers) - min(numbers) <= 1
        for name in ("model", "checkpoint"):  # the next child counts from where this one was
            assert (folder / name).is_dir()
        save(LogisticRegression(C=1.0), folder / "model", overwrite=True)
        write_checkpoint(folder / "checkpoint", {"epoch": 1, "weights": LARGE + 1})
        write_record(folder / "record.json", {"n": 1}, overwrite=True)
    remove_leftovers(folder, age=0.0)
    assert sorted(os.listdir(folder)) == ["checkpoint", "model", "record.json"]
    return n_whole


def test_a_killed_writer_leaves_whole_files(memory_folder, in_child):
    """After each of 20 kills, 10 of them inside a write, model, checkpoint and record are whole."""
    assert count_whole(memory_folder, in_child, 20, seed=1) == 20


@pytest.mark.slow
def test_a_writer_killed_often_leaves_whole_files(memory_folder, in_child):
    """After each of 400 kills, 200 of them inside a write, model, checkpoint and record are whole."""
    assert count_whole(memory_folder, in_child, 400, seed=2) == 400


# -- a fit that is killed and continued --------------------------------------------------------------------------------


def fit_network(folder, network, n_steps):
    """Fit PI with a network, writing checkpoints, and return a digest of all that it learned."""
    from holdfast import PIClassifier
    from holdfast.neural import NeuralClassifier
    from holdfast.neural.monitors import watch
    from holdfast.saving.monitors import CheckpointMonitor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3, 14, 14) if network == "cnn" else (120, 3)).astype(np.float32)
    y = (X.reshape(120, -1)[:, 0] + rng.normal(size=120) > 0).astype(int)
    inner = NeuralClassifier(network, max_epochs=3, steps_per_epoch=4, batch_size=10, random_state=0)
    model = PIClassifier(inner, random_state=0)
    with warnings.catch_warnings(), inject_faults(dying(n_steps)), watch(CheckpointMonitor(folder)):
        warnings.simplefilter("ignore", HoldfastWarning)
        model.fit(X, y, environments=np.repeat(["a", "b"], 60))
    digest = hashlib.sha256(repr(model.history_).encode())
    for tensor in model.estimator_.network_.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    for part in model.partitions_:
        digest.update(part.correct.tobytes())
    digest.update(model.predict_proba(X).tobytes())
    return digest.hexdigest()


def count_identical(folder, in_child, network, n_kills, seed):
    """Kill fits and continue them; return how many ended bit-identical to one that was never disturbed."""
    import holdfast.neural.estimator  # noqa: F401 - once, before the children

    expected = in_child(fit_network, folder / "undisturbed", network, 10**9).text
    assert len(expected) == 64, expected
    rng = np.random.default_rng(seed)
    n_done = n_identical = 0
    attempt = 0
    while n_done < n_kills:
        attempt += 1
        place = folder / f"attempt-{attempt}"
        while True:  # until a run comes to its end
            inside = n_done % 2 == 0
            n_steps = int(rng.integers(0, 100)) if inside else 10**9  # of 150 or 231
            child = in_child(
                fit_network, place, network, n_steps, kill_after=None if inside else rng.uniform(0.05, 1.5)
            )
            if child.ended_by == 0 or len(child.text) == 64:
                break
            assert child.ended_by == signal.SIGKILL
            n_done += 1
        n_identical += child.text == expected
        assert child.text == expected
    return n_done, n_identical


def test_a_killed_fit_goes_on_bit_by_bit(memory_folder, in_child):
    """A fit that is killed a few times ends with the weights, history, partitions and answers of an undisturbed one."""
    assert count_identical(memory_folder, in_child, "mlp", 4, seed=1)[0] >= 4


@pytest.mark.slow
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_a_fit_killed_often_goes_on_bit_by_bit(memory_folder, in_child, network):
    """Of 100 kills for each network, half inside a write, every fit ends bit-identical."""
    assert count_identical(memory_folder, in_child, network, 100, seed=2)[0] >= 100


# -- many writers ------------------------------------------------------------------------------------------------------


def claim_cells(folder, worker, n_cells):
    """Try to write every cell's record once; return how many this worker won."""
    n_won = 0
    for cell in np.random.default_rng(worker).permutation(n_cells):
        try:
            write_record(folder / f"cell-{cell:05d}.json", {"cell": int(cell), "worker": worker, "load": "x" * 500})
            n_won += 1
        except StorageError as problem:
            if "it exists already" not in str(problem):
                raise
    return n_won


def share_store(folder, n_workers, n_cells, kill):
    """Let workers race for all cells, kill half of them, start them again; return the records that came of it."""
    for round_number in range(2):
        children = []
        for worker in range(n_workers):
            child = os.fork()
            if child == 0:
                try:
                    claim_cells(folder, worker + 100 * round_number, n_cells)
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            children.append(child)
        if kill and round_number == 0:
            time.sleep(0.2)
            for child in children[::2]:
                os.kill(child, signal.SIGKILL)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert set(codes) <= {0, -signal.SIGKILL}
    remove_leftovers(folder, age=0.0)
    return [read_record(folder / name)["cell"] for name in sorted(os.listdir(folder))]


def test_workers_share_a_store(memory_folder):
    """Eight workers, four of them killed, write every cell once: none lost, none twice, none torn."""
    assert share_store(memory_folder, 8, 50, kill=True) == list(range(50))


@pytest.mark.slow
def test_workers_share_a_large_store(memory_folder):
    """The same with 8 × 1,000 cells."""
    assert share_store(memory_folder, 8, 1000, kill=True) == list(range(1000))
