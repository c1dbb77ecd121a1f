"""match statement, softplus / logaddexp, log-odds by the two-branch log1mexp; KTO literally as 1 - sigmoid, filled class by class."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def _log1mexp(a: Tensor) -> Tensor:
    small = a > -math.log(2)
    near = torch.log(-torch.expm1(torch.where(small, a, -1.0)))
    far = torch.log1p(-torch.exp(torch.where(small, -1.0, a)))
    return torch.where(small, near, far)


def pairwise_loss(
    kind: str,
    chosen_sum: Tensor,
    rejected_sum: Tensor,
    chosen_len: Tensor,
    rejected_len: Tensor,
    *,
    ref_chosen_sum: Tensor | None = None,
    ref_rejected_sum: Tensor | None = None,
    beta: float = 0.1,
    gamma: float = 0.5,
    alpha: float = 1.0,
) -> Tensor:
    n_c = torch.maximum(chosen_len, torch.ones_like(chosen_len)).to(chosen_sum.dtype)
    n_r = torch.maximum(rejected_len, torch.ones_like(rejected_len)).to(rejected_sum.dtype)
    if kind in {"ipo", "hinge"} and (ref_chosen_sum is None or ref_rejected_sum is None):
        raise ValueError(f"{kind}: references missing")
    match kind:
        case "ipo":
            d = (chosen_sum - ref_chosen_sum.detach()) / n_c - (rejected_sum - ref_rejected_sum.detach()) / n_r
            return torch.square(d - 0.5 / beta)
        case "hinge":
            h = (chosen_sum - rejected_sum) - (ref_chosen_sum - ref_rejected_sum).detach()
            return torch.clamp(1 - beta * h, min=0)
        case "simpo":
            return F.softplus(gamma - beta * (chosen_sum / n_c - rejected_sum / n_r))
        case "cpo":
            x = beta * (rejected_sum - chosen_sum)
            return torch.logaddexp(x, torch.zeros_like(x)) - alpha * chosen_sum / n_c
        case "orpo":
            a = torch.stack((chosen_sum / n_c, rejected_sum / n_r))
            b = torch.where(a > -1e-10, -1e-10, a)
            o = b - _log1mexp(b)
            return beta * F.softplus(o[1] - o[0]) - a[0]
    raise ValueError(f"kind {kind!r}")


def kto_loss(
    policy_sum: Tensor,
    ref_sum: Tensor,
    desirable: Tensor,
    kl_policy_sum: Tensor,
    kl_ref_sum: Tensor,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        z = torch.relu(torch.mean(kl_policy_sum - kl_ref_sum))
    r = policy_sum - ref_sum.detach()
    losses = torch.empty_like(r)
    losses[desirable] = desirable_weight * (1 - torch.sigmoid(beta * (r[desirable] - z)))
    losses[~desirable] = undesirable_weight * (1 - torch.sigmoid(beta * (z - r[~desirable])))
    return losses, z
