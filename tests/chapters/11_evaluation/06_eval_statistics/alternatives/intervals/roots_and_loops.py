"""Wilson by solving the quadratic, Clopper-Pearson by root finding on binomial tails, the rest with plain loops."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, special, stats


def wilson(successes, n, confidence=0.95):
    if n < 1 or successes < 0 or successes > n:
        raise ValueError("counts")
    z2 = stats.norm.isf((1 - confidence) / 2) ** 2
    p = successes / n
    # (p - q)^2 = z^2 q (1 - q) / n
    roots = np.roots([1 + z2 / n, -(2 * p + z2 / n), p * p])
    return float(max(0.0, roots.real.min())), float(min(1.0, roots.real.max()))


def clopper_pearson(successes, n, confidence=0.95):
    if n < 1 or successes < 0 or successes > n:
        raise ValueError("counts")
    tail = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if successes > 0:
        low = optimize.brentq(lambda q: special.bdtrc(successes - 1, n, q) - tail, 0, 1, xtol=1e-13)
    if successes < n:
        high = optimize.brentq(lambda q: special.bdtr(successes, n, q) - tail, 0, 1, xtol=1e-13)
    return low, high


def coverage(interval, p, n):
    total = 0.0
    for k in range(n + 1):
        low, high = interval(k, n)
        if low <= p <= high:
            total += math.comb(n, k) * p**k * (1 - p) ** (n - k)
    return total


def _quantile(ordered, level):
    position = level * (len(ordered) - 1)
    below = min(int(position), len(ordered) - 2)
    return ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])


def bootstrap(x, statistic, rng, *, resamples=2000, confidence=0.95, method="bca"):
    if method not in {"bca", "percentile"}:
        raise ValueError(method)
    n = x.shape[0]
    rows = [np.take(x, rng.integers(0, n, n)) for _ in range(resamples)]  # the same stream as one large draw
    ordered = sorted(float(v) for v in statistic(np.stack(rows)))
    if ordered[0] == ordered[-1]:
        return ordered[0], ordered[0]
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    if method == "bca":
        theta = float(statistic(x))
        jackknife = np.asarray(statistic(np.stack([np.delete(x, i) for i in range(n)])))
        d = jackknife.mean() - jackknife
        spread = np.sum(d * d)
        a = np.sum(d * d * d) / (6 * spread * math.sqrt(spread)) if spread > 0 else 0.0
        share = sum(1.0 if v < theta else 0.5 if v == theta else 0.0 for v in ordered) / resamples
        share = min(max(share, 0.5 / resamples), 1 - 0.5 / resamples)
        z0 = special.ndtri(share)
        w = [z0 + special.ndtri(tail) for tail in tails]
        tails = [special.ndtr(z0 + s / (1 - a * s)) for s in w]
    return _quantile(ordered, tails[0]), _quantile(ordered, tails[1])


def cluster_bootstrap_mean(scores, clusters, rng, *, resamples=2000, confidence=0.95):
    if len(scores) != len(clusters):
        raise ValueError("lengths")
    names = sorted(set(clusters))
    groups = [[s for s, c in zip(scores, clusters, strict=True) if c == name] for name in names]
    sums, sizes = [sum(g) for g in groups], [len(g) for g in groups]
    means = []
    for _ in range(resamples):
        drawn = rng.integers(0, len(names), len(names)).tolist()
        means.append(sum(sums[g] for g in drawn) / sum(sizes[g] for g in drawn))
    return tuple(np.percentile(means, [50 * (1 - confidence), 50 * (1 + confidence)]).tolist())
