"""Other packages add methods, networks and data sets: tests/plugins is such a package, with broken entries too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[1] / "plugins"


def run(*arguments: object, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process that finds the package."""
    path = os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
    )
    assert done.returncode == expected, done.stderr
    return done


def test_the_doctor_lists_them():
    """Every entry point is listed with its package; broken ones say why, and are no failure of holdfast."""
    listed = json.loads(run("-m", "holdfast", "doctor", "--json").stdout)
    ours = {p["name"]: p["problem"] for p in listed["plugins"] if p["package"] == "holdfast-example"}
    assert set(ours) >= {"example_method", "example_network", "example_data", "broken_method"}
    assert ours["example_data"] is None
    assert "cannot be imported (ModuleNotFoundError: No module named 'holdfast_example.missing'" in ours["broken_data"]
    assert listed["problems"] == []
    text = run("-m", "holdfast", "doctor").stdout
    assert "Added by other packages" in text
    assert "'broken_network', which holdfast-example registers as" in " ".join(text.split())


def test_a_data_set():
    """It is listed and can be loaded, with its options checked; a broken one does not spoil the list."""
    rows = {row["name"]: row for row in json.loads(run("-m", "holdfast", "data", "--json").stdout)["datasets"]}
    assert rows["example_data"]["summary"] == "Two environments and one column; synthetic."
    assert rows["broken_data"]["summary"] == "Cannot be imported: see 'holdfast doctor'."
    assert rows["toy"]["summary"].startswith("Two binary features")  # ours, whatever a package calls by that name
    code = "from holdfast.datasets import load_dataset as l; print(len(l('example_data', n_rows=30).train))"
    assert run("-c", code).stdout == "60\n"
    code = "from holdfast.datasets import load_dataset; load_dataset('example_data', rows=30)"
    assert "Data set 'example_data' has no option 'rows'. Did you mean 'n_rows'?" in run("-c", code, expected=1).stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken_data", "error: The data set 'broken_data', which holdfast-example registers as"),
        ("wrong_data", "must be a holdfast.datasets.DatasetEntry. It is <function load_example"),
    ],
)
def test_a_broken_data_set_is_one_line(name, message):
    """Asked for by name, it says which package is to blame."""
    assert message in run("-m", "holdfast", "data", name, expected=2).stderr


def test_a_network():
    """It is built by name, and unknown names list it; a broken one harms nobody else."""
    code = (
        "from holdfast import NeuralClassifier; import numpy as np\n"
        "X, y = np.arange(20.0)[:, None] - 9.5, np.arange(20) // 10\n"
        "print(NeuralClassifier('example_network', max_epochs=1, steps_per_epoch=1).fit(X, y).predict(X).shape)"
    )
    assert run("-c", code).stdout == "(20,)\n"
    code = "from holdfast.neural.networks import build_network as b; b({!r}, input_shape=(2,), n_classes=2)"
    assert "'example_network'" in run("-c", code.format("nothing"), expected=1).stderr
    assert (
        "The network 'broken_network', which holdfast-example"
        in run("-c", code.format("broken_network"), expected=1).stderr
    )


@pytest.mark.parametrize(("network", "text"), [("text_cnn", True), ("mlp", False), ("broken_network", None)])
def test_asking_which_networks_read_texts_survives_a_broken_one(network, text):
    """Messages list the networks for texts; a broken one cannot be asked and is left out."""
    code = f"from holdfast.neural.networks import reads_text; print(reads_text({network!r}))"
    assert run("-c", code).stdout == f"{text}\n"


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


def test_a_sweep_uses_all_three(tmp_path):
    """An experiment names a method, a network and a data set of another package; worker processes find them too."""
    (tmp_path / "small.toml").write_text(EXPERIMENT.format(method="example_method"))
    command = ("-m", "holdfast", "sweep", tmp_path / "small.toml", "--out", tmp_path / "out", "--jobs", 1, "--json")
    found = json.loads(run(*command).stdout)
    assert (found["n_new"], found["failures"]) == (1, [])
    (tmp_path / "small.toml").write_text(EXPERIMENT.format(method="broken_method"))
    assert "error: The method 'broken_method', which holdfast-example registers as" in run(*command, expected=2).stderr


def test_a_method_can_be_saved(tmp_path):
    """A model of a registered method is loaded by its class's name, as long as the package is installed."""
    code = (
        "import numpy as np, holdfast, holdfast_example as h\n"
        "X, y = np.arange(40.0)[:, None] % 7, np.arange(40) % 2\n"
        f"holdfast.save_model(h.ExampleClassifier().fit(X, y, environments=y), {str(tmp_path / 'model')!r})"
    )
    run("-c", code)
    code = f"import holdfast; print(type(holdfast.load_model({str(tmp_path / 'model')!r})).__name__)"
    assert run("-c", code).stdout == "ExampleClassifier\n"
    alone = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "asks for the class 'ExampleClassifier', which is not on the list" in alone.stderr
