"""F.binary_cross_entropy_with_logits with target 1 - e (sigmoid), two logaddexp terms (robust); h from the rewards; margins as the difference of means."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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
    if loss_type not in {"sigmoid", "robust"}:
        raise ValueError(f"loss_type {loss_type}")
    if not 0.0 <= label_smoothing < 0.5:
        raise ValueError(f"label_smoothing {label_smoothing}")
    policy = torch.stack([policy_chosen_logps, policy_rejected_logps])
    if reference_free:
        ref = torch.zeros_like(policy)
    else:
        if ref_chosen_logps is None or ref_rejected_logps is None:
            raise ValueError("reference missing")
        ref = torch.stack([ref_chosen_logps, ref_rejected_logps])
    rewards = beta * (policy - ref.detach())
    margin = rewards[0] - rewards[1]
    if loss_type == "sigmoid":
        losses = F.binary_cross_entropy_with_logits(
            margin, torch.full_like(margin, 1 - label_smoothing), reduction="none"
        )
    else:
        zero = torch.zeros_like(margin)
        good, bad = torch.logaddexp(zero, -margin), torch.logaddexp(zero, margin)
        losses = ((1 - label_smoothing) * good - label_smoothing * bad) / (1 - 2 * label_smoothing)
    chosen_rewards, rejected_rewards = rewards.detach()
    return losses, chosen_rewards, rejected_rewards


def dpo_metrics(chosen_rewards: Tensor, rejected_rewards: Tensor) -> dict[str, float]:
    n = chosen_rewards.numel()
    c, r = chosen_rewards.sum().item() / n, rejected_rewards.sum().item() / n
    wins = torch.count_nonzero(chosen_rewards.gt(rejected_rewards)).item()
    return {
        "rewards/chosen": c,
        "rewards/rejected": r,
        "rewards/margins": c - r,
        "rewards/accuracies": wins / n,
    }
