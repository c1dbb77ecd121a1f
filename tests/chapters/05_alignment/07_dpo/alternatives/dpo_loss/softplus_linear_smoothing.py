"""Softplus and the docstring's h; metrics in plain Python."""

from __future__ import annotations

from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import softplus


def dpo_loss(
    policy_chosen_logps: Tensor,
    policy_rejected_logps: Tensor,
    ref_chosen_logps: Tensor | None,
    ref_rejected_logps: Tensor | None,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
    reference_free: bool = False,
    loss_type: str = "sigmoid",
) -> tuple[Tensor, Tensor, Tensor]:
    e = label_smoothing
    if e < 0 or e >= 0.5:
        raise ValueError("label_smoothing")
    if reference_free:
        ref_chosen_logps = ref_rejected_logps = 0.0
    elif ref_chosen_logps is None or ref_rejected_logps is None:
        raise ValueError("no reference")
    else:
        ref_chosen_logps = ref_chosen_logps.detach()
        ref_rejected_logps = ref_rejected_logps.detach()
    h = (policy_chosen_logps - policy_rejected_logps) - (ref_chosen_logps - ref_rejected_logps)
    x = beta * h
    # -logsigmoid(x) = softplus(-x), and softplus(x) - softplus(-x) = x
    if loss_type == "sigmoid":
        losses = softplus(-x) + e * x
    elif loss_type == "robust":
        losses = softplus(-x) - e / (1 - 2 * e) * x
    else:
        raise ValueError(loss_type)
    with torch.no_grad():
        return (
            losses,
            beta * (policy_chosen_logps - ref_chosen_logps),
            beta * (policy_rejected_logps - ref_rejected_logps),
        )


def dpo_metrics(chosen_rewards: Tensor, rejected_rewards: Tensor) -> dict[str, float]:
    c, r = chosen_rewards.tolist(), rejected_rewards.tolist()
    return {
        "rewards/chosen": fmean(c),
        "rewards/rejected": fmean(r),
        "rewards/margins": fmean(a - b for a, b in zip(c, r)),
        "rewards/accuracies": fmean(float(a > b) for a, b in zip(c, r)),
    }
