"""A trainer object: everything tokenised and padded once, the reference scored in one go, the losses by hand."""

from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean

import torch


@dataclass(frozen=True)
class DPOConfig:
    beta: float = 0.1
    lr: float = 0.05
    epochs: int = 5
    batch_size: int = 16
    nll_coef: float = 0.0


class Table:
    """(2, N, T): side, pair, place."""

    def __init__(self, pairs, pad_id):
        longest = max(len(p) + max(len(c), len(r)) for p, c, r in pairs)
        self.ids = torch.empty(2, len(pairs), longest, dtype=torch.long).fill_(pad_id)
        self.scored = torch.zeros(2, len(pairs), longest - 1, dtype=torch.bool)
        for n, (prompt, *answers) in enumerate(pairs):
            for side, answer in enumerate(answers):
                text = [*prompt, *answer]
                self.ids[side, n, : len(text)] = torch.as_tensor(text)
                self.scored[side, n, len(prompt) - 1 : len(text) - 1] = True

    def logps(self, model, index):
        ids, scored = self.ids[:, index], self.scored[:, index]
        logits = model(ids.flatten(0, 1)).unflatten(0, (2, -1))[:, :, :-1]
        picked = logits.gather(-1, ids[:, :, 1:, None]).squeeze(-1)
        return torch.where(scored, picked - torch.logsumexp(logits, -1), 0.0).sum(-1)


class Trainer:
    def __init__(self, policy, pairs, pad_id, config):
        self.policy, self.config = policy, config
        self.table = Table(pairs, pad_id)
        self.reference = deepcopy(policy)
        for parameter in self.reference.parameters():
            parameter.requires_grad = False
        self.reference.train(False)
        self.constant = self.table.logps(self.reference, torch.arange(len(pairs)))
        self.optimizer = torch.optim.AdamW(
            [p for p in policy.parameters() if p.requires_grad], config.lr, weight_decay=0
        )

    def step(self, index):
        self.policy.zero_grad(set_to_none=True)
        logps = self.table.logps(self.policy, index)
        drift = self.config.beta * (logps - self.constant[:, index])
        margin = drift[0] - drift[1]
        loss = torch.logaddexp(torch.zeros_like(margin), -margin).mean()
        if self.config.nll_coef:
            loss += self.config.nll_coef * -logps[0].sum() / self.table.scored[0, index].sum()
        loss.backward()
        self.optimizer.step()
        good, bad = drift.tolist()
        return {
            "rewards/chosen": fmean(good),
            "rewards/rejected": fmean(bad),
            "rewards/margins": fmean(g - b for g, b in zip(good, bad)),
            "rewards/accuracies": fmean(float(g > b) for g, b in zip(good, bad)),
            "loss": float(loss.detach()),
        }


def dpo_train(policy, pairs, pad_id, config, generator):
    trainer = Trainer(policy, pairs, pad_id, config)
    history = []
    for _ in range(config.epochs):
        order = torch.randperm(len(pairs), generator=generator)
        for start in range(0, len(order), config.batch_size):
            history.append(trainer.step(order[start : start + config.batch_size]))
    return trainer.reference, history
