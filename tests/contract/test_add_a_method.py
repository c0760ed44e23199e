"""A new method is one file and one line, as docs/how-to/add-a-method.md says."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast import load, save
from holdfast.estimators.methods import METHODS
from holdfast.lab.experiments import parse_run
from holdfast.lab.runner import run
from holdfast.neural import NeuralClassifier

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-method.md"


@pytest.fixture
def method(monkeypatch):
    """The guide's file as the module that it is called, and its line in the registry; returns the class."""
    text = GUIDE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    path = re.match(r"# src/(\S+)\.py", block).group(1)
    module = types.ModuleType(path.replace("/", "."))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block, path, "exec"), module.__dict__)  # noqa: S102 - the guide's own code is what is tested
    name, entry = re.search(r'```text\n"(\w+)": "(\S+)",\n```', text).groups()
    monkeypatch.setitem(METHODS._entries, name, entry)
    vars(METHODS).pop("paths", None)  # collected once
    yield METHODS[name]
    METHODS._loaded.pop(name)
    vars(METHODS).pop("paths", None)


def network():
    """Return a linear network that trains for a moment."""
    return NeuralClassifier("linear", max_epochs=2, steps_per_epoch=50, learning_rate=0.03, random_state=0)


def test_objective_of_the_guide_by_hand(method):
    """Risks 0.2 and 0.7 with weight 0.5: 0.45 + 0.5·0.5 = 0.7; the warm-up's weight is 1."""
    objective = method(penalty_weight=0.5, warm_up=1)._objective()
    outcome = types.SimpleNamespace(risks=torch.tensor([0.2, 0.7]))
    assert objective.combine(outcome, step=1).item() == pytest.approx(0.7)
    assert objective.combine(outcome, step=0).item() == pytest.approx(0.95)
    assert repr(objective) == "RiskPenalty(weight=0.5, warm_up=1, penalty=SpreadClassifier._penalty)"


def test_method_of_the_guide_trains(method, tmp_path):
    """The estimator fits, predicts, repeats itself and is saved like every other method."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=120)
    X = generator.normal(size=(120, 3)) + y[:, None]
    classifier = method(network(), random_state=0)
    probabilities = classifier.fit(X, y, environments=np.arange(120) % 3).predict_proba(X)
    assert classifier.score(X, y) > 0.7
    np.testing.assert_array_equal(classifier.fit(X, y, environments=np.arange(120) % 3).predict_proba(X), probabilities)
    save(classifier, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), probabilities)


def test_method_of_the_guide_is_an_experiments(method, tmp_path):
    """Runs know it by its name, with the settings of every penalty."""
    settings = {"max_epochs": 1, "steps_per_epoch": 2, "penalty_weight": 2.0, "warm_up": 0}
    record = run(parse_run({"dataset": "toy", "method": "spread", "estimator": "linear", **settings}), cache=tmp_path)
    assert record["settings"]["train"]["epochs"] == 1
