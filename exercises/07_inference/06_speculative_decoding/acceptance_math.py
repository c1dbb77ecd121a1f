"""The economics of speculation: what a draft of k tokens yields, what it costs, and when not to draft at all.

Time is counted in steps of the target model: a step of the draft model costs c, and the target judges k drafts in one.
alpha is the probability that a draft token is accepted, given that all before it were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens that one target step yields on average with k drafts: 1 + alpha + alpha^2 + ... + alpha^k.

    In closed form (1 - alpha^(k + 1)) / (1 - alpha), and k + 1 for alpha = 1 (arXiv:2211.17192, equation 1). Relative
    error at most 1e-9, also for alpha = 1 - 1e-12. ValueError unless 0 <= alpha <= 1 and k >= 0.
    """
    raise NotImplementedError("7.6/acceptance_math: write expected_tokens")


def expected_tokens_by_position(alphas: Sequence[float]) -> float:
    """The same where acceptance depends on the place: 1 + a_0 + a_0 a_1 + a_0 a_1 a_2 + ...

    alphas[i] = P(draft token i is accepted | all before it were). Without drafts: 1.
    """
    raise NotImplementedError("7.6/acceptance_math: write expected_tokens_by_position")


def speedup(alpha: float, k: int, c: float) -> float:
    """Tokens per unit of time, relative to plain decoding: expected_tokens(alpha, k) / (k * c + 1), with c >= 0."""
    raise NotImplementedError("7.6/acceptance_math: write speedup")


def best_k(alpha: float, c: float, k_max: int = 32) -> tuple[int, float]:
    """(k, speedup) of the draft length 0 <= k <= k_max with the largest speedup.

    Of drafts whose speedups are within 1e-12 the shortest wins. k = 0 means not to speculate, with speedup 1.
    """
    raise NotImplementedError("7.6/acceptance_math: write best_k")


def estimate_alpha(accepted: Sequence[int], k: int) -> float:
    """Maximum-likelihood estimate of alpha from the log of many steps with k drafts each.

    accepted: tokens accepted in each step, 0 ... k. A count n < k saw n acceptances and one rejection; a count of k saw
    k acceptances and no rejection: the log is censored at k. The estimate maximises the probability of the log if
    all decisions are independent with the same alpha. nan if no draft token was judged (no steps, or k = 0).
    ValueError for a count outside 0 ... k.
    """
    raise NotImplementedError("7.6/acceptance_math: write estimate_alpha")


def batched_speedup(alpha: float, k: int, c: float, batch: int, step_time: Callable[[int], float]) -> float:
    """The speedup for `batch` requests that are decoded together.

    step_time(tokens): seconds of one target step over that many tokens in all. Plain decoding yields one token per
    request every step_time(batch). Speculation yields expected_tokens(alpha, k) per request every
    k * c * step_time(batch) + step_time(batch * (k + 1)): k draft steps of one token per request, then the target
    judges k drafts and the pending token of every request. Returns the ratio of the two rates.
    """
    raise NotImplementedError("7.6/acceptance_math: write batched_speedup")


def best_two_level(
    alpha_step: float, c_step: float, alpha_token: float, c_token: float, budget: int
) -> tuple[int, int, float]:
    """Speculation on two levels, as in lookahead reasoning (arXiv:2506.19830): (k_step, k_token, speedup).

    Whole reasoning steps are drafted and judged (alpha_step, c_step), and inside each of them tokens (alpha_token,
    c_token). The speedups multiply, speedup(alpha_step, k_step, c_step) * speedup(alpha_token, k_token, c_token), and
    so does the parallel work: (k_step + 1) * (k_token + 1) <= budget must hold, with k_step, k_token >= 0, budget >= 1.
    Returns the best pair; of pairs within 1e-12 the one with smaller k_step, then with smaller k_token.

    A simple model of ours: the paper's has asynchronous and synchronous variants with longer formulas.
    """
    raise NotImplementedError("7.6/acceptance_math: write best_two_level")
