"""Exponentiated group weights."""

import contextlib
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from holdfast.environments import Group
from holdfast.exceptions import DivergedError, ParameterError
from holdfast.neural.batches import GroupBatches
from holdfast.neural.estimator import NeuralRegressor
from holdfast.neural.evaluation import minus_squared_error
from holdfast.neural.objectives import OnlineGroups, OnlineGroupWeights, Problem, WorstGroup
from holdfast.neural.risks import squared_error
from holdfast.neural.settings import autocast
from holdfast.neural.sources import make_source
from holdfast.seeding import Seeding


def test_two_steps_on_paper():
    """η = 1: after risks (0, ln 2) q ∝ (1, 2); after (ln 3, 0) q ∝ (3, 2)."""
    weights = OnlineGroupWeights([10, 10], step_size=1.0)
    risks = torch.tensor([0.0, math.log(2)], dtype=torch.float64, requires_grad=True)
    loss = weights(risks)
    loss.backward()
    assert loss.item() == pytest.approx(2 / 3 * math.log(2))
    assert risks.grad.tolist() == pytest.approx([1 / 3, 2 / 3])
    weights(torch.tensor([math.log(3), 0.0]))
    assert weights.weights.tolist() == pytest.approx([0.6, 0.4])


def test_the_adjustment_counts_small_groups_as_riskier():
    """C/√n_g: with equal risks, C = 2 and n = (4, 16) the exponents are 1 and 1/2."""
    weights = OnlineGroupWeights([4, 16], step_size=1.0, adjustment=2.0)
    weights.update(np.zeros(2))
    assert weights.weights[0] / weights.weights[1] == pytest.approx(math.exp(0.5))


def test_a_batch_need_not_hold_every_group():
    """Risks of some groups move those groups only, and weigh with their own weights."""
    weights = OnlineGroupWeights([1, 1, 1], step_size=1.0)
    loss = weights(torch.tensor([math.log(2)]), groups=[2])
    assert weights.weights.tolist() == pytest.approx([0.25, 0.25, 0.5])
    assert loss.item() == pytest.approx(0.5 * math.log(2))


def test_large_sums_do_not_overflow():
    """Weights stay on the simplex after very many steps."""
    weights = OnlineGroupWeights([1, 1], step_size=1.0)
    for _ in range(50):
        weights.update(np.array([100.0, 50.0]))
    assert weights.weights.tolist() == pytest.approx([1.0, 0.0])


def test_weights_continue_from_their_state():
    """The state holds all there is."""
    weights, again = OnlineGroupWeights([1, 2]), OnlineGroupWeights([1, 2])
    weights.update(np.array([0.3, 0.9]))
    again.load_state_dict(weights.state_dict())
    assert np.array_equal(weights.weights, again.weights)


def test_what_cannot_be_is_refused():
    """NaN risks, sizes and settings that make no sense."""
    with pytest.raises(DivergedError, match="A group risk is not finite"):
        OnlineGroupWeights([1, 1])(torch.tensor([0.1, math.nan]))
    with pytest.raises(ParameterError, match="one positive number for each group"):
        OnlineGroupWeights([1, 0])
    with pytest.raises(ParameterError, match="'step_size' must be positive"):
        OnlineGroupWeights([1, 1], step_size=0.0)
    with pytest.raises(ParameterError, match="'groups_per_step' must be at least 1"):
        OnlineGroups(groups_per_step=0)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("n_groups", [4, 300])
def test_the_min_max_value_is_reached_with_few_and_with_many_groups(n_groups, soft):
    """f(x) = w, targets −1, 1 and many at 0.8: min–max is w = 0 with risk 1, while the mean risk asks for 0.8."""
    targets = np.full(n_groups, 0.8)
    targets[:2] = -1.0, 1.0
    y = np.repeat(targets, 60)
    weights = np.random.default_rng(0).random(60) if soft else None
    groups = [Group(f"g{g}", np.arange(60 * g, 60 * g + 60), weights) for g in range(n_groups)]
    regressor = NeuralRegressor(
        "linear",
        max_epochs=6,
        steps_per_epoch=150,
        learning_rate=0.02,
        scheduler="cosine",
        training__weight_averaging=0.99,
        random_state=0,
    )
    regressor.fit_groups(np.zeros((len(y), 1)), y, groups, objective=OnlineGroups(step_size=0.03))
    found = regressor.predict(np.zeros((1, 1)))[0]
    assert max((found - targets) ** 2) < 1.12
    assert regressor.group_weights_[:2].sum() > 0.5


def test_a_step_touches_a_bounded_number_of_rows():
    """With 500 groups a step draws 4 batches' worth of rows, not 500, and all groups are heard of after a while."""
    groups = [Group(f"g{g}", np.arange(10 * g, 10 * g + 10)) for g in range(500)]
    batches = GroupBatches(
        make_source(np.zeros((5000, 1))), np.zeros(5000, np.float32), groups, batch_size=5, seeding=Seeding(0)
    )
    problem = Problem(nn.Linear(1, 1), batches, squared_error, Seeding(0), minus_squared_error, contextlib.nullcontext)
    run = OnlineGroups().start(problem)
    seen = set()
    for step in range(100):
        report = run.backward(step)
        assert len(report.groups) <= 20
        seen.update(report.groups)
    assert len(seen) == 500


class Casts(TorchDispatchMode):
    """Counts how often a tensor of some shape is cast to bfloat16."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.n = shape, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.n += (
            func is torch.ops.aten._to_copy.default and result.dtype == torch.bfloat16 and args[0].shape == self.shape
        )
        return result


def test_weights_are_cast_once_for_all_groups_of_a_step():
    """Under bf16 a step of the hard max over five groups casts the weights once, and again in the next step."""
    groups = [Group(f"g{g}", np.arange(10 * g, 10 * g + 10)) for g in range(5)]
    X = np.random.default_rng(0).normal(size=(50, 3))
    batches = GroupBatches(make_source(X), np.zeros(50, np.float32), groups, batch_size=5, seeding=Seeding(0))
    bf16 = autocast("bf16", torch.device("cpu"))
    network = nn.Linear(3, 1)
    run = WorstGroup().start(Problem(network, batches, squared_error, Seeding(0), minus_squared_error, bf16))
    for _ in range(2):
        with Casts(network.weight.shape) as casts:
            run.backward(0)
        assert casts.n == 1
