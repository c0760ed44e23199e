"""Losses, risks and penalties against values worked out by hand."""

import math

import numpy as np
import pytest
import torch

from holdfast.exceptions import DivergedError, InputTypeError, ParameterError
from holdfast.neural import risks

LOGITS = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]], dtype=torch.float64)  # p(y) = 3/4 and 1/2 for label 0
TARGETS = torch.tensor([0, 0])


def test_losses_have_their_textbook_values():
    """With p(y) of 3/4 and 1/2 every loss is a closed form."""
    assert risks.cross_entropy(LOGITS, TARGETS).tolist() == pytest.approx([math.log(4 / 3), math.log(2)])
    expected = [(1 - 0.75**0.7) / 0.7, (1 - 0.5**0.7) / 0.7]
    assert risks.generalized_cross_entropy(LOGITS, TARGETS).tolist() == pytest.approx(expected)
    smoothed = 0.95 * math.log(4 / 3) + 0.05 * math.log(4)
    assert risks.smoothed_cross_entropy(LOGITS, TARGETS).tolist() == pytest.approx([smoothed, math.log(2)])
    assert risks.squared_error(torch.tensor([[1.0], [3.0]]), torch.tensor([0.0, 1.0])).tolist() == [1.0, 4.0]


def test_generalized_cross_entropy_ends_at_the_absolute_error_and_tends_to_the_cross_entropy():
    """q = 1 gives 1 − p; a tiny q gives −log p."""
    absolute = risks.generalized_cross_entropy(LOGITS, TARGETS, q=1.0)
    assert absolute.tolist() == pytest.approx([0.25, 0.5])
    assert risks.generalized_cross_entropy(LOGITS, TARGETS, q=1e-8).tolist() == pytest.approx(
        [math.log(4 / 3), math.log(2)], rel=1e-6
    )
    with pytest.raises(ParameterError, match=r"must be in \(0, 1\]. Got 0 instead"):
        risks.generalized_cross_entropy(LOGITS, TARGETS, q=0)


def test_make_loss_takes_names_options_and_callables():
    """A name with options, a callable, and what is refused."""
    assert risks.make_loss("gce", q=1.0)(LOGITS, TARGETS).tolist() == pytest.approx([0.25, 0.5])
    assert risks.make_loss(risks.squared_error) is risks.squared_error
    with pytest.raises(ParameterError, match="must be one of .*'gce'.* Got 'hinge' instead"):
        risks.make_loss("hinge")
    with pytest.raises(InputTypeError, match="Got int instead"):
        risks.make_loss(3)


def test_group_risk_is_the_weighted_mean():
    """Weights need not be normalized."""
    losses = torch.tensor([1.0, 4.0])
    assert risks.group_risk(losses).item() == 2.5
    assert risks.group_risk(losses, torch.tensor([6.0, 2.0])).item() == 1.75


def test_worst_case_gradient_is_the_worst_groups():
    """With risks (0.2, 0.7) the gradient falls on the second group only."""
    values = torch.tensor([0.2, 0.7], requires_grad=True)
    worst = risks.worst_case_risk(values)
    worst.backward()
    assert worst.item() == pytest.approx(0.7)
    assert values.grad.tolist() == [0.0, 1.0]


def test_worst_case_risk_is_at_least_any_mixture():
    """No interpolation of the groups has a larger risk."""
    values = torch.from_numpy(np.random.default_rng(0).random(5))
    mixtures = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(5), size=100))
    assert (mixtures @ values <= risks.worst_case_risk(values)).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_risk_that_is_not_finite_is_refused(bad):
    """NaN and infinity never win or lose a maximum silently."""
    with pytest.raises(DivergedError, match="A group risk is not finite: .*Lower learning_rate"):
        risks.worst_case_risk(torch.tensor([0.1, bad]))


def test_irm_penalty_is_the_squared_finite_difference():
    """The derivative with respect to the scale of the logits, by central differences."""
    logits = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(9) % 4
    step = 1e-5
    up, down = (risks.cross_entropy(logits * scale, targets).mean() for scale in (1 + step, 1 - step))
    difference = (up - down) / (2 * step)
    assert risks.irm_penalty(logits, targets).item() == pytest.approx(difference.item() ** 2, rel=1e-7)


def test_irm_penalty_by_hand():
    """For one row the derivative is Σ_c p_c·z_c − z_y."""
    derivative = 0.75 * math.log(3) - math.log(3)
    assert risks.irm_penalty(LOGITS[:1], TARGETS[:1]).item() == pytest.approx(derivative**2)


def test_unbiased_irm_penalty_is_the_product_of_the_halves():
    """Even rows times odd rows; the second row's derivative is 0 here, so the product is 0."""
    assert risks.irm_penalty(LOGITS, TARGETS, variant="unbiased").item() == pytest.approx(0.0)
    twice = torch.cat([LOGITS[:1], LOGITS[:1]])
    assert risks.irm_penalty(twice, TARGETS, variant="unbiased").item() == pytest.approx((0.25 * math.log(3)) ** 2)
    with pytest.raises(ParameterError, match="needs batches of at least 2 rows"):
        risks.irm_penalty(LOGITS[:1], TARGETS[:1], variant="unbiased")
    with pytest.raises(ParameterError, match="must be 'squared' or 'unbiased'. Got 'cubed' instead"):
        risks.irm_penalty(LOGITS, TARGETS, variant="cubed")


def test_irm_penalty_can_be_differentiated():
    """The penalty's gradient with respect to the logits passes a numerical check."""
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([0, 1, 2, 0])
    weights = torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: risks.irm_penalty(z, targets, weights=weights), (logits,))


def test_risk_variance_and_regret_by_hand():
    """Risks (1, 2, 6) have mean 3 and population variance 14/3; regret is a difference."""
    assert risks.risk_variance(torch.tensor([1.0, 2.0, 6.0])).item() == pytest.approx(14 / 3)
    assert risks.regret(torch.tensor(0.9), torch.tensor(0.4)).item() == pytest.approx(0.5)


@pytest.mark.parametrize("q", [0.0, -0.5, 1.5, float("nan")])
def test_the_power_of_the_robust_loss_is_at_most_one(q):
    """Beyond (0, 1] it is no loss; one itself, the mean absolute error, is allowed."""
    logits, targets = torch.zeros(1, 2), torch.tensor([0])
    with pytest.raises(ParameterError, match=r"must be in \(0, 1\]"):
        risks.generalized_cross_entropy(logits, targets, q=q)
    assert risks.generalized_cross_entropy(logits, targets, q=1.0).item() == pytest.approx(0.5)


def test_the_unbiased_penalty_multiplies_even_and_odd_rows():
    """Each half of the batch has its own derivative, rows 0, 2, 4 and rows 1, 3, 5."""
    logits = torch.tensor([[0.3, -0.2], [1.0, 0.5], [-0.4, 0.9], [0.0, 2.0], [1.5, 0.2], [0.1, 0.7]])
    targets = torch.tensor([0, 1, 1, 0, 1, 0])
    weights = torch.tensor([1.0, 2.0, 3.0, 1.0, 0.5, 4.0])

    def derivative(rows):
        p = torch.softmax(logits[rows], dim=1)[:, 1]
        margin = logits[rows, 1] - logits[rows, 0]
        return torch.dot(weights[rows], (p - targets[rows]) * margin) / weights[rows].sum()

    expected = derivative([0, 2, 4]) * derivative([1, 3, 5])
    found = risks.irm_penalty(logits, targets, weights=weights, variant="unbiased")
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
