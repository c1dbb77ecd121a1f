"""DPO's relatives: IPO, hinge, SimPO, CPO and ORPO learn from pairs, KTO from single answers marked good or bad."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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
    """The loss of each pair: (B,), of the sums' dtype, with gradient to chosen_sum and rejected_sum.

    chosen_sum, rejected_sum (B,): s_c and s_r, the policy's log-probs of the two answers, summed over their tokens;
    float32 or float64. ref_chosen_sum, ref_rejected_sum (B,): f_c and f_r, the same by the reference model, in the same
    dtype. chosen_len, rejected_len (B,) int64: n_c and n_r, the numbers of tokens summed; where one is below 1 it
    counts as 1. The mean log-probs per token are a_c = s_c / n_c and a_r = s_r / n_r.

        "ipo"    (d - 1 / (2 beta))^2   with d = (s_c - f_c) / n_c - (s_r - f_r) / n_r       (arXiv:2310.12036)
        "hinge"  max(0, 1 - beta h)     with h = (s_c - f_c) - (s_r - f_r)                   (arXiv:2305.10425)
        "simpo"  -log sigmoid(beta (a_c - a_r) - gamma)                                      (arXiv:2405.14734)
        "cpo"    -log sigmoid(beta (s_c - s_r)) - alpha a_c                                  (arXiv:2401.08417)
        "orpo"   -a_c - beta log sigmoid(o_c - o_r)   with o = a - log(1 - e^a)              (arXiv:2403.07691)

    o is the log of the odds p / (1 - p) for p = e^a. For the odds alone, a counts as -1e-10 where it is larger: an
    empty answer has a = 0, and rounding can put a sure one a little above 0. Just below 0 the odds must still be right:
    float32 a = -1e-8 gives o = 18.4206807.

    Loss and gradients are right for sums that differ by 1e5, too. The references are constants: no gradient reaches
    them. "ipo" and "hinge" need both of them (ValueError if one is None); the other kinds ignore them. Any other kind,
    in capitals too: ValueError.

    "ipo" is normalised by length as in TRL; the paper's own form has sums throughout.
    """
    ### BEGIN SOLUTION
    chosen_len = chosen_len.clamp(min=1)
    rejected_len = rejected_len.clamp(min=1)
    chosen_mean = chosen_sum / chosen_len
    rejected_mean = rejected_sum / rejected_len

    if kind in ("ipo", "hinge"):
        if ref_chosen_sum is None or ref_rejected_sum is None:
            raise ValueError(f"{kind} compares with a reference: pass ref_chosen_sum and ref_rejected_sum")
        chosen_gain = chosen_sum - ref_chosen_sum.detach()
        rejected_gain = rejected_sum - ref_rejected_sum.detach()
        if kind == "ipo":
            return (chosen_gain / chosen_len - rejected_gain / rejected_len - 1 / (2 * beta)) ** 2
        return F.relu(1 - beta * (chosen_gain - rejected_gain))
    if kind == "simpo":
        return -F.logsigmoid(beta * (chosen_mean - rejected_mean) - gamma)
    if kind == "cpo":
        return -F.logsigmoid(beta * (chosen_sum - rejected_sum)) - alpha * chosen_mean
    if kind == "orpo":
        return -chosen_mean - beta * F.logsigmoid(_log_odds(chosen_mean) - _log_odds(rejected_mean))
    raise ValueError(f"no loss {kind!r}: choose ipo, hinge, simpo, cpo or orpo")
    ### END SOLUTION


### BEGIN SOLUTION
def _log_odds(mean: Tensor) -> Tensor:
    """log(p / (1 - p)) for p = e^mean."""
    mean = mean.clamp(max=-1e-10)
    # expm1 keeps the digits of 1 - e^a where e^a is nearly 1. Where e^a is tiny, log(1 - e^a) loses its digits, but
    # they don't count beside `mean`.
    return mean - torch.log(-torch.expm1(mean))


### END SOLUTION


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
    """KTO for answers that were judged one by one (arXiv:2402.01306): (losses (B,), z), both of the sums' dtype.

    policy_sum, ref_sum (B,): s and f, summed log-probs of the answers by policy and reference; float32 or float64.
    desirable (B,) bool: True = a good answer. kl_policy_sum, kl_ref_sum (B,): the same two sums for *mismatched* pairs,
    each prompt with the answer of another one: they tell how far the policy has drifted from the reference in general.

        r = s - f
        z = max(0, mean(kl_policy_sum - kl_ref_sum))
        desirable:    desirable_weight   (1 - sigmoid(beta (r - z)))
        undesirable:  undesirable_weight (1 - sigmoid(beta (z - r)))

    The losses stand in the order of the answers, good and bad as they come; all may be of one class. z is a scalar
    (shape ()) and does not require grad: no gradient reaches kl_policy_sum and kl_ref_sum, nor ref_sum. Sums that
    differ by 1e5 leave losses and gradients finite.
    """
    ### BEGIN SOLUTION
    z = (kl_policy_sum - kl_ref_sum).mean().clamp(min=0).detach()
    surplus = policy_sum - ref_sum.detach() - z
    losses = 1 - torch.sigmoid(beta * torch.where(desirable, surplus, -surplus))
    return torch.where(desirable, desirable_weight * losses, undesirable_weight * losses), z
    ### END SOLUTION
