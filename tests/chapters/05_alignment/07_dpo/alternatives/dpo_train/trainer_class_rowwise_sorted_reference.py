"""A Trainer class over per-answer records; logsumexp minus gather row by row; the reference in length-sorted batches; gradients by torch.autograd.grad."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class DPOConfig:
    """Settings of a run."""

    beta: float = 0.1
    lr: float = 0.05
    epochs: int = 5
    batch_size: int = 16  # pairs in a minibatch
    nll_coef: float = 0.0  # weight of the NLL term


class _Trainer:
    def __init__(self, policy, pairs, pad_id, config, generator):
        self.policy, self.pairs, self.pad_id = policy, pairs, pad_id
        self.config, self.generator = config, generator
        self.reference = copy.deepcopy(policy).requires_grad_(False)
        self.reference.train(False)
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=config.lr, weight_decay=0.0)
        self.ref = self.score_reference()

    def scores(self, model: nn.Module, which: list[int]) -> list[tuple[Tensor, Tensor]]:
        answers = []
        for i in which:
            prompt, *both = self.pairs[i]
            answers += [(prompt, answer) for answer in both]
        width = max(len(p) + len(a) for p, a in answers)
        ids = torch.tensor([[*p, *a] + [self.pad_id] * (width - len(p) - len(a)) for p, a in answers])
        logits = model(ids)
        sums = []
        for row, (p, a) in zip(logits, answers):
            opinion = row[len(p) - 1 : len(p) + len(a) - 1]
            token = opinion[torch.arange(len(a)), torch.tensor(a)]
            sums.append((token - opinion.logsumexp(-1)).sum())
        return list(zip(sums[::2], sums[1::2]))

    @torch.no_grad()
    def score_reference(self) -> list[tuple[Tensor, Tensor]]:
        order = sorted(range(len(self.pairs)), key=lambda i: len(self.pairs[i][0]) + max(map(len, self.pairs[i][1:])))
        out: list = [None] * len(order)
        for s in range(0, len(order), self.config.batch_size):
            chunk = order[s : s + self.config.batch_size]
            for i, score in zip(chunk, self.scores(self.reference, chunk)):
                out[i] = score
        return out

    def step(self, which: list[int]) -> dict[str, float]:
        beta = self.config.beta
        r_c, r_r, logp_c = [], [], []
        for i, (c, r) in zip(which, self.scores(self.policy, which)):
            r_c.append(beta * (c - self.ref[i][0]))
            r_r.append(beta * (r - self.ref[i][1]))
            logp_c.append(c)
        r_c, r_r = torch.stack(r_c), torch.stack(r_r)
        loss = nn.functional.softplus(r_r - r_c).mean()
        if self.config.nll_coef:
            tokens = sum(len(self.pairs[i][1]) for i in which)
            loss = loss - self.config.nll_coef * torch.stack(logp_c).sum() / tokens
        grads = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for parameter, grad in zip(self.parameters, grads):
            parameter.grad = grad
        self.optimizer.step()
        return {
            "loss": loss.item(),
            "rewards/chosen": r_c.mean().item(),
            "rewards/rejected": r_r.mean().item(),
            "rewards/margins": r_c.mean().item() - r_r.mean().item(),
            "rewards/accuracies": sum((r_c > r_r).tolist()) / len(which),
        }

    def run(self) -> list[dict[str, float]]:
        log = []
        for _ in range(self.config.epochs):
            order = torch.randperm(len(self.pairs), generator=self.generator).tolist()
            while order:
                batch, order = order[: self.config.batch_size], order[self.config.batch_size :]
                log.append(self.step(batch))
        return log


def dpo_train(
    policy: nn.Module,
    pairs: list[tuple[list[int], list[int], list[int]]],
    pad_id: int,
    config: DPOConfig,
    generator: torch.Generator,
) -> tuple[nn.Module, list[dict[str, float]]]:
    trainer = _Trainer(policy, pairs, pad_id, config, generator)
    return trainer.reference, trainer.run()
