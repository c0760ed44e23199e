"""Networks of users in saved models: by import path, followed only where the caller trusts it."""

import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.estimators.pi import PIClassifier
from holdfast.exceptions import InputTypeError, SavedModelError, UntrustedFileError
from holdfast.neural.estimator import NeuralClassifier
from holdfast.registry import ImportPath
from holdfast.saving import load, save
from holdfast.saving.json_files import checked_json, parse_checked_json

FAST = {"max_epochs": 1, "steps_per_epoch": 5, "learning_rate": 0.05, "random_state": 0}
X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
Y = (X[:, 0] + np.random.default_rng(1).normal(size=60) > 0).astype(int)
SITES = np.repeat(["a", "b"], 30)
CODE = """
from torch import nn

class Outer:
    class Net(nn.Module):
        def __init__(self, width, n_classes):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, n_classes))

        def forward(self, inputs):
            return self.layers(inputs)

def build(width=4):
    return Outer.Net(width, 1)

def double(row):
    return 2 * row
"""


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """Return a module of the user's, importable until the test ends."""
    (tmp_path / "nets_of_a_user.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("nets_of_a_user", None)
    import nets_of_a_user

    yield nets_of_a_user
    sys.modules.pop("nets_of_a_user", None)


class Watcher:
    """A callback that cannot be saved."""

    def on_epoch_end(self, *args, **kwargs):
        """Do nothing."""


def test_a_class_is_loaded_only_where_it_is_trusted(nets, tmp_path):
    """Without trust nothing is imported, and the message gives the argument; with it the answers are the same bits."""
    network = NeuralClassifier(nets.Outer.Net, network__width=5, callbacks=[Watcher()], **FAST)
    model = PIClassifier(network, random_state=0, min_group_size=1).fit(X, Y, environments=SITES)
    save(model, tmp_path / "model")
    path = "nets_of_a_user.Outer.Net"
    assert path in (tmp_path / "model" / "tree.json").read_text()
    del sys.modules["nets_of_a_user"]
    for trust in ([], ["nets_of_a_user"], ["nets_of_a_user.build"]):
        with pytest.raises(UntrustedFileError, match=rf"Nothing was imported.*load with trust=\['{path}'\]"):
            load(tmp_path / "model", trust=trust)
    assert "nets_of_a_user" not in sys.modules
    loaded = load(tmp_path / "model", trust=[path])
    assert loaded.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    assert loaded.estimator.callbacks is None
    with pytest.raises(InputTypeError, match="trust must be a list of import paths"):
        load(tmp_path / "model", trust=path)


def test_functions_that_build_and_transform_are_saved_too(nets, tmp_path):
    """A row_transform is part of the answers, so it is trusted by name as well; optimizers are not saved."""
    network = NeuralClassifier(nets.build, data__row_transform=nets.double, optimizer=torch.optim.SGD, **FAST)
    fitted = network.fit(X, Y)
    save(fitted, tmp_path / "model")
    with pytest.raises(UntrustedFileError, match=r"trust=\['nets_of_a_user.double'\]"):
        load(tmp_path / "model", trust=["nets_of_a_user.build"])
    loaded = load(tmp_path / "model", trust=["nets_of_a_user.build", "nets_of_a_user.double"])
    assert loaded.predict_proba(X).tolist() == fitted.predict_proba(X).tolist()
    assert (loaded.data__row_transform, loaded.optimizer) == (nets.double, None)


def local_function():
    """Return a function that has no import path."""

    def build():
        return nn.Linear(3, 2)

    return build


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: nn.Linear(3, 2), "cannot be imported by name elsewhere"),
        (local_function(), "cannot be imported by name elsewhere"),
        (nn.Linear(3, 2), "network is an instance of Linear, and how it was built cannot be saved"),
    ],
    ids=["lambda", "local", "instance"],
)
def test_what_has_no_import_path_is_refused_when_saving(network, message, tmp_path):
    """Nothing is written, and the message says what to pass instead."""
    fitted = NeuralClassifier(network, **FAST).fit(X, Y)
    with pytest.raises(SavedModelError, match=message):
        save(fitted, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_function_of_a_script_is_refused(monkeypatch):
    """What is in `__main__` cannot be found by another process."""
    monkeypatch.setattr(local_function, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "local_function", local_function, raising=False)
    with pytest.raises(SavedModelError, match="cannot be imported by name elsewhere"):
        ImportPath.of(local_function, "network")


def test_a_module_that_is_gone_is_said(nets, tmp_path):
    """A trusted path that cannot be imported names the package to install."""
    fitted = NeuralClassifier(nets.build, **FAST).fit(X, Y)
    save(fitted, tmp_path / "model")
    del sys.modules["nets_of_a_user"]
    (tmp_path / "nets_of_a_user.py").unlink()
    with pytest.raises(SavedModelError, match=r"cannot be imported here.*Install the package"):
        load(tmp_path / "model", trust=["nets_of_a_user.build"])


def test_trust_is_for_the_named_path_only(nets, tmp_path):
    """A folder that was changed to name another function is refused, whatever else is trusted."""
    from holdfast.saving.models import TREE, read_folder, write_folder

    save(NeuralClassifier(nets.build, **FAST).fit(X, Y), tmp_path / "model")
    manifest, files = read_folder(tmp_path / "model", "model")
    tree = json.dumps({key: value for key, value in parse_checked_json(files[TREE], tmp_path).items() if key == "root"})
    files[TREE] = checked_json(json.loads(tree.replace("nets_of_a_user.build", "os.system")))
    facts = {"estimator": manifest["estimator"], "extra": {}}
    write_folder(tmp_path / "changed", "model", files, facts, overwrite=False)
    with pytest.raises(UntrustedFileError, match="fitted with 'os.system', which is code outside of holdfast"):
        load(tmp_path / "changed", trust=["nets_of_a_user.build"])
