"""Probabilities with the best score taken out, KL by kl_div, and a plain loop over unordered pairs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def optimal_logprobs(ref_logprobs: Tensor, rewards: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    if beta <= 0:
        raise ValueError("beta")
    ref, r = ref_logprobs.double(), rewards.double()
    top = r.masked_fill(ref == -torch.inf, -torch.inf).amax(-1, keepdim=True)
    log_weights = ref + (r - top) / beta
    peak = log_weights.amax(-1, keepdim=True)
    log_z = peak + torch.log(torch.sum(torch.exp(log_weights - peak), -1, keepdim=True))
    value = top + beta * log_z
    return F.log_softmax(log_weights, -1).to(rewards.dtype), value.squeeze(-1).to(rewards.dtype)


def objective(logprobs: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    p = logprobs.exp()
    expected_reward = torch.einsum("...k,...k->...", p, rewards)
    possible = logprobs != -torch.inf
    ratio = torch.where(possible, logprobs, 0.0) - torch.where(possible, ref_logprobs, 0.0)
    return expected_reward - beta * (p * ratio).sum(-1)


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, beta: float) -> Tensor:
    ratio = logprobs - ref_logprobs
    k = ratio.shape[-1]
    centring = torch.eye(k, dtype=ratio.dtype) - 1.0 / k
    return beta * (ratio @ centring)


def population_dpo_loss(logits: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    k = logits.shape[0]
    total = torch.zeros((), dtype=logits.dtype)
    for i in range(k):
        for j in range(i):
            h = beta * ((logits[i] - logits[j]) - (ref_logprobs[i] - ref_logprobs[j]))
            p = torch.sigmoid(rewards[i] - rewards[j])
            total = total + p * F.softplus(-h) + (1 - p) * F.softplus(h)
    return total / (k * (k - 1))
