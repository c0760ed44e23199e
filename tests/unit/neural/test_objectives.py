"""Objectives against values worked out by hand."""

import contextlib
import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.environments import Group
from holdfast.exceptions import InputTypeError, ParameterError
from holdfast.neural.batches import GroupBatches
from holdfast.neural.evaluation import minus_squared_error, right_class
from holdfast.neural.networks import build_network
from holdfast.neural.objectives import (
    ERM,
    IRM,
    OBJECTIVES,
    RGM,
    Balanced,
    OnlineGroups,
    PooledERM,
    Problem,
    VREx,
    WorstGroup,
    make_objective,
)
from holdfast.neural.risks import cross_entropy, irm_penalty, squared_error
from holdfast.neural.sources import make_source
from holdfast.neural.state import flatten, unflatten
from holdfast.seeding import Seeding


class Constant(nn.Module):
    """The same number for every row: f(x) = w."""

    def __init__(self, value):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([value]))

    def forward(self, inputs):
        """Return w for each row."""
        return self.w.expand(len(inputs), 1)


def constant_problem(targets_by_group, *, value=0.0, batch_size=50):
    """Return squared-error risks (w − c_g)² for groups of equal targets c_g; gradients are 2(w − c_g)."""
    targets = np.concatenate([np.full(n, c, dtype=np.float32) for c, n in targets_by_group])
    bounds = np.cumsum([0] + [n for _, n in targets_by_group])
    groups = [Group(f"g{g}", np.arange(a, b)) for g, (a, b) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))]
    batches = GroupBatches(
        make_source(np.zeros((len(targets), 1))), targets, groups, batch_size=batch_size, seeding=Seeding(0)
    )
    return Problem(Constant(value), batches, squared_error, Seeding(0), minus_squared_error, contextlib.nullcontext)


def gradient_of(objective, problem, step=0):
    """Return the gradient of one step with respect to w, and the step's report."""
    problem.network.zero_grad()
    report = objective.start(problem).backward(step)
    return problem.network.w.grad.item(), report


def test_erm_and_balanced_average_the_groups_whatever_their_size():
    """Risks 1 and 4 with 10 and 30 rows: mean 2.5, gradient −(1 + 2)."""
    for objective in (ERM(), Balanced()):
        gradient, report = gradient_of(objective, constant_problem([(1.0, 10), (2.0, 30)]))
        assert gradient == pytest.approx(-3.0)
        assert report.loss == pytest.approx(2.5)
        assert report.risks == pytest.approx((1.0, 4.0))
        assert (report.worst, report.worst_score) == (1, pytest.approx(-4.0))


def test_pooled_erm_counts_rows():
    """With 10 and 30 rows the pooled risk is (1·10 + 4·30)/40."""
    gradient, report = gradient_of(PooledERM(), constant_problem([(1.0, 10), (2.0, 30)]))
    assert report.loss == pytest.approx(3.25)
    assert gradient == pytest.approx(-3.5)


def test_hard_max_differentiates_the_worst_group_alone():
    """The gradient is the second group's."""
    gradient, report = gradient_of(WorstGroup(), constant_problem([(1.0, 10), (2.0, 30)]))
    assert gradient == pytest.approx(-4.0)
    assert report.loss == pytest.approx(4.0)


def test_hard_max_adjustment_handicaps_small_groups():
    """C/√n_g lifts the group of 4 rows (1 + 20/2) above that of 400 (4 + 20/20)."""
    problem = constant_problem([(1.0, 4), (2.0, 400)])
    gradient, report = gradient_of(WorstGroup(adjustment=20.0), problem)
    assert gradient == pytest.approx(-2.0)
    assert (report.worst, report.loss) == (0, pytest.approx(1.0))


def test_hard_max_mixture_counts_how_often_a_group_was_worst():
    """The second group is the worst in every step."""
    run = WorstGroup().start(constant_problem([(1.0, 10), (2.0, 30)]))
    assert run.mixture().tolist() == [0.5, 0.5]
    run.backward(0)
    assert run.mixture().tolist() == [0.0, 1.0]


def test_hard_max_with_batch_normalization_uses_the_statistics_of_all_groups():
    """Running statistics after a step are those of the groups' rows together."""
    inputs = np.concatenate([np.zeros((20, 1)), np.ones((20, 1))]).astype(np.float32)
    groups = [Group("a", np.arange(20)), Group("b", np.arange(20, 40))]
    network = nn.Sequential(nn.BatchNorm1d(1, momentum=1.0), nn.Linear(1, 2))
    batches = GroupBatches(make_source(inputs), np.zeros(40, int), groups, batch_size=20, seeding=Seeding(0))
    problem = Problem(network, batches, cross_entropy, Seeding(0), right_class, contextlib.nullcontext)
    WorstGroup().start(problem).backward(0)
    assert network[0].running_mean.item() == pytest.approx(0.5)


