"""A new method is an objective and an estimator, as docs/how-to/add-a-method.md says."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from holdfast import NeuralClassifier

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-method.md"


@pytest.fixture
def guide_modules(monkeypatch):
    """The guide's two files, run as the modules that it calls them."""
    modules = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL):
        path = re.match(r"# src/(\S+)\.py", block).group(1)
        module = types.ModuleType(path.replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(block, path, "exec"), module.__dict__)  # noqa: S102 - the guide's own code is what is tested
        modules[path.rsplit("/", 1)[0]] = module
    return modules


def test_objective_of_the_guide_by_hand(guide_modules):
    """Risks 0.2 and 0.7 with weight 0.5: 0.45 + 0.5·0.5 = 0.7; the warm-up's weight is 1."""
    objective = guide_modules["holdfast/neural/objectives"].Spread(weight=0.5, warm_up=1)
    outcome = types.SimpleNamespace(risks=torch.tensor([0.2, 0.7]))
    assert objective.combine(outcome, step=1).item() == pytest.approx(0.7)
    assert objective.combine(outcome, step=0).item() == pytest.approx(0.95)


def test_method_of_the_guide_trains(guide_modules):
    """The estimator fits, predicts and repeats itself like every other method."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=120)
    X = generator.normal(size=(120, 3)) + y[:, None]
    network = NeuralClassifier("linear", max_epochs=2, steps_per_epoch=50, learning_rate=0.03, random_state=0)
    method = guide_modules["holdfast/estimators"].SpreadClassifier(network, random_state=0)
    probabilities = method.fit(X, y, environments=np.arange(120) % 3).predict_proba(X)
    assert method.score(X, y) > 0.7
    np.testing.assert_array_equal(method.fit(X, y, environments=np.arange(120) % 3).predict_proba(X), probabilities)
