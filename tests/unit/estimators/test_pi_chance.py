import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from holdfast import PIClassifier
from holdfast.datasets import load_dataset
from holdfast.estimators.pi import RECIPES
from holdfast.exceptions import ParameterError
from holdfast.neural import NeuralClassifier


def test_the_mixture_at_chance_drops_the_toys_unstable_feature():
    """On the toy x2 decides every judge, says nothing where judges are at chance, and leaves x1 with accuracy 0.8."""
    toy = load_dataset("toy", exact=True, etas=(0.05, 0.2))
    network = NeuralClassifier(
        "linear", max_epochs=20, steps_per_epoch=50, learning_rate=0.05, training__selection="last"
    )
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


def test_the_robust_recipe_reaches_the_stable_features_accuracy():
    """A fifth of the toy's labels contradict x1; with the recipe x1 decides, and the test environment has 0.8."""
    toy = load_dataset("toy", exact=True, etas=(0.05, 0.1))
    network = NeuralClassifier("linear", learning_rate=0.05, network__dropout=0.0)
    model = PIClassifier(network, recipe="robust", random_state=0)
    model.fit(toy.train.X, toy.train.y, environments=toy.train.environments)
    assert model.score(toy.test.X, toy.test.y) == pytest.approx(0.8, abs=0.01)


def test_a_recipe_sets_what_the_user_has_not():
    """Judges and final network differ in their settings; a parameter away from its default stays, and so does ours."""
    network = NeuralClassifier("cnn", learning_rate=0.01, network__hidden=8)
    recipe = RECIPES["robust"]
    judge, final = recipe.network(network, final=False), recipe.network(network, final=True)
    assert (judge.patience, judge.batch_size, final.batch_size) == (2, 50, 100)
    assert judge.learning_rate == final.learning_rate == 0.01
    assert judge.options_for("network") == {"hidden": 8}
    assert final.options_for("network") == {"hidden": 8, "dropout": 0.3, "shift": 1}
    assert network.loss is None


def test_a_recipe_draws_one_batch_a_step_whatever_the_number_of_halves():
    """Three environments have twelve halves, and a step of the recipe still sees `batch_size` rows."""
    seen = []

    class Count(NeuralClassifier):
        def row_loss(self):
            plain = super().row_loss()
            return lambda logits, codes: (seen.append(len(codes)), plain(logits, codes))[1]

    generator = np.random.default_rng(0)
    X, noise = generator.normal(size=(600, 2)), generator.random(600) < 0.2
    y = (X[:, 0] > 0) ^ noise
    network = Count("linear", max_epochs=1, steps_per_epoch=30, batch_size=40, learning_rate=0.1)
    model = PIClassifier(network, recipe="robust", random_state=0).fit(X, y, environments=np.arange(600) % 3)
    assert len(model.groups_) == 12
    assert set(seen[:-1]) == {40}  # the last call is that of the group risks


@pytest.mark.parametrize(
    ("estimator", "recipe", "message"),
    [(LogisticRegression(), "robust", "recipe='robust' is for networks"), (None, "rbust", "'recipe' parameter")],
)
def test_recipes_that_cannot_be_followed_are_refused(estimator, recipe, message):
    """A table's estimator has no training to change, and unknown names are mistakes."""
    toy = load_dataset("toy", n_rows=200, seed=0)
    with pytest.raises(ParameterError, match=message):
        PIClassifier(estimator, recipe=recipe).fit(toy.train.X, toy.train.y, environments=toy.train.environments)


def test_the_mean_of_the_halves_gives_up_less_than_the_worst_case():
    """objective='equal' weights both halves of every partition one half each, and is for networks."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=800)
    sites = np.repeat(["a", "b"], 400)
    shares = np.where(sites == "a", 0.95, 0.8)
    columns = [np.where(rng.random(800) < share, y, 1 - y) for share in (np.full(800, 0.75), shares)]
    X = np.stack(columns, axis=1) * 2.0 - 1
    network = NeuralClassifier("linear", max_epochs=2, learning_rate=0.02, training__precision="fp32", random_state=0)
    model = PIClassifier(network, objective="equal", random_state=0).fit(X, y, environments=sites)
    assert sum(float(group.weights.sum()) for group in model.groups_) == pytest.approx(2.0)
    for group in model.groups_:
        assert float(group.weights.sum()) == pytest.approx(0.5)
    with pytest.raises(ParameterError, match="objective='equal' is for networks"):
        PIClassifier(objective="equal").fit(X, y, environments=sites)


def test_validation_rows_of_the_environments_fill_the_diagonal():
    """A network's judge has no answers about its own rows; validation rows by environment give its accuracy there."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    X, sites = (y[:, None] * 2.0 - 1) + 0.1 * rng.standard_normal((400, 2)), np.repeat(["a", "b"], 200)
    network = NeuralClassifier("linear", max_epochs=1, learning_rate=0.1, training__precision="fp32", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = PIClassifier(network, random_state=0).fit(X, y, environments=sites)
        filled = PIClassifier(network, random_state=0).fit(X, y, environments=sites, validation=(X, y, sites))
    assert np.isnan(np.diag(plain.accuracies_)).all()
    assert np.diag(filled.accuracies_).tolist() == [1.0, 1.0]
