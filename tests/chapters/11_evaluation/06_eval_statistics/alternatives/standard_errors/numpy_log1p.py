"""numpy; clusters grouped in a dict; pass@k by log1p over the k factors 1 - c/(n-i) and expm1."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def standard_error(scores):
    x = np.asarray(scores, dtype=float)
    if x.size < 2:
        raise ValueError("at least two scores")
    return float(x.std(ddof=1) / math.sqrt(x.size))


def clustered_standard_error(scores, clusters):
    x = np.asarray(scores, dtype=float)
    if len(x) != len(clusters):
        raise ValueError("lengths differ")
    sums = {}
    mean = x.mean() if len(x) else 0.0
    for s, c in zip(x, clusters):
        sums[c] = sums.get(c, 0.0) + (s - mean)
    g = len(sums)
    if g < 2:
        raise ValueError("at least two clusters")
    return math.sqrt(g / (g - 1) * sum(s * s for s in sums.values())) / len(x)


def mean_interval(scores, clusters=None, confidence=0.95):
    if clusters is None:
        se, df = standard_error(scores), len(scores) - 1
    else:
        se, df = clustered_standard_error(scores, clusters), len(set(clusters)) - 1
    mean = float(np.mean(np.asarray(scores, dtype=float)))
    h = float(stats.t.ppf((1 + confidence) / 2, df)) * se
    return mean - h, mean + h


def design_effect(scores, clusters):
    top = clustered_standard_error(scores, clusters)
    if min(scores) == max(scores):
        raise ValueError("all scores are equal")
    return (top / standard_error(scores)) ** 2


def _g(n, c, j):
    """share of the j-subsets without a right answer, as a logarithm"""
    if j > n - c:
        return -math.inf
    a, b = max(c, j), min(c, j)
    return float(np.log1p(-a / (n - np.arange(b))).sum())


def pass_at_k(n, c, k):
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError("1 <= k <= n and 0 <= c <= n")
    return -math.expm1(_g(n, c, k)) + 0.0


def pass_at_k_variance(n, c, k):
    pass_at_k(n, c, k)
    if 2 * k > n:
        raise ValueError("2k > n")
    return max(0.0, math.exp(2 * _g(n, c, k)) - math.exp(_g(n, c, 2 * k)))


def benchmark_pass_at_k(counts, k):
    if len(counts) < 2:
        raise ValueError("at least two questions")
    v = [pass_at_k(n, c, k) for n, c in counts]
    var = [pass_at_k_variance(n, c, k) for n, c in counts]
    return {
        "mean": sum(v) / len(v),
        "se_questions": standard_error(v),
        "se_answers": math.sqrt(sum(var)) / len(v),
    }
