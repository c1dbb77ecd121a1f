"""The policy RLHF is looking for, in closed form; the reward hidden in any policy; and DPO's loss, which follows."""

from __future__ import annotations

import torch
from torch import Tensor


def optimal_logprobs(ref_logprobs: Tensor, rewards: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """The policy that maximises E_pi[r] - beta KL(pi || ref), and the maximum itself (arXiv:2305.18290, section 4).

    Arguments
        ref_logprobs  (..., K): log probabilities of K possible answers under the reference policy, their exp sums to 1
                      over the last axis. -inf = an answer that the reference never gives.
        rewards       (..., K): finite; same shape and dtype (float32 or float64).
        beta          > 0, else ValueError: the price of one nat of KL.

    Returns (log pi*, value), of shapes (..., K) and (...), in the dtype of the arguments:

        pi*(y) = ref(y) exp(r(y) / beta) / Z,    Z = sum over y of ref(y) exp(r(y) / beta),    value = beta log Z

    No rewards and no beta may overflow: rewards of +-50 with beta = 1e-4 have exp(500000) in them, yet log pi* and the
    value are ordinary numbers. With a small beta, pi* is the best answer; with a large one it is ref. An answer with
    log-prob -inf in ref has -inf in pi* too, however good it is, and there is no NaN.
    """
    ### BEGIN SOLUTION
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {beta}")
    scores = ref_logprobs + rewards / beta
    log_z = scores.logsumexp(dim=-1)
    return scores - log_z[..., None], beta * log_z
    ### END SOLUTION


def objective(logprobs: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    """What RLHF maximises, for any policy pi: E_pi[r] - beta KL(pi || ref), of shape (...), in the arguments' dtype.

    logprobs (..., K): log pi, its exp sums to 1 over the last axis; ref_logprobs, rewards, beta as above.

        E_pi[r] = sum_y pi(y) r(y)          KL(pi || ref) = sum_y pi(y) (log pi(y) - log ref(y))

    An answer that pi never gives (log pi = -inf) contributes 0 to both sums, also where ref never gives it. An answer
    that pi gives and ref never does makes the KL infinite and the objective -inf. There is no NaN.
    """
    ### BEGIN SOLUTION
    p = logprobs.exp()
    gain = rewards - beta * (logprobs - ref_logprobs)
    return torch.where(p > 0, p * gain, 0.0).sum(dim=-1)
    ### END SOLUTION


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, beta: float) -> Tensor:
    """The rewards for which a given policy is optimal: the closed form, solved for r.

        r(y) = beta (log pi(y) - log ref(y)) + constant

    The constant, beta log Z, cannot be known from pi and ref. It is fixed here by the rule that the K rewards of a
    prompt have mean 0: the plain mean, every answer counts alike. logprobs, ref_logprobs: (..., K), finite;
    returns (..., K) in their dtype.
    """
    ### BEGIN SOLUTION
    rewards = beta * (logprobs - ref_logprobs)
    return rewards - rewards.mean(dim=-1, keepdim=True)
    ### END SOLUTION


def population_dpo_loss(logits: Tensor, ref_logprobs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    """The loss of DPO with infinitely many pairs in place of a sample, for one prompt with K >= 2 answers.

    logits (K,): the policy is pi = softmax(logits); ref_logprobs, rewards: (K,); all finite, of one dtype. Two
    different answers i and j are drawn uniformly, and a judge of the Bradley-Terry kind prefers i with probability

        P(i beats j) = sigmoid(r_i - r_j)

    Returns the expected loss, a scalar tensor of the same dtype that is differentiable with respect to logits: the mean
    over the K (K - 1) ordered pairs i != j of

        -P(i beats j) logsigmoid(beta [(log pi_i - log ref_i) - (log pi_j - log ref_j)])

    It is finite, with finite gradients, for logits that are 1e5 apart. Of all policies pi* has the least loss.
    """
    ### BEGIN SOLUTION
    scores = beta * (logits.log_softmax(dim=-1) - ref_logprobs)
    margins = scores[:, None] - scores[None, :]
    wins = torch.sigmoid(rewards[:, None] - rewards[None, :])
    losses = -wins * torch.nn.functional.logsigmoid(margins)
    different = ~torch.eye(len(logits), dtype=torch.bool)
    return losses[different].mean()
    ### END SOLUTION
