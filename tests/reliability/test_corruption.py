"""Nothing corrupt is believed: one flipped bit, a cut, a swap or a deletion is refused with the file's name."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from holdfast.exceptions import SavedModelError
from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint
from holdfast.saving.json_files import read_record, write_record
from holdfast.saving.models import load

KINDS = ("linear", "boosting", "network", "checkpoint", "records")


@pytest.fixture(scope="module")
def originals(models, tmp_path_factory) -> Path:
    """Return saved models, a checkpoint and a folder of records."""
    import torch

    folder = tmp_path_factory.mktemp("originals")
    for name in KINDS[:3]:
        shutil.copytree(models / name, folder / name)
    state = {"network": torch.nn.Linear(3, 2).state_dict(), "random": np.random.default_rng(0), "history": [1.5]}
    write_checkpoint(folder / "checkpoint", state)
    (folder / "records").mkdir()
    for seed in range(3):
        write_record(
            folder / "records" / f"run-{seed}.json", {"seed": seed, "accuracy": 0.7 + seed / 100, "nan": np.nan}
        )
    return folder


def read_all(folder):
    """Read a folder of any kind."""
    if folder.name == "records":
        return [read_record(folder / f"run-{seed}.json") for seed in range(3)]
    return read_checkpoint(folder) if folder.name == "checkpoint" else load(folder)


def harm(folder, rng):
    """Harm one random file in a random way, and return the names of which one must be in the message."""
    files = sorted(folder.iterdir())
    file = files[rng.integers(len(files))]
    data = bytearray(file.read_bytes())
    way = ("flip", "truncate", "extend", "swap", "delete")[rng.integers(5)]
    if way == "flip":
        bit = int(rng.integers(8 * len(data)))
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
    elif way == "truncate":
        file.write_bytes(data[: rng.integers(len(data))])
    elif way == "extend":
        file.write_bytes(data + rng.bytes(1 + rng.integers(20)))
    elif way == "swap":
        other = files[(files.index(file) + 1 + rng.integers(len(files) - 1)) % len(files)]
        file.write_bytes(other.read_bytes())
        other.write_bytes(data)
        return way, (file.name, other.name)
    else:
        file.unlink()
    return way, (file.name,)


def count_refused(originals, scratch, n_trials, seed):
    """Return how many harmed folders are refused by an error of ours that names the file, and how each was harmed."""
    rng = np.random.default_rng(seed)
    n_refused, ways = 0, dict.fromkeys(("flip", "truncate", "extend", "swap", "delete"), 0)
    for _ in range(n_trials):
        kind = KINDS[rng.integers(len(KINDS))]
        target = scratch / kind
        shutil.copytree(originals / kind, target)
        way, names = harm(target, rng)
        ways[way] += 1
        try:
            read_all(target)
        except SavedModelError as problem:
            n_refused += any(name in str(problem) for name in names) and "\n" not in str(problem)
        shutil.rmtree(target)
    return n_refused, ways


def test_undamaged_folders_are_read(originals):
    """The folders that are harmed below are good ones."""
    for kind in KINDS:
        assert read_all(originals / kind) is not None


def test_a_hundred_harmed_files_are_refused(originals, tmp_path):
    """Every one of 100 harmed files is refused by name."""
    n_refused, ways = count_refused(originals, tmp_path, 100, seed=1)
    assert n_refused == 100
    assert min(ways.values()) >= 10


@pytest.mark.slow
def test_a_thousand_harmed_files_are_refused(originals, tmp_path):
    """Every one of 1,000 harmed files is refused by name."""
    assert count_refused(originals, tmp_path, 1000, seed=2)[0] == 1000
