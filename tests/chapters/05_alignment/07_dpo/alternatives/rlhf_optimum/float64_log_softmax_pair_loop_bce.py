"""float64 inside, plain log_softmax of ref + r / beta; objective by masked products; pair loss as a Python loop with BCE-with-logits."""

from __future__ import annotations

from itertools import permutations

import torch
from torch import Tensor
from torch.nn import functional as F


def optimal_logprobs(ref_logprobs: Tensor, rewards: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    if beta <= 0:
        raise ValueError("beta must be above 0")
    score = ref_logprobs.double() + rewards.double() / beta
    value = beta * score.logsumexp(dim=-1)
    return score.log_softmax(dim=-1).to(rewards.dtype), value.to(rewards.dtype)


def objective(logprobs: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    lp, lr, r = logprobs.double(), ref_logprobs.double(), rewards.double()
    per_answer = lp.exp() * (r - beta * (lp - lr))
    per_answer = torch.where(torch.isneginf(lp), 0.0, per_answer)
    per_answer = torch.where(torch.isneginf(lr) & ~torch.isneginf(lp), -torch.inf, per_answer)
    return per_answer.sum(dim=-1).to(logprobs.dtype)


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, beta: float) -> Tensor:
    ratio = logprobs - ref_logprobs
    return beta * (ratio - ratio.mean(dim=-1, keepdim=True))


def population_dpo_loss(logits: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    # softmax's normaliser cancels in every difference, so the logits themselves will do
    total = logits.new_zeros(())
    pairs = list(permutations(range(len(logits)), 2))
    for i, j in pairs:
        h = beta * ((logits[i] - logits[j]) - (ref_logprobs[i] - ref_logprobs[j]))
        # half of the two-sided cross entropy: (i, j) and (j, i) share it
        total = total + 0.5 * F.binary_cross_entropy_with_logits(h, torch.sigmoid(rewards[i] - rewards[j]))
    return total / len(pairs)
