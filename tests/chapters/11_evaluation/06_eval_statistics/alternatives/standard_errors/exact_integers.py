"""No numpy: statistics and math.fsum, defaultdict, pass@k by exact integer binomials (math.comb) divided once."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from fractions import Fraction

from scipy.special import stdtrit


def standard_error(scores):
    x = [float(s) for s in scores]
    if len(x) < 2:
        raise ValueError
    return statistics.stdev(x) / len(x) ** 0.5


def clustered_standard_error(scores, clusters):
    x, labels = [float(s) for s in scores], list(clusters)
    if len(x) != len(labels):
        raise ValueError
    groups = defaultdict(list)
    for s, c in zip(x, labels):
        groups[c].append(s)
    G = len(groups)
    if G < 2:
        raise ValueError
    mean = math.fsum(x) / len(x)
    total = math.fsum((math.fsum(m) - len(m) * mean) ** 2 for m in groups.values())
    return (G / (G - 1) * total) ** 0.5 / len(x)


def mean_interval(scores, clusters=None, confidence=0.95):
    if clusters is None:
        se, df = standard_error(scores), len(scores) - 1
    else:
        se, df = clustered_standard_error(scores, clusters), len({*clusters}) - 1
    mean = statistics.fmean(map(float, scores))
    t = float(stdtrit(df, 0.5 + confidence / 2))
    return (mean - t * se, mean + t * se)


def design_effect(scores, clusters):
    num = clustered_standard_error(scores, clusters) ** 2
    if len({float(s) for s in scores}) == 1:
        raise ValueError
    return num / standard_error(scores) ** 2


def _check(n, c, k):
    if k < 1 or k > n or c < 0 or c > n:
        raise ValueError


def pass_at_k(n, c, k):
    _check(n, c, k)
    total = math.comb(n, k)
    return (total - math.comb(n - c, k)) / total


def pass_at_k_variance(n, c, k):
    _check(n, c, k)
    if 2 * k > n:
        raise ValueError
    a, b, x, y = math.comb(n - c, k), math.comb(n, k), math.comb(n - c, 2 * k), math.comb(n, 2 * k)
    if n <= 2000:
        return float(Fraction(a, b) ** 2 - Fraction(x, y))
    return max(0.0, (a / b) ** 2 - x / y)


def benchmark_pass_at_k(counts, k):
    counts = list(counts)
    v = [pass_at_k(n, c, k) for n, c in counts]
    return {
        "mean": statistics.fmean(v) if v else 0.0,
        "se_questions": standard_error(v),
        "se_answers": sum(pass_at_k_variance(n, c, k) for n, c in counts) ** 0.5 / len(v),
    }
