"""What a plain `pip install holdfast` can do: everything about tables, without torch and the other extras."""

import json

import numpy as np
import pytest

from holdfast import save
from holdfast.neural import NeuralClassifier

# Runs each command, given as a JSON list of lists, and prints its exit code and what it printed.
COMMANDS = """
import contextlib, io, json, sys
from holdfast.cli import main

ended = []
for arguments in json.loads(sys.argv[1]):
    sys.argv, out, err = ["holdfast", *arguments], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    ended.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(ended))
"""
TABLE = """
import numpy as np, pandas as pd
generator = np.random.default_rng(0)
parts = []
for site, agreement in (("Boston", 0.9), ("Chicago", 0.7), ("Denver", 0.2)):
    y = np.arange(120) % 2
    scanner = np.where(generator.random(120) < agreement, y, 1 - y)
    parts.append(pd.DataFrame({"site": site, "marker": y + generator.normal(0, 1, 120), "scanner": scanner, "ill": y}))
pd.concat(parts[:2]).to_csv("train.csv", index=False)
pd.concat(parts).to_parquet("test.parquet", index=False)
"""
NEEDS_TORCH = (
    "Networks need torch, which is not installed. "
    "Run pip install -c constraints.txt '.[neural]' in a clone of holdfast."
)
ROLES = ["--label", "ill", "--environment", "site"]


def run_commands(run, *commands: list[str]) -> list[tuple[int, str, str]]:
    """Return exit code, output and errors of each command."""
    done = run(COMMANDS, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    return [tuple(ended) for ended in json.loads(done.stdout)]


def test_the_whole_way_of_a_table(run_without_extras, tmp_path):
    """Fit, predict, evaluate, compare, audit, partition and report work with scikit-learn's estimators."""
    assert run_without_extras(TABLE).returncode == 0
    commands = [
        ["--help"],
        ["fit", "train.csv", *ROLES, "--out", "model", "--report", "fit.html"],
        ["fit", "train.csv", *ROLES, "--method", "pi", "--out", "pi"],
        ["fit", "train.csv", *ROLES, "--method", "erm", "--estimator", "boosting", "--out", "erm"],
        ["predict", "model", "test.parquet", "--out", "predictions.csv"],
        ["evaluate", "model", "test.parquet", "--json"],
        ["audit", "model", "train.csv", "--json"],
        ["compare", "train.csv", *ROLES, "--json"],
        ["partition", "train.csv", *ROLES, "--out", "halves.csv"],
        ["report", "model", "--table", "train.csv", "--test", "test.parquet", "--out", "page.html"],
        ["theory"],
        ["data"],
        ["doctor", "--json"],
    ]
    ended = run_commands(run_without_extras, *commands)
    for command, (code, _, err) in zip(commands, ended, strict=True):
        assert code == 0, (command, err)
    assert {"fit.html", "page.html", "predictions.csv", "halves.csv"} <= {path.name for path in tmp_path.iterdir()}
    missing = {extra["name"]: extra["install"] for extra in json.loads(ended[-1][1])["extras"]}
    assert missing["docs"] is None or missing["docs"].startswith("pip install ")


def test_the_demo_needs_no_extra(run_without_extras, tmp_path):
    """What ./scripts/demo runs works with what it installs, the core."""
    ((code, out, err),) = run_commands(run_without_extras, ["demo", "--seeds", "1", "--json"])
    assert code == 0, err
    assert json.loads(out)["methods"].keys() >= {"erm", "pi", "oracle"}
    assert (tmp_path / "holdfast-demo.html").stat().st_size > 10_000


def test_the_way_through_python(run_without_extras):
    """The classifiers fit, save and load without an extra; only the networks ask for theirs, when they are named."""
    done = run_without_extras("""
import numpy as np
import holdfast
from sklearn.ensemble import HistGradientBoostingClassifier

generator = np.random.default_rng(0)
y = np.arange(200) % 2
X, sites = y[:, None] + generator.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
for method in (holdfast.ERMClassifier, holdfast.GroupDROClassifier, holdfast.PIClassifier):
    model = method().fit(X, y, environments=sites)
    holdfast.save(model, method.__name__)
    assert (holdfast.load(method.__name__).predict(X) == model.predict(X)).all()
holdfast.PIClassifier(HistGradientBoostingClassifier(max_iter=5)).fit(X, y, environments=sites)
try:
    holdfast.neural.NeuralClassifier
except holdfast.exceptions.MissingExtraError as problem:
    print(problem)
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{NEEDS_TORCH}\n"


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "train.csv", *ROLES, "--estimator", "mlp", "--out", "model"],
        ["fit", "train.csv", *ROLES, "--method", "irm", "--out", "model"],
    ],
    ids=" ".join,
)
def test_a_network_asks_for_its_extra(run_without_extras, command):
    """One line on stderr says what to install, and the exit code is 2."""
    assert run_without_extras(TABLE).returncode == 0
    ((code, out, err),) = run_commands(run_without_extras, command)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (f"error: {NEEDS_TORCH}")


def test_a_saved_network_asks_for_its_extra(run_without_extras, tmp_path):
    """A model that was saved where torch is installed is not called damaged where it is not."""
    y = np.arange(40) % 2
    model = NeuralClassifier(max_epochs=1).fit(np.column_stack([y, 1 - y]).astype(np.float32), y)
    save(model, tmp_path / "model")
    done = run_without_extras("import holdfast; holdfast.load('model')")
    assert done.stderr.splitlines()[-1] == (f"holdfast.exceptions.MissingExtraError: {NEEDS_TORCH}")


EXPERIMENT = """
[run]
dataset = "toy"
estimator = "{estimator}"
validations = ["train"]
[[methods]]
method = "pi"
"""


def test_experiments_without_networks(run_without_extras, tmp_path):
    """A sweep of scikit-learn's estimators, in a worker process too, and the toy figure; a network names its extra."""
    (tmp_path / "trees.toml").write_text(EXPERIMENT.format(estimator="forest"))
    (tmp_path / "network.toml").write_text(EXPERIMENT.format(estimator="mlp"))
    sweep, toy, network = run_commands(
        run_without_extras,
        ["sweep", "trees.toml", "--out", "runs", "--json"],
        ["reproduce", "toy", "--out", "runs"],
        ["sweep", "network.toml", "--out", "runs"],
    )
    assert (sweep[0], json.loads(sweep[1])["n_new"]) == (0, 1), sweep[2]
    assert toy[0] == 0, toy[2]
    assert network[0] == 2
    assert network[2] == f"error: {NEEDS_TORCH}\n"
