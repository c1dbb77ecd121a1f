"""Log-probs of whole sequences, the building block of every preference loss: shift, mask, sum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

IGNORE = -100
"""The label of a position that is not scored: prompt or padding."""


def sequence_logps(logits: Tensor, labels: Tensor, average: bool = False) -> tuple[Tensor, Tensor]:
    """How likely the model finds each sequence's labelled tokens.

    Arguments
        logits   (B, T, V): float16, bfloat16, float32 or float64; B, T, V >= 1. Finite or -inf (a token that is ruled
                 out), with at least one finite logit at every position.
        labels   (B, T) int64, *not* shifted: labels[b, t] is the token at place t, or -100 if it is not to be scored.
        average  False: the sum over the scored tokens (DPO, CPO, KTO). True: their mean (SimPO, ORPO, TRL's ipo).

    A causal model's logits at place t are its opinion on the token at t + 1. So with p = softmax over V,

        logps[b] = sum over t >= 1 with labels[b, t] != -100 of log p(labels[b, t] | logits[b, t - 1])
        counts[b] = how many such t there are

    and average divides by the count. A label at place 0 has nothing before it: it is neither scored nor counted.
    Places that are not scored contribute exactly nothing, whatever their logits are. A scored token that is ruled out
    makes the logp of its row -inf. A row without any scored token has logp 0 and count 0, averaged or not, and
    gradient 0.

    Returns (logps, counts): logps (B,) float32, or float64 for float64 logits, differentiable with respect to logits;
    counts (B,) int64. Logits narrower than float32 are widened before anything is computed with them, and the sum is
    kept in float32: 600 tokens in bfloat16 give the float64 sum of the same logits to within 0.01.
    Logits that are not (B, T, V) or labels that are not (B, T), with the same B and T, raise ValueError. No argument is
    changed: the labels keep their -100.

    Cost: at V = 128k the logits are the largest tensor of the run, and a log-softmax of all of them is a second one.
    Here no tensor made in the forward pass has more than T * V elements, one row of the batch. Use that
    log p = logit - logsumexp.
    """
    raise NotImplementedError("5.7/sequence_logps: write sequence_logps")


def concatenated_forward(
    model: Callable[[Tensor, Tensor], Tensor],
    chosen: tuple[Tensor, Tensor],
    rejected: tuple[Tensor, Tensor],
    pad_id: int,
    average: bool = False,
) -> tuple[Tensor, Tensor]:
    """Scores the chosen and the rejected answers of B pairs in ONE call of the model.

    (Two calls would compute the same, but with sharded parameters each call gathers all weights anew.)

    chosen, rejected: (input_ids, labels), int64, padded on the right: both (B, Tc) for chosen, both (B, Tr) for
    rejected; B is the same, Tc and Tr may differ. The batch given to the model has 2 B rows, first the chosen ones,
    then the rejected ones, and T = max(Tc, Tr) columns. The columns that the shorter side lacks are added on the right:
    pad_id in the ids, -100 in the labels.

    model(ids, mask) -> logits (2 B, T, V), called exactly once. mask is the attention mask (2 B, T), int64: 1 from the
    first place up to and including the last one with a label other than -100, and 0 after it. Neither the id nor the
    label of a single place tells whether it is padding: the prompt has labels of -100 too, an answer may have some in
    its middle, and pad_id is often a real token (EOS). A row without any label but -100 has a mask of zeros.

    -> (chosen logps (B,), rejected logps (B,)), as `sequence_logps` computes them (dtype, average), differentiable with
    respect to the model's parameters. What stands in the ids after the last label does not matter if the model heeds
    the mask. The arguments are not changed.
    """
    raise NotImplementedError("5.7/sequence_logps: write concatenated_forward")
