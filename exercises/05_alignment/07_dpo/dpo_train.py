"""The whole of DPO training: a frozen reference, its log-probs computed once, minibatches, and a log that shows all."""

from __future__ import annotations

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
    raise NotImplementedError("5.7/dpo_train: write dpo_train")
