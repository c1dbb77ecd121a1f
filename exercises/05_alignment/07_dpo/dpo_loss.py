"""The DPO loss, plain, smoothed and robust, with the numbers that training scripts log beside it."""

from __future__ import annotations

import torch
from torch import Tensor


def dpo_loss(
    policy_chosen_logps: Tensor,
    policy_rejected_logps: Tensor,
    ref_chosen_logps: Tensor | None,
    ref_rejected_logps: Tensor | None,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
    reference_free: bool = False,
    loss_type: str = "sigmoid",
) -> tuple[Tensor, Tensor, Tensor]:
    """How badly the policy ranks each pair, compared with the reference (arXiv:2305.18290, equation 7).

    The first four arguments are log-probs of whole answers, (B,), B >= 1, of one dtype (float32 or float64). With

        h = (policy_chosen - policy_rejected) - (ref_chosen - ref_rejected)        e = label_smoothing

    the losses are

        "sigmoid"     -(1 - e) logsigmoid(beta h) - e logsigmoid(-beta h)
        "robust"     [-(1 - e) logsigmoid(beta h) + e logsigmoid(-beta h)] / (1 - 2 e)

    e is the share of pairs that are believed to be labelled the wrong way round. The first form (conservative DPO) is
    the expected plain loss if each label may yet be flipped at rate e. The second (arXiv:2403.00409) is unbiased: where
    labels are flipped at rate e, its mean is the plain loss of the true labels. It may be negative. With e = 0 both are
    -logsigmoid(beta h).

    reference_free  True: both reference terms count as 0, in the loss and in the rewards, whatever is passed for them.

    Returns (losses, chosen_rewards, rejected_rewards), each (B,) and in the arguments' dtype:

        losses            one number per pair, no mean: the caller may weight them. They are differentiable with respect
                          to the policy's log-probs only; no gradient reaches the reference's, even if they ask for it.
        chosen_rewards    beta (policy_chosen - ref_chosen), the implicit reward; rejected_rewards likewise. They are
                          for the log: they do not require a gradient.

    Losses and gradients are finite for any h that is finite, +-1e5 included. ValueError: a loss_type other than these
    two, label_smoothing outside 0 <= e < 0.5, a missing reference (None) without reference_free.
    """
    raise NotImplementedError("5.7/dpo_loss: write dpo_loss")


def dpo_metrics(chosen_rewards: Tensor, rejected_rewards: Tensor) -> dict[str, float]:
    """What to log of a batch, under TRL's names: four Python floats, each a mean over the B >= 1 pairs.

        "rewards/chosen"        the chosen answers' reward
        "rewards/rejected"      the rejected answers' reward
        "rewards/margins"       chosen - rejected
        "rewards/accuracies"    the share of pairs with chosen > rejected; equal rewards count 0

    chosen_rewards, rejected_rewards: (B,), float32 or float64, as `dpo_loss` returns them.
    """
    raise NotImplementedError("5.7/dpo_loss: write dpo_metrics")
