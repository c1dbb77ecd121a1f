"""The closed form with expm1, and max over all choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul


def expected_tokens(alpha: float, k: int) -> float:
    if k < 0 or not 0.0 <= alpha <= 1.0:
        raise ValueError("out of range")
    if alpha == 1:
        return float(k + 1)
    if alpha == 0:
        return 1.0
    return -math.expm1((k + 1) * math.log(alpha)) / (1 - alpha)


def expected_tokens_by_position(alphas: Sequence[float]) -> float:
    return 1 + sum(accumulate(alphas, mul))


def speedup(alpha: float, k: int, c: float) -> float:
    return expected_tokens(alpha, k) / (1 + c * k)


def best_k(alpha: float, c: float, k_max: int = 32) -> tuple[int, float]:
    gains = [speedup(alpha, k, c) for k in range(k_max + 1)]
    k = next(i for i, gain in enumerate(gains) if gain >= max(gains) - 1e-12)
    return k, gains[k]


def estimate_alpha(accepted: Sequence[int], k: int) -> float:
    kept = judged = 0
    for n in accepted:
        if n < 0 or n > k:
            raise ValueError(n)
        kept += n
        judged += min(n + 1, k)
    return kept / judged if judged > 0 else float("nan")


def batched_speedup(alpha: float, k: int, c: float, batch: int, step_time: Callable[[int], float]) -> float:
    plain_rate = 1 / step_time(batch)
    round_time = sum(c * step_time(batch) for _ in range(k)) + step_time(batch + batch * k)
    return expected_tokens(alpha, k) / round_time / plain_rate


def best_two_level(
    alpha_step: float, c_step: float, alpha_token: float, c_token: float, budget: int
) -> tuple[int, int, float]:
    values = {
        (s, t): speedup(alpha_step, s, c_step) * speedup(alpha_token, t, c_token)
        for s in range(budget)
        for t in range(budget)
        if (s + 1) * (t + 1) <= budget
    }
    top = max(values.values())
    s, t = min(pair for pair, value in values.items() if value >= top - 1e-12)
    return s, t, values[s, t]
