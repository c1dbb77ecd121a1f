"""Python's own integers and statistics, a membership matrix for the clusters, hypergeometric shares as fractions."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
from scipy import stats


def standard_error(scores):
    if len(scores) <= 1:
        raise ValueError("at least two scores")
    return statistics.stdev(float(x) for x in scores) / len(scores) ** 0.5


def clustered_standard_error(scores, clusters):
    if len(scores) != len(clusters):
        raise ValueError("lengths differ")
    different = []
    for label in clusters:
        if label not in different:
            different.append(label)
    if len(different) < 2:
        raise ValueError("at least two clusters")
    member = np.array([[label == other for other in different] for label in clusters], dtype=float)
    e = np.array(scores, dtype=float)
    e -= e.mean()
    g = len(different)
    return float(np.linalg.norm(member.T @ e) / len(e) * np.sqrt(g / (g - 1)))


def mean_interval(scores, clusters=None, confidence=0.95):
    if clusters is None:
        se, df = standard_error(scores), len(scores) - 1
    else:
        se, df = clustered_standard_error(scores, clusters), len(set(clusters)) - 1
    m = sum(float(x) for x in scores) / len(scores)
    t = stats.t.isf((1 - confidence) / 2, df)
    return float(m - t * se), float(m + t * se)


def design_effect(scores, clusters):
    numerator = clustered_standard_error(scores, clusters) ** 2
    if min(scores) == max(scores):
        raise ValueError("no spread")
    return numerator / standard_error(scores) ** 2


def _g(n, c, j):
    # C(n - c, j) / C(n, j) = C(n - j, c) / C(n, c): take the one with fewer factors.
    a, b = sorted((c, j))
    return Fraction(math.perm(n - b, a), math.perm(n, a))


def pass_at_k(n, c, k):
    if k < 1 or k > n or c < 0 or c > n:
        raise ValueError("counts")
    return float(1 - _g(n, c, k))


def pass_at_k_variance(n, c, k):
    pass_at_k(n, c, k)
    if 2 * k > n:
        raise ValueError("2k > n")
    return float(_g(n, c, k) ** 2 - _g(n, c, 2 * k))


def benchmark_pass_at_k(counts, k):
    v = [pass_at_k(n, c, k) for n, c in counts]
    noise = math.fsum(pass_at_k_variance(n, c, k) for n, c in counts)
    se = standard_error(v)
    return {"se_answers": noise**0.5 / len(v), "se_questions": se, "mean": math.fsum(v) / len(v)}
