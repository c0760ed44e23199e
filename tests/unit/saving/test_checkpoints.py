import os

import numpy as np
import pytest
import torch

from holdfast.exceptions import CorruptFileError, MismatchWarning, SavedModelError
from holdfast.saving import checkpoints as resuming
from holdfast.saving.checkpoints import read_checkpoint, write_checkpoint
from holdfast.saving.models import pack, write_folder


def training(n_steps, state=None):
    """Take steps of a small training with dropout, and return its state."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), torch.nn.Dropout(), torch.nn.Flatten(), torch.nn.Linear(16, 2)
    )
    network = network.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1, fused=True)
    generator = np.random.default_rng(0)
    if state is not None:
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch"])
        generator = state["numpy"]
    for _ in range(n_steps):
        rows = torch.from_numpy(generator.normal(size=(5, 2, 4, 4)).astype(np.float32))
        loss = network(rows.to(memory_format=torch.channels_last)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "numpy": generator,
        "history": [{"loss": float(loss.detach())}],
    }


def test_a_training_goes_on_bit_by_bit(tmp_path):
    """Weights, optimizer, random states and layouts in memory survive: three steps and three more equal six."""
    write_checkpoint(tmp_path / "checkpoint", training(3))
    resumed = training(3, read_checkpoint(tmp_path / "checkpoint"))
    straight = training(6)
    assert resumed["history"] == straight["history"]
    for name, tensor in straight["network"].items():
        assert torch.equal(resumed["network"][name], tensor)
    for number, values in straight["optimizer"]["state"].items():
        assert torch.equal(resumed["optimizer"]["state"][number]["exp_avg_sq"], values["exp_avg_sq"])


def test_a_checkpoint_replaces_the_one_before(tmp_path):
    """The folder holds the latest state alone, and no other kind of folder is replaced."""
    for epoch in range(3):
        write_checkpoint(tmp_path / "checkpoint", {"epoch": epoch})
    assert read_checkpoint(tmp_path / "checkpoint") == {"epoch": 2}
    assert os.listdir(tmp_path) == ["checkpoint"]
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("")
    with pytest.raises(SavedModelError, match="is not a saved checkpoint of holdfast's"):
        write_checkpoint(tmp_path / "theirs", {"epoch": 0})


@pytest.mark.parametrize(
    ("name", "value"), [("torch", "9.9.9"), ("cpu", "another one"), ("threads", 64), ("precision", "bf16")]
)
def test_other_circumstances_are_said(tmp_path, monkeypatch, name, value):
    """A version, CPU type, number of threads or precision that differs is named; strict makes it an error."""
    write_checkpoint(tmp_path / "checkpoint", {"epoch": 1}, precision="fp32")
    facts = resuming.runtime_facts
    monkeypatch.setattr(resuming, "runtime_facts", lambda precision: {**facts(precision), name: value})
    message = rf"written under other circumstances \({name} was .*, is {value}\)"
    with pytest.warns(MismatchWarning, match=message):
        assert read_checkpoint(tmp_path / "checkpoint") == {"epoch": 1}
    with pytest.raises(SavedModelError, match=message):
        read_checkpoint(tmp_path / "checkpoint", strict=True)


def test_another_precision_is_said(tmp_path):
    """The precision to go on with is compared when it is given."""
    write_checkpoint(tmp_path / "checkpoint", {}, precision="fp32")
    read_checkpoint(tmp_path / "checkpoint", strict=True)
    with pytest.warns(MismatchWarning, match="precision was fp32, is bf16"):
        read_checkpoint(tmp_path / "checkpoint", precision="bf16")


def test_a_manifest_without_circumstances_is_refused(tmp_path):
    """A folder with right checksums that no training wrote is an error of ours."""
    write_folder(tmp_path / "checkpoint", "checkpoint", pack({}, "state"), {"runtime": [1]}, overwrite=False)
    with pytest.raises(CorruptFileError, match="checkpoint' does not say how it was trained"):
        read_checkpoint(tmp_path / "checkpoint")
