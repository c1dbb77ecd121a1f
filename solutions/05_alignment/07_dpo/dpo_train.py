"""The whole of DPO training: a frozen reference, its log-probs computed once, minibatches, and a log that shows all."""

from __future__ import annotations

### BEGIN SOLUTION
import copy

### END SOLUTION
from dataclasses import dataclass

import torch
from torch import Tensor, nn

### BEGIN SOLUTION
from torch.nn import functional as F

### END SOLUTION


@dataclass(frozen=True)
class DPOConfig:
    """Settings of a run."""

    beta: float = 0.1
    lr: float = 0.05
    epochs: int = 5
    batch_size: int = 16  # pairs in a minibatch
    nll_coef: float = 0.0  # weight of the NLL term


def dpo_train(
    policy: nn.Module,
    pairs: list[tuple[list[int], list[int], list[int]]],
    pad_id: int,
    config: DPOConfig,
    generator: torch.Generator,
) -> tuple[nn.Module, list[dict[str, float]]]:
    """Trains the policy in place, by DPO (arXiv:2305.18290). Returns (the reference, the log of the steps).

    The file stands alone: what you wrote for the chapter's other exercises can be copied, not imported.

    policy: ids (B, T) int64 -> logits (B, T, V), float32 or float64. It is causal, so what stands to the right of a
    token does not matter to it: pad there. It is passed in train mode (dropout may be active) and is trained in it.
    pairs: N >= 1 times (prompt, chosen, rejected), lists of ids, none empty; completions end with their EOS. A sequence
    is prompt + completion, and its log-prob the sum of log p over *all* tokens of the completion, EOS included,
    and over no others. pad_id fills up shorter rows; it may be an ordinary token, or EOS itself.

    The reference is a copy of the policy as it came: in eval mode, requiring no grad, sharing no memory with the
    policy. Its log-probs are constants, so they are computed once, before the first step.

    There are config.epochs epochs. Each draws torch.randperm(N, generator=generator) and takes minibatches of
    config.batch_size pairs in this order; the last one may be smaller. For the minibatch, with

        r_c = beta (log p(chosen) - log p_ref(chosen)),   r_r = beta (log p(rejected) - log p_ref(rejected))
        loss = mean of -log sigmoid(r_c - r_r)  +  nll_coef * -(sum of log p(chosen)) / (number of chosen's tokens)

    make one step of torch.optim.AdamW with lr = config.lr, weight_decay = 0 and torch's other defaults. Both sums of
    the NLL term run over the whole minibatch.

    The log has one dict of floats for each step, computed from the forward pass of this step:

        loss                 the NLL term included
        rewards/chosen       mean r_c over the minibatch
        rewards/rejected     mean r_r
        rewards/margins      mean of r_c - r_r
        rewards/accuracies   share of pairs with r_c > r_r, strictly

    Cost: the policy runs forward once a step, on chosen and rejected together; besides, there are at most
    ceil(N / batch_size) forward passes in all, however many epochs.

    What to expect. Without dropout the first step's loss is log 2 = 0.693147, its margin 0. A rule that the model can
    see ("the larger share of token 5 wins", 96 pairs, default settings: 30 steps) brings the last epoch's mean loss
    below 0.35 and its margin above 2, and carries over to at least 80 % of unseen pairs. Look at rewards/chosen on the
    way: the answers that people preferred get *less* likely (below -1 at the end), only the rejected ones lose more.
    With nll_coef = 1 it ends above 0.
    """
    ### BEGIN SOLUTION
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    with torch.no_grad():
        ref_logps = torch.cat(
            [
                _completion_logps(reference, *_collate(pairs[start : start + config.batch_size], pad_id))
                for start in range(0, len(pairs), config.batch_size)
            ],
            dim=1,
        )

    optimizer = torch.optim.AdamW(policy.parameters(), lr=config.lr, weight_decay=0.0)
    history = []
    for _ in range(config.epochs):
        for index in torch.randperm(len(pairs), generator=generator).split(config.batch_size):
            batch = [pairs[i] for i in index.tolist()]
            logps = _completion_logps(policy, *_collate(batch, pad_id))
            chosen_rewards, rejected_rewards = config.beta * (logps - ref_logps[:, index])
            margins = chosen_rewards - rejected_rewards
            chosen_tokens = sum(len(chosen) for _, chosen, _ in batch)
            loss = -F.logsigmoid(margins).mean() - config.nll_coef * logps[0].sum() / chosen_tokens

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(
                {
                    "loss": loss.item(),
                    "rewards/chosen": chosen_rewards.mean().item(),
                    "rewards/rejected": rejected_rewards.mean().item(),
                    "rewards/margins": margins.mean().item(),
                    "rewards/accuracies": (margins > 0).float().mean().item(),
                }
            )
    return reference, history
    ### END SOLUTION


### BEGIN SOLUTION
def _collate(batch: list[tuple[list[int], list[int], list[int]]], pad_id: int) -> tuple[Tensor, Tensor]:
    """ids and labels, (2B, T) each: all chosen sequences, then all rejected ones. Off the completion: -100."""
    rows = [(prompt, chosen) for prompt, chosen, _ in batch] + [(prompt, rejected) for prompt, _, rejected in batch]
    width = max(len(prompt) + len(completion) for prompt, completion in rows)
    ids = torch.full((len(rows), width), pad_id)
    labels = torch.full((len(rows), width), -100)
    for row, (prompt, completion) in enumerate(rows):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        labels[row, len(prompt) : end] = torch.tensor(completion)
    return ids, labels


def _completion_logps(model: nn.Module, ids: Tensor, labels: Tensor) -> Tensor:
    """(2, B): the log-probs of the chosen completions, then those of the rejected ones."""
    logits = model(ids)[:, :-1]  # the logits at t score the token at t + 1
    token_nll = F.cross_entropy(logits.transpose(1, 2), labels[:, 1:], reduction="none", ignore_index=-100)
    return -token_nll.sum(dim=1).view(2, -1)


### END SOLUTION