def test_hard_max_equals_its_formulation_in_one_graph():
    """Separate graphs give the gradient of max over the groups of one graph through all."""
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(90, 4)), generator.integers(3, size=90)
    groups = [Group(f"g{g}", np.arange(30 * g, 30 * g + 30)) for g in range(3)]

    def problem():
        torch.manual_seed(0)
        network = build_network("mlp", input_shape=(4,), n_classes=3, hidden=(8,))
        batches = GroupBatches(make_source(X), y, groups, batch_size=20, seeding=Seeding(0))
        return Problem(network, batches, cross_entropy, Seeding(0), right_class, contextlib.nullcontext)

    with torch.random.fork_rng():
        alone, together = problem(), problem()
        WorstGroup().start(alone).backward(0)
        together.assess(together.batches.draw(range(3))).risks.max().backward()
    for one, other in zip(alone.network.parameters(), together.network.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-7)


def test_vrex_adds_the_variance_of_the_risks():
    """Risks 1 and 4: mean 2.5, variance 2.25; weight 10 divides the whole by 10."""
    assert gradient_of(VREx(weight=0.5), constant_problem([(1.0, 5), (2.0, 5)]))[1].loss == pytest.approx(3.625)
    heavy = gradient_of(VREx(weight=10.0), constant_problem([(1.0, 5), (2.0, 5)]))[1].loss
    assert heavy == pytest.approx((2.5 + 22.5) / 10)


def test_penalty_weight_is_one_during_the_warm_up():
    """Before `warm_up` steps the weight is 1, afterwards the tuned one."""
    objective = VREx(weight=100.0, warm_up=3)
    problem = constant_problem([(1.0, 5), (2.0, 5)])
    assert gradient_of(objective, problem, step=2)[1].loss == pytest.approx(4.75)
    assert gradient_of(objective, problem, step=3)[1].loss == pytest.approx((2.5 + 225) / 100)
    with pytest.raises(ParameterError, match="'weight' and 'warm_up' of objective 'vrex' must not be negative"):
        VREx(weight=-1.0)


