"""Losses and risks as torch functions, each with its equation.

loss (one number per example) -> risk (its mean over a group) -> worst-case risk (the largest over the groups); and the
penalties that other methods add to the risks. Everything here also works alone inside a plain torch loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.exceptions import DivergedError, InputTypeError, ParameterError

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # (n, n_classes) logits, (n,) targets -> (n,) losses


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return −log p(y|x) for each row, (n,)."""
    return F.cross_entropy(logits, targets, reduction="none")


def generalized_cross_entropy(logits: Tensor, targets: Tensor, *, q: float = 0.7) -> Tensor:
    """Return (1 − p(y|x)^q) / q for each row, (n,): robust to wrong labels (Zhang and Sabuncu, 2018).

    The limit q -> 0 is the cross-entropy; q = 1 is the mean absolute error.
    """
    if not 0 < q <= 1:
        raise ParameterError(f"The 'q' of the generalized cross-entropy must be in (0, 1]. Got {q!r} instead.")
    # expm1 keeps the digits of the difference when p is near 1.
    log_p = -F.cross_entropy(logits, targets, reduction="none")
    return -torch.expm1(q * log_p) / q


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.1) -> Tensor:
    """Return the cross-entropy to (1 − smoothing)·onehot(y) + smoothing/n_classes for each row, (n,)."""
    return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return (f(x) − y)² for each row, (n,); `outputs` may have a last axis of length one."""
    return (outputs.reshape(targets.shape) - targets).square()


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "cross_entropy": cross_entropy,
        "gce": generalized_cross_entropy,
        "smoothed": smoothed_cross_entropy,
        "squared": squared_error,
    }
)


def make_loss(loss: str | Loss, **options: float) -> Loss:
    """Return a loss by name with its options, for example ``q=0.5``, or the callable itself."""
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ParameterError(
                f"The 'loss' parameter must be one of {sorted(LOSSES)} or a callable. Got {loss!r} instead."
            )
        return partial(LOSSES[loss], **options) if options else LOSSES[loss]
    if not callable(loss):
        raise InputTypeError(f"The 'loss' parameter must be a name or a callable. Got {type(loss).__name__} instead.")
    return loss


def group_risk(losses: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return R_g = Σ_i w_i·loss_i / Σ_i w_i, the mean of (n,) losses under (n,) weights, all equal for None."""
    if weights is None:
        return losses.mean()
    return torch.dot(weights, losses) / weights.sum()


def worst_case_risk(group_risks: Tensor) -> Tensor:
    """Return max_g R_g, the risk of the worst interpolation (linear in the mixture, so a vertex wins).

    Its gradient is the worst group's gradient. A risk that is NaN or infinite is refused.

    Examples
    --------
    >>> worst_case_risk(torch.tensor([0.2, 0.7])).item()
    0.699999988079071
    """
    if not torch.isfinite(group_risks).all():
        raise DivergedError(
            f"A group risk is not finite: {group_risks.tolist()}. Lower learning_rate, or scale the features."
        )
    return group_risks.max()


def irm_penalty(
    logits: Tensor,
    targets: Tensor,
    *,
    loss: Loss = cross_entropy,
    weights: Tensor | None = None,
    variant: Literal["squared", "unbiased"] = "squared",
) -> Tensor:
    """Return (∂/∂s R(s·logits) at s = 1)², IRM's penalty on one environment (Arjovsky et al., 2019).

    The derivative is zero where the classifier on top of the features is already optimal for this environment, up to
    its scale. The variant "squared" squares the batch's derivative, which adds its sampling variance to the
    expectation. "unbiased" multiplies the derivatives of the two halves of the batch (even and odd rows): its
    expectation is the squared derivative of the true risk, and it can be negative on one batch.
    """
    if variant == "squared":
        return _scale_derivative(logits, targets, loss, weights).square()
    if variant != "unbiased":
        raise ParameterError(f"The 'variant' parameter must be 'squared' or 'unbiased'. Got {variant!r} instead.")
    if len(targets) < 2:
        raise ParameterError("The unbiased IRM penalty needs batches of at least 2 rows. Use variant='squared'.")
    even, odd = (
        _scale_derivative(logits[half], targets[half], loss, None if weights is None else weights[half])
        for half in (slice(0, None, 2), slice(1, None, 2))
    )
    return even * odd


def _scale_derivative(logits: Tensor, targets: Tensor, loss: Loss, weights: Tensor | None) -> Tensor:
    """Return dR(s·logits)/ds at s = 1, differentiable again."""
    scale = torch.ones((), device=logits.device, dtype=logits.dtype, requires_grad=True)
    risk = group_risk(loss(logits * scale, targets), weights)
    (derivative,) = torch.autograd.grad(risk, scale, create_graph=True)
    return derivative


def risk_variance(group_risks: Tensor) -> Tensor:
    """Return V-REx's penalty (1/n)·Σ_e (R_e − mean R)², zero where all are equally hard (Krueger et al., 2021)."""
    return group_risks.var(correction=0)


def regret(others_risk: Tensor, own_risk: Tensor) -> Tensor:
    """Return RGM's regret on one environment: R_e(head of the others) − R_e(head of e itself) (Jin et al., 2020).

    Both heads see the same features; the regret is what an environment loses when its own rows were held out.
    """
    return others_risk - own_risk
