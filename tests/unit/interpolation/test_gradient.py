"""The gradient solver of stage 3."""

import math

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from holdfast.environments import Group
from holdfast.interpolation.gradient import NetworkFit, fit_network, solve_gradient
from holdfast.neural.estimator import NeuralClassifier, NeuralRegressor
from holdfast.rows.training import TrainingRows, ValidationRows
from holdfast.seeding import Seeding


def solve(estimator, X, y, groups, seeding, **options):
    """Solve on plain arrays."""
    return solve_gradient(estimator, TrainingRows(X, y, ()), groups, seeding, NetworkFit(**options))


def stable_and_unstable(n=400):
    """Return rows where column 0 tells the label in 80 % of each group and column 1 flips between the groups."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=2 * n)
    stable = np.where(generator.random(2 * n) < 0.8, y, 1 - y)
    unstable = np.where(np.arange(2 * n) < n, y, 1 - y)
    unstable = np.where(generator.random(2 * n) < 0.95, unstable, 1 - unstable)
    X = 100 * (2.0 * np.stack([stable, unstable], axis=1) - 1)
    return X, y, [Group("agrees", np.arange(n)), Group("flipped", np.arange(n // 2 * 2, 2 * n))]


@pytest.mark.parametrize("objective", ["max", "online"])
def test_the_unstable_column_is_ignored(objective):
    """The min–max over both groups is the classifier of the stable column: risk H(0.8) in each group."""
    X, y, groups = stable_and_unstable()
    network = NeuralClassifier(
        "linear",
        max_epochs=8,
        learning_rate=0.02,
        network__dropout=0.0,
        scheduler="cosine",
        training__weight_averaging=0.98,
    )
    solution = solve(make_pipeline(StandardScaler(), network), X, y, groups, objective=objective, seeding=Seeding(0))
    entropy = -0.8 * math.log(0.8) - 0.2 * math.log(0.2)
    assert solution.group_risks == pytest.approx([entropy, entropy], abs=0.05)
    assert solution.worst_case_risk == max(solution.group_risks)
    assert solution.solver == "gradient"
    assert math.isnan(solution.gap)
    assert solution.group_weights == pytest.approx([0.5, 0.5], abs=0.15)
    assert len(solution.history) == 8
    accuracy = np.mean(solution.estimator.predict(X) == y)
    assert accuracy == pytest.approx(0.8, abs=0.03)


def test_risks_of_large_groups_are_those_of_a_thousand_rows(monkeypatch):
    """More than 1,000 rows of a group are not asked about; their weights and the evenly spaced rows give the risk."""
    X = np.arange(4000.0)[:, np.newaxis] / 4000
    y = (X[:, 0] > 0.5).astype(np.int64)
    groups = [Group("all", np.arange(4000), np.linspace(1, 2, 4000)), Group("few", np.arange(50))]
    asked = []
    plain = NeuralClassifier.outputs
    monkeypatch.setattr(
        NeuralClassifier, "outputs", lambda self, X, rows=None: (asked.append(rows), plain(self, X, rows))[1]
    )
    network = NeuralClassifier("linear", max_epochs=1, steps_per_epoch=20, learning_rate=0.1, network__dropout=0.0)
    risks = solve(network, X, y, groups, objective="max", seeding=Seeding(0)).group_risks
    assert len(asked[-1]) <= 1050
    losses = -np.log(network.predict_proba(X)[np.arange(4000), y])
    assert risks[0] == pytest.approx(np.average(losses, weights=groups[0].weights), rel=0.01)
    assert risks[1] == pytest.approx(losses[:50].mean(), rel=1e-5)


def test_validation_rows_go_through_the_pipeline():
    """The transformers see validation rows too, so the selected score is the pipeline's own."""
    X, y, groups = stable_and_unstable()
    pipeline = make_pipeline(StandardScaler(), NeuralClassifier("linear", max_epochs=2, steps_per_epoch=20))
    solve(pipeline, X, y, groups, objective="max", validation=ValidationRows(X, y), seeding=Seeding(0))
    scores = pipeline[-1].selected_.scores
    assert scores.validation_score == pytest.approx(np.mean(pipeline.predict(X) == y))


def test_seeding_decides_where_the_estimator_does_not():
    """An unset random_state comes from the seeding; a set one stays."""
    X, y, groups = stable_and_unstable(60)
    settings = {"max_epochs": 1, "steps_per_epoch": 20, "learning_rate": 0.05}

    def risks(seed, **more):
        network = NeuralClassifier("linear", **settings, **more)
        return solve(network, X / 100, y, groups, seeding=Seeding(seed)).group_risks

    assert np.array_equal(risks(0), risks(0))
    assert not np.array_equal(risks(0), risks(1))
    assert np.array_equal(risks(0, random_state=5), risks(1, random_state=5))


def test_regression_risks_are_squared_errors():
    """Group risks are the groups' mean squared errors."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    y = X[:, 0].copy()
    groups = [Group("a", np.arange(50)), Group("b", np.arange(50, 100))]
    network = NeuralRegressor("linear", max_epochs=1, steps_per_epoch=10, random_state=0)
    solution = solve(network, X, y, groups, seeding=Seeding(0))
    expected = [np.mean((network.predict(X[group.rows]) - y[group.rows]) ** 2) for group in groups]
    assert solution.group_risks == pytest.approx(expected, rel=1e-5)


def test_a_network_that_is_only_fitted_is_not_asked_for_its_risks(monkeypatch):
    """Judges and ERM need no risk of their own rows: nothing is computed that nobody looks at."""
    X, y, groups = stable_and_unstable(60)
    monkeypatch.setattr(NeuralClassifier, "outputs", None)
    network = NeuralClassifier("linear", max_epochs=1, steps_per_epoch=20, learning_rate=0.05)
    fitted = fit_network(network, TrainingRows(X / 100, y, ()), groups, Seeding(0), NetworkFit(objective="erm"))
    assert fitted is network
    assert len(network.history_) == 1
