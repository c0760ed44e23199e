import pytest
from sklearn.linear_model import LogisticRegression

from holdfast import NeuralClassifier, PIClassifier
from holdfast.datasets import load_dataset
from holdfast.exceptions import ParameterError


def test_the_mixture_at_chance_drops_the_toys_unstable_feature():
    """On the toy x2 decides every judge, says nothing where judges are at chance, and leaves x1 with accuracy 0.8."""
    toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    network = NeuralClassifier("linear", max_epochs=20, steps_per_epoch=50, learning_rate=0.05, selection="last")
    model = PIClassifier(network, objective="chance", random_state=0)
    model.fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    assert model.score(toy.test.X, toy.test.y) == pytest.approx(0.8, abs=0.01)
    masses = [float(group.weights.sum()) for group in model.groups_]
    assert masses == pytest.approx([0.5] * 4)


def test_the_mixture_at_chance_is_for_networks_and_one_round():
    """Elsewhere it would be left out silently, so it is refused."""
    toy = load_dataset("toy", n_rows=200, seed=0)
    rows = {"X": toy.train.X, "y": toy.train.y, "environments": toy.train.environments}
    with pytest.raises(ParameterError, match="objective='chance' is for networks"):
        PIClassifier(LogisticRegression(), objective="chance").fit(**rows)
    with pytest.raises(ParameterError, match="halves of one round"):
        PIClassifier(NeuralClassifier("linear"), objective="chance", rounds=2).fit(**rows)
