"""Other packages add methods, networks and data sets: tests/plugins is such a package, with broken entries too."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from holdfast import load, save
from holdfast.cli import app
from holdfast.datasets import DATASETS, load_dataset
from holdfast.estimators.methods import METHODS
from holdfast.exceptions import ParameterError, PluginError, UntrustedFileError
from holdfast.neural import NeuralClassifier
from holdfast.neural.networks import NETWORKS, build_network, reads_text
from holdfast.tables.comparison import candidate_methods

REGISTRIES = (METHODS, NETWORKS, DATASETS)


@pytest.fixture
def package(monkeypatch):
    """Put the package where Python finds it, as an installation would; returns a function that removes it."""

    def remove():
        context.undo()
        sys.modules.pop("holdfast_example", None)
        for registry in REGISTRIES:
            registry.refresh()

    with monkeypatch.context() as context:
        context.syspath_prepend(Path(__file__).parents[1] / "plugins")
        for registry in REGISTRIES:
            registry.refresh()
        yield remove
        remove()


def run(*arguments, code=0):
    """Run a command in this process, and return what it printed on stdout and stderr."""
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="holdfast", env={"COLUMNS": "80"})
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def test_the_doctor_lists_them(package):
    """Every entry point is listed with its package; broken ones say why, and are no failure of holdfast."""
    listed = json.loads(run("doctor", "--json")[0])
    ours = {p["name"]: p["problem"] for p in listed["plugins"] if p["package"] == "holdfast-example"}
    assert set(ours) >= {"example_method", "example_network", "example_data", "broken_method"}
    assert ours["example_data"] is None
    assert "cannot be imported (ModuleNotFoundError: No module named 'holdfast_example.missing'" in ours["broken_data"]
    assert listed["problems"] == []
    text = run("doctor")[0]
    assert "Added by other packages" in text
    assert "'broken_network', which holdfast-example registers as" in " ".join(text.split())


def test_a_data_set(package):
    """It is listed and can be loaded, with its options checked; a broken one does not spoil the list."""
    rows = {row["name"]: row for row in json.loads(run("data", "--json")[0])["datasets"]}
    assert rows["example_data"]["summary"] == "Two environments and one column; synthetic."
    assert rows["broken_data"]["summary"] == "Cannot be imported: see 'holdfast doctor'."
    assert rows["toy"]["summary"].startswith("Two binary features")  # ours, whatever a package calls by that name
    assert len(load_dataset("example_data", n_rows=30).train) == 60
    with pytest.raises(ParameterError, match=r"'example_data' has no option 'rows'. Did you mean 'n_rows'\?"):
        load_dataset("example_data", rows=30)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken_data", "error: The data set 'broken_data', which holdfast-example registers as"),
        ("wrong_data", "must be a holdfast.datasets.DatasetEntry. It is <function load_example"),
    ],
)
def test_a_broken_data_set_is_one_line(package, name, message):
    """Asked for by name, it says which package is to blame."""
    assert message in run("data", name, code=2)[1]


def test_a_network(package):
    """It is built by name, and unknown names list it; a broken one harms nobody else."""
    X, y = np.arange(20.0)[:, None] - 9.5, np.arange(20) // 10
    network = NeuralClassifier("example_network", max_epochs=1, steps_per_epoch=1, random_state=0)
    assert network.fit(X, y).predict(X).shape == (20,)
    with pytest.raises(ParameterError, match="'example_network'"):
        build_network("nothing", input_shape=(2,), n_classes=2)
    with pytest.raises(PluginError, match="The network 'broken_network', which holdfast-example"):
        build_network("broken_network", input_shape=(2,), n_classes=2)


@pytest.mark.parametrize(("network", "text"), [("text_cnn", True), ("mlp", False), ("broken_network", None)])
def test_asking_which_networks_read_texts_survives_a_broken_one(package, network, text):
    """Messages list the networks for texts; a broken one cannot be asked and is left out."""
    assert reads_text(network) is text


EXPERIMENT = """
name = "plugins"
[run]
dataset = "example_data"
estimator = "example_network"
max_epochs = 1
steps_per_epoch = 1
validations = ["train"]
[[methods]]
method = "{method}"
"""


def test_a_sweep_uses_all_three(package, tmp_path):
    """An experiment names a method, a network and a data set of another package; worker processes find them too."""
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT.format(method="example_method"))
    command = ("sweep", file, "--out", tmp_path / "out", "--jobs", 1, "--json")
    found = json.loads(run(*command)[0])
    assert (found["n_new"], found["failures"]) == (1, [])
    file.write_text(EXPERIMENT.format(method="broken_method"))
    assert "error: The method 'broken_method', which holdfast-example registers as" in run(*command, code=2)[1]


def test_a_method_can_be_saved(package, tmp_path):
    """A model of a registered method is loaded by its class's name, as long as the package is installed."""
    X, y = np.arange(40.0)[:, None] % 7, np.arange(40) % 2
    fitted = METHODS["example_method"]().fit(X, y, environments=np.arange(40) // 20)
    save(fitted, tmp_path / "model")
    assert type(load(tmp_path / "model")).__name__ == "ExampleClassifier"
    package()
    with pytest.raises(UntrustedFileError, match="asks for the class 'ExampleClassifier', which is not on the list"):
        load(tmp_path / "model")


def test_compare_tries_every_method_that_works(package):
    """By default the methods of other packages are compared too, and a broken one is left out."""
    assert [name for name in candidate_methods(None, None, 0) if "method" in name] == ["example_method"]
