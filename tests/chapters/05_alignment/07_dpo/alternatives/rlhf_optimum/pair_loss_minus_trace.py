"""As shifted_in_dtype, but the pair loss is the sum of the whole K x K matrix less its trace."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def _check(beta: float) -> None:
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {beta}")


def optimal_logprobs(ref_logprobs: Tensor, rewards: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    _check(beta)
    supported = ref_logprobs > -torch.inf
    best = rewards.masked_fill(~supported, -torch.inf).amax(-1, keepdim=True)
    advantage = (rewards - best) / beta
    scores = torch.where(supported, ref_logprobs + advantage, -torch.inf)
    log_z = torch.logsumexp(scores, -1, keepdim=True)
    return scores - log_z, (best + beta * log_z).squeeze(-1)


def objective(logprobs: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    _check(beta)
    given = logprobs > -torch.inf
    outside = (given & (ref_logprobs == -torch.inf)).any(-1)
    both = given & (ref_logprobs > -torch.inf)
    ratio = torch.where(both, logprobs, 0) - torch.where(both, ref_logprobs, 0)
    total = (torch.where(both, logprobs.exp(), 0) * (rewards - beta * ratio)).sum(-1)
    return total.masked_fill(outside, -torch.inf)


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, beta: float) -> Tensor:
    r = beta * (logprobs - ref_logprobs)
    return r - r.mean(-1, keepdim=True)


def population_dpo_loss(logits: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    k = logits.shape[0]
    implicit = beta * (torch.log_softmax(logits, 0) - ref_logprobs)
    prefer = torch.sigmoid(rewards[:, None] - rewards[None, :])
    terms = -prefer * F.logsigmoid(implicit[:, None] - implicit[None, :])
    return (terms.sum() - terms.trace()) / (k * (k - 1))
