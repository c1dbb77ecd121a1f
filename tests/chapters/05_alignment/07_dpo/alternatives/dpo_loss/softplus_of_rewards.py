"""Everything from the implicit rewards: stacked, softplus instead of logsigmoid, weights (1 - e, e) chosen by type."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SIGN = {"sigmoid": 1.0, "robust": -1.0}


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
    if label_smoothing < 0 or label_smoothing >= 0.5:
        raise ValueError("label_smoothing")
    try:
        sign = SIGN[loss_type]
    except KeyError:
        raise ValueError("loss_type") from None
    policy = torch.stack([policy_chosen_logps, policy_rejected_logps])
    if not reference_free:
        if ref_chosen_logps is None or ref_rejected_logps is None:
            raise ValueError("references")
        with torch.no_grad():
            policy_minus = torch.stack([ref_chosen_logps, ref_rejected_logps])
        rewards = beta * (policy - policy_minus)
    else:
        rewards = beta * policy
    margins = rewards[0] - rewards[1]
    weights = torch.tensor([1 - label_smoothing, sign * label_smoothing], dtype=margins.dtype)
    if sign < 0:
        weights = weights / weights.sum()
    losses = weights @ torch.stack([F.softplus(-margins), F.softplus(margins)])
    chosen_rewards, rejected_rewards = rewards.detach().clone()
    return losses, chosen_rewards, rejected_rewards


def dpo_metrics(chosen_rewards: Tensor, rejected_rewards: Tensor) -> dict[str, float]:
    chosen, rejected = chosen_rewards.tolist(), rejected_rewards.tolist()
    n = len(chosen)
    return {
        "rewards/accuracies": sum(c > r for c, r in zip(chosen, rejected, strict=True)) / n,
        "rewards/chosen": sum(chosen) / n,
        "rewards/rejected": sum(rejected) / n,
        "rewards/margins": (sum(chosen) - sum(rejected)) / n,
    }
