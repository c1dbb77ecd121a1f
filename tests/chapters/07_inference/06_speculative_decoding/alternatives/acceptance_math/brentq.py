"""estimate_alpha solves the score equation with scipy's brentq."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from collections.abc import Callable, Sequence


def expected_tokens(alpha: float, k: int) -> float:
    if not (0 <= alpha <= 1 and k >= 0):
        raise ValueError("needs 0 <= alpha <= 1 and k >= 0")
    if alpha == 1:
        return float(k + 1)
    if alpha < 0.5:  # far from 1 nothing cancels; log1p(alpha - 1) would be log 0 for a tiny alpha
        return (1 - alpha ** (k + 1)) / (1 - alpha)
    return -math.expm1((k + 1) * math.log1p(alpha - 1)) / (1 - alpha)


def expected_tokens_by_position(alphas: Sequence[float]) -> float:
    total, survive = 1.0, 1.0
    for a in alphas:
        survive *= a
        total += survive
    return total


def speedup(alpha: float, k: int, c: float) -> float:
    return expected_tokens(alpha, k) / (k * c + 1)


def best_k(alpha: float, c: float, k_max: int = 32) -> tuple[int, float]:
    best = (0, speedup(alpha, 0, c))
    for k in range(1, k_max + 1):
        s = speedup(alpha, k, c)
        if s > best[1] + 1e-12:
            best = (k, s)
    return best


def estimate_alpha(accepted: Sequence[int], k: int) -> float:
    if any(not 0 <= n <= k for n in accepted):
        raise ValueError("a count is outside 0 ... k")
    yes = sum(accepted)
    no = sum(n < k for n in accepted)
    if yes + no == 0:
        return math.nan
    if yes == 0 or no == 0:
        return float(no == 0)
    return brentq(lambda a: yes * (1 - a) - no * a, 0.0, 1.0)


def batched_speedup(alpha: float, k: int, c: float, batch: int, step_time: Callable[[int], float]) -> float:
    plain = step_time(batch)
    spec = k * c * plain + step_time(batch * (k + 1))
    return expected_tokens(alpha, k) * plain / spec


def best_two_level(
    alpha_step: float, c_step: float, alpha_token: float, c_token: float, budget: int
) -> tuple[int, int, float]:
    best = None
    for ks in range(budget):
        outer = speedup(alpha_step, ks, c_step)
        for kt in range(budget // (ks + 1)):
            s = outer * speedup(alpha_token, kt, c_token)
            if best is None or s > best[2] + 1e-12:
                best = (ks, kt, s)
    return best
