"""A table of small functions over a namespace; everything in float64 inside and cast back; KTO by a sign vector."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn import functional as F


def _odds(a):
    a = torch.minimum(a, torch.full_like(a, -1e-10))
    return a - (-a.expm1()).log()


def _ipo(v):
    return ((v.c - v.fc) / v.nc - (v.r - v.fr) / v.nr - 1 / (2 * v.beta)).pow(2)


def _hinge(v):
    h = (v.c - v.fc) - (v.r - v.fr)
    return torch.maximum(torch.zeros_like(h), 1 - v.beta * h)


def _simpo(v):
    return -F.logsigmoid(v.beta * (v.c / v.nc - v.r / v.nr) - v.gamma)


def _cpo(v):
    return -F.logsigmoid(v.beta * (v.c - v.r)) - v.alpha * v.c / v.nc


def _orpo(v):
    return -v.c / v.nc - v.beta * F.logsigmoid(_odds(v.c / v.nc) - _odds(v.r / v.nr))


_KINDS = {"ipo": _ipo, "hinge": _hinge, "simpo": _simpo, "cpo": _cpo, "orpo": _orpo}


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
    if kind not in _KINDS:
        raise ValueError(f"no such kind: {kind}")
    v = SimpleNamespace(beta=beta, gamma=gamma, alpha=alpha)
    v.c, v.r = chosen_sum.double(), rejected_sum.double()
    v.nc, v.nr = chosen_len.clamp(min=1).double(), rejected_len.clamp(min=1).double()
    if kind in ("ipo", "hinge"):
        if ref_chosen_sum is None or ref_rejected_sum is None:
            raise ValueError(f"{kind} needs the reference sums")
        v.fc, v.fr = ref_chosen_sum.detach().double(), ref_rejected_sum.detach().double()
    return _KINDS[kind](v).to(chosen_sum.dtype)


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
    z = max((kl_policy_sum.detach() - kl_ref_sum.detach()).mean(), kl_policy_sum.new_zeros(()))
    sign = desirable.to(policy_sum.dtype) * 2 - 1
    weight = desirable * desirable_weight + ~desirable * undesirable_weight
    return weight * (1 - torch.sigmoid(beta * sign * (policy_sum - ref_sum.detach() - z))), z
