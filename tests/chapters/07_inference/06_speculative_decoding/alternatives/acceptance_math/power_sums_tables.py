"""Sums of powers and Horner instead of the closed form; whole tables, then the first entry within 1e-12 of the maximum."""

from __future__ import annotations

from functools import reduce

import numpy as np


def expected_tokens(alpha, k):
    if k < 0 or not 0 <= alpha <= 1:
        raise ValueError((alpha, k))
    return float(np.power(float(alpha), np.arange(k + 1)).sum())


def expected_tokens_by_position(alphas):
    return reduce(lambda acc, a: 1.0 + a * acc, reversed(list(alphas)), 1.0)


def speedup(alpha, k, c):
    return expected_tokens(alpha, k) / (1 + c * k)


def best_k(alpha, c, k_max=32):
    table = np.array([speedup(alpha, k, c) for k in range(k_max + 1)])
    k = int(np.flatnonzero(table >= table.max() - 1e-12)[0])
    return k, float(table[k])


def estimate_alpha(accepted, k):
    a = np.asarray(accepted, dtype=int)
    if np.any((a < 0) | (a > k)):
        raise ValueError("count out of range")
    judged = np.minimum(a + 1, k).sum()
    return float(a.sum() / judged) if judged > 0 else float("nan")


def batched_speedup(alpha, k, c, batch, step_time):
    rate_plain = 1 / step_time(batch)
    rate_spec = expected_tokens(alpha, k) / (k * c * step_time(batch) + step_time(batch * (k + 1)))
    return rate_spec / rate_plain


def best_two_level(alpha_step, c_step, alpha_token, c_token, budget):
    s = [speedup(alpha_step, k, c_step) for k in range(budget)]
    t = [speedup(alpha_token, k, c_token) for k in range(budget)]
    pairs = [(a, b, s[a] * t[b]) for a in range(budget) for b in range(budget) if (a + 1) * (b + 1) <= budget]
    top = max(p[2] for p in pairs)
    return next(p for p in pairs if p[2] >= top - 1e-12)