def classification_problem(network=None, *, n_groups=2, rows=8):
    """Return a small two-class problem."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_groups * rows, 3))
    y = generator.integers(2, size=n_groups * rows)
    groups = [Group(f"e{g}", np.arange(rows * g, rows * g + rows)) for g in range(n_groups)]
    batches = GroupBatches(make_source(X), y, groups, batch_size=50, seeding=Seeding(0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = network or build_network("mlp", input_shape=(3,), n_classes=2, hidden=(4,))
    return Problem(network, batches, cross_entropy, Seeding(0), right_class, contextlib.nullcontext)


@pytest.mark.parametrize("variant", ["squared", "unbiased"])
def test_irm_adds_the_mean_penalty_of_the_environments(variant):
    """The loss is mean risk + w·mean penalty, divided by w."""
    problem = classification_problem()
    outcome = problem.assess(problem.batches.draw([0, 1]))
    penalties = [
        irm_penalty(logits, targets, variant=variant).item()
        for logits, targets in zip(outcome.parts(outcome.logits), outcome.parts(outcome.batch.targets), strict=True)
    ]
    report = IRM(weight=4.0, variant=variant).start(problem).backward(0)
    assert report.loss == pytest.approx((outcome.risks.mean().item() + 4 * np.mean(penalties)) / 4, rel=1e-5)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_rgm_trains_heads_and_leaves_only_the_regret_to_the_network(n_groups):
    """Heads learn (their risk falls) while the network stands still; the loss is mean risk plus regret."""
    problem = dataclasses.replace(classification_problem(n_groups=n_groups), learning_rate=0.03)
    run = RGM(weight=1.0, hidden=5).start(problem)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        losses = [run.backward(step).loss for step in range(120)]
    risk = problem.assess(problem.batches.draw(range(n_groups))).risks.mean().item()
    # Own heads have learned their environment by heart, so the others' heads are worse: regret is positive.
    assert np.mean(losses[-20:]) > risk + 0.1
    assert len(run.state_dict()["heads"]["own"]) == 4 * n_groups


def test_a_step_of_rgm_is_the_one_written_by_hand():
    """Two heads take an Adam step on detached features; the network gets the gradient of (risk + w·regret) / w."""
    learning_rate, weight = 0.01, 5.0
    problem = dataclasses.replace(classification_problem(), learning_rate=learning_rate)
    run = RGM(weight=weight, hidden=6).start(problem)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        run._heads(4, 2)
    heads = [copy.deepcopy(head) for head in run._own]
    held_out = int(Seeding(0).generator("held-out environments").integers(2))
    report = run.backward(0)

    by_hand = classification_problem()  # the same rows and weights; the batch is the whole group, in another order
    rows = by_hand.batches.draw([0, 1])
    network, (X, y) = by_hand.network, (rows.inputs, rows.targets)
    first, second = slice(0, rows.sizes[0]), slice(rows.sizes[0], None)
    features = torch.relu(X @ network.hidden[0].weight.T + network.hidden[0].bias)

    def risk(head, place, seen):
        hidden = torch.relu(seen[place] @ head[1].weight.T + head[1].bias)
        return nn.functional.cross_entropy(hidden @ head[4].weight.T + head[4].bias, y[place])

    for head, place in zip(heads, (first, second), strict=True):
        optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)
        risk(head, place, features.detach()).backward()
        optimizer.step()
    place = (first, second)[held_out]
    regret = risk(heads[1 - held_out], place, features) - risk(heads[held_out], place, features)
    logits = features @ network.classifier.weight.T + network.classifier.bias
    mean = (
        nn.functional.cross_entropy(logits[first], y[first]) + nn.functional.cross_entropy(logits[second], y[second])
    ) / 2
    total = (mean + weight * regret) / weight
    total.backward()
    assert report.loss == pytest.approx(total.item(), rel=1e-5)
    for ours, expected in zip(problem.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, expected.grad, rtol=1e-4, atol=1e-7)
    for ours, expected in zip(run._own.parameters(), nn.ModuleList(heads).parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-7)


def test_heads_of_rgm_have_their_own_dropout_and_see_whole_features():
    """390 wide, the network's probability on input and hidden layer, on features that nothing was dropped from."""
    network = build_network("mlp", input_shape=(3,), n_classes=2, hidden=(40,), dropout=0.6)
    problem = classification_problem(network)
    run = RGM().start(problem)
    seen = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        run._heads(40, 2)
        run._own[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
        run.backward(0)
    drop, first, _, drop_hidden, last = run._own[0]
    assert (drop.p, drop_hidden.p, first.out_features, last.in_features) == (0.6, 0.6, 390, 390)
    whole = torch.relu(network.hidden[0](problem.batches.draw([0]).inputs))
    torch.testing.assert_close(seen[0].sum(dim=1).sort().values, whole.sum(dim=1).sort().values)


def test_rgm_acts_on_the_logits_of_a_network_without_features():
    """A plain module has no features(); its heads then sit on the logits."""
    problem = classification_problem(nn.Linear(3, 2))
    run = RGM(hidden=5).start(problem)
    run.backward(0)
    assert run.state_dict()["heads"]["width"] == 2


def test_rgm_needs_two_environments():
    """There is nobody to hold out of one environment."""
    with pytest.raises(ParameterError, match="needs at least 2. Got 1"):
        RGM().start(classification_problem(n_groups=1))


def test_rgm_continues_exactly_from_its_state():
    """Heads, their optimizer and the stream of held-out environments come back."""
    first, second = classification_problem(n_groups=3), classification_problem(n_groups=3)
    run, again = RGM().start(first), RGM().start(second)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for step in range(3):
            run.backward(step)
        again.load_state_dict(unflatten(*flatten(run.state_dict())))
        assert again.backward(3).loss == run.backward(3).loss


def test_objectives_by_name():
    """Every name makes an objective; instances pass; the rest is refused."""
    for name in OBJECTIVES:
        assert make_objective(name).name == name
    assert make_objective(IRM(weight=3.0)).weight == 3.0
    with pytest.raises(ParameterError, match=r"must be one of .*'online'.* Got 'dro' instead"):
        make_objective("dro")
    with pytest.raises(InputTypeError, match="must be a name or an Objective. Got int instead"):
        make_objective(3)


def test_training_score_is_the_worst_groups_only_for_min_max_objectives():
    """The rule min_train_validation reads the worst group for max and online, all groups otherwise."""
    worst = {name for name, objective in OBJECTIVES.items() if objective.training_score == "worst"}
    assert worst == {"max", "online"}
    assert math.isclose(OnlineGroups().step_size, 0.01)
